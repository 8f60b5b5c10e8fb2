"""Background processes, which outlive the call that started them: the supervisor runs them, and files beside the
ledger hold their record, their output and their end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal as signals
import threading
import weakref
from base64 import b32encode
from contextlib import ExitStack
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec
from msgspec import Struct

from holdfast.config.roots import find_root
from holdfast.contract.call import ProcessIdentity
from holdfast.contract.command import Command
from holdfast.contract.context import Context
from holdfast.contract.errors import CallError, SandboxRefused
from holdfast.contract.processes import ProcessInfo, ProcessOutput, Signal
from holdfast.fs.replace import make_private_folder
from holdfast.fs.temporary import make_temporary_folder, remove_temporary_folder
from holdfast.runtime.commands import Commands, ContextSandbox, signal_name
from holdfast.sandbox.launch import clean_up, cleanup_notes
from holdfast.sandbox.supervisor.client import (
    CommandNotStarted,
    ExitStatus,
    LogTarget,
    SupervisedCommand,
    SupervisorLost,
)
from holdfast.store.folder_writers import may_have_written
from holdfast.store.process_identity import is_alive, owner_of

if TYPE_CHECKING:
    from holdfast.sandbox.launch import Launch

MAX_READ: Final = 1024 * 1024
MARGIN: Final = 8192
"""Bytes read beyond `MAX_READ`, so that a secret at the cut is redacted whole."""
_BLOCK: Final = 65_536
_OPEN_ATTEMPTS: Final = 10
"""The supervisor may delete the older file between listing the files and opening them."""


def read_page(base: Path, offset: int | None, limit: int) -> ProcessOutput:
    """Return `limit` lines from line `offset`, or the last ones. A page is cut after a megabyte."""
    with ExitStack() as opened:
        dropped, files = _open_all(base, opened)
        total = dropped + sum(map(_newlines, files)) + 1
        if files and _ends_line(files[-1]):
            total -= 1
        first = max(dropped + 1, total - limit + 1 if offset is None else offset)
        lines = _lines(files, first - dropped, limit)
    return ProcessOutput(text=lines, first=first, total_lines=total if files else 0, dropped=dropped)


def _open_all(base: Path, opened: ExitStack) -> tuple[int, list[BinaryIO]]:
    """Return the number of lines dropped so far and the open files, which stay readable when they are deleted."""
    for _ in range(_OPEN_ATTEMPTS):
        paths = sorted(base.parent.glob(f"{base.name}.out.*"), key=lambda path: int(path.name.split(".")[2]))
        with ExitStack() as tried:
            try:
                files: list[BinaryIO] = [tried.enter_context(path.open("rb")) for path in paths]
            except FileNotFoundError:
                continue
            opened.enter_context(tried.pop_all())
            return int(paths[0].name.split(".")[3]) if paths else 0, files
    raise CallError(f"The process prints faster than its output can be opened ({_OPEN_ATTEMPTS} attempts). Retry.")


def _lines(files: list[BinaryIO], first: int, limit: int) -> str:
    kept = bytearray()
    line = 1
    for file in files:
        file.seek(0)
        while (block := file.read(_BLOCK)) and line < first + limit and len(kept) < MAX_READ + MARGIN:
            for piece in block.splitlines(keepends=True):
                if first <= line < first + limit:
                    kept += piece
                line += piece.endswith(b"\n")
    return bytes(kept[: MAX_READ + MARGIN]).decode("utf-8", "replace").removesuffix("\n")


def _newlines(file: BinaryIO) -> int:
    count = 0
    while block := file.read(_BLOCK):
        count += block.count(b"\n")
    return count


def _ends_line(file: BinaryIO) -> bool:
    size = file.seek(0, 2)
    if not size:
        return True
    file.seek(size - 1)
    return file.read(1) == b"\n"


PROCESSES: Final = "processes"
"""The folder in the state folder that holds the records of background processes."""
MAX_ENDED: Final = 64
"""Ended processes whose records are kept."""
_CLOSE_SECONDS: Final = 3.0
_WORKER_SIGNALS: Final = {"SIGKILL": signals.SIGUSR1}
"""Signals that the worker cannot pass on, because they would end the worker itself, and the ones sent instead."""


class ProcessRecord(Struct, frozen=True, kw_only=True):
    """The record of a process, written to disk when it starts."""

    id: str
    pid: int
    worker: ProcessIdentity
    """The supervisor's worker process, which waits for it."""
    command: str
    cwd: str
    label: str | None
    detached: bool
    contained: bool
    started: float


