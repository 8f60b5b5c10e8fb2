"""What a page may not do: go to other hosts, open windows and dialogs without end, use the machine, fill the disk."""

from __future__ import annotations

import stat

import pytest

from tests.tools.browser.browsing import Browsing, Handler, needs_chromium, opened_browsing

pytestmark = needs_chromium
OTHER = "http://other.test:PORT/landing"


def link(browsing: Browsing) -> None:
    browsing.open(f"<a href='{OTHER}'>go</a>")


def script(browsing: Browsing) -> None:
    browsing.open(f"<button onclick=\"location = '{OTHER}'\">go</button>")


def form(browsing: Browsing) -> None:
    browsing.open(f"<form action='{OTHER}' method=post><button>go</button></form>")


def redirect(browsing: Browsing) -> None:
    browsing.site.pages["/away"] = lambda handler: handler.redirect(OTHER)
    browsing.open("<a href='/away'>go</a>")


def refresh(browsing: Browsing) -> None:
    browsing.site.pages["/away"] = f"<meta http-equiv=refresh content='0;url={OTHER}'><h1>Leaving</h1>"
    browsing.open("<a href='/away'>go</a>")


def window(browsing: Browsing) -> None:
    browsing.open(f"<button onclick=\"window.open('{OTHER}')\">go</button>")


def new_tab(browsing: Browsing) -> None:
    browsing.open(f"<a target=_blank href='{OTHER}'>go</a>")


@pytest.mark.spec("B7d")
@pytest.mark.parametrize("way", [link, script, form, redirect, refresh, window, new_tab], ids=lambda way: way.__name__)
def test_a_page_cannot_lead_to_another_host_and_the_result_says_where_it_wanted_to_go(
    shared_browsing: Browsing, browsing: Browsing, way: object
) -> None:
    browsing.site.pages["/landing"] = "<h1>Landed</h1>"
    assert callable(way)
    way(browsing)
    result = browsing.call("browser.click", name="go")
    wanted = f"The page wanted to go to {browsing.site.url('/landing', 'other.test')}"
    assert wanted in result.text
    assert "call browser.navigate" in result.text
    assert not any("other.test" in request for request in browsing.site.requests)
    assert "Landed" not in browsing.page()


@pytest.mark.spec("B7d")
def test_a_page_leads_to_a_host_that_was_approved_in_the_session(browsing: Browsing) -> None:
    browsing.open("<h1>Landed</h1>", "/landing", host="other.test")
    link(browsing)
    assert 'h1 "Landed"' in browsing.call("browser.click", name="go").output


@pytest.mark.spec("B7d")
def test_a_redirect_of_navigate_itself_is_stopped_too(browsing: Browsing) -> None:
    browsing.site.pages["/away"] = lambda handler: handler.redirect(OTHER)
    result = browsing.call("browser.navigate", url=browsing.site.url("/away"))
    assert result.error is not None
    assert f"The page wanted to go to {browsing.site.url('/landing', 'other.test')}" in result.error
    assert browsing.site.requests == ["GET shop.test/away"]


def test_a_window_of_the_same_host_is_shown_in_place_of_the_page(browsing: Browsing) -> None:
    browsing.site.pages["/second"] = "<h1>Second</h1>"
    browsing.open("<a target=_blank href='/second'>go</a>")
    result = browsing.call("browser.click", name="go")
    assert "! The page opened a new window; it is shown in place of the page." in result.output
    assert 'h1 "Second"' in result.output


@pytest.mark.spec("B7f")
def test_dialogs_are_dismissed_and_reported(browsing: Browsing) -> None:
    browsing.open(
        "<button onclick=\"out.textContent = confirm('Delete all?') + ',' + prompt('Name?')\">go</button><p id=out>"
    )
    result = browsing.call("browser.click", name="go")
    assert "! Dismissed confirm dialog: «Delete all?»" in result.output
    assert "! Dismissed prompt dialog: «Name?»" in result.output
    assert '"false,null"' in result.output


@pytest.mark.spec("B7f")
def test_a_page_that_opens_dialogs_without_end_is_closed(browsing: Browsing) -> None:
    browsing.open("<button onclick=\"while (true) alert('again')\">go</button>")
    result = browsing.call("browser.click", name="go")
    assert "The page opened more than 20 dialogs, so it was closed." in result.text
    assert 'h1 "Still here"' in browsing.open("<h1>Still here</h1>", "/after").output


