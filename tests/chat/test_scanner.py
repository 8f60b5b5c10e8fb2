"""The scanner: an edit scans again only what it can have changed."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import pytest

from holdfast.chat import document as parts_module
from holdfast.chat import scanner as scan_module
from holdfast.chat.document import Document
from holdfast.chat.scanner import Piece, ScanState


def all_of(document: Document) -> tuple[object, ...]:
    places = [document.offset(index) for index in range(len(document.messages))]
    return document.text, document.blocks, document.diagnostics, document.newline, len(document), places


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
    """The number of characters of each scan."""
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
def test_an_edit_of_a_line_rescans_little_of_a_large_document(word: str) -> None:
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
def test_an_edit_that_changes_everything_rescans_everything_once() -> None:
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
