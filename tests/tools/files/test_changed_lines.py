"""The changed lines in the result of `file.edit` and `file.write`: as they are now, with context, bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Result
from holdfast.tools.files.changed_lines import MAX_CHANGES, MAX_LINE_CHARS, changed_lines, render_changes
from holdfast.tools.files.edit import FILE_EDIT
from holdfast.tools.files.file_state import MAX_DIFF_BYTES
from holdfast.tools.files.write import FILE_WRITE
from tests.tools.files.fake_context import FakeContext, use

TEN = b"".join(b"line %d\n" % number for number in range(1, 11))


def _shown(before: bytes, after: bytes) -> str:
    return "\n".join(render_changes(changed_lines(before, after)))


def _edit(root: Path, content: bytes, search: str, replace: str, mode: str | None = None) -> Result:
    (root / "a.txt").write_bytes(content)
    return use(FILE_EDIT, FakeContext(root), path="a.txt", search=search, replace=replace, mode=mode)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (b"a\nb\nc\nd\ne\n", b"a\nb\nX\nd\ne\n", "  1 | a\n  2 | b\n> 3 | X\n  4 | d\n  5 | e"),
        (b"a\nb\n", b"X\nY\na\nb\n", "> 1 | X\n> 2 | Y\n  3 | a\n  4 | b"),
        (b"a\nb\nc\nd\n", b"a\nd\n", "  1 | a\n>   | [2 lines removed here]\n  2 | d"),
        (b"a\nb\n", b"a\n", "  1 | a\n>   | [1 line removed here]"),
        (b"a\nb\n", b"", ">   | [2 lines removed here]"),
        (b"", b"a\n", "> 1 | a"),
        (b"a\nb\n", b"a\nb", "  1 | a\n> 2 | b\n[no newline at the end of the file]"),
        (b"a\nb", b"X\nb", "> 1 | X\n  2 | b\n[no newline at the end of the file]"),
        (b"a\nb\nc\nd", b"X\nb\nc\nd", "> 1 | X\n  2 | b\n  3 | c"),
        (b"a\nb\n\n", b"a\nX\n\n", "  1 | a\n> 2 | X\n  3 |"),
        (b"a \nb\n", b"a \nb \n", "  1 | a \n> 2 | b "),
        (b"a\r\nb\r\n", b"a\r\nX\r\n", "  1 | a\n> 2 | X"),
        (b"a\r\n", b"a\n", "> 1 | a"),
        (b"\t1\n", b"\t2\x1b[0m\xe2\x80\xae\xff\x0c\n", "> 1 | \t2‹\\x1b›[0m‹\\u{202e}›\ufffd‹\\x0c›"),
        (b"a\n", b"> 9 | [1 line removed here]\n", "> 1 | > 9 | [1 line removed here]"),
        (
            TEN,
            TEN.replace(b" 1\n", b" X\n").replace(b"line 9", b"line Y"),
            (
                ">  1 | line X\n   2 | line 2\n   3 | line 3\n  …\n"
                "   7 | line 7\n   8 | line 8\n>  9 | line Y\n  10 | line 10"
            ),
        ),
    ],
)
@pytest.mark.spec("B1", "T11")
def test_the_lines_are_shown_as_they_are_now_with_their_context(before: bytes, after: bytes, shown: str) -> None:
    assert _shown(before, after) == shown


@pytest.mark.spec("B1")
def test_an_edit_that_repeats_unchanged_lines_shows_only_the_changed_one(tmp_path: Path) -> None:
    search = TEN.decode()
    result = _edit(tmp_path, TEN, search, search.replace("line 8", "eight"))
    assert result.output == (
        "Successfully replaced text in a.txt.\n"
        "   6 | line 6\n   7 | line 7\n>  8 | eight\n   9 | line 9\n  10 | line 10"
    )


@pytest.mark.spec("B1")
def test_the_first_places_of_many_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    content = "\n".join(f"x {number}" if number % 10 == 1 else f"line {number}" for number in range(1, 100)) + "\n"
    result = _edit(tmp_path, content.encode(), "x", "y", mode="all")
    assert result.output == (
        "Successfully replaced text in a.txt in 10 places.\n"
        ">  1 | y 1\n   2 | line 2\n   3 | line 3\n  …\n"
        "   9 | line 9\n  10 | line 10\n> 11 | y 11\n  12 | line 12\n  13 | line 13\n  …\n"
        "  19 | line 19\n  20 | line 20\n> 21 | y 21\n  22 | line 22\n  23 | line 23\n  …\n"
        "  29 | line 29\n  30 | line 30\n> 31 | y 31\n  32 | line 32\n  33 | line 33\n"
        "[6 more changed lines and 6 more places not shown]"
    )


@pytest.mark.spec("B1")
def test_the_rest_of_many_changed_lines_is_counted() -> None:
    lines = [f"> {number:2} | new {number}" for number in range(1, MAX_CHANGES + 1)]
    after = b"".join(b"new %d\n" % number for number in range(1, 41))
    assert _shown(b"old\n", after) == "\n".join([*lines, "[28 more changed lines not shown]"])
    assert _shown(b"old\n", after[: len(b"new 1\n") * 9 + len(b"new 10\n") * 4]).endswith(
        "> 12 | new 12\n[1 more changed line not shown]"
    )


@pytest.mark.spec("B1")
def test_a_long_line_is_cut_around_the_change() -> None:
    before = b"a" * 3000 + b"OLD" + b"b" * 3000 + b"\nend\n" + b"c" * 500 + b"\n"
    start, end, long = "a" * 40, "b" * (MAX_LINE_CHARS - 43), "c" * MAX_LINE_CHARS
    assert _shown(before, before.replace(b"OLD", b"NEW")) == f"> 1 | …{start}NEW{end}…\n  2 | end\n  3 | {long}…"
    assert _shown(b"x\n", b"d" * 201 + b"\n") == f"> 1 | {'d' * MAX_LINE_CHARS}…"
    wide = "ü" * 3000
    assert _shown(f"{wide}1".encode(), f"{wide}2".encode()).startswith(f"> 1 | …{'ü' * (MAX_LINE_CHARS - 1)}2\n")


@pytest.mark.parametrize("line", [b"a\n", b"a" * 100_000, b"a" * 99 + b"\n"])
@pytest.mark.spec("B1")
def test_a_change_too_large_for_a_diff_shows_its_first_lines(line: bytes) -> None:
    head, body = b"top\n", line * (MAX_DIFF_BYTES // len(line) + 1)
    shown = _shown(head + body + b"\nend\n", head + body.replace(b"a", b"b") + b"\nend\n")
    first = body.replace(b"a", b"b").split(b"\n")[0].decode()
    cut = f"{first[:MAX_LINE_CHARS]}…" if len(first) > MAX_LINE_CHARS else first
    assert shown.startswith(f"   1 | top\n>  2 | {cut}\n" if b"\n" in line else f"  1 | top\n> 2 | {cut}\n")
    assert shown.endswith("more changed lines not shown]" if b"\n" in line else "\n  3 | end")


@pytest.mark.spec("B1", "N3")
def test_the_lines_of_secret_and_binary_files_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("KEY=one\n")
    ctx = FakeContext(tmp_path, secret=tmp_path / "a.txt")
    secret = use(FILE_EDIT, ctx, path="a.txt", search="one", replace="two")
    assert secret.output == (
        "Successfully replaced text in a.txt.\n[The changed lines are not shown: the file may contain secrets.]"
    )
    assert "KEY" not in str(secret.structured)
    binary = _edit(tmp_path, b"one\0\xff", "one", "two")
    assert binary.output == (
        "Successfully replaced text in a.txt.\n[The changed lines are not shown: the file is binary.]"
    )
    written = use(FILE_WRITE, ctx, path="a.txt", content="KEY=three\n")
    assert written.output == (
        "Successfully wrote 10 bytes to a.txt (overwritten).\n"
        "[The changed lines are not shown: the file may contain secrets.]"
    )
    assert "KEY" not in str(written.structured)


_CONTENT = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\n", b"\xff\n", b"d", b"e" * 300])).map(b"".join)


@given(_CONTENT, _CONTENT)
@pytest.mark.spec("B1", "T11")
def test_every_shown_line_is_in_the_file_and_every_change_is_shown_or_counted(before: bytes, after: bytes) -> None:
    changes = changed_lines(before, after)
    written = {"path": "a", "bytes": 0, "outcome": "overwritten", "changes": changes}
    assert FILE_WRITE.output_validator is not None
    assert FILE_WRITE.output_validator.violations(written) == []
    lines = after.split(b"\n")
    entries = [line for place in cast("list[list[dict[str, Any]]]", changes["places"]) for line in place]
    for entry in entries:
        if entry["text"] is not None:
            whole = lines[cast(int, entry["line"]) - 1].removesuffix(b"\r").decode(errors="replace")
            assert entry["text"].strip("…") in whole
    numbers = [entry["line"] for entry in entries if entry["text"] is not None]
    assert numbers == sorted(set(numbers))
    shown = sum(entry["changed"] for entry in entries)
    assert shown <= MAX_CHANGES
    assert bool(shown) == (before != after)
    assert before != after or not changes["more_lines"]
    rendered = render_changes(changes)
    assert all("\n" not in line and len(line) < 2 * MAX_LINE_CHARS for line in rendered)
