"""Commands: the sandbox they run in, the supervisor that starts them, and the recorder of their changes.

`Commands` holds these for a runtime, each created on first use; `ContextSandbox` is `ctx.sandbox`, for one call.
When `run` returns or raises, every process that the command started is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import weakref
from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from msgspec import to_builtins
from msgspec.structs import replace

from holdfast.config.config import SHELL_READONLY, Config
from holdfast.contract.call import Call
from holdfast.contract.command import Command, CommandPreview, CommandResult, standard_shell
from holdfast.contract.enums import AUTO_APPROVED_IF_SANDBOXED, NEEDS_CONTAINMENT, RUNS_COMMANDS
from holdfast.contract.errors import OutcomeUnknown, SandboxRefused, UndoRefused
from holdfast.contract.json import digest_of
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.widening import Widening
from holdfast.fs.protected_paths import exact_pattern
from holdfast.privileges import memory_file
from holdfast.rules.chain import Confinement
from holdfast.rules.decider import Containment
from holdfast.rules.skill_file import MANIFEST
from holdfast.runtime.cancellation import StopReason, ThreadPool
from holdfast.runtime.events import Events
from holdfast.runtime.output_reader import CapturedOutput, OutputBuffer, OutputLimits, PipeReader
from holdfast.runtime.workspace import Workspace
from holdfast.sandbox.launch import Changes, Launch, Recording, clean_up, cleanup_notes
from holdfast.sandbox.supervisor.client import CommandNotStarted, ExitStatus, SupervisedCommand, SupervisorLost

if TYPE_CHECKING:
    from holdfast.net.network import Network
    from holdfast.runtime.undo.recorder import Recorder
    from holdfast.runtime.undo.recording_lock import RecordingLock
    from holdfast.sandbox.launch import Backend
    from holdfast.sandbox.policy import SandboxPolicy
    from holdfast.sandbox.proxy import HostProxy
    from holdfast.sandbox.sandbox import Sandbox
    from holdfast.sandbox.supervisor.client import Supervisor
    from holdfast.store.ledger import Ledger
    from holdfast.store.redact import Redactor

_COMMANDS: Final = frozenset({AUTO_APPROVED_IF_SANDBOXED, NEEDS_CONTAINMENT, RUNS_COMMANDS})
TERM_GRACE: Final = 0.3
"""Seconds between SIGTERM and SIGKILL for a command without a sandbox; well within `GRACE_SECONDS` of a call."""
_LAST_WAIT: Final = 5.0
"""Seconds for which the clean-up after an abandoned command waits for its end."""
_MAX_WIDENED: Final = 16
"""Sandboxes of widened calls that are cached."""
_threads: Final = ThreadPool()
_probed: Final[weakref.WeakSet[Sandbox]] = weakref.WeakSet()
"""Sandboxes whose backend and control groups are known, so that asking them again does not block."""


class Commands:
    """The sandbox, the supervisor and the recorder of a runtime."""

    def __init__(
        self,
        config: Config,
        workspace: Workspace,
        ledger: Ledger | None,
        redactor: Redactor,
        events: Events,
        on_close: Callable[[Callable[[], None]], None],
        network: Callable[[], Network],
    ) -> None:
        self.config = config
        self.workspace = workspace
        self.ledger = ledger
        self.redactor = redactor
        self.events = events
        self.on_close = on_close
        self.network = network
        self._probed_once = False
        self._asked_unhidden: set[str] = set()
        self.command_calls: weakref.WeakSet[CommandContext] = weakref.WeakSet()
        """Calls of tools that run commands: from their preparation until they end or become pending."""
        self._widened: dict[Widening, tuple[Sandbox, Recorder]] = {}

    @cached_property
    def protected(self) -> tuple[str, ...]:
        """Protected paths beyond the built-in patterns: those of the configuration, the manifests of its skills, and
        the document of this runtime, each as named and as resolved."""
        config, document = self.config, self.workspace.document
        folders = [each for folder in map(Path, config.tools.skills.values()) for each in (folder, folder.resolve())]
        # Written as patterns, because a plain path counts as a document, whose changes are never rolled back.
        manifests = (f"{exact_pattern(folder)}/{MANIFEST[:-1]}?" for folder in folders)
        own = () if document is None else (exact_pattern(document), exact_pattern(document.resolve()))
        return (*config.protected, *dict.fromkeys((*manifests, *own)))

    @cached_property
    def sandbox(self) -> Sandbox:
        """Created without probing; `probe_sandbox` does that before the first command is judged."""
        if self.workspace.sandbox is not None:
            return self.workspace.sandbox
        from holdfast.sandbox.sandbox import Sandbox

        workspace = self.workspace
        return Sandbox(
            self.config.sandbox,
            root=workspace.root,
            document_dir=workspace.document_dir,
            state=workspace.state,
            extra_protected=self.protected,
            cwd=Path(workspace.cwd),
        )

    @cached_property
    def recorder(self) -> Recorder:
        return self._recorder(self.sandbox)

    def _recorder(self, sandbox: Sandbox) -> Recorder:
        from holdfast.runtime.undo.recorder import Recorder

        return Recorder(self.ledger, sandbox, self.config.sandbox, self.workspace.state)

    @cached_property
    def recording_lock(self) -> RecordingLock | None:
        """None if nothing is recorded."""
        from holdfast.runtime.undo.recording_lock import RecordingLock

        return None if self.workspace.state is None else RecordingLock(self.workspace.state)

    def sandbox_of(self, call: Call) -> Sandbox:
        """The sandbox for the commands of a call. Raises `SandboxRefused` for a widening that is not possible."""
        return self._widened_parts(call.widening)[0] if call.widening else self.sandbox

    def recorder_of(self, call: Call) -> Recorder:
        return self._widened_parts(call.widening)[1] if call.widening else self.recorder

    def _widened_parts(self, widening: Widening) -> tuple[Sandbox, Recorder]:
        if widening not in self._widened:
            sandbox = self.sandbox.widened(widening)
            if len(self._widened) >= _MAX_WIDENED:
                self._widened.clear()
            self._widened[widening] = sandbox, self._recorder(sandbox)
        return self._widened[widening]

    @cached_property
    def supervisor(self) -> Supervisor:
        from holdfast.sandbox.supervisor.client import Supervisor

        supervisor = Supervisor()
        self.on_close(supervisor.close)
        return supervisor

    def undo(self, call_id: str, *, by: str, partial: bool, interface: str) -> Result:
        """Undo what a call changed; blocks."""
        from holdfast.runtime.undo.restore import Undo

        ledger, state = self.ledger, self.workspace.state
        if ledger is None or state is None:
            raise UndoRefused("This runtime has no ledger on disk, so there is nothing to undo.")
        roots = () if self.workspace.root is None else (self.workspace.root,)
        undo = Undo(ledger, roots, state)
        return undo.run(undo.plan(call_id), by=by, partial=partial, interface=interface)

    async def probe_sandbox(self, tool: Tool) -> None:
        """Probe the sandbox in a thread, once, before the first tool that runs commands is judged."""
        if self._probed_once or _COMMANDS.isdisjoint(tool.capabilities):
            return
        self._probed_once = True
        approval = self.config.approval
        matters = approval.auto_approve_sandboxed or approval.commands or SHELL_READONLY in approval.auto_approve
        await asyncio.to_thread(self.guarantees_hold if matters else self.containment)

    def guarantees_hold(self) -> bool:
        """Whether the sandbox passed every escape test on this machine."""
        return self.sandbox.mode != "off" and self.sandbox.passes_escape_tests()

    def confinement(self, tool: Tool, call: Call) -> Confinement:
        """How a call of this tool is confined: the sandbox policy, and the backend if the tool may run commands."""
        sandbox = self.sandbox_of(call)
        policy = sandbox.policy
        runs = tool.effects is None or "process" in tool.effects
        backend = sandbox.backend() if runs else None
        if sandbox.mode == "off" or (runs and backend is None):
            return Confinement(environment=policy.environment, settings=self._settings(tool) if runs else None)
        return Confinement(
            backend=None if backend is None else backend.name,
            guarantees=() if backend is None else tuple(sorted(backend.guarantees)),
            network=policy.network,
            writable=tuple(map(str, policy.writable)),
            hidden=tuple(map(str, policy.read_deny)),
            patterns=tuple(f"{base}: {pattern}" for base, pattern in policy.deny_patterns),
            protected=policy.protected,
            environment=policy.environment,
            settings=self._settings(tool) if runs else None,
        )

    def unhidden_reason(self, call_id: str) -> str:
        """Why not every file in `sandbox.read_deny` can be hidden from a command; empty if all are hidden.

        A call with such a command needs approval, so it is remembered here.
        """
        sandbox = self.sandbox
        if sandbox.mode == "off" or not sandbox.incomplete_hiding or sandbox.backend() is None:
            return ""
        self._asked_unhidden.add(call_id)
        return sandbox.incomplete_hiding

    def must_hide_all(self, call_id: str) -> bool:
        """Whether the launch must fail if files cannot be hidden, because no person was asked about them."""
        return call_id not in self._asked_unhidden

    def _settings(self, tool: Tool) -> str:
        configured = to_builtins(self.config.tools.settings_of(tool.names) or {})
        return digest_of([standard_shell(), configured])

    def containment(self) -> Containment:
        sandbox = self.sandbox
        if sandbox.mode == "off":
            return "off"
        if sandbox.backend() is not None:
            return "contained"
        return "refused" if sandbox.mode == "required" else "missing"


class CommandContext(Protocol):
    """The part of a `RunContext` that running a command uses."""

    command_ended: bool
    call_record: Call

    @property
    def call_id(self) -> str: ...
    @property
    def cwd(self) -> Path: ...
    @property
    def stop_reason(self) -> StopReason | None: ...
    @property
    def granted(self) -> tuple[Path, ...]: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def stream(self, text: str) -> None: ...


class ContextSandbox:
    """Satisfies `SandboxTools` for one call."""

    def __init__(self, commands: Commands, ctx: CommandContext) -> None:
        self._commands = commands
        self._ctx = ctx

    @property
    def _sandbox(self) -> Sandbox:
        return self._commands.sandbox_of(self._ctx.call_record)

    @property
    def _recorder(self) -> Recorder:
        return self._commands.recorder_of(self._ctx.call_record)

    @property
    def profile(self) -> str:
        return self._sandbox.profile

    def is_path_writable(self, path: str | Path) -> bool:
        return self._sandbox.is_path_writable(path)

    def is_path_readable(self, path: str | Path) -> bool:
        return self._sandbox.is_path_readable(path, self._ctx.granted)

    def is_path_own(self, path: str | Path) -> bool:
        return self._sandbox.policy.is_own_state(path)

    def is_path_secret(self, path: str | Path) -> bool:
        return self._sandbox.is_secret(path)

    def wrap_command(self, command: Sequence[str]) -> Sequence[str]:
        return self._sandbox.wrap_command(command)

    def undo_note(self, command: Command) -> str | None:
        return self._recorder.note()

    async def preview(self, command: Command) -> CommandPreview:
        sandbox, quick = self._sandbox, self._commands.ledger is None or self._commands.config.sandbox.undo == "off"
        note = self.undo_note(command) if quick else await _threads.run(self.undo_note, command)
        backend = await self._backend()
        if backend is None:
            return CommandPreview(
                contained_by=None, network="on", undo_note=note, undo_only_in=self._recorder.only_in()
            )
        widened = self._ctx.call_record.widening or Widening()
        paths = (*(f"also reads {path}" for path in widened.read), *(f"also changes {path}" for path in widened.write))
        return CommandPreview(contained_by=backend.name, network=_network(sandbox.policy), paths=paths, undo_note=note)

    def _is_recorded(self, command: Command) -> bool:
        return command.undoable and self._commands.ledger is not None and self._commands.config.sandbox.undo != "off"

    async def run(self, command: Command) -> CommandResult:
        with contextlib.ExitStack() as stack:
            host_proxy = await self._host_proxy(command, stack)
            recording = await self._record(command)
            try:
                launch = await self.launch(command, recording, host_proxy)
            except BaseException:
                if recording is not None:
                    recording.discard()
                raise
            command_run = _CommandRun(self._commands, self._ctx, command, launch, recording)
            return await command_run.run(() if host_proxy is None else host_proxy.passed_fds)

    async def _record(self, command: Command) -> Recording | None:
        """Start a recording. The clock of the call is paused while it waits for commands of other processes."""
        lock, calls = self._commands.recording_lock, self._commands.command_calls
        if lock is None or not self._is_recorded(command):
            return None
        recorder = self._recorder
        self._ctx.pause()
        try:
            recording = await lock.acquire(recorder, self._ctx.call_id, has_company=lambda: len(calls) > 1)
        finally:
            self._ctx.resume()
        if recording is None and await _threads.run(recorder.note) is None:
            raise SandboxRefused("Its changes could not be recorded, as the approval promised. Nothing was run. Retry.")
        return recording

    async def launch(
        self, command: Command, recording: Recording | None = None, host_proxy: HostProxy | None = None
    ) -> Launch:
        """The process to start for a command. Raises `SandboxRefused`."""
        overlays = () if recording is None else recording.overlays
        placed = replace(command, cwd=command.cwd or self._ctx.cwd)
        if host_proxy is not None:
            placed = host_proxy.wrap(placed)
        if self._sandbox.mode == "off" and self._sandbox in _probed:
            return self._sandbox.launch(placed, overlays=overlays)
        whole = not command.filtered and self._commands.must_hide_all(self._ctx.call_id)
        granted = self._ctx.granted
        launch = await _threads.run(
            lambda: self._sandbox.launch(placed, overlays=overlays, granted=granted, require_complete=whole)
        )
        _probed.add(self._sandbox)  # the launch found the backend and the usable control groups
        return launch if host_proxy is None else host_proxy.with_relay_fd(launch)

    async def _backend(self) -> Backend | None:
        # The first time, this runs probes, which takes a while: in a thread.
        sandbox = self._sandbox
        if sandbox.mode == "off" or sandbox in _probed:
            return sandbox.backend()
        found = await _threads.run(sandbox.backend)
        _probed.add(sandbox)
        return found

    async def _host_proxy(self, command: Command, stack: contextlib.ExitStack) -> HostProxy | None:
        """The proxy to the allowed hosts, if the policy allows only some."""
        hosts = self._sandbox.policy.network
        if isinstance(hosts, str) or command.read_only or await self._backend() is None:
            return None
        from holdfast.sandbox.proxy import HostProxy

        by = f"{self._ctx.call_record.tool} {self._ctx.call_id}"
        gateway = self._commands.network().gateway_to_listed(by, hosts, name="sandbox.network")
        return stack.enter_context(HostProxy(gateway))


class _CommandRun:
    """One run of a command, from its start until its processes and temporary files are gone."""

    def __init__(
        self, commands: Commands, ctx: CommandContext, command: Command, launch: Launch, recording: Recording | None
    ) -> None:
        self._commands = commands
        self._ctx = ctx
        self._command = command
        self._launch = launch
        self._recording = recording
        self._job: SupervisedCommand | None = None
        self._buffers: list[OutputBuffer] = []
        self._readers: list[PipeReader] = []
        self._cleaned_up = False

    async def run(self, passed: Sequence[int]) -> CommandResult:
        try:
            self._start(passed)
            ended, cancelled = await self._wait()
            for rest in [reader.end() for reader in self._readers]:
                if rest is not None:
                    _, again = await _wait_through_cancellation(rest)
                    cancelled = cancelled or again
            self._readers.clear()
            self._cleaned_up = True
            if self._recording is None and not self._launch.contained:
                found = _clean_up(self._launch, None)
            else:
                self._ctx.pause()  # commands that share the recording may take longer
                try:
                    found, again = await _wait_through_cancellation(
                        _threads.run(_clean_up, self._launch, self._recording)
                    )
                finally:
                    self._ctx.resume()
                cancelled = cancelled or again
        except CommandNotStarted as error:
            raise SandboxRefused(f"The command could not be started: {error}.") from None
        except SupervisorLost as error:
            raise OutcomeUnknown(str(error)) from None
        finally:
            self._abandon()
        if cancelled is not None and self._ctx.stop_reason is None:
            raise cancelled
        ran = self._result(ended, found)
        if found.lost:
            parts = ("Some of its changes could not be applied:", *found.lost[:10], f"They are kept in {found.kept}.")
            raise OutcomeUnknown("\n".join((*parts, ran.output)))
        if ended.survivors:
            raise OutcomeUnknown(
                f"{ended.survivors} of its processes could not be killed and may still run.\n\n{ran.output}"
            )
        self._ctx.command_ended = True
        return ran

    def _start(self, passed: Sequence[int]) -> None:
        command = self._command
        with contextlib.ExitStack() as ours:

            def closing(fd: int) -> int:
                ours.callback(os.close, fd)
                return fd

            stdin = closing(memory_file(command.stdin) if command.stdin else os.open(os.devnull, os.O_RDONLY))
            stdout = closing(self._pipe(command.streams))
            stderr = stdout if command.merged else closing(self._pipe(False))
            self._job = self._commands.supervisor.run(
                self._launch, stdin, stdout, stderr, passed_fds=passed, wait_for_namespaces=self._recording is not None
            )

    def _pipe(self, streams: bool) -> int:
        """Create a pipe with a reader on it; returns the end to write to."""
        reading, writing = os.pipe()
        first = not self._readers
        ledger = self._commands.ledger
        redactor, events = self._commands.redactor, self._commands.events
        spills = first and ledger is not None and self._command.max_bytes is None and not self._ctx.granted
        buffer = OutputBuffer(
            self._limits(), ledger.blobs if spills and ledger is not None else None, lambda: redactor.active
        )
        watch = self._streamer() if streams else None
        self._buffers.append(buffer)
        self._readers.append(PipeReader(reading, buffer, watch, lambda: watch is not None and not events.idle))
        return writing

    def _limits(self) -> OutputLimits:
        command, config = self._command, self._commands.config.output
        if command.max_bytes is not None:
            return OutputLimits(keeps=command.keeps, max_bytes=command.max_bytes, max_lines=None)
        return OutputLimits(
            keeps=command.keeps, max_bytes=config.max_bytes, max_lines=config.max_lines, max_spill=config.max_spill
        )

    def _streamer(self) -> Callable[[bytes], None]:
        decoder = getincrementaldecoder("utf-8")("replace")

        def stream(block: bytes) -> None:
            self._ctx.stream(decoder.decode(block))

        return stream

    async def _wait(self) -> tuple[ExitStatus, asyncio.CancelledError | None]:
        assert self._job is not None
        try:
            return await self._job.wait(), None
        except asyncio.CancelledError as error:
            self._job.stop(0.0 if self._launch.pid_namespace else TERM_GRACE)
            ended, _ = await _wait_through_cancellation(self._job.wait())
            return ended, error

    def _abandon(self) -> None:
        """Stop an unfinished command without waiting for it. A thread cleans up when it is gone."""
        for reader in self._readers:
            reader.abandon()
        if self._cleaned_up:
            return
        self._cleaned_up = True
        job = self._job
        if job is not None and not job.finished:
            job.stop_listening()
            job.stop()

        def tidy() -> None:
            if job is not None and not job.finished:
                job.wait_blocking(_LAST_WAIT)
            _clean_up(self._launch, self._recording if job is not None else None)
            if job is None and self._recording is not None:
                self._recording.discard()

        threading.Thread(target=tidy, name="holdfast-tidy", daemon=True).start()

    def _result(self, ended: ExitStatus, found: Changes) -> CommandResult:
        redactor = self._commands.redactor
        where = f"output.read call={self._ctx.call_id}"
        hide, margin = (redactor, redactor.longest) if redactor.active else (str, 0)
        kept = [buffer.finish(hide, where, margin) for buffer in self._buffers]
        shown: CapturedOutput = kept[0]
        network, writable = self._bounds()
        return CommandResult(
            code=ended.code,
            signal=None if ended.signal is None else signal_name(ended.signal),
            output=shown.text,
            error_output=kept[1].text if len(kept) > 1 else "",
            total_bytes=shown.total_bytes,
            total_lines=shown.total_lines,
            output_lines=shown.output_lines,
            truncated=shown.truncated,
            notice=shown.notice,
            spill=None if shown.spill is None else shown.spill.reference,
            spilled_bytes=0 if shown.spill is None else shown.spill.size,
            contained=self._launch.contained,
            network=network,
            writable=writable,
            hidden=self._launch.hidden,
            changes=None if self._recording is None else found.changes,
            together=tuple(call for call in found.together if call != self._ctx.call_id),
            violations=found.violations,
            notes=found.notes,
            stopped=_stop_word(self._ctx.stop_reason),
        )

    def _bounds(self) -> tuple[str, tuple[str, ...]]:
        """The network access and the writable folders that the command had."""
        if not self._launch.contained:
            return "on", ()
        if self._command.read_only:
            return "off", ()
        policy = self._commands.sandbox_of(self._ctx.call_record).policy
        return _network(policy), tuple(map(str, policy.writable))


def _network(policy: SandboxPolicy) -> str:
    hosts = policy.network
    return hosts if isinstance(hosts, str) else f"only {', '.join(hosts)}"


def _clean_up(launch: Launch, recording: Recording | None) -> Changes:
    """Apply the recorded changes and clean up after the launch. Every process of the command must be gone."""
    violations: tuple[str, ...] = ()
    try:
        violations = clean_up(launch)
    finally:
        found = Changes() if recording is None else recording.finish()
    return replace(found, violations=(*found.violations, *violations), notes=cleanup_notes(launch))


async def _wait_through_cancellation(work: Any) -> tuple[Any, asyncio.CancelledError | None]:
    """Wait for `work` to end even if this task is cancelled; returns its result and the cancellation to raise."""
    future = asyncio.ensure_future(work)
    cancelled = None
    while not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError as error:
            if future.cancelled():
                raise
            cancelled = error
    return future.result(), cancelled


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _stop_word(why: StopReason | None) -> Literal["timeout", "cancelled"] | None:
    return None if why is None else "timeout" if why is StopReason.TIMEOUT else "cancelled"
