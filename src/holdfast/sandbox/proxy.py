"""`HostProxy`: network access to an allow-list of hosts. The proxy runs in the runtime; the relay in the sandbox passes
it one socket per connection."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from holdfast.contract.command import Command
from holdfast.helper_process import isolated_python
from holdfast.net.gateway import Gateway
from holdfast.net.proxy import serve
from holdfast.sandbox.launch import Launch
from holdfast.sandbox.supervisor.client import FIRST_FD

PORT: Final = 3128
MAX_CONNECTIONS: Final = 128
_RELAY: Final = Path(__file__).with_name("network_relay.py")
_FD: Final = "{holdfast-relay}"
_VARIABLES: Final = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")


class HostProxy:
    """The proxy of one command. A context manager: close it when the command has ended."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._loop = asyncio.get_running_loop()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def passed_fds(self) -> tuple[int, ...]:
        return (self._theirs.fileno(),)

    def wrap(self, command: Command) -> Command:
        """Return the command wrapped in the relay, with proxy variables set."""
        url = f"http://127.0.0.1:{PORT}"
        proxies = {**dict.fromkeys(_VARIABLES, url), "no_proxy": "", "NO_PROXY": ""}
        program, *words = isolated_python(str(_RELAY), str(PORT), _FD)
        argv = (os.path.realpath(program), *words, *command.argv)
        return replace(command, argv=argv, env={**proxies, **command.env})

    def with_relay_fd(self, launch: Launch) -> Launch:
        """Return the launch with the relay's descriptor number filled in: it depends on how many files come before
        it."""
        number = str(FIRST_FD + len(launch.files) + len(launch.open_files.fds))
        at = launch.argv.index(_FD)
        return replace(launch, argv=(*launch.argv[:at], number, *launch.argv[at + 1 :]))

    def __enter__(self) -> HostProxy:
        self._loop.add_reader(self._ours, self._on_connection)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._ours)
        self._ours.close()
        self._theirs.close()
        for connection in self._connections:
            connection.cancel()

    def _on_connection(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._ours, 1, 8)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._loop.remove_reader(self._ours)
            return
        for fd in fds:
            connection = socket.socket(fileno=fd)
            if len(self._connections) >= MAX_CONNECTIONS:
                connection.close()
                continue
            task = self._loop.create_task(serve(connection, self._gateway))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
