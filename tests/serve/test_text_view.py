"""Any text becomes well-formed HTML with the characters that the terminal shows, and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.serve.text_view import block_html, fold_html, inline_html, line_html, visible_line
from holdfast.text.escape import escape
from holdfast.text.quote import escape_line
from tests.serve.hostile_text import HOSTILE
from tests.serve.html_tree import parse

pytestmark = pytest.mark.spec("O1d")

LINE = HOSTILE.map(lambda text: text.replace("\n", ""))


@given(LINE)
def test_a_line_shows_what_the_terminal_shows(line: str) -> None:
    shown = parse(line_html(line)).text()
    assert shown == visible_line(line)
    assert shown.replace("\t", "").isprintable()
    if "\t" not in line:
        assert shown == escape_line(line)


@given(LINE)
def test_only_tabs_differ_from_the_terminal(line: str) -> None:
    pieces = re.split(r"\t+", line)
    expected = [escape_line(pieces[0]), *(escape(piece, newline="\n") for piece in pieces[1:])]
    assert re.split(r"\t+|‹\\t(?:×[0-9]+)?›", visible_line(line)) == expected


@given(HOSTILE)
def test_a_name_shows_what_the_terminal_shows(text: str) -> None:
    assert parse(inline_html(text)).text() == escape(text)


@given(HOSTILE)
def test_a_block_shows_every_line_once(text: str) -> None:
    root = parse(block_html(text))
    lines = text.split("\n")
    if len(lines) > 1 and lines[-1] == "":
        lines.pop()
    shown: list[str | None] = [None] * len(lines)
    for row in root.all("span", "ln"):
        shown[int(row.attributes["data-line"]) - 1] = row.text()
    for gap in root.all("span", "gap"):
        first = int(gap.attributes["data-line"]) - 1
        count = int(gap.text()[1:].split()[0].replace(",", ""))
        assert count > 3
        for index in range(first, first + count):
            assert shown[index] is None and not lines[index].strip(" \t")
            shown[index] = f"{visible_line(lines[index])}\n"
    assert shown == [f"{visible_line(line)}\n" for line in lines]


@pytest.mark.parametrize(
    ("char", "title"),
    [
        ("\u202e", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("\x1b", "U+001B ESCAPE"),
        ("\r", "U+000D CARRIAGE RETURN"),
        ("\x01", "U+0001 CONTROL CHARACTER"),
        ("\ud800", "U+D800 LONE SURROGATE"),
        ("\ue000", "U+E000 PRIVATE USE"),
        ("‹", "U+2039 SINGLE LEFT-POINTING ANGLE QUOTATION MARK"),
        ("\xa0" * 5000, "U+00A0 NO-BREAK SPACE, 5,000 times"),
        (f"x{' ' * 40}", "U+0020 SPACE, 40 times"),
        ("\t" * 20, "U+0009 TAB, 20 times"),
    ],
)
def test_an_escape_has_the_name_of_its_character(char: str, title: str) -> None:
    (escaped,) = parse(line_html(char)).all("span", "esc")
    assert escaped.attributes["title"] == title


def test_a_few_tabs_stay_tabs() -> None:
    assert line_html("\ta\tb") == "\ta\tb"


def test_a_line_of_escapes_does_not_become_many_times_its_size() -> None:
    text = "\x1b\x1c" * 100_000
    shown = line_html(text)
    assert parse(shown).text() == visible_line(text)
    assert len(shown) < 8 * len(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [("\n" * 8 + "x", "[8 blank lines]"), ("a\n \n\n\n\t\nb", "[4 blank lines, 2 of them with white space]")],
)
def test_a_run_of_blank_lines_is_shown_as_its_number(text: str, said: str) -> None:
    (gap,) = parse(block_html(text)).all("span", "gap")
    assert gap.text() == f"{said}\n"


@given(HOSTILE, st.integers(1, 60))
def test_a_long_part_can_be_folded_and_is_open(text: str, times: int) -> None:
    whole = f"{text}\n" * times
    root = parse(fold_html("Command", whole, block_html(whole)))
    folds = root.all("details")
    assert bool(folds) == (len(whole) > 4000 or whole.count("\n") >= 40)
    assert all("open" in fold.attributes and "data-fold" in fold.attributes for fold in folds)


def test_a_fold_states_the_size() -> None:
    text = "line\n" * 312
    (summary,) = parse(fold_html("Diff", text, block_html(text))).all("summary")
    assert summary.text() == "Diff, 312 lines"
