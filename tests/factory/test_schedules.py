"""Who may schedule what, and what is kept of their rights. tests/factory/test_scheduled_runs.py has the runs."""

from __future__ import annotations

from typing import Any, cast

import pytest

from holdfast.contract.call import Caller
from holdfast.contract.enums import State
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.factory.chat import open_chat
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.runtime.runtime import Runtime
from holdfast.store.schedules import ScheduleStore
from tests.agent.scripted_model import ScriptedModel
from tests.factory.chat_project import ChatProject
from tests.factory.schedule_project import READ, add, configure, fire, only_schedule, within
from tests.runtime.support import run, yes

pytestmark = pytest.mark.spec("B14k")


@pytest.fixture(autouse=True)
def _configured(chat_project: ChatProject) -> None:
    configure(chat_project)
    (chat_project.root / "notes.txt").write_text("remember\n")


def test_adding_and_removing_need_approval_and_nothing_changes_before(chat_project: ChatProject) -> None:
    configure(chat_project, "[tools]\nprofile = 'full'\n")

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


def test_a_scheduled_call_cannot_change_schedules(chat_project: ChatProject) -> None:
    async def work(runtime: Runtime) -> None:
        scheduled = await add(runtime, tool="cron.add", arguments='{"expression": "@daily", "tool": "file.read"}')
        assert scheduled.error == "A schedule cannot list or change schedules."
        caller = Caller(interface="cron")
        for name, args in (("cron.add", {"expression": "@daily", "tool": "file.read"}), ("cron.remove", {"id": "x"})):
            result = await runtime.call(name, cast(Args, args), caller=caller)
            assert result.error == "A scheduled call cannot change schedules."

    within(chat_project, work)


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
