"""Untrusted text as HTML: the same visible characters as on the terminal, and no element or attribute of its own.

Text is escaped twice, in this order: by `text/escape.py`, which makes invisible characters visible, and then for HTML.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Final

from markupsafe import Markup
from markupsafe import escape as escape_html

from holdfast.text.escape import escape, escape_once
from holdfast.text.quote import EscapeLine, escape_line

FOLD_LINES: Final = 40
FOLD_CHARS: Final = 4000
"""Longer parts can be folded."""
MAX_BLANK_LINES: Final = 3
"""A longer run of blank lines is shown as its number, so that it cannot push text out of view."""
_PLAIN: Final = re.compile(r"[\t -~]*\Z")
_MANY_SPACES: Final = " " * 9
_MANY_TABS: Final = "\t" * 13
_SPECIAL: Final = re.compile("[&<>\"'‹]")
_TABS: Final = re.compile(r"(?<!\t)(\t{1,12})(?!\t)")
_ESCAPE: Final = re.compile(r"‹([^‹›]*)›")
_ESCAPES: Final = re.compile(r"(?:‹[^‹›]*›)+")
_PARTS: Final = re.compile(r"(?:\\x([0-9a-f]{2})|\\u\{([0-9a-f]{1,6})\}|(\\t|\\r|␠))(?:×([0-9]+))?")
_NAMED_CHARS: Final = {"\\t": 0x09, "\\r": 0x0D, "␠": 0x20}
_MAX_TITLED: Final = 200
"""Escapes of one line that have a name each. A line with more is not text, and would become many times its size."""
_CONTROL_NAMES: Final = {
    0x00: "NULL", 0x07: "BELL", 0x08: "BACKSPACE", 0x09: "TAB", 0x0A: "LINE FEED", 0x0B: "VERTICAL TAB",
    0x0C: "FORM FEED", 0x0D: "CARRIAGE RETURN", 0x1B: "ESCAPE", 0x7F: "DELETE", 0x85: "NEXT LINE",
    0x9B: "CONTROL SEQUENCE INTRODUCER",
}  # fmt: skip
_KINDS: Final = {"Cc": "CONTROL CHARACTER", "Cs": "LONE SURROGATE", "Co": "PRIVATE USE", "Cn": "NOT ASSIGNED"}


def visible_line(line: str, show: EscapeLine | None = None) -> str:
    """Escape one line as the terminal does, except that tabs stay tabs unless there are more than twelve in a row."""
    if _PLAIN.match(line) and _MANY_SPACES not in line and _MANY_TABS not in line:
        return line
    if "\t" not in line:
        return escape_line(line, show)
    first, *rest = _TABS.split(line)
    show_part = show or partial(escape, newline="\n")  # as `escape_line` does
    shown = [part if place % 2 == 0 else show_part(part) for place, part in enumerate(rest)]
    return "".join((escape_line(first, show), *shown))


def escapes_html(shown: str) -> str:
    """Return visible text as HTML, with the name of the character on each escape."""
    if not _SPECIAL.search(shown):
        return shown
    html = str(escape_html(shown))
    if "‹" not in html:
        return html
    if html.count("‹") > _MAX_TITLED:
        return _ESCAPES.sub(r'<span class="esc">\g<0></span>', html)
    return _ESCAPE.sub(_titled, html)


def line_html(line: str) -> Markup:
    """Return one line of a multi-line text."""
    return Markup(escapes_html(visible_line(line)))  # noqa: S704 - escaped there


def visible_html(shown: str) -> Markup:
    """Return text that is escaped for display already, such as the words about an attachment."""
    return Markup(escapes_html(escape_once(shown)))  # noqa: S704 - escaped there


def inline_html(text: str) -> Markup:
    """Return text on one line, for a name, a path or a sentence; newlines become `↵`."""
    return Markup(escapes_html(escape(text)))  # noqa: S704 - escaped there


def block_html(text: str, *, name: str = "block") -> Markup:
    """Return multi-line text, whole and wrapped. Every line is an element, so that a wrapped line is not mistaken for
    several; `name` is the class beside `block`."""
    lines = text.split("\n")
    if len(lines) > 1 and lines[-1] == "":
        lines.pop()
    kind = f"block {name}" if name != "block" else name
    if len(lines) > 1:
        kind += " numbered"
    return Markup(f'<pre class="{kind}" dir="ltr" translate="no">{"".join(_block_lines(lines))}</pre>')  # noqa: S704


def _block_lines(lines: list[str]) -> Iterator[str]:
    blank: list[str] = []
    for number, line in enumerate([*lines, None]):
        if line is not None and not line.strip(" \t"):
            blank.append(line)
            continue
        if len(blank) > MAX_BLANK_LINES:
            yield f'<span class="gap" data-line="{number - len(blank) + 1}">{_blank_words(blank)}\n</span>'
        else:
            first = number - len(blank) + 1
            yield from (_block_line(line, first + place) for place, line in enumerate(blank))
        blank = []
        if line is not None:
            yield _block_line(line, number + 1)


def _block_line(line: str, number: int) -> str:
    return f'<span class="ln" data-line="{number}">{escapes_html(visible_line(line))}\n</span>'


def _blank_words(blank: list[str]) -> str:
    spaced = sum(map(bool, blank))
    return f"[{len(blank):,} blank lines{f', {spaced:,} of them with white space' if spaced else ''}]"


def is_long(text: str) -> bool:
    return len(text) > FOLD_CHARS or text.count("\n") >= FOLD_LINES


def size_words(text: str) -> str:
    """Return the size of a text: its lines, or its characters if it has one line."""
    lines = text.removesuffix("\n").count("\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} character{'' if len(text) == 1 else 's'}"


def fold_html(title: str, text: str, shown: Markup) -> Markup:
    """Return `shown`, which displays `text`, below its title. A long one can be folded, and is open: only the script of
    the page closes it, so that nothing is hidden without it."""
    if not is_long(text):
        return Markup('<section class="part"><h4>{}</h4>{}</section>').format(title, shown)
    return Markup('<details class="fold part" data-fold open><summary>{}, {}</summary>{}</details>').format(
        title, size_words(text), shown
    )


def facts_html(facts: Iterable[tuple[str, Markup]]) -> Markup:
    """Return labelled facts as a list; nothing if there are none."""
    rows = Markup("").join(Markup("<dt>{}</dt><dd>{}</dd>").format(label, shown) for label, shown in facts)
    return Markup('<dl class="facts">{}</dl>').format(rows) if rows else Markup("")


def _titled(found: re.Match[str]) -> str:
    title = _title(found[1])
    return f'<span class="esc" title="{title}">{found[0]}</span>' if title else f'<span class="esc">{found[0]}</span>'


@lru_cache(4096)
def _title(inner: str) -> str:
    """Name the character of an escape: `U+202E RIGHT-TO-LEFT OVERRIDE`. Empty if the text only imitates an escape."""
    found = _PARTS.fullmatch(inner)
    if found is None:
        return ""
    code = _NAMED_CHARS[found[3]] if found[3] else int(found[1] or found[2], 16)
    if code > 0x10FFFF:
        return ""
    char = chr(code)
    name = unicodedata.name(char, "") or _CONTROL_NAMES.get(code) or _KINDS.get(unicodedata.category(char), "")
    times = f", {int(found[4]):,} times" if found[4] and len(found[4]) < 16 else ""
    return f"U+{code:04X} {name}{times}".rstrip()
