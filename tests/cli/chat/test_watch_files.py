"""`FileWatch`: every way in which editors save a file is noticed."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.cli.chat.watch import CannotWatch, FileWatch
from tests.quick import wakeups

PATIENCE = 60.0


def _in_place(file: Path) -> None:
    file.write_text("in place")


def _swap(file: Path) -> None:
    new = file.with_name(".new")
    new.write_text("swapped")
    new.replace(file)


def _rename_away_and_write(file: Path) -> None:
    file.rename(file.with_name("notes.chat~"))
    file.write_text("written anew")


def _delete_and_recreate(file: Path) -> None:
    file.unlink()
    file.write_text("recreated")


@pytest.mark.spec("E1c")
@pytest.mark.parametrize(
    "save",
    [_in_place, _swap, _rename_away_and_write, _delete_and_recreate, Path.unlink],
    ids=["in place", "atomic swap", "backup by renaming", "deleted and recreated", "deleted"],
)
def test_every_way_of_saving_is_seen(tmp_path: Path, save: Callable[[Path], object]) -> None:
    file = tmp_path / "notes.chat"
    file.write_text("before")

    async def main() -> None:
        async with FileWatch([file]) as watch:
            save(file)
            await asyncio.wait_for(watch.changed(), PATIENCE)

    asyncio.run(main())


@pytest.mark.spec("E1c")
def test_a_file_that_is_not_there_yet_and_one_behind_a_symlink_are_seen(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "notes.chat", tmp_path / "notes.chat"
    link.symlink_to(real)

    async def main() -> None:
        async with FileWatch([link]) as watch:
            real.write_text("first")
            await asyncio.wait_for(watch.changed(), PATIENCE)
            _swap(real)
            await asyncio.wait_for(watch.changed(), PATIENCE)
            _swap(link)
            await asyncio.wait_for(watch.changed(), PATIENCE)

    asyncio.run(main())


def test_changes_to_other_files_of_the_folder_are_ignored(tmp_path: Path) -> None:
    file, other = tmp_path / "notes.chat", tmp_path / "other.chat"

    async def main() -> None:
        async with FileWatch([file]) as watch, FileWatch([other]) as witness:
            other.write_text("not ours")
            await asyncio.wait_for(witness.changed(), PATIENCE)
            other.unlink()
            await asyncio.wait_for(witness.changed(), PATIENCE)
            waiting = asyncio.create_task(watch.changed())
            await asyncio.sleep(0)
            assert not waiting.done()
            waiting.cancel()

    asyncio.run(main())


def test_a_save_in_several_steps_is_debounced(tmp_path: Path) -> None:
    steps = 3

    async def main() -> int:
        pauses = 0

        async def pause(_: float) -> None:
            nonlocal pauses
            pauses += 1
            if pauses <= steps:
                watch.touch()

        watch = FileWatch([tmp_path / "notes.chat"], pause=pause)
        watch.touch()
        await asyncio.wait_for(watch.changed(), PATIENCE)
        return pauses

    assert asyncio.run(main()) == steps + 1


def test_a_file_that_keeps_changing_is_reported_anyway(tmp_path: Path) -> None:
    async def main() -> None:
        async def pause(_: float) -> None:
            watch.touch()

        watch = FileWatch([tmp_path / "notes.chat"], pause=pause)
        watch.touch()
        await asyncio.wait_for(watch.changed(), PATIENCE)

    asyncio.run(main())


def test_without_watchdog_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchdog.observers", None)
    with pytest.raises(CannotWatch, match=r"pip install 'holdfast\[watch\]'"):
        asyncio.run(_enter(FileWatch([tmp_path / "notes.chat"]).__aenter__))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotWatch, match=r"^Cannot watch .*gone: "):
        asyncio.run(_enter(FileWatch([tmp_path / "gone" / "notes.chat"]).__aenter__))


def test_waiting_uses_no_processor_time(tmp_path: Path) -> None:
    """All threads are blocked while idle; no timer runs."""

    async def main() -> list[int]:
        others = {thread.native_id for thread in threading.enumerate()}
        async with FileWatch([tmp_path / "notes.chat"]) as watch:
            waiting = asyncio.create_task(watch.changed())
            watchers = [thread.native_id for thread in threading.enumerate() if thread.native_id not in others]
            assert watchers
            woken = [wakeups(os.getpid(), watchers)]
            while len(woken) < 20 and woken[-2:-1] != woken[-1:]:
                await asyncio.wait({waiting}, timeout=1.0)
                woken.append(wakeups(os.getpid(), watchers))
            waiting.cancel()
            return woken

    woken = asyncio.run(main())
    assert woken[-2] == woken[-1], "they did something in every single second"


async def _enter(enter: Callable[[], Awaitable[object]]) -> None:
    await enter()
