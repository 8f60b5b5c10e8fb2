"""The vectors of a file: computed when needed, rebuilt when damaged, never mixed between embedders."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.store.memory import vector_index
from holdfast.store.memory.items import Candidates, MemoryStore
from tests.store.memory.support import WordEmbedder, everything, write

pytestmark = pytest.mark.spec("B8c")


def search(store: MemoryStore, embedder: WordEmbedder, query: str, progress: Any = None) -> tuple[str, Candidates]:
    """Return the content of the most similar item, and all candidates."""
    found = store.candidates([], store.scope(everything), embedder, embedder.embed([query])[0], progress)
    assert found.meanings is not None
    best = max(found.meanings.found, key=found.meanings.found.__getitem__)
    return store.by_number([best])[best].content, found


def rows(store: MemoryStore, query: str) -> list[Any]:
    connection = sqlite3.connect(store.path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def change(store: MemoryStore, statement: str) -> None:
    connection = sqlite3.connect(store.path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_an_item_is_found_by_a_synonym(tmp_path: Path) -> None:
    store, embedder = MemoryStore(tmp_path / "memory.db"), WordEmbedder()
    write(store, "the car is blue")
    write(store, "a puppy sleeps")
    assert search(store, embedder, "automobile")[0] == "the car is blue"
    assert search(store, embedder, "dog")[0] == "a puppy sleeps"


def test_a_write_embeds_nothing_and_a_search_only_what_is_new(tmp_path: Path) -> None:
    store, embedder = MemoryStore(tmp_path / "memory.db"), WordEmbedder()
    write(store, "first")
    assert embedder.embedded == []
    search(store, embedder, "q")
    write(store, "second")
    search(store, embedder, "q")
    assert embedder.embedded == ["q", "first", "q", "second"]


def test_vectors_are_kept_for_the_next_process(tmp_path: Path) -> None:
    first, second = WordEmbedder(), WordEmbedder()
    store = MemoryStore(tmp_path / "memory.db")
    write(store, "the car is blue")
    search(store, first, "q")
    assert search(MemoryStore(store.path), second, "automobile")[0] == "the car is blue"
    assert second.embedded == ["automobile"]


def test_another_embedder_replaces_all_vectors_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore(tmp_path / "memory.db")
    write(store, "the car is blue")
    write(store, "a puppy sleeps")
    search(store, WordEmbedder("one", 64), "q")
    with caplog.at_level(logging.WARNING):
        assert search(store, WordEmbedder("two", 32), "dog")[0] == "a puppy sleeps"
    assert "was embedded with one (64) and is embedded again with two (32)" in caplog.text
    assert {len(data) for (data,) in rows(store, "SELECT data FROM vectors")} == {4 * 32}
    assert search(store, WordEmbedder("one", 64), "automobile")[0] == "the car is blue"


@pytest.mark.parametrize("damage", ["x''", "zeroblob(256)", "substr(data, 2)", "'text'"])
def test_a_damaged_vector_is_computed_again(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    store, embedder = MemoryStore(tmp_path / "memory.db"), WordEmbedder()
    write(store, "the car is blue")
    write(store, "a puppy sleeps")
    search(store, embedder, "q")
    store.close()
    change(store, f"UPDATE vectors SET data = {damage} WHERE item = 1")
    again = MemoryStore(store.path)
    with caplog.at_level(logging.WARNING):
        assert search(again, embedder, "automobile")[0] == "the car is blue"
    assert "1 damaged vectors" in caplog.text and embedder.embedded.count("the car is blue") == 2


def test_lost_vectors_are_computed_again(tmp_path: Path) -> None:
    store, embedder = MemoryStore(tmp_path / "memory.db"), WordEmbedder()
    write(store, "the car is blue")
    search(store, embedder, "q")
    store.close()
    change(store, "DELETE FROM vectors")
    assert search(MemoryStore(store.path), embedder, "automobile")[0] == "the car is blue"


def test_many_items_are_embedded_in_the_background_with_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "EMBEDDED_AT_ONCE", 40)
    store, embedder = MemoryStore(tmp_path / "memory.db"), SlowEmbedder()
    for number in range(130):
        write(store, f"note {number}")
    told: list[tuple[str, float, float]] = []
    index = store._vector_index()  # pyright: ignore[reportPrivateUsage]

    def progress(message: str, done: float, total: float) -> None:
        told.append((message, done, total))

    missing = index.catch_up(embedder, progress, 40, 60)
    assert missing == 90 and told[0] == ("embedding items of the memory", 0, 40)
    embedder.go_on.set()
    worker = index._worker  # pyright: ignore[reportPrivateUsage]
    assert worker is not None
    worker.join(60)
    assert not worker.is_alive() and index.catch_up(embedder) == 0
    assert sorted(embedder.embedded) == sorted(f"note {number}" for number in range(130))


class SlowEmbedder(WordEmbedder):
    """Waits before it embeds anything in the background."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def embed(self, texts: Sequence[str]) -> Any:
        if threading.current_thread().name == "holdfast-memory":
            assert self.go_on.wait(60)
        return super().embed(texts)


def test_a_long_item_is_found_by_any_of_its_passages(tmp_path: Path) -> None:
    store, embedder = MemoryStore(tmp_path / "memory.db"), WordEmbedder()
    write(store, "filler words only. " * 100 + "\n\nthe puppy barks\n\n" + "more filler words. " * 100)
    write(store, "filler and words")
    assert search(store, embedder, "the dog barks")[0].startswith("filler words only")
    assert len(rows(store, "SELECT * FROM vectors WHERE item = 1")) > 3
