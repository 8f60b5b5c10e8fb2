"""Parses a complete reply of the text protocol into text, calls and syntax problems, in linear time."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from typing import Final, cast

from msgspec import Struct

from holdfast.contract.errors import BadJson
from holdfast.contract.json import Args, parse_json
from holdfast.models.text_protocol.syntax import (
    ANY_FRAME,
    ANY_TAG,
    BLANKS,
    BLOCKS,
    CALL_END,
    CONTENT,
    DELIMITERS,
    INLINE,
    STATIC,
    TOOLS,
    WRITE_EMPTY,
    ProblemKind,
    SyntaxProblem,
    TextCall,
    TextPiece,
    parse_edit,
    parse_query,
    parse_unclosed_edit,
    parse_write,
)

# Every alternative begins with a literal character, so that `re` can skip ahead quickly.
TOKEN: Final = re.compile(
    rf"""\[(?:(?P<inline>{"|".join(INLINE)}):(?:(?P<argument>[^\[\]\n]*+(?:\[[^\[\]\n]*+\][^\[\]\n]*+)*+)\])?"""
    rf"""|(?P<static>{"|".join(STATIC)})\]"""
    rf"""|(?P<block>{"|".join(BLOCKS)})\]"""
    rf"""|/(?P<closing>{"|".join((*BLOCKS, "call"))})\]"""
    r"""|call:(?P<unnamed>[^\[\]\n]*+)(?P<named>\])?)"""
    r"""|```(?P<backticks>`*+)|~~~(?P<tildes>~*+)"""
    rf"""|{ANY_FRAME}(?P<frame>)"""
)
_LINE_HEAD: Final = re.compile(rf"[{BLANKS}>]*+(?P<listed>(?:(?:[-*+]|[0-9]{{1,9}}[.)])(?=[{BLANKS}])[{BLANKS}>]*+)*+)")
_QUOTED: Final = re.compile(rf"\n(?P<newline>)|`(?P<run>`*+)|{ANY_TAG}|{ANY_FRAME}")
_FENCED: Final = re.compile(
    rf"\n(?P<before>[{BLANKS}>]*+)(?P<run>`{{3,}}+|~{{3,}}+)[{BLANKS}]*+(?=\n|\Z)|{ANY_TAG}|{ANY_FRAME}"
)
_MAX_CLOSING_INDENT: Final = 3
"""A run indented further than this beyond the opening fence does not close it."""
_BRACKET: Final = re.compile(r"[\[\]]")
_SPACE: Final = re.compile(r"\s*+")
_BLANKS: Final = re.compile(rf"[{BLANKS}]*+")
_REST_BLANK: Final = re.compile(r"[ \t]*+\r?(?=\n|\Z)")
_HEADER: Final = {
    kind: re.compile(
        rf"(?P<delimiter>{delimiter})|(?P<tag>{ANY_TAG})|(?P<fence>```|~~~)|(?P<frame>{ANY_FRAME})", re.MULTILINE
    )
    for kind, delimiter in DELIMITERS.items()
}
_SAME_TAG: Final = {kind: re.compile(rf"\[(/?){kind}\]") for kind in DELIMITERS}
_QUERY: Final = re.compile(rf"{ANY_TAG}|```|~~~|{ANY_FRAME}")
_OBJECT_START: Final = re.compile(r"\s*+(?:(`{3,}+)[ \t]*+(?i:json)?[ \t]*+\r?\n\s*+)?")
_RUN: Final = re.compile("`*+")
_OBJECT: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|"|\{|\}|\[/call\]', re.DOTALL)
_CONTENTS: Final = ("```", "~~~", CONTENT)
_ARGUMENT: Final = {"read_file": "path", "list_dir": "path", "search_code": "query"}


class ParsedReply(Struct, frozen=True):
    pieces: tuple[TextPiece | TextCall, ...]
    """Adjacent text is one piece."""
    problems: tuple[SyntaxProblem, ...]

    @property
    def calls(self) -> tuple[TextCall, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, TextCall))


def parse(text: str) -> ParsedReply:
    return _Parser(text).parsed()


class _LineHead(Struct, frozen=True):
    """The start of a line: indentation, block-quote marks and list markers."""

    end: int
    indent: int
    """A tab counts as four columns."""
    quotes: int
    listed: bool


class LineHeads:
    """Reads the starts of lines; positions must be queried in increasing order, so that the text is scanned once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen = 0
        self._head: _LineHead | None = None

    def head(self, at: int) -> _LineHead:
        """Return the head of the line that contains `at`."""
        newline = self._text.rfind("\n", self._seen, at)
        self._seen = at
        if newline >= 0 or self._head is None:
            start = newline + 1
            found = cast(re.Match[str], _LINE_HEAD.match(self._text, start))
            written = found[0]
            indent = len(written) + 3 * written.count("\t")
            self._head = _LineHead(found.end(), indent, written.count(">"), bool(found["listed"]))
        return self._head


