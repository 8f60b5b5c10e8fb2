"""An edited document is what parsing its text anew would give, and little of it is looked at again."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.chat import document as parts_module
from holdfast.chat import scanner as scan_module
from holdfast.chat.document import Document
from holdfast.chat.scanner import Piece, ScanState
from tests.soak import rounds

from .strategies import ANY_TEXT, EDIT, MARKUP

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
def test_an_edit_gives_what_parsing_the_new_text_gives(
    text: str, edits: list[tuple[int, int, str]], length: int
) -> None:
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
def test_text_that_comes_bit_by_bit_gives_the_same_document(text: str, sizes: list[int], length: int) -> None:
    with pieces_of(length):
        document, at, turn = Document.parse(""), 0, 0
        while at < len(text):
            size = sizes[turn % len(sizes)]
            document = document.append(text[at : at + size])
            at, turn = at + size, turn + 1
        assert all_of(document) == all_of(Document.parse(text))


@pytest.mark.spec("D9")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_place_of_a_document_can_be_cut_and_mended(newline: str) -> None:
    text = newline.join(["```lua", "x", "```", *(line for line in MARKUP if "lua" not in line), "@You:", "end"])
    whole = Document.parse(text)
    expected = all_of(whole)
    for at in range(len(text) + 1):
        for length in (1, 4):
            gone = whole.edit(at, min(at + length, len(text)), "")
            assert gone.blocks == Document.parse(gone.text).blocks
            assert all_of(gone.edit(at, at, text[at : at + length])) == expected


class Editing(RuleBasedStateMachine):
    """A document under one edit after the other, beside its plain text."""

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
        """Where a message begins: put a line there, or take the marker away."""
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
def test_an_edit_outside_of_the_text_is_refused(span: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="in a document of 6 characters"):
        Document.parse("@You:\n").edit(*span, "x")


TURN = """@You:
Please look at the module and tell me what it does.

@Assistant:
I will read it first.

```python
print("hello")
```

**Tool Use:** `file.read` (`toolu_1`)

```json
{"path": "a.py"}
```

@You:

**Tool Result:** `toolu_1`

```
%s
```

"""


@contextmanager
def scanned() -> Generator[list[int]]:
    """How many characters are gone over, scan by scan."""
    lengths: list[int] = []
    original = scan_module.scan

    def counting(texts: Sequence[str], state: ScanState) -> tuple[list[Piece], ScanState]:
        lengths.append(sum(map(len, texts)))
        return original(texts, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts_module, "scan", counting)
        yield lengths


def large() -> str:
    return "".join(TURN % "\n".join(f"    value_{line} = {turn}" for line in range(60)) for turn in range(1000))


@pytest.mark.spec("D9")
@pytest.mark.parametrize("word", ["value_30 = ", "Please look", "file.read", "hello", "@You:"])
def test_an_edit_of_a_line_goes_over_little_of_a_large_document(word: str) -> None:
    text = large()
    document = Document.parse(text)
    at = text.index(word, len(text) // 2)
    with scanned() as lengths:
        new = document.edit(at, at + 3, "xyz")
    assert sum(lengths) < 40_000 < len(text) / 30
    shared = sum(one is other for one, other in zip(document.blocks[:1000], new.blocks[:1000], strict=True))
    assert shared == 1000
    assert new.blocks == Document.parse(new.text).blocks


@pytest.mark.spec("D9")
def test_an_edit_that_changes_everything_goes_over_everything_once() -> None:
    text = large()
    document = Document.parse(text)
    with scanned() as lengths:
        opened = document.edit(0, 0, "`````\n")
    assert sum(lengths) == len(text) + 6 and len(opened.blocks) == 1
    with scanned() as lengths:
        closed = opened.edit(0, 6, "")
    assert sum(lengths) == len(text)
    assert closed.blocks == document.blocks


@pytest.mark.spec("D9")
@pytest.mark.parametrize("kind", ["prose", "one line", "open fence", "thinking", "call"])
def test_a_streamed_reply_costs_the_same_at_its_end_as_at_its_start(kind: str) -> None:
    head = {"open fence": "```\n", "thinking": "<thinking>\n", "call": "**Tool Use:** `a` (`b`)\n\n```json\n"}
    bit = "x" * 100 if kind == "one line" else "some words and\nmore of them, then\n\n" * 3
    document = Document.parse(large() + "@Assistant:\n" + head.get(kind, ""))
    with scanned() as lengths:
        for _ in range(1000):
            document = document.append(bit)
    assert max(lengths) <= scan_module.MAX_PIECE + 2 * len(bit)
    assert all_of(document) == all_of(Document.parse(document.text))
