"""Measure the file tools against the size of their input: `python files.py [--quick]` prints one JSON object."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from measure import FULL, QUICK, Effort, Run, race, repeat

from holdfast import Runtime
from holdfast.tools.files.file_list import FILE_LIST
from holdfast.tools.files.read import FILE_READ

SMALL_BYTES = 1024
HUGE_BYTES = 1024**3
ENTRIES = 100_000
LINES = 200


async def reading(runtime: Runtime, root: Path, effort: Effort) -> dict[str, float]:
    """The first lines of a small file and of a huge one."""
    subjects: dict[str, Run] = {}
    for name, size in (("small", SMALL_BYTES), ("huge", HUGE_BYTES)):
        _write_lines(root / name, size)
        subjects[name] = await _sound(runtime, "file.read", {"path": name, "limit": LINES})
    return await race(subjects, effort)


async def listing(runtime: Runtime, root: Path, effort: Effort) -> dict[str, float]:
    """A folder with many entries, against reading and sorting its names."""
    folder = root / "many"
    folder.mkdir()
    for number in range(ENTRIES):
        (folder / f"{number * 7919 % ENTRIES:06}.txt").touch()

    async def scandir(n: int) -> None:
        for _ in range(n):
            with os.scandir(folder) as found:
                sorted(found, key=lambda entry: entry.name)

    return await race({"scandir": scandir, "list": await _sound(runtime, "file.list", {"path": "many"})}, effort)


def _write_lines(path: Path, size: int) -> None:
    block = b"".join(b"%07d the quick brown fox jumps over the lazy dog\n" % number for number in range(20_000))
    with path.open("wb") as file:
        while (left := size - file.tell()) > 0:
            file.write(block[:left])


async def _sound(runtime: Runtime, name: str, args: dict[str, object]) -> Run:
    """The call, once it has been seen to work."""
    result = await runtime.call(name, args)
    if not result.success:
        raise SystemExit(f"{name} did not work: {result.error}")
    return repeat(lambda text: runtime.call(name, text), json.dumps(args))


async def measure(effort: Effort) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as scratch:
        root = Path(scratch)
        async with Runtime(tools=[FILE_READ, FILE_LIST], root=root) as runtime:
            return {**await reading(runtime, root, effort), **await listing(runtime, root, effort)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    effort = QUICK if parser.parse_args().quick else FULL
    json.dump({"times": asyncio.run(measure(effort))}, sys.stdout)


if __name__ == "__main__":
    main()
