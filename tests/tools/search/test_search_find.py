"""`file.find`: files by glob, with ripgrep and without."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast import Result
from holdfast.text.preview import preview
from holdfast.tools.search import engines
from holdfast.tools.search.engines import find_ripgrep
from holdfast.tools.search.search import FILE_FIND
from tests.runtime.support import run, runtime_in
from tests.tools.search.project_trees import make_large_tree, write_tree

RIPGREP = find_ripgrep(Path("/nowhere"))


@pytest.fixture(params=["plain", *(["ripgrep"] if RIPGREP else [])], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        monkeypatch.setattr(engines, "find_ripgrep", _nowhere)


def _nowhere(root: Path) -> None:
    return None


def _find(folder: Path, pattern: str, **args: Any) -> Result:
    return run(runtime_in(folder, FILE_FIND).call("file.find", {"pattern": pattern, **args}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = write_tree(
        tmp_path / "project",
        {
            ".gitignore": "*.log\n",
            "b.py": "",
            "a.py": "",
            "a.log": "",
            ".hidden.py": "",
            "src/c.py": "",
            "src/deep/d.py": "",
            "src/deep/e.txt": "",
        },
    )
    (root / "link.py").symlink_to("a.py")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", "a.py\nb.py\nsrc/c.py\nsrc/deep/d.py"),
        ("src/*.py", "src/c.py"),
        ("src/**/*.py", "src/c.py\nsrc/deep/d.py"),
        ("/*.py", "a.py\nb.py"),
        ("?.{py,txt}", "a.py\nb.py\nsrc/c.py\nsrc/deep/d.py\nsrc/deep/e.txt"),
        ("**/deep/*", "src/deep/d.py\nsrc/deep/e.txt"),
        ("*.log", "No files found matching pattern."),
        ("deep/**", "No files found matching pattern."),
        ("src/**", "src/c.py\nsrc/deep/d.py\nsrc/deep/e.txt"),
        ("**", "a.py\nb.py\nsrc/c.py\nsrc/deep/d.py\nsrc/deep/e.txt"),
        ("src/{*.py,deep/*.t?t}", "src/c.py\nsrc/deep/e.txt"),
        ("[!a].py", "b.py\nsrc/c.py\nsrc/deep/d.py"),
        ("[^a].py", "b.py\nsrc/c.py\nsrc/deep/d.py"),
        ("[a-c].py", "a.py\nb.py\nsrc/c.py"),
        ("!*.py", "src/deep/e.txt"),
        ("\\a.py", "a.py"),
        ("nothing", "No files found matching pattern."),
    ],
)
@pytest.mark.spec("B2")
def test_files_are_found_by_name_or_by_path_and_sorted(folder: Path, pattern: str, found: str) -> None:
    assert _find(folder, pattern).output == found


@pytest.mark.parametrize("path", ["", "talks/"])
@pytest.mark.spec("B2")
def test_the_conversation_itself_is_found_only_by_its_name(tmp_path: Path, path: str) -> None:
    own = [f"{path}fix.chat", f"{path}fix.chat.files/0-a.txt", f"{path}fix.conflict-2.chat"]
    write_tree(tmp_path / "project", dict.fromkeys((*own, "other/fix.chat", "other.chat"), ""))
    runtime = runtime_in(tmp_path, FILE_FIND, document=tmp_path / "project" / own[0])

    def found(pattern: str, **args: Any) -> str:
        return run(runtime.call("file.find", {"pattern": pattern, **args})).output

    assert found("*.chat") == found("**") == found("{fix,other}.chat") == "other.chat\nother/fix.chat"
    assert found("*.chat", limit=2) == "other.chat\nother/fix.chat"
    assert found("fix.*.chat") == found("0-*") == found("[f]ix.conflict-2.chat") == "No files found matching pattern."
    assert found("fix.chat") == "\n".join(sorted([own[0], "other/fix.chat"]))
    for named in own:
        assert found(f"/{named}") == named
    assert found("*", path=f"{own[0]}.files") == own[1]
    if path:
        assert found("*", path="talks") == "No files found matching pattern."
        assert found("fix.chat", path="talks") == own[0]


@pytest.mark.spec("B2", "T11")
def test_the_limit_is_applied_with_a_notice(folder: Path) -> None:
    result = _find(folder, "*.py", limit=2)
    assert result.output == "a.py\nb.py\n\n[Results limited to 2 entries. Narrow your pattern to see the rest.]"
    assert result.structured == {"files": ["a.py", "b.py"], "truncated": True, "unreadable_folders": 0}
    assert _find(folder, "*.py", limit=4).structured == {
        "files": ["a.py", "b.py", "src/c.py", "src/deep/d.py"],
        "truncated": False,
        "unreadable_folders": 0,
    }


@pytest.mark.spec("B2")
def test_a_single_folder_can_be_searched(folder: Path) -> None:
    assert _find(folder, "*.py", path="src").output == "src/c.py\nsrc/deep/d.py"
    assert _find(folder, "deep/*", path="src").output == "src/deep/d.py\nsrc/deep/e.txt"
    assert "Not a folder" in (_find(folder, "*", path="a.py").error or "")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "must not be blank"),
        ("{a", "never closed"),
        ("a\\", "backslash"),
        ("[z-a]", "backwards"),
        ("a}", "no matching"),
        ("[a", "never closed"),
    ],
)
@pytest.mark.spec("B2")
def test_a_malformed_glob_is_refused_with_the_reason(folder: Path, pattern: str, words: str) -> None:
    result = _find(folder, pattern)
    assert not result.success and words in (result.error or "")


@pytest.mark.skipif(RIPGREP is None, reason="there is no ripgrep to compare with")
@pytest.mark.spec("B2")
def test_the_plain_scan_finds_the_files_that_ripgrep_lists(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    make_large_tree(root, 3000)
    flags = ["--no-config", "--no-ignore-global", "--no-ignore-parent", "--no-require-git", "--null", "--files"]
    done = subprocess.run([str(RIPGREP), *flags, "--glob=!.git", "./"], cwd=root, capture_output=True, check=True)
    listed = sorted(path.decode()[2:] for path in done.stdout.split(b"\0") if path)
    assert 500 < len(listed) < 3000
    found = _find(tmp_path, "*", limit=10_000)
    assert found.structured == {"files": listed, "truncated": False, "unreadable_folders": 0}
    md = [path for path in listed if path.endswith(".md")]
    assert _find(tmp_path, "*.md", limit=10_000).output == "\n".join(md)


@pytest.mark.spec("O1")
def test_the_preview_shows_the_glob_and_the_folder() -> None:
    shown = preview("find", {"pattern": "*.py", "path": "src", "label": "why"}, format_preview=FILE_FIND.format_preview)
    assert shown == "find: *.py  in src  # why"
