"""Held calls: the four answers, an approval bound to exactly what was shown, and used once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Answer, Attachment, Config, PendingCall, Precondition, Proposal, Result, Risk, Runtime, State, Tool
from holdfast.config.config import ApprovalConfig, ConfirmationConfig, SandboxConfig
from holdfast.contract.enums import Failure
from holdfast.contract.errors import CallError, InvalidArguments, NotPending, StaleApproval, UnknownCall
from tests.runtime.support import add, open_ledger, recorder, run, runtime_in, until_held, yes


def _parked(folder: Path, *tools: Tool, **options: Any) -> tuple[Runtime, PendingCall]:
    runtime = runtime_in(folder, *tools, nobody="pending", **options)
    result = run(runtime.call(tools[0].name, {"text": "hello"}))
    assert (result.state, result.exit_code) == (State.PENDING, 4)
    (held,) = runtime.pending.list()
    return runtime, held


@pytest.mark.spec("A15a")
def test_a_library_with_nobody_to_ask_denies_at_once_and_says_why() -> None:
    note, seen = recorder()
    result = run(Runtime(tools=[note]).call("note", {"text": "x"}))
    assert (result.state, result.failure, result.exit_code) == (State.DENIED, Failure.NOBODY_TO_ASK, 3)
    assert "nobody is there to ask" in (result.error or "")
    assert seen == []


@pytest.mark.spec("A15a", "A13a")
def test_a_parked_call_says_how_to_approve_it_and_waits_in_the_ledger(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, held = _parked(tmp_path, note)
    assert seen == []
    assert held.preview == 'note: text="hello"'
    again = open_ledger(tmp_path / "state")
    assert [item.call.id for item in again.pending()] == [held.call.id]
    assert runtime.pending.list() == again.pending()


@pytest.mark.spec("A12", "A14")
def test_the_four_answers(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")

    def make_pending() -> str:
        return run(runtime.call("note", {"text": "hello"})).call_id

    approved = run(runtime.approve(make_pending(), by="ann"))
    assert (approved.state, approved.output) == (State.DONE, "noted hello")
    edited = run(runtime.approve(make_pending(), by="ann", args={"text": "changed"}))
    assert edited.output == "noted changed"
    rejected = run(runtime.reject(make_pending(), "not now", by="ann"))
    assert (rejected.state, rejected.error, rejected.exit_code) == (State.REJECTED, "not now", 3)
    answered = run(runtime.respond(make_pending(), "did it by hand", by="ann"))
    assert (answered.state, answered.output) == (State.DONE, "did it by hand")
    assert seen == [{"text": "hello"}, {"text": "changed"}]
    assert runtime.pending.list() == []
    assert runtime.ledger is not None
    assert runtime.ledger.verify().ok


@pytest.mark.spec("A14")
def test_a_rejection_without_words_has_the_seeds_words(tmp_path: Path) -> None:
    note, _ = recorder()
    runtime, held = _parked(tmp_path, note)
    assert run(runtime.reject(held.call.id)).error == "This tool has been rejected by the user."


@pytest.mark.spec("A9")
def test_a_refused_confirmation_of_a_hook_has_the_seeds_words(tmp_path: Path) -> None:
    note, seen = recorder(effects=frozenset())
    runtime, held = _parked(tmp_path, note, config=Config(confirmation=ConfirmationConfig(actions={"note": "confirm"})))
    assert runtime.visible()[0].name == "note"
    assert run(runtime.reject(held.call.id)).error == "Tool execution cancelled by user"
    assert seen == []


@pytest.mark.spec("A9")
def test_a_logged_tool_is_logged_when_it_executes_and_a_silent_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "holdfast")
    note, _ = recorder(effects=frozenset())
    runtime = Runtime(tools=[note, add], config=Config(confirmation=ConfirmationConfig(actions={"note": "log"})))
    run(runtime.call("add", {"a": 1}))
    assert caplog.messages == []
    run(runtime.call("note", {"text": "x"}))
    assert len(caplog.messages) == 1
    assert "Tool 'note' runs" in caplog.messages[0]


@pytest.mark.spec("A9")
def test_a_call_whose_proposal_is_of_high_risk_is_logged_though_its_tool_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "holdfast")

    def propose(args: Any, ctx: Any) -> Proposal:
        return Proposal(tool_name="send", summary="send", risk=Risk(args["risk"]), payload={})

    send = Tool(name="send", propose=propose, apply=lambda payload, ctx: "sent", effects=frozenset({"external"}))
    runtime = Runtime(tools=[send], config=Config(approval=ApprovalConfig(auto_approve=("send",))))
    assert run(runtime.call("send", {"risk": "low"})).success
    assert caplog.messages == []
    assert run(runtime.call("send", {"risk": "high"})).success
    assert len(caplog.messages) == 1 and "Tool 'send' runs" in caplog.messages[0]


@pytest.mark.spec("A9")
def test_a_confirmation_is_asked_for_when_the_call_executes_whoever_approved_it(tmp_path: Path) -> None:
    """The tool stays listed, and a list, no effects and switched-off approval do not take the question away."""
    note, seen = recorder(effects=frozenset())
    free = ApprovalConfig(auto_approve=("*",), require_approval=False)
    config = Config(approval=free, confirmation=ConfirmationConfig(actions={"note": "confirm"}))
    runtime, held = _parked(tmp_path, note, config=config)
    assert [tool.name for tool in runtime.visible()] == ["note"] and seen == []
    assert run(runtime.approve(held.call.id)).success and len(seen) == 1


@pytest.mark.spec("A14")
def test_edited_arguments_are_validated_and_judged_again(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, held = _parked(tmp_path, note)
    with pytest.raises(InvalidArguments, match="text is missing"):
        run(runtime.approve(held.call.id, args={}))

    def no_evil(name: str, args: Any, ctx: Any) -> str | None:
        return "deny" if args.get("text") == "evil" else None

    runtime.approvals.register("no-evil", no_evil, priority=200)
    with pytest.raises(CallError, match="The changed call would not run"):
        run(runtime.approve(held.call.id, args={"text": "evil"}))
    assert runtime.pending.list()[0].digest == held.digest
    assert seen == []


@pytest.mark.spec("A12")
def test_an_approval_is_used_once(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, held = _parked(tmp_path, note)
    run(runtime.approve(held.call.id))
    with pytest.raises((NotPending, UnknownCall)):
        run(runtime.approve(held.call.id))
    assert len(seen) == 1


@pytest.mark.spec("A12")
def test_a_yes_to_something_else_than_was_shown_is_refused(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, held = _parked(tmp_path, note)
    with pytest.raises(StaleApproval):
        run(runtime.answer(held.call.id, Answer(kind="approve", by="ann"), digest="0" * 64))
    assert run(runtime.approve(held.call.id)).success
    assert len(seen) == 1


def _approve_only(runtime: Runtime, held: PendingCall) -> None:
    """The answer is recorded, and nothing runs yet: as when the person answers while the program is away."""
    ledger = runtime.ledger
    assert ledger is not None
    ledger.answer(held.call.id, Answer(kind="approve", by="ann"), digest=held.digest)


def _refused_as_stale(runtime: Runtime, held: PendingCall) -> None:
    (result,) = run(runtime.lifecycle.resume_all())
    assert (result.state, result.failure) == (State.PENDING, Failure.STALE)
    (now,) = runtime.pending.list()
    assert now.call.id == held.call.id
    assert now.digest != held.digest
    assert now.state is State.PENDING


@pytest.mark.spec("A12")
def test_an_approval_holds_when_nothing_has_changed(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, held = _parked(tmp_path, note)
    _approve_only(runtime, held)
    (result,) = run(runtime_in(tmp_path, note).lifecycle.resume_all())
    assert result.output == "noted hello"
    assert seen == [{"text": "hello"}]


@pytest.mark.spec("A12")
def test_a_changed_definition_refuses_the_run(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, held = _parked(tmp_path, note)
    _approve_only(runtime, held)
    _refused_as_stale(runtime_in(tmp_path, note.with_(description="Write a note, and mail it.")), held)
    assert seen == []


@pytest.mark.spec("A12")
def test_changed_arguments_refuse_the_run(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, held = _parked(tmp_path, note)
    _approve_only(runtime, held)
    again = runtime_in(tmp_path, note)
    ledger = again.ledger
    assert ledger is not None
    (approved,) = ledger.pending()
    approved.call.args["text"] = "something else"
    outcome = run(again.lifecycle.resume(approved))
    assert outcome is not None and outcome.failure is Failure.STALE
    (now,) = again.pending.list()
    assert now.digest != held.digest
    assert seen == []


@pytest.mark.spec("A12")
def test_a_changed_working_directory_refuses_the_run(tmp_path: Path) -> None:
    note, seen = recorder()
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    link = tmp_path / "link"
    link.symlink_to(here)
    runtime, held = _parked(tmp_path, note, cwd=link)
    _approve_only(runtime, held)
    link.unlink()
    link.symlink_to(there)
    _refused_as_stale(runtime_in(tmp_path, note), held)
    assert seen == []


@pytest.mark.spec("A12")
def test_a_changed_sandbox_profile_refuses_the_run(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, held = _parked(tmp_path, note)
    _approve_only(runtime, held)
    looser = Config(sandbox=SandboxConfig(network="on"))
    _refused_as_stale(runtime_in(tmp_path, note, config=looser), held)
    assert seen == []


def _two_phase(fact: dict[str, str]) -> tuple[Tool, list[Any]]:
    applied: list[Any] = []

    async def propose(args: Any, ctx: Any) -> Proposal:
        return Proposal(
            tool_name="deploy",
            summary="deploy it",
            risk=Risk.MEDIUM,
            payload={"what": "release"},
            preconditions=(Precondition(kind="version", subject="server", value=fact["version"]),),
        )

    async def apply(payload: Any, ctx: Any) -> str:
        applied.append(payload)
        return "deployed"

    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    deploy = Tool(name="deploy", propose=propose, apply=apply, input_schema=schema, effects=frozenset({"external"}))
    return deploy, applied


@pytest.mark.spec("A12", "T5")
def test_a_changed_precondition_refuses_the_run(tmp_path: Path) -> None:
    fact = {"version": "1"}
    deploy, applied = _two_phase(fact)
    runtime, held = _parked(tmp_path, deploy)
    _approve_only(runtime, held)
    fact["version"] = "2"
    _refused_as_stale(runtime_in(tmp_path, deploy), held)
    assert applied == []


@pytest.mark.spec("T5")
def test_a_two_phase_tool_proposes_before_anyone_is_asked_and_applies_the_payload(tmp_path: Path) -> None:
    deploy, applied = _two_phase({"version": "1"})
    shown: list[PendingCall] = []

    async def asker(held: PendingCall) -> Answer:
        assert applied == []
        shown.append(held)
        return Answer(kind="approve", by="ann")

    result = run(runtime_in(tmp_path, deploy, asker=asker).call("deploy"))
    assert (result.output, applied) == ("deployed", [{"what": "release"}])
    assert shown[0].proposal is not None
    assert shown[0].proposal.summary == "deploy it"


@pytest.mark.spec("T5")
def test_a_proposal_that_is_already_an_answer_needs_nobody(tmp_path: Path) -> None:
    async def propose(args: Any, ctx: Any) -> Result:
        return Result(False, error="nothing to deploy")

    async def apply(payload: Any, ctx: Any) -> str:
        raise AssertionError

    deploy = Tool(name="deploy", propose=propose, apply=apply)
    result = run(runtime_in(tmp_path, deploy).call("deploy"))
    assert (result.state, result.error) == (State.FAILED, "nothing to deploy")


@pytest.mark.spec("A14")
def test_an_asker_is_shown_the_call_and_its_answer_counts(tmp_path: Path) -> None:
    note, seen = recorder()
    assert run(runtime_in(tmp_path, note, asker=yes()).call("note", {"text": "a"})).output == "noted a"

    async def no(held: PendingCall) -> Answer:
        return Answer(kind="reject", by="bob", message="no")

    refused = run(runtime_in(tmp_path, note, asker=no).call("note", {"text": "b"}))
    assert (refused.state, refused.error) == (State.REJECTED, "no")
    assert seen == [{"text": "a"}]


@pytest.mark.spec("A15a")
def test_an_asker_without_an_answer_leaves_the_call_waiting(tmp_path: Path) -> None:
    note, seen = recorder()

    async def shrugs(held: PendingCall) -> None:
        return None

    async def breaks(held: PendingCall) -> None:
        raise RuntimeError("no terminal")

    for asker in (shrugs, breaks):
        assert run(runtime_in(tmp_path, note, asker=asker).call("note", {"text": "a"})).state is State.PENDING
    assert seen == []


@pytest.mark.spec("A13a")
def test_the_first_answer_counts_whichever_door_it_comes_from(tmp_path: Path) -> None:
    note, seen = recorder()

    async def main() -> tuple[Result, Result]:
        asking: asyncio.Future[PendingCall] = asyncio.get_running_loop().create_future()

        async def slow(held: PendingCall) -> Answer:
            asking.set_result(held)
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        runtime = runtime_in(tmp_path, note, asker=slow)
        call = asyncio.create_task(runtime.call("note", {"text": "a"}))
        held = await asking
        other = runtime_in(tmp_path, note)
        return await other.reject(held.call.id, "from the other interface", by="bob"), await call

    there, here = run(main())
    assert there.error == here.error == "from the other interface"
    assert seen == []


@pytest.mark.spec("X12", "T1")
def test_a_definition_only_tool_is_finished_from_outside(tmp_path: Path) -> None:
    async def main() -> tuple[Result, Result]:
        asks = Tool(name="asks", effects=frozenset({"person"}))
        runtime = runtime_in(tmp_path, asks, nobody="wait")
        held, call = await until_held(runtime, runtime.call("asks", request="turn-7", given_id="toolu_1"))
        with pytest.raises(UnknownCall):
            await runtime.resolve("turn-8", "toolu_1", "wrong turn")
        with pytest.raises(CallError, match="waits for its result"):
            await runtime.approve(held.call.id)
        return await runtime.resolve("turn-7", "toolu_1", "blue"), await call

    finished, waited = run(main())
    assert finished.output == waited.output == "blue"
    assert waited.state is State.DONE


@pytest.mark.spec("A12")
def test_without_a_ledger_held_calls_wait_in_memory() -> None:
    note, seen = recorder()
    runtime = Runtime(tools=[note], nobody="pending")
    held = run(runtime.call("note", {"text": "a"}))
    assert run(runtime.approve(held.call_id)).output == "noted a"
    assert len(seen) == 1


@pytest.mark.spec("X13")
def test_a_held_call_is_summed_up_by_the_proposal_the_tool_or_its_arguments(tmp_path: Path) -> None:
    def broken(args: Any) -> str:
        raise RuntimeError("no words")

    def own(args: Any) -> str:
        return f"lists {args['text']}"

    async def execute(args: Any) -> str:
        return "ok"

    def summed_up(tool: Tool) -> str:
        runtime = runtime_in(tmp_path / tool.name, tool, nobody="pending")
        run(runtime.call(tool.name, {"command": "ls -l", "text": "x"}))
        return runtime.pending.list()[0].summary

    for name in ("plain", "own", "broken", "deploy"):
        (tmp_path / name).mkdir()
    plain = Tool(name="plain", execute=execute)
    deploy, _ = _two_phase({"version": "1"})
    assert summed_up(plain) == "ls -l"
    assert summed_up(plain.with_(name="own", summary=own)) == "lists x"
    assert summed_up(plain.with_(name="broken", summary=broken)) == "ls -l"
    assert summed_up(deploy) == "deploy it"


@pytest.mark.spec("A23", "X12")
def test_a_call_is_finished_from_outside_only_where_its_name_means_one_call(tmp_path: Path) -> None:
    """Models and clients choose ids: twice the same, one that has ended, or one that another call has in the ledger."""
    ask = Tool(name="ask", input_schema={"type": "object"}, effects=frozenset({"person"}))
    runtime = runtime_in(tmp_path, ask, nobody="pending")

    def asked(given_id: str, request: str = "r") -> str:
        return run(runtime.call("ask", {}, request=request, given_id=given_id)).call_id

    first, second = asked("c1"), asked("c11")
    assert run(runtime.resolve("r", "c1", "one")).call_id == first
    for name in ("c1", "c"):
        with pytest.raises(UnknownCall):
            run(runtime.resolve("r", name, "again"))
    twice = asked("c1")
    with pytest.raises(UnknownCall, match="Several calls"):
        run(runtime.resolve("r", "c1", "which?"))
    forged = asked(second)
    with pytest.raises(UnknownCall, match="Several calls"):
        run(runtime.resolve("r", second, "which?"))
    assert run(runtime.resolve("r", twice, "by the ledger's id")).call_id == twice
    elsewhere = asked("c1", "another request")
    assert run(runtime.resolve("another request", "c1", "there it means one")).call_id == elsewhere
    assert [held.call.id for held in runtime.pending.list()] == [second, forged]


@pytest.mark.parametrize("kept", [True, False])
def test_what_is_suggested_can_work_where_the_call_waits(tmp_path: Path, kept: bool) -> None:
    note, _ = recorder()
    tools = [note, Tool(name="ask.colleague")]
    runtime = runtime_in(tmp_path, *tools, nobody="pending") if kept else Runtime(tools=tools, nobody="pending")
    waiting = run(runtime.call("note", {"text": "x"}))
    asked = run(runtime.call("ask.colleague"))
    with pytest.raises(CallError) as no_yes:
        run(runtime.approve(asked.call_id))
    with pytest.raises(UnknownCall) as unknown:
        run(runtime.approve("nothing"))
    missing = run(runtime.call("nothing.like.it"))
    told = [waiting.error or "", asked.error or "", str(no_yes.value), str(unknown.value), missing.error or ""]
    commands = [
        f"holdfast approve {waiting.call_id}", *[f"holdfast respond {asked.call_id} TEXT"] * 2, "`holdfast pending`",
        "`holdfast tools`",
    ]  # fmt: skip
    calls = [
        f"runtime.approve({waiting.call_id!r})", *[f"runtime.respond({asked.call_id!r}, text)"] * 2,
        "`runtime.pending.list()`", "`runtime.visible()`",
    ]  # fmt: skip
    for text, command, call in zip(told, commands, calls, strict=True):
        assert (command in text, call in text) == (kept, not kept), text


@pytest.mark.spec("X12")
def test_a_call_resolved_from_outside_keeps_everything_in_its_result(tmp_path: Path) -> None:
    image = Attachment(kind="image", mime_type="image/png", data=b"png")
    whole = Result(True, "seen", structured={"n": 1}, metadata={"took": 3}, attachments=(image,))
    runtime = runtime_in(tmp_path, Tool(name="ask.colleague"), nobody="pending")

    def asked(name: str) -> str:
        return run(runtime.call("ask.colleague", request="r", given_id=name)).call_id

    first, second, third = asked("a"), asked("b"), asked("c")
    done = run(runtime.resolve("r", "a", whole))
    assert (done.output, done.structured, done.metadata, done.attachments, done.call_id) == (
        "seen", {"n": 1}, {"took": 3}, (image,), first,
    )  # fmt: skip
    assert runtime.ledger is not None and runtime.ledger.result(first) == done
    failed = run(runtime.resolve("r", "b", {"content": "no answer", "is_error": True, "metadata": {"tries": 2}}))
    assert (failed.success, failed.error, failed.metadata, failed.call_id) == (False, "no answer", {"tries": 2}, second)
    wrong: list[Any] = [5, None, {"answer": 1}, {"content": object(), "is_error": False}, b"bytes"]
    for value in wrong:
        with pytest.raises(CallError, match=r"resolved with a Result, text or \{content, is_error\}, not "):
            run(runtime.resolve("r", "c", value))
    assert run(runtime.resolve("r", "c", "at last")).call_id == third
