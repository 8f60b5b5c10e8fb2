"""Forgetting removes the text, its words and its vector from the file, and leaves a tombstone without content."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.contract.errors import MemoryRefused
from holdfast.store.memory.items import MemoryStore
from tests.store.memory.support import WordEmbedder, bytes_on_disk, everything, found_by_keywords, write

pytestmark = pytest.mark.spec("B8d")
SECRET = "Xylophonist Quetzalcoatl plays zephyranthes42"
WORDS = ("xylophonist", "quetzalcoatl", "zephyranth")
"""The words of the secret as the index stores them, stemmed."""


def remembered(path: Path, others: int) -> tuple[MemoryStore, str, WordEmbedder]:
    store, embedder = MemoryStore(path), WordEmbedder()
    for number in range(others):
        write(store, f"ordinary note {number} about nothing")
    item = write(store, SECRET, "private/people")
    for number in range(others):
        write(store, f"another note {number}")
    query = embedder.embed([SECRET])[0]
    store.candidates(['"note"'], store.scope(everything), embedder, query)
    return store, item.id, embedder


def vector_of(path: Path) -> bytes:
    connection = sqlite3.connect(path)
    query = "SELECT data FROM vectors JOIN items ON items.number = item WHERE content = ?"
    found = connection.execute(query, (SECRET,)).fetchone()[0]
    connection.close()
    return found


def traces(path: Path, vector: bytes) -> list[str]:
    raw = bytes_on_disk(path)
    found = [word for word in (*SECRET.split(), *WORDS, "private/people") if word.encode() in raw]
    return found + (["vector"] if vector[:64] in raw else [])


@pytest.mark.parametrize("others", [0, 3, 100])
def test_no_byte_of_a_forgotten_item_is_left_in_any_file(tmp_path: Path, others: int) -> None:
    path = tmp_path / "memory.db"
    store, item_id, _ = remembered(path, others)
    vector = vector_of(path)
    assert "vector" in traces(path, vector) and len(traces(path, vector)) > 5
    item = store.get(item_id)
    assert item is not None
    assert store.forget(item_id, item.digest, "c-2")
    assert traces(path, vector) == []
    store.close()
    assert traces(path, vector) == []
    assert item_id.encode() in bytes_on_disk(path), "the tombstone"


def test_a_forgotten_item_is_not_found_and_the_others_are(tmp_path: Path) -> None:
    store, item_id, embedder = remembered(tmp_path / "memory.db", 3)
    item = store.get(item_id)
    assert item is not None
    store.forget(item_id, item.digest, "c-2")
    assert store.get(item_id) is None and found_by_keywords(store, "quetzalcoatl") == []
    assert [each.namespace for each in store.namespaces(everything)] == ["notes"]
    found = store.candidates([], store.scope(everything), embedder, embedder.embed([SECRET])[0])
    assert found.meanings is not None and len(found.meanings.found) == 6
    with pytest.raises(MemoryRefused, match="There is no item"):
        store.forget(item_id, item.digest, "c-3")


def test_another_process_drops_the_vector_of_a_forgotten_item(tmp_path: Path) -> None:
    store, item_id, embedder = remembered(tmp_path / "memory.db", 3)
    other = MemoryStore(store.path)
    query = embedder.embed([SECRET])[0]
    before = other.candidates([], other.scope(everything), embedder, query).meanings
    item = store.get(item_id)
    assert before is not None and len(before.found) == 7 and item is not None
    store.forget(item_id, item.digest, "c-2")
    after = other.candidates([], other.scope(everything), embedder, query).meanings
    assert after is not None and len(after.found) == 6


def test_an_item_that_changed_since_the_proposal_is_not_forgotten(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "memory.db")
    item = write(store, "old")
    write(store, "new", supersedes=item.id)
    with pytest.raises(MemoryRefused, match="has changed since this was proposed"):
        store.forget(item.id, item.digest, "c-2")
    assert store.get(item.id) is not None


def test_an_item_stays_superseded_when_its_successor_is_forgotten(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "memory.db")
    old = write(store, "old")
    new = write(store, "new", supersedes=old.id)
    store.forget(new.id, new.digest, "c-2")
    kept = store.get(old.id)
    assert kept is not None and kept.superseded_by == new.id, "a forgotten correction does not bring the error back"
    newest = write(store, "newest", supersedes=old.id)
    kept = store.get(old.id)
    assert kept is not None and kept.superseded_by == newest.id, "but it can be corrected again"


def _write_next(store: MemoryStore) -> None:
    write(store, "the next one")


@pytest.mark.parametrize("change", [_write_next, MemoryStore.close])
def test_the_text_that_a_reader_kept_in_the_log_leaves_it_with_the_next_change(
    tmp_path: Path, change: Callable[[MemoryStore], object]
) -> None:
    store, item_id, _ = remembered(tmp_path / "memory.db", 1)
    vector, item = vector_of(store.path), store.get(item_id)
    reader = sqlite3.connect(store.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM items").fetchone()
    write(store, "so that the reader has an old state")
    assert item is not None and not store.forget(item_id, item.digest, "c-2")
    assert traces(store.path, vector) != []
    reader.execute("ROLLBACK")
    change(store)
    assert traces(store.path, vector) == []
    reader.close()


def test_a_reader_of_an_old_state_is_reported_and_the_next_deletion_empties_the_log(tmp_path: Path) -> None:
    store, item_id, _ = remembered(tmp_path / "memory.db", 1)
    vector = vector_of(store.path)
    reader = sqlite3.connect(store.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM items").fetchone()
    item, last = store.get(item_id), write(store, "the last one")
    assert item is not None
    assert not store.forget(item_id, item.digest, "c-2")
    reader.close()
    assert store.forget(last.id, last.digest, "c-3")
    assert traces(store.path, vector) == []
