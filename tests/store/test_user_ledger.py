"""The user's ledger: opened lazily, once, and created with the first entry."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from holdfast.contract.json import Json
from holdfast.store.ledger import Ledger
from holdfast.store.pins import ToolPins
from holdfast.store.trust import TrustStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "user.db"


@pytest.fixture
def pins(path: Path) -> Iterator[ToolPins]:
    opened = ToolPins(path)
    yield opened
    opened.close()


@pytest.mark.spec("K2")
def test_concurrent_threads_open_one_ledger(pins: ToolPins, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.spec("A2", "K2")
def test_the_file_is_created_with_the_first_entry_and_shared_by_trust_and_pins(path: Path, pins: ToolPins) -> None:
    trust = TrustStore(path)
    assert (trust.list(), pins.known("s", ("read",))) == ([], {})
    assert not path.exists()
    trust.trust(Path("/a.toml"), "d" * 64, by="ada")
    assert pins.first_seen("s", {"read": {"by": 1}}) == {"read": {"by": 1}}
    trust.close()
    again = TrustStore(path)
    assert again.is_trusted(Path("/a.toml"), "d" * 64)
    again.close()


@pytest.mark.spec("A2")
def test_a_closed_user_ledger_opens_again_on_the_next_use(path: Path) -> None:
    trust = TrustStore(path)
    trust.trust(Path("/a.toml"), "d" * 64, by="ada")
    trust.close()
    assert trust.is_trusted(Path("/a.toml"), "d" * 64)
    trust.close()
