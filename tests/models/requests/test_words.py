"""Words are classified as files, folders or plain words by their spelling alone."""

from __future__ import annotations

import pytest

from holdfast.models.requests.masked_text import mask
from holdfast.models.requests.words import WordKind, kind_of, strip_line_number, words_in


@pytest.mark.spec("M2")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("src/a.py", WordKind.FILE),
        ("Makefile", WordKind.FILE),
        (".env", WordKind.FILE),
        ("src/", WordKind.FOLDER),
        ("..", WordKind.FOLDER),
        ("src/app", WordKind.EITHER),
        ("and/or", WordKind.WORD),
        ("Node.js", WordKind.WORD),
        ("self.c", WordKind.WORD),
        ("request.json", WordKind.WORD),
        ("1.2.3", WordKind.WORD),
        ("https://example.org/a.py", WordKind.WORD),
    ],
)
def test_a_word_is_a_path_only_if_it_is_spelled_like_one(name: str, kind: WordKind) -> None:
    assert kind_of(name) is kind


@pytest.mark.spec("M2")
@pytest.mark.parametrize("suffix", [":12", ":12:3", ":3-9", "#L3", "#L3-L9"])
def test_a_line_reference_is_separated_from_its_path(suffix: str) -> None:
    assert strip_line_number(f"a.py{suffix}") == "a.py"
    (word,) = words_in(mask(f"a.py{suffix}"))
    assert (word.text, word.line_suffix, word.kind) == ("a.py", suffix, WordKind.FILE)
