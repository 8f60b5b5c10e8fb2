"""The life of a call in the ledger."""

from __future__ import annotations

import asyncio
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.contract.call import Answer
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import LedgerUnavailable, NotPending, StaleApproval, UnknownCall
from holdfast.contract.result import Attachment, Result
from holdfast.store.ledger import Ledger
from tests.store.making import APPROVED, ASKED, DONE, YES, before_images, begin, make_call, make_held


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "state" / "project" / "ledger.db") as opened:
        yield opened


@pytest.mark.spec("X10")
def test_a_call_that_is_over_is_one_entry_with_everything_in_it(ledger: Ledger) -> None:
    call = make_call(args={"path": "ä.txt", "n": [1, {"deep": None}], "big": 2**70})
    result = Result(
        True,
        "out\n",
        structured={"a": [1]},
        metadata={"ms": 3},
        attachments=(Attachment(kind="image", mime_type="image/png", data=b"\x89PNG\x00"),),
    )
    asyncio.run(ledger.record_call(call, APPROVED, result, original_args={"path": "ä.txt "}))
    record = ledger.call(call.id)
    assert record.call == call
    assert record.decisions == (APPROVED,)
    assert record.result == result
    assert record.original_args == {"path": "ä.txt "}
    assert record.state is State.DONE
    assert record.ended_at is not None
    assert [entry.kind for entry in ledger.entries(call=call.id)] == ["call"]


@pytest.mark.spec("X10")
def test_a_mutating_call_is_written_before_it_runs_and_again_when_it_has_ended(ledger: Ledger) -> None:
    call = make_call()

    async def scenario() -> None:
        await begin(ledger, call)
        assert ledger.call(call.id).state is State.RUNNING
        assert ledger.result(call.id) is None
        assert await ledger.end(call.id, DONE) is True

    asyncio.run(scenario())
    record = ledger.call(call.id)
    assert (record.state, record.result, record.decisions) == (State.DONE, DONE, (APPROVED,))
    assert record.received_at <= (record.began_at or 0) <= (record.ended_at or 0)


@pytest.mark.spec("X10")
def test_a_second_end_is_ignored_and_the_first_result_stays(ledger: Ledger) -> None:
    call = make_call()

    async def scenario() -> tuple[bool, bool]:
        await begin(ledger, call)
        return await ledger.end(call.id, DONE), await ledger.end(call.id, Result(False, error="late"))

    assert asyncio.run(scenario()) == (True, False)
    assert ledger.result(call.id) == DONE
    assert ledger.end_now("never-begun", DONE) is False


@pytest.mark.spec("X10")
def test_an_id_is_used_once(ledger: Ledger) -> None:
    call = make_call()

    async def scenario() -> None:
        await begin(ledger, call)
        with pytest.raises(NotPending, match="already"):
            await begin(ledger, call)
        await ledger.end(call.id, DONE)
        with pytest.raises(NotPending, match="already"):
            await begin(ledger, call)
        with pytest.raises(NotPending, match="already"):
            await ledger.add_pending(make_held(call.id))
        with pytest.raises(NotPending, match="already"):
            await ledger.record_call(call, APPROVED, DONE)

    asyncio.run(scenario())
    assert len(ledger.call(call.id).entries) == 2


@pytest.mark.spec("A13a")
def test_a_held_call_waits_across_a_restart_with_all_that_was_shown(tmp_path: Path) -> None:
    held = make_held()
    with Ledger.open(tmp_path / "l.db") as first:
        asyncio.run(first.add_pending(held))
    with Ledger.open(tmp_path / "l.db") as second:
        assert second.recover() == []
        assert second.pending() == [held]
        assert second.find_pending(held.call.id) == held


@pytest.mark.spec("A12", "A13a")
def test_an_approval_is_recorded_with_its_approver_and_used_once(ledger: Ledger) -> None:
    held = make_held()
    call_id = held.call.id

    async def scenario() -> None:
        await ledger.add_pending(held)
        approved = ledger.answer(call_id, YES, digest=held.digest)
        assert (approved.state, approved.approver) == (State.APPROVED, "ada")
        assert [waiting.state for waiting in ledger.pending()] == [State.APPROVED]
        await begin(ledger, held.call, digest=held.digest)
        running = ledger.find_pending(call_id)
        assert running is not None and running.state is State.RUNNING
        with pytest.raises(NotPending, match="only once"):
            await begin(ledger, held.call, digest=held.digest)
        await ledger.end(call_id, DONE)
        with pytest.raises(NotPending, match="already ended"):
            await begin(ledger, held.call, digest=held.digest)

    asyncio.run(scenario())
    record = ledger.call(call_id)
    account = pwd.getpwuid(os.getuid()).pw_name
    assert [given.answer for given in record.answers] == [structs.replace(YES, user=account)]
    assert record.answers[0].digest == held.digest
    assert record.decisions == (ASKED, APPROVED)
    assert ledger.find_pending(call_id) is None


