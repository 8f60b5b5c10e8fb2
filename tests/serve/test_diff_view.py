"""A diff shows every line once in each view, with numbers, marks and nothing from its content as markup."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.serve.diff_view import diff_html
from holdfast.serve.text_view import visible_line
from holdfast.text.diff import unified_diff
from holdfast.text.diff_lines import diff_lines
from holdfast.text.escape import escape_once
from tests.serve.hostile_text import ATTACKS, HOSTILE
from tests.serve.html_tree import Node, parse
from tests.soak import rounds

pytestmark = pytest.mark.spec("O1d")

LINES = st.lists(st.sampled_from(("a", "b", "c d e", "c d f", "", "-- x", "++ y", *ATTACKS)), max_size=30)
DIFF = st.tuples(LINES, LINES, st.integers(0, 20)).map(
    lambda made: unified_diff("\n".join(made[0]), "\n".join(made[1]), 'a"\x1b<b>', made[2])
)
ANY_DIFF = st.lists(DIFF | HOSTILE, max_size=3).map("".join)


def rows(root: Node) -> list[Node]:
    return root.all("div", "r")


def texts(found: list[Node]) -> list[str]:
    return [row.text() for row in found]


def diff_of(before: str, after: str, context: int = 3) -> Node:
    return parse(diff_html(unified_diff(before, after, "a.txt", context)))


@given(ANY_DIFF)
@settings(max_examples=rounds(100, 3000))
def test_each_line_is_shown_once_in_the_unified_view(text: str) -> None:
    shown = texts([row for row in rows(parse(diff_html(text))) if "copy" not in row.classes])
    assert shown == [f"{visible_line(line.text)}\n" for line in diff_lines(text)]


@given(ANY_DIFF)
@settings(max_examples=rounds(100, 3000))
def test_each_line_is_shown_once_on_each_of_its_sides(text: str) -> None:
    found = rows(parse(diff_html(text)))
    lines = list(diff_lines(text))
    wide = [line for line in lines if line.kind not in ("same", "added", "removed", "no-newline")]
    for side, kinds in (("o", ("same", "removed")), ("n", ("same", "added"))):
        shown = texts([row for row in found if side in row.classes and "eof" not in row.classes])
        assert shown == [f"{visible_line(line.text)}\n" for line in lines if line.kind in kinds]
    alone = [row for row in found if not row.classes & {"o", "n", "eof"}]
    assert texts(alone) == [f"{visible_line(line.text)}\n" for line in wide]


@given(ANY_DIFF)
def test_a_line_has_its_numbers(text: str) -> None:
    shown = [row for row in rows(parse(diff_html(text))) if "copy" not in row.classes]
    numbers = [tuple(int(row.attributes.get(name, 0)) for name in ("data-o", "data-n")) for row in shown]
    assert numbers == [(line.old, line.new) for line in diff_lines(text)]


def test_removed_and_added_lines_are_marked_for_screen_readers_and_copies() -> None:
    root = diff_of("a\nold\n", "a\nnew\n")
    assert texts(root.all("del")) == ["-old\n"]
    assert texts(root.all("ins")) == ["+new\n"]


def test_changed_words_are_marked() -> None:
    root = diff_of("x = old(a)\n", "x = new(a) # <b>\n")
    assert texts(root.all("mark", "w")) == ["old", "new", " # <b>"]


def test_white_space_at_the_end_of_an_added_line_is_marked() -> None:
    root = diff_of("a \nb\n", "a\nb \t\n", 0)
    assert texts(root.all("span", "ws")) == [" \t"]


def test_a_carriage_return_is_shown() -> None:
    root = diff_of("a\n", "a\r\n")
    assert texts(root.all("span", "esc")) == ["‹\\r›"]


def test_the_middle_of_a_long_equal_run_can_be_folded_and_is_open() -> None:
    before = "".join(f"{number}\n" for number in range(40))
    (fold,) = diff_of(before, f"new\n{before}", 30).all("details", "same")
    assert "open" in fold.attributes
    assert fold.all("summary")[0].text() == "24 equal lines"


def test_a_missing_newline_is_on_the_side_of_its_line() -> None:
    root = diff_of("a", "b")
    assert [(row.classes, row.text()) for row in root.all("div", "eof")] == [
        ({"r", "eof", "o"}, "\\ No newline at end of file\n"),
        ({"r", "eof", "n"}, "\\ No newline at end of file\n"),
    ]


def test_hidden_lines_are_said() -> None:
    before = "".join(f"{number}\n" for number in range(9_000))
    root = parse(diff_html(unified_diff(before, "", "a.txt")))
    assert texts(root.all("div", "hidden")) == ["[7,001 lines of the diff hidden; in all 0 added, 9,000 removed]\n"]


def test_the_view_is_chosen_without_a_script() -> None:
    (switch,) = diff_of("a\n", "b\n").all("label", "split-switch")
    assert [node.attributes for node in switch.all("input")] == [{"type": "checkbox"}]


def test_a_text_that_is_no_diff_is_shown_without_a_switch() -> None:
    root = parse(diff_html("- one\n+ two\n<b>"))
    assert texts(rows(root)) == ["- one\n", "+ two\n", "<b>\n"]
    assert not root.all("label")


def test_text_that_is_escaped_already_is_not_escaped_again() -> None:
    root = parse(diff_html("@@ -1 +1 @@\n-a\n+‹\\x1b›\x1c\n", show=escape_once))
    assert texts(root.all("ins")) == ["+‹\\x1b›‹\\x1c›\n"]


def test_megabytes_are_shown_whole_and_at_a_bounded_size() -> None:
    long, hostile = "x" * 1_000_000, "<b>\x1b\u202e " * 20_000
    text = unified_diff(None, f"{long}\n{hostile}", "a.txt", max_lines=None)
    shown = diff_html(text)
    assert len(shown) < 3 * len(text)
    assert texts(parse(shown).all("ins")) == [f"+{long}\n", f"{visible_line(f'+{hostile}')}\n"]


def test_no_words_are_compared_beyond_the_limit() -> None:
    before = [f"{number} a b c d e f {number}" for number in range(990)]
    after = [line.replace("a b", "b a").replace("e f", "f e") for line in before]
    root = diff_of("\n".join(before), "\n".join(after))
    marked = [row for row in rows(root) if row.all("mark")]
    assert 0 < len(marked) < 1980
    assert rows(root)[3].all("mark") and not rows(root)[-1].all("mark")
