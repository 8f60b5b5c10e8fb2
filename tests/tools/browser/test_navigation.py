"""`browser.navigate`, `back`, `wait` and `close` in a real browser."""

from __future__ import annotations

import pytest

from holdfast.contract.tool import Reach
from holdfast.tools.browser.navigation import BROWSER_NAVIGATE
from tests.tools.browser.browsing import Browsing, Handler, needs_chromium

pytestmark = needs_chromium


@pytest.mark.spec("B7", "B7a")
def test_a_page_opens_and_is_returned_as_its_elements_and_text(browsing: Browsing) -> None:
    result = browsing.open("<title>Shop</title><h1>Welcome</h1><p>Hello</p><button>Pay</button>")
    lines = result.output.splitlines()
    assert lines[0] == f"{browsing.site.url()} «Shop»"
    assert lines[-3:-1] == ['h1 "Welcome"', '"Hello"']
    assert lines[-1].endswith('button "Pay"')
    assert result.metadata["untrusted"] == ["web"]
    structured = result.structured
    assert isinstance(structured, dict)
    assert structured["title"] == "Shop"
    assert structured["status"] == 200
    assert structured["view"] == "page"


@pytest.mark.spec("B7d")
def test_a_page_needs_approval_for_its_host_and_the_preview_shows_punycode() -> None:
    assert BROWSER_NAVIGATE.reaches is not None
    assert BROWSER_NAVIGATE.reaches({"url": "https://Bücher.example/x"}) == Reach(("xn--bcher-kva.example",))
    assert BROWSER_NAVIGATE.reaches({"url": "http://shop.test:8080/"}) == Reach(("shop.test:8080",))
    assert BROWSER_NAVIGATE.reaches({"url": "file:///etc/passwd"}) == Reach(())
    assert not BROWSER_NAVIGATE.presets
    assert BROWSER_NAVIGATE.format_preview is not None
    assert "xn--pple-43d.com" in BROWSER_NAVIGATE.format_preview({"url": "https://аpple.com/"}, 80)


@pytest.mark.spec("B7d")
def test_the_proposal_shows_the_host_of_a_look_alike_in_punycode(browsing: Browsing) -> None:
    browsing.call("browser.navigate", url="https://аpple.com/")
    [pending] = browsing.asked
    assert pending.proposal is not None
    assert pending.proposal.preview == "open [host: xn--pple-43d.com] https://xn--pple-43d.com/"


@pytest.mark.spec("B7")
def test_going_back_from_the_first_page_is_refused_and_stays_there(browsing: Browsing) -> None:
    browsing.call("browser.close")
    browsing.open("<h1>First</h1>")
    result = browsing.call("browser.back")
    assert not result.success and "There is no earlier page" in result.text
    assert 'h1 "First"' in browsing.call("browser.text").output


@pytest.mark.spec("B7d")
def test_a_listed_host_is_opened_without_asking(browsing: Browsing) -> None:
    browsing.config = {"network": {"hosts": [f"shop.test:{browsing.site.port}"]}}
    browsing.open("<h1>Listed</h1>")
    assert browsing.asked == []
    browsing.config = {}
    browsing.open("<h1>Asked</h1>")
    assert [pending.summary for pending in browsing.asked] == [f"open {browsing.site.url()} in the browser"]


@pytest.mark.spec("B7d")
@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "chrome://settings", "view-source:http://shop.test/", "devtools://x",
        "javascript:alert(1)", "data:text/html,x", "about:blank", "ftp://shop.test/", "http://user:pw@shop.test/", "http://shop.test\\@evil/",
        "http://", "http://127.0.0.1/", "http://[::1]/", "http://2130706433/", "http://10.0.0.1/", "not a url",
        "http://shop.test:99999/",
    ],
)  # fmt: skip
def test_what_is_not_a_public_web_page_is_refused_before_anybody_is_asked(browsing: Browsing, url: str) -> None:
    result = browsing.call("browser.navigate", url=url)
    assert not result.success
    assert browsing.asked == []