class BackgroundProcesses:
    """Satisfies `Processes`."""

    def __init__(self, commands: Commands, state: Path | None, *, end_with_call: bool) -> None:
        self._commands = commands
        self.end_with_call = end_with_call
        """Whether processes end with the call that started them: for the command line, which exits after a call."""
        self._folder = _temporary(self) if state is None else state / PROCESSES
        self._running: dict[str, tuple[SupervisedCommand, Launch]] = {}
        self._starting = 0
        self._cleanup_threads: list[threading.Thread] = []

    async def start(
        self, ctx: Context, command: Command, *, shown: str, label: str | None, detached: bool
    ) -> ProcessInfo:
        sandbox = ctx.sandbox
        assert isinstance(sandbox, ContextSandbox)
        make_private_folder(self._folder)
        self._forget_old()
        launch = self._report_notes(await sandbox.launch(command))
        self._starting += 1
        try:
            return await self._start(launch, str(command.cwd or ctx.cwd), shown=shown, label=label, detached=detached)
        finally:
            self._starting -= 1

    async def _start(self, launch: Launch, cwd: str, *, shown: str, label: str | None, detached: bool) -> ProcessInfo:
        name = b32encode(os.urandom(5)).decode().lower()
        job = self._begin(launch, name, detached=detached)
        try:
            _, pid, worker = await job.message()
        except (CommandNotStarted, SupervisorLost) as error:
            _clean_up(launch)
            raise SandboxRefused(f"The process could not be started: {error}.") from None
        except BaseException:
            self._discard_job(name, job, launch)
            raise
        record = ProcessRecord(
            id=name,
            pid=pid,
            worker=owner_of(worker),
            command=shown,
            cwd=cwd,
            label=label,
            detached=detached,
            contained=launch.contained,
            started=time(),
        )
        try:
            self._base(name).with_suffix(".json").write_bytes(msgspec.json.encode(record))
        except BaseException:
            self._discard_job(name, job, launch)
            raise
        self._running[name] = (job, launch)
        job.on_message(lambda: self._check_ended(name))
        return self._info(record)

    def _discard_job(self, name: str, job: SupervisedCommand, launch: Launch) -> None:
        """Kill a process that could not be recorded, and remove its files when it is gone."""
        job.stop_listening()
        job.stop()

        def tidy() -> None:
            job.wait_blocking(_CLOSE_SECONDS)
            _clean_up(launch)
            for path in self._folder.glob(f"{name}.*"):
                path.unlink(missing_ok=True)

        thread = threading.Thread(target=tidy, name="holdfast-tidy", daemon=True)
        thread.start()
        self._cleanup_threads = [*(other for other in self._cleanup_threads if other.is_alive()), thread]

    def _begin(self, launch: Launch, name: str, *, detached: bool) -> SupervisedCommand:
        log = LogTarget(base=str(self._base(name)), limit=max(1 << 16, self._commands.config.output.max_spill))
        stdin = os.open(os.devnull, os.O_RDONLY)
        try:
            return self._commands.supervisor.run(launch, stdin, log=log, detached=detached)
        except BaseException:
            _clean_up(launch)
            raise
        finally:
            os.close(stdin)

    def find(self, name: str | int) -> ProcessInfo:
        return self._info(self._record(name))

    def list(self) -> list[ProcessInfo]:
        return sorted(map(self._info, self._records()), key=lambda info: info.started)

    def any_alive(self, since: float | None = None, *, around: Path | None = None) -> bool:
        """Whether a process is starting or running.

        With `since`, also one that ended after that time or at an unknown time. With `around`, only processes started
        in a project that contains this path.
        """
        if self._starting:
            return True
        found = (info for info in map(self._info, self._records()) if around is None or _lies_in(around, info.cwd))
        return any(info.state == "running" or (since is not None and _ended_after(info, since)) for info in found)

    def output(self, name: str | int, *, offset: int | None, limit: int) -> ProcessOutput:
        page = read_page(self._base(self._record(name).id), offset, limit)
        return msgspec.structs.replace(page, text=self._commands.redactor(page.text)[:MAX_READ])

    async def kill(self, name: str | int, signal: Signal, *, wait: float) -> ProcessInfo:
        record = self._record(name)
        if self._info(record).state != "running":
            raise CallError(f"Process {record.pid} has already ended; process.status says how.")
        watcher = _open_process(record.worker)
        try:
            signals.pidfd_send_signal(watcher, _WORKER_SIGNALS.get(signal, signals.Signals[signal]))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(_readable(watcher), wait)
        except ProcessLookupError:
            pass  # it ended meanwhile
        finally:
            os.close(watcher)
        return self._info(record)

    def _record(self, name: str | int) -> ProcessRecord:
        """The record by id or pid; the newest one if the pid was reused."""
        found = [record for record in self._records() if name in (record.id, record.pid)]
        if not found:
            raise CallError(f"holdfast has not started a process {name!r} here; process.list shows its processes.")
        return max(found, key=lambda record: record.started)

    def _records(self) -> list[ProcessRecord]:
        found: list[ProcessRecord] = []
        for path in self._folder.glob("*.json") if self._folder.is_dir() else ():
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                found.append(msgspec.json.decode(path.read_bytes(), type=ProcessRecord))
        return found

    def _info(self, record: ProcessRecord) -> ProcessInfo:
        # Checked before the end is read: the worker writes the end before it exits, so a dead worker without an end
        # means that the process is lost.
        watched = is_alive(record.worker)
        end = self._read_end(record.id)
        status, ended, alone = end or (None, None, True)
        gone = None if status is None else ExitStatus.from_wait_status(status)
        lost = end is None or (alone and not record.detached)
        return ProcessInfo(
            id=record.id,
            pid=record.pid,
            state="running" if watched and end is None else "lost" if lost else "exited",
            command=record.command,
            cwd=record.cwd,
            label=record.label,
            detached=record.detached,
            contained=record.contained,
            started=record.started,
            ended=ended,
            exit_code=None if gone is None else gone.code,
            signal=None if gone is None or gone.signal is None else signal_name(gone.signal),
        )

    def _read_end(self, name: str) -> tuple[int, float, bool] | None:
        with contextlib.suppress(OSError, ValueError):
            status, ended, alone = self._base(name).with_suffix(".end").read_text(encoding="ascii").split()
            return int(status), float(ended), alone == "1"
        return None

    def _base(self, name: str) -> Path:
        return self._folder / name

    def _check_ended(self, name: str) -> None:
        """Clean up after the process if it has ended."""
        job, launch = self._running[name]
        with contextlib.suppress(SupervisorLost, CommandNotStarted):
            if job.read() is None:
                return
        del self._running[name]
        self._clean_up_after(name, launch)

    def _clean_up_after(self, name: str, launch: Launch) -> None:
        """Clean up after a launch. Its notes become warnings, because no call is left whose result could hold them."""
        for note in _clean_up(launch):
            self._commands.events.warn(f"After process {name} ended: {note}")

    def _report_notes(self, launch: Launch) -> Launch:
        """Warn about clean-ups after earlier commands now, because the process may run for a long time."""
        for note in cleanup_notes(launch):
            self._commands.events.warn(note)
        return msgspec.structs.replace(
            launch, cleanup=tuple(step for step in launch.cleanup if not getattr(step, "notes", ()))
        )

    def _forget_old(self) -> None:
        ended = sorted((info for info in self.list() if info.state != "running"), key=lambda info: info.ended or 0)
        for info in ended[: max(0, len(ended) - MAX_ENDED)]:
            for path in self._folder.glob(f"{info.id}.*"):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Kill the processes that are not detached. Detached ones keep running, with the mounts of their launch."""
        detached = {record.id for record in self._records() if record.detached}
        ending = {name: entry for name, entry in self._running.items() if name not in detached}
        for job, _ in self._running.values():
            job.stop_listening()
        for job, _ in ending.values():
            job.stop()
        for name, (job, launch) in ending.items():
            job.wait_blocking(_CLOSE_SECONDS)
            self._clean_up_after(name, launch)
        self._running.clear()
        for thread in self._cleanup_threads:
            thread.join(_CLOSE_SECONDS)


def writers_alive(commands: Commands, own: BackgroundProcesses | None, since: float | None = None) -> bool:
    """Whether a process that belongs to no call could write to the document now.

    Such a process was started by `process.start`, in this project or in one that contains the document, by any
    runtime; or it is an MCP server with writable folders. With `since` (Unix time), also one that ended after that.
    Creates no files.
    """
    document, state = commands.workspace.document, commands.workspace.state
    if document is not None and may_have_written(document, since):
        return True
    if own is not None and own.any_alive(since):
        return True
    if state is None:
        return False
    for folder in state.parent.glob(f"*/{PROCESSES}"):
        here = folder.parent == state
        if (here or document is not None) and any(folder.glob("*.json")):
            there = BackgroundProcesses(commands, folder.parent, end_with_call=False)
            if there.any_alive(since, around=None if here else document):
                return True
    return False


def _clean_up(launch: Launch) -> tuple[str, ...]:
    """Clean up after a launch; returns its notes."""
    clean_up(launch)
    return cleanup_notes(launch)


def _lies_in(path: Path, cwd: str) -> bool:
    return path.is_relative_to(find_root(Path(cwd)) or os.path.realpath(cwd))


def _ended_after(info: ProcessInfo, since: float) -> bool:
    return info.ended is None or info.ended >= since


def _open_process(owner: ProcessIdentity) -> int:
    """Return a pidfd of exactly this process. The identity is checked after opening, so a reused pid is refused."""
    try:
        fd = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        raise CallError("The process has ended meanwhile; process.status says how.") from None
    if is_alive(owner):
        return fd
    os.close(fd)
    raise CallError("The process has ended meanwhile; process.status says how.")


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(fd, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def _temporary(owner: BackgroundProcesses) -> Path:
    folder = make_temporary_folder("processes")
    weakref.finalize(owner, remove_temporary_folder, folder)
    return folder
