"""What a word of a command says, as far as that can be told without running anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from holdfast.rules.shell.parsing import Tree

if TYPE_CHECKING:
    from tree_sitter import Node

Word = str | None
"""The literal value; None: it depends on variables, files or other commands."""

_GLOB: Final = re.compile(r"[*?\[]")
_BRACES: Final = re.compile(r"\{[^}]*(,|\.\.)")
_ESCAPED: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r'\\([$`"\\\n])')
_ANSI: Final = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_LETTERS: Final = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip


def literal(tree: Tree, node: Node) -> Word:
    """The value of a word node, quotes and escapes taken away."""
    text = tree.text(node)
    match node.type:
        case "word" | "number" | "variable_name" | "special_variable_name" | "file_descriptor":
            return _bare(text) if not node.named_children else None
        case "raw_string":
            return text[1:-1]
        case "string" | "translated_string":
            return _quoted(tree, node, text)
        case "ansi_c_string":
            return _ansi(text[2:-1])
        case "command_name":
            return literal(tree, node.children[0]) if len(node.children) == 1 else None
        case "concatenation":
            return _joined(tree, node, text)
        case "variable_assignment":
            return _assignment(tree, node)
        case _:
            return None


def _bare(text: str) -> Word:
    unescaped = _ESCAPED.sub("", text)
    if _GLOB.search(unescaped) or text.startswith("~") or _BRACES.search(unescaped) or "$" in unescaped:
        return None
    return _ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text)


def _quoted(tree: Tree, node: Node, text: str) -> Word:
    if any(child.type not in ("string_content", "string") for child in node.named_children):
        return None
    if node.type == "translated_string":
        return literal(tree, node.named_children[0]) if len(node.named_children) == 1 else None
    return _ESCAPED_IN_QUOTES.sub(lambda found: "" if found[1] == "\n" else found[1], text[1:-1])


def _ansi(text: str) -> str:
    def char(found: re.Match[str]) -> str:
        hexadecimal = found[1] or found[2] or found[3]
        if hexadecimal:
            code = int(hexadecimal, 16)
            return chr(code) if code < 0x110000 else ""
        if found[4]:
            return chr(int(found[4], 8) & 0xFF)
        if found[5]:
            return chr(ord(found[5]) & 0x1F)
        return _ANSI_LETTERS.get(found[6], found[6])

    return _ANSI.sub(char, text)


def _joined(tree: Tree, node: Node, text: str) -> Word:
    pieces = [literal(tree, child) for child in node.children]
    bare = "".join(tree.text(child) for child in node.children if child.type == "word")
    if None in pieces or _BRACES.search(_ESCAPED.sub("", bare)) or text.startswith("~"):
        return None
    return "".join(piece for piece in pieces if piece is not None)


def _assignment(tree: Tree, node: Node) -> Word:
    pieces = [tree.text(node.children[0]), *(tree.text(child) for child in node.children[1:2])]
    values = [literal(tree, child) for child in node.children[2:]]
    if None in values or node.children[0].type == "subscript":
        return None
    return "".join(pieces) + "".join(value for value in values if value is not None)
