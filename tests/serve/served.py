"""A real daemon in a process of its own, and clients for it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2

from holdfast.contract.json import parse_json
from tests.cli.command_line import Cli, Json, start_command

PATIENCE = 60.0
WRITE = ("file.write", "path=notes.txt", "content=hello")
T = TypeVar("T")


def wait_for(found: Callable[[], T | None], what: str = "it") -> T:
    """The first value that is neither None nor False."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = found()
        if value is not None and value is not False:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited in vain for {what}")


@dataclass
class Daemon:
    """A running `holdfast serve`."""

    cli: Cli
    process: Any
    errors: int
    url: str
    link: str
    socket: str | None
    clients: list[httpx2.Client] = field(default_factory=list[httpx2.Client])
    """Closed with the daemon."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def code(self) -> str:
        return self.link.partition("#")[2]

    def new_code(self, *args: str) -> str:
        return self.cli.run("serve", "link", "--json", *args).json["link"].partition("#")[2]

    def add(self, name: str, *options: str) -> str:
        """Add a person; returns their token."""
        return self.cli.run("serve", "people", "add", name, *options, "--json").json["token"]

    def client(self, token: str | None = None, **headers: str) -> httpx2.Client:
        """A client with this token, or without any."""
        given = headers if token is None else {"Authorization": f"Bearer {token}", **headers}
        return self._kept(httpx2.Client(base_url=self.url, headers=given, timeout=PATIENCE))

    def local(self) -> httpx2.Client:
        """A client on the private socket."""
        assert self.socket is not None
        transport = httpx2.HTTPTransport(uds=self.socket)
        return self._kept(httpx2.Client(transport=transport, base_url="http://localhost", timeout=PATIENCE))

    def _kept(self, client: httpx2.Client) -> httpx2.Client:
        self.clients.append(client)
        return client

    def logged_in(self, code: str | None = None) -> httpx2.Client:
        """A client with the cookie of a browser session."""
        client = self.client(Origin=self.url)
        reply = client.post("/login", data={"secret": code or self.new_code(), "next": "/"})
        assert reply.status_code == 303, reply.text
        return client

    def interrupt(self) -> int:
        os.kill(self.process.pid, signal.SIGINT)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def log(self) -> str:
        """What it wrote to standard error; only once, after its end."""
        with os.fdopen(os.dup(self.errors), "rb") as file:
            file.seek(0)
            return file.read().decode()


@contextmanager
def daemon(cli: Cli, *args: str, port: int = 0) -> Generator[Daemon]:
    """Start a daemon; it is killed at the end unless the test has ended it."""
    folder = cli.project.parent
    errors = os.open(folder / f"serve-{time.monotonic_ns()}.err", os.O_RDWR | os.O_CREAT)
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    process = start_command(cli, ["serve", "--port", str(port), "--json", *args], [nothing, writing, errors])
    os.close(writing)
    os.close(nothing)
    try:
        with os.fdopen(reading, "rb") as output:
            line = output.readline()
            assert line, os.pread(errors, 10_000, 0).decode()
            said: Any = parse_json(line)
            running = Daemon(cli, process, errors, said["url"], said["link"], said["socket"])
            try:
                yield running
            except BaseException as error:
                error.add_note(f"The daemon (exit code {process.poll()}) wrote: {running.log()}")
                raise
            finally:
                for client in running.clients:
                    client.close()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)
        os.close(errors)


def pending(client: httpx2.Client) -> list[Json]:
    """The pending calls: the key of the project and the object of each."""
    reply = client.get("/api/pending")
    assert reply.status_code == 200, reply.text
    return reply.json()["pending"]


def answer(client: httpx2.Client, item: Json, kind: str, **fields: object) -> httpx2.Response:
    """Answer a pending call as it was listed."""
    call = item["call"]
    body = {"digest": call["digest"], **fields}
    return client.post(f"/api/calls/{item['project']}/{call['call_id']}/{kind}", json=body)


def state_of(client: httpx2.Client, item: Json) -> str:
    reply = client.get(f"/api/calls/{item['project']}/{item['call']['call_id']}")
    assert reply.status_code == 200, reply.text
    return reply.json()["call"]["state"]


def ended(client: httpx2.Client, item: Json) -> str:
    """The state in which a call has ended."""
    return wait_for(
        lambda: state if (state := state_of(client, item)) not in ("pending", "approved", "running") else None,
        "the end of the call",
    )
