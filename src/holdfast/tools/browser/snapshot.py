"""The page as text: parses Playwright's accessibility snapshot and renders it as short lines.

A line is one element, `e12 button "Pay" disabled`, one piece of text, `"Total: 3"`, or one row of a table, with `|`
before each cell. Everything that the page chose is in quotes, without line breaks and with control characters escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from msgspec import Struct, field

from holdfast.text.escape import escape

MAX_NAME: Final = 200
MAX_TEXT: Final = 600
"""Characters of a name or text on a line; the number of characters left out is on the line, too."""
MAX_ROW: Final = 400
"""Characters of a table row on one line; a longer one gets a line for each cell."""
MAX_DEPTH: Final = 40
"""Deeper elements are indented no further."""
_INLINE_OPTIONS: Final = 6

# fmt: off
INTERACTIVE: Final = frozenset({
    "button", "checkbox", "combobox", "link", "listbox", "menuitem", "menuitemcheckbox", "menuitemradio", "option",
    "radio", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox", "treeitem",
})
"""The roles whose elements have a reference on their line."""
EDITABLE: Final = frozenset({"textbox", "searchbox", "spinbutton", "combobox"})
_PLAIN: Final = frozenset({
    "article", "associationlist", "associationlistitemkey", "associationlistitemvalue", "banner", "blockquote",
    "caption", "cell", "code", "columnheader", "contentinfo", "definition", "deletion", "document", "emphasis",
    "figure", "generic", "gridcell", "group", "insertion", "labeltext", "list", "listitem", "main", "mark", "none",
    "paragraph", "presentation", "region", "row", "rowgroup", "rowheader", "section", "strong", "subscript",
    "superscript", "term", "text", "time",
})
# fmt: on
"""The roles that get no line of their own unless they have a name."""
_LINE: Final = re.compile(r"( *)- (.*)", re.DOTALL)
_KEY: Final = re.compile(r'([^\s":\[]+)(?: ("(?:[^"\\]|\\.)*"))?((?: (?:\[[^\]]*\]|<[^>]*>))*)', re.DOTALL)
_ATTRIBUTE: Final = re.compile(r"\[([^\]=]+)(?:=([^\]]*))?\]")
_HEX: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\x([0-9a-fA-F]{2})")
_HIDDEN: Final = "••••"


class Element(Struct):
    """One node of a snapshot."""

    role: str
    name: str = ""
    text: str = ""
    """The text inside, or the value of a field."""
    ref: str = ""
    """The reference: Playwright's while parsing, then the session's own."""
    states: tuple[str, ...] = ()
    url: str = ""
    clickable: bool = False
    children: list[Element] = field(default_factory=list["Element"])

    @property
    def interactive(self) -> bool:
        return self.role in INTERACTIVE or self.clickable

    @property
    def label(self) -> str:
        """What a person would call it: its name, or the text in it."""
        return self.name or self.text


def parse_snapshot(source: str) -> Element:
    """Return the tree of a snapshot that Playwright made in its mode `ai`; the root is the page."""
    root = Element(role="document")
    open_elements: list[tuple[int, Element]] = [(-1, root)]
    for line in source.split("\n"):
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        depth = len(found[1])
        while open_elements[-1][0] >= depth:
            open_elements.pop()
        parent = open_elements[-1][1]
        key, text = _split_entry(found[2])
        if key.startswith("/"):
            if key == "/url":
                parent.url = text
            continue
        element = _parse_key(key, text)
        parent.children.append(element)
        open_elements.append((depth, element))
    return root


def _split_entry(entry: str) -> tuple[str, str]:
    """Split an entry of the YAML list into key and text."""
    if entry.startswith("'"):
        end = 1
        while (end := entry.find("'", end)) != -1 and entry[end : end + 2] == "''":
            end += 2
        if end == -1:
            return entry, ""
        return entry[1:end].replace("''", "'"), _scalar(entry[end + 1 :].removeprefix(":").strip(" "))
    found = _KEY.match(entry)
    if found is None:
        return "text", entry
    return found[0], _scalar(entry[found.end() :].removeprefix(":").strip(" "))


def _scalar(value: str) -> str:
    if not (len(value) > 1 and value[0] == value[-1] == '"'):
        return value
    try:
        return str(json.loads(_HEX.sub(r"\1\\u00\2", value), strict=False))
    except ValueError:
        return value


def _parse_key(key: str, text: str) -> Element:
    found = _KEY.fullmatch(key)
    if found is None:
        return Element(role="text", text=f"{key} {text}".strip())
    element = Element(role=found[1], name=_scalar(found[2] or ""), text=text)
    states: list[str] = []
    for name, value in _ATTRIBUTE.findall(found[3]):
        if name == "ref":
            element.ref = value
        elif name == "cursor":
            element.clickable = value == "pointer"
        elif name == "level":
            states.append(f"level {value}")
        elif name not in ("active", "box"):
            states.append(f"{name} {value}" if value else name)
    if element.role == "generic" and element.name:  # a `summary`, or what a page made clickable and named
        element.clickable = True
    element.states = tuple(states)
    return element


def walk(root: Element) -> Iterator[Element]:
    """Yield the elements in document order."""
    left = [root]
    while left:
        element = left.pop()
        yield element
        left.extend(reversed(element.children))


def number_references(root: Element, reference: Callable[[Element], str]) -> None:
    """Replace Playwright's references, which each document counts anew, with the session's own."""
    for element in walk(root):
        if element.ref:
            element.ref = reference(element)


def hide_value(element: Element) -> None:
    """Hide the value of a field: a password, or what was typed from a secret."""
    element.text = _HIDDEN
    element.children = [child for child in element.children if child.role != "text"]


def quote(text: str, limit: int = MAX_TEXT) -> str:
    """Quote text of the page on one line, and say how much of it is left out."""
    text = " ".join(text.split())
    rest = f"…(+{len(text) - limit:,} characters)" if len(text) > limit else ""
    shown = escape(text[:limit]).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{shown}"{rest}'


def quote_name(text: str, limit: int = MAX_NAME) -> str:
    """Return text that somebody else chose as `«…»` in a sentence, so that it cannot look like the end of the quote."""
    more = f"…(+{len(text) - limit:,} characters)" if len(text) > limit else ""
    shown = escape(text[:limit]).replace("«", "‹\\xab›").replace("»", "‹\\xbb›")
    return f"«{shown}{more}»"


def render(root: Element) -> list[str]:
    """Return the lines of a page or of one element."""
    lines: list[str] = []
    # Not recursive: a page chooses how deep its elements are nested.
    left: list[tuple[Element, int, bool]] = [(root, 0, False)]
    while left:
        element, depth, dash = left.pop()
        line = (_row(element) if element.role == "row" else None) or _line(element)
        if line:
            lines.append("  " * min(depth, MAX_DEPTH) + ("- " if dash else "") + line)
            depth, dash = depth + 1, False
        if line.startswith("|"):
            continue
        children = _children(element)
        is_item = element.role == "listitem"
        for position, child in reversed(list(enumerate(children))):
            first = position == 0 and not line
            left.append((child, depth + (is_item and not first), (is_item or dash) and first))
    return lines


def _line(element: Element) -> str:
    """Return the line of an element, empty if it needs none."""
    if element.interactive:
        return _interactive(element)
    if element.role in _PLAIN:
        shown = [quote(part) for part in (element.name, element.text) if part]
        return " ".join(dict.fromkeys(shown)) if element.name else "".join(shown)
    if element.role == "heading":
        level = next((state[6:] for state in element.states if state.startswith("level ")), "")
        return f"h{level} {quote(element.label)}" if element.label else ""
    if element.role == "img" and not element.label:
        return ""
    parts = [element.role]
    if element.name:
        parts.append(quote(element.name, MAX_NAME))
    if element.text and element.text != element.name:
        parts.append(quote(element.text))
    return " ".join((*parts, *(state for state in element.states if not state.startswith("level "))))


def _interactive(element: Element) -> str:
    role = "clickable" if element.role not in INTERACTIVE else element.role
    parts = [part for part in (element.ref, role) if part]
    editable = element.role in EDITABLE
    label = element.name if editable else element.label
    if label:
        parts.append(quote(label, MAX_NAME))
    parts += [state for state in element.states if not state.startswith("level ")]
    options = [child for child in element.children if child.role == "option"]
    value = element.text if editable else ""
    if options and not value:
        value = ", ".join(option.name for option in options if "selected" in option.states)
    if value:
        parts.append(f"= {quote(value)}")
    if element.role == "combobox" and options:
        few = len(options) <= _INLINE_OPTIONS
        shown = " ".join(quote(option.name, 40) for option in options) if few else f"{len(options)} options"
        parts.append(f"({shown})")
    return " ".join(parts)


def _children(element: Element) -> Sequence[Element]:
    """Return the children that say more than the element's own line."""
    if element.role == "combobox":
        return [child for child in element.children if child.role != "option"]
    if element.role in EDITABLE:
        return ()
    if not (element.interactive or element.role == "heading") or not element.label:
        return [
            child
            for child, following in zip_longest(element.children, element.children[1:])
            if not _is_label(child, following)
        ]
    label = " ".join(element.label.split())
    return [child for child in element.children if not _is_said(child, label)]