class CodeFence(Struct, frozen=True):
    """A Markdown code fence or span: nothing inside is a call."""

    run: str
    indent: int
    quotes: int

    @classmethod
    def at(cls, token: re.Match[str], lines: LineHeads) -> CodeFence | None:
        """Return the fence that a token opens. Tildes open one only at the start of a line."""
        head, run = lines.head(token.start()), token[0]
        return CodeFence(run, head.indent, head.quotes) if run[0] == "`" or token.start() == head.end else None

    def end(self, text: str, at: int, noted: list[re.Match[str]]) -> int | None:
        """Return where the fence ends, or None. `at` is in its first line or at the end of it; appends the tags and
        frames inside to `noted`."""
        if self.run[0] == "`":
            for token in _QUOTED.finditer(text, at):
                if token.lastgroup == "newline":
                    at = token.start()
                    break
                if token.lastgroup is None:
                    noted.append(token)
                elif token.end() - token.start() >= len(self.run):
                    return token.end()
            else:
                return None
        for token in _FENCED.finditer(text, at):
            if token.lastgroup is None:
                noted.append(token)
            elif self._closed_by(token["before"], token["run"]):
                return token.end()
        return None

    def _closed_by(self, before: str, run: str) -> bool:
        indent = len(before) + 3 * before.count("\t")
        return (
            run.startswith(self.run)
            and indent <= self.indent + _MAX_CLOSING_INDENT
            and before.count(">") <= self.quotes
        )


