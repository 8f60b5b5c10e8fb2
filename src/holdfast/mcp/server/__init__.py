"""Serves the tools of a runtime as an MCP server over stdio or HTTP, with approvals. The SDK is imported on use."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from holdfast.contract.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

HOST: Final = "127.0.0.1"
PATH: Final = "/mcp"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


async def serve_stdio(runtime: Runtime) -> None:
    """Serve one client on stdin and stdout until it disconnects. Other output of the process goes to stderr.

    In the main thread SIGTERM and SIGINT shut it down gracefully.
    """
    from holdfast.mcp.server.stdio import serve

    await _until_told(serve(runtime))


async def serve_http(
    runtime: Runtime,
    *,
    token: str | None,
    host: str = HOST,
    port: int = 0,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve any number of clients on loopback until cancelled or signalled; `started` is called with the address.

    Requests must carry `Authorization: Bearer TOKEN`. Without a token every local process is let in.
    """
    if host != HOST:
        raise ConfigError(f"MCP over HTTP serves this machine only. Use host {HOST}, not '{host}'.")
    from holdfast.mcp.server.http import serve

    await _until_told(serve(runtime, token=token, host=host, path=PATH, port=port, started=started))


async def _until_told(serving: Coroutine[Any, Any, None]) -> None:
    """Serve until it ends by itself or SIGTERM or SIGINT arrives; a second signal gets its previous handler."""
    work = asyncio.create_task(serving)
    told = False

    def stop() -> None:
        nonlocal told
        told = True
        work.cancel()

    with _heard(stop):
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait((work,))
            raise
    if told:
        with suppress(asyncio.CancelledError):
            await work
    else:
        await work


@contextmanager
def _heard(stop: Callable[[], None]) -> Generator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            if loop.remove_signal_handler(number) and handler is not None:
                signal.signal(number, handler)

    def heard() -> None:
        restore()
        stop()

    for number in _SIGNALS:
        loop.add_signal_handler(number, heard)
    try:
        yield
    finally:
        restore()
