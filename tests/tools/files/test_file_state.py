"""File tools and disk errors: the original stays intact, and no temporary files are left."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.fs import replace
from holdfast.fs.replace import NewFile
from holdfast.tools.files.edit import FILE_EDIT
from holdfast.tools.files.write import FILE_WRITE
from tests.tools.files.fake_context import FakeContext, use

WORDS = {
    errno.ENOSPC: "the disk is full; free some space and try again",
    errno.EIO: "the disk reported an error",
    errno.EROFS: "the file system is read-only",
    errno.EDQUOT: "the disk quota is used up; free some space and try again",
}
CHILD = """
import json, os, resource, sys
from pathlib import Path
from holdfast.text import diff
from holdfast.fs.beneath import select_opener
from holdfast.tools.files.edit import FILE_EDIT
from holdfast.tools.files.file_list import FILE_LIST
from holdfast.tools.files.read import FILE_READ
from holdfast.tools.files.write import FILE_WRITE
from tests.tools.files.fake_context import FakeContext, use
root = Path(sys.argv[1])
select_opener()
def leave():
    global root
    if os.geteuid() == 0:
        os.chroot(root)
        os.chdir("/")
        root = Path("/")
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    return FakeContext(root)
"""


def _child(root: Path, script: str) -> Any:
    """Run a script in its own process, which may limit itself or drop privileges."""
    answer = subprocess.run(
        [sys.executable, "-c", CHILD + script, str(root)], capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    (root / "a.txt").write_text("old\n")
    return root


@pytest.mark.parametrize("code", WORDS, ids=errno.errorcode.get)
@pytest.mark.parametrize("where", ["write", "fsync", "rename"])
@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.spec("B1", "T5")
def test_a_disk_error_leaves_the_original_and_no_temporary_file(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: int, where: str, nameless: bool
) -> None:
    if not nameless:
        monkeypatch.setattr(replace, "_open_tmpfile", _no_nameless)

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    if where == "write":
        monkeypatch.setattr(NewFile, "write", _half_written(code))
    else:
        monkeypatch.setattr(os, where, broken)
    result = use(FILE_WRITE, FakeContext(root), path="a.txt", content="new\n")
    edited = use(FILE_EDIT, FakeContext(root), path="a.txt", search="old", replace="new")
    monkeypatch.undo()
    assert result.error == edited.error == f"a.txt was not written: {WORDS[code]}."
    assert (root / "a.txt").read_text() == "old\n"
    assert [item.name for item in root.iterdir()] == ["a.txt"]


def _no_nameless(folder: int, mode: int) -> int:
    return -1


def _half_written(code: int) -> Any:
    def write(new: NewFile, content: bytes) -> None:
        os.write(new.fd, content[:2])
        raise OSError(code, os.strerror(code))

    return write


@pytest.mark.spec("B1")
def test_a_full_disk_changes_nothing(root: Path) -> None:
    said = _child(
        root,
        """
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
both = [use(FILE_WRITE, FakeContext(root), path=name, content="x" * 8192) for name in ("a.txt", "b.txt")]
print(json.dumps([result.error for result in both]))
""",
    )
    words = "was not written: it would exceed the file size limit."
    assert said == [f"a.txt {words}", f"b.txt {words}"]
    assert (root / "a.txt").read_text() == "old\n"
    assert [item.name for item in root.iterdir()] == ["a.txt"]


@pytest.mark.spec("B1", "N3")
def test_permission_errors_are_reported_and_nothing_changes(root: Path) -> None:
    for name, mode in (("closed.txt", 0o000), ("closed", 0o000), ("fixed", 0o555)):
        path = root / name
        if path.suffix:
            path.write_text("x")
        else:
            path.mkdir()
        path.chmod(mode)
    said = _child(
        root,
        """
ctx = leave()
results = [
    use(FILE_READ, ctx, path="closed.txt"),
    use(FILE_READ, ctx, path="closed/x"),
    use(FILE_LIST, ctx, path="closed"),
    use(FILE_WRITE, ctx, path="fixed/new.txt", content="x"),
    use(FILE_WRITE, ctx, path="closed.txt", content="x"),
    use(FILE_LIST, ctx, recursive=True),
]
print(json.dumps([result.text for result in results]))
""",
    )
    (root / "closed").chmod(0o755)
    assert said[:5] == [
        "closed.txt cannot be read: permission denied.",
        "closed/x cannot be read: permission denied.",
        "closed cannot be listed: permission denied.",
        "fixed/new.txt was not written: permission denied.",
        "closed.txt cannot be written: permission denied.",
    ]
    assert said[5].startswith("closed/\nfixed/\na.txt\nclosed.txt\n")
    assert (root / "closed.txt").stat().st_size == 1
    assert not (root / "fixed" / "new.txt").exists()


@pytest.mark.spec("B1")
def test_a_file_system_without_hard_links_still_creates_but_never_overwrites(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(replace, "_open_tmpfile", _no_nameless)
    assert use(FILE_WRITE, FakeContext(root), path="b.txt", content="new").success
    assert (root / "b.txt").read_text() == "new"

    class Appearing(FakeContext):
        def after_image(self, path: Path, content: bytes | None, mode: int | None = None) -> None:
            path.write_text("theirs")

    result = use(FILE_WRITE, Appearing(root), path="c.txt", content="mine")
    assert "has changed since this was proposed" in (result.error or "")
    assert (root / "c.txt").read_text() == "theirs"
    assert sorted(item.name for item in root.iterdir()) == ["a.txt", "b.txt", "c.txt"]
