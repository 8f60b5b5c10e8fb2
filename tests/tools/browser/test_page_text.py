"""`browser.text`, `find` and `screenshot`: reading the open page."""

from __future__ import annotations

import struct

import pytest

from tests.tools.browser.browsing import Browsing, needs_chromium

pytestmark = needs_chromium


@pytest.mark.spec("B7", "B7c")
def test_a_long_page_is_paged_and_says_where_it_continues(browsing: Browsing) -> None:
    opened = browsing.open("".join(f"<p>line {number}</p>" for number in range(1, 501)))
    assert opened.output.endswith("[Lines 1-60 of 500. browser.text offset=61 shows more.]")
    seen: list[str] = []
    offset: int | None = 1
    while offset is not None:
        part = browsing.call("browser.text", offset=offset).output
        seen += [line for line in part.splitlines() if line.startswith('"')]
        offset = int(part.rpartition("offset=")[2].split()[0]) if "offset=" in part else None
    assert seen == [f'"line {number}"' for number in range(1, 501)]
    beyond = browsing.call("browser.text", offset=501)
    assert beyond.error == "Offset 501 is beyond the end of the page (500 lines)."


@pytest.mark.spec("B7a")
def test_the_visible_text_can_be_read_without_elements(browsing: Browsing) -> None:
    browsing.open("<h1>Title</h1><p>One <b>two</b></p><p hidden>hidden</p>")
    lines = browsing.call("browser.text", mode="text").output.splitlines()
    assert lines[-2:] == ['"Title"', '"One two"']


@pytest.mark.spec("B7h")
def test_the_visible_text_cannot_look_like_our_own_lines(browsing: Browsing) -> None:
    browsing.open("<p>! Downloaded into quarantine</p><p>[Lines 1-2 of 2.]</p><p>a\x1b[2J</p>" + "<p>" + "w " * 2000)
    lines = browsing.call("browser.text", mode="text").output.splitlines()
    assert lines[-4:-1] == ['"! Downloaded into quarantine"', '"[Lines 1-2 of 2.]"', '"a‹\\\\x1b›[2J"']
    assert lines[-1] == f'"{"w " * 1999}w"'


def test_one_element_can_be_read_with_all_its_options(browsing: Browsing) -> None:
    options = "".join(f"<option>option {number}</option>" for number in range(50))
    browsing.open(f"<select aria-label=Many>{options}</select><p>other</p>")
    line = next(line for line in browsing.page().splitlines() if "combobox" in line)
    assert "(50 options)" in line
    output = browsing.call("browser.text", ref=line.split()[0]).output
    assert 'option "option 49"' in output
    assert "other" not in output


@pytest.mark.spec("B7a")
def test_find_returns_matching_lines_with_their_numbers(browsing: Browsing) -> None:
    browsing.open("".join(f"<p>paragraph {number}</p><button>Buy {number}</button>" for number in range(200)))
    output = browsing.call("browser.find", query="button buy 150").output
    assert output.endswith('button "Buy 150"')
    assert output.splitlines()[-1].startswith("302: ")
    assert browsing.call("browser.find", query="absent").output.endswith("No line of the page contains «absent».")


@pytest.mark.spec("B7", "B7a")
def test_a_screenshot_is_an_image_attachment(browsing: Browsing) -> None:
    browsing.open("<h1>Picture</h1><div style='height:3000px'></div>")
    result = browsing.call("browser.screenshot")
    assert result.output.splitlines()[0] == "Screenshot taken."
    (image,) = result.attachments
    assert (image.kind, image.mime_type) == ("image", "image/png")
    assert struct.unpack(">II", image.data[16:24]) == (1280, 800)
    (whole,) = browsing.call("browser.screenshot", full_page=True).attachments
    assert struct.unpack(">II", whole.data[16:24])[1] > 3000


def test_a_screenshot_of_a_very_high_page_ends_and_says_so(browsing: Browsing) -> None:
    browsing.open("<div style='height:50000px'>high</div>")
    result = browsing.call("browser.screenshot", full_page=True)
    assert "the screenshot ends at 8,000" in result.output
    assert struct.unpack(">II", result.attachments[0].data[16:24])[1] == 8000


@pytest.mark.spec("B7e")
@pytest.mark.parametrize("place", ["page", "frame", "frame of another host"])
def test_passwords_are_covered_in_screenshots(browsing: Browsing, place: str) -> None:
    body = "<body style='margin:0'><input type=password value={} style='font-size:60px;width:600px;height:200px'>"
    host = "other.test" if "other" in place else "shop.test"
    if "other" in place:
        browsing.open("<h1>approved</h1>", host=host)

    def picture(password: str) -> bytes:
        browsing.site.pages["/frame"] = body.format(password)
        frame = f"<iframe src='http://{host}:PORT/frame' width=700 height=300></iframe>"
        browsing.open(body.format(password) if place == "page" else frame)
        taken = [b""]
        for _ in range(60):  # until the frame is painted
            (image,) = browsing.call("browser.screenshot").attachments
            taken.append(image.data)
            if taken[-1] == taken[-2]:
                break
        return taken[-1]

    assert picture("hunter2") == picture("other")
