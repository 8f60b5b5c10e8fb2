"""Reading lines back from the log of a process, which is two files that are written and dropped in turn."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.contract.processes import ProcessOutput

MAX_READ: Final = 1024 * 1024
MARGIN: Final = 8192
"""Read beyond that, so that a secret at the cut is whole when it is redacted."""
_BLOCK: Final = 65_536


def read_page(base: Path, offset: int | None, limit: int) -> ProcessOutput:
    """Lines from number `offset`, or the last ones. A line of more than a megabyte is cut."""
    files = sorted(base.parent.glob(f"{base.name}.out.*"), key=lambda path: int(path.name.split(".")[2]))
    dropped = int(files[0].name.split(".")[3]) if files else 0
    total = dropped + sum(_newlines(path) for path in files) + 1
    if files and _ends_line(files[-1]):
        total -= 1
    first = max(dropped + 1, total - limit + 1 if offset is None else offset)
    lines = _lines(files, first - dropped, limit)
    return ProcessOutput(text=lines, first=first, total_lines=total if files else 0, dropped=dropped)


def _lines(files: list[Path], first: int, limit: int) -> str:
    kept = bytearray()
    line = 1
    for path in files:
        with path.open("rb") as file:
            while (block := file.read(_BLOCK)) and line < first + limit and len(kept) < MAX_READ + MARGIN:
                for piece in block.splitlines(keepends=True):
                    if first <= line < first + limit:
                        kept += piece
                    line += piece.endswith(b"\n")
    return bytes(kept[: MAX_READ + MARGIN]).decode("utf-8", "replace").removesuffix("\n")


def _newlines(path: Path) -> int:
    count = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            count += block.count(b"\n")
    return count


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if not size:
            return True
        file.seek(size - 1)
        return file.read(1) == b"\n"
