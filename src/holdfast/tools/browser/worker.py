"""The process that controls Chromium with Playwright: reads operations from its standard input, one after another.

It has an environment without secrets, and it ends with its input: whatever happens to the runtime, no browser stays
behind. Only here Playwright is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.tools.browser.protocol import MAX_FRAME, Launch, PageEvent, Reply, Request, frame, read_frame

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from holdfast.tools.browser.page import PageControl

_CLOSE_SECONDS: Final = 5.0


class Worker:
    """Runs the operations of one session."""

    def __init__(self, control: PageControl, output: asyncio.StreamWriter) -> None:
        self._control = control
        self._output = output
        self._running: dict[int, asyncio.Task[None]] = {}

    def handle(self, request: Request) -> None:
        if request.operation is None:
            task = self._running.get(request.id)
            if task is not None:
                task.cancel()
            return
        self._running[request.id] = asyncio.create_task(self._perform(request))

    async def _perform(self, request: Request) -> None:
        assert request.operation is not None
        try:
            reply = await self._control.perform(request.id, request.operation, request.hosts, request.asked)
        except asyncio.CancelledError:
            self._control.take_events()  # they belong to no result
            reply = Reply(id=request.id, error="The operation was cancelled.")
        except Exception as error:
            reply = Reply(id=request.id, error=_first_line(error), events=self._control.take_events())
        finally:
            self._running.pop(request.id, None)
        try:
            self._output.write(frame(reply))
        except ValueError:
            self._output.write(frame(Reply(id=request.id, error="The answer of the browser is too large.")))
        await self._output.drain()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


async def _serve(reader: asyncio.StreamReader, output: asyncio.StreamWriter) -> None:
    # Imported here, because the process is started for nothing else and the runtime imports the rest of this package.
    from playwright.async_api import async_playwright

    from holdfast.tools.browser.page import PageControl

    first = await read_frame(reader)
    if first is None:
        return
    launch = msgspec.msgpack.decode(first, type=Launch)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=launch.executable,
            headless=launch.headless,
            chromium_sandbox=launch.sandboxed,
            args=list(launch.arguments),
            proxy={"server": launch.proxy, "username": launch.username, "password": launch.password},
            downloads_path=Path(launch.folder, "downloads"),
            env={name: value for name, value in os.environ.items() if not name.startswith("PLAYWRIGHT_")},
            handle_sighup=False,
            handle_sigint=False,
            handle_sigterm=False,
        )
        try:
            control = PageControl(browser, launch)
            await control.open()
            ready = PageEvent("browser", f"Chromium {browser.version}")
            output.write(frame(Reply(id=0, events=(ready,))))
            await output.drain()
            await _read_requests(reader, browser, Worker(control, output))
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(browser.close(), _CLOSE_SECONDS)


async def _read_requests(reader: asyncio.StreamReader, browser: Browser, worker: Worker) -> None:
    """Handle requests until there are no more, or the browser is gone."""
    gone = asyncio.Event()
    browser.on("disconnected", lambda _: gone.set())
    lost = asyncio.create_task(gone.wait())
    while browser.is_connected():
        reading = asyncio.create_task(read_frame(reader))
        await asyncio.wait((reading, lost), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done() or (received := reading.result()) is None:
            reading.cancel()
            break
        worker.handle(msgspec.msgpack.decode(received, type=Request))
    lost.cancel()


async def main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_FRAME)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    # Our own copy: a print in a library would otherwise end up between the frames.
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    output = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        await _serve(reader, output)
    except Exception as error:
        with contextlib.suppress(OSError):
            output.write(frame(Reply(id=0, error=_first_line(error))))
            await output.drain()


if __name__ == "__main__":
    asyncio.run(main())
