"""Finds tool calls that a model wrote into the text of a reply, in place of native ones, in linear time.

A call begins on a line of its own, in a fence of its own, or with the tag of a chat template. It counts only if it
names one of the given tools, so that ordinary JSON stays an answer. Arguments are never guessed: a call that cannot be
read is reported as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from msgspec import Struct

from holdfast.contract.errors import BadJson
from holdfast.contract.json import Args, Json, parse_json
from holdfast.contract.message import Text, ToolUse
from holdfast.contract.tool import Tool
from holdfast.models.call_arguments import encode_arguments
from holdfast.models.port import CallBegun, ModelEvent, PartEnded, TextDelta
from holdfast.models.text_protocol.parser import CodeFence, LineHeads, parse
from holdfast.models.text_protocol.syntax import ANY_FRAME, TOOLS, ProblemKind, TextCall

_TAGS: Final = ("<tool_call>", "<function=", "<|python_tag|>", "[TOOL_CALLS]")


def _prefixes(mark: str) -> str:
    """Return a pattern for what may follow a mark that begins a tag at the end of the text."""
    rests = [tag[1:] for tag in _TAGS if tag[0] == mark]
    return "|".join(sorted({re.escape(rest[:size]) for rest in rests for size in range(len(rest))}))


_START: Final = re.compile(
    r"""(?P<tag>(?:<tool_call>\s*+)?<function=(?P<function>[^<>\n]*+)>|<tool_call>|<\|python_tag\|>|\[TOOL_CALLS\])"""
    r"""|(?P<fence>`{3,}+|~{3,}+)"""
    r"""|^[ \t]*+(?P<json>\{(?=\s*+["'])|\[(?=\s*+\{))"""
    rf"""|^[ \t]*+(?P<bracket>\[(?:call:(?P<called>[^\[\]\n]*+)\]|(?P<short>{"|".join(TOOLS)})[:\]]))""",
    re.MULTILINE,
)
_BEGUN_TAG: Final = re.compile(
    rf"[<\[`~](?:(?<=<)(?:{_prefixes('<')}|function=[^<>\n]*+)|(?<=\[)(?:{_prefixes('[')})|(?<=`)`*+|(?<=~)~*+)\Z"
)
_BEGUN_LINE: Final = re.compile(r"^[ \t]*+(?:\{\s*+|\[(?:\s*+|\w*+|call:[^\[\]\n]*+))\Z", re.MULTILINE)
"""The beginning of a call at the end of an incomplete text."""
_UNCLOSED_TAGS: Final = ("<|python_tag|>", "[TOOL_CALLS]")
_MAX_BLANKS: Final = 100
_BEFORE_TAG: Final = frozenset(("", *"\n.:!?>)]}"))
"""A tag that follows anything else in its line is quoted or mentioned in a sentence."""
_CLOSING: Final = re.compile(r"\s*+(?:</function>(?:\s*+</tool_call>)?|</tool_call>)")
_END: Final = r"(?:\s|<\|(?:im_end|eot_id|eom_id|end|endoftext)\|>|</s>|<end_of_turn>)*+"
_END_TOKENS: Final = re.compile(_END)
_NEXT_TAG: Final = re.compile(rf"{_END}(?:\Z|<tool_call>|<function=)")
"""What may follow a call whose closing tag is missing."""
_SPACE: Final = re.compile(r"\s*+")
_NEXT: Final = re.compile(r"[\s,;]*+(?=\{|\[\s*+\{)")
"""Separates calls that follow each other."""
_FIRST_WORD: Final = re.compile(r"""[\s"']{0,9}+([\w.:/-]{1,200}+)""")
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\]]', re.DOTALL)
_MAX_DEPTH: Final = 200
"""The limit of the JSON parser."""
_NAMED: Final = re.compile(
    r"""[\[{\s]{0,40}+(?:["']type["']\s{0,9}+:\s{0,9}+["']function["']\s{0,9}+,\s{0,9}+)?"""
    r"""(?:["']function["']\s{0,9}+:\s{0,9}+\{\s{0,9}+)?"""
    r"""["'](?:name|tool|tool_name|function)["']\s{0,9}+:\s{0,9}+["']([^"'\n]{1,200}+)["']"""
)
"""The beginning of a call, also if it is not valid JSON."""
_FENCE_INFO: Final = re.compile(
    r"[ \t]*+(?:json[c5]?|(?:tool|function)(?:_(?:calls?|code|use))?|xml|text|plaintext)?\s*+", re.IGNORECASE
)
_REST_BLANK: Final = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_FABRICATED: Final = re.compile(
    rf"^[ \t>]*+(?:<\|?(?:tool|function)_(?:response|result|output)s?\|?>|\[TOOL_RESULTS\])|{ANY_FRAME}", re.MULTILINE
)
_NAME_KEYS: Final = ("name", "tool", "tool_name", "function")
_ARGUMENT_KEYS: Final = ("arguments", "args", "parameters", "input", "params")
_WRAPPERS: Final = ("tool_calls", "tool_call", "function_call")
_OTHER_KEYS: Final = frozenset(
    ("id", "call_id", "tool_call_id", "index", "type", "thought", "thoughts", "reason", "reasoning", "explanation")
)
"""Keys beside the name and the arguments of a call. A `description` makes it the definition of a tool."""
_SCHEMA_KEYS: Final = frozenset(("type", "properties"))
"""Arguments with these keys are the schema in the definition of a tool."""