@pytest.mark.spec("B7f")
def test_a_page_that_closes_itself_leaves_a_working_browser(browsing: Browsing) -> None:
    browsing.open("<h1>First</h1>", "/first")
    browsing.open("<button onclick=\"window.open('', '_self'); window.close()\">go</button>")
    browsing.call("browser.click", name="go")
    assert 'h1 "Next"' in browsing.open("<h1>Next</h1>", "/next").output


@pytest.mark.spec("B7d")
def test_a_page_sends_data_only_to_its_own_host_and_to_hosts_that_were_asked_about(
    browsing: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = (f"other.test:{browsing.site.port}",)
    monkeypatch.setattr(browsing.browsers.network, "hosts", listed)
    browsing.site.pages["/done"] = "<h1>Arrived</h1>"
    form = (
        "<form action='http://{}:PORT/done' method=post></form><h1>Form</h1><script>document.forms[0].submit()</script>"
    )

    result = browsing.open(form.format("other.test"))
    assert "The page wanted to send data with POST to" in result.output
    # It was opened before without asking, because it is listed.
    browsing.open("<h1>Listed</h1>", "/listed", host="other.test")
    assert "The page wanted to send data" in browsing.open(form.format("other.test")).output
    away = "<form action='/away' method=post></form><h1>Form</h1><script>document.forms[0].submit()</script>"
    browsing.site.pages["/away"] = lambda handler: handler.redirect(OTHER, status=307)
    assert "The page wanted to send data" in browsing.open(away).output
    assert not any(request.startswith("POST other.test") for request in browsing.site.requests)

    assert "Arrived" in browsing.open(form.format("other.test"), "/own", host="other.test").output
    assert "Arrived" in browsing.open(form.format("shop.test")).output
    monkeypatch.setattr(browsing.browsers.network, "hosts", ())
    assert "Arrived" in browsing.open(form.format("other.test")).output


@pytest.mark.spec("B7d")
def test_subresources_come_from_public_hosts_but_private_addresses_are_refused(browsing: Browsing) -> None:
    browsing.site.pages["/data"] = lambda handler: handler.reply(b"from cdn", ("Access-Control-Allow-Origin", "*"))
    fetching = "fetch('{}').then(r => r.text(), () => 'refused').then(t => {{ out.textContent += t + ';' }});"
    urls = ("http://public.test:PORT/data", "http://127.0.0.1:PORT/data", "http://localhost:PORT/data")
    browsing.open(f"<p id=out></p><script>{''.join(map(fetching.format, urls))}</script>")
    browsing.call("browser.wait", text=";", seconds=5)
    browsing.call("browser.wait", seconds=0.5)
    text = browsing.page()
    assert "from cdn" in text
    assert text.count("refused") == 2
    assert [request for request in browsing.site.requests if "data" in request] == ["GET public.test/data"]


@pytest.mark.spec("B7d")
def test_a_page_reaches_a_private_host_only_after_it_was_approved(browsing: Browsing) -> None:
    browsing.site.pages["/delete"] = "deleted"
    send = "fetch('http://cdn.test:PORT/delete', {method: 'POST', mode: 'no-cors'})"
    body = f"<p id=out></p><script>{send}.finally(() => {{ out.textContent = 'sent' }})</script>"
    browsing.open(body)
    assert browsing.call("browser.wait", text="sent", seconds=30).success
    assert "POST cdn.test/delete" not in browsing.site.requests
    browsing.open("<h1>Approved</h1>", "/other", host="cdn.test")
    browsing.open(body)
    assert browsing.call("browser.wait", text="sent", seconds=30).success
    assert "POST cdn.test/delete" in browsing.site.requests


@pytest.mark.spec("B7d")
def test_powerful_features_are_off(browsing: Browsing) -> None:
    checks = {
        "clipboard": "navigator.clipboard ? navigator.clipboard.readText() : Promise.reject()",
        "geolocation": "new Promise((yes, no) => navigator.geolocation.getCurrentPosition(yes, no))",
        "notifications": "Notification.requestPermission().then(p => { if (p !== 'granted') throw p })",
        "worker": "navigator.serviceWorker ? navigator.serviceWorker.register('/sw.js') : Promise.reject()",
        "usb": "navigator.usb ? navigator.usb.requestDevice({filters: []}) : Promise.reject()",
        "camera": "navigator.mediaDevices ? navigator.mediaDevices.getUserMedia({video: true}) : Promise.reject()",
        "file": "fetch('file:///etc/passwd')",
        "frame": "fetch('chrome://version')",
    }
    scripts = "".join(
        f"""try {{ Promise.resolve({code}).then(() => show('{name} allowed'), () => show('{name} refused')) }}
        catch {{ show('{name} refused') }};"""
        for name, code in checks.items()
    )
    browsing.site.pages["/sw.js"] = lambda handler: handler.reply(b"", ("Content-Type", "text/javascript"))
    browsing.open(
        "<p id=out></p><script>function show(t) { out.textContent += t + '; ' }"
        f"window.onload = () => {{ {scripts} }}</script><iframe src='file:///etc/passwd'></iframe>"
    )
    browsing.call("browser.wait", seconds=1)
    text = browsing.page()
    assert "allowed" not in text
    assert text.count("refused") >= len(checks) - 1
    assert "root:" not in text


@pytest.mark.spec("B7g")
def test_a_download_goes_into_quarantine_under_a_harmless_name(browsing: Browsing) -> None:
    browsing.site.pages["/file"] = lambda handler: handler.reply(
        b"#!/bin/sh\necho hi\n",
        ("Content-Type", "application/x-sh"),
        ("Content-Disposition", 'attachment; filename="../../..\u202e/run me.sh"'.encode().decode("latin-1")),
    )
    browsing.open("<a href='/file'>get</a>")
    result = browsing.call("browser.click", name="get")
    (kept,) = (browsing.folder / "quarantine").iterdir()
    assert str(kept) in result.output
    assert "It was not opened." in result.output
    assert kept.read_bytes() == b"#!/bin/sh\necho hi\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.name.isascii()
    assert not set(kept.name) & set("/ \\")
    kept.unlink()


@pytest.mark.spec("B7g")
def test_downloads_are_bounded_in_size_and_number(tmp_path_factory: pytest.TempPathFactory) -> None:
    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Disposition", "attachment; filename=big.bin")
        handler.send_header("Content-Length", str(1 << 30))
        handler.end_headers()
        try:
            for _ in range(1 << 14):
                handler.wfile.write(b"x" * 65536)
        except OSError:
            handler.close_connection = True

    folder = tmp_path_factory.mktemp("limits")
    with opened_browsing(folder, max_download_bytes=1_000_000, max_downloads=2) as browsing:
        browsing.site.pages["/big"] = endless
        browsing.site.pages["/small"] = lambda handler: handler.reply(b"x", ("Content-Disposition", "attachment"))
        browsing.open("<a href='/big'>big</a><a href='/small'>small</a>")
        big = browsing.call("browser.click", name="big")
        assert "«big.bin» was not downloaded: it is larger than 1,000,000 bytes." in big.output
        assert "Downloaded" in browsing.call("browser.click", name="small").output
        third = browsing.call("browser.click", name="small")
        assert "was not downloaded: a session downloads at most 2 files." in third.output
        assert len(list((folder / "quarantine").iterdir())) == 1


@pytest.mark.spec("B7d")
def test_pages_can_be_limited_to_approved_hosts_for_everything_they_load(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with opened_browsing(tmp_path_factory.mktemp("strict"), subresources="approved") as browsing:
        browsing.site.pages["/data"] = lambda handler: handler.reply(b"from cdn", ("Access-Control-Allow-Origin", "*"))
        browsing.open(
            "<p id=out></p><script>fetch('http://cdn.test:PORT/data').then(() => { out.textContent = 'loaded' },"
            " () => { out.textContent = 'refused' })</script>"
        )
        assert browsing.call("browser.wait", text="refused", seconds=30).success
        assert not any("cdn.test" in request for request in browsing.site.requests)


def test_a_file_field_gets_no_file(browsing: Browsing) -> None:
    browsing.open("<input type=file aria-label=Upload>")
    result = browsing.call("browser.click", name="Upload")
    assert "The page asked for a file; browser tools give none." in result.text
