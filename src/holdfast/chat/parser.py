"""The parser of `.chat` documents: node types, blocks parsed from pieces, and the status of placeholders."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.conversation import Status
from holdfast.chat import grammar
from holdfast.chat.frontmatter.yaml import yaml_problem
from holdfast.chat.scanner import Piece


class Frontmatter(Struct, frozen=True, gc=False):
    source: str
    language: str
    code: str


class Preamble(Struct, frozen=True, gc=False):
    """Text before the first role marker, which is not sent."""

    source: str


class TextSegment(Struct, frozen=True, gc=False):
    source: str
    text: str
    """Unescaped, without trailing blank lines."""


class ThinkingSegment(Struct, frozen=True, gc=False):
    source: str
    text: str
    provider: str | None = None
    signature: str | None = None
    redacted: bool = False


class ToolUseSegment(Struct, frozen=True, gc=False):
    source: str
    name: str
    id: str
    body: str
    """The content of the fence, as the model wrote it."""
    problem: str | None = None
    """Why the body is incomplete, if it is."""


class ToolResultSegment(Struct, frozen=True, gc=False):
    source: str
    id: str
    error: bool
    status: str | None
    """The status of a placeholder; None for a result."""
    content: str
    form: Literal["fence", "header"] | None
    """Where the status is written."""
    problem: str | None = None


class AbortedSegment(Struct, frozen=True, gc=False):
    source: str
    message: str


class AttachmentLink(Struct, frozen=True, gc=False):
    """A line that names an attachment of the result before it."""

    source: str
    label: str
    target: str
    """`FOLDER/FILE`, or the address of a linked attachment; decoded."""
    image: bool
    linked: bool
    """Whether the target is an address that the tool gave, not a file."""
    sent: bool
    """Whether the model gets it."""

    @property
    def known_as(self) -> str:
        """What the stored state calls the target: the name of the file, or the address."""
        return self.target if self.linked else self.target.rpartition("/")[2]


Segment = TextSegment | ThinkingSegment | ToolUseSegment | ToolResultSegment | AbortedSegment | AttachmentLink


class MessageBlock(Struct, frozen=True, gc=False):
    role: str
    """As written: `You`, `Assistant`, `System` or an unknown name."""
    segments: tuple[Segment, ...]
    marker: str
    """The role line and the blank lines after it."""

    @property
    def source(self) -> str:
        return self.marker + "".join([segment.source for segment in self.segments])


Block = Frontmatter | Preamble | MessageBlock


_TAG: Final = "flemma:tool"
_TOKEN: Final = re.compile(r"""(?:[^\s"']|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|["'])++""")
_MAX_INFO: Final = 1000
"""Info strings are read up to this length: unclosed quotes could take quadratic time."""
_SUFFIX: Final = re.compile(r"\s*\((.*)\)\s*\Z", re.DOTALL)
_BETWEEN: Final = re.compile(r"[(),;|/&+]+")
"""Separators between the words of a header."""
_ERROR: Final = "error"
_WORDS: Final[dict[str, str]] = {
    **{status.value: status.value for status in Status},
    "reject": Status.REJECTED.value,
    "deny": Status.DENIED.value,
    _ERROR: _ERROR,
}
_CONFUSABLES: Final = str.maketrans("аɑαсϲԁеєһіıɩιјϳⅼոոоοօрρгѕтτսυνѵցɡмլ", "aaaccdeehiiiijjlnnooopprsttuuvvggml")
"""Homoglyphs of the letters in the words above. Compatibility forms are normalised before."""


_STATUS: Final = "status"
_MENTION: Final = re.compile(rf"(?<![a-z])(?:{'|'.join((_STATUS, *_WORDS))})(?![a-z])")
"""A status word, whatever punctuation surrounds it."""


class StatusMark(NamedTuple):
    status: str | None = None
    error: bool = False
    problem: str | None = None
    """Why the block is pending despite its text."""


NO_STATUS: Final = StatusMark()


def header_status(suffix: str) -> StatusMark:
    """The status in `(error)`, `(pending)` or `(status=pending …)` after the id. Other words are ignored."""
    found = _SUFFIX.match(suffix)
    if found is None:
        return NO_STATUS
    given = _given_statuses(found[1])
    if not given:
        return NO_STATUS
    if given == [_ERROR] == _status_words(found[1]):
        return StatusMark(error=True)
    return _single_status(given, found[1])


def fence_status(info: str) -> StatusMark | None:
    """The status in `flemma:tool status=pending` after the backticks; None for any other fence."""
    tag, rest = (*info.split(maxsplit=1), "", "")[:2]
    if tag != _TAG:
        if _fold(tag) != _TAG:
            return None
        problem = f'The block starts with "{tag}" and is read as pending; write {_TAG}'
        return StatusMark(Status.PENDING.value, problem=problem)
    if not _given_statuses(rest, words=False):
        return StatusMark(Status.PENDING.value)
    return _single_status(_given_statuses(rest), rest)


def combine_status(header: StatusMark, fence: StatusMark) -> StatusMark:
    """The status of a placeholder that may have one in its header too."""
    if header.status in (None, fence.status):
        return fence
    return _conflicting([header.status or "", fence.status or ""])


def _given_statuses(text: str, *, words: bool = True) -> list[str]:
    """The statuses given as `status=…` or as plain words. A quoted word is not a status."""
    found: list[str] = []
    for token in _TOKEN.findall(text[:_MAX_INFO]):
        name, equals, value = token.partition("=")
        if equals and _fold(name) == _STATUS:
            found.append(_unquote(value) if name == _STATUS else token)
        elif words and not equals and "'" not in token and '"' not in token:
            found += (word for word in _BETWEEN.split(token) if _fold(word) in _WORDS)
    return found


def _single_status(given: list[str], text: str) -> StatusMark:
    if len(given) > 1 or len(text) > _MAX_INFO:
        return _conflicting(given)
    mentioned = _status_words(text)
    named = [_STATUS] if _given_statuses(text, words=False) else []
    rest = mentioned[len(named) :]
    if mentioned[: len(named)] != named or len(rest) > 1 or _STATUS in rest:
        return _conflicting(mentioned)
    status = _WORDS.get(given[0] or Status.PENDING.value, _ERROR)
    return _unknown_status(given[0]) if status == _ERROR else StatusMark(status)


def _status_words(text: str) -> list[str]:
    """All status words. Invisible characters count both as nothing and as spaces; the reading with more words wins."""
    spaced = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    closed = "".join(" " if char.isspace() else char for char in text)
    return max((_MENTION.findall(_fold(read)) for read in (spaced, closed)), key=len)


def _conflicting(given: list[str]) -> StatusMark:
    shown = " and ".join(f'"{word}"' for word in given[:3])
    return StatusMark(Status.PENDING.value, problem=f"The block says {shown} and is read as pending; leave one status")


def _unknown_status(word: str) -> StatusMark:
    problem = f'Unknown status "{word}" is read as pending; write approved, rejected or pending'
    return StatusMark(Status.PENDING.value, problem=problem)


def _unquote(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _fold(word: str) -> str:
    """Fold case and homoglyphs: the word that a person would see."""
    if word.isascii():
        return word.lower()
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", word).casefold()).translate(_CONFUSABLES)
    return "".join(char for char in folded if unicodedata.category(char) not in ("Mn", "Cf", "Cc"))


NO_INPUT: Final = "Tool use requires a fenced code block with JSON input; without one it is not a call"
OPEN_INPUT: Final = "Unclosed fenced code block in tool use (missing closing fence)"
NO_OUTPUT: Final = "Tool result requires a fenced code block"
OPEN_OUTPUT: Final = "Unclosed fenced code block in tool result (missing closing fence)"
OPEN_TEXT: Final = "Unclosed fenced code block (missing closing fence)"
OPEN_THINKING: Final = "Unclosed thinking block (missing </thinking>)"
OPEN_FRONTMATTER: Final = "Unclosed frontmatter (missing closing fence)"
SECOND_PLACEHOLDER: Final = "A second placeholder follows, so the block is read as pending; leave one of them"
DROPPED: Final = "Text before the first role marker is not part of the conversation; put a line with @You: before it."


class BlockNote(NamedTuple):
    """A problem and its offset in the block."""

    offset: int
    severity: Literal["error", "warning"]
    message: str


_USE: Final = re.compile(grammar.TOOL_USE + grammar.BODY, re.MULTILINE)
_RESULT: Final = re.compile(grammar.TOOL_RESULT + grammar.BODY, re.MULTILINE)
_THINKING: Final = re.compile(grammar.THINKING, re.MULTILINE)
_ABORTED: Final = re.compile(grammar.ABORTED, re.MULTILINE)
_FRONTMATTER: Final = re.compile(grammar.BOM + "?" + grammar.FRONTMATTER, re.MULTILINE)
_OPENER: Final = re.compile(rf"\n{grammar.FENCE}", re.MULTILINE)
_NO_FENCE: Final = "no fence"
_OPEN_FENCE: Final = "open fence"
_EDGES: Final = grammar.BLANK_CHARS + "\n"


def read_block(pieces: Sequence[Piece]) -> tuple[Block, Sequence[BlockNote]]:
    kind = pieces[0].opens
    if kind == "marker":
        return _message(pieces)
    source = "".join(piece.source for piece in pieces)
    if kind == "frontmatter":
        return _frontmatter(source)
    if yaml := yaml_problem(source):
        return Preamble(source), [BlockNote(0, "error", yaml)]
    text = source.strip(_EDGES + grammar.BOM)
    return Preamble(source), [BlockNote(source.index(text), "warning", DROPPED)] if text else ()


def _frontmatter(source: str) -> tuple[Block, Sequence[BlockNote]]:
    opening = _match(_FRONTMATTER, source)
    closing = source.rstrip(_EDGES).rfind("\n") + 1
    if closing <= opening.end() or source[closing:].rstrip(_EDGES) != "```":
        return Preamble(source), [BlockNote(0, "error", OPEN_FRONTMATTER)]
    return Frontmatter(source, opening["language"], _inside(source, opening.end(), closing)), ()


def _message(pieces: Sequence[Piece]) -> tuple[MessageBlock, Sequence[BlockNote]]:
    marker = pieces[0].source
    role, role_kind, crlf = _marker(marker[: marker.find("\n") + 1] or marker)
    segments: list[Segment] = []
    notes: list[BlockNote] = []
    offset = len(marker)
    for piece in pieces[1:]:
        kind, source = piece.opens, piece.source
        if kind == "text":
            if segments:
                segments[-1] = _check_second_placeholder(segments[-1], source, offset, notes)
            segments.append(_text(source, role_kind, crlf))
        elif kind == "use":
            segments.append(_use(source, offset, notes))
        elif kind == "result":
            segments.append(_result(source, offset, notes))
        elif kind == "thinking":
            segments.append(_thinking(source, offset, notes))
        elif kind == "aborted":
            segments.append(_aborted(source))
        elif kind == "attachment":
            segments.append(_attachment(source))
        else:
            return _message(_joined(pieces))
        offset += len(source)
    return MessageBlock(role, tuple(segments), marker), notes or ()


@lru_cache(maxsize=32)
def _marker(line: str) -> tuple[str, int, bool]:
    """The role, its kind of markup, and whether its line ends with CRLF."""
    role = line[line.index("@") + 1 : line.index(":")]
    return role, grammar.markup_role(role), line.endswith("\r\n")


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Merge pieces that continue the node before them."""
    begins = [index for index, piece in enumerate(pieces) if piece.opens]
    return [
        Piece("".join([piece.source for piece in pieces[begin:end]]), pieces[begin].before, pieces[begin].opens)
        for begin, end in pairwise([*begins, len(pieces)])
    ]


def _text(source: str, role_kind: int, crlf: bool) -> TextSegment:
    text = source.rstrip("\n")
    if text[-1] in grammar.BLANK_CHARS:
        feed = source.find("\n", len(source.rstrip(_EDGES)))
        text = source if feed < 0 else _without_newline(source[: feed + 1], crlf)
    if "\\" in text and (text.startswith("\\") or "\n\\" in text):
        text = grammar.unescape_edges(grammar.unescape_lines(text, role_kind))
    return TextSegment(source, text)


def _use(source: str, offset: int, notes: list[BlockNote]) -> ToolUseSegment:
    found = _match(_USE, source)
    name, use_id = found.group("name", "use")
    body, problem = _body(source, found)
    if problem:
        problem = NO_INPUT if problem is _NO_FENCE else OPEN_INPUT
        notes.append(_body_note(problem, offset, found))
    return ToolUseSegment(source, grammar.decode_field(name), grammar.decode_field(use_id), body, problem)


def _result(source: str, offset: int, notes: list[BlockNote]) -> ToolResultSegment:
    found = _match(_RESULT, source)
    use_id, suffix, info = found.group("result", "suffix", "info")
    content, problem = _body(source, found)
    if problem:
        problem = NO_OUTPUT if problem is _NO_FENCE else OPEN_OUTPUT
        notes.append(_body_note(problem, offset, found))
    use_id = grammar.decode_field(use_id)
    if not suffix and not info:
        return ToolResultSegment(source, use_id, False, None, content, None, problem)
    marked = header_status(suffix)
    error, form = marked.error, "header" if marked.status else None
    if info and (placeholder := fence_status(info)):
        marked, form = combine_status(marked, placeholder), "fence"
    if marked.problem:
        notes.append(BlockNote(offset, "warning", marked.problem))
    return ToolResultSegment(source, use_id, error, marked.status, content, form, problem)


def _check_second_placeholder(segment: Segment, follows: str, offset: int, notes: list[BlockNote]) -> Segment:
    """Make a placeholder pending if another one follows directly, because they are ambiguous."""
    if not isinstance(segment, ToolResultSegment) or segment.status is None or not follows.startswith("```"):
        return segment
    if fence_status(follows.partition("\n")[0].strip("`")) is None:
        return segment
    notes.append(BlockNote(offset - len(segment.source), "warning", SECOND_PLACEHOLDER))
    return replace(segment, status=Status.PENDING.value)


def _body(source: str, found: re.Match[str]) -> tuple[str, str | None]:
    """The content of a tool block's fence, and its problem."""
    ticks: str | None = found["ticks"]
    if ticks is None:
        return "", _NO_FENCE
    shown = source.rstrip(_EDGES)
    closing, opening_end = shown.rfind("\n") + 1, found.end()
    if closing > opening_end and len(shown) - closing >= len(ticks) and not shown[closing:].strip("`"):
        return _inside(source, opening_end, closing), None
    return _inside(source, opening_end, len(source)), _OPEN_FENCE


def _body_note(problem: str, offset: int, found: re.Match[str]) -> BlockNote:
    if found["ticks"] is None:
        return BlockNote(offset, "warning", problem)
    return BlockNote(offset + found.start("ticks"), "error", problem)


def _thinking(source: str, offset: int, notes: list[BlockNote]) -> ThinkingSegment:
    found = _match(_THINKING, source)
    end = found.end() if found["closed"] else _end_of_thinking(source, found.end())
    if end is None:
        notes.append(BlockNote(offset, "warning", OPEN_THINKING))
        end = len(source)
    text = _inside(source, found.end(), end)
    if text.startswith("\\") or "\n\\" in text:
        text = grammar.unescape_lines(text, grammar.ASSISTANT)
    provider, signature = (
        None if field is None else grammar.decode_field(field)
        for field in (found["unsigned"] if found["provider"] is None else found["provider"], found["signature"])
    )
    return ThinkingSegment(source, text, provider, signature, found["redacted"] is not None)


def _end_of_thinking(source: str, at: int) -> int | None:
    while found := grammar.IN_THINKING.search(source, at):
        if not found["fence"]:
            return found.start() + 1
        closing = grammar.closing_fence(source, found.end(), len(found["fence"]))
        if closing is None:
            return None
        at = closing.start(1)
    return None


def _aborted(source: str) -> AbortedSegment:
    return AbortedSegment(source, grammar.decode_field(_match(_ABORTED, source)["message"].strip(" \t")))


_ATTACHMENT: Final = re.compile(
    r"(?P<image>!?)\[(?P<label>[^\]\n]*+)\](?:\(<(?P<target>[^<>\n]*+)>| \(`(?P<code>[^`\n]*+)`)"
    r"(?: \"(?P<title>[^\"\n]*+)\")?\)"
)


def _attachment(source: str) -> AttachmentLink:
    found = _match(_ATTACHMENT, source)
    title: str = found["title"] or ""
    return AttachmentLink(
        source,
        found["label"],
        grammar.decode_field(found["target"] if found["code"] is None else found["code"]),
        image=bool(found["image"]),
        linked=title.startswith(grammar.LINKED),
        sent=not title.endswith(grammar.NOT_SENT),
    )


def open_fence(source: str) -> int:
    """The offset of the fence that is unclosed at the end of a text or thinking."""
    text, at = "\n" + source, 0
    while found := _OPENER.search(text, at):
        closing = grammar.closing_fence(text, found.end(), len(found["fence"]))
        if closing is None:
            return found.start()
        at = closing.start(1)
    return 0


def _inside(source: str, opening_end: int, closing: int) -> str:
    """The lines between two markup lines. The last line break is of the same kind as that of the first markup line."""
    return _without_newline(source[opening_end + 1 : closing], source[opening_end - 1] == "\r")


def _without_newline(text: str, crlf: bool) -> str:
    return text[:-2] if crlf and text.endswith("\r\n") else text[:-1] if text.endswith("\n") else text


def _match(pattern: re.Pattern[str], source: str, at: int = 0) -> re.Match[str]:
    """Match a pattern that the scanner has already matched."""
    found = pattern.match(source, at)
    assert found
    return found
