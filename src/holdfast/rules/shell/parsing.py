"""Text to syntax tree, within a budget. Whoever asks gets a tree, a reason why there is none, or a refusal."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES: Final = 64 * 1024
MAX_PARTS: Final = 1000
MAX_DEPTH: Final = 100
MAX_NODES: Final = 8000
MAX_HEREDOCS: Final = 32
"""The time to parse grows with their square."""
_AMBIGUOUS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters but tab and newline: shells, parsers and terminals do not agree about them."""
_ASCII: Final = bytes(range(128)) + b"x" * 128
"""The grammar's own scanner reads outside its tables for other characters and can crash the process, so it is shown
letters in their place; to a shell they are letters of a word too."""
_STRANGE_END: Final = re.compile(r"<<-?[ \t]*[^\s;&|<>()]*[^\x00-\x7f]")
"""A here-document whose end is not spelt in ASCII: two such ends would look the same."""
_FLAT: Final = frozenset({"list", "pipeline", "concatenation", "program"})
"""Kinds that nest because there are many, not because something is inside something."""


class Tree(Struct, frozen=True):
    """A parsed text."""

    root: Node
    source: bytes

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode()


class Overrun(Exception):
    """The command is more than anyone should have to judge; it is denied."""


class Unreadable(Exception):
    """There is no one meaning of the text."""


def parse(text: str) -> Tree:
    """Raises `Overrun` beyond the budget and `Unreadable` for text whose meaning depends on who reads it."""
    try:
        source = text.encode()
    except UnicodeEncodeError:
        raise Unreadable("it holds a lone surrogate") from None
    if len(source) > MAX_BYTES:
        raise Overrun(f"it is {len(source)} bytes long, more than {MAX_BYTES}")
    if text.count("<<") > MAX_HEREDOCS:
        raise Overrun(f"it has more than {MAX_HEREDOCS} here-documents")
    root = native_parser().parse(source.translate(_ASCII)).root_node
    if root.descendant_count > MAX_NODES:
        raise Overrun(f"it has more than {MAX_NODES} tokens")
    _check_depth(root)
    if (odd := _AMBIGUOUS.search(text)) is not None:
        raise Unreadable(f"it holds the control character U+{ord(odd[0]):04X}")
    if _STRANGE_END.search(text) is not None:
        raise Unreadable("it holds a here-document whose end is not spelt in plain letters")
    return Tree(root, source)


@cache
def native_parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _check_depth(root: Node) -> None:
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise Overrun(f"it is nested more than {MAX_DEPTH} deep")
        deeper = depth + (node.type not in _FLAT)
        waiting += [(child, deeper) for child in node.children]
