"""The second parser: lists the commands and redirections in tree-sitter's syntax tree, within size limits."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.rules.shell.parts import Word, word_set
from holdfast.rules.shell.word_reader import ansi_value, has_braces

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 100
MAX_NODES: Final = 8000
MAX_HEREDOCS: Final = 32
"""Parsing time grows with the square of their number."""
_AMBIGUOUS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters except tab and newline: shells, parsers and terminals treat them differently."""
_ASCII: Final = bytes(range(128)) + b"x" * 128
"""The grammar's scanner reads out of bounds for non-ASCII bytes and can crash the process, so they are replaced by
letters; a shell treats them as letters of a word too."""
_STRANGE_END: Final = re.compile(r"<<-?[ \t]*[^\s;&|<>()]*[^\x00-\x7f]")
"""A here-document with a non-ASCII delimiter: after the replacement two delimiters could look the same."""
_FLAT: Final = frozenset({"list", "pipeline", "concatenation", "program"})
"""Node types that nest for long sequences, so they do not count as depth."""
_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_ENDING_IN_COMMANDS: Final = frozenset({"redirected_statement", "pipeline", "list", "negated_command"})
_WORDS: Final = word_set("""
    word number string raw_string ansi_c_string translated_string concatenation simple_expansion expansion
    command_substitution process_substitution arithmetic_expansion brace_expression extglob_pattern
""")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./,:=@%+^-]+")
_GLOB: Final = re.compile(r"[*?\[]")
_ESCAPED: Final = re.compile(r"\\(\n|.)", re.DOTALL)
REPLACEMENT: Final = "\ufffd"
"""Stands for bytes that are no character."""
_ESCAPED_IN_QUOTES: Final = re.compile(r'\\([$`"\\\n])')


class TooComplex(Exception):
    """The command exceeds the limits and is denied."""


class AmbiguousText(Exception):
    """The text can be interpreted in more than one way."""


class SyntaxOutline(Struct, frozen=True):
    """The commands and redirections of a script, in no particular order."""

    commands: tuple[tuple[Word, ...], ...]
    redirections: tuple[tuple[Word, ...], ...]
    broken: bool
    """Whether the tree contains syntax errors."""


def parse_outline(text: str) -> SyntaxOutline:
    """Parse a script. Raises `TooComplex` beyond the limits, and `AmbiguousText`."""
    try:
        source = text.encode()
    except UnicodeEncodeError:
        raise AmbiguousText("it contains a lone surrogate") from None
    if len(source) > MAX_BYTES:
        raise TooComplex(f"it is {len(source)} bytes long, more than {MAX_BYTES}")
    if text.count("<<") > MAX_HEREDOCS:
        raise TooComplex(f"it has more than {MAX_HEREDOCS} here-documents")
    root = native_parser().parse(source.translate(_ASCII)).root_node
    if root.descendant_count > MAX_NODES:
        raise TooComplex(f"it has more than {MAX_NODES} tokens")
    walk = _TreeWalk(source)
    walk.go(root)
    if (odd := _AMBIGUOUS.search(text)) is not None:
        raise AmbiguousText(f"it contains the control character U+{ord(odd[0]):04X}")
    if _STRANGE_END.search(text) is not None:
        raise AmbiguousText("it contains a here-document with a non-ASCII delimiter")
    return SyntaxOutline(tuple(walk.commands), tuple(walk.redirections), root.has_error)


