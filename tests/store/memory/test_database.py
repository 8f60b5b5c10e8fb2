"""A memory file that is full, locked, damaged or of another program: one clear error, and nothing is lost."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.contract.errors import MemoryUnavailable
from holdfast.store.memory import database
from holdfast.store.memory.database import MemoryDatabase
from holdfast.store.memory.items import MemoryStore
from tests.soak import rounds
from tests.store.memory.support import everything, found_by_keywords, write

pytestmark = pytest.mark.spec("B8f")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def filled(path: Path, count: int = 20) -> None:
    store = MemoryStore(path)
    for number in range(count):
        write(store, f"fact number{number}")
    store.close()


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )


def test_a_full_disk_leaves_nothing_half_written(path: Path) -> None:
    code = """
import resource, signal, sys
from pathlib import Path
from holdfast.contract.errors import MemoryUnavailable
from holdfast.store.memory.items import MemoryStore
from tests.store.memory.support import write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
store = MemoryStore(Path(sys.argv[1]))
for number in range(10_000):
    try:
        write(store, f"fact number{number} " + "padding " * 50)
    except MemoryUnavailable as error:
        print(number, error)
        break
"""
    done = run_python(code, str(path))
    assert done.returncode == 0, done.stderr
    number, _, told = done.stdout.partition(" ")
    assert "Nothing was written" in told or "cannot be used" in told, told
    store = MemoryStore(path)
    assert store.page("notes", everything, offset=0, limit=1, history=True, below=False).total == int(number)
    assert len(found_by_keywords(store, "fact")) == min(int(number), 500)
    write(store, "there is space again")


@pytest.mark.parametrize(
    "damage",
    [
        ("UPDATE words_data SET block = zeroblob(40) WHERE id > 1",),
        ("DELETE FROM words_data",),
        ("DROP TABLE words_data",),
        ("DROP TABLE words_docsize",),
        ("DELETE FROM words_docsize WHERE id < 5",),
        ("DROP TABLE words",),
        ("UPDATE facts SET value = '0' WHERE name = 'index'",),
    ],
    ids=lambda each: each[0][:30],
)
def test_a_damaged_keyword_index_is_rebuilt_and_said(
    path: Path, damage: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    filled(path)
    change(path, *damage)
    store = MemoryStore(path)
    with caplog.at_level(logging.WARNING):
        assert found_by_keywords(store, "number7") == ["fact number7"]
    assert "It is rebuilt" in caplog.text
    write(store, "one more fact")
    assert len(found_by_keywords(store, "fact")) == 21
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.parametrize("statement", ["DROP TABLE words_data", "DELETE FROM words_config"])
def test_a_write_into_a_damaged_index_rebuilds_it_too(path: Path, statement: str) -> None:
    filled(path)
    change(path, statement)
    store = MemoryStore(path)
    write(store, "one more fact")
    assert len(found_by_keywords(store, "fact")) == 21


def use(store: MemoryStore) -> None:
    store.namespaces(everything)
    found_by_keywords(store, "fact")
    write(store, "new fact")


def _truncated(raw: bytes) -> bytes:
    return raw[:3000]


def _garbage(raw: bytes) -> bytes:
    return os.urandom(len(raw))


def _broken_pages(raw: bytes) -> bytes:
    return raw[:4096] + os.urandom(len(raw) - 4096)


@pytest.mark.parametrize("damage", [_truncated, _garbage, _broken_pages])
def test_a_damaged_file_is_moved_aside_and_the_next_call_starts_anew(
    path: Path, damage: Callable[[bytes], bytes]
) -> None:
    filled(path)
    broken = damage(path.read_bytes())
    path.write_bytes(broken)
    store = MemoryStore(path)
    with pytest.raises(MemoryUnavailable, match=r"is damaged .*moved to memory\.db\.damaged-.*starts an empty memory"):
        use(store)
    (kept,) = path.parent.glob("memory.db.damaged-*[0-9]")
    assert kept.read_bytes()[:3000] == broken[:3000]
    write(store, "new fact")
    assert found_by_keywords(store, "fact") == ["new fact"]


def test_what_is_written_after_another_process_moved_the_damaged_file_is_in_the_new_one(path: Path) -> None:
    filled(path)
    other = MemoryStore(path)
    found_by_keywords(other, "fact")
    path.write_bytes(_garbage(path.read_bytes()))
    with pytest.raises(MemoryUnavailable, match="was moved to"):
        MemoryStore(path).namespaces(everything)
    item = write(other, "acknowledged fact")
    assert found_by_keywords(MemoryStore(path), "fact") == found_by_keywords(other, "fact") == ["acknowledged fact"]
    assert other.get(item.id) is not None


def moved_away(path: Path) -> Path:
    """Move the file with its log, as a process does that finds it damaged."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).rename(path.with_name(f"moved.db{suffix}"))
    return path.with_name("moved.db")


