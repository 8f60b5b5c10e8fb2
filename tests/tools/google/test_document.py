"""A document of Google Docs as Markdown: every kind of element, and shapes that no document has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.google import document
from holdfast.tools.google.document import Document, document_text
from tests.quick import quickly

pytestmark = pytest.mark.spec("B14g")


def run_of(text: str, link: str | None = None) -> dict[str, Any]:
    style: dict[str, Any] = {} if link is None else {"link": {"url": link}}
    return {"startIndex": 1, "endIndex": 2, "textRun": {"content": text, "textStyle": style}}


def paragraph(*elements: Any, style: str = "NORMAL_TEXT", bullet: dict[str, Any] | None = None) -> dict[str, Any]:
    runs = [run_of(each) if isinstance(each, str) else each for each in elements]
    made: dict[str, Any] = {"elements": runs, "paragraphStyle": {"namedStyleType": style, "direction": "LEFT_TO_RIGHT"}}
    return {"startIndex": 1, "endIndex": 9, "paragraph": {**made, **({"bullet": bullet} if bullet else {})}}


def table(*rows: list[str]) -> dict[str, Any]:
    cells = [[{"content": [paragraph(f"{text}\n")]} for text in row] for row in rows]
    return {"table": {"rows": len(rows), "columns": 2, "tableRows": [{"tableCells": row} for row in cells]}}


def tab(*blocks: dict[str, Any], title: str = "Tab 1", children: Any = (), **more: Any) -> dict[str, Any]:
    return {
        "tabProperties": {"tabId": "t.0", "title": title, "index": 0},
        "childTabs": [*children],
        "documentTab": {"body": {"content": [{"sectionBreak": {}}, *blocks]}, **more},
    }


def rendered(*tabs: dict[str, Any]) -> str:
    return document_text(msgspec.convert({"documentId": "d", "title": "T", "tabs": [*tabs]}, Document)).text


def test_headings_paragraphs_and_links() -> None:
    blocks = (
        paragraph("Plan\n", style="TITLE"),
        paragraph("Part\n", style="HEADING_2"),
        paragraph("See ", run_of("the page ", "https://example.org/a(b)"), "now.\n"),
        paragraph("\n"),
    )
    assert rendered(tab(*blocks)) == "# Plan\n\n## Part\n\nSee [the page](https://example.org/a(b%29) now."


def test_lists_are_nested_and_numbered_anew_below_each_item() -> None:
    lists = {"n": {"listProperties": {"nestingLevels": [{"glyphType": "DECIMAL"}, {"glyphType": "ALPHA"}]}}}
    items = [("a", 0), ("b", 1), ("c", 1), ("d", 0), ("e", 1)]
    blocks = [paragraph(f"{text}\n", bullet={"listId": "n", "nestingLevel": level}) for text, level in items]
    other = paragraph("f\n", bullet={"listId": "bullets"})
    assert rendered(tab(*blocks, other, paragraph("end\n"), lists=lists)) == (
        "1. a\n  1. b\n  2. c\n2. d\n  1. e\n- f\n\nend"
    )


def test_a_table_keeps_its_rows_and_escapes_its_bars() -> None:
    assert rendered(tab(table(["a", "b|c"], ["d\ne", ""]))) == "| a | b\\|c |\n| --- | --- |\n| d / e |  |"


def test_a_table_in_a_table_and_a_list_in_a_cell_stay_in_their_cell() -> None:
    inner = {"content": [table(["x", "y"]), paragraph("z\n", bullet={"listId": "l"})]}
    outer = {"table": {"tableRows": [{"tableCells": [inner]}]}}
    assert rendered(tab(outer)) == "| \\| x \\| y \\| / \\| --- \\| --- \\| / - z |\n| --- |"


def test_footnotes_people_rich_links_images_and_rules() -> None:
    blocks = paragraph(
        "Text",
        {"footnoteReference": {"footnoteId": "kix.1", "footnoteNumber": "1"}},
        " by ",
        {"person": {"personProperties": {"name": "Ann", "email": "ann@example.org"}}},
        {"richLink": {"richLinkProperties": {"title": "Sheet", "uri": "https://docs.google.com/x"}}},
        {"inlineObjectElement": {"inlineObjectId": "o"}},
        {"horizontalRule": {}},
        "\n",
    )
    notes = {"kix.1": {"footnoteId": "kix.1", "content": [paragraph("A note.\n")]}}
    assert rendered(tab(blocks, footnotes=notes)) == (
        "Text[^kix.1] by @ann@example.org («Ann»)[Sheet](https://docs.google.com/x)[image]\n---\n\n[^kix.1]: A note."
    )


def test_tabs_are_headed_by_their_titles() -> None:
    child = tab(paragraph("inner\n"), title="Child")
    first = tab(paragraph("outer\n"), title="First\n# not a heading", children=[child])
    assert rendered(first, tab(title="Empty")) == (
        "# Tab: First # not a heading\n\nouter\n\n## Tab: Child\n\ninner\n\n# Tab: Empty"
    )


def test_a_table_of_contents_is_read() -> None:
    assert rendered(tab({"tableOfContents": {"content": [paragraph("1 Plan\n")]}})) == "1 Plan"


def test_a_long_document_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_CHARS", 1000)
    tabs = {"tabs": [tab(*(paragraph("x" * 100) for _ in range(50)))]}
    made = document_text(msgspec.convert(tabs, Document))
    assert made.cut and len(made.text) <= 1000


def test_a_deep_document_is_cut_in_bounded_time() -> None:
    deep: dict[str, Any] = paragraph("bottom")
    for _ in range(60):
        deep = {"table": {"tableRows": [{"tableCells": [{"content": [deep]}]}]}}
    wide = tab(table(*([["|" * 50, "b"]] * 2000)))
    with quickly():
        assert document_text(msgspec.convert({"tabs": [tab(deep)]}, Document)).cut
        assert rendered(wide)


def _one_cell(content: list[Any]) -> Any:
    return {"table": {"tableRows": [{"tableCells": [{"content": content}, {}]}]}}


def _contents(content: list[Any]) -> Any:
    return {"tableOfContents": {"content": content}}


blocks: st.SearchStrategy[Any] = st.recursive(
    st.builds(
        paragraph,
        st.text(max_size=20),
        style=st.sampled_from(["TITLE", "HEADING_6", "NORMAL_TEXT", "WEIRD"]),
        bullet=st.none()
        | st.fixed_dictionaries({"listId": st.sampled_from(["n", "?"]), "nestingLevel": st.integers(-3, 40)}),
    ),
    lambda inner: st.builds(_one_cell, st.lists(inner, max_size=3)) | st.builds(_contents, st.lists(inner, max_size=3)),
    max_leaves=12,
)


@given(st.lists(blocks, max_size=6))
def test_every_document_becomes_lines_with_all_its_words(content: list[Any]) -> None:
    lists = {"n": {"listProperties": {"nestingLevels": [{"glyphType": "DECIMAL"}]}}}
    text = rendered(tab(*content, lists=lists))
    assert text.splitlines() == text.split("\n") or not text
    plain = text.replace("\\|", "|")
    for words in _words(content):
        assert all(word in plain for word in words.split("|"))


def _words(content: list[Any]) -> list[str]:
    """The visible words of paragraphs: only letters, since blanks and controls are rewritten."""
    found: list[str] = []
    for block in content:
        if "paragraph" in block:
            text = block["paragraph"]["elements"][0]["textRun"]["content"]
            found += [word for word in text.split() if word.isalnum()]
        elif "table" in block:
            found += _words(block["table"]["tableRows"][0]["tableCells"][0]["content"])
        else:
            found += _words(block["tableOfContents"]["content"])
    return found
