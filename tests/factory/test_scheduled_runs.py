"""Runs of schedules in a project: the rules that apply, and what happens to a run that needs a person."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

import pytest

from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.factory import scheduled_runs
from holdfast.factory.chat import open_chat
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.factory.scheduled_runs import ScheduledRuns
from holdfast.runtime.runtime import Runtime
from holdfast.store.schedules import DueRun
from tests.agent.scripted_model import ScriptedModel, scripted_reply, use
from tests.factory.chat_project import ChatProject
from tests.factory.schedule_project import CONFIG, READ, SHELL, add, configure, fire, only_schedule, within
from tests.runtime.support import run

pytestmark = pytest.mark.spec("B14k")


@pytest.fixture(autouse=True)
def _configured(chat_project: ChatProject) -> None:
    configure(chat_project)
    (chat_project.root / "notes.txt").write_text("remember\n")


def test_a_scheduled_call_passes_the_pipeline_and_is_recorded_with_its_schedule(chat_project: ChatProject) -> None:
    async def work(runtime: Runtime) -> None:
        added = await add(runtime, tool="read", arguments=READ)
        assert added.success, added.error
        (outcome,) = await fire(runtime)
        assert runtime.ledger is not None and (outcome.state, outcome.message) == ("done", "")
        schedule = only_schedule(runtime)
        record = runtime.ledger.call(outcome.call or "")
        assert record.call.tool == "file.read" and record.call.request == f"cron:{schedule.id}"
        assert (record.call.caller.interface, record.call.caller.session) == ("cron", f"cron-{schedule.id}")
        assert record.result is not None and "remember" in record.result.output
        listed = await runtime.call("cron.list")
        assert cast("dict[str, Any]", listed.structured)["schedules"][0]["state"] == "done"
        assert schedule.call == added.call_id and schedule.by.startswith("python:")
        assert (await runtime.call("cron.remove", {"id": schedule.id})).success
        assert (await runtime.call("cron.list")).output == "No schedules."
        assert runtime.ledger.verify().ok

    within(chat_project, work)


def test_a_run_that_needs_a_person_is_pending_and_takes_place_when_approved(chat_project: ChatProject) -> None:
    made = chat_project.root / "made"

    async def work(runtime: Runtime) -> None:
        assert (await add(runtime, tool="shell.exec", arguments=SHELL)).success
        (outcome,) = await fire(runtime)
        assert outcome.state == "pending" and outcome.call is not None and not made.exists()
        assert await fire(runtime) == [], "not asked again while the question is open"
        result = await runtime.approve(outcome.call, by="ann")
        assert result.success, result.error
        assert made.exists()
        listed = cast("dict[str, Any]", (await runtime.call("cron.list")).structured)["schedules"][0]
        assert (listed["state"], listed["missed"]) == ("done", 1)
        assert "still pending" in listed["missed_note"]

    within(chat_project, work)


def test_policy_at_the_time_of_the_run_wins(chat_project: ChatProject) -> None:
    within(chat_project, lambda runtime: add(runtime, tool="file.read", arguments=READ))
    configure(chat_project, CONFIG.replace("profile = 'full'", "profile = 'full'\ndeny = ['file.read']"))
    (outcome,) = within(chat_project, fire)
    assert outcome.state == "denied" and "not allowed by tool policy" in outcome.message


def test_a_tool_that_a_schedule_calls_cannot_change_schedules_either(chat_project: ChatProject) -> None:
    answers: list[str] = []

    async def nest(args: Args, ctx: Any) -> str:
        result = await ctx.call("cron.add", {"expression": "@daily", "tool": "file.read", "arguments": READ})
        answers.append(result.error or "")
        return "tried"

    nested = Tool(name="nest.it", execute=nest, effects=frozenset())
    allowed = {"approval.auto_approve": ["$default", "cron.*", "nest.it"]}

    async def session() -> None:
        project = load_project(chat_project.root, allowed)
        async with build_runtime(project, tools=[nested], nobody="pending") as runtime:
            assert (await add(runtime, tool="nest.it")).success
            assert [outcome.state for outcome in await fire(runtime)] == ["done"]

    run(session())
    assert answers == ["A scheduled call cannot change schedules."]


def scripted(monkeypatch: pytest.MonkeyPatch, *replies: Any) -> ScriptedModel:
    """Let scheduled documents talk to a scripted model."""
    model, advance = ScriptedModel(*replies), scheduled_runs.advance_document

    def advance_scripted(*args: Any, **options: Any) -> Awaitable[Any]:
        return advance(*args, **options, model=model)

    monkeypatch.setattr(scheduled_runs, "advance_document", advance_scripted)
    return model


def test_a_document_is_advanced_and_its_pending_calls_stay_pending(
    chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_project.write("@You:\nGo.\n")
    scripted(monkeypatch, scripted_reply(use("a", "shell.exec", SHELL)))

    async def work(runtime: Runtime) -> None:
        assert (await add(runtime, document="talk.chat", message="Again.")).success
        (outcome,) = await fire(runtime)
        assert (outcome.state, outcome.call) == ("pending", None)
        (pending,) = runtime.pending.list()
        assert pending.call.caller.interface == "cron" and pending.call.caller.document == str(chat_project.document)

    within(chat_project, work)
    text = chat_project.document.read_text()
    assert "Again." not in text, "the document waited for the model, and now for a person"
    assert "status=pending" in text


def test_the_message_is_said_each_time_the_document_has_come_to_rest(
    chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_project.write("@You:\nGo.\n\n@Assistant:\nDone.\n")
    model = scripted(monkeypatch, scripted_reply("First."), scripted_reply("Second."))

    async def work(runtime: Runtime) -> None:
        assert (await add(runtime, document="talk.chat", message="Check the inbox.")).success
        for _ in range(2):
            assert [outcome.state for outcome in await fire(runtime)] == ["done"]

    within(chat_project, work)
    assert len(model.requests) == 2 and chat_project.document.read_text().count("Check the inbox.") == 2


def test_a_model_in_a_scheduled_document_cannot_make_schedules(
    chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_project.write("@You:\nGo.\n")
    args = '{"expression": "@daily", "tool": "file.read", "arguments": "{}"}'
    scripted(monkeypatch, scripted_reply(use("a", "cron.add", args)), scripted_reply("Done."))

    async def work(runtime: Runtime) -> None:
        assert (await add(runtime, document="talk.chat")).success
        assert [outcome.state for outcome in await fire(runtime)] == ["done"]
        assert only_schedule(runtime).work.document is not None

    within(chat_project, work)
    assert "A scheduled call cannot change schedules." in chat_project.document.read_text()


def test_a_call_scheduled_in_a_document_keeps_the_rules_of_that_document(chat_project: ChatProject) -> None:
    chat_project.write('```toml\n[approval]\nauto_approve = ["cron.*"]\n```\n\n@You:\nGo.\n')
    chat_project.trust()

    async def make() -> None:
        async with open_chat(chat_project.document, model=ScriptedModel()) as chat:
            added = await add(chat.runtime, chat.runtime.caller, tool="file.read", arguments=READ)
            assert added.success, added.error

    run(make())
    (outcome,) = within(chat_project, fire)
    assert outcome.state == "pending", "the project approves reading, the document does not"
    within(chat_project, lambda runtime: runtime.reject(outcome.call or "", by="ann"))
    chat_project.document.unlink()
    with pytest.raises(HoldfastError):
        within(chat_project, fire)


NO_READING = {"tools.deny": ["file.read"]}


def test_the_options_of_the_process_apply_to_a_call_scheduled_in_a_document(chat_project: ChatProject) -> None:
    chat_project.write("@You:\nGo.\n")

    async def make() -> None:
        async with open_chat(chat_project.document, model=ScriptedModel()) as chat:
            assert (await add(chat.runtime, chat.runtime.caller, tool="file.read", arguments=READ)).success

    run(make())
    assert [outcome.state for outcome in within(chat_project, fire)] == ["done"]
    (outcome,) = within(chat_project, lambda runtime: fire(runtime, NO_READING))
    assert outcome.state == "denied" and "not allowed by tool policy" in outcome.message


def test_the_options_of_the_process_apply_to_a_scheduled_document(
    chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_project.write("@You:\nGo.\n")
    scripted(monkeypatch, scripted_reply(use("a", "file.read", READ)), scripted_reply("Done."))

    async def work(runtime: Runtime) -> None:
        assert (await add(runtime, document="talk.chat")).success
        assert [outcome.state for outcome in await fire(runtime, NO_READING)] == ["done"]

    within(chat_project, work)
    text = chat_project.document.read_text()
    assert "remember" not in text and "not allowed by tool policy" in text


def test_a_call_id_is_used_once(chat_project: ChatProject) -> None:
    async def work(runtime: Runtime) -> None:
        assert (await add(runtime, tool="file.read", arguments=READ)).success
        due = DueRun(schedule=only_schedule(runtime), due=120.0, call_id="once-2")
        runs = ScheduledRuns(runtime)
        assert (await runs.run(due)).state == "done"
        assert "already used" in (await runs.run(due)).message

    within(chat_project, work)