@pytest.mark.spec("A12")
def test_an_approval_of_something_else_is_refused_and_nothing_changes(ledger: Ledger) -> None:
    held = make_held()
    asyncio.run(ledger.add_pending(held))
    with pytest.raises(StaleApproval, match="has changed"):
        ledger.answer(held.call.id, YES, digest="0" * 64)
    assert ledger.pending() == [held]
    ledger.answer(held.call.id, YES, digest=held.digest)
    with pytest.raises(StaleApproval):
        asyncio.run(begin(ledger, held.call, digest="0" * 64))
    asyncio.run(begin(ledger, held.call, digest=held.digest))


@pytest.mark.spec("A12")
def test_a_call_is_answered_once_and_only_while_it_waits(ledger: Ledger) -> None:
    held = make_held()
    asyncio.run(ledger.add_pending(held))
    ledger.answer(held.call.id, YES, digest=held.digest)
    for answer in (YES, Answer(kind="reject", by="eve")):
        with pytest.raises(NotPending):
            ledger.answer(held.call.id, answer, digest=held.digest)
    with pytest.raises(UnknownCall, match="No call has the id 'nope'"):
        ledger.answer("nope", YES, digest=held.digest)
    assert len(ledger.call(held.call.id).answers) == 1


@pytest.mark.spec("A14")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(kind="reject", by="ada", message="not today"), Result(False, error="not today")),
        (Answer(kind="reject", by="ada"), Result(False, error="This tool has been rejected by the user.")),
    ],
)
def test_a_rejection_ends_the_call_with_what_the_model_is_told(
    ledger: Ledger, answer: Answer, expected: Result
) -> None:
    held = make_held()
    asyncio.run(ledger.add_pending(held))
    assert ledger.answer(held.call.id, answer, digest=held.digest).state is State.REJECTED
    result = ledger.result(held.call.id)
    assert result is not None
    assert (result.error, result.state, result.failure) == (expected.error, State.REJECTED, Failure.REJECTED)
    assert ledger.find_pending(held.call.id) is None


@pytest.mark.spec("X12")
@pytest.mark.parametrize(("success", "state"), [(True, State.DONE), (False, State.FAILED)])
def test_a_result_given_from_outside_ends_the_call(ledger: Ledger, success: bool, state: State) -> None:
    held = make_held()
    asyncio.run(ledger.add_pending(held))
    ledger.answer(held.call.id, Answer(kind="respond", by="ci", message="42", success=success), digest=held.digest)
    result = ledger.result(held.call.id)
    assert result is not None
    assert (result.success, result.text, result.state) == (success, "42", state)


@pytest.mark.spec("A14")
def test_an_edit_does_not_approve_and_the_changed_call_needs_a_yes_of_its_own(ledger: Ledger) -> None:
    held = make_held()
    edited = make_held(held.call.id, args={"path": "b.txt"})
    answer = Answer(kind="edit", by="ada", args={"path": "b.txt"})

    async def scenario() -> None:
        await ledger.add_pending(held)
        assert ledger.answer(held.call.id, answer, digest=held.digest).state is State.PENDING
        await ledger.replace_pending(edited, "arguments changed by ada")

    asyncio.run(scenario())
    assert ledger.pending() == [edited]
    with pytest.raises(StaleApproval):
        ledger.answer(held.call.id, YES, digest=held.digest)
    assert ledger.answer(held.call.id, YES, digest=edited.digest).call.args == {"path": "b.txt"}
    record = ledger.call(held.call.id)
    assert record.call == edited.call
    assert [given.answer.kind for given in record.answers] == ["edit", "approve"]


@pytest.mark.spec("A12")
def test_a_call_held_again_loses_the_approval_it_had(ledger: Ledger) -> None:
    held = make_held()

    async def scenario() -> None:
        await ledger.add_pending(held)
        ledger.answer(held.call.id, YES, digest=held.digest)
        await ledger.replace_pending(held, "the file has changed")
        with pytest.raises(NotPending):
            await begin(ledger, held.call, digest=held.digest)

    asyncio.run(scenario())
    waiting = ledger.pending()
    assert [(one.state, one.approver) for one in waiting] == [(State.PENDING, None)]


