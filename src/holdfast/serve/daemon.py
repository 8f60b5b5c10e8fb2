"""Runs the daemon: sockets, the watch over the ledgers, and the application, until it is stopped.

It keeps nothing that a restart loses: calls, answers and grants are in the ledgers, people and sessions in a file of
the user's state folder, and the position of a reader in the reader.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TextIO

from msgspec import Struct

from holdfast.contract.errors import ConfigError
from holdfast.factory.runtime import Project
from holdfast.fs.own_paths import user_state_dir
from holdfast.net.server import listen, listen_unix, run
from holdfast.serve.app import build_app, guarded
from holdfast.serve.notifications import open_notifier, report_pending
from holdfast.serve.projects import Flags, Projects
from holdfast.serve.scheduler import run_schedules
from holdfast.serve.security import Origins
from holdfast.serve.watch import LedgerWatch
from holdfast.store.people import People

PORT: Final = 4632
SOCKET: Final = "serve.sock"
PEOPLE: Final = "people.db"
_LOOPBACK: Final = ("127.0.0.1", "localhost")


class Address(Struct, frozen=True, kw_only=True):
    """Where the daemon listens."""

    host: str = "127.0.0.1"
    port: int = PORT
    """0 takes a free one."""
    origins: Collection[str] = ()
    """Origins beyond loopback from which it may be used."""
    unix: Path | None = None


def people_file() -> Path:
    return user_state_dir() / PEOPLE


def check_address(address: Address, people: People) -> None:
    """Raise `ConfigError` for a daemon that others could reach without a trusted origin and a token."""
    if address.host in _LOOPBACK:
        return
    if not address.origins:
        raise ConfigError(
            f"{address.host} can be reached from other machines. Name the address in the browser with "
            "--origin https://HOST, or use an SSH tunnel to 127.0.0.1."
        )
    if not people.list():
        raise ConfigError(
            f"{address.host} can be reached from other machines, and nobody has a token yet. "
            "Add a person first: `holdfast serve people add NAME`."
        )


async def serve(
    project: Project,
    address: Address,
    *,
    every: bool,
    flags: Flags,
    started: Callable[[str], None],
    terminal: TextIO | None = None,
) -> None:
    """Serve until cancelled. `started` is called with the address when requests are answered.

    `terminal` is the stream whose terminal is notified of pending calls.
    """
    people = People(people_file())
    check_address(address, people)
    with ExitStack() as stack:
        tcp = stack.enter_context(listen(address.host, address.port))
        sockets: list[socket.socket] = [tcp]
        port: int = tcp.getsockname()[1]
        origins = Origins.of(port, address.origins)
        projects = Projects(project, every=every, flags=flags)
        projects.refresh()
        watch = LedgerWatch(projects)
        app = build_app(projects, watch, people, port=port)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(watch.run())
                if address.unix is not None:
                    private = stack.enter_context(listen_unix(address.unix))
                    stack.callback(address.unix.unlink, missing_ok=True)
                    tasks.create_task(run(guarded(app, people, origins, port=port, local=True), [private]))
                url = f"http://127.0.0.1:{port}" if address.host in _LOOPBACK else next(iter(address.origins))
                notifier = open_notifier(project, projects, url, terminal=terminal, state=user_state_dir())
                tasks.create_task(run_schedules(projects, watch))
                tasks.create_task(notifier.run())
                tasks.create_task(report_pending(projects, watch, notifier))
                started(url)
                await run(guarded(app, people, origins, port=port), sockets)
        finally:
            await projects.close()
