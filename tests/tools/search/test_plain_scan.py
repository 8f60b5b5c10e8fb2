"""Ignore files mean the same as to git, and to ripgrep where the two agree."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.tools.search.engines import find_ripgrep
from holdfast.tools.search.plain_scan import Scan
from tests.tools.search.project_trees import write_tree

RIPGREP = find_ripgrep(Path("/nowhere")) or ""
needs_ripgrep = pytest.mark.skipif(not RIPGREP, reason="there is no ripgrep to compare with")
NAMES = ["a", "b", "ab", "a.py", "b.log", "foo", ".h", "x y", "[a]", "é.txt", "a-b", "{a", "!x", "#c", "a\\b", "c,d"]
FOLDERS = ["", "a.d", "src", "src/q", "src/q/b", ".hd", "src/foo.d", "é.d"]
PLACES = [
    *(".gitignore", ".ignore", ".rgignore", ".git/info/exclude", "src/.gitignore", "src/.ignore"),
    *("src/.git/info/exclude", "src/q/.gitignore", "src/q/.rgignore", ".hd/.gitignore"),
]
COMMON = [
    *("*.py", "!*.py", "/src", "src/", "foo", "!foo", "src/**", "**/foo", "*", "!.h", "!.hd", "/a.d/", "!src/q"),
    *("src/*", "*/a", "**", "!**/b", "src/**/b", "*a*b*c*", "*.*.*", "??", "!.*", "!src/", "!q/", "/*", "!/src/"),
    *("\\!x", "# no", "[ab]", "[!a]", "[a-c]", "x y", "b.log  ", "/*.py", "*.d/"),
]
rules = st.dictionaries(
    st.sampled_from(PLACES), st.lists(st.sampled_from(COMMON), min_size=1, max_size=4), min_size=1, max_size=4
)
AGREED = [
    *("*.py", "!*.py", "/src", "src/", "foo", "!foo", "src/**", "**/b", "a*", "/a.d/", "src/q/a", "?", "[ab]", "[!a]"),
    *("src/*/b", "\\#c", "\\!x", "a\\-b", "x y", "**/q/b", "*-*", "!a", "# a", "", "   ", "b.log", "!b.log"),
    *("q/", "/*.py"),
]
agreed = st.dictionaries(
    st.sampled_from([".gitignore", "src/.gitignore"]), st.lists(st.sampled_from(AGREED), max_size=5), min_size=1
)
many = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ignore")
    files = {f"{folder}/{name}".lstrip("/") for folder in FOLDERS for name in NAMES} - set(FOLDERS)
    write_tree(root, dict.fromkeys(files, ""))
    (root / "link").symlink_to("a.d")
    return root


def _place(root: Path, ruled: dict[str, list[str]]) -> None:
    for place in PLACES:
        (root / place).unlink(missing_ok=True)
    write_tree(root, {place: "\n".join(content) for place, content in ruled.items()})


def _ours(root: Path) -> list[str]:
    scan = Scan(str(root), names=(".git",))
    try:
        return sorted(scan.walk(""))
    finally:
        scan.close()


def _theirs(root: Path, *options: str) -> list[str]:
    flags = ["--no-config", "--no-ignore-global", "--no-ignore-parent", "--no-require-git", "--no-ignore-messages"]
    done = subprocess.run(
        [RIPGREP, *flags, *options, "--glob=!.git", "--null", "--files", "./"],
        cwd=root,
        capture_output=True,
        check=False,
    )
    return sorted(os.fsdecode(path)[2:] for path in done.stdout.split(b"\0") if path)


@needs_ripgrep
@given(ruled=rules)
@many
@pytest.mark.spec("B2")
def test_the_plain_scan_skips_what_ripgrep_skips(tree: Path, ruled: dict[str, list[str]]) -> None:
    _place(tree, ruled)
    assert _ours(tree) == _theirs(tree)


@given(ruled=agreed)
@many
@pytest.mark.spec("B2")
def test_files_that_git_ignores_are_skipped(tree: Path, ruled: dict[str, list[str]]) -> None:
    _place(tree, ruled)
    if not (tree / ".git" / "HEAD").exists():
        subprocess.run(["git", "init", "-q", str(tree)], check=True, env={"HOME": str(tree), "PATH": "/usr/bin:/bin"})
    everything = [path for path in _every_file(tree) if not _hidden(path)]
    done = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=tree,
        input=b"\0".join(os.fsencode(path) for path in everything),
        capture_output=True,
        check=False,
        env={"HOME": str(tree), "PATH": "/usr/bin:/bin"},
    )
    ignored = {os.fsdecode(path) for path in done.stdout.split(b"\0")}
    assert [path for path in _ours(tree) if not _hidden(path)] == [path for path in everything if path not in ignored]


def _every_file(root: Path) -> list[str]:
    found = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    return sorted(str(path.relative_to(root)) for path in found)


def _hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (b"*.log\n\xff\xfe\nfoo\n", ["a"]),
        (b"\xef\xbb\xbf*.log\r\nfoo\r\n", ["a"]),
        (b"foo\\ \n*.log\\ ", ["a", "b.log", "foo"]),
        (b"foo\t \n*.log   ", ["a"]),
        (b"!\n[z-a]\n*.log\n\\", ["a", "foo"]),
    ],
)
@pytest.mark.spec("B2")
def test_ignore_files_with_malformed_lines_are_still_applied(tmp_path: Path, content: bytes, left: list[str]) -> None:
    write_tree(tmp_path, {".gitignore": content, "a": "", "b.log": "", "foo": ""})
    assert _ours(tmp_path) == left


@pytest.mark.spec("B2")
def test_only_files_kept_by_negated_rules_remain(tmp_path: Path) -> None:
    files = ["a.md", "a.py", "d/b.py", "d/b.md", "d/e/c.py"]
    write_tree(tmp_path, {".gitignore": "*\n!*/\n!*.py\n", **dict.fromkeys(files, "")})
    assert _ours(tmp_path) == ["a.py", "d/b.py", "d/e/c.py"]
    write_tree(tmp_path, {".gitignore": "/*\n!/d/\n/d/*\n!/d/e/\n"})
    assert _ours(tmp_path) == ["d/e/c.py"]


@pytest.mark.spec("B2")
def test_an_ignore_file_linked_from_outside_is_not_applied(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "project", {"a.txt": "", "b.txt": "", "rules": "b.txt\n"})
    write_tree(tmp_path, {"outside": "a.txt\n"})
    (root / ".gitignore").symlink_to(tmp_path / "outside")
    assert _ours(root) == ["a.txt", "b.txt", "rules"]
    (root / ".gitignore").unlink()
    (root / ".gitignore").symlink_to("rules")
    assert _ours(root) == ["a.txt", "rules"]


@pytest.mark.spec("B2")
def test_trees_deeper_than_the_open_file_limit_are_walked(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(os.open("deep.txt", os.O_CREAT, 0o644, dir_fd=folder))
    os.close(folder)
    assert _ours(tmp_path) == ["d/" * 300 + "deep.txt"]


@pytest.mark.spec("B2")
def test_an_ignore_file_on_a_symlink_that_is_replaced_meanwhile_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"a.py": "", "b.py": "", ".gitignore": "b.py\n"})

    def replaced(path: str) -> str:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)  # what readlink says about a folder

    monkeypatch.setattr(os.path, "realpath", replaced)
    scan = Scan(str(tmp_path))
    assert set(scan.walk("")) == {"a.py", "b.py"}
    scan.close()
