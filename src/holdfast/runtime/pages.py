"""Reading lines back from the log of a process, which is two files that are written and dropped in turn."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.contract.errors import CallError
from holdfast.contract.processes import ProcessOutput

MAX_READ: Final = 1024 * 1024
MARGIN: Final = 8192
"""Read beyond that, so that a secret at the cut is whole when it is redacted."""
_BLOCK: Final = 65_536
_TRIES: Final = 10
"""Between listing the files and opening them the older one may be dropped."""


def read_page(base: Path, offset: int | None, limit: int) -> ProcessOutput:
    """Lines from number `offset`, or the last ones. A line of more than a megabyte is cut."""
    with ExitStack() as opened:
        dropped, files = _open_all(base, opened)
        total = dropped + sum(map(_newlines, files)) + 1
        if files and _ends_line(files[-1]):
            total -= 1
        first = max(dropped + 1, total - limit + 1 if offset is None else offset)
        lines = _lines(files, first - dropped, limit)
    return ProcessOutput(text=lines, first=first, total_lines=total if files else 0, dropped=dropped)


def _open_all(base: Path, opened: ExitStack) -> tuple[int, list[BinaryIO]]:
    """The lines dropped so far and the files there are, which stay readable when they are dropped as well."""
    for _ in range(_TRIES):
        paths = sorted(base.parent.glob(f"{base.name}.out.*"), key=lambda path: int(path.name.split(".")[2]))
        with ExitStack() as tried:
            try:
                files: list[BinaryIO] = [tried.enter_context(path.open("rb")) for path in paths]
            except FileNotFoundError:
                continue
            opened.enter_context(tried.pop_all())
            return int(paths[0].name.split(".")[3]) if paths else 0, files
    raise CallError("The process prints faster than its output can be read; try again.")


def _lines(files: list[BinaryIO], first: int, limit: int) -> str:
    kept = bytearray()
    line = 1
    for file in files:
        file.seek(0)
        while (block := file.read(_BLOCK)) and line < first + limit and len(kept) < MAX_READ + MARGIN:
            for piece in block.splitlines(keepends=True):
                if first <= line < first + limit:
                    kept += piece
                line += piece.endswith(b"\n")
    return bytes(kept[: MAX_READ + MARGIN]).decode("utf-8", "replace").removesuffix("\n")


def _newlines(file: BinaryIO) -> int:
    count = 0
    while block := file.read(_BLOCK):
        count += block.count(b"\n")
    return count


def _ends_line(file: BinaryIO) -> bool:
    size = file.seek(0, 2)
    if not size:
        return True
    file.seek(size - 1)
    return file.read(1) == b"\n"
