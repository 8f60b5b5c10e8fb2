"""Schedules in a project: who may make one, what it runs with, and what happens to a run that needs a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import pytest

from holdfast.contract.call import Caller
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.contract.schedules import Schedule
from holdfast.contract.tool import Tool
from holdfast.factory import schedules as factory_schedules
from holdfast.factory.chat import open_chat
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.factory.schedules import ScheduledRuns
from holdfast.runtime.runtime import Runtime
from holdfast.store.schedules import DueRun, RunOutcome, ScheduleStore
from tests.agent.scripted_model import ScriptedModel, scripted_reply, use
from tests.factory.chat_project import ChatProject
from tests.runtime.support import run, yes

pytestmark = pytest.mark.spec("B14k")
T = TypeVar("T")
ALLOWED = '["$default", "cron.*"]'
CONFIG = f"[tools]\nprofile = 'full'\n[approval]\nauto_approve = {ALLOWED}\n"
READ = '{"path": "notes.txt"}'
SHELL = '{"command": "touch made"}'


@pytest.fixture(autouse=True)
def _configured(chat_project: ChatProject) -> None:
    config = chat_project.root.parent / "config" / "holdfast"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(CONFIG)
    (chat_project.root / "notes.txt").write_text("remember\n")


def within(chat_project: ChatProject, work: Callable[[Runtime], Awaitable[T]], **options: Any) -> T:
    options.setdefault("nobody", "pending")

    async def session() -> T:
        async with build_runtime(load_project(chat_project.root), **options) as runtime:
            return await work(runtime)

    return run(session())


async def add(runtime: Runtime, caller: Caller | None = None, **args: Any) -> Result:
    given = {"expression": "* * * * *", "zone": "UTC", **args}
    return await runtime.call("cron.add", given, caller=caller)


async def fire(runtime: Runtime) -> list[RunOutcome]:
    """Run every schedule once, a minute after its time began."""
    assert runtime.ledger is not None
    store, runs = ScheduleStore(runtime.ledger), ScheduledRuns(runtime)
    outcomes: list[RunOutcome] = []
    claim = store.claim_due(max(status.next_at or 0 for status in store.list()))
    for due in claim.runs:
        outcomes.append(await runs.run(due))
        store.end(due, outcomes[-1])
    return outcomes


def only_schedule(runtime: Runtime) -> Schedule:
    assert runtime.ledger is not None
    (status,) = ScheduleStore(runtime.ledger).list()
    return status.schedule


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


def test_adding_and_removing_need_approval_and_nothing_changes_before(chat_project: ChatProject) -> None:
    (chat_project.root.parent / "config" / "holdfast" / "config.toml").write_text("[tools]\nprofile = 'full'\n")

    async def work(runtime: Runtime) -> None:
        added = await add(runtime, tool="file.read", arguments=READ)
        assert added.state is State.PENDING and runtime.ledger is not None
        assert ScheduleStore(runtime.ledger).list() == []
        (pending,) = runtime.pending.list()
        assert pending.proposal is not None and "Call: file.read\n  path: notes.txt" in pending.proposal.preview
        assert "Rights: those of this caller (interface python" in pending.proposal.preview
        assert (await runtime.approve(added.call_id, by="ann")).success
        removed = await runtime.call("cron.remove", {"id": only_schedule(runtime).id})
        assert removed.state is State.PENDING and len(ScheduleStore(runtime.ledger).list()) == 1
        await runtime.reject(removed.call_id, by="ann")
        assert len(ScheduleStore(runtime.ledger).list()) == 1

    within(chat_project, work)


NARROW = Caller(
    interface="mcp", agent="small", provider="p", only=frozenset({"cron.add", "file.read"}), autonomy="cautious"
)


def test_the_rights_of_the_maker_are_kept_and_never_widened(chat_project: ChatProject) -> None:
    async def work(runtime: Runtime) -> None:
        refused = await add(runtime, NARROW, tool="file.list", arguments='{"path": "."}')
        assert "not allowed by tool policy" in (refused.error or ""), "not even proposed"
        added = await add(runtime, NARROW, tool="file.read", arguments=READ)
        assert added.state is State.PENDING, "a cautious caller is asked"
        assert (await runtime.approve(added.call_id, by="ann")).success
        caller = only_schedule(runtime).caller
        assert (caller.agent, caller.provider, caller.autonomy) == ("small", "p", "cautious")
        assert (caller.interface, caller.only, caller.scopes) == ("cron", NARROW.only, frozenset())
        (outcome,) = await fire(runtime)
        assert outcome.state == "done" and outcome.call is not None

    within(chat_project, work)


def test_policy_at_the_time_of_the_run_wins(chat_project: ChatProject) -> None:
    within(chat_project, lambda runtime: add(runtime, tool="file.read", arguments=READ))
    config = chat_project.root.parent / "config" / "holdfast" / "config.toml"
    config.write_text(CONFIG.replace("profile = 'full'", "profile = 'full'\ndeny = ['file.read']"))
    (outcome,) = within(chat_project, fire)
    assert outcome.state == "denied" and "not allowed by tool policy" in outcome.message


def test_a_scheduled_call_cannot_change_schedules(chat_project: ChatProject) -> None:
    async def work(runtime: Runtime) -> None:
        scheduled = await add(runtime, tool="cron.add", arguments='{"expression": "@daily", "tool": "file.read"}')
        assert scheduled.error == "A schedule cannot list or change schedules."
        caller = Caller(interface="cron")
        for name, args in (("cron.add", {"expression": "@daily", "tool": "file.read"}), ("cron.remove", {"id": "x"})):
            result = await runtime.call(name, cast(Args, args), caller=caller)
            assert result.error == "A scheduled call cannot change schedules."

    within(chat_project, work)


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


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"tool": "file.raed", "arguments": READ}, "Did you mean 'file.read'?"),
        ({"tool": "file.read", "arguments": '{"path": 3, "x": 1}'}, "The arguments of 'file.read' are not valid"),
        ({"document": "../outside.chat"}, "outside"),
        ({"document": "missing.chat"}, "There is no document 'missing.chat'"),
    ],
)
def test_work_that_could_never_run_is_refused_when_it_is_added(
    chat_project: ChatProject, args: dict[str, Any], said: str
) -> None:
    result = within(chat_project, lambda runtime: add(runtime, **args))
    assert not result.success and said in (result.error or ""), result.error


def test_a_tool_that_needs_a_secret_of_another_caller_is_refused(chat_project: ChatProject) -> None:
    async def execute(args: Args) -> str:
        return "x"

    tool = Tool(name="s.t", execute=execute, required_secret_scopes=("key",))

    async def work(runtime: Runtime) -> Result:
        return await add(runtime, Caller(interface="mcp"), tool="s.t")

    result = within(chat_project, work, tools=[tool], asker=yes())
    assert "needs the secret 'key'" in (result.error or "")


def test_without_a_ledger_nothing_is_scheduled(chat_project: ChatProject) -> None:
    async def session() -> Result:
        async with build_runtime(load_project(chat_project.root, {"ledger.enabled": False})) as runtime:
            return await runtime.call("cron.list")

    assert "The ledger is disabled" in (run(session()).error or "")


# -------------------------------------------------------------------- documents


def scripted(monkeypatch: pytest.MonkeyPatch, *replies: Any) -> ScriptedModel:
    """Let scheduled documents talk to a scripted model."""
    model, advance = ScriptedModel(*replies), factory_schedules.advance_document

    def advance_scripted(*args: Any, **options: Any) -> Awaitable[Any]:
        return advance(*args, **options, model=model)

    monkeypatch.setattr(factory_schedules, "advance_document", advance_scripted)
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


def test_an_agent_can_schedule_only_its_own_document(chat_project: ChatProject) -> None:
    chat_project.write("@You:\nGo.\n")
    other = chat_project.root / "other.chat"
    other.write_text("@You:\nGo.\n")

    async def session() -> None:
        async with open_chat(chat_project.document, model=ScriptedModel()) as chat:
            caller = chat.runtime.caller
            refused = await add(chat.runtime, caller, document="other.chat")
            assert "only its own document" in (refused.error or "")
            assert (await add(chat.runtime, caller, document="talk.chat")).success
            schedule = only_schedule(chat.runtime)
            assert schedule.work.document == schedule.caller.document == str(chat_project.document)

    run(session())
    for caller in (Caller(skill="notes"), Caller(agent="small"), Caller(only=frozenset({"cron.add"})), NARROW):
        result = within(chat_project, lambda runtime, who=caller: add(runtime, who, document="other.chat"))
        assert not result.success


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


def test_a_call_id_is_used_once(chat_project: ChatProject) -> None:
    async def work(runtime: Runtime) -> None:
        assert (await add(runtime, tool="file.read", arguments=READ)).success
        due = DueRun(schedule=only_schedule(runtime), due=120.0, call_id="once-2")
        runs = ScheduledRuns(runtime)
        assert (await runs.run(due)).state == "done"
        assert "already used" in (await runs.run(due)).message

    within(chat_project, work)