class _Parser:
    """A single pass from left to right. Each method reads from one token and returns the position after it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = LineHeads(text)
        self._pieces: list[TextPiece | TextCall] = []
        self._problems: list[tuple[ProblemKind, str, int]] = []
        self._text_start = 0
        """The start of text that is not yet in a piece."""
        self._empty_write: int | None = None
        """The position of the last `[write_file: PATH]`."""
        self._pairs: dict[int, int] = {}
        """Matching brackets of the line that ends at `_line_end`."""
        self._last_bracket = self._line_end = -1

    def parsed(self) -> ParsedReply:
        text, at = self._text, 0
        while token := TOKEN.search(text, at):
            at = self._read(token)
        if self._text_start < len(text):
            self._pieces.append(TextPiece(text[self._text_start :]))
        newlines = [found.start() for found in re.finditer("\n", text)] if self._problems else []
        problems = (SyntaxProblem(kind, tag, bisect_left(newlines, at) + 1) for kind, tag, at in self._problems)
        return ParsedReply(tuple(self._pieces), tuple(problems))

    def _read(self, token: re.Match[str]) -> int:
        start, end = token.span()
        match token.lastgroup:
            case "argument":
                return self._bracket(token["inline"], token["argument"], start, end)
            case "static":
                return self._call(TOOLS[token["static"]], {}, start, end)
            case "inline":
                return self._unbalanced(token)
            case "block" if token["block"] == "search_code":
                return self._query(start, end)
            case "block":
                return self._block(token["block"], token[0], start, end)
            case "named":
                return self._object(token[0], _tool_name(token["unnamed"]), start, end)
            case "backticks" | "tildes":
                return self._fence(token)
            case "unnamed":
                self._report(ProblemKind.UNCLOSED, token[0], start)
            case "frame":
                self._report(ProblemKind.FABRICATED, token[0], start)
            case _ if token["closing"] == "write_file" and self._empty_write is not None:
                self._report(ProblemKind.UNREADABLE, WRITE_EMPTY, self._empty_write)
                self._empty_write = None
            case _:
                self._report(ProblemKind.UNOPENED, token[0], start)
        return end

    def _call(self, name: str, args: Args, start: int, end: int) -> int:
        if self._text_start < start:
            self._pieces.append(TextPiece(self._text[self._text_start : start]))
        self._pieces.append(TextCall(name, args, self._text[start:end]))
        self._text_start = end
        return end

    def _report(self, kind: ProblemKind, tag: str, at: int) -> None:
        self._problems.append((kind, tag, at))

    def _unclosed(self, tag: str, at: int) -> int:
        """Report an unclosed tag; the rest of the reply is text."""
        self._report(ProblemKind.UNCLOSED, tag, at)
        return len(self._text)

    # Brackets

    def _bracket(self, name: str, argument: str, start: int, end: int) -> int:
        args = _arguments(name, argument)
        if args is None:
            return end
        if name == "write_file":
            self._empty_write = start
            if self._text.startswith(_CONTENTS, self._skip(_SPACE, end)):
                self._report(ProblemKind.UNREADABLE, WRITE_EMPTY, start)
        return self._call(TOOLS[name], args, start, end)

    def _unbalanced(self, token: re.Match[str]) -> int:
        """Read a bracket that is unclosed on its line, or whose argument contains nested or unbalanced brackets."""
        start, after = token.span()
        if start >= self._line_end:
            self._pair_brackets(start)
        close = self._pairs.get(start)
        if close is None:
            if self._line_end == len(self._text):
                return self._unclosed(token[0], start)
            if after > self._last_bracket:
                self._report(ProblemKind.UNCLOSED, token[0], start)
                return after
            close = self._text.index("]", after)
        return self._bracket(token["inline"], self._text[after:close], start, close + 1)

    def _pair_brackets(self, start: int) -> None:
        newline = self._text.find("\n", start)
        self._line_end = len(self._text) if newline < 0 else newline
        self._pairs, self._last_bracket = {}, -1
        opened: list[int] = []
        for bracket in _BRACKET.finditer(self._text, start, self._line_end):
            if bracket[0] == "[":
                opened.append(bracket.start())
                continue
            self._last_bracket = bracket.start()
            if opened:
                self._pairs[opened.pop()] = self._last_bracket

    def _skip(self, pattern: re.Pattern[str], at: int) -> int:
        found = pattern.match(self._text, at)
        return found.end() if found else at

    # Fences

    def _fence(self, token: re.Match[str]) -> int:
        fence = CodeFence.at(token, self._lines)
        if fence is None:
            return token.end()
        noted: list[re.Match[str]] = []
        end = fence.end(self._text, token.end(), noted)
        tag = ""
        for each in noted:
            if each[0].startswith("="):
                self._report(ProblemKind.FABRICATED, each[0], each.start())
            else:
                tag = tag or each[0]
        if end is not None:
            return end
        # After an unclosed fence, earlier calls may be quotations too: a missing fence inverts inside and outside.
        if tag or self._text_start:
            self._report(ProblemKind.OPEN_FENCE, tag or token[0], token.start())
        return len(self._text)

    # Blocks

    def _query(self, start: int, at: int) -> int:
        """`[search_code]` is a block only if nothing but its query precedes the closing tag; otherwise it is text."""
        token = _QUERY.search(self._text, at)
        if token is None or token[0] != "[/search_code]":
            return token.start() if token else len(self._text)
        query = parse_query(self._text[at : token.start()])
        if query:
            return self._call(TOOLS["search_code"], {"query": query}, start, token.end())
        self._report(ProblemKind.UNREADABLE, "[search_code]", start)
        return token.end()

    def _block(self, kind: str, tag: str, start: int, at: int) -> int:
        """Read the header of `[write_file]`, `[edit_file]`, or a `[call: …]` without an object, up to the body."""
        mixed = False
        """Whether another tag precedes the body, which makes the block ambiguous."""
        opening = "[call:" if kind == "call" else tag
        for token in _HEADER[kind].finditer(self._text, at):
            match token.lastgroup:
                case "delimiter":
                    return self._body(kind, start, start + len(tag), token.end(), mixed=mixed)
                case "frame":
                    self._report(ProblemKind.FABRICATED, token[0], token.start())
                case "fence":
                    if CodeFence.at(token, self._lines):
                        self._report(ProblemKind.UNCLOSED, tag, start)
                        return token.start()
                case _ if token[0] == opening:
                    # The first tag was only a mention of the syntax.
                    if mixed:
                        self._report(ProblemKind.UNCLOSED, tag, start)
                    return token.start()
                case _ if token[0] == f"[/{kind}]":
                    return self._unreadable(kind, tag, start, token.end())
                case _:
                    mixed = True
        return self._unclosed(tag, start)

    def _body(self, kind: str, start: int, inside: int, at: int, *, mixed: bool) -> int:
        """`inside` is the position after the opening tag, `at` the one after the first delimiter."""
        text, tag = self._text, self._text[start:inside]
        nested: list[tuple[int, int]] = []
        opened: list[int] = []
        for token in _SAME_TAG[kind].finditer(text, at):
            head = self._lines.head(token.start())
            first = token.start() == head.end
            if token[1] and not opened:
                inner, end = text[inside : token.start()], token.end()
                args = parse_write(inner) if kind == "write_file" else parse_edit(inner, nested)
                if args is None or mixed:
                    return self._unreadable(kind, tag, start, end)
                self._call(TOOLS[kind], args, start, end)
                return (
                    end
                    if first and not head.quotes and not head.listed
                    else self._after_inline_closing(kind, tag, start, end)
                )
            if not first or head.listed or not _REST_BLANK.match(text, token.end()):
                continue
            if not token[1]:
                opened.append(token.start())
            elif len(opened) > 1:
                opened.pop()
            else:
                nested.append((opened.pop() - inside, token.end() - inside))
        args = parse_unclosed_edit(text[inside:]) if kind == "edit_file" and not mixed else None
        return self._unclosed(tag, start) if args is None else self._call(TOOLS[kind], args, start, len(text))

    def _after_inline_closing(self, kind: str, tag: str, start: int, end: int) -> int:
        """Handle a closing tag in the middle of a line.

        If the line continues, the tag may belong to the body, so that its end is ambiguous: skip to the next closing
        tag.
        """
        at = self._skip(_BLANKS, end)
        if at == len(self._text) or self._text[at] == "\n":
            return at
        closing = f"[/{kind}]"
        found = self._text.find(closing, at)
        return self._unclosed(tag, start) if found < 0 else self._unreadable(kind, tag, start, found + len(closing))

    def _unreadable(self, kind: str, tag: str, start: int, end: int) -> int:
        self._report(ProblemKind.UNREADABLE_EDIT if kind == "edit_file" else ProblemKind.UNREADABLE, tag, start)
        return end

    def _object(self, tag: str, name: str | None, start: int, at: int) -> int:
        """Read `[call: NAME]`, a JSON object, optionally fenced, and the closing tag, which the end of the reply
        replaces."""
        text = self._text
        begins = cast(re.Match[str], _OBJECT_START.match(text, at))
        at, fence = begins.end(), begins[1] or ""
        if not text.startswith("{", at):
            return self._block("call", tag, start, at)
        end = self._object_end(at)
        if end is None:
            return self._unclosed(tag, start)
        after = self._skip(_SPACE, end)
        if fence and text.startswith(fence, after):
            fence, after = "", self._skip(_SPACE, self._skip(_RUN, after))
        closing = text.find(CALL_END, after)
        closed = after if closing < 0 else closing + len(CALL_END)
        ended = after == (len(text) if closing < 0 else closing)
        args = _parse_object(text[at:end]) if ended and not fence else None
        if name is not None and args is not None:
            return self._call(name, args, start, closed)
        return self._unclosed(tag, start) if closing < 0 else self._unreadable("call", tag, start, closed)

    def _object_end(self, at: int) -> int | None:
        """Return the position after the last brace, or of an earlier closing tag; None if the reply ends first."""
        depth = 0
        for token in _OBJECT.finditer(self._text, at):
            match token[0]:
                case "{":
                    depth += 1
                case "}":
                    depth -= 1
                    if not depth:
                        return token.end()
                case "[/call]":
                    return token.start()
                case '"':
                    return None
                case _:
                    pass
        return None


def _parse_object(text: str) -> Args | None:
    try:
        return cast(Args, parse_json(text))
    except BadJson:
        return None


def _arguments(name: str, written: str) -> Args | None:
    """Return None if the argument is empty."""
    value = written.strip()
    if name == "write_file":
        value = value.removeprefix("path=").strip()
        return {"path": value, "content": ""} if value else None
    if not value:
        return {"path": "."} if name == "list_dir" else None
    return {_ARGUMENT[name]: value}


def _tool_name(written: str) -> str | None:
    """A quoted name may contain any character."""
    name = written.strip()
    if not name.startswith('"'):
        return name or None
    try:
        value: object = json.loads(name)
    except ValueError:
        return name
    return value if isinstance(value, str) else name
