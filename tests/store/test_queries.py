"""Queries: filters, call ids, entries, export."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.contract.call import Caller
from holdfast.contract.enums import State
from holdfast.contract.errors import UnknownCall
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.store.entries import MAX_INLINE
from holdfast.store.ledger import Ledger
from holdfast.store.process_identity import this_process
from holdfast.store.queries import CallFilter
from tests.store.calls import APPROVED, DONE, YES, begin, make_call, make_pending


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "l.db") as opened:
        yield opened


@pytest.mark.spec("X10")
def test_calls_are_listed_newest_first_and_filtered_by_tool_and_state(ledger: Ledger) -> None:
    for number in range(1200):
        tool = "file.read" if number % 100 == 0 else "file.write"
        result = DONE if number % 2 else Result(False, error="no", state=State.FAILED)
        ledger.record_call_now(make_call(f"n{number}", tool=tool), APPROVED, result)
    asyncio.run(begin(ledger, make_call("running")))
    ledger.grants.add(tool="file.read", pattern={}, scope="project", by="ada")
    assert [record.call.id for record in ledger.calls(3)] == ["running", "n1199", "n1198"]
    readers, failed = CallFilter(tool="file.read"), CallFilter(state=State.FAILED)
    assert [record.call.id for record in ledger.calls(2, readers)] == ["n1100", "n1000"]
    assert len(ledger.calls(5000, readers)) == 12
    assert [record.call.id for record in ledger.calls(10, CallFilter(state=State.RUNNING))] == ["running"]
    assert [record.call.id for record in ledger.calls(1, failed)] == ["n1198"]
    assert ledger.calls(0) == []


def found(ledger: Ledger, **wanted: Any) -> list[str]:
    return [record.call.id for record in ledger.calls(50, CallFilter(**wanted))]


@pytest.mark.spec("E1d")
def test_calls_are_found_by_time_text_user_document_and_pattern(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending_call = make_pending("held", tool="shell.exec", args={"command": "git push"})
    document = replace(make_call("doc"), caller=Caller(document="/p/notes/fix.chat"))
    for second, write in enumerate(
        (
            lambda: ledger.record_call_now(make_call("old"), APPROVED, Result(True, "one needle here")),
            lambda: asyncio.run(ledger.add_pending(pending_call)),
            lambda: ledger.record_call_now(document, APPROVED, DONE),
            lambda: ledger.answer("held", YES, digest=pending_call.digest),
        )
    ):
        monkeypatch.setattr("time.time", lambda second=second: 1000.0 + second)
        write()
    assert found(ledger) == ["held", "doc", "old"]
    assert found(ledger, since=1001.0) == ["held", "doc"]
    assert found(ledger, since=1002.0) == ["doc"], (
        "the time of a call is when it was received, not when it was answered"
    )
    assert found(ledger, until=1001.0) == ["old"]
    assert found(ledger, text=re.compile("NEEDLE", re.IGNORECASE)) == ["old"]
    assert found(ledger, text=re.compile("^command: git")) == ["held"]
    assert found(ledger, by="ada") == ["held"]
    assert found(ledger, by="config") == ["doc", "old"]
    assert found(ledger, by="da") == []
    for name in ("/p/notes/fix.chat", "notes/fix.chat", "fix.chat"):
        assert found(ledger, document=name) == ["doc"]
    assert found(ledger, document="x.chat") == []
    assert found(ledger, tool="file.*") == ["doc", "old"]
    assert found(ledger, tool="file") == []
    assert [(record.call.id, record.decided_by) for record in ledger.calls()] == [
        ("held", "ada"), ("doc", "config"), ("old", "config"),
    ]  # fmt: skip


@pytest.mark.spec("E1d")
def test_filters_combine_and_the_export_contains_all_entries_of_a_call(ledger: Ledger) -> None:
    for call_id in ("one", "two"):
        asyncio.run(begin(ledger, make_call(call_id)))
        asyncio.run(ledger.end(call_id, DONE))
    ledger.record_call_now(make_call("three", tool="file.read"), APPROVED, DONE)
    assert found(ledger, state=State.DONE, tool="file.read") == ["three"]
    assert found(ledger, state=State.FAILED, tool="file.read") == []
    exported = [json.loads(line) for line in ledger.export(CallFilter(tool="file.write"))]
    assert [(entry["call"], entry["kind"]) for entry in exported] == [
        ("one", "intent"), ("one", "ended"), ("two", "intent"), ("two", "ended"),
    ]  # fmt: skip
    ledger.grants.add(tool="file.read", pattern={}, scope="project", by="ada")
    assert [json.loads(line)["kind"] for line in ledger.export()][-1] == "granted"


@pytest.mark.spec("E1d", "X10")
def test_a_filter_reports_unreadable_calls(ledger: Ledger) -> None:
    ledger.record_call_now(make_call("good"), APPROVED, DONE)
    ledger.record_call_now(make_call("bad"), APPROVED, DONE)
    ledger.run(lambda tx: tx.execute("DROP TRIGGER entries_are_never_changed"))
    ledger.run(lambda tx: tx.execute("UPDATE entries SET body = '{' WHERE call = 'bad'"))
    unreadable: list[str] = []
    lines = list(ledger.export(CallFilter(state=State.DONE), unreadable=unreadable))
    assert [json.loads(line)["call"] for line in lines] == ["good"]
    assert unreadable == ["bad"]


@pytest.mark.spec("X10")
def test_a_call_with_several_entries_is_listed_once(ledger: Ledger) -> None:
    call = make_call()
    asyncio.run(begin(ledger, call))
    asyncio.run(ledger.end(call.id, DONE))
    assert [(record.call.id, len(record.entries)) for record in ledger.calls()] == [(call.id, 2)]


@pytest.mark.spec("X10")
def test_an_unknown_call_is_an_error_with_a_hint(ledger: Ledger) -> None:
    with pytest.raises(UnknownCall, match="No call has the id 'x'"):
        ledger.find("x")
    with pytest.raises(UnknownCall, match="No call has the id 'nope'"):
        ledger.call("nope")
    assert ledger.result("nope") is None
    assert ledger.find_pending("nope") is None


@pytest.mark.spec("X10")
def test_entries_can_be_read_from_a_given_position(ledger: Ledger) -> None:
    for number in range(1100):
        ledger.record_call_now(make_call(f"n{number}"), APPROVED, DONE)
    assert [entry.call for entry in ledger.entries(after=1097)] == ["n1097", "n1098", "n1099"]
    assert [entry.id for entry in ledger.entries()] == list(range(1, 1101))
    assert list(ledger.entries(after=1100)) == []


@pytest.mark.spec("X10")
def test_the_export_is_one_ascii_json_object_per_line_for_any_content(ledger: Ledger) -> None:
    nasty = 'a\nb\r\x1b[31m\x9b2J\u2028\u2029\x85"}{\u202e😀\x00'
    call = make_call(args={nasty: nasty})
    ledger.record_call_now(call, APPROVED, Result(True, nasty), original_args=nasty)
    asyncio.run(ledger.add_pending(make_pending()))
    lines = list(ledger.export())
    text = b"".join(lines).decode("ascii")
    assert all(char == "\n" or 0x20 <= ord(char) < 0x7F for char in text)
    exported = [json.loads(line) for line in text.splitlines()]
    assert [entry["kind"] for entry in exported] == ["call", "pending"]
    assert exported[0]["body"]["call"]["args"] == {nasty: nasty}
    assert set(exported[0]) == {"id", "call", "kind", "at", "hash", "body"}


@pytest.mark.spec("X10")
def test_the_version_changes_with_every_commit_of_any_process(ledger: Ledger) -> None:
    with Ledger.open(ledger.path) as other:
        seen = [ledger.version()]
        assert ledger.version() == seen[0]
        ledger.record_call_now(make_call(), APPROVED, DONE)
        seen.append(ledger.version())
        other.record_call_now(make_call(), APPROVED, DONE)
        seen.append(ledger.version())
    assert len(set(seen)) == 3


@pytest.mark.spec("A23a")
@pytest.mark.parametrize(
    "given",
    [
        *("abcdefgh-1", "abcdefgh-", "abcdefgh", "abcd-1", "abcd-", "abcd-%", "abcd-_1", "abcdefgh-1 ", " abcdefgh-11"),
        *("ABCDEFGH-11", "abcdefg_-11", "%", "_", "-", "-11", "", " ", "\0", "\ud800", "deploy", "deploy-"),
        *("deploy-al", "mine-1", "abcdefgh-11-", "abcdefgh-011", "abcdefgh-\N{FULLWIDTH DIGIT ONE}1"),
        *("zzzz", "abcdefgh-und"),
    ],
)
def test_an_incomplete_id_matches_no_call(ledger: Ledger, given: str) -> None:
    for call_id in ("abcdefgh-11", "abcdefgh-12", "deploy-all", "mine-11", "abcdefgh-undo"):
        ledger.record_call_now(make_call(call_id), APPROVED, DONE)
    with pytest.raises(UnknownCall):
        ledger.find(given)


@pytest.mark.spec("A23a")
def test_only_the_random_part_of_an_id_can_be_abbreviated(ledger: Ledger) -> None:
    for call_id in ("abcdefgh-1", "abcdefgh-11", "abzzzzzz-1", "cccccccc-7", "dddddddd-undo"):
        ledger.record_call_now(make_call(call_id), APPROVED, DONE)
    found = {given: ledger.find(given) for given in ("abc-1", "abc-11", "abz", "abz-1", "c", "c-7", "d", "d-undo")}
    assert found == {
        "abc-1": "abcdefgh-1",
        "abc-11": "abcdefgh-11",
        "abz": "abzzzzzz-1",
        "abz-1": "abzzzzzz-1",
        "c": "cccccccc-7",
        "c-7": "cccccccc-7",
        "d": "dddddddd-undo",
        "d-undo": "dddddddd-undo",
    }
    for several in ("ab", "ab-1", "abc"):
        with pytest.raises(UnknownCall, match="Several calls"):
            ledger.find(several)


@pytest.mark.spec("A23a")
def test_an_exact_id_wins_over_longer_ids_with_the_same_prefix(ledger: Ledger) -> None:
    for call_id in ("abcdefgh", "abcdefgh-1", "abc"):
        ledger.record_call_now(make_call(call_id), APPROVED, DONE)
    assert [ledger.find(given) for given in ("abcdefgh", "abc", "abcdefgh-1")] == ["abcdefgh", "abc", "abcdefgh-1"]


def test_received_calls_are_in_the_order_of_their_first_entry_from_any_position(ledger: Ledger) -> None:
    calls = [make_call(f"r{number}") for number in range(250)]
    for call in calls:
        ledger.begin_now(call, definition_digest="", mutates=False, decision=APPROVED)
    ledger.end_now("r3", DONE)
    ledger.run(lambda tx: tx.append("damaged", "call", "no body", first=True))
    unreadable: list[str] = []
    listed = list(ledger.received_calls(unreadable=unreadable))
    assert [record.call.id for record in listed] == [call.id for call in reversed(calls)]
    assert unreadable == ["damaged"]
    page = listed[:120]
    rest = ledger.received_calls(page[-1].entries[0])
    assert [record.call.id for record in (*page, *rest)] == [call.id for call in reversed(calls)]
    middle = listed[100].received_at
    assert all(record.received_at >= middle for record in ledger.received_calls(since=middle))
    assert all(record.received_at < middle for record in ledger.received_calls(until=middle))


def test_nested_calls_are_found_by_their_parent_alone(ledger: Ledger) -> None:
    ledger.record_call_now(make_call("before", args={"parent": "outer"}), APPROVED, DONE)
    ledger.begin_now(make_call("outer"), definition_digest="", mutates=False, decision=APPROVED)
    for name in ("one", "two"):
        ledger.record_call_now(replace(make_call(name), parent="outer", depth=1), APPROVED, DONE)
    ledger.record_call_now(make_call("imitation", args={"parent": "outer"}), APPROVED, DONE)
    assert [record.call.id for record in ledger.nested_calls("outer", 10)] == ["one", "two"]
    assert [record.call.id for record in ledger.nested_calls("outer", 1)] == ["one"]
    assert ledger.nested_calls("none", 10) == []


LONG: Args = {"text": "x" * (MAX_INLINE + 1)}


def test_nested_calls_with_long_arguments_are_found_and_others_do_not_count(ledger: Ledger) -> None:
    ledger.begin_now(make_call("outer"), definition_digest="", mutates=False, decision=APPROVED)
    ledger.record_call_now(make_call("other", args=LONG), APPROVED, DONE)
    for name in ("one", "two"):
        ledger.record_call_now(replace(make_call(name, args=LONG), parent="outer", depth=1), APPROVED, DONE)
    assert [record.call.id for record in ledger.nested_calls("outer", 10)] == ["one", "two"]
    assert [record.call.id for record in ledger.nested_calls("outer", 1)] == ["one"]


def test_asked_calls_with_long_arguments_are_found_and_others_do_not_count(ledger: Ledger) -> None:
    async def hold() -> None:
        await ledger.add_pending(make_pending("short"))
        await ledger.add_pending(make_pending("long", args=LONG))
        await ledger.add_pending(make_pending("other", args=LONG, tool="file.move"))

    asyncio.run(hold())
    assert [asked.call.id for asked in ledger.asked_calls("file.write", 10)] == ["long", "short"]
    assert [asked.call.id for asked in ledger.asked_calls("file.write", 1)] == ["long"]


def test_running_calls_are_listed_with_their_process(ledger: Ledger) -> None:
    ledger.begin_now(make_call("first"), definition_digest="", mutates=False, decision=APPROVED)
    ledger.begin_now(make_call("second"), definition_digest="", mutates=False, decision=APPROVED)
    ledger.end_now("first", DONE)
    ((record, process),) = ledger.running()
    assert (record.call.id, record.state, process) == ("second", State.RUNNING, this_process())


def test_the_export_of_one_call_has_its_entries_alone(ledger: Ledger) -> None:
    for name in ("one", "two"):
        ledger.begin_now(make_call(name), definition_digest="", mutates=False, decision=APPROVED)
        ledger.end_now(name, DONE)
    lines = list(ledger.export_call("one"))
    assert lines == [line for line in ledger.export() if b'"call":"one"' in line]
    assert len(lines) == 2
