"""The process of a stdio server: started in the sandbox by the supervisor, and ended with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import threading
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from holdfast.config.config import McpServer
from holdfast.config.secret_references import fill
from holdfast.contract.command import Command
from holdfast.contract.errors import SandboxRefused
from holdfast.runtime.cancellation import ThreadPool
from holdfast.runtime.commands import TERM_GRACE, signal_name
from holdfast.runtime.runtime import Runtime
from holdfast.sandbox.launch import Launch, clean_up, cleanup_notes
from holdfast.sandbox.proxy import HostProxy
from holdfast.sandbox.sandbox import Sandbox
from holdfast.sandbox.supervisor.client import CommandNotStarted, SupervisorLost
from holdfast.store.folder_writers import WriterRegistration

GRACE: Final = 2.0
"""Seconds a server has to exit after its input is closed."""
KEPT: Final = 64 * 1024
"""Bytes of stderr that are kept."""
_KILLED: Final = 5.0
_BLOCK: Final = 64 * 1024
_PAUSE: Final = 0.01
"""Seconds between two reads of stderr, so that a flood does not keep the event loop busy."""
_PIPE: Final = 256 * 1024
_F_SETPIPE_SZ: Final = 1031
_SHOWN: Final = 600
_threads: Final = ThreadPool()
"""A pool of its own, because the event loop's default has few threads: a slow secret must not block other servers."""
_COLOURS: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


async def start_server(runtime: Runtime, name: str, server: McpServer) -> ServerProcess:
    """Start a server. Raises `SandboxRefused`, `SecretUnavailable` or `ConfigError` if that is not possible as
    configured."""
    sandbox, command = await _threads.run(plan_command, runtime, name, server)
    with contextlib.ExitStack() as stack:
        host_proxy: HostProxy | None = None
        if not isinstance(sandbox.policy.network, str) and sandbox.mode != "off":
            hosts = sandbox.policy.network
            gateway = runtime.network.gateway_to_listed(f"mcp:{name}", hosts, name="sandbox.network")
            host_proxy = stack.enter_context(HostProxy(gateway))
            command = host_proxy.wrap(command)
        launch = await _launched(sandbox, command)
        try:
            if host_proxy is not None:
                launch = host_proxy.with_relay_fd(launch)
            if launch.contained and sandbox.policy.writable:
                # The process could forge an approval in a document, so documents must know that it is running.
                launch = replace(launch, cleanup=(*launch.cleanup, WriterRegistration(sandbox.policy.writable)))
            return ServerProcess(runtime, name, launch, () if host_proxy is None else host_proxy.passed_fds, stack)
        except BaseException:
            _put_away(launch)
            raise


async def _launched(sandbox: Sandbox, command: Command) -> Launch:
    """Prepare the launch; if the start is cancelled meanwhile, clean up afterwards."""
    making = asyncio.ensure_future(_threads.run(sandbox.launch, command))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_put_away_made)
        raise


def _put_away_made(made: asyncio.Future[Launch]) -> None:
    if not made.cancelled() and made.exception() is None:
        _put_away(made.result())


def _put_away(launch: Launch) -> None:
    threading.Thread(target=_finish, args=(launch,), name="holdfast-tidy", daemon=True).start()


def _finish(launch: Launch) -> tuple[str, ...]:
    clean_up(launch)
    return cleanup_notes(launch)


