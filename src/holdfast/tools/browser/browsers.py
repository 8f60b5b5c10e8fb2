"""`ChromiumBrowsers`: one browser for each session, started on first use, in a process of its own behind the proxy."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from holdfast.fs.replace import make_private_folder
from holdfast.fs.temporary import make_temporary_folder, remove_temporary_folder
from holdfast.helper_process import holdfast_module, start_async
from holdfast.net.gateway import Gateway, RefusedHost
from holdfast.net.hosts import AllowList, normalize_host
from holdfast.net.network import Network
from holdfast.net.proxy import ProxyServer
from holdfast.text.escape import escape
from holdfast.tools.browser.chromium import ARGUMENTS, environment, find_chromium, no_chromium
from holdfast.tools.browser.protocol import (
    MAX_FRAME,
    Download,
    Launch,
    Navigate,
    Operation,
    PageEvent,
    PageView,
    Reply,
    Request,
    frame,
    read_frame,
)
from holdfast.tools.browser.service import Answer, BrowserError, BrowserSettings, StaleElement
from holdfast.tools.browser.snapshot import quote_name

T = TypeVar("T")

_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 3.0
_CANCEL_SECONDS: Final = 5.0
_MAX_SHOWN_REFUSALS: Final = 5
_MAX_REFUSALS: Final = 100
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_FILE_NAME: Final = 80
_MARK: Final = "HOLDFAST_BROWSER"
"""The variable by which the processes of a browser are found, even if they left its process group."""


class ChromiumBrowsers:
    """Satisfies `Browsers`. Runs in a thread of its own, so that any event loop can use it."""

    def __init__(self, network: Network, settings: BrowserSettings, quarantine: Path) -> None:
        """Finished downloads go to the folder `quarantine`."""
        self.settings = settings
        self.network = network
        self._quarantine = quarantine
        self._sessions: dict[str, ChromiumSession] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def session(self, name: str) -> ChromiumSession:
        """The browser of a session; it starts with the first operation."""
        with self._lock:
            found = self._sessions.get(name)
            if found is None:
                found = self._sessions[name] = ChromiumSession(self, self._quarantine)
            return found

    def check_number(self) -> None:
        """Raise if no further browser may be started."""
        with self._lock:
            running = sum(session.running or session.starting for session in self._sessions.values())
        if running >= self.settings.max_browsers:
            raise BrowserError(
                f"{running} browsers are open, which is the limit (browser.max_browsers). Close one with browser.close."
            )

    def refusal(self, host: str, port: int) -> str | None:
        decision = self.network.gateway("browser").check(host, port)
        return decision.reason if isinstance(decision, RefusedHost) else None

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the thread of the browsers; cancelling this cancels the work."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running_loop()))

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=loop.run_forever, name="holdfast-browser", daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Close all browsers and wait for their processes to end."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return

        async def close_all() -> None:
            await asyncio.gather(*(session.stop() for session in self._sessions.values()), return_exceptions=True)

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(close_all(), loop).result(4 * _END_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_END_SECONDS)
        if not thread.is_alive():
            loop.close()


class ChromiumSession:
    """Satisfies `BrowserSession`."""

    def __init__(self, browsers: ChromiumBrowsers, quarantine: Path) -> None:
        self._browsers = browsers
        self._settings = browsers.settings
        self._quarantine = quarantine
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._parts: AsyncExitStack | None = None
        self.folder: Path | None = None
        """The private folder of the browser, while it runs."""
        self._replies: dict[int, asyncio.Future[Reply]] = {}
        self._next = 0
        self._approved: dict[str, None] = {}
        self._refused: deque[tuple[str, str]] = deque(maxlen=_MAX_REFUSALS)
        self._notes: list[PageEvent] = []
        self._lost = False
        self.starting = False
        """Whether the browser is being started."""
        self.shown: PageView | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        """The process that controls the browser."""
        return None if self._process is None else self._process.pid

    @property
    def busy(self) -> bool:
        """Whether an operation is running."""
        return bool(self._replies)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts whose pages may be opened: approved in this session, or listed in the configuration."""
        return (*self._approved, *self._browsers.network.hosts)

    @property
    def asked_hosts(self) -> tuple[str, ...]:
        """The hosts that were approved in this session, and not only opened because the configuration lists them."""
        listed = AllowList(self._browsers.network.hosts, option="network.hosts")
        return tuple(host for host in self._approved if not listed.allows_entry(host))

    def forget_hosts(self) -> None:
        """Withdraw what navigations have allowed: an approval ends with its browser."""
        self._approved.clear()

    async def navigate(self, url: str, host: str) -> Answer:
        return await self._browsers.run(self._perform(Navigate(url), start=True, approved=host))

    async def perform(self, operation: Operation, *, start: bool = False) -> Answer:
        return await self._browsers.run(self._perform(operation, start=start))

    async def close(self) -> bool:
        if not self.running:
            return False
        await self._browsers.run(self.stop())
        return True

    async def _perform(self, operation: Operation, *, start: bool, approved: str | None = None) -> Answer:
        async with self._lock:
            if not self.running:
                if not start:
                    why = "The browser ended unexpectedly, so no page" if self._lost else "No page"
                    raise BrowserError(f"{why} is open. Open one with browser.navigate.")
                self._browsers.check_number()
                self.starting = True
                try:
                    await self._start()
                finally:
                    self.starting = False
            if approved is not None:
                self._approved[approved] = None
            self._refused.clear()
            reply = await self._ask(operation)
            events = (*self._take_notes(), *reply.events, *self._refusals(), *map(self._keep, reply.downloads))
            if reply.error is not None:
                if isinstance(operation, Navigate) and (reason := self._refusal_of(operation.url)) is not None:
                    raise BrowserError(reason)
                notes = "".join(f"\n{event.text}" for event in events)
                raise (StaleElement if reply.stale else BrowserError)(reply.error + notes)
            return Answer(reply=reply, events=events)

    async def _ask(self, operation: Any) -> Reply:
        assert self._process is not None
        assert self._process.stdin is not None
        self._next += 1
        request = Request(id=self._next, operation=operation, hosts=self.hosts, asked=self.asked_hosts)
        waiting = self._replies[request.id] = asyncio.get_running_loop().create_future()
        try:
            self._process.stdin.write(frame(request))
            return await waiting
        except asyncio.CancelledError:
            await asyncio.shield(self._cancel(request.id, waiting))
            raise
        finally:
            self._replies.pop(request.id, None)

    async def _cancel(self, request_id: int, waiting: asyncio.Future[Reply]) -> None:
        """Stop an operation; if the process does not confirm it, stop the process."""
        if self._process is None or self._process.stdin is None or not self.running:
            return
        answered = self._replies[request_id] = asyncio.get_running_loop().create_future()
        try:
            self._process.stdin.write(frame(Request(id=request_id, operation=None)))
            await asyncio.wait_for(answered, _CANCEL_SECONDS)
        except (BrowserError, TimeoutError, OSError):
            self._note("The browser did not stop in time, so it was closed. All pages and logins are gone.")
            await self.stop()

    async def _start(self) -> None:
        settings = self._settings
        executable = find_chromium(settings.executable)
        if executable is None:
            raise BrowserError(f"The browser cannot be started: {no_chromium(settings.executable)}")
        if self._lost:
            self._note("The browser had ended unexpectedly, so a new one was started. All pages and logins are gone.")
        await self.stop()
        self.shown = None
        self._lost = False
        is_root = os.geteuid() == 0
        async with AsyncExitStack() as parts:
            folder = self.folder = make_temporary_folder("browser")
            parts.callback(remove_temporary_folder, folder)
            parts.callback(_kill_marked, folder)
            proxy = await parts.enter_async_context(ProxyServer(self._gateway, on_refused=self._on_refused))
            process = await start_async(
                holdfast_module("holdfast.tools.browser.worker"),
                env={**environment(folder, headless=settings.headless), _MARK: folder.name},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                limit=MAX_FRAME,
            )
            parts.push_async_callback(_end, process)
            launch = Launch(
                executable=executable,
                arguments=ARGUMENTS,
                headless=settings.headless,
                sandboxed=not is_root,
                folder=str(folder),
                proxy=proxy.server,
                username=proxy.username,
                password=proxy.password,
                user_agent=settings.user_agent,
                navigation_seconds=settings.navigation_timeout,
                action_seconds=settings.action_timeout,
                download_bytes=settings.max_download_bytes,
                downloads=settings.max_downloads,
            )
            ready = self._replies[0] = asyncio.get_running_loop().create_future()
            reading = asyncio.ensure_future(self._read(process))
            parts.callback(reading.cancel)
            assert process.stdin is not None
            process.stdin.write(frame(launch))
            try:
                first = await asyncio.wait_for(ready, _START_SECONDS)
            except TimeoutError:
                raise BrowserError(f"Chromium did not start within {_START_SECONDS:g} s.") from None
            finally:
                self._replies.pop(0, None)
            if first.error is not None:
                raise BrowserError(f"Chromium could not be started: {escape(first.error)}")
            if is_root:
                self._note("Chromium runs without its own sandbox, because holdfast runs as root.")
            self._process = process
            self._parts = parts.pop_all()

    def _gateway(self) -> Gateway:
        """The gateway for the next connection of the browser."""
        only = self._approved if self._settings.subresources == "approved" else None
        # A page must not reach servers of the user's own network that the user was not asked about.
        return self._browsers.network.gateway("browser", hosts=only, private_for=self._approved)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Deliver the replies of a process until it ends."""
        assert process.stdout is not None
        with contextlib.suppress(ValueError, msgspec.MsgspecError):
            while (received := await read_frame(process.stdout)) is not None:
                reply = msgspec.msgpack.decode(received, type=Reply)
                waiting = self._replies.get(reply.id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(reply)
        self._lost = True
        await _end(process)
        self.forget_hosts()
        self._end_calls("The browser ended in the middle of the call. The next call starts a new one.")

    def _end_calls(self, why: str) -> None:
        for waiting in self._replies.values():
            if not waiting.done():
                waiting.set_exception(BrowserError(why))

    async def stop(self) -> None:
        """Close the browser; the next operation starts a new one."""
        parts, self._parts, self._process = self._parts, None, None
        self._end_calls("The browser was closed during the call.")
        self.forget_hosts()
        if parts is not None:
            await parts.aclose()
        self._lost = False
        self.shown = None

    def _on_refused(self, host: str, port: int, reason: str) -> None:
        self._refused.append((host, reason))

    def _refusals(self) -> list[PageEvent]:
        reasons = list(dict.fromkeys(reason for _, reason in self._refused))
        shown = [PageEvent("blocked", reason) for reason in reasons[:_MAX_SHOWN_REFUSALS]]
        more = len(reasons) - len(shown)
        return [*shown, PageEvent("blocked", f"{more} more hosts were refused.")] if more else shown

    def _refusal_of(self, url: str) -> str | None:
        wanted = normalize_host(urlsplit(url).hostname or "")
        return next((reason for host, reason in self._refused if host == wanted), None)

    def _note(self, text: str) -> None:
        self._notes.append(PageEvent("browser", text))

    def _take_notes(self) -> list[PageEvent]:
        notes, self._notes = self._notes, []
        return notes

    def _keep(self, download: Download) -> PageEvent:
        """Move a download into quarantine: a private folder, not executable, under a harmless name."""
        try:
            make_private_folder(self._quarantine)
            safe = _UNSAFE.sub("_", download.name).strip("._")[-_MAX_FILE_NAME:] or "file"
            content = sha256()
            target = self._quarantine / f"{os.urandom(4).hex()}-{safe}"
            into = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            size = 0
            with open(into, "wb") as output, open(download.path, "rb") as source:  # noqa: PTH123
                while block := source.read(1 << 20):
                    content.update(block)
                    size += len(block)
                    output.write(block)
            Path(download.path).unlink()
        except OSError as error:
            return PageEvent("download", f"{quote_name(download.name, 80)} could not be kept: {error.strerror}.")
        return PageEvent(
            "download",
            f"Downloaded {quote_name(download.name, 80)} ({size:,} bytes, sha256 {content.hexdigest()}) into "
            f"quarantine as {target}. It was not opened.",
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process: it closes the browser when its input ends; if it does not, it is killed with its group."""
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def processes_of(folder: Path) -> set[int]:
    """The processes of the browser with this folder. Those of Chromium leave its process group, and some overwrite
    their environment."""
    mark = folder.name.encode()
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):
            state, parent = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state == b"Z":
                continue
            parents[int(entry.name)] = int(parent)
            if any(mark in Path(entry.path, name).read_bytes() for name in ("cmdline", "environ")):
                found.add(int(entry.name))
    found.discard(os.getpid())
    while children := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= children
    return found


def _kill_marked(folder: Path) -> None:
    """Kill what is left of a browser."""
    for pid in processes_of(folder):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
