"""Sessions in the ledger: which calls belong together, and that deletion leaves no text behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.contract.call import Call, Caller
from holdfast.contract.errors import SessionRefused, UnknownCall
from holdfast.contract.sessions import SessionSummary
from holdfast.store.changes import mark_undone
from holdfast.store.entries import EntriesPruned, RemovedCall
from holdfast.store.ledger import Ledger
from holdfast.store.sessions import delete_session, list_sessions
from tests.store.calls import APPROVED, DONE, begin, make_call, make_pending

SECRET = "a text that only this session has"
DOCUMENT = "/project/talk.chat"


@pytest.fixture
def ledger(tmp_path: Path) -> Generator[Ledger]:
    with Ledger.open(tmp_path / "state" / "ledger.db") as ledger:
        yield ledger


def call_of(call_id: str, **caller: Any) -> Call:
    return replace(make_call(call_id, args={"content": SECRET}), caller=Caller(interface="test", **caller))


def change(ledger: Ledger, call: Call, content: bytes = SECRET.encode(), spilled: str = SECRET) -> None:
    asyncio.run(begin(ledger, call))
    ledger.before_image(call.id, Path("/p/a"), content)
    spill = ledger.blobs.spill(spilled, 10**6).reference
    ledger.end_now(call.id, replace(DONE, output=SECRET, metadata={"spill": spill}))


def age(ledger: Ledger) -> None:
    """Make the stored contents look old, so that nothing waits for them."""
    for file in ledger.blobs.folder.rglob("*"):
        os.utime(file, (1e9, 1e9))


def by_id(ledger: Ledger) -> dict[str, SessionSummary]:
    return {session.id: session for session in list_sessions(ledger)}


def delete(ledger: Ledger, name: str) -> tuple[int, int, int]:
    done = delete_session(ledger, name, by_id(ledger)[name].last_entry, by="ada")
    assert done.erased
    return done.calls, done.entries, done.blobs


def files_with(folder: Path, text: str) -> list[str]:
    return [file.name for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


@pytest.mark.spec("B12b")
def test_calls_of_a_document_a_named_session_and_a_run_belong_together(ledger: Ledger) -> None:
    for number, name in enumerate(("aaaaaaaa-1", "bbbbbbbb-1")):
        ledger.record_call_now(call_of(name, document=DOCUMENT, agent=f"a{number}"), APPROVED, DONE)
    ledger.record_call_now(call_of("cccccccc-1", session="mine"), APPROVED, DONE)
    ledger.record_call_now(call_of("dddddddd-1"), APPROVED, DONE)
    change(ledger, call_of("dddddddd-2"))
    sessions = by_id(ledger)
    assert [name[:5] for name in sessions] == ["ddddd", "mine", "chat-"]
    chat = next(session for session in sessions.values() if session.document)
    assert (chat.document, chat.calls, chat.agent) == (DOCUMENT, 2, "a0")
    assert sessions["dddddddd"].calls == 2 and sessions["dddddddd"].bytes > len(SECRET)
    assert sessions["dddddddd"].first <= sessions["dddddddd"].last


@pytest.mark.spec("B12b")
def test_the_list_can_be_narrowed_by_time_and_text(ledger: Ledger) -> None:
    ledger.record_call_now(call_of("aaaaaaaa-1", document=DOCUMENT), APPROVED, DONE)
    ledger.record_call_now(call_of("cccccccc-1", session="mine", skill="Sums"), APPROVED, DONE)
    first, last = sorted(session.last for session in list_sessions(ledger))
    assert [session.document for session in list_sessions(ledger, text="TALK")] == [DOCUMENT]
    assert [session.id for session in list_sessions(ledger, text="sums")] == ["mine"]
    assert len(list_sessions(ledger, since=last)) == 1 and len(list_sessions(ledger, until=last)) == 1
    assert list_sessions(ledger, since=last + 1) == list_sessions(ledger, until=first) == []


@pytest.mark.spec("B12c")
def test_a_deleted_session_leaves_no_text_in_any_file_and_the_chain_stays_valid(ledger: Ledger) -> None:
    ledger.record_call_now(make_call("kept-1"), APPROVED, DONE)
    change(ledger, call_of("dddddddd-1"))
    ledger.record_call_now(call_of("dddddddd-2"), APPROVED, replace(DONE, output=SECRET * 50_000))
    head = ledger.head()
    age(ledger)
    assert files_with(ledger.path.parent, SECRET)
    assert delete(ledger, "dddddddd") == (2, 4, 2)
    assert files_with(ledger.path.parent, SECRET) == []
    assert ledger.verify().ok and ledger.verify(head).ok
    assert [record.call.id for record in ledger.calls()] == ["kept-1"]
    assert "dddddddd" not in by_id(ledger)
    with pytest.raises(UnknownCall, match="was deleted with its session 'dddddddd'"):
        ledger.find("dddddddd-1")


@pytest.mark.spec("B12c")
def test_the_record_of_the_deletion_keeps_what_it_says_and_no_more(ledger: Ledger) -> None:
    change(ledger, call_of("dddddddd-1"))
    age(ledger)
    delete(ledger, "dddddddd")
    entry = list(ledger.entries())[-1]
    (body,) = ledger.rows("SELECT body FROM entries WHERE kind = 'pruned'")[0]
    record = ledger.read_body(body, EntriesPruned)
    assert (entry.kind, record.session, record.by, record.calls) == ("pruned", "dddddddd", "ada", 1)
    (kept,) = record.removed
    assert kept == RemovedCall("dddddddd-1", "file.write", "done", kept.at, "config")
    assert SECRET not in body and "a.txt" not in body


@pytest.mark.spec("B12c")
def test_contents_that_another_session_uses_stay(ledger: Ledger) -> None:
    change(ledger, call_of("dddddddd-1"), spilled="only here")
    change(ledger, call_of("eeeeeeee-1"), spilled="and there")
    age(ledger)
    assert delete(ledger, "dddddddd") == (1, 3, 1)
    assert ledger.verify().ok
    assert all(file.read_bytes() for file in ledger.blobs.folder.rglob("*") if file.is_file())
    assert delete(ledger, "eeeeeeee") == (1, 3, 2)


@pytest.mark.spec("B12c")
def test_an_undo_is_deleted_with_the_session_that_it_undid(ledger: Ledger) -> None:
    change(ledger, call_of("dddddddd-1"))
    undo = call_of("zzzzzzzz-undo")
    asyncio.run(begin(ledger, undo))
    ledger.before_image(undo.id, Path("/p/a"), b"the text afterwards")
    mark_undone(ledger, "dddddddd-1", undo.id, "ada")
    ledger.end_now(undo.id, DONE)
    age(ledger)
    assert {name: session.calls for name, session in by_id(ledger).items()} == {"dddddddd": 2}
    assert delete(ledger, "dddddddd")[0] == 2
    assert files_with(ledger.path.parent, "the text afterwards") == []


@pytest.mark.spec("B12c")
def test_a_session_with_open_calls_or_news_is_not_deleted(ledger: Ledger) -> None:
    call = call_of("dddddddd-1")
    asyncio.run(begin(ledger, call))
    running = by_id(ledger)["dddddddd"]
    assert (running.running, running.pending) == (1, 0)
    with pytest.raises(SessionRefused, match="pending or running"):
        delete_session(ledger, "dddddddd", running.last_entry, by="ada")
    ledger.end_now(call.id, DONE)
    with pytest.raises(SessionRefused, match="changed since it was shown"):
        delete_session(ledger, "dddddddd", running.last_entry, by="ada")
    pending = make_pending("ffffffff-1")
    asyncio.run(ledger.add_pending(pending))
    assert by_id(ledger)["s1"].pending == 1
    with pytest.raises(SessionRefused, match="There is no session"):
        delete_session(ledger, "nowhere", 0, by="ada")
    assert ledger.verify().ok and len(list(ledger.calls())) == 2


@pytest.mark.spec("B12c")
def test_a_damaged_entry_hides_no_other_session(ledger: Ledger) -> None:
    ledger.record_call_now(call_of("aaaaaaaa-1"), APPROVED, DONE)
    ledger.run(lambda tx: tx.append("broken-1", "call", "{", first=True))
    ledger.record_call_now(call_of("cccccccc-1"), APPROVED, DONE)
    assert list(by_id(ledger)) == ["cccccccc", "aaaaaaaa"]
