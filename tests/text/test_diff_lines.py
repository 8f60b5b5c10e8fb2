"""Diffs are read as they were written, and any text is read as lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.diff import unified_diff
from holdfast.text.diff_lines import FileChange, diff_lines, file_changes
from tests.text.strategies import ANY_TEXT

LINES = st.lists(st.sampled_from(("a\n", "b\n", "\n", "-- x\n", "++ y\n", "@@ -1 +1 @@\n", "[3 lines]\n", "c")))
CONTENT = LINES.map("".join)


@given(
    ANY_TEXT
    | st.lists(st.sampled_from(("--- a", "+++ b", "@@ -1,2 +1,2 @@", "-x", "+y", " z", "\\ No", ""))).map("\n".join)
)
def test_the_lines_are_the_text(text: str) -> None:
    lines = [line.text for line in diff_lines(text)]
    assert "\n".join(lines) == text.removesuffix("\n")


@given(CONTENT, CONTENT, st.integers(0, 4))
def test_the_numbers_and_kinds_give_back_both_files(before: str, after: str, context: int) -> None:
    diff = list(diff_lines(unified_diff(before, after, "a.txt", context)))
    old, new = before.split("\n"), after.split("\n")
    assert all(old[line.old - 1] == line.text[1:] for line in diff if line.old)
    assert all(new[line.new - 1] == line.text[1:] for line in diff if line.new)
    assert {line.kind for line in diff} <= {"file", "hunk", "same", "removed", "added", "no-newline"}
    assert sum(line.kind == "file" for line in diff) == (2 if before != after else 0)


@given(CONTENT, CONTENT)
def test_the_changes_of_a_file_are_counted(before: str, after: str) -> None:
    diff = unified_diff(before, after, "a.txt", 0)
    body = diff.split("\n")[2:]
    counted = [FileChange("a.txt", "changed", *(sum(line.startswith(sign) for line in body) for sign in "+-"))]
    assert file_changes(diff) == (counted if diff else [])


def test_hidden_lines_are_counted_and_what_follows_them_has_no_number() -> None:
    before = "".join(f"{number}\n" for number in range(9_000))
    diff = unified_diff(before, before.replace("\n", "x\n"), "a.txt", max_lines=100)
    lines = list(diff_lines(diff))
    hidden = next(index for index, line in enumerate(lines) if line.kind == "hidden")
    assert {line.kind for line in lines[hidden + 1 :]} == {"added"}
    assert not any(line.new for line in lines[hidden + 1 :])
    assert file_changes(diff) == [FileChange("a.txt", "changed", 9000, 9000)]


def test_several_files_are_told_apart() -> None:
    diff = (
        unified_diff(None, "a\n", "new.txt")
        + unified_diff("b\n", None, "gone.txt")
        + unified_diff("c\n", "d\ne\n", "c.txt")
    )
    assert file_changes(diff) == [
        FileChange("new.txt", "created", 1, 0),
        FileChange("gone.txt", "deleted", 0, 1),
        FileChange("c.txt", "changed", 2, 1),
    ]


@pytest.mark.parametrize("path", ['a"b', "a\\b", "tab\there", "line\nfeed", "\x1b[2J", "é.txt", '\\"\\'])
def test_a_quoted_path_is_unquoted(path: str) -> None:
    assert [change.path for change in file_changes(unified_diff("a\n", "b\n", path))] == [path]


def test_a_count_with_too_many_digits_starts_no_hunk() -> None:
    assert [line.kind for line in diff_lines(f"@@ -{'9' * 5000} +1 @@\n-x\n")] == ["other", "other"]
