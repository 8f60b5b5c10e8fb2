"""What a grant covers: offered widths, the preview before it is created, and the pending calls it approves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Attachment, Config, PendingCall, Result, Runtime, State, Tool
from holdfast.config.config import ConfirmationConfig
from holdfast.contract.call import Caller
from holdfast.contract.errors import GrantRefused, StaleApproval
from holdfast.runtime.grant_coverage import CoveredCall
from holdfast.store.entries import Grant
from tests.runtime.support import open_ledger, recorder, run, runtime_in

pytestmark = pytest.mark.spec("E7c")


def _reader(name: str = "look") -> tuple[Tool, list[Any]]:
    """A tool that only reads, so that it can be granted with any arguments, but that is asked about."""
    made, seen = recorder(name, effects=frozenset({"fs.read"}))
    return made, seen


def _held(runtime: Runtime, name: str, text: str) -> PendingCall:
    result = run(runtime.call(name, {"text": text}))
    assert result.state is State.PENDING, result
    found = runtime.pending.get(result.call_id)
    assert found is not None
    return found


def _widths(runtime: Runtime, pending: PendingCall) -> list[tuple[str, str]]:
    return [(option.width, option.scope) for option in runtime.grant_coverage.options(pending, "ann")]


def test_the_offered_grants_are_those_that_may_be_created(tmp_path: Path) -> None:
    look, _ = _reader()
    note, _ = recorder()
    runtime = runtime_in(tmp_path, look, note, nobody="pending")
    assert _widths(runtime, _held(runtime, "look", "a")) == [("exact", "project"), ("tool", "project")]
    assert _widths(runtime, _held(runtime, "note", "a")) == [("exact", "project")]


def test_a_preview_names_the_past_and_pending_calls_that_the_grant_covers(tmp_path: Path) -> None:
    look, _ = _reader()
    other, _ = _reader("other")
    runtime = runtime_in(tmp_path, look, other, nobody="pending")
    for text in ("one", "two", "three"):
        run(runtime.approve(_held(runtime, "look", text).call.id, by="ann"))
    run(runtime.reject(_held(runtime, "look", "four").call.id, by="ann"))
    run(runtime.approve(_held(runtime, "other", "one").call.id, by="ann"))
    asked, also = _held(runtime, "look", "three"), _held(runtime, "look", "six")
    _held(runtime, "other", "one")

    wide = run(runtime.grant_coverage.preview(asked, "project", by="ann", width="tool"))
    assert [record.call.args["text"] for record in wide.past] == ["four", "three", "two", "one"]
    assert [record.state for record in wide.past][:2] == [State.REJECTED, State.DONE]
    assert [pending.call.id for pending in wide.pending] == [asked.call.id, also.call.id]
    assert wide.compared == 4

    narrow = run(runtime.grant_coverage.preview(asked, "project", by="ann"))
    assert [record.call.args["text"] for record in narrow.past] == ["three"]
    assert [pending.call.id for pending in narrow.pending] == [asked.call.id]
    assert len(run(runtime.grant_coverage.preview(asked, "project", by="ann", width="tool", limit=2)).past) == 2
    assert runtime.ledger is not None and runtime.ledger.grants.list(every=True) == []


def test_a_preview_does_not_load_the_attachments_of_past_calls(tmp_path: Path) -> None:
    async def execute(args: Any) -> Result:
        return Result(True, "seen", attachments=(Attachment(kind="image", mime_type="image/png", data=b"png"),))

    look = _reader()[0].with_(execute=execute)
    runtime = runtime_in(tmp_path, look, nobody="pending")
    run(runtime.approve(_held(runtime, "look", "a").call.id, by="ann"))
    (past,) = run(runtime.grant_coverage.preview(_held(runtime, "look", "a"), "project", by="ann")).past
    assert past.result is not None
    assert [(each.size, each.data) for each in past.result.attachments] == [(3, b"")]


def test_a_preview_is_refused_for_what_was_not_shown_and_for_what_is_too_wide(tmp_path: Path) -> None:
    note, _ = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    asked = _held(runtime, "note", "a")
    with pytest.raises(GrantRefused):
        run(runtime.grant_coverage.preview(asked, "project", by="ann", width="tool"))
    changed = runtime_in(tmp_path, note.with_(description="Something else."), nobody="pending")
    with pytest.raises(StaleApproval):
        run(changed.grant_coverage.preview(asked, "project", by="ann"))


def _allow_and_apply(runtime: Runtime, asked: PendingCall, **options: Any) -> tuple[Grant, list[CoveredCall]]:
    async def work() -> tuple[Grant, list[CoveredCall]]:
        grant = await runtime.allow(asked, "project", by="ann", width="tool", **options)
        return grant, await runtime.approve_covered(grant, by="ann", identity="token:ann")

    return run(work())


def test_a_new_grant_approves_the_pending_calls_it_covers_each_with_its_own_record(tmp_path: Path) -> None:
    look, seen = _reader()
    other, ran = _reader("other")
    runtime = runtime_in(tmp_path, look, other, nobody="pending")
    asked = [_held(runtime, "look", text) for text in ("a", "b", "c")]
    left = _held(runtime, "other", "a")
    grant, covered = _allow_and_apply(runtime, asked[0])
    assert [item.pending.call.id for item in covered] == [pending.call.id for pending in asked]
    assert {item.result.state for item in covered} == {State.DONE}
    assert sorted(args["text"] for args in seen) == ["a", "b", "c"] and ran == []
    assert [pending.call.id for pending in runtime.pending.list()] == [left.call.id]
    assert runtime.ledger is not None
    for pending in asked:
        (given,) = runtime.ledger.call(pending.call.id).answers
        assert (given.answer.kind, given.answer.by, given.answer.identity) == ("approve", "ann", "token:ann")
        assert given.answer.message == f"covered by grant {grant.id}"
        assert given.digest == pending.digest
    assert runtime.ledger.verify().ok


def test_a_call_that_is_confirmed_every_time_stays_pending(tmp_path: Path) -> None:
    look, seen = _reader()
    runtime = runtime_in(tmp_path, look, nobody="pending")
    first, second = _held(runtime, "look", "a"), _held(runtime, "look", "b")
    grant = run(runtime.allow(first, "project", by="ann", width="tool"))
    strict = Config(confirmation=ConfirmationConfig(actions={"look": "confirm"}))
    careful = runtime_in(tmp_path, look, nobody="pending", config=strict)
    assert run(careful.approve_covered(grant, by="ann")) == []
    assert [pending.call.id for pending in careful.pending.list()] == [first.call.id, second.call.id]
    assert seen == []


def test_a_document_whose_calls_are_confirmed_every_time_is_not_overruled_from_outside(tmp_path: Path) -> None:
    look, seen = _reader()
    ledger, document = open_ledger(tmp_path / "state"), tmp_path / "project" / "talk.chat"
    outside = runtime_in(tmp_path, look, nobody="pending", ledger=ledger)
    strict = Config(confirmation=ConfirmationConfig(actions={"look": "confirm"}))
    inside = runtime_in(tmp_path, look, nobody="pending", ledger=ledger, document=document, config=strict)
    caller = Caller(interface="chat", document=str(document))
    answered, waiting = (run(inside.call("look", {"text": "a"}, caller=caller)).call_id for _ in range(2))
    run(inside.reject(answered, by="ann"))
    asked = _held(outside, "look", "a")

    seen_before = run(outside.grant_coverage.preview(asked, "project", by="ann", width="tool"))
    assert [pending.call.id for pending in seen_before.pending] == [asked.call.id]
    assert (seen_before.past, seen_before.compared) == ((), 0)
    _, covered = _allow_and_apply(outside, asked)
    assert [item.pending.call.id for item in covered] == [asked.call.id] and len(seen) == 1
    assert [(pending.call.id, pending.state) for pending in inside.pending.list()] == [(waiting, State.PENDING)]


def test_a_grant_that_was_revoked_or_never_stored_approves_nothing(tmp_path: Path) -> None:
    look, seen = _reader()
    runtime = runtime_in(tmp_path, look, nobody="pending")
    grant = run(runtime.allow(_held(runtime, "look", "a"), "project", by="ann", width="tool"))
    assert runtime.ledger is not None
    runtime.ledger.grants.revoke(grant.id, by="ann")
    with pytest.raises(GrantRefused, match="There is no grant"):
        run(runtime.approve_covered(grant, by="ann"))
    assert seen == []


def test_a_call_that_changed_after_it_was_shown_is_not_run_by_a_grant(tmp_path: Path) -> None:
    look, seen = _reader()
    ledger = open_ledger(tmp_path / "state")
    runtime = runtime_in(tmp_path, look, nobody="pending", ledger=ledger)
    first = _held(runtime, "look", "a")
    grant = run(runtime.allow(first, "project", by="ann", width="tool"))
    changed = look.with_(description="Something else.")
    assert run(runtime_in(tmp_path, changed, nobody="pending", ledger=ledger).approve_covered(grant, by="ann")) == []
    assert seen == []


def test_a_grant_ends_at_its_time(tmp_path: Path) -> None:
    look, _ = _reader()
    runtime = runtime_in(tmp_path, look, nobody="pending")
    grant = run(runtime.allow(_held(runtime, "look", "a"), "project", by="ann", expires=time.time() + 3600))
    assert grant.expires is not None and grant.expires > time.time()
    assert run(runtime.call("look", {"text": "a"})).state is State.DONE


@pytest.mark.parametrize("expires", [0, -1.0, 1.0, float("nan"), float("inf"), 1e300, True, "tomorrow"])
def test_a_grant_that_would_have_ended_is_refused(tmp_path: Path, expires: Any) -> None:
    look, _ = _reader()
    runtime = runtime_in(tmp_path, look, nobody="pending")
    with pytest.raises(GrantRefused, match="in the future"):
        run(runtime.allow(_held(runtime, "look", "a"), "project", by="ann", expires=expires))