class WrittenCall(Struct, frozen=True):
    name: str
    """The canonical name of the tool."""
    args: Args


class WrittenCalls(Struct, frozen=True):
    """The calls in the text of a reply."""

    calls: tuple[WrittenCall, ...]
    before: str
    """The text before the first call; the whole text if there is none."""
    trailing: bool
    """Whether other text follows the last call."""
    fabricated: bool
    """Whether the text outside the calls contains a tool result, which only the runtime writes."""
    unreadable: bool
    """Whether a part is evidently meant as a call but cannot be read."""

    @property
    def are_any(self) -> bool:
        """Whether the text is more than an answer."""
        return bool(self.calls) or self.unreadable

    def may_be_made(self, *, corrected: bool) -> bool:
        """Whether the calls can only be meant as calls. Text after them is ignored once the model was corrected."""
        return bool(self.calls) and not (self.fabricated or self.unreadable) and (corrected or not self.trailing)

    @property
    def said(self) -> str:
        """The text part of the reply: without the white space that separates it from the calls."""
        return self.before.rstrip()

    def events(self, *, shown: str = "") -> Iterator[ModelEvent]:
        """Yield the text before the calls, and the calls, as parts of a reply; `shown` of the text was emitted."""
        if self.said:
            if rest := self.said[len(shown) :]:
                yield TextDelta(rest)
            yield PartEnded(Text(self.said))
        for number, call in enumerate(self.calls, 1):
            use = ToolUse(f"call-{number}", call.name, encode_arguments(call.args))
            yield CallBegun(use.id, use.name)
            yield PartEnded(use)


_Read = list[WrittenCall] | None
"""The calls in a part of the text: empty if it is no call, None if it is unreadable."""


def find_calls(text: str, tools: Sequence[Tool]) -> WrittenCalls:
    """Find the calls of the given tools. Accepts any text."""
    finder = _Finder(text, tools_by_name(tools))
    finder.scan()
    return finder.found()


def certain_text(text: str, tools: Mapping[str, Tool], start: int = 0) -> int:
    """Return the position up to which a reply is certainly no call, whatever follows.

    `tools`: by all their names. `start`: a position up to which that is already known.
    """
    return _Finder(text, tools).certain(start)


def tools_by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    found = {tool.name: tool for tool in tools}
    for tool in tools:
        for name in (*tool.aliases, tool.api_name):
            found.setdefault(name, tool)
    for short, name in TOOLS.items():
        if name in found:
            found.setdefault(short, found[name])
    return found


