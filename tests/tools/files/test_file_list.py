"""`file.list`: folders first, in a total order, bounded, and never through a symlink."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Config, Result, Runtime
from holdfast.config.config import ToolsConfig
from holdfast.runtime.workspace import Workspace
from holdfast.text import truncate
from holdfast.text.preview import preview
from holdfast.tools.files import file_list
from holdfast.tools.files.file_list import FILE_LIST
from tests.runtime.support import run, runtime_in
from tests.tools.files.fake_context import FakeContext, use


def _list(root: Path, path: str | None = None, **args: Any) -> Result:
    return use(FILE_LIST, FakeContext(root), path=path, **args)


def _make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            (root / path).mkdir(exist_ok=True)
        else:
            (root / path).write_text("x" * len(path))


@pytest.mark.spec("B1", "T11")
def test_folders_come_first_then_names_case_insensitively(tmp_path: Path) -> None:
    _make(tmp_path, "b.txt", "A.txt", "a.txt", ".hidden", "Zoo/", "src/", ".git/")
    result = _list(tmp_path)
    assert result.output == "src/\nZoo/\n.hidden\nA.txt\na.txt\nb.txt\n\n[6 entries, without .git]"
    assert isinstance(result.structured, dict)
    assert result.structured["entries"] == [
        {"path": "src", "kind": "dir", "size": None, "link": False},
        {"path": "Zoo", "kind": "dir", "size": None, "link": False},
        {"path": ".hidden", "kind": "file", "size": 7, "link": False},
        {"path": "A.txt", "kind": "file", "size": 5, "link": False},
        {"path": "a.txt", "kind": "file", "size": 5, "link": False},
        {"path": "b.txt", "kind": "file", "size": 5, "link": False},
    ]
    assert _list(tmp_path, "Zoo").output == "(empty directory)\n\n[0 entries]"


@pytest.mark.spec("B1")
def test_listing_recurses_only_on_request_and_skips_build_folders(tmp_path: Path) -> None:
    _make(tmp_path, "src/a/deep.py", "src/b.py", "node_modules/x.js", "top.md")
    assert _list(tmp_path).output == "src/\ntop.md\n\n[2 entries, without node_modules]"
    whole = _list(tmp_path, recursive=True)
    assert whole.output == (
        "src/\nsrc/a/\nsrc/a/deep.py\nsrc/b.py\ntop.md\n\n[5 entries, depth=10, without node_modules]"
    )
    assert isinstance(whole.structured, dict)
    assert [item["size"] for item in whole.structured["entries"][2:]] == [13, 8, 6]  # pyright: ignore
    two = _list(tmp_path, max_depth=2)
    assert two.output.endswith("src/b.py\ntop.md\n\n[4 entries, depth=2, without node_modules]")
    assert _list(tmp_path, recursive=False, max_depth=2).output.endswith("[2 entries, without node_modules]")
    assert "depth=10" in _list(tmp_path, max_depth=99).output
    assert _list(tmp_path, "node_modules").output == "node_modules/x.js\n\n[1 entry]"


@pytest.mark.spec("N3")
def test_symlinks_are_listed_but_not_entered(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _make(root, "src/a.py")
    _make(tmp_path, "out/secret")
    (root / "inner").symlink_to("src")
    (root / "outer").symlink_to(tmp_path / "out")
    (root / "loop").symlink_to(".")
    (root / "gone").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    result = _list(root, recursive=True)
    assert result.output == "inner/\nloop/\nsrc/\ngone\nouter\npipe\nsrc/a.py\n\n[7 entries, depth=10]"
    assert _list(root, "inner").output == "src/a.py\n\n[1 entry]"
    for path in ("outer", "..", "/etc", "outer/."):
        refused = _list(root, path)
        assert "outside the project root" in (refused.error or "")


@pytest.mark.spec("B1")
def test_long_listings_are_cut_with_a_notice(tmp_path: Path) -> None:
    _make(tmp_path / "project", *(f"{number:04}" for number in range(2500)))
    ctx = FakeContext(tmp_path / "project")
    for args, count in (({}, 500), ({"limit": 3}, 3), ({"limit": 0}, 1), ({"limit": 9999}, 1998)):
        result = use(FILE_LIST, ctx, **args)
        entries = "entry" if count == 1 else "entries"
        assert result.output.endswith(f"{count - 1:04}\n\n[{count} {entries}, {2500 - count} more not shown]")
        assert not truncate.head(result.output).truncated
        assert isinstance(result.structured, dict)
        assert (len(result.structured["entries"]), result.structured["total"]) == (count, 2500)  # pyright: ignore
    small = Config(tools=ToolsConfig(caps="small"))
    runtime = runtime_in(tmp_path, FILE_LIST, config=small)
    for args in ({}, {"limit": 400}):
        assert run(runtime.call("list_dir", args)).output.endswith("0199\n\n[200 entries, 2300 more not shown]")


@pytest.mark.spec("B1")
def test_long_names_are_cut_by_bytes(tmp_path: Path) -> None:
    _make(tmp_path, *(f"{number:04}" + "x" * 200 for number in range(400)))
    result = _list(tmp_path)
    assert not truncate.head(result.output).truncated
    assert isinstance(result.structured, dict)
    shown = len(result.structured["entries"])  # pyright: ignore
    assert result.output.endswith(f"\n\n[{shown} entries, {400 - shown} more not shown]")
    assert result.output.count("\n") == shown + 1


@pytest.mark.spec("B1")
def test_an_endless_tree_is_listed_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_list, "MAX_VISITED", 20)
    _make(tmp_path, *(f"{folder}/{number}" for folder in "abc" for number in range(10)))
    output = _list(tmp_path, recursive=True, limit=5).output
    assert output.endswith("[5 entries, depth=10, at least 15 more not shown]")


@pytest.mark.spec("B1", "N3")
def test_odd_names_cannot_forge_lines(tmp_path: Path) -> None:
    (tmp_path / "a\nb/").mkdir()
    (tmp_path / "\x1b[2J").write_text("")
    with open(os.fsencode(tmp_path) + b"/\xff", "wb"):  # noqa: PTH123 - a name that is not UTF-8
        pass
    result = _list(tmp_path)
    assert result.output == "a↵b/\n‹\\x1b›[2J\n\\xff\n\n[3 entries]"
    assert isinstance(result.structured, dict)
    assert [item["path"] for item in result.structured["entries"]] == ["a\nb", "\x1b[2J", "\\xff"]  # pyright: ignore


@pytest.mark.spec("B1", "N3")
def test_files_missing_and_hidden_folders_are_reported(tmp_path: Path) -> None:
    _make(tmp_path, "a.txt", "secret/key", "open/x")
    assert _list(tmp_path, "missing").error == "Directory not found: missing"
    assert _list(tmp_path, "a.txt").error == "a.txt is a file, not a folder. Use file.read to read it."
    assert _list(tmp_path, "a.txt/x").error == "Directory not found: a.txt/x"
    hiding = FakeContext(tmp_path, read=tmp_path / "secret")
    assert "may not be read" in (use(FILE_LIST, hiding, path="secret").error or "")
    assert "key" not in use(FILE_LIST, hiding, recursive=True).output
    assert "secret/\n" in use(FILE_LIST, hiding, recursive=True).output


@pytest.mark.spec("R10")
def test_without_a_project_listing_stays_in_the_working_folder(tmp_path: Path) -> None:
    _make(tmp_path, "here/a.txt", "there/secret")
    runtime = Runtime(tools=[FILE_LIST], workspace=Workspace(cwd=str(tmp_path / "here")))
    assert run(runtime.call("ls")).output == "a.txt\n\n[1 entry]"
    assert "outside the working folder" in (run(runtime.call("ls", {"path": "../there"})).error or "")


NAMES = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=20)


@given(st.dictionaries(NAMES.filter(lambda name: name not in (".", "..")), st.booleans(), max_size=12))
@pytest.mark.spec("B1")
def test_the_order_is_total(tmp_path_factory: pytest.TempPathFactory, names: dict[str, bool]) -> None:
    root = tmp_path_factory.mktemp("order")
    for name, is_folder in names.items():
        (root / name).mkdir() if is_folder else (root / name).write_text("")
    result = _list(root)
    assert isinstance(result.structured, dict)
    listed = [item["path"] for item in result.structured["entries"]]  # pyright: ignore
    assert listed == sorted(names, key=lambda name: (not names[name], name.casefold(), name))


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({}, "ls: ."),
        ({"path": "src", "label": "a look"}, "ls: src  # a look"),
        ({"path": "src", "recursive": True}, "ls: src  depth=10"),
        ({"path": "src", "max_depth": 3, "label": "deeper"}, "ls: src  depth=3  # deeper"),
    ],
)
@pytest.mark.spec("O1")
def test_the_preview_names_the_folder_the_depth_and_the_reason(args: Any, shown: str) -> None:
    assert preview("ls", args, 80, FILE_LIST.format_preview) == shown
