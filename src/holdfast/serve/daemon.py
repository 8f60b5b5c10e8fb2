"""Runs the daemon: sockets, the watch over the ledgers, and the application behind the gate, until it is stopped.

It keeps nothing that a restart loses: calls, answers and grants are in the ledgers, people and sessions in a file of
the user's state folder, and the position of a reader in the reader.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from holdfast.contract.errors import ConfigError, HoldfastError
from holdfast.factory.runtime import Project
from holdfast.fs.own_paths import user_state_dir
from holdfast.fs.replace import make_private_folder
from holdfast.net.server import is_served, listen, listen_unix, run
from holdfast.serve.api import Api
from holdfast.serve.documents import Documents
from holdfast.serve.history import History
from holdfast.serve.html import page
from holdfast.serve.live import Live
from holdfast.serve.media import Media
from holdfast.serve.notifications import open_notifier, report_pending
from holdfast.serve.pages import Pages
from holdfast.serve.policy_page import PolicyPage
from holdfast.serve.projects import Flags, Projects
from holdfast.serve.requests import Streams, json_reply, on_error, wants_json
from holdfast.serve.scheduler import run_schedules
from holdfast.serve.security import Gate, Origins
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


class Started(Struct, frozen=True, kw_only=True):
    """A daemon that answers requests."""

    url: str
    unix: Path | None
    """The private socket; None if another daemon has it."""


async def serve(
    project: Project,
    address: Address,
    *,
    every: bool,
    flags: Flags,
    started: Callable[[Started], None],
    terminal: TextIO | None = None,
) -> None:
    """Serve until cancelled. `started` is called when requests are answered.

    `terminal` is the stream whose terminal is notified of pending calls.
    """
    people = People(people_file())
    check_address(address, people)
    projects = Projects(project, every=every, flags=flags)
    with ExitStack() as stack:
        tcp = stack.enter_context(listen(address.host, address.port))
        port: int = tcp.getsockname()[1]
        origins = Origins.of(port, address.origins)
        private = None if address.unix is None else stack.enter_context(_private_socket(address.unix))
        watch = LedgerWatch(projects)
        app = build_app(projects, watch, people, port=port)
        try:
            projects.refresh()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(watch.run())
                if private is not None:
                    tasks.create_task(
                        run(Gate(app, people, origins, port=port, local=True), [private], on_stop=projects.stop)
                    )
                url = f"http://127.0.0.1:{port}" if address.host in _LOOPBACK else next(iter(address.origins))
                notifier = open_notifier(project, projects, url, terminal=terminal, state=user_state_dir())
                tasks.create_task(run_schedules(projects, watch))
                tasks.create_task(notifier.run())
                tasks.create_task(report_pending(projects, watch, notifier))
                started(Started(url=url, unix=None if private is None else address.unix))
                await run(Gate(app, people, origins, port=port), [tcp], on_stop=projects.stop)
        finally:
            await projects.close()


@contextmanager
def _private_socket(path: Path) -> Generator[socket.socket | None]:
    """The private socket, which is removed at the end; None if another daemon serves it, which is as good."""
    make_private_folder(path.parent)
    with suppress(FileNotFoundError):
        if is_served(path):
            yield None
            return
    with listen_unix(path) as private:
        try:
            yield private
        finally:
            path.unlink(missing_ok=True)


def build_app(projects: Projects, watch: LedgerWatch, people: People, *, port: int) -> Starlette:
    """All routes of the daemon, without the gate."""
    routes: list[BaseRoute] = [
        *Pages(projects, watch, people, port=port).routes(),
        *History(projects).routes(),
        *Media(projects).routes(),
        *Live(projects).routes(),
        *PolicyPage(projects).routes(),
        *Documents(projects).routes(),
        *Api(projects, watch).routes(),
    ]
    app = Starlette(routes=routes, exception_handlers={HoldfastError: on_error, 404: _missing, 405: _missing})
    app.state.streams = Streams()
    return app


async def _missing(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    message = "There is no such page." if status == 404 else f"{request.method} is not used here."
    if wants_json(request):
        return json_reply({"error": {"kind": "not_found" if status == 404 else "method", "message": message}}, status)
    return page(request, "message.html", status=status, title="Not found", message=message)
