"""Pinned definitions."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
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
def test_the_first_sight_is_pinned_and_a_later_one_is_not(pins: ToolPins) -> None:
    assert seen(pins, "s", "read") is None
    assert pins.first_seen("s", {"read": ONE}) == {"read": ONE}
    assert pins.first_seen("s", {"read": TWO}) == {"read": ONE}
    assert seen(pins, "s", "read") == ONE


@pytest.mark.spec("K2")
def test_what_a_known_server_brings_later_has_no_pin_until_a_person_has_seen_it(pins: ToolPins) -> None:
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
def test_what_a_person_accepts_replaces_the_pin_here_and_elsewhere_and_after_a_restart(
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
def test_a_forgotten_server_is_seen_for_the_first_time_again(pins: ToolPins) -> None:
    pins.first_seen("s", {"read": ONE, "write": ONE})
    pins.first_seen("t", {"read": ONE})
    assert pins.forget("s") is True and pins.forget("s") is False
    assert seen(pins, "s", "read") is None and seen(pins, "t", "read") == ONE
    assert pins.first_seen("s", {"read": TWO}) == {"read": TWO}


@pytest.mark.spec("K2")
def test_looking_creates_nothing(pins: ToolPins, tmp_path: Path) -> None:
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
def test_a_damaged_pin_is_no_first_sight_and_matches_no_definition(pins: ToolPins, path: Path, damage: str) -> None:
    pins.first_seen("s", {"read": ONE})
    change(path, *DAMAGES[damage])
    assert seen(pins, "s", "read") == DAMAGED_PIN
    assert pins.first_seen("s", {"read": ONE}) == {"read": DAMAGED_PIN}
    assert seen(pins, "s", "read") == DAMAGED_PIN
    pins.pin("s", "read", TWO)
    assert seen(pins, "s", "read") == TWO


@pytest.mark.spec("K2")
def test_a_file_that_is_no_ledger_is_an_error_and_no_first_sight(pins: ToolPins, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"something else" * 1000)
    for look in (lambda: seen(pins, "s", "read"), lambda: pins.first_seen("s", {"read": ONE})):
        with pytest.raises(LedgerCorrupt):
            look()


@pytest.mark.spec("K2")
def test_a_definition_is_kept_word_for_word_whatever_it_looks_like(pins: ToolPins) -> None:
    secret: Json = {"description": "like ghp_" + "a" * 36 + " or AKIA" + "A" * 16 + " or password=hunter2hunter2"}
    assert pins.first_seen("s", {"t": secret}) == {"t": secret}
    assert seen(pins, "s", "t") == secret


@pytest.mark.spec("K2")
def test_true_is_not_one_and_order_does_not_matter(pins: ToolPins) -> None:
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
def test_whatever_is_pinned_comes_back(definition: dict[str, Json], server: str, tool: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pins = ToolPins(Path(folder, "user.db"))
        pins.pin(server, tool, definition)
        assert canonical_json(seen(pins, server, tool)) == canonical_json(definition)
        pins.close()


@pytest.mark.spec("K2")
def test_a_server_with_too_much_gets_no_further_pins_and_loses_none(
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
def test_every_pin_is_in_the_chain_by_its_digest_alone(pins: ToolPins, path: Path) -> None:
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


@pytest.mark.spec("K2")
def test_threads_that_begin_at_once_share_one_ledger(pins: ToolPins, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    opening, together = Ledger.open, Barrier(8)

    def counted(path: Path) -> Ledger:
        opened.append(path)
        return opening(path)

    def look(number: int) -> dict[str, Json]:
        together.wait(30)
        return pins.first_seen(f"s{number % 2}", {"read": {"by": number}})

    monkeypatch.setattr(Ledger, "open", counted)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(look, range(8)))
    assert len(opened) == 1
    assert [found[number] == found[number % 2] for number in range(8)] == [True] * 8


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
def test_processes_that_see_a_tool_first_at_once_agree_on_what_was_seen(pins: ToolPins, path: Path) -> None:
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
def test_a_killed_process_leaves_whole_pins(pins: ToolPins, path: Path) -> None:
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