class _Finder:
    """A single pass from left to right. Each method reads from one position and returns the position after it."""

    def __init__(self, text: str, tools: Mapping[str, Tool], *, fenced: bool = False) -> None:
        self._text = text
        self._tools = tools
        self._fenced = fenced
        """Whether the text is the body of a fence: fences and brackets in it are quoted."""
        self._lines = LineHeads(text)
        self.calls: list[WrittenCall] = []
        self.unreadable = False
        self._fabricated = False
        self._spans: list[tuple[int, int]] = []
        """Where calls are, readable or not."""
        self._first = len(text)
        self._last = len(text)
        """The start of the first call and the end of the last one, if there are any."""

    def scan(self) -> None:
        at = 0
        while token := _START.search(self._text, at):
            at = self._read(token)

    def certain(self, at: int) -> int:
        """Return the start of the first call, or of what may become one when the text continues."""
        while token := _START.search(self._text, at):
            at = self._read(token)
            if self._spans or self.unreadable or at >= len(self._text):
                return token.start()
        begun = _BEGUN_TAG.search(self._text, at) or _BEGUN_LINE.search(self._text, at)
        return begun.start() if begun else len(self._text)

    def found(self) -> WrittenCalls:
        return WrittenCalls(
            tuple(self.calls),
            self._text[: self._first],
            self._skip(_END_TOKENS, self._last) < len(self._text),
            self._fabricated or any(_FABRICATED.search(gap) for gap in self._gaps()),
            self.unreadable,
        )

    @property
    def only_calls(self) -> bool:
        return bool(self._spans) and not any(gap.strip(" \t\r\n,;") for gap in self._gaps())

    def _gaps(self) -> Iterator[str]:
        """Yield the text outside calls."""
        at = 0
        for start, end in self._spans:
            yield self._text[at:start]
            at = end
        yield self._text[at:]

    def _read(self, token: re.Match[str]) -> int:
        if token["json"]:
            return self._bare(token.start("json"))
        if token["tag"]:
            return self._tagged(token)
        if self._fenced:
            return token.end()
        if token["fence"]:
            return self._fence(token)
        name = TOOLS.get(token["short"] or "") or (token["called"] or "").strip(' \t"')
        return self._brackets(token.start("bracket")) if name in self._tools else token.end()

    def _add(self, calls: _Read, start: int, end: int) -> int:
        self._spans.append((start, end))
        if calls is None:
            self.unreadable = True
        else:
            self._first, self._last = min(self._first, start), end
            self.calls += calls
        return end

    def _skip(self, pattern: re.Pattern[str], at: int) -> int:
        found = pattern.match(self._text, at)
        return found.end() if found else at

    # JSON

    def _bare(self, at: int) -> int:
        """Read calls that follow each other."""
        while True:
            calls, end = self._value(at)
            if calls == []:
                return end
            self._add(calls, at, end)
            if (following := _NEXT.match(self._text, end)) is None:
                return end
            at = following.end()

    def _value(self, at: int) -> tuple[_Read, int]:
        """Read an object or array, and return its calls and the position after it."""
        end, value = self._parse(at)
        if value is not None:
            return self._calls_in(value), end
        return None if self._names_tool(at) else [], end

    def _names_tool(self, at: int) -> bool:
        named = _NAMED.match(self._text, at)
        return named is not None and named[1] in self._tools

    def _parse(self, at: int) -> tuple[int, Json]:
        """Return the position after an object or array, and its value; None if it is not valid JSON.

        The scan continues after an incomplete value, not inside it, so that no part of the text is read repeatedly.
        """
        depth = 0
        for token in _TOKEN.finditer(self._text, at):
            if token[0] in "{[":
                depth += 1
                if depth > _MAX_DEPTH:
                    return token.end(), None
            elif token[0] in "}]":
                depth -= 1
                if not depth:
                    return token.end(), _parsed(self._text[at : token.end()])
            elif token[0] == '"':
                break
        return len(self._text), None

    def _calls_in(self, value: Json) -> _Read:
        if isinstance(value, dict) and len(value) == 1 and (key := next(iter(value))) in _WRAPPERS:
            value = value[key]
        if isinstance(value, list) and all(map(_is_name, value)):
            return []
        items = value if isinstance(value, list) else [value]
        read = [self._call(item) if isinstance(item, dict) else [] for item in items]
        if all(read):
            return [call for calls in read for call in calls or ()]
        return [] if all(calls == [] for calls in read) else None

    def _call(self, written: Args) -> _Read:
        function = written.get("function")
        if isinstance(function, dict) and written.keys() - _OTHER_KEYS == {"function"}:
            written = function
        keys = [key for key in _NAME_KEYS if isinstance(name := written.get(key), str) and name in self._tools]
        if len(keys) != 1:
            return None if keys else []
        tool = self._tools[cast(str, written[keys[0]])]
        args = _arguments({key: value for key, value in written.items() if key != keys[0]}, tool)
        return None if args is None else [WrittenCall(tool.name, each) for each in args]

    # Tags, fences and brackets

    def _tagged(self, token: re.Match[str]) -> int:
        text, start = self._text, token.start()
        if text[max(0, start - _MAX_BLANKS) : start].rstrip(" \t")[-1:] not in _BEFORE_TAG:
            return token.end()
        calls, end = self._tag_body(token["function"], token.end())
        closing = _CLOSING.match(text, end)
        finished = closing or token[0] in _UNCLOSED_TAGS or _NEXT_TAG.match(text, end)
        if calls == []:
            return end
        return self._add(calls if finished else None, start, closing.end() if closing else end)

    def _tag_body(self, function: str | None, at: int) -> tuple[_Read, int]:
        """Read calls up to the closing tag; `function` is the name in `<function=NAME>`, which takes the arguments."""
        if function is not None:
            tool, begins = self._tools.get(function.strip()), self._skip(_SPACE, at)
            end, value = self._parse(begins) if self._text.startswith("{", begins) else (at, None)
            if tool and isinstance(value, dict):
                return [WrittenCall(tool.name, value)], end
            return None if tool or (end > at and not self._fenced) else [], end
        calls: list[WrittenCall] = []
        while following := _NEXT.match(self._text, at):
            more, at = self._value(following.end())
            if not more:
                # An unknown tool in a tag is a mistake to correct; in a fence it may be an example.
                return None if more is None or calls or not self._fenced else [], at
            calls += more
        word = _FIRST_WORD.match(self._text, at)
        return None if not calls and word and word[1] in self._tools else calls, at

    def _fence(self, token: re.Match[str]) -> int:
        """A fence that contains only calls is a call; any other is quoted."""
        text, at = self._text, token.end()
        fence, head = CodeFence.at(token, self._lines), self._lines.head(token.start())
        if fence is None:
            return at
        closed = fence.end(text, at, [])
        end = len(text) if closed is None else closed
        newline = text.find("\n", at, end)
        if newline < 0:
            alone = token.start() == head.end and _REST_BLANK.match(text, end)
            body = text[at:end].rstrip("`") if alone else ""
        elif _FENCE_INFO.fullmatch(text, at, newline):
            body = text[newline:end] if closed is None else text[newline:end].rpartition("\n")[0]
        else:
            body = ""
        if body and token[0][0] == "`" and not head.quotes and not head.listed:
            inner = _Finder(body, self._tools, fenced=True)
            inner.scan()
            if inner.only_calls:
                self._add(None if inner.unreadable else inner.calls, token.start(), end)
        return end

    def _brackets(self, at: int) -> int:
        """Read the rest of the text in the syntax of the text protocol, where each call begins its line."""
        parsed = parse(self._text[at:])
        for problem in parsed.problems:
            if problem.kind is ProblemKind.FABRICATED:
                self._fabricated = True
            else:
                self.unreadable = True
        line = ""
        """The text of the line before the piece, after an earlier call."""
        for piece in parsed.pieces:
            start, at = at, at + len(piece.text)
            tool = self._tools.get(piece.name) if isinstance(piece, TextCall) else None
            if isinstance(piece, TextCall) and tool and not line.strip():
                self._add([WrittenCall(tool.name, piece.args)], start, at)
                line = ""
            else:
                line = piece.text.rpartition("\n")[2]
        return at


