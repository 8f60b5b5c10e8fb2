"""Incremental edits equal parsing the new text, and rescan little."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.chat import scanner as scan_module
from holdfast.chat.document import Document
from tests.chat.chat_strategies import ANY_TEXT, EDIT, MARKUP
from tests.soak import rounds

PIECES = st.sampled_from([1, 2, 5, 16, scan_module.MAX_PIECE])
"""How long a piece may be: short ones put many boundaries into short texts."""


@contextmanager
def pieces_of(length: int) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_module, "MAX_PIECE", length)
        yield


def all_of(document: Document) -> tuple[object, ...]:
    places = [document.offset(index) for index in range(len(document.messages))]
    return document.text, document.blocks, document.diagnostics, document.newline, len(document), places


def edited(document: Document, edit: tuple[int, int, str]) -> Document:
    start = min(edit[0], len(document))
    end = min(start + edit[1], len(document))
    new = document.edit(start, end, edit[2])
    assert new.text == document.text[:start] + edit[2] + document.text[end:]
    return new


@pytest.mark.spec("D9")
@given(ANY_TEXT, st.lists(EDIT, min_size=1, max_size=4), PIECES)
@example("@Assistant:\n**Tool Use:** `a` (`b`)\n\n``", [(41, 0, "`json\n{}\n```\n")], 8192)
@example("@You:\r\nx\r\n", [(6, 1, ""), (5, 0, "\r")], 8192)
@example("\ufeff@You:\nx", [(0, 1, ""), (0, 0, "y"), (0, 1, "\ufeff")], 8192)
@example("@You:\n      x\n", [(12, 1, "")], 2)
@settings(max_examples=rounds(60, 300), deadline=None)
def test_an_edit_equals_parsing_the_new_text(text: str, edits: list[tuple[int, int, str]], length: int) -> None:
    with pieces_of(length):
        document = Document.parse(text)
        for edit in edits:
            before = all_of(document)
            new = edited(document, edit)
            assert all_of(new) == all_of(Document.parse(new.text))
            assert all_of(document) == before
            document = new


@pytest.mark.spec("D9")
@given(ANY_TEXT, st.lists(st.integers(1, 9), min_size=1, max_size=5), PIECES)
@settings(max_examples=rounds(40, 150), deadline=None)
def test_appending_in_small_steps_yields_the_same_document(text: str, sizes: list[int], length: int) -> None:
    with pieces_of(length):
        document, at, turn = Document.parse(""), 0, 0
        while at < len(text):
            size = sizes[turn % len(sizes)]
            document = document.append(text[at : at + size])
            at, turn = at + size, turn + 1
        assert all_of(document) == all_of(Document.parse(text))


@pytest.mark.spec("D9")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_text_can_be_removed_and_restored_at_every_position(newline: str) -> None:
    text = newline.join(["```lua", "x", "```", *(line for line in MARKUP if "lua" not in line), "@You:", "end"])
    whole = Document.parse(text)
    expected = all_of(whole)
    for at in range(len(text) + 1):
        for length in (1, 4):
            gone = whole.edit(at, min(at + length, len(text)), "")
            assert gone.blocks == Document.parse(gone.text).blocks
            assert all_of(gone.edit(at, at, text[at : at + length])) == expected


class Editing(RuleBasedStateMachine):
    """A document under successive edits, next to its plain text."""

    @initialize(text=ANY_TEXT, length=PIECES)
    def open(self, text: str, length: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(scan_module, "MAX_PIECE", length)
        self.text = text
        self.document = Document.parse(text)

    @rule(edit=EDIT)
    def edit(self, edit: tuple[int, int, str]) -> None:
        start = min(edit[0], len(self.text))
        end = min(start + edit[1], len(self.text))
        self.text = self.text[:start] + edit[2] + self.text[end:]
        self.document = self.document.edit(start, end, edit[2])

    @rule(text=ANY_TEXT)
    def append(self, text: str) -> None:
        self.text += text
        self.document = self.document.append(text)

    @rule(place=st.integers(0, 20), line=st.sampled_from(MARKUP), whole=st.booleans())
    def at_a_boundary(self, place: int, line: str, whole: bool) -> None:
        """At the start of a message: insert a line, or remove the marker."""
        if not self.document.messages:
            return
        index = place % len(self.document.messages)
        start = self.document.offset(index)
        end = start + len(self.document.messages[index].marker) if whole else start
        self.text = f"{self.text[:start]}{line}\n{self.text[end:]}"
        self.document = self.document.edit(start, end, line + "\n")

    @invariant()
    def same_as_parsed(self) -> None:
        assert all_of(self.document) == all_of(Document.parse(self.text))

    def teardown(self) -> None:
        self.patch.undo()


@pytest.mark.spec("D9")
class TestEditing(Editing.TestCase):
    settings = settings(max_examples=40, stateful_step_count=12, deadline=None)


@pytest.mark.spec("D9")
@pytest.mark.parametrize("span", [(-1, 0), (2, 1), (0, 7)])
def test_an_edit_out_of_range_is_refused(span: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="in a document of 6 characters"):
        Document.parse("@You:\n").edit(*span, "x")