@pytest.mark.spec("A12", "A13")
def test_a_call_changed_by_another_process_is_seen_as_it_is_now(ledger: Ledger) -> None:
    held = make_held()
    changed = make_held(held.call.id, args={"path": "b.txt"})
    asyncio.run(ledger.add_pending(held))
    with Ledger.open(ledger.path) as other:
        asyncio.run(other.replace_pending(changed, "edited elsewhere"))
    assert ledger.pending() == [changed]
    assert ledger.find_pending(held.call.id) == changed


@pytest.mark.spec("X10")
def test_a_running_call_cannot_be_held_again(ledger: Ledger) -> None:
    call = make_call()
    asyncio.run(begin(ledger, call))
    with pytest.raises(NotPending, match="is running"):
        asyncio.run(ledger.replace_pending(make_held(call.id), "why"))


@pytest.mark.spec("X10", "X11")
def test_before_images_are_kept_byte_for_byte_in_order(ledger: Ledger) -> None:
    call = make_call()
    asyncio.run(begin(ledger, call))
    ledger.before_image(call.id, Path("/p/a"), b"\xff\x00 token ghp_0123456789012345678901234567890123456789", 0o755)
    ledger.before_image(call.id, Path("/p/new"), None)
    first, second = before_images(ledger, call.id)
    assert (first.path, first.mode, second.path, second.blob) == ("/p/a", 0o755, "/p/new", None)
    assert ledger.blobs.read(first.blob or "") == b"\xff\x00 token ghp_0123456789012345678901234567890123456789"


@pytest.mark.spec("X10")
def test_files_and_folders_are_private(ledger: Ledger) -> None:
    ledger.before_image("c", Path("/p/a"), b"x")
    folder = ledger.path.parent
    blob = ledger.blobs.path(before_images(ledger, "c")[0].blob or "")
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    files = [ledger.path, ledger.path.with_name("ledger.db-wal"), blob]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(blob.parent.stat().st_mode) == 0o700


@pytest.mark.spec("X10")
def test_a_ledger_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    Ledger.open(path).close()
    path.chmod(0o644)
    Ledger.open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.spec("X10")
def test_durability_against_power_loss_is_a_choice(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "a.db") as process, Ledger.open(tmp_path / "b.db", durability="power") as power:
        assert process.rows("PRAGMA synchronous") == [(1,)]
        assert power.rows("PRAGMA synchronous") == [(2,)]
        assert power.rows("PRAGMA journal_mode") == [("wal",)]


@pytest.mark.spec("X10")
def test_what_json_cannot_carry_is_written_as_far_as_it_can(ledger: Ledger) -> None:
    looped: list[object] = []
    looped.append(looped)
    original = {"half": "a\udc80b", "object": ledger, "set": {1}, "nan": float("nan"), "loop": looped, ("k", 1): 2}
    result = Result(True, "half \ud800", attachments=(Attachment(kind="file", mime_type="x/y", data=b"z"),))
    call = make_call()
    asyncio.run(ledger.record_call(call, APPROVED, result, original_args=original))
    record = ledger.call(call.id)
    assert record.result is not None and record.result.output == "half ?"
    assert record.result.attachments == result.attachments
    assert isinstance(record.original_args, dict)
    assert record.original_args["half"] == "a?b"
    assert ledger.verify().ok


@pytest.mark.spec("X10", "X15")
def test_a_body_too_large_for_a_row_is_kept_beside_the_ledger(ledger: Ledger) -> None:
    call = make_call(args={"content": "x" * 3_000_000})
    held = make_held(args={"content": "y" * 3_000_000})
    asyncio.run(ledger.record_call(call, APPROVED, DONE))
    asyncio.run(ledger.add_pending(held))
    assert ledger.rows("SELECT max(length(body)) FROM entries")[0][0] < 1000
    ledger.uncache_pending(held.call.id)
    assert ledger.call(call.id).call == call
    assert ledger.pending() == [held]
    assert ledger.verify().ok


@pytest.mark.spec("X10")
def test_a_ledger_in_memory_behaves_like_one_on_disk() -> None:
    held = make_held(args={"content": "x" * 2_000_000})
    with Ledger.in_memory() as ledger:
        asyncio.run(ledger.add_pending(held))
        ledger.answer(held.call.id, YES, digest=held.digest)
        asyncio.run(begin(ledger, held.call, digest=held.digest))
        assert ledger.end_now(held.call.id, DONE)
        assert ledger.verify().ok


@pytest.mark.spec("X10")
def test_a_closed_ledger_says_that_it_cannot_be_used(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db")
    ledger.close()
    with pytest.raises(LedgerUnavailable):
        ledger.record_call_now(make_call(), APPROVED, DONE)
