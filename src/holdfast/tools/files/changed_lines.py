"""The lines that a change touched, as they are now in the file, for the result of the change.

The result would otherwise report a change at the wrong place as a success like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, cast

from holdfast.contract.json import Args
from holdfast.text.diff import Span, changed_spans, common_ends, grouped_spans, split_lines
from holdfast.text.escape import ELLIPSIS, escape_block
from holdfast.tools.files.file_state import MAX_DIFF_BYTES, ConfinedPath, line_count
from holdfast.tools.files.pages import SNIFFED_BYTES, mime_type
from holdfast.tools.schemas import BOOLEAN, INTEGER, Schema, array, strict_object

MAX_CHANGES: Final = 12
MAX_PLACES: Final = 4
MAX_LINE_CHARS: Final = 200
CONTEXT: Final = 2
"""Unchanged lines shown before and after a change."""
_BEFORE_CUT: Final = 40
"""Characters shown before the change in a long line."""

Withheld = Literal["binary", "secret"]
_WITHHELD: Final[dict[str, str]] = {
    "binary": "[The changed lines are not shown: the file is binary.]",
    "secret": "[The changed lines are not shown: the file may contain secrets.]",
}

_LINE: Final = strict_object(
    line={"type": "integer", "description": "Its number in the file; if lines were removed, that of the next line."},
    text={
        "type": ["string", "null"],
        "description": f"Without line ending; the part around the change if it is longer than {MAX_LINE_CHARS} "
        "characters. Null where lines were removed.",
    },
    changed=BOOLEAN,
    removed={"type": "integer", "description": "Lines that were removed here without a replacement."},
)
CHANGES: Final[Schema] = strict_object(
    places=array(array(_LINE)),
    more_lines={"type": "integer", "description": "Changed lines not shown; a removal counts as one."},
    more_places=INTEGER,
    final_newline={"type": "boolean", "description": "False if the last line is shown and has no newline."},
    withheld={"enum": [*_WITHHELD, None], "description": "Why no lines are shown."},
)
"""The schema of `changed_lines`."""


def target_changes(target: ConfinedPath, before: bytes | None, after: bytes) -> Args:
    """Return the changed lines of a file that was changed. A new file has none."""
    if before is None or before == after:
        return _no_lines(None)
    if target.secret:
        return _no_lines("secret")
    if mime_type(after[:SNIFFED_BYTES], target.path.name) is not None:
        return _no_lines("binary")
    return changed_lines(before, after)


def _no_lines(withheld: Withheld | None) -> Args:
    return {"places": [], "more_lines": 0, "more_places": 0, "final_newline": True, "withheld": withheld}


def changed_lines(before: bytes, after: bytes) -> Args:
    """Return the first changed lines of `after` with their context. Time and size are bounded for any content."""
    region = _Region(before, after)
    groups = list(grouped_spans(region.spans, CONTEXT))
    left = sum(max(1, span.b2 - span.b1) for span in region.spans)
    places: list[list[Args]] = []
    room = MAX_CHANGES
    for group in groups[:MAX_PLACES]:
        if not room:
            break
        place = list(_until(region.lines(group), room))
        shown = sum(bool(line["changed"]) for line in place)
        places.append(place)
        room, left = room - shown, left - shown
    last = places[-1][-1] if places else None
    at_end = last is not None and last["text"] is not None and last["line"] == line_count(after)
    return {
        "places": cast(Any, places),
        "more_lines": left,
        "more_places": len(groups) - len(places),
        "final_newline": not at_end or after.endswith(b"\n"),
        "withheld": None,
    }


def render_changes(changes: Args) -> list[str]:
    """Return the lines of the text. Each line of the file follows its number, so that none can imitate another one."""
    if changes["withheld"] is not None:
        return [_WITHHELD[cast(str, changes["withheld"])]]
    places = cast("list[list[dict[str, Any]]]", changes["places"])
    width = max((len(str(line["line"])) for place in places for line in place), default=0)
    shown: list[str] = []
    for place in places:
        shown += [f"  {ELLIPSIS}"] if shown else []
        shown += [_rendered(line, width) for line in place]
    if not changes["final_newline"]:
        shown.append("[no newline at the end of the file]")
    more = [(changes["more_lines"], "changed line"), (changes["more_places"], "place")]
    if counts := [f"{count} more {what}{'' if count == 1 else 's'}" for count, what in more if count]:
        shown.append(f"[{' and '.join(counts)} not shown]")
    return shown


def _rendered(line: dict[str, Any], width: int) -> str:
    if line["text"] is None:
        return f"> {'':{width}} | [{line['removed']} line{'' if line['removed'] == 1 else 's'} removed here]"
    text = f" {escape_block(line['text'])}" if line["text"] else ""
    return f"{'>' if line['changed'] else ' '} {line['line']:{width}} |{text}"


def _until(lines: Iterator[Args], changes: int) -> Iterator[Args]:
    """Yield the lines up to that number of changes, and the context of the last one unless another change follows."""
    context: list[Args] = []
    for line in lines:
        if not line["changed"]:
            context.append(line)
        elif changes:
            yield from context
            yield line
            context, changes = [], changes - 1
        else:
            return
    yield from context


class _Region:
    """The smallest part of both contents, in whole lines, with all changes and their context."""

    def __init__(self, before: bytes, after: bytes) -> None:
        start, end = common_ends(before, after)
        start, end = _whole_lines(before, after, start, end)
        first, last = start, len(after) - end
        for _ in range(CONTEXT):
            first = after.rfind(b"\n", 0, first - 1) + 1 if first else 0
            last = after.find(b"\n", last) + 1 or len(after)
        above, below = line_count(after[first:start]), line_count(after[len(after) - end : last])
        old, new = before[first : len(before) - (len(after) - last)], after[first:last]
        self._first = after.count(b"\n", 0, first) + 1
        if max(len(old), len(new)) <= MAX_DIFF_BYTES:
            self._old, self._new = split_lines(_decoded(old)), split_lines(_decoded(new))
            self.spans = changed_spans(self._old, self._new)
        else:
            self._old, self._new = _first_lines(old), _first_lines(new)
            self.spans = [Span(above, line_count(old) - below, above, line_count(new) - below)]

    def lines(self, group: list[Span]) -> Iterator[Args]:
        """Yield the lines of a group of spans with their context."""
        at = max(0, group[0].b1 - CONTEXT)
        for span in group:
            yield from map(self._context, range(at, span.b1))
            if span.b1 == span.b2:
                yield self._line(span.b1, None, changed=True, removed=span.a2 - span.a1)
            for index in range(span.b1, span.b2):
                old = span.a1 + index - span.b1
                yield self._line(index, _cut(self._new[index], self._old[old] if old < span.a2 else ""), changed=True)
            at = span.b2
        yield from map(self._context, range(at, min(len(self._new), at + CONTEXT)))

    def _context(self, index: int) -> Args:
        line = self._new[index]
        return self._line(index, _cut(line, line), changed=False)

    def _line(self, index: int, text: str | None, *, changed: bool, removed: int = 0) -> Args:
        return {"line": self._first + index, "text": text, "changed": changed, "removed": removed}


def _whole_lines(before: bytes, after: bytes, start: int, end: int) -> tuple[int, int]:
    """Shorten the common ends to whole lines."""
    start = after.rfind(b"\n", 0, start) + 1
    starts_line = all(
        place == start or content[place - 1 : place] == b"\n"
        for content, place in ((before, len(before) - end), (after, len(after) - end))
    )
    if not starts_line:
        newline = after.find(b"\n", len(after) - end)
        end = 0 if newline < 0 else len(after) - newline - 1
    return start, end


def _decoded(content: bytes) -> str:
    return content.decode(errors="surrogateescape")  # reversible, so that lines with different bytes differ


def _first_lines(content: bytes) -> list[str]:
    """Return as many lines as can be shown."""
    lines: list[str] = []
    at = 0
    while at < len(content) and len(lines) < MAX_CHANGES + 2 * CONTEXT + 1:
        end = content.find(b"\n", at) + 1 or len(content)
        lines.append(_decoded(content[at:end]))
        at = end
    return lines


def _cut(line: str, old: str) -> str:
    """Return a line without its ending, or the part of a long one where it begins to differ from the old one."""
    text = line.removesuffix("\n").removesuffix("\r")
    if len(text) > MAX_LINE_CHARS:
        differs = 0 if line == old else common_ends(line, old)[0]
        start = max(0, min(differs - _BEFORE_CUT, len(text) - MAX_LINE_CHARS))
        part = text[start : start + MAX_LINE_CHARS]
        text = f"{ELLIPSIS if start else ''}{part}{ELLIPSIS if start + len(part) < len(text) else ''}"
    return text.encode(errors="surrogateescape").decode(errors="replace")
