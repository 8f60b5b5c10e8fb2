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
"""Seconds a server has to end by itself when its input is closed."""
KEPT: Final = 64 * 1024
"""Bytes of what it wrote to stderr."""
_KILLED: Final = 5.0
_BLOCK: Final = 64 * 1024
_PAUSE: Final = 0.01
"""Between two blocks of stderr: nobody needs more of it, and a flood must not keep the loop busy."""
_PIPE: Final = 256 * 1024
_F_SETPIPE_SZ: Final = 1031
_SHOWN: Final = 600
_threads: Final = ThreadPool()
"""Not the loop's own, of which there are few: a secret that takes its time must not hold up other servers."""
_COLOURS: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


async def start_server(runtime: Runtime, name: str, server: McpServer) -> ServerProcess:
    """Raises `SandboxRefused`, `SecretUnavailable` or `ConfigError` if it cannot be started as it must be."""
    sandbox, command = await _threads.run(plan_command, runtime, name, server)
    with contextlib.ExitStack() as stack:
        host_proxy: HostProxy | None = None
        if not isinstance(sandbox.policy.network, str) and sandbox.mode != "off":
            host_proxy = stack.enter_context(HostProxy(sandbox.policy.network))
            command = host_proxy.wrap(command)
        launch = await _launched(sandbox, command)
        try:
            if host_proxy is not None:
                launch = host_proxy.with_relay_fd(launch)
            if launch.contained and sandbox.policy.writable:
                # It could gain from an approval that it forges in a document, so others must know that it lives.
                launch = replace(launch, cleanup=(*launch.cleanup, WriterRegistration(sandbox.policy.writable)))
            return ServerProcess(runtime, name, launch, () if host_proxy is None else host_proxy.passed_fds, stack)
        except BaseException:
            _put_away(launch)
            raise


async def _launched(sandbox: Sandbox, command: Command) -> Launch:
    """What was made for a start that is cancelled meanwhile is put away when it is there."""
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
    """A running server, and our ends of its streams. `end` must be awaited, once."""

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
        """Done when everything it started is gone."""
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
        """A pipe of which we read or write one end, without ever waiting for it."""
        reading, writing = os.pipe()
        ours, other = (reading, writing) if reads else (writing, reading)
        self._ours.append(ours)
        theirs.append(other)
        os.set_blocking(ours, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(ours, _F_SETPIPE_SZ, _PIPE)

    def note(self, line: bytes | bytearray) -> None:
        """Keep a line that was no message with what it wrote to stderr."""
        self._ring.add(bytes(line[:_SHOWN]) + b"\n")

    def wrote(self) -> str:
        """The end of what it complained about, without secrets and with nothing a terminal would obey."""
        for _ in range(_PIPE // _BLOCK):
            self._ring.add((_read(self._stderr) if self._stderr in self._ours else None) or b"")
        plain = _COLOURS.sub("", self._runtime.redactor(self._ring.text)).strip()[-_SHOWN:]
        return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in plain)

    async def ended(self, seconds: float) -> str:
        """How it ended, for a sentence; the empty text if it still runs after some seconds."""
        await asyncio.wait((self.gone,), timeout=seconds)
        found = self._job.exit
        if found is None:
            return self._fault
        return f"ended by {signal_name(found.signal)}" if found.signal is not None else f"exited with {found.code}"

    def kill(self) -> None:
        """Now, with all it started."""
        if not self._job.finished:
            self._job.stop()

    async def end(self) -> None:
        """Close its input, give it a moment, kill what is left; put right what its launch left."""
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
        """In a thread."""
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
                f"could not be started: {error}" if isinstance(error, CommandNotStarted) else "was lost sight of"
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
    """What there is; None if there is nothing yet, and nothing at all at the end."""
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
    """Blocks: a backend is tried out the first time, and secrets may come from programs.

    Raises `SandboxRefused`, `SecretUnavailable` or `ConfigError` if it cannot be started as it must be.
    """
    assert server.command is not None
    sandbox = sandbox_for(runtime, server)
    if sandbox.mode != "off" and sandbox.backend() is None:
        raise SandboxRefused(
            f"The MCP server '{name}' was not started, since it cannot be contained: {sandbox.problem()}. "
            'Run `holdfast doctor`, or set sandbox.mode = "off" to start servers bare.'
        )
    cwd = folder_for(runtime, name, server)
    program = str(Path(server.command).expanduser()) if server.command.startswith("~/") else server.command
    if server.cwd is None and "/" in program and not program.startswith("/"):
        raise SandboxRefused(
            f"mcp.servers.{name}.command is {program!r}, which means another program in every folder; give its whole "
            f'path, or the folder as mcp.servers.{name}.cwd (cwd = "$root" is the project).'
        )
    return sandbox, Command(argv=(program, *server.args), cwd=cwd, env=environment_for(runtime, name, server))


def folder_for(runtime: Runtime, name: str, server: McpServer) -> Path:
    """Not the project unless the configuration says so: interpreters and launchers take programs from where they run.

    What a checkout calls `json.py` or `node_modules` would be started with the secrets of the server.
    """
    if server.cwd is None:
        return Path("/")
    first, _, rest = server.cwd.partition("/")
    if first not in _ROOT:
        cwd = Path(runtime.workspace.root or runtime.workspace.cwd) / Path(server.cwd).expanduser()
    elif runtime.workspace.root is not None:
        cwd = runtime.workspace.root / rest.lstrip("/")
    else:
        raise SandboxRefused(f"There is no project here, which mcp.servers.{name}.cwd = {server.cwd!r} stands for.")
    if not cwd.is_dir():
        raise SandboxRefused(f"There is no folder {str(cwd)!r}; correct mcp.servers.{name}.cwd.")
    return cwd


def sandbox_for(runtime: Runtime, server: McpServer) -> Sandbox:
    """A server runs all the time and not for one approved call, so it writes nowhere unless its configuration says so.

    Besides, where a contained process may write, whatever appears at a protected path while it runs counts as planted
    by it: a person who works in the project meanwhile would have their own files taken away.
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
        untrusted_folders=runtime.sandbox.policy.writable,  # where commands write: they could have put an `uvx` there
    )


def environment_for(runtime: Runtime, name: str, server: McpServer) -> dict[str, str]:
    """What `env` adds, with its secrets; the redactor knows them from here on."""
    found = {key: fill(text, runtime.secrets.get) for key, text in server.env.items()}
    for key, value in found.items():
        if "=" in key or "\0" in key + value:
            raise SandboxRefused(
                f"mcp.servers.{name}.env holds {key!a}, with '=' in its name or a NUL character in its name or value; "
                "no program can be given that."
            )
    return found
