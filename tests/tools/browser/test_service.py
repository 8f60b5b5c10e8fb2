"""URLs for the browser: http and https with one meaning."""

from __future__ import annotations

import pytest
from hypothesis import given

from holdfast.tools.browser.service import BrowserError, page_address
from tests.text.strategies import ANY_TEXT


@pytest.mark.parametrize(
    ("url", "opened", "entry"),
    [
        ("https://Shop.Example/a?b=c#d", "https://shop.example/a?b=c#d", "shop.example"),
        ("http://shop.example:8080/", "http://shop.example:8080/", "shop.example:8080"),
        ("https://shop.example:443/", "https://shop.example/", "shop.example"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("http://[2606:4700::1111]:81/", "http://[2606:4700::1111]:81/", "[2606:4700::1111]:81"),
    ],
)
def test_a_url_is_normalized_and_gives_the_host_to_approve(url: str, opened: str, entry: str) -> None:
    address = page_address(url)
    assert (address.url, address.entry) == (opened, entry)


@given(ANY_TEXT)
def test_any_text_is_either_a_web_address_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"https://a.example/{text}"):
        try:
            address = page_address(url)
        except BrowserError:
            continue
        assert address.url.startswith(("http://", "https://"))
        assert page_address(address.url) == address


def test_a_very_long_url_is_refused() -> None:
    with pytest.raises(BrowserError, match="characters"):
        page_address("https://a.example/" + "x" * 100_000)
