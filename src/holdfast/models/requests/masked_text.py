"""Requests with quoted and pasted text masked as literals; splitting into sentences and steps; phrase patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from holdfast.text.escape import escape

LiteralKind = Literal["quote", "code", "block", "trace"]

INLINE, BLOCK, END, IT, TRACE = "\ue000", "\ue001", "\ue002", "\ue003", "\ue004"
"""Private-use characters: the start of a literal by kind, and its end. `IT` stands for the pronoun "it"."""
_PLACEHOLDERS: Final = re.compile(f"[{INLINE}{BLOCK}{END}{IT}{TRACE}]")
LITERAL: Final = re.compile(f"[{INLINE}{BLOCK}{TRACE}](\\d+){END}")

_FENCE: Final = re.compile(r"[ \t]{0,3}(`{3,}(?=[^`]*$)|~{3,})")
_CLOSERS: Final = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“”"}
_OPENER: Final = re.compile(r"(?!(?<=n)`t\b)`+|(?<!\w)[\"'“‘«„]", re.IGNORECASE)
"""Excludes the apostrophe of "don`t"."""

_ERROR: Final = re.compile(r"\s*(?:Uncaught |Exception in thread )?[\w.$\" ]{0,80}(?:Error|Exception|panicked at)\b")
_RAISED: Final = re.compile(r"\s*(?:Uncaught |Exception in thread \"[^\"\n]*\" )?[A-Za-z_][\w.$]*(?:$|:(?:\s|$))")
_FRAME: Final = re.compile(
    r"\s*(?:(?:at|from) [^\s].{0,300}:\d+(?::\d+)?\)?:?\s*$|at [\w.$<>/]{1,300}\([^)\n]{0,300}\)\s*$)"
)
_TRACE_LINE: Final = re.compile(
    rf"""{_FRAME.pattern}|\s*(?:(?:\w+ )?(?i:Traceback \(most recent call last\)):?\s*$|File "[^"\n]+", line \d+"""
    r"|During handling of the above exception|The above exception was the direct cause|Caused by: )"
)


class MaskedLiteral(NamedTuple):
    """One literal: its content, and how it was written."""

    text: str
    raw: str
    kind: LiteralKind


class MaskedText(NamedTuple):
    """A request whose literals are replaced by placeholders."""

    text: str
    literals: tuple[MaskedLiteral, ...]
    problem: str = ""
    """Why the boundaries of literals are uncertain; empty if they are not."""

    def literal(self, mark: str) -> MaskedLiteral | None:
        found = LITERAL.fullmatch(mark)
        return None if found is None else self.literals[int(found[1])]

    def unmask(self, text: str) -> str:
        """Return the text as the user wrote it."""
        return LITERAL.sub(lambda found: self.literals[int(found[1])].raw, text)

    @property
    def traces(self) -> str:
        return "\n".join(literal.text for literal in self.literals if literal.kind == "trace")


def mask(text: str) -> MaskedText:
    problem = "It holds characters of Unicode's private use area." if _PLACEHOLDERS.search(text) else ""
    lines = _PLACEHOLDERS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n")).split("\n")
    blocks = find_fences(lines)
    literals: list[MaskedLiteral] = []
    made: list[str] = []
    at = 0
    while at < len(lines):
        if at in blocks:
            end = blocks[at] + 1
            literals.append(MaskedLiteral("\n".join(lines[at + 1 : end - 1]), "the fenced block", "block"))
            made.append(f"{BLOCK}{len(literals) - 1}{END}")
        elif (end := _end_of_trace(lines, at)) > at:
            literals.append(MaskedLiteral("\n".join(lines[at:end]), "the pasted traceback", "trace"))
            made.append(f"{TRACE}{len(literals) - 1}{END}")
        else:
            problem = problem or ("A fenced block in it is not closed." if _FENCE.match(lines[at]) else "")
            made.append(_mask_inline(lines[at], literals))
            end = at + 1
        at = end
    return MaskedText("\n".join(made), tuple(literals), problem)


def find_fences(lines: Sequence[str]) -> dict[int, int]:
    """Map each line that opens a fenced block to the line that closes it; unclosed fences are ignored."""
    found: dict[int, int] = {}
    unclosed: dict[str, int] = {}
    """By fence character, the shortest fence that no later line closes; avoids quadratic rescans."""
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is not None and len(fence[1]) < unclosed.get(fence[1][0], len(fence[1]) + 1):
            end = next((place for place in range(at + 1, len(lines)) if _closes_fence(lines[place], fence[1])), None)
            if end is None:
                unclosed[fence[1][0]] = len(fence[1])
            else:
                found[at] = end
                at = end
        at += 1
    return found


