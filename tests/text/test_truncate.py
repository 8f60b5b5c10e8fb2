"""Truncation by whole lines and by bytes, and its note."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.context import TruncatedText, TruncateTools
from holdfast.text import truncate
from holdfast.text.truncate import (
    MAX_BYTES,
    MAX_LINES,
    byte_size,
    format_size,
    head,
    tail,
    truncate_bytes,
    truncate_line,
    with_notice,
)
from tests.quick import quickly

from .strategies import ANY_TEXT

TEXTS = st.text(st.sampled_from("ab\n\n é東🙂\ud800")) | ANY_TEXT
LIMITS = st.integers(0, 12)


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def check_facts(text: str, cut: TruncatedText, max_lines: int, max_bytes: int) -> None:
    assert cut.total_lines == len(text.split("\n")) and cut.total_bytes == size(text)
    assert cut.output_bytes == size(cut.content) <= max_bytes or not cut.truncated
    assert cut.truncated == (cut.content != text or cut.total_lines > max_lines or cut.total_bytes > max_bytes)
    assert (cut.truncated_by is not None) == cut.truncated
    assert cut.output_lines <= max_lines


@pytest.mark.spec("X7", "T7")
@given(TEXTS, LIMITS, LIMITS)
def test_head_keeps_as_many_whole_first_lines_as_fit(text: str, max_lines: int, max_bytes: int) -> None:
    cut = head(text, max_lines, max_bytes)
    lines = text.split("\n")
    possible = range(min(max_lines, len(lines)) + 1)
    most = max(n for n in possible if n == 0 or size("\n".join(lines[:n])) <= max_bytes)
    assert cut.content == "\n".join(lines[:most])
    assert cut.output_lines == most
    assert cut.first_line_exceeds_limit == (max_lines > 0 and size(lines[0]) > max_bytes)
    assert not cut.last_line_partial
    check_facts(text, cut, max_lines, max_bytes)


@pytest.mark.spec("X7", "T7")
@given(TEXTS, LIMITS, LIMITS)
def test_tail_keeps_as_many_whole_last_lines_as_fit(text: str, max_lines: int, max_bytes: int) -> None:
    cut = tail(text, max_lines, max_bytes)
    lines = text.split("\n")
    assert text.endswith(cut.content)
    if max_lines > 0 and size(lines[-1]) > max_bytes:
        assert cut.last_line_partial and cut.output_lines == 1
        assert max_bytes - 3 <= size(cut.content) <= max_bytes
        assert lines[-1].endswith(cut.content)
    else:
        possible = range(min(max_lines, len(lines)) + 1)
        most = max(n for n in possible if n == 0 or size("\n".join(lines[-n:])) <= max_bytes)
        assert cut.content == "\n".join(lines[len(lines) - most :])
        assert cut.output_lines == most and not cut.last_line_partial
    assert not cut.first_line_exceeds_limit
    check_facts(text, cut, max_lines, max_bytes)


@pytest.mark.spec("T7")
def test_a_truncator_is_the_truncate_part_of_a_context() -> None:
    tools: TruncateTools = truncate.Truncator(truncate.MAX_LINES, truncate.MAX_BYTES)
    outcome: TruncatedText = tools.head("a\n")
    assert (tools.MAX_LINES, tools.MAX_BYTES) == (2000, 51200)
    assert (outcome.content, outcome.total_lines, outcome.truncated) == ("a\n", 2, False)


@pytest.mark.spec("X7")
def test_the_default_limits_are_2000_lines_and_50_kilobytes() -> None:
    at_limit = "\n".join(["x"] * MAX_LINES)
    assert not head(at_limit).truncated and not tail(at_limit).truncated
    over = head(at_limit + "\nlast")
    assert (over.truncated_by, over.output_lines, over.total_lines) == ("lines", 2000, 2001)
    assert tail("first\n" + at_limit).content == at_limit
    wide = "\n".join(["y" * 1023] * 51)
    assert (head(wide).truncated_by, head(wide).output_lines, head(wide).output_bytes) == ("bytes", 50, 51199)
    assert not head("z" * MAX_BYTES).truncated
    assert head("z" * (MAX_BYTES + 1)).first_line_exceeds_limit


@pytest.mark.spec("X7")
def test_tail_keeps_the_end_of_a_single_long_line_without_splitting_a_character() -> None:
    cut = tail("start\n" + "é" * 100, max_bytes=51)
    assert (cut.content, cut.output_bytes, cut.last_line_partial) == ("é" * 25, 50, True)


@pytest.mark.spec("X7")
@pytest.mark.parametrize("letter", ["x", "é", "\ud800"])
def test_a_line_of_a_hundred_megabytes_is_truncated_quickly(letter: str) -> None:
    text = letter * (100_000_000 // size(letter))
    with quickly():
        assert head(text).first_line_exceeds_limit
        assert tail(text).output_bytes > MAX_BYTES - 3
        assert truncate_bytes(text, 100).endswith("bytes hidden]")


@pytest.mark.spec("X7")
def test_truncating_by_bytes_appends_the_number_of_hidden_bytes() -> None:
    assert truncate_bytes("abcdef", 6) == "abcdef"
    assert truncate_bytes("abcdef", 4) == "abcd\n[Output truncated - 2 bytes hidden]"
    assert truncate_bytes("éé", 3) == "é\n[Output truncated - 2 bytes hidden]"
    assert truncate_bytes("éé", 1) == "\n[Output truncated - 4 bytes hidden]"
    assert truncate_bytes("a", 0) == "\n[Output truncated - 1 bytes hidden]"
    assert truncate_bytes("a", -5) == "\n[Output truncated - 1 bytes hidden]"


@pytest.mark.spec("X7")
@given(TEXTS, LIMITS)
def test_the_number_of_hidden_bytes_is_exact(text: str, limit: int) -> None:
    cut = truncate_bytes(text, limit)
    if size(text) <= limit:
        assert cut == text
        return
    content, _, notice = cut.rpartition("\n[Output truncated - ")
    assert text.startswith(content) and limit - 3 <= size(content) <= limit
    assert notice == f"{size(text) - size(content)} bytes hidden]"


@pytest.mark.spec("T7")
@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "0B"), (1023, "1023B"), (1024, "1.0KB"), (12345, "12.1KB"), (51200, "50.0KB"),
        (1024**2, "1.0MB"), (5 * 1024**3, "5.0GB"), (3000 * 1024**3, "3000.0GB"),
    ],
)  # fmt: skip
def test_sizes_are_formatted_with_units(amount: int, shown: str) -> None:
    assert format_size(amount) == shown


@pytest.mark.spec("X7")
def test_a_truncated_line_fits_the_limit_with_its_suffix() -> None:
    assert truncate_line("x" * 500) == "x" * 500
    assert truncate_line("x" * 501) == "x" * 485 + "... [truncated]"
    assert byte_size(truncate_line("é" * 400)) <= 500


@pytest.mark.spec("X7")
def test_the_note_says_which_part_is_shown_and_where_the_full_output_is() -> None:
    text = "\n".join(str(n) for n in range(1, 11))
    assert with_notice(head(text), "head") == text
    assert with_notice(head(text, 2), "head") == "1\n2\n\n[Showing lines 1-2 of 10]"
    assert with_notice(tail(text, 2), "tail", "/spill/1") == (
        "9\n10\n\n[Showing lines 9-10 of 10. Full output: /spill/1]"
    )
    assert with_notice(head(text, max_bytes=4), "head", max_bytes=4) == "1\n2\n\n[Showing lines 1-2 of 10 (4B limit)]"
    assert with_notice(tail("abc\ndefgh", max_bytes=2), "tail", max_bytes=2) == "gh\n\n[Showing last 2B of line 2]"
    assert with_notice(head("x" * 60_000), "head", "/f") == (
        "[Output too large: 58.6KB in a single line, exceeds 50.0KB limit. Full output: /f]"
    )
