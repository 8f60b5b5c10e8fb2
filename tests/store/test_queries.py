"""What can be asked of the ledger, and what its export looks like."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.contract.errors import UnknownCall
from holdfast.contract.result import Result
from holdfast.contract.vocabulary import State
from holdfast.store.ledger import Ledger
from tests.store.making import APPROVED, DONE, begin, make_call, make_held


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "l.db") as opened:
        yield opened


@pytest.mark.spec("X10")
def test_calls_are_listed_newest_first_and_by_tool_and_state(ledger: Ledger) -> None:
    for number in range(1200):
        tool = "file.read" if number % 100 == 0 else "file.write"
        result = DONE if number % 2 else Result(False, error="no", state=State.FAILED)
        ledger.record_whole_now(make_call(f"n{number}", tool=tool), APPROVED, result)
    asyncio.run(begin(ledger, make_call("running")))
    ledger.grants.add(tool="file.read", pattern={}, scope="project", by="ada")
    assert [record.call.id for record in ledger.calls(3)] == ["running", "n1199", "n1198"]
    assert [record.call.id for record in ledger.calls(2, tool="file.read")] == ["n1100", "n1000"]
    assert len(ledger.calls(5000, tool="file.read")) == 12
    assert [record.call.id for record in ledger.calls(state=State.RUNNING)] == ["running"]
    assert [record.call.id for record in ledger.calls(1, state=State.FAILED)] == ["n1198"]
    assert ledger.calls(0) == []


@pytest.mark.spec("X10")
def test_a_call_with_several_entries_is_listed_once(ledger: Ledger) -> None:
    call = make_call()
    asyncio.run(begin(ledger, call))
    asyncio.run(ledger.end(call.id, DONE))
    assert [(record.call.id, len(record.entries)) for record in ledger.calls()] == [(call.id, 2)]


@pytest.mark.spec("X10")
def test_a_call_the_ledger_does_not_know_is_an_error_that_says_so(ledger: Ledger) -> None:
    with pytest.raises(UnknownCall, match="No call has the id 'x'"):
        ledger.find("x")
    with pytest.raises(UnknownCall, match="No call has the id 'nope'"):
        ledger.call("nope")
    assert ledger.result("nope") is None
    assert ledger.held("nope") is None


@pytest.mark.spec("X10")
def test_entries_can_be_followed_from_where_one_left_off(ledger: Ledger) -> None:
    for number in range(1100):
        ledger.record_whole_now(make_call(f"n{number}"), APPROVED, DONE)
    assert [entry.call for entry in ledger.entries(after=1097)] == ["n1097", "n1098", "n1099"]
    assert [entry.id for entry in ledger.entries()] == list(range(1, 1101))
    assert list(ledger.entries(after=1100)) == []


@pytest.mark.spec("X10")
def test_the_export_is_one_json_object_per_line_whatever_was_in_the_call(ledger: Ledger) -> None:
    nasty = 'a\nb\r\x1b[31m\x9b2J\u2028\u2029\x85"}{\u202e😀\x00'
    call = make_call(args={nasty: nasty})
    ledger.record_whole_now(call, APPROVED, Result(True, nasty), original_args=nasty)
    asyncio.run(ledger.hold(make_held()))
    lines = list(ledger.export())
    text = b"".join(lines).decode("ascii")
    assert all(char == "\n" or 0x20 <= ord(char) < 0x7F for char in text)
    exported = [json.loads(line) for line in text.splitlines()]
    assert [entry["kind"] for entry in exported] == ["call", "held"]
    assert exported[0]["body"]["call"]["args"] == {nasty: nasty}
    assert set(exported[0]) == {"id", "call", "kind", "at", "hash", "body"}


@pytest.mark.spec("X10")
def test_the_version_changes_with_every_write_here_and_elsewhere(ledger: Ledger) -> None:
    with Ledger.open(ledger.path) as other:
        seen = [ledger.version()]
        assert ledger.version() == seen[0]
        ledger.record_whole_now(make_call(), APPROVED, DONE)
        seen.append(ledger.version())
        other.record_whole_now(make_call(), APPROVED, DONE)
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
def test_an_id_that_is_not_whole_means_no_call(ledger: Ledger, given: str) -> None:
    for call_id in ("abcdefgh-11", "abcdefgh-12", "deploy-all", "mine-11", "abcdefgh-undo"):
        ledger.record_whole_now(make_call(call_id), APPROVED, DONE)
    with pytest.raises(UnknownCall):
        ledger.find(given)


@pytest.mark.spec("A23a")
def test_only_the_random_part_of_an_id_can_be_cut_short(ledger: Ledger) -> None:
    for call_id in ("abcdefgh-1", "abcdefgh-11", "abzzzzzz-1", "cccccccc-7", "dddddddd-undo"):
        ledger.record_whole_now(make_call(call_id), APPROVED, DONE)
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
def test_an_id_the_ledger_knows_means_that_call_whatever_begins_so(ledger: Ledger) -> None:
    for call_id in ("abcdefgh", "abcdefgh-1", "abc"):
        ledger.record_whole_now(make_call(call_id), APPROVED, DONE)
    assert [ledger.find(given) for given in ("abcdefgh", "abc", "abcdefgh-1")] == ["abcdefgh", "abc", "abcdefgh-1"]
