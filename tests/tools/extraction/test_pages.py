"""What the extraction process makes of a page."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.extraction.pages import check_robots, find_passages, read_search_page, render
from tests.quick import quickly

pytestmark = pytest.mark.spec("B6d")


def rendered(body: str, mode: str = "text", kind: str = "html", find: str | None = None) -> dict[str, Any]:
    request = {"kind": kind, "mode": mode, "content_type": "text/html; charset=utf-8", "url": "http://a.example/b/"}
    return render({**request, "find": find}, body.encode("utf-8", "surrogatepass"))


def test_text_keeps_the_blocks_of_a_page_apart() -> None:
    page = "<h1>A</h1><p>one\n two<br>three</p><ul><li>x<li>y</ul><table><tr><td>1<td>2</table><style>no</style>"
    assert rendered(page)["text"] == "A\n\none two\nthree\n\nx\n\ny\n\n1 2"


def test_links_are_absolute_once_and_from_the_base() -> None:
    page = (
        "<base href='/c/'><a href=d>One</a><a href='d#x'>Two</a><a href='javascript:x'>no</a><area href='//e.example'>"
    )
    assert rendered(page, "links")["text"] == "- One <http://a.example/c/d>\n- <http://e.example>"


def test_json_that_indentation_would_blow_up_is_shown_as_it_was_sent() -> None:
    body = "[" * 400 + ",".join("0" * 20_000) + "]" * 400
    made = rendered(body, kind="json")
    assert made["text"] == body
    assert made["notes"] == ["It is shown as it was sent: indented, it has more than 10,000,000 characters."]
    assert rendered('{"a":[1,"ü"]}', kind="json")["text"] == '{\n  "a": [\n    1,\n    "ü"\n  ]\n}'


def test_a_refresh_to_no_address_does_not_hide_the_page() -> None:
    made = rendered("<meta http-equiv=refresh content='0; url=http://['><p>text")
    assert made["text"] == "text"
    assert made["notes"] == ["The page asks browsers to go to http://[; that was not followed."]


def test_code_stays_code_and_emphasis_does_not_split_words() -> None:
    words = "This paragraph is long enough to be taken for the text of an article by the extractor. "
    code = "<pre>a *b* __c__\n  d</pre>"
    page = f"<article><h2>T</h2><p>{words}Two <b>bold</b>er words_with *stars*.</p>{code}<p>{words}</p></article>"
    text = rendered(f"<html><body>{page}</body></html>", "readable")["text"]
    assert "## T" in text and "bolder words_with *stars*." in text and "a *b* __c__\n  d" in text


def test_passages_have_offsets_and_join_where_they_touch() -> None:
    text = "x" * 1000 + " Needle here " + "y" * 100 + " needle\nHERE " + "z" * 1000
    found = find_passages(text, "needle here")
    assert (found["found"], found["passages"]) == (2, 1) and "[offset 1001]" in found["text"]
    assert find_passages(text, "absent")["text"] == "" and find_passages(text, "  ")["found"] == 0


@given(st.text(max_size=200), st.text(max_size=5))
def test_an_offset_leads_to_the_text_that_was_sought(text: str, wanted: str) -> None:
    shown: str = find_passages(text, wanted)["text"]
    parts = [] if "[offset " in text or not wanted.isascii() else shown.split("[offset ")[1:]
    for part in parts:
        at = int(part.partition("]")[0])
        assert text[at : at + 1].lower() == wanted.strip()[:1].lower()


@given(st.text(max_size=300), st.sampled_from(["readable", "text", "raw", "links", "find"]))
def test_no_page_breaks_the_reader(page: str, mode: str) -> None:
    for kind in ("html", "xml", "json", "text"):
        assert isinstance(rendered(page, mode, kind, "a")["text"], str)


@pytest.mark.parametrize("body", ["<div>" * 50_000, "<a href='" * 20_000, "<!--" * 50_000, "<b><i>" * 20_000 + "x"])
def test_hostile_markup_costs_little(body: str) -> None:
    with quickly(20):
        rendered(body)


def test_robots_txt_is_read_for_one_agent() -> None:
    rules = "\ufeffUser-agent: *\nDisallow: /a\nUser-agent: other\nDisallow: /b".encode()
    ask = {"agent": "holdfast"}
    allowed = [check_robots({**ask, "url": f"http://x/{path}"}, rules)["allowed"] for path in ("a", "b", "c")]
    assert allowed == [False, True, True]


def test_an_unknown_page_is_not_taken_for_results() -> None:
    request = {"content_type": "text/html"}
    assert read_search_page(request, b"<p>Hello") == {"results": [], "blocked": False, "known": False}
    assert read_search_page(request, b"") == {"results": [], "blocked": False, "known": False}
