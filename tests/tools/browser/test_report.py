"""What a result shows of a page: its beginning, a part, or what changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.tools.browser.protocol import PageEvent, PageView, Reply
from holdfast.tools.browser.report import FIRST_LINES, changes_since, new_page, page_part, page_result
from holdfast.tools.browser.service import Answer

CTX: Any = SimpleNamespace(caps="standard")


def view(*lines: str, document: int = 1, omitted: int = 0) -> PageView:
    return PageView(url="http://a.example/", title="A", document=document, lines=lines, omitted=omitted)


@pytest.mark.spec("B7c")
def test_a_change_of_the_same_document_is_shown_as_a_difference_and_another_document_in_full() -> None:
    before = view("one", "two", "three")
    assert changes_since(before, view("one", "2", "three"), CTX).lines == ["@2", "-two", "+2"]
    assert changes_since(before, before, CTX).note == "The page did not change."
    assert changes_since(before, view("x", document=2), CTX).view == "page"
    assert changes_since(None, before, CTX).view == "page"


@pytest.mark.spec("B7c")
def test_nothing_is_cut_in_silence() -> None:
    many = view(*(f"line {number}" for number in range(1000)), omitted=7)
    assert (
        new_page(many, CTX).note
        == f"[Lines 1-{FIRST_LINES} of 1000. browser.text offset={FIRST_LINES + 1} shows more.]"
    )
    assert "7 more lines" in page_part(many, 990, 100, 10_000).note
    assert len(page_part(view("x" * 100_000, "y"), 1, 10, 100).lines) == 1


def test_a_result_names_the_page_once_and_lists_events() -> None:
    session: Any = SimpleNamespace(shown=None)
    answer = Answer(reply=Reply(id=1, page=view("one")), events=(PageEvent("dialog", "Dismissed."),))
    first = page_result(session, answer, new_page(answer.page, CTX))
    assert first.output.splitlines() == ["http://a.example/ «A»", "! Dismissed.", "one"]
    again = page_result(session, answer, changes_since(session.shown, answer.page, CTX), done="Clicked.")
    assert again.output.splitlines() == ["Clicked.", "! Dismissed.", "The page did not change."]