def _is_label(element: Element, following: Element | None) -> bool:
    """Whether an element is only the visible label of the field after it, whose name says the same."""
    if following is None or element.role not in ("text", "generic") or element.children or element.interactive:
        return False
    return following.role in INTERACTIVE and _fold(element.label) == _fold(following.name)


def _is_said(element: Element, label: str) -> bool:
    """Whether everything in an element is part of the label of the element around it."""
    for inner in walk(element):
        if inner.role in INTERACTIVE or (inner.clickable and inner.name):
            return False
        if any(part and " ".join(part.split()) not in label for part in (inner.name, inner.text)):
            return False
    return True


def _row(row: Element) -> str | None:
    """Return a table row on one line, or None if it does not fit."""
    cells: list[str] = []
    for cell in row.children:
        parts: list[str] = []
        for inner in walk(cell):
            if inner.role in ("table", "list", "row", "grid"):
                return None
            if inner is not cell and inner.interactive:
                parts.append(_interactive(inner))
            elif not inner.interactive and (inner.text or (inner is cell and inner.name and not cell.children)):
                parts.append(quote(inner.label if inner is cell else inner.text))
            elif inner.role == "img" and inner.name:
                parts.append(f"img {quote(inner.name, MAX_NAME)}")
        cells.append(" ".join(parts))
    line = "".join(f"| {cell} " for cell in cells).rstrip()
    return line if line and len(line) <= MAX_ROW else None


