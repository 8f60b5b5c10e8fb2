"""Debian's Chromium by Playwright, and a second origin that plays the attacker."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Browser, Page, sync_playwright

from holdfast.tools.browser.chromium import find_chromium


@contextmanager
def chromium(*args: str) -> Generator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(find_chromium()), args=["--no-sandbox", "--disable-dev-shm-usage", *args]
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Attacker:
    """A web server of somebody else on this machine."""

    port: int
    pages: dict[str, str] = field(default_factory=dict[str, str])
    heard: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    """Each request line with its headers."""

    def url(self, host: str = "localhost") -> str:
        """`localhost` is another site than 127.0.0.1; with 127.0.0.1 it is the same site and another origin."""
        return f"http://{host}:{self.port}"


@contextmanager
def attacker() -> Generator[Attacker]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.heard.append((f"{self.command} {self.path}", dict(self.headers.items())))
            body = found.pages.get(self.path.partition("?")[0], "").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Attacker(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def log_in(page: Page, url: str, code: str) -> None:
    """Log in by the form, as a person without JavaScript does."""
    page.goto(f"{url}/login")
    page.fill("#secret", code)
    page.click("main button")
    page.wait_for_url(f"{url}/")