def _closes_fence(line: str, opener: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(opener) and not stripped.strip(opener[0])


def _mask_inline(line: str, literals: list[MaskedLiteral]) -> str:
    """Replace the quotes and code spans of a line. A quote cannot close inside a word, so that `'don't'` is one
    literal."""
    made: list[str] = []
    place = after = 0
    unclosed: set[str] = set()
    """Openers that nothing later on the line closes."""
    while (opener := _OPENER.search(line, place)) is not None:
        sign = opener[0]
        pattern = f"(?<!`){sign}(?!`)" if sign[0] == "`" else rf"[{_CLOSERS[sign]}](?![\w\"'])"
        closer = None if sign in unclosed else re.compile(pattern).search(line, opener.end())
        if closer is None:
            unclosed.add(sign)
            place = opener.end()
            continue
        raw = line[opener.start() : closer.end()]
        literals.append(MaskedLiteral(_content(raw), raw, "code" if raw[0] == "`" else "quote"))
        made += [line[after : opener.start()], f"{INLINE}{len(literals) - 1}{END}"]
        place = after = closer.end()
    return "".join((*made, line[after:]))


def _content(raw: str) -> str:
    width = len(raw) - len(raw.lstrip("`")) or 1
    inner = raw[width:-width]
    padded = width > 1 and len(inner) > 2 and inner[0] == inner[-1] == " "
    return inner[1:-1] if padded else inner


def _end_of_trace(lines: Sequence[str], start: int) -> int:
    """Return the line after a pasted traceback; `start` if none begins there. An error message may extend to a blank
    line."""
    at = start
    if _ERROR.match(lines[start]) and start + 1 < len(lines) and _TRACE_LINE.match(lines[start + 1]):
        at = start + 1
    elif not _TRACE_LINE.match(lines[start]) or _is_single_frame(lines, start):
        return start
    at, raised = at + 1, False
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            following = next((place for place in range(at, min(at + 3, len(lines))) if lines[place].strip()), None)
            if following is None or not _TRACE_LINE.match(lines[following]):
                break
            at, raised = following, False
        elif raised or line[0] in " \t" or _TRACE_LINE.match(line):
            at += 1
        elif _RAISED.match(line):
            at, raised = at + 1, True
        else:
            break
    return at


def _is_single_frame(lines: Sequence[str], start: int) -> bool:
    """Whether this is a lone `at src/app.py:12`, which a user may write by hand."""
    return bool(_FRAME.match(lines[start])) and not (start + 1 < len(lines) and _TRACE_LINE.match(lines[start + 1]))


def quoted(text: str, limit: int = 160) -> str:
    """Return the text in backticks, on one line, truncated to `limit`."""
    line = escape(" ".join(text[: 4 * limit].split())) or " "
    if len(line) > limit:
        line = f"{line[:limit]}…"
    ticks = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def quoted_list(texts: Sequence[str], most: int = 5) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(map(quoted, texts[:most])) + more


_ITEM: Final = re.compile(r"\s*(?:\d{1,3}[.)]|[a-z]\)|[-*+•](?=\s+[^\s\d(+-]))\s+", re.IGNORECASE)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\.\.\.)[\s)\]]+", re.IGNORECASE)
_NEGATION: Final = re.compile(r"\b(?:not|never|cannot|avoid)\b|n['’´ʼ′]t\b", re.IGNORECASE)
_UNFINISHED_LINE: Final = re.compile(r"(?:[:,]|\b(?:with|by|to|replace))$", re.IGNORECASE)
_CONTINUATION: Final = re.compile(f"{BLOCK}|(?:and|with|by|to|into)\\b", re.IGNORECASE)
_AFTER_BLOCK: Final = re.compile(r"(?:in|everywhere)\b", re.IGNORECASE)
_STEP_SEPARATOR: Final = re.compile(
    rf"\s*;\s*|(?<=[\w){END}])[.!]\s+|(?<=\?)\s+|,?\s+(?:and\s+)?(?:then|afterwards|after that)\b,?\s+", re.IGNORECASE
)
_AND: Final = re.compile(r",\s+and\s+|,\s+|\s+and\s+", re.IGNORECASE)

_ORDER: Final = (
    r"(?:(?:and\s+)?(?:first(?:ly)?|second(?:ly)?|third(?:ly)?|next|then|finally|lastly|afterwards|after that|and|also"
    r"|now)\b,?\s+)*"
)
_GREETING: Final = r"(?:(?:hi|hello|hey|ok|okay)(?:\s+(?:there|operator))?[,.!]*(?:\s+|$))?"
_PLEASE: Final = r"(?:(?:please|kindly)[,\s]+)?"
_ASKING: Final = r"(?P<asks>(?:can|could|would|will)\s+you\s+)?"
_WISHING: Final = (
    r"(?:(?:i(?:['’]d|\s+would)\s+like\s+you\s+to|i\s+want\s+you\s+to|let['’]s|let\s+us|go\s+ahead\s+and)\s+)?"
)
_LEADING: Final = re.compile(_ORDER + _GREETING + _PLEASE + _ASKING + _WISHING + _PLEASE, re.IGNORECASE)
_MANNERS: Final = re.compile(r"(?:,?\s+(?:please|for me|now|thanks|thank you))+$", re.IGNORECASE)
_ONLY_MANNERS: Final = re.compile(r"(?:thanks|thank you|cheers|please|great|hi|hello|hey|ok|okay)", re.IGNORECASE)
_ENDS_WITH_DOTS: Final = re.compile(r"(?:^|\s)\.+$")
_QUESTION: Final = re.compile(r"(?:what|what['’]s|where|which|how much|is process)\s", re.IGNORECASE)