def find_elements(root: Element, role: str | None, name: str | None) -> list[Element]:
    """Return the elements with this role and name. Exact names first; else, those that contain the words.

    A name without a role also finds text, so that what a person sees can be named.
    """
    wanted = _fold(name or "")
    found: list[tuple[int, Element]] = []
    for element in walk(root):
        if not element.ref or (role is not None and element.role != role and not _is_alias(role, element)):
            continue
        label = _fold(element.label)
        if not wanted or label == wanted:
            rank = 0
        elif wanted in label:
            rank = 2
        else:
            continue
        found.append((rank + (0 if element.interactive else 1), element))
    best = min((rank for rank, _ in found), default=0)
    return [element for rank, element in found if rank == best]


def _is_alias(role: str, element: Element) -> bool:
    """Whether people use the role's name for this element, too."""
    if role == "clickable":
        return element.clickable and element.role not in INTERACTIVE
    return element.role in {"textbox": ("searchbox", "spinbutton"), "field": tuple(EDITABLE)}.get(role, ())


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()


def closest_elements(root: Element, words: str, count: int = 3) -> list[Element]:
    """Return the interactive elements whose label shares most with the words."""
    wanted = set(re.findall(r"\w+", words.casefold()))

    def score(element: Element) -> float:
        own = set(re.findall(r"\w+", f"{element.role} {element.label}".casefold()))
        return len(wanted & own) / (len(wanted | own) or 1)

    ranked = sorted((element for element in walk(root) if element.interactive and element.ref), key=score, reverse=True)
    return [element for element in ranked[:count] if score(element) > 0] or ranked[:count]


def describe(element: Element) -> str:
    """Return `button «Pay»` for previews and messages."""
    role = element.role if element.role in INTERACTIVE or not element.clickable else "clickable"
    label = " ".join(element.label.split())
    return f"{role} {quote_name(label)}" if label else f"{role} without a name"
