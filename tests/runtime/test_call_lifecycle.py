"""Pending calls: the four answers, and an approval that is bound to what was shown and used once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Answer, Attachment, Config, PendingCall, Precondition, Proposal, Result, Risk, Runtime, State, Tool
from holdfast.config.config import ApprovalConfig, ConfirmationConfig, SandboxConfig
from holdfast.contract.enums import Failure
from holdfast.contract.errors import CallError, InvalidArguments, NotPending, StaleApproval, UnknownCall
from tests.runtime.support import add, open_ledger, recorder, run, runtime_in, until_pending, yes


def _make_pending(folder: Path, *tools: Tool, **options: Any) -> tuple[Runtime, PendingCall]:
    runtime = runtime_in(folder, *tools, nobody="pending", **options)
    result = run(runtime.call(tools[0].name, {"text": "hello"}))
    assert (result.state, result.exit_code) == (State.PENDING, 4)
    (pending,) = runtime.pending.list()
    return runtime, pending


@pytest.mark.spec("A15a")
def test_without_an_interface_a_call_that_needs_approval_is_denied_with_the_reason() -> None:
    note, seen = recorder()
    result = run(Runtime(tools=[note]).call("note", {"text": "x"}))
    assert (result.state, result.failure, result.exit_code) == (State.DENIED, Failure.NOBODY_TO_ASK, 3)
    assert "nobody is there to ask" in (result.error or "")
    assert seen == []


@pytest.mark.spec("A15a", "A13a")
def test_a_pending_call_is_in_the_ledger_and_its_result_says_how_to_approve_it(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, pending = _make_pending(tmp_path, note)
    assert seen == []
    assert pending.preview == 'note: text="hello"'
    again = open_ledger(tmp_path / "state")
    assert [item.call.id for item in again.pending()] == [pending.call.id]
    assert runtime.pending.list() == again.pending()


@pytest.mark.spec("A12", "A14")
def test_a_pending_call_can_be_approved_edited_rejected_or_responded_to(tmp_path: Path) -> None:
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
def test_a_rejection_without_a_message_has_the_default_message(tmp_path: Path) -> None:
    note, _ = recorder()
    runtime, pending = _make_pending(tmp_path, note)
    assert run(runtime.reject(pending.call.id)).error == "This tool has been rejected by the user."


@pytest.mark.spec("A9")
def test_a_refused_confirmation_has_its_own_default_message(tmp_path: Path) -> None:
    note, seen = recorder(effects=frozenset())
    runtime, pending = _make_pending(
        tmp_path, note, config=Config(confirmation=ConfirmationConfig(actions={"note": "confirm"}))
    )
    assert runtime.visible()[0].name == "note"
    assert run(runtime.reject(pending.call.id)).error == "Tool execution cancelled by user"
    assert seen == []


@pytest.mark.spec("A9")
def test_a_tool_with_the_confirmation_log_is_logged_when_it_runs_and_a_silent_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "holdfast")
    note, _ = recorder(effects=frozenset())
    runtime = Runtime(tools=[note, add], config=Config(confirmation=ConfirmationConfig(actions={"note": "log"})))
    run(runtime.call("add", {"a": 1}))
    assert caplog.messages == []
    run(runtime.call("note", {"text": "x"}))
    assert len(caplog.messages) == 1
    assert "Tool 'note' runs" in caplog.messages[0]


@pytest.mark.spec("A9")
def test_a_call_with_a_high_risk_proposal_is_logged_even_if_its_tool_is_not(
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
def test_a_confirmation_is_required_when_the_call_runs_whatever_approved_it(tmp_path: Path) -> None:
    """The tool stays listed; a list, no effects and disabled approval do not remove the confirmation."""
    note, seen = recorder(effects=frozenset())
    free = ApprovalConfig(auto_approve=("*",), require_approval=False)
    config = Config(approval=free, confirmation=ConfirmationConfig(actions={"note": "confirm"}))
    runtime, pending = _make_pending(tmp_path, note, config=config)
    assert [tool.name for tool in runtime.visible()] == ["note"] and seen == []
    assert run(runtime.approve(pending.call.id)).success and len(seen) == 1


@pytest.mark.spec("A14")
def test_edited_arguments_are_validated_and_judged_again(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, pending = _make_pending(tmp_path, note)
    with pytest.raises(InvalidArguments, match="text is missing"):
        run(runtime.approve(pending.call.id, args={}))

    def no_evil(name: str, args: Any, ctx: Any) -> str | None:
        return "deny" if args.get("text") == "evil" else None

    runtime.approvals.register("no-evil", no_evil, priority=200)
    with pytest.raises(CallError, match="The changed call would not run"):
        run(runtime.approve(pending.call.id, args={"text": "evil"}))
    assert runtime.pending.list()[0].digest == pending.digest
    assert seen == []


@pytest.mark.spec("A12")
def test_an_approval_is_used_once(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, pending = _make_pending(tmp_path, note)
    run(runtime.approve(pending.call.id))
    with pytest.raises((NotPending, UnknownCall)):
        run(runtime.approve(pending.call.id))
    assert len(seen) == 1


@pytest.mark.spec("A12")
def test_an_approval_with_another_digest_is_refused(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, pending = _make_pending(tmp_path, note)
    with pytest.raises(StaleApproval):
        run(runtime.answer(pending.call.id, Answer(kind="approve", by="ann"), digest="0" * 64))
    assert run(runtime.approve(pending.call.id)).success
    assert len(seen) == 1


def _approve_only(runtime: Runtime, pending: PendingCall) -> None:
    """Record the answer without running the call, as if the program were away."""
    ledger = runtime.ledger
    assert ledger is not None
    ledger.answer(pending.call.id, Answer(kind="approve", by="ann"), digest=pending.digest)


def _refused_as_stale(runtime: Runtime, pending: PendingCall) -> None:
    (result,) = run(runtime.lifecycle.resume_all())
    assert (result.state, result.failure) == (State.PENDING, Failure.STALE)
    (now,) = runtime.pending.list()
    assert now.call.id == pending.call.id
    assert now.digest != pending.digest
    assert now.state is State.PENDING


@pytest.mark.spec("A12")
def test_an_approved_call_runs_if_nothing_has_changed(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, pending = _make_pending(tmp_path, note)
    _approve_only(runtime, pending)
    (result,) = run(runtime_in(tmp_path, note).lifecycle.resume_all())
    assert result.output == "noted hello"
    assert seen == [{"text": "hello"}]


@pytest.mark.spec("A12")
def test_a_changed_tool_definition_voids_the_approval(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, pending = _make_pending(tmp_path, note)
    _approve_only(runtime, pending)
    _refused_as_stale(runtime_in(tmp_path, note.with_(description="Write a note, and mail it.")), pending)
    assert seen == []


@pytest.mark.spec("A12")
def test_changed_arguments_void_the_approval(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, pending = _make_pending(tmp_path, note)
    _approve_only(runtime, pending)
    again = runtime_in(tmp_path, note)
    ledger = again.ledger
    assert ledger is not None
    (approved,) = ledger.pending()
    approved.call.args["text"] = "something else"
    outcome = run(again.lifecycle.resume(approved))
    assert outcome is not None and outcome.failure is Failure.STALE
    (now,) = again.pending.list()
    assert now.digest != pending.digest
    assert seen == []


@pytest.mark.spec("A12")
def test_a_changed_working_directory_voids_the_approval(tmp_path: Path) -> None:
    note, seen = recorder()
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    link = tmp_path / "link"
    link.symlink_to(here)
    runtime, pending = _make_pending(tmp_path, note, cwd=link)
    _approve_only(runtime, pending)
    link.unlink()
    link.symlink_to(there)
    _refused_as_stale(runtime_in(tmp_path, note), pending)
    assert seen == []


@pytest.mark.spec("A12")
def test_a_changed_sandbox_profile_voids_the_approval(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime, pending = _make_pending(tmp_path, note)
    _approve_only(runtime, pending)
    looser = Config(sandbox=SandboxConfig(network="on"))
    _refused_as_stale(runtime_in(tmp_path, note, config=looser), pending)
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
def test_a_changed_precondition_voids_the_approval(tmp_path: Path) -> None:
    fact = {"version": "1"}
    deploy, applied = _two_phase(fact)
    runtime, pending = _make_pending(tmp_path, deploy)
    _approve_only(runtime, pending)
    fact["version"] = "2"
    _refused_as_stale(runtime_in(tmp_path, deploy), pending)
    assert applied == []


@pytest.mark.spec("T5")
def test_a_two_phase_tool_proposes_before_approval_and_applies_the_payload_after_it(tmp_path: Path) -> None:
    deploy, applied = _two_phase({"version": "1"})
    shown: list[PendingCall] = []

    async def asker(pending: PendingCall) -> Answer:
        assert applied == []
        shown.append(pending)
        return Answer(kind="approve", by="ann")

    result = run(runtime_in(tmp_path, deploy, asker=asker).call("deploy"))
    assert (result.output, applied) == ("deployed", [{"what": "release"}])
    assert shown[0].proposal is not None
    assert shown[0].proposal.summary == "deploy it"


@pytest.mark.spec("T5")
def test_a_result_from_propose_needs_no_approval(tmp_path: Path) -> None:
    async def propose(args: Any, ctx: Any) -> Result:
        return Result(False, error="nothing to deploy")

    async def apply(payload: Any, ctx: Any) -> str:
        raise AssertionError

    deploy = Tool(name="deploy", propose=propose, apply=apply)
    result = run(runtime_in(tmp_path, deploy).call("deploy"))
    assert (result.state, result.error) == (State.FAILED, "nothing to deploy")


@pytest.mark.spec("A14")
def test_an_asker_gets_the_pending_call_and_its_answer_counts(tmp_path: Path) -> None:
    note, seen = recorder()
    assert run(runtime_in(tmp_path, note, asker=yes()).call("note", {"text": "a"})).output == "noted a"

    async def no(pending: PendingCall) -> Answer:
        return Answer(kind="reject", by="bob", message="no")

    refused = run(runtime_in(tmp_path, note, asker=no).call("note", {"text": "b"}))
    assert (refused.state, refused.error) == (State.REJECTED, "no")
    assert seen == [{"text": "a"}]


@pytest.mark.spec("A15a")
def test_a_call_stays_pending_if_the_asker_has_no_answer(tmp_path: Path) -> None:
    note, seen = recorder()

    async def shrugs(pending: PendingCall) -> None:
        return None

    async def breaks(pending: PendingCall) -> None:
        raise RuntimeError("no terminal")

    for asker in (shrugs, breaks):
        assert run(runtime_in(tmp_path, note, asker=asker).call("note", {"text": "a"})).state is State.PENDING
    assert seen == []


@pytest.mark.spec("A13a")
def test_the_first_answer_counts_whichever_interface_it_comes_from(tmp_path: Path) -> None:
    note, seen = recorder()

    async def main() -> tuple[Result, Result]:
        asking: asyncio.Future[PendingCall] = asyncio.get_running_loop().create_future()

        async def slow(pending: PendingCall) -> Answer:
            asking.set_result(pending)
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        runtime = runtime_in(tmp_path, note, asker=slow)
        call = asyncio.create_task(runtime.call("note", {"text": "a"}))
        pending = await asking
        other = runtime_in(tmp_path, note)
        return await other.reject(pending.call.id, "from the other interface", by="bob"), await call

    there, here = run(main())
    assert there.error == here.error == "from the other interface"
    assert seen == []


@pytest.mark.spec("X12", "T1")
def test_the_result_of_a_definition_only_tool_is_given_with_respond(tmp_path: Path) -> None:
    async def main() -> tuple[Result, Result]:
        asks = Tool(name="asks", effects=frozenset({"person"}))
        runtime = runtime_in(tmp_path, asks, nobody="wait")
        pending, call = await until_pending(runtime, runtime.call("asks", request="turn-7", given_id="toolu_1"))
        with pytest.raises(UnknownCall):
            await runtime.resolve("turn-8", "toolu_1", "wrong turn")
        with pytest.raises(CallError, match="waits for its result"):
            await runtime.approve(pending.call.id)
        return await runtime.resolve("turn-7", "toolu_1", "blue"), await call

    finished, waited = run(main())
    assert finished.output == waited.output == "blue"
    assert waited.state is State.DONE


@pytest.mark.spec("A12")
def test_without_a_ledger_pending_calls_are_kept_in_memory() -> None:
    note, seen = recorder()
    runtime = Runtime(tools=[note], nobody="pending")
    pending = run(runtime.call("note", {"text": "a"}))
    assert run(runtime.approve(pending.call_id)).output == "noted a"
    assert len(seen) == 1


@pytest.mark.spec("X13")
def test_the_summary_of_a_pending_call_comes_from_the_proposal_the_tool_or_the_arguments(tmp_path: Path) -> None:
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
def test_resolve_is_refused_if_the_id_is_ambiguous(tmp_path: Path) -> None:
    """Models and clients choose ids: the same twice, one of an ended call, or one of another call."""
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
    assert [pending.call.id for pending in runtime.pending.list()] == [second, forged]


@pytest.mark.parametrize("kept", [True, False])
def test_a_message_suggests_only_commands_that_work_for_that_ledger(tmp_path: Path, kept: bool) -> None:
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
def test_resolve_keeps_every_field_of_the_result(tmp_path: Path) -> None:
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
