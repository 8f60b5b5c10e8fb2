"""The parts of a command: every simple command, assignment and redirection in it, however deep it is hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.rules.shell.literal import Word, literal
from holdfast.rules.shell.parsing import MAX_PARTS, Overrun, Tree, Unreadable, parse
from holdfast.rules.shell.scripts import Inner, script_of, stored
from holdfast.rules.shell.verdicts import Kind
from holdfast.rules.shell.wrappers import MAX_WRAPPED, evaluated, unwrap

if TYPE_CHECKING:
    from tree_sitter import Node

_SHOWN: Final = 200
_STRUCTURE: Final = frozenset(
    {
        *("program", "list", "pipeline", "redirected_statement", "comment", "command_name", "do_group", "else_clause"),
        *("elif_clause", "case_item", "heredoc_body", "heredoc_content", "heredoc_start", "heredoc_end"),
        *("word", "number", "string", "string_content", "raw_string", "ansi_c_string", "translated_string"),
        *("concatenation", "variable_name", "special_variable_name", "file_descriptor", "subscript", "array"),
        *("simple_expansion", "expansion", "arithmetic_expansion", "brace_expression", "test_operator", "regex"),
        *("extglob_pattern", "unary_expression", "binary_expression", "ternary_expression", "postfix_expression"),
        *("parenthesized_expression", "variable_assignments"),
    }
)
"""Kinds that are understood and have no say of their own: what matters is in them."""
_UNPARSED: Final = frozenset({"extglob_pattern", "regex", "word"})
"""Kinds the grammar does not look into where they stand in `${…}`."""
_BACKTICK: Final = re.compile(r"(?<!\\)`")
_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_ENDING_IN_COMMANDS: Final = frozenset({"redirected_statement", "pipeline", "list", "negated_command"})
_WORDS: Final = frozenset(
    {
        *("word", "number", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation"),
        *("simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"),
        *("brace_expression", "extglob_pattern"),
    }
)
_INSIDE: Final = {
    "command_substitution": "$(…)",
    "process_substitution": "<(…)",
    "function_definition": "a function",
    "heredoc_body": "a here-document",
    "subshell": "(…)",
}
_STATEMENTS: Final = {
    "subshell": "a subshell",
    "compound_statement": "a group",
    "negated_command": "a negation",
    "if_statement": "a condition",
    "for_statement": "a loop",
    "c_style_for_statement": "a loop",
    "while_statement": "a loop",
    "case_statement": "a choice",
    "function_definition": "a function definition",
    "test_command": "a test, which may evaluate arithmetic",
}
"""Kinds whose parts are read, but which no rule approves."""


class Part(Struct, frozen=True, kw_only=True):
    """One thing a command would do."""

    kind: Kind
    text: str
    words: tuple[Word, ...] = ()
    """Program and arguments of a command; operator and target of a redirection."""
    inside: str = ""
    """What it is hidden in."""
    obstacle: str = ""
    """Why no rule can approve it."""
    hides: bool = False
    """Whether anything at all may be in it."""
    derived: bool = False
    """Another part runs it; it has no say in whether that one is approved."""


class Reading(Struct, frozen=True, kw_only=True):
    parts: tuple[Part, ...] = ()
    unreadable: str = ""
    """Why the text as a whole has no certain meaning."""
    overrun: str = ""
    """Why it is too much to judge."""


@lru_cache(maxsize=64)
def read(text: str) -> Reading:
    """Everything that can be told about a command."""
    reader = _Reader()
    try:
        reader.read(text)
        reader.read_inputs()
    except Overrun as over:
        return Reading(parts=tuple(reader.parts), unreadable=reader.unreadable, overrun=str(over))
    return Reading(parts=tuple(reader.parts), unreadable=reader.unreadable)


class _Reader:
    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.unreadable = ""
        self._runs_input = False
        """Whether a shell runs what it is given on its standard input."""
        self._inputs: list[str] = []

    def read_inputs(self) -> None:
        """Read here-documents and here-strings as the scripts that some shell may take them for."""
        while self._runs_input and self._inputs:
            self.read(self._inputs.pop(), "a here-document", 1)

    def read(self, text: str, by: str = "", depth: int = 0) -> None:
        """Read a script: the command itself, or one that a part (`by`) would run."""
        try:
            tree = parse(text)
        except Unreadable as reason:
            self._unknown(str(reason), text, by)
            return
        if tree.root.has_error:
            self._unknown("it is not a whole script", text, by)
        waiting: list[tuple[Node, str]] = [(tree.root, by)]
        while waiting:
            node, inside = waiting.pop()
            for part in _parts_of(tree, node, inside):
                self._add(replace(part, derived=True) if by else part, depth)
            if node.type == "test_command":
                self._read_words(_words_in(tree, node), "test", depth)
            elif node.type == "variable_assignment":
                self._read_assignment(tree, node, depth)
            elif node.type in _UNPARSED and not node.children and _BACKTICK.search(tree.text(node)):
                self._read_words([tree.text(node)], "`…`", depth)
            elif node.type in ("heredoc_body", "herestring_redirect"):
                self._inputs.append(_given(tree, node))
            deeper = inside or _INSIDE.get(node.type, "")
            waiting += [(child, deeper) for child in reversed(node.children)]

    def _read_assignment(self, tree: Tree, node: Node, depth: int) -> None:
        values = [literal(tree, child) for child in node.children[2:]]
        self._read_words(values, "a variable", depth)
        for inner in stored(f"{tree.text(node.children[0])}={script_of(values)}"):
            self._add_inner(inner, depth + 1)

    def _read_words(self, words: Iterable[Word], by: str, depth: int) -> None:
        for script in evaluated(words):
            self._add_inner(Inner(by, script=script), depth + 1)

    def _unknown(self, reason: str, text: str, by: str) -> None:
        self.unreadable = self.unreadable or reason
        self._add(replace(_hiding(text, by, reason), derived=bool(by)), 0)

    def _add(self, part: Part, depth: int) -> None:
        if len(self.parts) >= MAX_PARTS:
            raise Overrun(f"it has more than {MAX_PARTS} parts")
        self.parts.append(part)
        if part.kind == "command":
            for inner in unwrap(part.words):
                self._add_inner(inner, depth + 1)

    def _add_inner(self, inner: Inner, depth: int) -> None:
        self._runs_input = self._runs_input or inner.from_input
        if depth > MAX_WRAPPED:
            reason = f"commands are wrapped more than {MAX_WRAPPED} deep"
            self.unreadable = self.unreadable or reason
            self._add(replace(_hiding(inner.by, inner.by, reason), derived=True), 0)
        elif inner.script is not None:
            self.read(inner.script, inner.by, depth)
        else:
            text = " ".join("…" if word is None else word for word in inner.words)[:_SHOWN]
            self._add(Part(kind="command", text=text, words=inner.words, inside=inner.by, derived=True), depth)


def _hiding(text: str, by: str, reason: str) -> Part:
    return Part(kind="opaque", text=text[:_SHOWN], inside=by, obstacle=reason, hides=True)


def _given(tree: Tree, node: Node) -> str:
    """The text of a here-document or here-string, as far as it can be told."""
    if node.type == "heredoc_body":
        return tree.text(node)
    words = [literal(tree, child) for child in node.children if child.type in _WORDS]
    return "$_" if not words or words[0] is None else words[0]


def _words_in(tree: Tree, node: Node) -> list[Word]:
    found, waiting = list[Word](), list(node.children)
    while waiting:
        child = waiting.pop()
        found.append(literal(tree, child))
        waiting += child.children
    return found


def _parts_of(tree: Tree, node: Node, inside: str) -> list[Part]:
    text = tree.text(node)[:_SHOWN]
    if node.is_missing or node.type == "ERROR":
        return [_hiding(text, inside, "this is not understood")]
    match node.type:
        case "command":
            return [_command(tree, node, text, inside)]
        case "declaration_command" | "unset_command":
            words = (tree.text(node.children[0]), *(literal(tree, child) for child in node.children[1:]))
            return [Part(kind="command", text=text, words=words, inside=inside, obstacle="it changes the shell")]
        case "variable_assignment":
            return [Part(kind="assignment", text=text, inside=inside, obstacle="it sets a variable")]
        case kind if kind in _REDIRECTS:
            return [_redirection(tree, node, text, inside)]
        case "&":
            return [Part(kind="opaque", text="&", inside=inside, obstacle="it runs something in the background")]
        case kind if kind in _STATEMENTS:
            reason = f"{_STATEMENTS[kind]} is not approved by rules"
            return [Part(kind="opaque", text=text, inside=inside, obstacle=reason)]
        case kind if node.is_named and kind not in _STRUCTURE and kind not in _INSIDE:
            return [_hiding(text, inside, f"'{kind}' is not understood")]
        case _:
            return []


def _command(tree: Tree, node: Node, text: str, inside: str) -> Part:
    words: list[Word] = []
    prefixed, name = False, ""
    for child in node.children:
        if child.type == "variable_assignment":
            prefixed = True
        elif child.type not in _REDIRECTS:
            words.append(literal(tree, child))
            name = name or tree.text(child)
    words += _after_redirections(tree, node)
    obstacle = ""
    if prefixed:
        obstacle = "variables are set for it"
    elif None in words:
        obstacle = "the program cannot be told" if words[0] is None else "an argument cannot be told"
    elif words and words[0] != name:
        obstacle = "the program's name is quoted or escaped"
    return Part(kind="command", text=text, words=tuple(words), inside=inside, obstacle=obstacle)


def _after_redirections(tree: Tree, command: Node) -> list[Word]:
    """Arguments that follow a redirection: `git >/dev/null push`. The tree has them in the redirection, and that
    belongs to whatever the command is the end of."""
    found: list[Word] = []
    node, above = command, command.parent
    while above is not None and above.type in _ENDING_IN_COMMANDS:
        if above.type == "redirected_statement":
            for redirect in above.children:
                words = [child for child in redirect.children if child.type in _WORDS]
                if redirect.type in _REDIRECTS:
                    found += [literal(tree, word) for word in words[redirect.type == "file_redirect" :]]
        elif above.children[-1] != node:
            break
        node, above = above, above.parent
    return found


def _redirection(tree: Tree, node: Node, text: str, inside: str) -> Part:
    operator, target, descriptor = "", None, ""
    for child in node.children:
        if child.type == "file_descriptor":
            descriptor = tree.text(child)
        elif not child.is_named and not operator:
            operator = tree.text(child)
        elif target is None and child.type in _WORDS:
            target = literal(tree, child)
    if node.type != "file_redirect":
        return Part(kind="redirection", text=text, words=(operator,), inside=inside, obstacle="it is given a text")
    return Part(kind="redirection", text=text, words=(f"{descriptor}{operator}", target), inside=inside)