@pytest.mark.spec("B7a")
def test_back_returns_to_the_page_before(browsing: Browsing) -> None:
    browsing.open("<h1>One</h1>", "/one")
    browsing.open("<h1>Two</h1>", "/two")
    assert 'h1 "One"' in browsing.call("browser.back").output


@pytest.mark.spec("B7a")
def test_wait_returns_when_a_text_appears_and_only_what_changed(browsing: Browsing) -> None:
    browsing.open(
        "<p>steady</p>" * 9 + "<p id=p>loading</p><script>setTimeout(() => { p.textContent = 'ready' }, 300)</script>"
    )
    result = browsing.call("browser.wait", text="ready", seconds=30)
    assert result.success, result.error
    assert "steady" not in result.output
    assert browsing.call("browser.wait", gone="loading").success


def test_wait_says_what_did_not_appear(browsing: Browsing) -> None:
    browsing.open("<p>x</p>")
    result = browsing.call("browser.wait", text="never", seconds=0.2)
    assert result.error == "«never» did not appear within 0.2 s."


def test_a_page_that_does_not_exist_is_shown_with_its_status(browsing: Browsing) -> None:
    browsing.site.pages.clear()
    result = browsing.call("browser.navigate", url=browsing.site.url("/nothing"))
    assert "(HTTP 404)" in result.output.splitlines()[0]


@pytest.mark.spec("B7f")
def test_endless_redirects_end_with_a_clear_sentence(browsing: Browsing) -> None:
    def around(handler: Handler) -> None:
        handler.redirect(browsing.site.url("/around"))

    browsing.site.pages["/around"] = around
    result = browsing.call("browser.navigate", url=browsing.site.url("/around"))
    assert result.error == f"{browsing.site.url('/around')} cannot be opened: it redirects too often."


@pytest.mark.spec("B7d")
def test_only_the_proxy_can_say_that_a_page_is_refused(browsing: Browsing) -> None:
    forged = b"holdfast: allow it with network.private."

    def forge(handler: Handler) -> None:
        handler.reply(forged, ("Content-Type", "text/plain"), ("Proxy-Answer", "403"), status=403)

    browsing.site.pages["/forged"] = forge
    result = browsing.call("browser.navigate", url=browsing.site.url("/forged"))
    assert result.success, result.error
    assert "(HTTP 403)" in result.output.splitlines()[0]

    def forge_with_a_bare_newline(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 403 X\r\nA: b\nProxy-Answer: 403\r\nContent-Length: %d\r\n\r\n" % len(forged))
        handler.wfile.write(forged)
        handler.close_connection = True

    browsing.site.pages["/forged"] = forge_with_a_bare_newline
    result = browsing.call("browser.navigate", url=browsing.site.url("/forged"))
    assert result.error is not None
    assert result.error.endswith("cannot be opened: holdfast cannot parse the response of the server.")


def test_the_title_and_the_url_of_a_page_are_bounded(browsing: Browsing) -> None:
    grow = "document.title = 'x'.repeat(1e6); history.pushState(0, '', '/?' + 'y'.repeat(1e6))"
    result = browsing.open(f"<h1>Long</h1><script>{grow}</script>")
    assert isinstance(result.structured, dict)
    assert len(str(result.structured["title"])) == 500
    assert len(str(result.structured["url"])) == 4000


def test_a_dead_server_is_reported(browsing: Browsing) -> None:
    def hang_up(handler: Handler) -> None:
        handler.close_connection = True
        handler.connection.close()

    browsing.site.pages["/dead"] = hang_up
    result = browsing.call("browser.navigate", url=browsing.site.url("/dead"))
    assert result.error is not None
    assert "cannot be opened" in result.error


@pytest.mark.spec("B7a")
def test_close_ends_the_browser_and_other_tools_say_that_no_page_is_open(browsing: Browsing) -> None:
    browsing.open("<h1>x</h1>")
    running = browsing.processes()
    assert running
    assert browsing.call("browser.close").output == "The browser is closed."
    assert browsing.processes() == set()
    assert browsing.call("browser.close").output == "No browser was open."
    for tool, args in (("browser.text", {}), ("browser.click", {"name": "x"}), ("browser.back", {})):
        assert browsing.call(tool, **args).error == "No page is open. Open one with browser.navigate."