class ServerProcess:
    """A running server and our ends of its pipes. `end` must be awaited exactly once."""

    def __init__(
        self, runtime: Runtime, name: str, launch: Launch, passed: tuple[int, ...], stack: contextlib.ExitStack
    ) -> None:
        self._runtime = runtime
        self._name = name
        self._launch = launch
        self._loop = asyncio.get_running_loop()
        self._ring = TailBuffer(KEPT)
        self._pause: asyncio.TimerHandle | None = None
        self._fault = ""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when every process it started is gone."""
        self._ours: list[int] = []
        theirs: list[int] = []
        try:
            for reads in (False, True, True):
                self._pipe(theirs, reads=reads)
            self._job = runtime.commands.supervisor.run(launch, *theirs, passed_fds=passed)
        except BaseException:
            self._close_ours()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self._stack = stack.pop_all()
        self.stdin, self.stdout, self._stderr = self._ours
        self._job.on_message(self._heard)
        self._loop.add_reader(self._stderr, self._complained)

    def _pipe(self, theirs: list[int], *, reads: bool) -> None:
        """A non-blocking pipe, of which we use one end."""
        reading, writing = os.pipe()
        ours, other = (reading, writing) if reads else (writing, reading)
        self._ours.append(ours)
        theirs.append(other)
        os.set_blocking(ours, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(ours, _F_SETPIPE_SZ, _PIPE)

    def note(self, line: bytes | bytearray) -> None:
        """Keep a line that was not a message together with stderr."""
        self._ring.add(bytes(line[:_SHOWN]) + b"\n")

    def wrote(self) -> str:
        """The end of stderr, redacted and escaped."""
        for _ in range(_PIPE // _BLOCK):
            self._ring.add((_read(self._stderr) if self._stderr in self._ours else None) or b"")
        plain = _COLOURS.sub("", self._runtime.redactor(self._ring.text)).strip()[-_SHOWN:]
        return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in plain)

    async def ended(self, seconds: float) -> str:
        """How it ended, as part of a sentence; empty if it is still running after some seconds."""
        await asyncio.wait((self.gone,), timeout=seconds)
        found = self._job.exit
        if found is None:
            return self._fault
        return f"ended by {signal_name(found.signal)}" if found.signal is not None else f"exited with {found.code}"

    def kill(self) -> None:
        """Kill it now, with every process it started."""
        if not self._job.finished:
            self._job.stop()

    async def end(self) -> None:
        """Close its input, wait, kill what is left, and clean up after its launch."""
        try:
            self._close(self.stdin)
            self._loop.add_reader(self.stdout, self._drain)
            await asyncio.wait((self.gone,), timeout=0 if self._job.finished else GRACE)
            if not self._job.finished:
                self._job.stop(0.0 if self._launch.pid_namespace else TERM_GRACE)
                await asyncio.wait((self.gone,), timeout=_KILLED)
            self._job.stop_listening()
            tidying = asyncio.ensure_future(_threads.run(self._tidy))
        except BaseException:
            self.kill()
            self._job.stop_listening()
            threading.Thread(target=self._tidy, name="holdfast-tidy", daemon=True).start()
            raise
        finally:
            self._close_ours()
            self._stack.close()
            if not self.gone.done():
                self.gone.set_result(None)
        await asyncio.shield(tidying)

    def _tidy(self) -> None:
        """Runs in a thread."""
        if not self._job.finished:
            self._job.wait_blocking(_KILLED)
        left = 0 if self._job.exit is None else self._job.exit.survivors
        if left:
            self._runtime.events.warn(f"{left} processes of the MCP server '{self._name}' could not be killed.")
        for note in _finish(self._launch):
            self._runtime.events.warn(f"After the MCP server '{self._name}' had ended: {note}")

    def _heard(self) -> None:
        try:
            while self._job.read() is not None and self._job.exit is None:
                pass
        except (CommandNotStarted, SupervisorLost) as error:
            self._fault = (
                f"could not be started: {error}" if isinstance(error, CommandNotStarted) else "is no longer supervised"
            )
        if (self._fault or self._job.exit is not None) and not self.gone.done():
            self.gone.set_result(None)

    def _complained(self) -> None:
        block = _read(self._stderr)
        if block is None:
            return
        self._loop.remove_reader(self._stderr)
        if block:
            self._ring.add(block)
            self._pause = self._loop.call_later(_PAUSE, self._loop.add_reader, self._stderr, self._complained)

    def _drain(self) -> None:
        if _read(self.stdout) == b"":
            self._loop.remove_reader(self.stdout)

    def _close(self, fd: int) -> None:
        if fd in self._ours:
            self._ours.remove(fd)
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
            os.close(fd)

    def _close_ours(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        for fd in tuple(self._ours):
            self._close(fd)


def _read(fd: int) -> bytes | None:
    """The available bytes; None if there are none yet, empty at the end."""
    try:
        return os.read(fd, _BLOCK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


class TailBuffer:
    """The last bytes of an output."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held = bytearray()

    def add(self, block: bytes) -> None:
        self._held += block
        if len(self._held) > 2 * self._size:
            del self._held[: -self._size]

    @property
    def text(self) -> str:
        return self._held[-self._size :].decode("utf-8", "replace")


