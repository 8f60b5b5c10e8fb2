"""The template scanner: linear time for any text, and the end of templates."""

from __future__ import annotations

import pytest

from holdfast.chat.templates.scanner import MAX_TEMPLATE, TemplateScan
from tests.quick import quickly
from tests.soak import some

MEGABYTE = 1_000_000
LEVELS = "".join(f"--[{'=' * level}[\n" for level in range(300))


def much(text: str) -> str:
    return text * (MEGABYTE // len(text))


HOSTILE = {
    "strings that do not end": "{{'" + much("{{\\'"),
    "strings that do not end and a mark that closes": "{{'" + much("{{\\'") + "}}",
    "comments": "{{" + "--\n" * 21_000 + "x" * 800_000 + "}}",
    "comments behind many marks": ("{{" + "--\n" * 5_000) * 8 + "x" * 800_000 + "}}",
    "comments without a closing mark": ("{{" + "--\n" * 5_000) * 8 + "x" * 800_000,
    "comments to the end of the text": much("{{--}}"),
    "long comments": much("{{--[[\n") + "}}",
    "long comments of many levels": much("{{" + LEVELS + "}}"),
    "a long bracket that is none": "{{[" * 21_000 + "=" * MEGABYTE + "}}",
    "long brackets": much("{{ [[") + "}}",
    "code": much("{% '") + "%}",
    "marks": much("{{") + "}}",
}


@pytest.mark.spec("D8")
@pytest.mark.parametrize("text", some(HOSTILE.values(), 4), ids=some(HOSTILE, 4))
def test_a_megabyte_of_anything_is_scanned_in_bounded_time(text: str) -> None:
    with quickly():
        pieces = TemplateScan(text).pieces
    assert "".join(piece.source for piece in pieces) == text


@pytest.mark.spec("D8")
def test_an_opening_mark_without_any_closing_mark_is_text_without_a_warning() -> None:
    scan = TemplateScan(much("{{ '"))
    assert [piece.kind for piece in scan.pieces] == ["text"] and not scan.gave_up


@pytest.mark.spec("D8")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{{ '}}' }}", " '}}' "),
        ("{{ '\\'}}' }}", " '\\'}}' "),
        ("{{ x --[[ }} ]] }}", " x --[[ }} ]] "),
        ("{{ x --[[ never closed\n }}", " x --[[ never closed\n "),
        ("{{ x -- }}", " x -- "),
        ("{{ --[=[ ]] }} ]=] x }}", " --[=[ ]] }} ]=] x "),
        ("{{ [[ }} ]] }}", " [[ }} ]] "),
        ("{{ {a={1}}.a }}", " {a={1}}.a "),
    ],
)
def test_the_end_of_a_template_is_found_after_strings_comments_and_brackets(text: str, code: str) -> None:
    assert [(piece.kind, piece.code) for piece in TemplateScan(text).pieces] == [("expression", code)]


@pytest.mark.spec("D8")
def test_a_template_that_is_too_long_is_text() -> None:
    inner = "x" * (MAX_TEMPLATE - 1)
    assert [piece.kind for piece in TemplateScan(f"{{{{{inner}}}}}").pieces] == ["expression"]
    assert [piece.kind for piece in TemplateScan(f"{{{{xx{inner}}}}}").pieces] == ["text"]
