"""Diffs are correct, bounded and fast."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.text import diff
from holdfast.text.diff import common_ends, unified_diff
from tests.quick import quickly

LINES = st.sampled_from(["a\n", "b\n", "c\n", "\n", "d\r\n", "\x0c\n", "-x\n", "+++ y\n", "\u2028\n"])
ENDS = st.sampled_from(["", "end", "\\"])
TEXTS = st.tuples(st.lists(LINES, max_size=14), ENDS).map(lambda parts: "".join(parts[0]) + parts[1])


def apply(before: str, patch: str) -> str:
    """Apply a diff: a small independent implementation of `patch`."""
    old = re.findall(r"[^\n]*\n|[^\n]+", before)
    new: list[str] = []
    at = 0
    body = patch.split("\n")[2:-1]
    for index, line in enumerate(body):
        if found := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            start = int(found[1]) - (found[2] != "0")
            new += old[at:start]
            at = start
            assert len(new) == int(found[3]) - (found[4] != "0")
        elif line[0] != "\\":
            unended = index + 1 < len(body) and body[index + 1].startswith("\\ No newline")
            text = line[1:] + ("" if unended else "\n")
            if line[0] in " -":
                assert old[at] == text
                at += 1
            if line[0] in " +":
                new.append(text)
    return "".join(new + old[at:])


@pytest.mark.spec("O1")
@given(TEXTS, TEXTS, st.integers(0, 4))
def test_applying_the_diff_to_before_gives_after(before: str, after: str, context: int) -> None:
    patch = unified_diff(before, after, "f.txt", context, None)
    if before == after:
        assert patch == ""
    else:
        assert patch.startswith("--- f.txt\n+++ f.txt\n@@ ")
        assert apply(before, patch) == after


@pytest.mark.spec("O1")
@given(TEXTS, TEXTS)
def test_a_diff_by_unique_lines_alone_is_correct(before: str, after: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(diff, "_REGION_STEPS", -1)
        patch = unified_diff(before, after, "f.txt", 1, None)
    assert (apply(before, patch) if patch else before) == after


@pytest.mark.spec("O1")
def test_a_change_has_three_lines_of_context() -> None:
    before = "".join(f"{n}\n" for n in range(1, 11))
    assert unified_diff(before, before.replace("5\n", "five\n"), "src/n.txt") == (
        "--- src/n.txt\n+++ src/n.txt\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
    )


@pytest.mark.spec("O1")
def test_creating_and_deleting_differ_from_emptying() -> None:
    assert unified_diff(None, "a\nb", "n") == (
        "--- /dev/null\n+++ n\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
    )
    assert unified_diff("a\n", None, "n") == "--- n\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    assert unified_diff("", "a\n", "n") == "--- n\n+++ n\n@@ -0,0 +1 @@\n+a\n"
    assert unified_diff(None, "", "n") == "--- /dev/null\n+++ n\n"


@pytest.mark.spec("O1")
def test_a_missing_final_newline_is_shown() -> None:
    assert unified_diff("a\n", "a", "n") == "--- n\n+++ n\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"


@pytest.mark.spec("O1")
def test_a_path_cannot_add_lines_to_the_diff() -> None:
    header = unified_diff("a\n", "b\n", 'x\n+++ "y').split("\n")
    assert header[:2] == [r'--- "x\012+++ \"y"', r'+++ "x\012+++ \"y"']


@pytest.mark.spec("O1")
def test_a_long_diff_shows_both_ends_and_the_number_of_hidden_lines() -> None:
    after = "".join(f"{n}\n" for n in range(10_000))
    shown = unified_diff(None, after, "big", max_lines=40).split("\n")[2:-1]
    assert len(shown) == 41
    assert shown[:2] == ["@@ -0,0 +1,10000 @@", "+0"] and shown[-1] == "+9999"
    assert shown[30] == "[9,961 lines of the diff hidden; in all 10,000 added, 0 removed]"


@pytest.mark.spec("O1")
def test_a_long_line_shows_both_ends() -> None:
    line = unified_diff(None, "start" + "x" * 1_000_000 + "end\n", "f").split("\n")[3]
    assert len(line) <= 1000 and line.startswith("+start") and line.endswith("end") and "characters hidden" in line


def megabyte(seed: int, words: list[str]) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(words, k=5)) + "\n" for _ in range(30_000)]


@pytest.mark.spec("O1")
@pytest.mark.parametrize("kind", ["scattered", "rewritten", "repeating", "blank", "reversed"])
def test_a_megabyte_is_compared_quickly_and_correctly(kind: str) -> None:
    words = [f"word{n}" for n in range(1000)]
    old = megabyte(1, words)
    new = {
        "scattered": lambda: ["changed\n" if n % 300 == 0 else line for n, line in enumerate(old)],
        "rewritten": lambda: megabyte(2, words),
        "repeating": lambda: megabyte(3, ["a", "b"]),
        "blank": lambda: [part for line in old for part in (line, "\n")],
        "reversed": lambda: old[::-1],
    }[kind]()
    before, after = "".join(megabyte(4, ["a", "b"]) if kind == "repeating" else old), "".join(new)
    with quickly(40):
        patch = unified_diff(before, after, "f", max_lines=None)
    assert apply(before, patch) == after
    if kind == "scattered":
        assert (patch.count("\n+") - 1, patch.count("\n-")) == (100, 100)


@pytest.mark.spec("O1")
def test_git_applies_the_diff(tmp_path: Path) -> None:
    before, after = "one\ntwo\nthree", "zero\none\nthree\n"
    (tmp_path / "f.txt").write_text(before)
    patch = unified_diff(before, after, "f.txt") + unified_diff(None, "new\n", "sub/new.txt")
    subprocess.run(["git", "apply", "-p0", "-"], input=patch, text=True, cwd=tmp_path, check=True, timeout=30)
    assert (tmp_path / "f.txt").read_text() == after
    assert (tmp_path / "sub/new.txt").read_text() == "new\n"


@given(st.text("ab", max_size=8), st.text("ab", max_size=8))
@pytest.mark.spec("O2")
def test_common_ends_are_as_long_as_possible_and_do_not_overlap(old: str, new: str) -> None:
    start, end = common_ends(old, new)
    assert start + end <= min(len(old), len(new))
    assert old[:start] == new[:start] and old[len(old) - end :] == new[len(new) - end :]
    assert old[start : start + 1] != new[start : start + 1] or start == min(len(old), len(new))
    left, right = old[start : len(old) - end], new[start : len(new) - end]
    assert not left or not right or left[-1] != right[-1]
