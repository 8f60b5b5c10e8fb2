"""Pages: everything is escaped, files are named by their content, and times are readable."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from holdfast.serve.html import age, icon, iso_time, local_time, render, static_url

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`{{7*7}}</title></pre>\u202e\x1b[31m"


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.attributes: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += [name for name, _ in attrs]


def message(text: str) -> str:
    return render("message.html", person=None, path="/", title="Title", message=text)


@pytest.mark.spec("E3c")
@given(st.one_of(st.just(HOSTILE), st.text(), st.text(alphabet="<>&\"'=/ abconerrlt{}%#\x00\x1b\u202e")))
def test_no_text_adds_a_tag_or_an_attribute(text: str) -> None:
    plain, shown = Tags(message("plain")), Tags(message(text))
    assert shown.seen == plain.seen
    assert shown.attributes == plain.attributes


@pytest.mark.spec("E3c")
def test_control_characters_are_visible() -> None:
    text = message("a\x1b[31mb\u202ec")
    assert "\x1b" not in text and "\u202e" not in text


@pytest.mark.spec("E3")
def test_the_address_of_a_file_changes_with_its_content() -> None:
    address = static_url("page.css")
    assert address.startswith("/static/page.") and address.endswith(".css")
    assert len(address.split(".")[1]) == 12


@pytest.mark.spec("E3")
def test_times_are_given_for_people_and_programs() -> None:
    assert iso_time(0) == "1970-01-01T00:00:00+00:00"
    assert len(local_time(0)) == 19
    assert [age(0, now) for now in (0, 59, 60, 3600, 86_400 * 2, -5)] == ["0 s", "59 s", "1 min", "1 h", "2 d", "0 s"]


@pytest.mark.parametrize(("count", "shown"), [("0", ""), ("7", ">7<"), ("99", ">99<"), ("12345", ">99<")])
def test_the_icon_carries_the_number_of_pending_calls(count: str, shown: str) -> None:
    reply = icon(Request({"type": "http", "path_params": {"count": count}}))
    text = bytes(reply.body).decode()
    assert fromstring(text).tag.endswith("svg")
    assert shown in text
    assert ("<text" in text) == (count != "0")


@pytest.mark.parametrize("count", ["", "x", "-1", "9" * 5000, "１"])
def test_there_is_no_icon_for_what_is_no_number(count: str) -> None:
    assert icon(Request({"type": "http", "path_params": {"count": count}})).status_code == 404
