"""A document of Google Docs as Markdown: tabs, headings, lists, tables, footnotes, links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from holdfast.tools.google.results import clean_text, one_line, quoted_name

MAX_CHARS: Final = 5_000_000
_MAX_DEPTH: Final = 30
_MAX_NESTING: Final = 12
_HEADINGS: Final = {"TITLE": 1, "SUBTITLE": 2, **{f"HEADING_{level}": level for level in range(1, 7)}}
_NUMBERED: Final = frozenset({"DECIMAL", "ZERO_DECIMAL", "UPPER_ALPHA", "ALPHA", "UPPER_ROMAN", "ROMAN"})


class _Link(Struct, frozen=True):
    url: str = ""


class _TextStyle(Struct, frozen=True):
    link: _Link = _Link()


class _TextRun(Struct, frozen=True, rename="camel"):
    content: str = ""
    text_style: _TextStyle = _TextStyle()


class _FootnoteReference(Struct, frozen=True, rename="camel"):
    footnote_id: str = ""
    footnote_number: str = ""


class _PersonProperties(Struct, frozen=True):
    name: str = ""
    email: str = ""


class _Person(Struct, frozen=True, rename="camel"):
    person_properties: _PersonProperties = _PersonProperties()


class _RichLinkProperties(Struct, frozen=True):
    title: str = ""
    uri: str = ""


class _RichLink(Struct, frozen=True, rename="camel"):
    rich_link_properties: _RichLinkProperties = _RichLinkProperties()


class _Mark(Struct, frozen=True):
    """An element of which only the presence matters."""


class _Element(Struct, frozen=True, rename="camel"):
    text_run: _TextRun | None = None
    footnote_reference: _FootnoteReference | None = None
    person: _Person | None = None
    rich_link: _RichLink | None = None
    inline_object_element: _Mark | None = None
    horizontal_rule: _Mark | None = None
    equation: _Mark | None = None


class _ParagraphStyle(Struct, frozen=True, rename="camel"):
    named_style_type: str = ""


class _Bullet(Struct, frozen=True, rename="camel"):
    list_id: str = ""
    nesting_level: int = 0


class _Paragraph(Struct, frozen=True, rename="camel"):
    elements: tuple[_Element, ...] = ()
    paragraph_style: _ParagraphStyle = _ParagraphStyle()
    bullet: _Bullet | None = None


class _Cell(Struct, frozen=True):
    content: tuple[_Block, ...] = ()


class _Row(Struct, frozen=True, rename="camel"):
    table_cells: tuple[_Cell, ...] = ()


class _Table(Struct, frozen=True, rename="camel"):
    table_rows: tuple[_Row, ...] = ()


class _Content(Struct, frozen=True):
    content: tuple[_Block, ...] = ()


class _Block(Struct, frozen=True, rename="camel"):
    """`StructuralElement` of the API."""

    paragraph: _Paragraph | None = None
    table: _Table | None = None
    table_of_contents: _Content | None = None


class _NestingLevel(Struct, frozen=True, rename="camel"):
    glyph_type: str = ""


class _ListProperties(Struct, frozen=True, rename="camel"):
    nesting_levels: tuple[_NestingLevel, ...] = ()


class _List(Struct, frozen=True, rename="camel"):
    list_properties: _ListProperties = _ListProperties()


class _TabContent(Struct, frozen=True):
    body: _Content = _Content()
    footnotes: Mapping[str, _Content] = field(default_factory=dict[str, _Content])
    lists: Mapping[str, _List] = field(default_factory=dict[str, _List])


class _TabProperties(Struct, frozen=True):
    title: str = ""


class _Tab(Struct, frozen=True, rename="camel"):
    tab_properties: _TabProperties = _TabProperties()
    document_tab: _TabContent = field(default_factory=_TabContent)
    child_tabs: tuple[_Tab, ...] = ()


class Document(Struct, frozen=True, rename="camel"):
    document_id: str = ""
    title: str = ""
    revision_id: str = ""
    tabs: tuple[_Tab, ...] = ()


class DocumentText(Struct, frozen=True):
    text: str
    tabs: tuple[str, ...]
    cut: bool
    """Whether the document is longer or deeper than what is read."""


def document_text(document: Document) -> DocumentText:
    """Return the whole document as Markdown. Never fails."""
    writer = _Writer()
    tabs = list(_flat(document.tabs, 0))
    for level, tab in tabs:
        if len(tabs) > 1:
            writer.add(f"{'#' * min(6, level + 1)} Tab: {one_line(tab.tab_properties.title) or 'untitled'}", "")
        writer.tab(tab.document_tab)
    return DocumentText(
        clean_text("\n".join(writer.lines)).strip("\n"),
        tuple(one_line(tab.tab_properties.title) for _, tab in tabs),
        writer.cut,
    )


def _flat(tabs: tuple[_Tab, ...], level: int) -> Iterator[tuple[int, _Tab]]:
    for tab in tabs:
        yield level, tab
        if level < _MAX_DEPTH:
            yield from _flat(tab.child_tabs, level + 1)


class _Writer:
    """Writes lines, counts list items, and stops at the limit."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.cut = False
        self._room = MAX_CHARS
        self._lists: Mapping[str, _List] = {}
        self._counts: dict[tuple[str, int], int] = {}
        self._in_list = False

    def add(self, *lines: str) -> None:
        for line in lines:
            self._room -= len(line) + 1
            if self._room < 0:
                self.cut = True
                return
            self.lines.append(line)

    def tab(self, tab: _TabContent) -> None:
        self._lists, self._counts = tab.lists, {}
        self._blocks(tab.body.content, 0)
        self._end_list()
        for number, (key, note) in enumerate(tab.footnotes.items(), 1):
            texts = (self._inline(block.paragraph) for block in note.content if block.paragraph is not None)
            self.add(f"[^{one_line(key, 60) or number}]: {one_line(' '.join(texts), 4000)}")

    def _blocks(self, blocks: tuple[_Block, ...], depth: int) -> None:
        if depth > _MAX_DEPTH:
            self.cut = True
            return
        for block in blocks:
            if self.cut:
                return
            if block.paragraph is not None:
                self._paragraph(block.paragraph)
            elif block.table is not None:
                self._table(block.table, depth)
            elif block.table_of_contents is not None:
                self._blocks(block.table_of_contents.content, depth + 1)

    def _paragraph(self, paragraph: _Paragraph) -> None:
        text = self._inline(paragraph).strip("\n")
        if paragraph.bullet is not None:
            self._in_list = True
            level = min(max(0, paragraph.bullet.nesting_level), _MAX_NESTING)
            self.add(f"{'  ' * level}{self._glyph(paragraph.bullet.list_id, level)} {one_line(text, 20_000)}")
            return
        self._end_list()
        heading = _HEADINGS.get(paragraph.paragraph_style.named_style_type)
        if not text.strip():
            return
        self.add(f"{'#' * heading} {one_line(text, 2000)}" if heading else clean_text(text), "")

    def _end_list(self) -> None:
        if self._in_list:
            self.add("")
            self._in_list = False

    def _glyph(self, list_id: str, level: int) -> str:
        levels = self._lists[list_id].list_properties.nesting_levels if list_id in self._lists else ()
        for deeper in range(level + 1, _MAX_NESTING + 1):
            self._counts.pop((list_id, deeper), None)
        if level >= len(levels) or levels[level].glyph_type not in _NUMBERED:
            return "-"
        count = self._counts[list_id, level] = self._counts.get((list_id, level), 0) + 1
        return f"{count}."

    def _table(self, table: _Table, depth: int) -> None:
        self._end_list()
        for number, row in enumerate(table.table_rows):
            cells = [self._cell(cell, depth + 1).replace("|", "\\|") for cell in row.table_cells]
            self.add(f"| {' | '.join(cells)} |")
            if number == 0:
                self.add(f"|{' --- |' * len(cells)}")
            if self.cut:
                return
        self.add("")

    def _cell(self, cell: _Cell, depth: int) -> str:
        """Return a cell as one line: its blocks are written and taken back."""
        start, room, in_list = len(self.lines), self._room, self._in_list
        self._in_list = False
        self._blocks(cell.content, depth)
        written = self.lines[start:]
        del self.lines[start:]
        self._in_list = in_list
        if not self.cut:
            self._room = room
        return " / ".join(line.strip() for line in "\n".join(written).split("\n") if line.strip())

    def _inline(self, paragraph: _Paragraph) -> str:
        return "".join(self._element(element) for element in paragraph.elements)

    def _element(self, element: _Element) -> str:
        if element.text_run is not None:
            text, url = element.text_run.content.replace("\x0b", "\n"), element.text_run.text_style.link.url
            stripped = text.strip()
            if not url or not stripped or url == stripped:
                return text
            return text.replace(stripped, f"[{stripped}]({one_line(url, 2000).replace(')', '%29')})", 1)
        if element.footnote_reference is not None:
            return f"[^{one_line(element.footnote_reference.footnote_id, 60)}]"
        if element.person is not None:
            person = element.person.person_properties
            return f"@{one_line(person.email)}{f' («{quoted_name(person.name, 100)}»)' if person.name else ''}"
        if element.rich_link is not None:
            link = element.rich_link.rich_link_properties
            return f"[{one_line(link.title)}]({one_line(link.uri, 2000).replace(')', '%29')})"
        if element.inline_object_element is not None:
            return "[image]"
        if element.equation is not None:
            return "[equation]"
        return "\n---\n" if element.horizontal_rule is not None else ""