def _arguments(rest: Args, tool: Tool) -> list[Args] | None:
    """Return the arguments of a call, given all keys but its name; like `_Read`, empty if it is no call."""
    known = {*tool.schema.properties, *tool.argument_aliases}
    flat = {key: value for key, value in rest.items() if key in known or key not in _OTHER_KEYS}
    is_flat = flat.keys() <= known
    for key in _ARGUMENT_KEYS:
        if key not in rest or rest.keys() - _OTHER_KEYS > {key}:
            continue
        args = _object(rest[key])
        if args and args.keys() >= _SCHEMA_KEYS and not known & _SCHEMA_KEYS:
            return []
        if args is not None and (not is_flat or args.keys() <= known):
            return [args]
        if not is_flat:
            return None
    if not is_flat or (not flat and tool.input_schema.get("required")):
        return []
    return [flat]


def _is_name(item: Json) -> bool:
    """Whether an item of an array is a name alone, as in a list of tools."""
    return isinstance(item, dict) and len(item) == 1 and isinstance(next(iter(item.values())), str)


def _object(value: Json) -> Args | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    parsed = _parsed(value) if isinstance(value, str) else value
    return parsed if isinstance(parsed, dict) else None


def _parsed(text: str) -> Json:
    """Return None if the text is not valid JSON."""
    try:
        return parse_json(text)
    except BadJson:
        return None
