"""Accessibility snapshots: parsed from Playwright's text, rendered as short lines, searched by role and name."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.tools.browser.snapshot import (
    Element,
    closest_elements,
    describe,
    find_elements,
    hide_value,
    number_references,
    parse_snapshot,
    quote,
    render,
    walk,
)
from tests.quick import quickly
from tests.text.strategies import ANY_TEXT

SHOP = """\
- generic [active] [ref=e1]:
  - heading "Shop" [level=1] [ref=e2]
  - generic [ref=e3]: Plain text
  - navigation [ref=e5]:
    - list [ref=e6]:
      - listitem [ref=e7]:
        - 'link "A: \\"q\\" ''z'' #c" [ref=e8] [cursor=pointer]':
          - /url: /a?x=1
      - listitem [ref=e9]:
        - link "B" [ref=e10] [cursor=pointer]:
          - /url: b
        - text: after
  - generic [ref=e12]:
    - text: Name
    - textbox "Name" [ref=e13]: abc
  - textbox "Pass" [ref=e14]: hunter2
  - combobox "Colour" [ref=e15]:
    - option "red"
    - option "blue" [selected]
  - checkbox "ok" [checked] [ref=e16]
  - button "Pay" [disabled] [ref=e17]
  - table [ref=e21]:
    - rowgroup [ref=e22]:
      - row [ref=e23]:
        - columnheader "x" [ref=e24]
        - columnheader "y" [ref=e25]
      - row [ref=e26]:
        - cell "1" [ref=e27]
        - cell [ref=e28]:
          - button "Edit" [ref=e29]
  - iframe [ref=e30]:
    - button "in frame" [ref=f1e2]
  - img [ref=e31]
  - text: "a \\"quoted\\" \\x1b text"
"""


@pytest.mark.spec("B7b")
def test_a_page_becomes_short_lines_with_references_on_interactive_elements() -> None:
    assert render(parse_snapshot(SHOP)) == [
        'h1 "Shop"',
        '"Plain text"',
        "navigation",
        '  - e8 link "A: \\"q\\" \'z\' #c"',
        '  - e10 link "B"',
        '    "after"',
        'e13 textbox "Name" = "abc"',
        'e14 textbox "Pass" = "hunter2"',
        'e15 combobox "Colour" = "blue" ("red" "blue")',
        'e16 checkbox "ok" checked',
        'e17 button "Pay" disabled',
        "table",
        '  | "x" | "y"',
        '  | "1" | e29 button "Edit"',
        "iframe",
        '  f1e2 button "in frame"',
        '"a \\"quoted\\" ‹\\\\x1b› text"',
    ]


def test_links_keep_their_address() -> None:
    links = [element.url for element in walk(parse_snapshot(SHOP)) if element.role == "link"]
    assert links == ["/a?x=1", "b"]


@pytest.mark.spec("B7e")
def test_values_of_hidden_fields_are_not_rendered() -> None:
    root = parse_snapshot(SHOP)
    hide_value(next(element for element in walk(root) if element.name == "Pass"))
    lines = "\n".join(render(root))
    assert "hunter2" not in lines
    assert 'e14 textbox "Pass" = "••••"' in lines
    assert '= "abc"' in lines


def test_long_names_and_texts_say_how_much_is_left_out() -> None:
    assert quote("x" * 700) == f'"{"x" * 600}"…(+100 characters)'
    assert describe(Element(role="button", name="x" * 300)).endswith("…(+100 characters)»")


def test_a_selection_list_with_many_options_shows_their_number() -> None:
    options = [Element(role="option", name=f"o{number}") for number in range(200)]
    element = Element(role="combobox", name="Country", ref="e1", children=options)
    assert render(element) == ['e1 combobox "Country" (200 options)']


@pytest.mark.spec("B7b")
def test_elements_are_found_by_role_and_name_and_exact_names_win() -> None:
    root = parse_snapshot(
        '- button "Pay" [ref=e1]\n- button "Pay later" [ref=e2]\n- link "Pay" [ref=e3]\n- generic [ref=e4]: pay here'
    )
    assert [found.ref for found in find_elements(root, "button", "pay")] == ["e1"]
    assert [found.ref for found in find_elements(root, None, "Pay")] == ["e1", "e3"]
    assert [found.ref for found in find_elements(root, "button", "later")] == ["e2"]
    assert [found.ref for found in find_elements(root, None, "pay here")] == ["e4"]
    assert find_elements(root, "button", "Buy") == []


def test_the_closest_elements_share_words_with_the_one_that_is_gone() -> None:
    root = parse_snapshot('- button "Cancel" [ref=e1]\n- button "Pay now" [ref=e2]\n- link "Help" [ref=e3]')
    assert [found.ref for found in closest_elements(root, "button «Pay»", 1)] == ["e2"]


def test_references_are_replaced_by_those_of_the_session() -> None:
    root = parse_snapshot('- button "A" [ref=e1]\n- text: b')
    number_references(root, lambda element: f"own-{element.ref}")
    assert [element.ref for element in walk(root) if element.ref] == ["own-e1"]


def test_a_deeply_nested_page_is_rendered_without_recursion() -> None:
    depth = 5000
    source = "\n".join(f'{"  " * level}- button "b{level}" [ref=e{level}]' for level in range(depth))
    with quickly(20):
        lines = render(parse_snapshot(source))
    assert len(lines) == depth


def _yaml(value: str) -> str:
    """A text as Playwright writes it."""
    return json.dumps(value, ensure_ascii=False)


@settings(max_examples=200)
@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=5))
def test_whatever_names_contain_a_line_is_one_line_and_begins_with_our_words(texts: list[tuple[str, str]]) -> None:
    root = Element(
        role="document",
        children=[Element(role="button", name=name, text=text, ref=f"e{at}") for at, (name, text) in enumerate(texts)],
    )
    lines = render(root)
    assert len([line for line in lines if line.startswith("e")]) == len(texts)
    assert all(line.splitlines() == [line] and line.isprintable() for line in lines)


@settings(max_examples=200)
@given(st.lists(ANY_TEXT, max_size=5))
@example(["\\x11", "\x11\x12"])
def test_names_survive_the_format_of_playwright(names: list[str]) -> None:
    flat = [" ".join(name.split()) for name in names]
    source = "\n".join(
        "- '" + f"button {_yaml(name)} [ref=e{at}]".replace("'", "''") + "'" for at, name in enumerate(flat)
    )
    found = parse_snapshot(source).children
    assert [(element.ref, element.name) for element in found] == [(f"e{at}", name) for at, name in enumerate(flat)]