_ROOT: Final = ("$root", "${root}")


def plan_command(runtime: Runtime, name: str, server: McpServer) -> tuple[Sandbox, Command]:
    """Plan the command. Blocks: a backend is probed on first use, and secrets may come from programs.

    Raises `SandboxRefused`, `SecretUnavailable` or `ConfigError` if the server cannot be started as configured.
    """
    assert server.command is not None
    sandbox = sandbox_for(runtime, server)
    if sandbox.mode != "off" and sandbox.backend() is None:
        raise SandboxRefused(
            f"The MCP server '{name}' was not started because it cannot be sandboxed: {sandbox.problem()}. "
            'Run `holdfast doctor`, or set sandbox.mode = "off" to start servers bare.'
        )
    cwd = folder_for(runtime, name, server)
    program = str(Path(server.command).expanduser()) if server.command.startswith("~/") else server.command
    if server.cwd is None and "/" in program and not program.startswith("/"):
        raise SandboxRefused(
            f"mcp.servers.{name}.command is {program!r}, which differs in every folder. Give its absolute "
            f'path, or the folder as mcp.servers.{name}.cwd (cwd = "$root" is the project).'
        )
    return sandbox, Command(argv=(program, *server.args), cwd=cwd, env=environment_for(runtime, name, server))


def folder_for(runtime: Runtime, name: str, server: McpServer) -> Path:
    """The working directory. Not the project unless configured: interpreters and launchers load code from where they
    run.

    A checkout's `json.py` or `node_modules` would run with the secrets of the server.
    """
    if server.cwd is None:
        return Path("/")
    first, _, rest = server.cwd.partition("/")
    if first not in _ROOT:
        cwd = Path(runtime.workspace.root or runtime.workspace.cwd) / Path(server.cwd).expanduser()
    elif runtime.workspace.root is not None:
        cwd = runtime.workspace.root / rest.lstrip("/")
    else:
        raise SandboxRefused(f"mcp.servers.{name}.cwd is {server.cwd!r}, but there is no project here.")
    if not cwd.is_dir():
        raise SandboxRefused(f"mcp.servers.{name}.cwd is {str(cwd)!r}, which does not exist.")
    return cwd


def sandbox_for(runtime: Runtime, server: McpServer) -> Sandbox:
    """The sandbox of a server. It runs all the time and not for one approved call, so it writes only where configured.

    Also, whatever appears at a protected path in a writable folder counts as planted by the process: a user who works
    in the project meanwhile would lose files.
    """
    base = runtime.config.sandbox
    network = base.network if server.network is None else server.network
    return Sandbox(
        replace(base, mode=runtime.sandbox.mode, network=network, writable=server.writable),
        root=runtime.workspace.root,
        document_dir=runtime.workspace.document_dir,
        state=runtime.workspace.state,
        extra_protected=runtime.commands.protected,
        cwd=Path(runtime.workspace.cwd),
        untrusted_folders=runtime.sandbox.policy.writable,  # commands write there and could have planted an `uvx`
    )


def environment_for(runtime: Runtime, name: str, server: McpServer) -> dict[str, str]:
    """The variables of `env` with their secrets, which the redactor knows from here on."""
    found = {key: fill(text, runtime.secrets.get) for key, text in server.env.items()}
    for key, value in found.items():
        if "=" in key or "\0" in key + value:
            raise SandboxRefused(
                f"mcp.servers.{name}.env holds {key!a}, with '=' in its name or a NUL character in its name or value; "
                "no program can be given that."
            )
    return found
