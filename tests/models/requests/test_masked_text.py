"""Quoted, fenced and pasted text is masked verbatim."""

from __future__ import annotations

import pytest
from hypothesis import given

from holdfast.models.requests.masked_text import MaskedLiteral, find_fences, mask
from holdfast.models.requests.words import words_in
from tests.models.operator.conversations import reply, you
from tests.text.strategies import ANY_TEXT

TRACE = 'Traceback (most recent call last):\n  File "src/a.py", line 3, in write\nValueError: delete it'


@pytest.mark.spec("M2", "M4")
@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ('say "two words".', [MaskedLiteral("two words", '"two words"', "quote")]),
        ("say 'don't'", [MaskedLiteral("don't", "'don't'", "quote")]),
        ('say "a "b""', [MaskedLiteral('a "b"', '"a "b""', "quote")]),
        ("run `` echo `date` ``", [MaskedLiteral("echo `date`", "`` echo `date` ``", "code")]),
        ("don`t and `x`", [MaskedLiteral("x", "`x`", "code")]),
        ("the users' files, 5' wide", []),
        ("a\n````\n```\nx\n```\n````\nb", [MaskedLiteral("```\nx\n```", "the fenced block", "block")]),
        (f"why?\n{TRACE}\n\nhm", [MaskedLiteral(TRACE, "the pasted traceback", "trace")]),
    ],
)
def test_a_literal_is_masked_verbatim(text: str, pieces: list[MaskedLiteral]) -> None:
    masked = mask(text)
    assert list(masked.literals) == pieces
    assert not masked.problem


@pytest.mark.spec("M2")
def test_ambiguous_literals_are_reported_as_a_problem() -> None:
    assert "not closed" in mask("a\n```\nb").problem
    assert "private use" in mask("run \ue0000\ue002").problem


@pytest.mark.spec("M2", "M4")
def test_an_unclosed_fence_does_not_hide_later_fences() -> None:
    assert find_fences(["````", "~~~", "x", "~~~", "```"]) == {1: 3}


@pytest.mark.spec("M2", "P6")
def test_the_operator_ignores_a_pasted_traceback() -> None:
    for text in (f"write a.txt:\n{TRACE}", f"run this command:\n{TRACE}", f"read a.py\n{TRACE}"):
        assert reply([you(text)]).tool_uses == ()


@pytest.mark.spec("M4", "P6")
@given(text=ANY_TEXT)
def test_any_text_can_be_parsed_without_inventing_words(text: str) -> None:
    masked = mask(text)
    assert all(word.text in text.replace("\r\n", "\n") for word in words_in(masked) if not masked.problem)
