"""Attachments in the ledger: one blob per digest, references in the entries, removal with the last call."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from holdfast.config.config import LedgerConfig
from holdfast.contract.call import Caller
from holdfast.contract.result import Attachment, Result
from holdfast.store.entries import CallRecorded
from holdfast.store.ledger import Ledger
from holdfast.store.redact import Redactor
from holdfast.store.retention import DAY, prune, prune_by_config
from holdfast.store.sessions import delete_session, list_sessions
from tests.attachment_strategies import PNG
from tests.store.calls import APPROVED, make_call

SHOT = Attachment(kind="image", mime_type="image/png", data=PNG, name="shot.png")
LINK = Attachment(kind="file", mime_type="text/html", uri="https://example.com/a")


@pytest.fixture
def ledger(tmp_path: Path) -> Generator[Ledger]:
    with Ledger.open(tmp_path / "state" / "ledger.db") as ledger:
        yield ledger


def record(ledger: Ledger, call_id: str, *items: Attachment, session: str | None = None) -> None:
    call = msgspec.structs.replace(make_call(call_id), caller=Caller(session=session))
    ledger.record_call_now(call, APPROVED, Result(True, "done", attachments=items, call_id=call_id))


def blobs(ledger: Ledger) -> set[str]:
    return {path.name for path in ledger.blobs.folder.glob("??/*")}


@pytest.mark.spec("T10e")
def test_equal_bytes_are_stored_once_and_the_entries_refer_to_them(ledger: Ledger) -> None:
    record(ledger, "a", SHOT, LINK)
    record(ledger, "b", msgspec.structs.replace(SHOT, name="other.png"))
    assert blobs(ledger) == {SHOT.digest}
    exported = b"".join(ledger.export())
    assert exported.count(SHOT.digest.encode()) == 2 and b"iVBOR" not in exported


@pytest.mark.spec("T10e")
def test_results_have_their_bytes_again_after_the_ledger_was_opened_anew(ledger: Ledger) -> None:
    record(ledger, "a", SHOT, LINK)
    with Ledger.open(ledger.path, read_only=True) as again:
        result = again.result("a")
        assert result is not None and result.attachments == (SHOT, LINK)
        shown = again.call("a").result
        assert shown is not None and shown.attachments == (SHOT, LINK)
        [listed] = again.calls()
        assert listed.result is not None and listed.result.attachments == (SHOT.without_data(), LINK)
        assert again.verify().ok


@pytest.mark.spec("T10e")
def test_bytes_that_are_gone_leave_digest_size_and_name(ledger: Ledger) -> None:
    record(ledger, "a", SHOT)
    ledger.blobs.path(SHOT.digest).unlink()
    result = ledger.result("a")
    assert result is not None and result.attachments == (SHOT.without_data(),)
    assert ledger.verify().ok


@pytest.mark.spec("T10f")
def test_an_attachment_cannot_name_content_that_is_stored_for_another_call(ledger: Ledger) -> None:
    secret = ledger.blobs.put(b"before-image of another call")
    record(ledger, "a", Attachment(kind="file", mime_type="a/b", digest=secret, size=5))
    result = ledger.result("a")
    assert result is not None
    assert [(item.data, item.digest, item.size) for item in result.attachments] == [(b"", "", 0)]


@pytest.mark.parametrize("data", [b"pin topsecret99", "é topsecret99".encode(), b"\xff\x00topsecret99", b"x" * 5])
@pytest.mark.spec("T10e")
def test_an_attachment_with_a_secret_is_dropped_as_a_whole(tmp_path: Path, data: bytes) -> None:
    redactor = Redactor()
    redactor.add("pin", "topsecret99")
    with Ledger.open(tmp_path / "ledger.db", redact=redactor) as ledger:
        record(ledger, "a", Attachment(kind="file", mime_type="a/b", data=data, name="n"))
        result = ledger.result("a")
        assert result is not None
        [item] = result.attachments
        assert item.data == (b"[attachment removed: it contained a secret]" if b"topsecret" in data else data)
        assert not any(b"topsecret" in path.read_bytes() for path in ledger.blobs.folder.glob("??/*"))


def test_an_entry_of_an_older_version_with_the_bytes_inside_is_read(ledger: Ledger) -> None:
    body = msgspec.json.encode(CallRecorded(make_call("a"), APPROVED, Result(True, attachments=(SHOT,)))).decode()
    ledger.run(lambda tx: tx.append("a", "call", body, first=True))
    result = ledger.result("a")
    assert result is not None and result.attachments == (SHOT,)


@pytest.mark.spec("T10e")
def test_a_large_result_whose_body_is_a_blob_keeps_its_attachments(ledger: Ledger) -> None:
    call = make_call("a")
    result = Result(True, "x" * 2_000_000, attachments=(SHOT,), call_id="a")
    ledger.record_call_now(call, APPROVED, result)
    age(ledger)
    prune(ledger, older_than=None, max_bytes=None, by="test")
    assert ledger.result("a") == result


def age(ledger: Ledger, seconds: float = 2 * DAY) -> None:
    for path in ledger.blobs.folder.glob("??/*"):
        os.utime(path, (time.time() - seconds, time.time() - seconds))


@pytest.mark.spec("T10e")
def test_pruning_removes_the_bytes_with_the_last_call_and_those_that_no_entry_refers_to(ledger: Ledger) -> None:
    record(ledger, "a", SHOT)
    orphan = ledger.blobs.put(b"written, but the process was killed before the entry")
    age(ledger)
    report = prune(ledger, older_than=None, max_bytes=None, by="test")
    assert (report.blobs, blobs(ledger)) == (1, {SHOT.digest})
    assert orphan not in blobs(ledger)
    age(ledger)
    report = prune(ledger, older_than=time.time() + 1, max_bytes=None, by="test")
    assert (report.calls, report.blobs, report.freed, blobs(ledger)) == (1, 1, len(PNG), set())
    assert ledger.verify().ok


def test_attachments_count_for_the_limit_of_blobs(ledger: Ledger) -> None:
    record(ledger, "a", SHOT)
    age(ledger)
    report = prune_by_config(ledger, LedgerConfig(max_blob_bytes=1), by="test")
    assert (report.blobs, report.freed, blobs(ledger)) == (1, len(PNG), set())


@pytest.mark.spec("T10e")
def test_deleting_a_session_keeps_the_bytes_that_another_needs(ledger: Ledger) -> None:
    only = Attachment(kind="file", mime_type="a/b", data=b"only here")
    record(ledger, "a", SHOT, only, session="one")
    record(ledger, "b", SHOT, session="two")
    age(ledger)
    entries = {session.id: session.last_entry for session in list_sessions(ledger)}
    done = delete_session(ledger, "one", entries["one"], by="test")
    assert (done.blobs, done.freed, blobs(ledger)) == (1, 9, {SHOT.digest})
    result = ledger.result("b")
    assert result is not None and result.attachments == (SHOT,)