@cache
def native_parser() -> Parser:
    import tree_sitter  # native extensions, loaded with the first command
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _TreeWalk:
    """Collects commands and redirections in one pass over the tree."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.commands: list[tuple[Word, ...]] = []
        self.redirections: list[tuple[Word, ...]] = []

    def go(self, root: Node) -> None:
        waiting = [(root, 0)]
        while waiting:
            node, depth = waiting.pop()
            if depth > MAX_DEPTH:
                raise TooComplex(f"it is nested more than {MAX_DEPTH} levels deep")
            kind, children = node.type, node.children
            if kind == "command":
                self.commands.append(self._command(node, children))
            elif kind in ("declaration_command", "unset_command"):
                rest = (self._value(child) for child in children[1:])
                self.commands.append((self._text(children[0]), *rest))
            elif kind == "file_redirect":
                self.redirections.append(self._redirection(children))
            deeper = depth + (kind not in _FLAT)
            waiting += [(child, deeper) for child in children]

    def _text(self, node: Node) -> str:
        # The parser may split a character that it does not know; what is left of it is no text that a rule knows.
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def _command(self, node: Node, children: list[Node]) -> tuple[Word, ...]:
        kinds = ("variable_assignment", *_REDIRECTS)
        words = [self._value(child) for child in children if child.type not in kinds]
        return (*words, *self._after_redirections(node))

    def _after_redirections(self, command: Node) -> list[Word]:
        """Arguments after a redirection: `git >/dev/null push`. The tree puts them into the redirection node, which
        belongs to
        the statement that ends with the command."""
        found: list[Word] = []
        node, above = command, command.parent
        while above is not None and above.type in _ENDING_IN_COMMANDS:
            if above.type == "redirected_statement":
                for redirect in above.children:
                    words = [child for child in redirect.children if child.type in _WORDS]
                    if redirect.type in _REDIRECTS:
                        found += [self._value(word) for word in words[redirect.type == "file_redirect" :]]
            elif above.children[-1] != node:
                break
            node, above = above, above.parent
        return found

    def _redirection(self, children: list[Node]) -> tuple[Word, ...]:
        operator, target, descriptor = "", None, ""
        for child in children:
            if child.type == "file_descriptor":
                descriptor = self._text(child)
            elif not child.is_named and not operator:
                operator = self._text(child)
            elif target is None and child.type in _WORDS:
                target = self._value(child)
        return f"{descriptor}{operator}", target

    def _value(self, node: Node) -> Word:
        """The value of a word without quotes and escapes; None if it is unknown."""
        match node.type:
            case "word" | "number" | "variable_name" | "special_variable_name" | "file_descriptor":
                text = self._text(node)
                return None if node.named_children or REPLACEMENT in text else _bare(text)
            case "raw_string":
                return self._text(node)[1:-1]
            case "string":
                return self._quoted(node)
            case "ansi_c_string":
                return ansi_value(self._text(node)[2:-1])
            case "command_name":
                return self._value(node.children[0]) if len(node.children) == 1 else None
            case "concatenation":
                return self._joined(node)
            case "variable_assignment":
                return self._assignment(node)
            case _:
                return None

    def _quoted(self, node: Node) -> Word:
        if any(child.type not in ("string_content", "string") for child in node.named_children):
            return None
        return _ESCAPED_IN_QUOTES.sub(lambda found: "" if found[1] == "\n" else found[1], self._text(node)[1:-1])

    def _joined(self, node: Node) -> Word:
        pieces = [self._value(child) for child in node.children]
        bare = "".join(self._text(child) for child in node.children if child.type == "word")
        if None in pieces or has_braces(_ESCAPED.sub("", bare)) or self._text(node).startswith("~"):
            return None
        return "".join(piece for piece in pieces if piece is not None)

    def _assignment(self, node: Node) -> Word:
        name = "".join(self._text(child) for child in node.children[:2])
        values = [self._value(child) for child in node.children[2:]]
        if None in values or node.children[0].type == "subscript":
            return None
        return name + "".join(value for value in values if value is not None)


def _bare(text: str) -> Word:
    if _PLAIN.fullmatch(text):
        return text
    unescaped = _ESCAPED.sub("", text)
    if (_GLOB.search(unescaped) and text != "[") or text.startswith("~") or has_braces(unescaped) or "$" in unescaped:
        return None
    return _ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text)
