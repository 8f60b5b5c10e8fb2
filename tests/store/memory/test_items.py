"""Items of a memory file: write, supersede, expire, list, find."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.errors import MemoryRefused
from holdfast.contract.memory import NewItem, Provenance
from holdfast.store.memory.items import MemoryStore
from tests.store.memory.support import bytes_on_disk, everything, found_by_keywords, write

pytestmark = pytest.mark.spec("B8a")


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    return MemoryStore(tmp_path / "state" / "memory.db")


def contents(store: MemoryStore, namespace: str, *, history: bool = False, below: bool = False) -> list[str]:
    page = store.page(namespace, everything, offset=0, limit=100, history=history, below=below)
    return [item.content for item in page.items]


def test_an_item_reads_back_with_its_provenance_and_times(store: MemoryStore) -> None:
    made_by = Provenance(interface="cli", agent="fast", session="s", call="c-9", parent="c-8")
    item = store.write(NewItem(namespace="a/b", content="One fact.", expires=4e9), made_by)
    again = MemoryStore(store.path).get(item.id)
    assert again is not None and again == item and again.provenance == made_by and again.expires == 4e9
    assert again.created == again.updated > 1.7e9


def test_reading_creates_no_file(store: MemoryStore) -> None:
    assert store.get("x") is None and store.find_same("a", "b") is None
    assert store.namespaces(everything) == [] and contents(store, "a") == [] and found_by_keywords(store, "x") == []
    assert not store.path.exists()


def test_files_are_private(store: MemoryStore) -> None:
    write(store, "x")
    assert all(file.stat().st_mode & 0o077 == 0 for file in store.path.parent.iterdir())


def test_the_same_content_is_stored_once_per_namespace(store: MemoryStore) -> None:
    first = write(store, "fact", "a")
    assert write(store, "fact", "a").id == first.id
    assert write(store, "fact", "b").id != first.id
    assert store.find_same("a", "fact") == first and store.find_same("a", "other") is None


def test_a_superseded_item_stays_readable_in_the_history_only(store: MemoryStore) -> None:
    old = write(store, "It is red.")
    new = write(store, "It is blue.", supersedes=old.id)
    kept = store.get(old.id)
    assert kept is not None and kept.superseded_by == new.id and new.supersedes == old.id
    assert contents(store, "notes") == ["It is blue."]
    assert contents(store, "notes", history=True) == ["It is blue.", "It is red."]
    with pytest.raises(MemoryRefused, match=f"was superseded by {new.id} already"):
        write(store, "It is green.", supersedes=old.id)
    assert write(store, "It is red.").id != old.id, "a superseded content can be written again"


def test_nothing_is_written_when_the_superseded_item_is_missing_or_has_changed(store: MemoryStore) -> None:
    old = write(store, "old")
    with pytest.raises(MemoryRefused, match="There is no item 'nope'"):
        write(store, "new", supersedes="nope")
    with pytest.raises(MemoryRefused, match="has changed since this was proposed"):
        write(store, "new", supersedes=old.id, seen="another digest")
    assert contents(store, "notes", history=True) == ["old"] and found_by_keywords(store, "new") == []


def test_an_expired_item_is_gone_at_once_and_removed_later(tmp_path: Path) -> None:
    clock = Clock()
    store = MemoryStore(tmp_path / "memory.db", clock=clock)
    item = write(store, "short-lived fact", expires=clock.now + 60)
    assert found_by_keywords(store, "fact") == ["short-lived fact"]
    clock.now += 60
    assert found_by_keywords(store, "fact") == contents(store, "notes") == []
    assert store.namespaces(everything) == [] and store.get(item.id) is None
    write(store, "another")
    store.close()
    assert b"short-lived" not in store.path.read_bytes()


def test_an_expired_item_leaves_every_file_with_the_next_call_whatever_it_is(tmp_path: Path) -> None:
    clock = Clock()
    store = MemoryStore(tmp_path / "memory.db", clock=clock)
    write(store, "short-lived fact", "brief/namespace", expires=clock.now + 60)
    write(store, "kept")
    clock.now += 60
    assert contents(store, "notes") == ["kept"]
    raw = bytes_on_disk(store.path)
    assert b"kept" in raw and b"short-lived" not in raw and b"brief/namespace" not in raw
    write(store, "another", expires=clock.now + 60)
    store.close()
    clock.now += 60
    again = MemoryStore(store.path, clock=clock)
    assert contents(again, "notes") == ["kept"] and b"another" not in bytes_on_disk(store.path)


def test_an_expired_item_is_hidden_while_it_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.store.memory.database.LOCK_TIMEOUT", 0.01)
    clock = Clock()
    store = MemoryStore(tmp_path / "memory.db", clock=clock)
    item = write(store, "short-lived fact", expires=clock.now + 60)
    writer = sqlite3.connect(store.path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    clock.now += 60
    assert store.get(item.id) is None and found_by_keywords(store, "fact") == []
    writer.close()
    assert store.get(item.id) is None and b"short-lived" not in bytes_on_disk(store.path)


def test_the_same_content_with_another_expiry_expires_then(tmp_path: Path) -> None:
    clock = Clock()
    store = MemoryStore(tmp_path / "memory.db", clock=clock)
    first = write(store, "fact", expires=clock.now + 60)
    assert write(store, "fact", expires=clock.now + 120).id == first.id
    clock.now += 60
    assert contents(store, "notes") == ["fact"]
    assert write(store, "fact").expires is None
    clock.now += 1000
    assert contents(store, "notes") == ["fact"]


def test_an_item_is_current_again_when_its_correction_expires(tmp_path: Path) -> None:
    clock = Clock()
    store = MemoryStore(tmp_path / "memory.db", clock=clock)
    old = write(store, "The office is open.")
    write(store, "The office is closed this week.", supersedes=old.id, expires=clock.now + 60)
    assert contents(store, "notes") == ["The office is closed this week."]
    clock.now += 60
    assert contents(store, "notes") == ["The office is open."] and found_by_keywords(store, "office") != []


def test_a_later_correction_stays_when_an_earlier_one_expires(tmp_path: Path) -> None:
    clock = Clock()
    store = MemoryStore(tmp_path / "memory.db", clock=clock)
    first = write(store, "first")
    second = write(store, "second", supersedes=first.id, expires=clock.now + 60)
    third = write(store, "third", supersedes=second.id)
    clock.now += 60
    assert contents(store, "notes") == ["third"]
    kept = store.get(first.id)
    assert kept is not None and kept.superseded_by == third.id


def test_namespaces_are_listed_with_counts_and_filtered_by_what_is_allowed(store: MemoryStore) -> None:
    old = write(store, "1", "team/a")
    write(store, "2", "team/a", supersedes=old.id)
    write(store, "3", "team/b")
    write(store, "4", "teams")
    listed = store.namespaces(lambda name: name != "team/b")
    assert [(each.namespace, each.items) for each in listed] == [("team/a", 1), ("teams", 1)]
    assert [each.namespace for each in store.namespaces(everything, "team")] == ["team/a", "team/b"]
    assert contents(store, "team", below=True) == ["3", "2"] and contents(store, "team") == []


def test_pages_are_newest_first_and_counted(store: MemoryStore) -> None:
    for number in range(7):
        write(store, f"item {number}")
    page = store.page("notes", everything, offset=2, limit=3, history=False, below=False)
    assert [item.content for item in page.items] == ["item 4", "item 3", "item 2"] and page.total == 7


def test_a_query_sees_only_the_namespaces_in_its_scope(store: MemoryStore) -> None:
    write(store, "the secret word", "private")
    write(store, "the public word", "public")
    allowed = store.scope(lambda name: name == "public")
    found = store.candidates(['"word"'], allowed).keywords
    assert [item.content for item in store.by_number(found).values()] == ["the public word"]
    assert store.candidates(['"word"'], []).keywords == {}


def test_two_stores_on_one_file_see_each_other(store: MemoryStore) -> None:
    other = MemoryStore(store.path)
    write(store, "from the first")
    assert found_by_keywords(other, "first") == ["from the first"]
    write(other, "from the second")
    assert found_by_keywords(store, "second") == ["from the second"]


@given(st.text(min_size=1, max_size=200).filter(lambda text: not any("\ud800" <= char <= "\udfff" for char in text)))
@settings(max_examples=50)
def test_any_text_reads_back_the_same(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    store = MemoryStore(tmp_path_factory.mktemp("memory") / "memory.db")
    item = write(store, text)
    found = MemoryStore(store.path).get(item.id)
    assert found is not None and found.content == text
