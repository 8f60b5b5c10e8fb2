"""`FolderTree` and `remove_tree`: walks follow no symlink, modes are restored, any tree is removed."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.fs.beneath import FolderTree, change_mode, open_regular, remove_tree
from tests.sandbox.unprivileged_user import run_as_nobody
from tests.soak import rounds
from tests.tools.files.test_file_state_races import swapping

LOOSENED = """
import json, os
from pathlib import Path
from holdfast.fs.beneath import FolderTree, remove_tree
root = Path.home() / "root"
root.mkdir()
found = {}
for mode in (0o000, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600):
    (root / "shut" / "inner").mkdir(parents=True)
    (root / "shut" / "inner").chmod(mode)
    (root / "shut").chmod(mode)
    with FolderTree(root, loosen=True) as folders:
        folders.open("shut/inner/made", make=True)
        here, name = folders.parent("shut/inner/made/file", writable=True)
        os.close(os.open(name, os.O_CREAT, 0o600, dir_fd=here))
    modes = [(root / "shut").stat().st_mode & 0o777]
    (root / "shut").chmod(0o700)
    modes.append((root / "shut" / "inner").stat().st_mode & 0o777)
    (root / "shut").chmod(mode)
    remove_tree(root / "shut")
    found[mode] = (modes, (root / "shut").exists())
print(json.dumps(found))
"""


def walked(root: Path) -> set[str]:
    with FolderTree(root) as folders:
        return {found.path for found in folders.walk()}


@contextmanager
def few_descriptors(number: int) -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def dig(root: Path, depth: int) -> None:
    """Create nested folders too deep for any path, with a file at the end."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("end", os.O_CREAT, 0o600, dir_fd=here))
    os.close(here)


@pytest.mark.spec("N3")
def test_a_walk_yields_everything_once_and_enters_no_symlink(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    for path in ("a/b/x", "a/y", "c/z\udcff"):
        (tmp_path / path).touch()
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "c" / "out").symlink_to("/")
    with FolderTree(tmp_path) as folders:
        seen = [found.path for found in folders.walk()]
        assert sorted(seen) == ["a", "a/b", "a/b/x", "a/up", "a/y", "c", "c/out", "c/z\udcff"]
        assert [found.path for found in folders.walk("a", enter=lambda path: path != "a/b")].count("a/b/x") == 0
        with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
            folders.open("c/out")
        with pytest.raises(OSError, match="cross-device"):
            folders.open("a/../..")


@pytest.mark.spec("N3")
def test_a_walk_reports_folders_it_cannot_enter(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    failed: list[str] = []
    with FolderTree(tmp_path) as folders:
        for found in folders.walk(failed=lambda path, _error: failed.append(path)):
            (tmp_path / found.path).rmdir()
    assert failed == ["gone"]


@pytest.mark.spec("N3")
def test_a_deep_tree_does_not_exhaust_the_descriptors(tmp_path: Path) -> None:
    dig(tmp_path, 300)
    used = len(list(Path("/proc/self/fd").iterdir()))
    with few_descriptors(used + 80):
        assert len(walked(tmp_path)) == 301
        (tmp_path / "beside").touch()
        with FolderTree(tmp_path) as folders:
            here, name = folders.parent("d/" * 300 + "end")
            os.close(open_regular(name, here))
            assert "beside" in {found.path for found in folders.walk(enter=lambda _: False)}


@pytest.mark.spec("N3")
def test_a_walk_never_leaves_the_root_during_symlink_swaps(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "sub", root / "new", outside):
        folder.mkdir(parents=True)
    for path in (root / "sub" / "a.txt", root / "top.txt"):
        path.write_text("inside")
    (outside / "a.txt").write_text("SECRET")
    (outside / "secret-name").touch()
    read = 0
    with swapping(root, outside):
        for _ in range(rounds(1500, 20_000)):
            with FolderTree(root) as folders:
                for path, entry, here in folders.walk(failed=lambda _path, _error: None):
                    assert "secret-name" not in path
                    try:
                        opened = open_regular(entry.name, here)
                    except OSError:
                        continue
                    assert os.read(opened, 100) == b"inside"
                    os.close(opened)
                    read += 1
    assert read > 100


@pytest.mark.spec("N3")
def test_an_ordinary_user_can_open_folders_of_any_mode_and_the_modes_are_restored(tmp_path: Path) -> None:
    done = run_as_nobody(LOOSENED, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {mode: [[int(mode)] * 2, False] for mode in found} and len(found) == 7


@pytest.mark.spec("N3")
def test_a_mode_is_never_set_through_a_symlink(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch(mode=0o600)
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(OSError, match="become a symlink"):
        change_mode(tmp_path / "link", lambda _: 0o777)
    assert target.stat().st_mode & 0o777 == 0o600


@pytest.mark.spec("N3")
def test_a_deep_tree_is_removed_and_symlink_targets_stay(tmp_path: Path) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    outside.mkdir()
    (outside / "kept").touch()
    tree.mkdir()
    dig(tree, 1500)
    (tree / "d" / "out").symlink_to(outside)
    (tree / "link").symlink_to(outside)
    remove_tree(tree)
    remove_tree(tree)
    (tmp_path / "link").symlink_to(outside)
    remove_tree(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["outside"] and (outside / "kept").exists()