def split_sentences(text: str) -> Iterator[str]:
    """Sentences end with `.`, `!`, `?` or a blank line; a single line break is white space."""
    for part in _paragraphs(text):
        yield from _SENTENCE_END.split(part)


def _paragraphs(text: str) -> Iterator[str]:
    """Split at blank lines; list items join the paragraph before them, each after a dash."""
    part: list[str] = []
    blank = denies = False
    for line in text.split("\n"):
        item = _ITEM.match(line)
        if not line.strip():
            blank = True
            continue
        if item is None:
            if blank:
                yield " ".join(part)
                part = []
            denies = line.rstrip().endswith(":") and _NEGATION.search(line) is not None
            part.append(line)
        else:
            said = line[item.end() :]
            part += ["—", said.rstrip(".! \t\r") if denies else said]
        blank = False
    yield " ".join(part)


def split_steps(text: str) -> list[str]:
    """Split a masked message into steps, dropping only courtesies, ordering words and punctuation."""
    steps: list[str] = []
    for line in _logical_lines(text):
        polite = False
        for step in _STEP_SEPARATOR.split(line):
            tidy, asks = _strip_manners(step, polite)
            polite = (polite or asks) and not step.endswith("?")
            steps.append(tidy)
    return [step for step in steps if step and not _ONLY_MANNERS.fullmatch(step)]


def conjunction_splits(step: str) -> Iterator[tuple[str, str]]:
    """Return the ways to split a step in two at "and" or a comma, earliest first."""
    for found in _AND.finditer(step):
        yield step[: found.start()], step[found.end() :]


def _logical_lines(text: str) -> list[str]:
    """Join continuation lines to the line before."""
    lines: list[str] = []
    for raw in text.split("\n"):
        line = raw.strip()
        if (item := _ITEM.match(line)) is not None:
            lines.append(line[item.end() :])
        elif line and lines and _continues_line(lines[-1], line):
            lines[-1] += f" {line}"
        elif line:
            lines.append(line)
    return lines


def _continues_line(before: str, line: str) -> bool:
    if before.endswith(END) and _AFTER_BLOCK.match(line):
        return before.rpartition(" ")[2].startswith(BLOCK)
    return bool(_UNFINISHED_LINE.search(before) or _CONTINUATION.match(line))


def _strip_manners(step: str, polite: bool) -> tuple[str, bool]:
    """Strip courtesies; also return whether it asks "could you", in which case a question mark is another courtesy."""
    text = " ".join(step.split())
    leading = _LEADING.match(text)
    assert leading is not None  # the pattern also matches the empty string
    polite = polite or leading["asks"] is not None
    text = text[leading.end() :]
    if not _ENDS_WITH_DOTS.search(text):
        text = text.rstrip(" .!")
    if text.endswith("?") and (polite or _QUESTION.match(text)):
        text = text.rstrip("? ")
    return _MANNERS.sub("", text).strip(" ,"), polite


_TOKEN: Final = re.compile(r"[()\[\]]|[^\s()\[\]]+")


class Slot(NamedTuple):
    """A placeholder in a phrase."""

    pattern: str
    """A regular expression for the text it accepts."""
    read: Callable[[str, MaskedText], Any]
    """Returns its value; None if the text is not acceptable."""


def flag_slots(words: Iterable[str]) -> dict[str, Slot]:
    """Return slots for words whose mere presence matters."""
    return {word: Slot(word, _present) for word in words}


def _present(found: str, masked: MaskedText) -> bool:
    return True


class Form:
    """A phrase pattern with slots.

    Words match themselves, `a/b` matches either, `[x]` is optional, `(some words / others)` are alternatives of several
    words, and names in capitals are slots.
    """

    def __init__(self, text: str, slots: Mapping[str, Slot]) -> None:
        self.text = text
        self._slots = slots

    def match(self, text: str, masked: MaskedText) -> dict[str, Any] | None:
        """Return the slot values; None if the text does not match."""
        found = self._pattern.fullmatch(f" {text}")
        if found is None:
            return None
        given = {name: value for name, value in found.groupdict().items() if value is not None}
        values = {name: self._slots[name].read(value, masked) for name, value in given.items()}
        return None if None in values.values() else values

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._alternatives(_TOKEN.findall(self.text)), re.IGNORECASE)

    def _alternatives(self, tokens: list[str]) -> str:
        """Translate tokens up to the closing bracket of the current group."""
        pattern = ""
        while tokens and (mark := tokens.pop(0)) not in (")", "]"):
            if mark == "/":
                pattern += "|"
            elif mark in "([":
                pattern += self._alternatives(tokens) + ("?" if mark == "[" else "")
            else:
                pattern += f"(?:{'|'.join(map(self._word, mark.split('/')))})"
        return f"(?:{pattern})"

    def _word(self, word: str) -> str:
        if word in self._slots:
            return f" (?P<{word}>{self._slots[word].pattern})"
        return f" ?{word}" if word in ":,;" else f" {re.escape(word)}"
