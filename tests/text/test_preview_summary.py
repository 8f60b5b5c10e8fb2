"""The default summary uses the first of a fixed order of arguments."""

from __future__ import annotations

import pytest

from holdfast.text.preview import default_summary, display_path

ORDER = ["command", "file_path", "notebook_path", "path", "url", "query", "name", "id"]


@pytest.mark.spec("X13")
@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_first_nonempty_field_is_used(first: int) -> None:
    args: dict[str, object] = {key: f"the {key}" for key in reversed(ORDER[first:])}
    says_nothing: list[object] = ["", None, 3, [], "", {}, ""]
    args |= dict(zip(ORDER[:first], says_nothing, strict=False))
    assert default_summary(args) == f"the {ORDER[first]}"


@pytest.mark.spec("X13")
@pytest.mark.parametrize(
    ("args", "summary"),
    [
        ({"questions": ["a"], "pattern": "p"}, "1 question"),
        ({"questions": ["a", "b", "c"]}, "3 questions"),
        ({"questions": [], "pattern": "p"}, "p"),
        ({"questions": "what?", "name": "n"}, "n"),
        ({"pattern": "TODO"}, "TODO"),
        ({"pattern": "TODO", "path": "."}, "TODO"),
        ({"pattern": "TODO", "path": ""}, "TODO"),
        ({"pattern": "TODO", "path": "src"}, "TODO in src"),
        ({"pattern": "TODO", "path": "/home/ann/work/src"}, "TODO in src"),
        ({"pattern": "TODO", "command": "make"}, "TODO"),
        ({"pattern": "", "command": "make"}, "make"),
        ({"file_path": "/home/ann/work/a.py"}, "a.py"),
        ({"notebook_path": "/home/ann/n.ipynb"}, "~/n.ipynb"),
        ({"path": "/etc/hosts"}, "/etc/hosts"),
        ({"command": "/home/ann/work/run"}, "/home/ann/work/run"),
        ({"other": "x"}, ""),
        ({}, ""),
    ],
)
def test_the_order_of_fields_decides(args: dict[str, object], summary: str) -> None:
    assert default_summary(args, cwd="/home/ann/work", home="/home/ann") == summary


@pytest.mark.spec("X13")
@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/w", "."),
        ("/w/", "."),
        ("/w/a/b", "a/b"),
        ("/wide/a", "/wide/a"),
        ("/h", "~"),
        ("/h/x", "~/x"),
        ("/w/../etc", "../etc"),
        ("relative/x", "relative/x"),
    ],
)
def test_paths_are_relative_to_the_working_directory_or_to_home(path: str, shown: str) -> None:
    assert display_path(path, cwd="/w/", home="/h") == shown


@pytest.mark.spec("X13")
def test_the_root_folder_does_not_shorten_paths() -> None:
    assert display_path("/etc/hosts", cwd="/", home="/") == "/etc/hosts"
    assert display_path("/etc/hosts") == "/etc/hosts"


@pytest.mark.spec("X13")
def test_without_arguments_the_summary_is_empty() -> None:
    assert default_summary(None) == ""
