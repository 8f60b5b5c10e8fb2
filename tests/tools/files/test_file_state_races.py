"""Symlink races: folders and files are swapped thousands of times while tools use them, and nothing outside is
touched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.contract.result import Result
from holdfast.fs import beneath
from holdfast.tools.files.edit import FILE_EDIT
from holdfast.tools.files.file_list import FILE_LIST
from holdfast.tools.files.read import FILE_READ
from holdfast.tools.files.write import FILE_WRITE
from tests.soak import rounds
from tests.tools.files.fake_context import FakeContext, use

TURNS = rounds(1800, 10_000)
SWAP = """
import os, sys
from contextlib import suppress
root, outside = sys.argv[1:]
pairs = [(f"{root}/sub", outside), (f"{root}/new", outside), (f"{root}/top.txt", f"{outside}/a.txt")]
print("swapping", flush=True)
while True:
    for path, target in pairs:
        with suppress(OSError):
            os.rename(path, path + ".kept")
            with suppress(FileExistsError):
                os.symlink(target, path)
                os.unlink(path)
            os.rename(path + ".kept", path)
"""


@contextmanager
def swapping(root: Path, outside: Path) -> Generator[None]:
    command = [sys.executable, "-I", "-S", "-c", SWAP, str(root), str(outside)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"swapping\n"
        try:
            yield
            assert process.poll() is None, "The swapping ended early."
        finally:
            process.kill()


def _turn(number: int, ctx: FakeContext) -> tuple[str, Result]:
    path = ("sub/a.txt", "top.txt")[number // 8 % 2]
    match number % 8:
        case 0 | 1:
            return "read", use(FILE_READ, ctx, path=path)
        case 2:
            return "list", use(FILE_LIST, ctx, path="sub", recursive=True)
        case 3:
            return "edit", use(FILE_EDIT, ctx, path=path, search="inside", replace="inside still", mode="first")
        case 4:
            return "overwrite", use(FILE_WRITE, ctx, path=path, content=f"inside {number}\n")
        case _:
            return "create", use(FILE_WRITE, ctx, path=f"new/{number}.txt", content="inside\n")


@pytest.mark.parametrize("opener", [beneath.openat2, beneath.open_by_components])
@pytest.mark.spec("N3", "T5")
def test_paths_outside_are_never_read_or_written_during_a_symlink_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opener: beneath.Opener
) -> None:
    monkeypatch.setattr(beneath, "select_opener", lambda: opener)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    (root / "new").mkdir()
    outside.mkdir()
    for path in (root / "sub" / "a.txt", root / "top.txt"):
        path.write_text("inside\n")
    (outside / "a.txt").write_text("inside SECRET\n")
    (outside / "secret-name").write_text("SECRET")
    before = {item.name: (item.stat().st_ino, item.read_bytes()) for item in outside.iterdir()}
    ctx = FakeContext(root)
    seen: Counter[tuple[str, bool]] = Counter()
    with swapping(root, outside):
        for number in range(TURNS):
            what, result = _turn(number, ctx)
            assert "SECRET" not in f"{result.text} {result.structured}", result
            assert "secret-name" not in f"{result.text} {result.structured}", result
            seen[what, result.success] += 1
    assert not any(b"SECRET" in (content or b"") for _, _, content, _ in ctx.kept)
    assert {item.name: (item.stat().st_ino, item.read_bytes()) for item in outside.iterdir()} == before
    assert not any(item.name.endswith(".tmp") for item in root.rglob("*"))
    for what in ("read", "list", "edit", "overwrite", "create"):
        assert seen[what, True] > 20, seen
    assert sum(count for (_, good), count in seen.items() if not good) > 100, seen
