"""Pinned definitions of MCP tools."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.errors import LedgerCorrupt
from holdfast.contract.json import Json, canonical_json
from holdfast.store import pins as module
from holdfast.store.ledger import Ledger
from holdfast.store.pins import DAMAGED_PIN, ToolPins

ROOT = Path(__file__).parents[2]
ONE: Json = {"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}}
TWO: Json = {"name": "read", "description": "Reads, and sends it away.", "inputSchema": {"type": "object"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "user.db"


@pytest.fixture
def pins(path: Path) -> Iterator[ToolPins]:
    made = ToolPins(path)
    yield made
    made.close()


def change(path: Path, sql: str, *values: object) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(sql, values)
    connection.close()


def seen(pins: ToolPins, server: str, tool: str) -> Json:
    return pins.known(server, (tool,)).get(tool)


@pytest.mark.spec("K2")
def test_the_first_definition_is_pinned_and_a_later_one_is_not(pins: ToolPins) -> None:
    assert seen(pins, "s", "read") is None
    assert pins.first_seen("s", {"read": ONE}) == {"read": ONE}
    assert pins.first_seen("s", {"read": TWO}) == {"read": ONE}
    assert seen(pins, "s", "read") == ONE


@pytest.mark.spec("K2")
def test_a_tool_added_by_a_known_server_has_no_pin_until_the_user_accepts_it(pins: ToolPins) -> None:
    assert pins.first_seen("s", {}) == {}
    pins.first_seen("s", {"read": ONE, "list": ONE})
    assert pins.first_seen("s", {"read": ONE, "write": TWO}) == {"read": ONE}
    assert pins.first_seen("s", {"write": TWO}) == {}
    pins.pin("s", "write", TWO)
    assert pins.first_seen("s", {"read": ONE, "write": ONE}) == {"read": ONE, "write": TWO}


@pytest.mark.spec("K2")
def test_a_pin_belongs_to_one_tool_of_one_server(pins: ToolPins) -> None:
    pins.pin("s", "read", ONE)
    assert seen(pins, "other", "read") is None and seen(pins, "s", "READ") is None
    assert pins.first_seen("other", {"read": TWO}) == {"read": TWO}
    assert seen(pins, "s", "read") == ONE


@pytest.mark.spec("K2")
def test_an_accepted_definition_replaces_the_pin_in_every_process_and_after_a_restart(
    pins: ToolPins, path: Path
) -> None:
    elsewhere = ToolPins(path)
    pins.first_seen("s", {"read": ONE})
    assert seen(elsewhere, "s", "read") == ONE
    elsewhere.pin("s", "read", TWO)
    assert seen(pins, "s", "read") == TWO
    elsewhere.close()
    pins.close()
    assert seen(pins, "s", "read") == TWO


@pytest.mark.spec("K2")
def test_after_forgetting_a_server_its_next_contact_is_the_first(pins: ToolPins) -> None:
    pins.first_seen("s", {"read": ONE, "write": ONE})
    pins.first_seen("t", {"read": ONE})
    assert pins.forget("s") is True and pins.forget("s") is False
    assert seen(pins, "s", "read") is None and seen(pins, "t", "read") == ONE
    assert pins.first_seen("s", {"read": TWO}) == {"read": TWO}


@pytest.mark.spec("K2")
def test_reading_pins_creates_no_file(pins: ToolPins, tmp_path: Path) -> None:
    assert seen(pins, "s", "read") is None and pins.forget("s") is False and pins.first_seen("s", {}) == {}
    assert list(tmp_path.iterdir()) == []


DAMAGES = {
    "another text": ("UPDATE pins SET definition = ?", canonical_json(TWO).decode()),
    "half of it": ("UPDATE pins SET definition = substr(definition, 1, ?)", 20),
    "nothing": ("UPDATE pins SET definition = ?", ""),
    "no text": ("UPDATE pins SET definition = ?", b"\xff\x00"),
    "a number": ("UPDATE pins SET definition = ?", 7),
    "another digest": ("UPDATE pins SET digest = ?", "0" * 64),
}


@pytest.mark.spec("K2")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_pin_matches_no_definition_and_is_not_replaced(pins: ToolPins, path: Path, damage: str) -> None:
    pins.first_seen("s", {"read": ONE})
    change(path, *DAMAGES[damage])
    assert seen(pins, "s", "read") == DAMAGED_PIN
    assert pins.first_seen("s", {"read": ONE}) == {"read": DAMAGED_PIN}
    assert seen(pins, "s", "read") == DAMAGED_PIN
    pins.pin("s", "read", TWO)
    assert seen(pins, "s", "read") == TWO


@pytest.mark.spec("K2")
def test_a_file_that_is_not_a_ledger_is_an_error_instead_of_a_first_contact(pins: ToolPins, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"something else" * 1000)
    for look in (lambda: seen(pins, "s", "read"), lambda: pins.first_seen("s", {"read": ONE})):
        with pytest.raises(LedgerCorrupt):
            look()


@pytest.mark.spec("K2")
def test_a_definition_is_stored_without_redaction(pins: ToolPins) -> None:
    secret: Json = {"description": "like ghp_" + "a" * 36 + " or AKIA" + "A" * 16 + " or password=hunter2hunter2"}
    assert pins.first_seen("s", {"t": secret}) == {"t": secret}
    assert seen(pins, "s", "t") == secret


@pytest.mark.spec("K2")
def test_true_differs_from_one_and_key_order_does_not_matter(pins: ToolPins) -> None:
    pins.pin("s", "t", {"a": True, "b": 1})
    assert canonical_json(seen(pins, "s", "t")) == b'{"a":true,"b":1}'


_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.spec("K2")
@settings(max_examples=30, deadline=None)
@given(definition=st.dictionaries(st.text(), _json, min_size=1, max_size=4), server=st.text(), tool=st.text())
def test_any_json_value_can_be_pinned_and_read_back(definition: dict[str, Json], server: str, tool: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pins = ToolPins(Path(folder, "user.db"))
        pins.pin(server, tool, definition)
        assert canonical_json(seen(pins, server, tool)) == canonical_json(definition)
        pins.close()


@pytest.mark.spec("K2")
def test_a_server_over_the_limits_gets_no_further_pins_and_loses_none(
    pins: ToolPins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TOOLS", 3)
    assert pins.first_seen("s", {"a": ONE, "b": ONE, "c": ONE, "d": ONE}).keys() == {"a", "b", "c"}
    assert pins.first_seen("s", {"d": ONE, "a": TWO}) == {"a": ONE}
    assert seen(pins, "s", "d") is None
    assert pins.first_seen("t", {"d": ONE}) == {"d": ONE}
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    long: Json = {"description": "x" * 900}
    assert pins.first_seen("u", {"a": long, "b": long, "c": ONE}).keys() == {"a", "c"}


@pytest.mark.spec("K2", "X10")
def test_every_pin_is_in_the_hash_chain_by_its_digest_only(pins: ToolPins, path: Path) -> None:
    pins.first_seen("s", {"read": ONE})
    pins.pin("s", "read", TWO)
    pins.forget("s")
    with Ledger.open(path) as ledger:
        entries = list(ledger.entries())
        assert [entry.kind for entry in entries] == ["pinned", "pinned", "unpinned"]
        assert ledger.verify().ok
    with sqlite3.connect(path) as connection:
        bodies = [str(body) for (body,) in connection.execute("SELECT body FROM entries")]
    connection.close()
    assert "sends it away" not in "".join(bodies)


RACER = """
import sys
from pathlib import Path
from holdfast.store.pins import ToolPins
pins = ToolPins(Path(sys.argv[1]))
pins.known("s", ("warm",))
print("ready", flush=True)
sys.stdin.readline()
mine = {f"t{n}": {"by": sys.argv[2]} for n in range(50)}
pinned = pins.first_seen("s", mine)
print(",".join(pinned[f"t{n}"]["by"] for n in range(50)), flush=True)
"""
ENDLESS = """
import sys
from pathlib import Path
from holdfast.store.pins import ToolPins
pins = ToolPins(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    tools = {f"t{n}": {"number": number, "pad": "x" * 500} for n in range(5)}
    pins.first_seen(f"{sys.argv[2]}-{number}", tools)
    print(number, flush=True)
"""


def start(script: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.spec("K2")
def test_concurrent_processes_agree_on_the_first_definition(pins: ToolPins, path: Path) -> None:
    racers = [start(RACER, str(path), name) for name in "abc"]
    try:
        assert [line_of(racer) for racer in racers] == ["ready"] * 3
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        told = {line_of(racer) for racer in racers}
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate(timeout=30)
    assert len(told) == 1
    [names] = told
    assert [seen(pins, "s", f"t{number}") for number in range(50)] == [{"by": name} for name in names.split(",")]


@pytest.mark.spec("K2")
def test_a_killed_process_leaves_complete_pins(pins: ToolPins, path: Path) -> None:
    for name in "ab":
        process = start(ENDLESS, str(path), name)
        told = 0
        while told < 5:
            told = int(line_of(process))
        os.kill(process.pid, signal.SIGKILL)
        rest, _ = process.communicate(timeout=30)
        told = int((rest.split() or [told])[-1])
        for number in range(1, told + 1):
            found = [seen(pins, f"{name}-{number}", f"t{n}") for n in range(5)]
            assert found == [{"number": number, "pad": "x" * 500}] * 5
    with Ledger.open(path) as ledger:
        assert ledger.verify().ok
