"""Results are shown and never run: images only of raster formats, links only to the web, everything escaped."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.result import Attachment, Result, fail, ok
from holdfast.serve.result_view import attachment_html, is_web_url, link_html, result_html
from holdfast.serve.text_view import visible_line
from tests.serve.hostile_text import ATTACKS, HOSTILE
from tests.serve.html_tree import Node, parse
from tests.soak import rounds

pytestmark = pytest.mark.spec("O1d")

PNG = b"\x89PNG\r\n\x1a\n" + pack(">I", 13) + b"IHDR" + pack(">II", 640, 480) + b"\x08\x02\0\0\0"
TYPES = (
    "image/png", "IMAGE/PNG; x=y", "image/svg+xml", "text/html", "application/pdf", "audio/wav", "video/mp4",
    'image/png" onerror="x', "application/xhtml+xml",
)  # fmt: skip
ATTACHMENTS = st.builds(
    Attachment,
    kind=st.sampled_from(("image", "audio", "file")),
    mime_type=st.sampled_from(TYPES) | HOSTILE,
    data=st.sampled_from((b"", PNG, b"<svg onload=alert(1)>")),
    name=st.none() | HOSTILE,
    uri=st.none() | HOSTILE | st.sampled_from(("https://a.example/<b>", "javascript:alert(1)", "data:text/html,x")),
)


def media_url(item: Attachment) -> str:
    assert item.digest
    return f"/media/{item.digest}"


def shown(result: Result) -> Node:
    return parse(result_html(result, media_url=media_url))


@given(HOSTILE, HOSTILE, st.lists(ATTACHMENTS, max_size=3))
@settings(max_examples=rounds(80, 2000))
def test_nothing_of_a_result_becomes_markup(output: str, error: str, attachments: list[Attachment]) -> None:
    root = shown(Result(False, output, error, {"a": [output]}, attachments=tuple(attachments)))
    for link in root.all("a"):
        if "download" not in link.attributes:
            assert link.attributes["rel"] == "noreferrer noopener"
            assert link.attributes["href"] in link.text()


def test_output_is_shown_line_by_line() -> None:
    root = shown(ok("one\n\ttwo\x1b\nthree"))
    (block,) = root.all("pre", "output")
    assert block.text() == f"one\n{visible_line(chr(9) + 'two' + chr(27))}\nthree\n"


def test_long_output_can_be_folded() -> None:
    (fold,) = shown(ok("line\n" * 100)).all("details", "fold")
    assert fold.all("summary")[0].text() == "Output, 100 lines"


def test_an_error_comes_before_the_partial_output() -> None:
    root = shown(fail("It broke.", output="half"))
    assert root.text() == "It broke.\nPartial outputhalf\n"
    assert root.all("div", "error")


def test_structured_content_is_indented_and_not_repeated() -> None:
    assert '  "a": 1' in shown(ok("text", structured={"a": 1})).text()
    assert len(shown(ok('{\n  "a": 1\n}', structured={"a": 1})).all("pre")) == 1


def test_an_empty_result_says_so() -> None:
    assert shown(ok()).text() == "No output."


def test_a_raster_image_is_shown_with_its_size() -> None:
    (image,) = shown(ok(attachments=(Attachment(kind="image", mime_type="image/png", data=PNG, name="a b.png"),))).all(
        "img"
    )
    assert {name: image.attributes[name] for name in ("width", "height", "loading", "alt")} == {
        "width": "640",
        "height": "480",
        "loading": "lazy",
        "alt": "a-b.png",
    }


def test_an_image_that_is_not_loaded_is_shown_without_its_size() -> None:
    item = Attachment(kind="image", mime_type="image/png", digest="ab" * 32, size=10)
    assert len(parse(attachment_html(item, media_url)).all("img")) == 1


@pytest.mark.parametrize("mime", ["image/svg+xml", "text/html", "application/pdf", "image/x-icon", "image/png+xml"])
def test_other_formats_are_only_downloads(mime: str) -> None:
    root = parse(attachment_html(Attachment(kind="image", mime_type=mime, data=PNG, name="x"), media_url))
    assert not root.all("img") and not root.all("audio")
    (link,) = root.all("a", "download")
    assert "download" in link.attributes
    assert mime in root.text()


def test_bytes_that_are_no_image_and_huge_images_are_only_downloads() -> None:
    huge = PNG[:16] + pack(">II", 90_000, 2) + PNG[24:]
    for data in (b"<html>", huge):
        root = parse(attachment_html(Attachment(kind="image", mime_type="image/png", data=data), media_url))
        assert not root.all("img") and root.all("a", "download")


def test_audio_has_controls_and_is_not_loaded_unasked() -> None:
    item = Attachment(kind="audio", mime_type="audio/wav", data=b"RIFF", audience="person")
    root = parse(attachment_html(item, media_url))
    (audio,) = root.all("audio")
    assert "controls" in audio.attributes and audio.attributes["preload"] == "none"
    assert "not shown to the model" in root.text()


UNCLEAR = (
    "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "https://", "https://a\\@b.example/",
    "https://user@a.example/", "https://ä.example/", "https://a.example/\x1b", "//a.example", "https://[::1",
)  # fmt: skip


@pytest.mark.parametrize("url", [*UNCLEAR, *ATTACKS])
def test_only_clear_web_addresses_become_links(url: str) -> None:
    assert not is_web_url(url)
    assert not parse(link_html(url)).all("a")


def test_a_link_shows_its_whole_address_and_its_host() -> None:
    assert parse(link_html("https://a.example/x?y=<b>")).text() == "https://a.example/x?y=<b>"
    unclear = parse(link_html("https://xn--80ak6aa92e.com/"))
    assert unclear.text() == "[host: xn--80ak6aa92e.com] https://xn--80ak6aa92e.com/"
