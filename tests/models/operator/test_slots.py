"""Slots: which words are accepted as files, folders, commands and arithmetic."""

from __future__ import annotations

import pytest

from holdfast.models.operator.slots import SLOTS
from holdfast.models.requests.masked_text import IT, mask


def value(slot: str, text: str) -> object:
    masked = mask(text)
    return SLOTS[slot].read(masked.text, masked)


@pytest.mark.spec("M2")
@pytest.mark.parametrize(
    ("slot", "text", "expected"),
    [
        ("FILE", "src/a.py", "src/a.py"),
        ("FILE", "README", "README"),
        ("FILE", "and/or", None),
        ("FILE", "it", IT),
        ("FILE", "`two words`", "two words"),
        ("FILES", "a.py and b.py", ["a.py", "b.py"]),
        ("FILES", "a.py and more", None),
        ("FOLDER", "src", "src"),
        ("FOLDER", "background", None),
        ("GLOB", "*.py", "*.py"),
        ("RANGE", "3-9", (3, 9)),
        ("RANGE", "9-3", None),
        ("EXPRESSION", "2 plus 3", "2 + 3"),
        ("EXPRESSION", "42", None),
        ("COMMAND", "make test", "make test"),
        ("COMMAND", "make dinner tomorrow", None),
        ("COMMAND", 'git commit -m "a text"', 'git commit -m "a text"'),
    ],
)
def test_a_slot_accepts_only_what_can_be_meant_for_it(slot: str, text: str, expected: object) -> None:
    assert value(slot, text) == expected