def test_a_write_during_which_the_file_is_moved_is_repeated_in_the_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore(path)
    write(store, "first fact")
    ids = iter(("lost", "kept"))

    def make_id() -> str:
        made = next(ids)
        if made == "lost":
            moved_away(path)
        return made

    monkeypatch.setattr("holdfast.store.memory.items._new_id", make_id)
    assert write(store, "acknowledged fact").id == "kept"
    assert found_by_keywords(MemoryStore(path), "fact") == ["acknowledged fact"]


def test_the_new_file_of_another_process_is_not_moved_aside(path: Path) -> None:
    filled(path)
    late = MemoryDatabase(path)

    def meet_damage() -> None:
        with late.reading() as execute:
            moved = moved_away(path)
            write(MemoryStore(path), "sound fact")
            moved.write_bytes(_broken_pages(moved.read_bytes()))
            execute("SELECT content FROM items").fetchall()

    with pytest.raises(MemoryUnavailable, match="moved away by another process"):
        meet_damage()
    assert list(path.parent.glob("memory.db.damaged-*")) == []
    assert found_by_keywords(MemoryStore(path), "fact") == ["sound fact"]


def test_a_file_of_another_program_or_of_a_newer_holdfast_is_left_alone(tmp_path: Path) -> None:
    other, newer = tmp_path / "other.db", tmp_path / "newer.db"
    change(other, "CREATE TABLE mine (x)")
    filled(newer)
    change(newer, "PRAGMA user_version = 99")
    for path, told in ((other, "is not a memory of holdfast"), (newer, "was written by a newer holdfast")):
        before = path.read_bytes()
        with pytest.raises(MemoryUnavailable, match=told):
            write(MemoryStore(path), "x")
        assert path.read_bytes() == before


def test_a_locked_file_is_an_error_and_nothing_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOCK_TIMEOUT", 0.1)
    filled(path, 1)
    store = MemoryStore(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(MemoryUnavailable, match=r"locked by another program\. Nothing was written"):
        write(store, "x")
    assert found_by_keywords(store, "fact") == ["fact number0"], "reading goes on"
    holder.close()
    write(store, "x")


def test_an_unwritable_folder_is_an_error_that_names_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MemoryUnavailable, match="cannot be opened"):
        MemoryDatabase(tmp_path / "file" / "memory.db")


WRITER = """
import sys
from pathlib import Path
from holdfast.store.memory.items import MemoryStore
from tests.store.memory.support import write
store = MemoryStore(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    old = None if number % 3 else write(store, f"{sys.argv[2]} draft {number}").id
    item = write(store, f"{sys.argv[2]} fact {number}", supersedes=old)
    if number % 5 == 0:
        store.forget(item.id, item.digest, "c")
    print(number, flush=True)
"""


def started(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def check_whole(path: Path) -> None:
    """Every item has its keywords, and the file is sound."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    items = {number for (number,) in connection.execute("SELECT number FROM items")}
    assert items == {number for (number,) in connection.execute("SELECT id FROM words_docsize")}
    dangling = (
        "SELECT count(*) FROM items WHERE superseded_by NOT IN (SELECT id FROM items UNION SELECT id FROM tombstones)"
    )
    assert connection.execute(dangling).fetchone() == (0,)
    connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    connection.close()


def test_two_processes_write_at_once_and_nothing_is_lost(path: Path) -> None:
    count = rounds(20, 300)
    writers = [started(path, name, count) for name in ("a", "b")]
    assert [writer.wait(300) for writer in writers] == [0, 0]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()
    check_whole(path)
    store = MemoryStore(path)
    page = store.page("notes", everything, offset=0, limit=10_000, history=False, below=False)
    assert page.total == 2 * (count - -(-count // 5))


@pytest.mark.parametrize("attempt", range(rounds(3, 60)))
def test_a_killed_writer_leaves_a_whole_file(path: Path, attempt: int) -> None:
    writer = started(path, "x", 100_000)
    assert writer.stdout is not None
    seen = [writer.stdout.readline() for _ in range(2 + 7 * attempt % 23)]
    writer.kill()
    writer.wait(60)
    writer.stdout.close()
    check_whole(path)
    store = MemoryStore(path)
    done = int(seen[-1]) if seen[-1].strip().isdigit() else -1
    facts = {
        item.content
        for item in store.page("notes", everything, offset=0, limit=10_000, history=True, below=False).items
    }
    assert {f"x fact {number}" for number in range(done + 1) if number % 5} <= facts, "acknowledged items are kept"
    write(store, "goes on")
