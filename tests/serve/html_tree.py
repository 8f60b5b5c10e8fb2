"""Parses rendered HTML into a tree and checks that it is well-formed and free of anything active."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

VOID = frozenset({"input", "img", "br", "hr"})
_ELEMENTS = (
    "div span pre label details summary del ins mark section h3 h4 dl dt dd table caption thead tbody tr th td p ul ol"
    " li strong em code a audio article header figure figcaption"
)
_ATTRIBUTES = (
    "class dir translate open data-fold data-line data-o data-n data-kind data-role aria-hidden title type scope href"
    " rel src alt width height loading controls preload download"
)
ELEMENTS = VOID | frozenset(_ELEMENTS.split())
ATTRIBUTES = frozenset(_ATTRIBUTES.split())


class Node:
    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[Node | str] = []

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def text(self, *, without: frozenset[str] = frozenset()) -> str:
        """The text content, without elements of these classes."""
        parts: list[str] = []
        for child in self.children:
            if isinstance(child, str):
                parts.append(child)
            elif not child.classes & without:
                parts.append(child.text(without=without))
        return "".join(parts)

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    def all(self, name: str = "", cls: str = "") -> list[Node]:
        """The descendants with this element name and class."""
        return [node for node in self.walk() if (not name or node.name == name) and (not cls or cls in node.classes)]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("root", {})
        self.stack = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert tag in ELEMENTS, f"unexpected element {tag}"
        assert len(names) == len(set(names)), f"repeated attribute in {tag}"
        for name, value in attrs:
            assert name in ATTRIBUTES, f"unexpected attribute {name} of {tag}"
            assert name not in ("href", "src") or (value or "").startswith(("http://", "https://", "/media/")), value
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.stack[-1].children.append(node)
        if tag not in VOID:
            self.stack.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack[-1].name == tag, f"</{tag}> closes <{self.stack[-1].name}>"
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        self.stack[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"unexpected comment {data!r}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"unexpected declaration {decl!r}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"unexpected instruction {data!r}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"unexpected declaration {data!r}")


def parse(html: str) -> Node:
    """Return the tree of well-formed HTML that has only known elements and attributes; otherwise fail."""
    html.encode()  # no lone surrogate
    parser = _Parser()
    parser.feed(html)
    parser.close()
    assert len(parser.stack) == 1, f"<{parser.stack[-1].name}> is not closed"
    return parser.root
