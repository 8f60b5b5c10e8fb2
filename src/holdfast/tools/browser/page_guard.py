"""`PageGuard`: the page of a session, within its limits.

Opens only pages of allowed hosts, answers dialogs, closes windows, keeps downloads, and replaces a page that crashed or
hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from playwright.async_api import Error

from holdfast.net.hosts import AllowList, normalize_host, parse_origin
from holdfast.text.escape import escape, escape_once, escape_url
from holdfast.tools.browser.protocol import MAX_URL, Download, FrameSeen, Launch, PageEvent
from holdfast.tools.browser.service import origin_of
from holdfast.tools.browser.snapshot import quote_name

if TYPE_CHECKING:
    from playwright.async_api import (
        Browser,
        BrowserContext,
        CDPSession,
        ConsoleMessage,
        Dialog,
        FileChooser,
        Frame,
        Page,
        Route,
    )
    from playwright.async_api import (
        Download as PageDownload,
    )
    from playwright.async_api import (
        Request as PageRequest,
    )

VIEWPORT: Final = {"width": 1280, "height": 800}
MAX_EVENTS: Final = 20
MAX_DIALOGS: Final = 20
"""Dialogs during one operation; a page that opens more is closed."""
_DIALOGS_SHOWN: Final = 5
_QUIET: Final = 0.15
_SETTLE: Final = 3.0
"""Seconds without a request after which a page counts as finished, and the most that is waited for that."""
_PART_SECONDS: Final = 2.0
_POLL: Final = 0.05
_RECOVER: Final = 5.0
_CRASH_SECONDS: Final = 1.0
_NETWORK_SCHEMES: Final = ("http", "https")


class NotPossible(Exception):
    """What was asked for cannot be done; the message says why."""


class PageNotLoaded(Exception):
    """The document has not come in time."""


class PageGuard:
    """The page of one session, and what happens on it."""

    def __init__(self, browser: Browser, launch: Launch) -> None:
        self._browser = browser
        self._launch = launch
        self._context: BrowserContext | None = None
        self._page: Page | None = None
        self._session: CDPSession | None = None
        self._hosts = AllowList()
        self._asked = AllowList()
        self._events: list[PageEvent] = []
        self._dropped_events = 0
        self._dialogs = 0
        self._downloads: list[Download] = []
        self._download_count = 0
        self._work: set[asyncio.Task[None]] = set()
        """What events have started."""
        self._requests: set[PageRequest] = set()
        self._last_request = 0.0
        self._window: str | None = None
        """Where the page wanted to open a window."""
        self.document = 0
        """Counts the documents that were loaded."""
        self._frame_documents: dict[Frame, int] = {}
        self._next_frame_document = 1

    def begin(self, hosts: tuple[str, ...], asked: tuple[str, ...]) -> None:
        """Start an operation, during which pages of `hosts` may be opened, and pages may send data to `asked`."""
        self._hosts = AllowList(hosts)
        self._asked = AllowList(asked)
        self._dialogs = 0
        self._window = None

    def take_downloads(self) -> tuple[Download, ...]:
        found, self._downloads = self._downloads, []
        return tuple(found)

    async def open(self) -> None:
        self._context = await self._browser.new_context(
            accept_downloads=True,
            service_workers="block",
            permissions=[],
            viewport=cast(Any, VIEWPORT),
            user_agent=self._launch.user_agent,
            bypass_csp=False,
        )
        self._context.set_default_timeout(self._launch.action_seconds * 1000)
        self._context.on("page", self._close_window)
        await self._context.route("**/*", self._stop_windows)
        await self._new_page()

    def take_events(self) -> tuple[PageEvent, ...]:
        found, self._events = self._events, []
        if self._dropped_events:
            found.append(PageEvent("browser", f"{self._dropped_events} more events are not shown."))
            self._dropped_events = 0
        return tuple(found)

    def current(self) -> Page:
        page = self.current_or_none()
        if page is None:
            raise NotPossible("The page was closed. Open one with browser.navigate.")
        return page

    def current_or_none(self) -> Page | None:
        return None if self._page is None or self._page.is_closed() else self._page

    async def ensure_page(self) -> None:
        if self.current_or_none() is None:
            await self._new_page()

    async def _new_page(self) -> None:
        assert self._context is not None
        self._page = None
        page = await self._context.new_page()
        self._page = page
        self.document += 1
        self._frame_documents.clear()
        self._requests.clear()
        page.on("dialog", self._on_dialog)
        page.on("download", self._on_download)
        page.on("framenavigated", self._on_navigated)
        page.on("frameattached", self._count_document)
        page.on("framedetached", self._forget_frame)
        page.on("request", self._on_request)
        page.on("requestfinished", self._on_request_end)
        page.on("requestfailed", self._on_request_end)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.note("error", f"Script error: {short_error(error)}"))
        page.on("crash", self._on_crash)
        page.on("filechooser", self._on_file_chooser)
        page.on("close", self._on_close)
        session = self._session = await self._context.new_cdp_session(page)
        tree = cast(dict[str, Any], await _send(session, "Page.getFrameTree"))
        main_frame = str(tree["frameTree"]["frame"]["id"])

        def paused(event: dict[str, Any]) -> None:
            task = asyncio.ensure_future(self._judge_navigation(session, event, main_frame))
            self._work.add(task)
            task.add_done_callback(self._work.discard)

        session.on("Fetch.requestPaused", paused)
        session.on("Page.windowOpen", self._on_window)
        await _send(session, "Page.enable")
        # Playwright's own routes do not see redirects; Chromium's interception sees each hop.
        patterns = [{"urlPattern": "*", "resourceType": "Document", "requestStage": "Request"}]
        await _send(session, "Fetch.enable", {"patterns": patterns})

    async def _judge_navigation(self, session: CDPSession, event: dict[str, Any], main_frame: str) -> None:
        url = str(event["request"]["url"])
        refusal = None
        if event.get("frameId") == main_frame:
            refusal = self.refusal(url) or self._sending_refusal(str(event["request"]["method"]), url)
        if refusal is not None:
            self.note("blocked", refusal)
        answer: dict[str, Any] = {"requestId": event["requestId"]}
        with contextlib.suppress(Error):
            if refusal is None:
                await _send(session, "Fetch.continueRequest", answer)
            else:
                # "No Content" leaves the page as it is, also while it is still loading.
                await _send(session, "Fetch.fulfillRequest", {**answer, "responseCode": 204})

    def refusal(self, url: str) -> str | None:
        """Return why the page must not go there, or None."""
        if url == "about:blank":
            return None
        try:
            scheme, name, port = parse_origin(url)
        except ValueError:
            scheme, name, port = "", "", None
        host = normalize_host(name)
        if scheme not in _NETWORK_SCHEMES or host is None or port is None:
            return f"The page wanted to go to {escape_url(url[:500])}, which browser tools never open."
        if self._hosts.allows(host, port):
            return None
        return (
            f"The page wanted to go to {escape_url(url[:500])}. That host is not approved in this session: "
            "to go there, call browser.navigate."
        )

    def _sending_refusal(self, method: str, url: str) -> str | None:
        """Return why the page must not send data there, or None: only to its own host, and where the user was asked."""
        target = origin_of(url)
        page = self.current_or_none()
        if method in ("GET", "HEAD") or target is None or page is None or self._asked.allows(target.host, target.port):
            return None
        if target == origin_of(page.url):
            return None
        return (
            f"The page wanted to send data with {escape(method)} to {escape_url(url[:500])}. network.hosts lists that "
            "host, but nobody approved it in this session, so only its own pages may send data to it."
        )

    async def settle(self) -> None:
        """Wait until the page has asked for nothing new for a moment, within limits."""
        began = time.monotonic()
        while (now := time.monotonic()) - began < _SETTLE:
            await asyncio.sleep(_POLL)
            quiet = now - max(self._last_request, began) >= _QUIET
            if quiet and not self._requests and not self._window:
                break
            if self.current_or_none() is None:
                return
            if self._window:
                break
        await self.finish_work()
        if self.current_or_none() is not None:
            with contextlib.suppress(PageNotLoaded, NotPossible):
                await self.wait_until_parsed()

    async def wait_until_parsed(self) -> None:
        """Wait for the document. Raises `PageNotLoaded`.

        Playwright's own load states never come for a page that was kept from leaving while it was loading.
        """
        ends = time.monotonic() + self._launch.navigation_seconds
        while time.monotonic() < ends:
            page = self.current()
            with contextlib.suppress(TimeoutError, Error):
                state = await asyncio.wait_for(page.evaluate("document.readyState"), _PART_SECONDS)
                if state != "loading":
                    return
            await asyncio.sleep(_POLL)
        raise PageNotLoaded

    async def follow_window(self) -> None:
        """Open what the page wanted to open in a new window, if its host is allowed."""
        url, self._window = self._window, None
        page = self.current_or_none()
        if url is None or page is None:
            return
        refusal = self.refusal(url)
        if refusal is not None:
            self.note("blocked", refusal)
            return
        self.note("window", "The page opened a new window; it is shown in place of the page.")
        with contextlib.suppress(Error):
            await page.goto(url, wait_until="domcontentloaded", timeout=self._launch.navigation_seconds * 1000)
        await self.settle()

    async def stop_loading(self) -> None:
        page = self.current_or_none()
        if page is not None:
            with contextlib.suppress(Error, TimeoutError):
                await asyncio.wait_for(page.goto("about:blank", timeout=_RECOVER * 1000), _RECOVER)
                return
            await self.replace_hung_page()

    async def replace_hung_page(self) -> str:
        """Replace a page that does not answer, and return the message about it."""
        page, self._page = self._page, None
        url = "" if page is None else page.url
        if page is not None:
            with contextlib.suppress(Error, TimeoutError):
                # Another page of the same site could share the process that hangs.
                if self._session is not None:
                    await asyncio.wait_for(_send(self._session, "Page.crash"), _CRASH_SECONDS)
            with contextlib.suppress(Error, TimeoutError):
                await asyncio.wait_for(page.close(), _RECOVER)
        await asyncio.wait_for(self._new_page(), 2 * _RECOVER)
        seconds = self._launch.action_seconds
        return f"The page {escape_url(url)} did not answer within {seconds:g} s, so it was closed."

    def note(self, kind: Any, text: str) -> None:
        if len(self._events) < MAX_EVENTS:
            self._events.append(PageEvent(kind, escape_once(text[:1000])))
        else:
            self._dropped_events += 1

    def frames_around(self, frame: Frame) -> tuple[FrameSeen, ...]:
        """Return a frame and those around it, without the page itself."""
        found: list[FrameSeen] = []
        while (around := frame.parent_frame) is not None:
            found.append(FrameSeen(frame.url[:MAX_URL], self._frame_documents.get(frame, 0)))
            frame = around
        return tuple(found)

    def _count_document(self, frame: Frame) -> None:
        self._frame_documents[frame] = self._next_frame_document
        self._next_frame_document += 1

    def _forget_frame(self, frame: Frame) -> None:
        self._frame_documents.pop(frame, None)

    def _on_navigated(self, frame: Frame) -> None:
        if frame.page != self._page:
            return
        if frame.parent_frame is not None:
            self._count_document(frame)
            return
        self.document += 1
        url = frame.url
        if urlsplit(url).scheme not in (*_NETWORK_SCHEMES, "about", "chrome-error"):
            self.note("blocked", f"The page wanted to go to {escape_url(url[:200])}, which browser tools never open.")
            self._start(self.stop_loading())

    def _on_request(self, request: PageRequest) -> None:
        self._requests.add(request)
        self._last_request = time.monotonic()

    def _on_request_end(self, request: PageRequest) -> None:
        self._requests.discard(request)

    def _on_dialog(self, dialog: Dialog) -> None:
        self._dialogs += 1
        if self._dialogs > MAX_DIALOGS:
            if self._dialogs == MAX_DIALOGS + 1:
                self.note("dialog", f"The page opened more than {MAX_DIALOGS} dialogs, so it was closed.")
                if self._page is not None:
                    self._start(self._page.close())
            return
        if self._dialogs <= _DIALOGS_SHOWN:
            self.note("dialog", f"Dismissed {dialog.type} dialog: {quote_name(dialog.message[:300])}")
        self._start(dialog.dismiss())

    async def _stop_windows(self, route: Route) -> None:
        """Stop what a new window would load. It is closed at once, but not before its first request."""
        try:
            own = self._page is None or route.request.frame.page == self._page
        except Error:  # the window has no frame yet
            own = False
        with contextlib.suppress(Error):
            await (route.fallback() if own else route.abort())

    def _close_window(self, window: Page) -> None:
        if self._page is not None and window != self._page:
            self._start(window.close())

    def _on_window(self, event: dict[str, Any]) -> None:
        if self._window is None and event.get("url") not in (None, "", "about:blank"):
            self._window = str(event["url"])

    def _on_download(self, download: PageDownload) -> None:
        self._start(self._keep_download(download))

    async def _keep_download(self, download: PageDownload) -> None:
        name = quote_name(download.suggested_filename)
        if self._download_count >= self._launch.downloads:
            self.note(
                "download", f"{name} was not downloaded: a session downloads at most {self._launch.downloads} files."
            )
            await download.cancel()
            return
        self._download_count += 1
        waiting = asyncio.ensure_future(download.path())
        folder = Path(self._launch.folder, "downloads")
        while not waiting.done():
            await asyncio.wait((waiting,), timeout=_POLL)
            if _largest(folder) > self._launch.download_bytes:
                await download.cancel()
                break
        try:
            path = await waiting
        except Error as error:
            limit = self._launch.download_bytes
            why = f"it is larger than {limit:,} bytes" if "canceled" in error.message else short_error(error)
            self.note("download", f"{name} was not downloaded: {why}.")
            return
        self._downloads.append(Download(download.suggested_filename, str(path), download.url[:2000]))

    async def finish_work(self) -> None:
        running = [task for task in self._work if not task.done()]
        if running:
            await asyncio.wait(running, timeout=self._launch.navigation_seconds)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.note("error", f"Console: {message.text[:300]}")

    def _on_crash(self, page: Page) -> None:
        if page == self._page:
            self.note("browser", "The page crashed and was closed.")
            self._start(page.close())

    def _on_close(self, page: Page) -> None:
        if page == self._page:
            self._page = None

    def _on_file_chooser(self, chooser: FileChooser) -> None:
        self.note("file", "The page asked for a file; browser tools give none.")

    def _start(self, work: Any) -> None:
        """Run something that an event starts; the next `_settle` waits for it."""

        async def quietly() -> None:
            with contextlib.suppress(Error):
                await work

        task = asyncio.ensure_future(quietly())
        self._work.add(task)
        task.add_done_callback(self._work.discard)


async def _send(session: CDPSession, method: str, arguments: dict[str, Any] | None = None) -> Any:
    return await cast(Any, session).send(method, arguments or {})


def _largest(folder: Path) -> int:
    """Return the size of the largest file in a folder."""
    try:
        return max((entry.stat().st_size for entry in os.scandir(folder)), default=0)
    except OSError:
        return 0


def short_error(error: object) -> str:
    return (next(iter(str(error).splitlines()), "") or type(error).__name__)[:300]
