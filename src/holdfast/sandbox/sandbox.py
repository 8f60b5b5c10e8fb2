"""`Sandbox`: the policy of a project, the backend whose probe passed, and every command prepared for launch.

`python -m holdfast.sandbox.sandbox POLICY -- COMMAND …` is the argv that `wrap_command` returns: a command that
contains itself however it is started. It waits for the command, then restores protected paths.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.contract.errors import HoldfastError, SandboxRefused
from holdfast.contract.widening import Widening
from holdfast.fs.own_paths import user_state_dir
from holdfast.fs.protected_paths import INSTALLED_REASON, command_locked_reason
from holdfast.fs.replace import make_private_folder
from holdfast.helper_process import holdfast_module
from holdfast.net.hosts import is_allow_list_entry
from holdfast.sandbox.hidden_files import compile_patterns
from holdfast.sandbox.launch import (
    Backend,
    EscapeTestResult,
    Launch,
    Overlay,
    PathChanged,
    Progress,
    clean_up,
    find_program,
    start_launch,
)
from holdfast.sandbox.limits import ControlGroups, rlimits
from holdfast.sandbox.policy import (
    PathVariables,
    SandboxPolicy,
    check_installation,
    command_environment,
    expand_path,
    resolve_policy,
    widen_policy,
)
from holdfast.sandbox.probe import BackendSelector, backends
from holdfast.sandbox.restore_protected import recover

EXIT_NOT_STARTED: Final = 126
_LAUNCH_ATTEMPTS: Final = 10
"""Attempts to prepare a command while other commands change the writable folders."""


class Sandbox:
    """Prepares commands under the policy of one project."""

    def __init__(
        self,
        config: SandboxConfig,
        *,
        root: Path | None,
        document_dir: Path | None = None,
        state: Path | None = None,
        extra_protected: Sequence[str] = (),
        cwd: Path | None = None,
        remember: bool = True,
        untrusted_folders: Sequence[Path] = (),
        widening: Widening | None = None,
    ) -> None:
        """`remember`: cache probe results in the state folder. `untrusted_folders`: see `policy.resolve_policy`.
        `widening`: what one call may reach beyond the configuration; see `widened`."""
        self._config = config
        self._document_dir = document_dir
        self._cwd = cwd or Path.cwd()
        self._state = state
        self._remember = remember
        places = PathVariables(cwd=self._cwd, root=root, document=document_dir, home=Path.home())
        self.policy: SandboxPolicy = resolve_policy(
            config, places, state=state, protected=extra_protected, untrusted_folders=untrusted_folders
        )
        self._variables = places
        self._widening = widening
        if widening is not None:
            self._widen(widening)

    def widened(self, widening: Widening) -> Sandbox:
        """Return this sandbox for one call with wider access. Raises `SandboxRefused` for paths that cannot be
        granted."""
        other = copy(self)
        for cached in ("profile", "incomplete_hiding", "_selector"):
            other.__dict__.pop(cached, None)
        other._widening = widening
        other._widen(widening)
        return other

    def _widen(self, widening: Widening) -> None:
        self.policy = widen_policy(self.policy, widening)
        if widening.outside:
            self._config = replace(self._config, mode="off")

    def resolve_widening(self, widening: Widening) -> Widening:
        """Return the widening with variables and symlinks resolved. Raises `SandboxRefused` for a malformed host."""
        for host in widening.hosts:
            if not is_allow_list_entry(host):
                raise SandboxRefused(f"{host!a} is not a host. Use host, *.host or host:port.")
        return replace(widening, read=self._real(widening.read), write=self._real(widening.write))

    def _real(self, entries: Sequence[str]) -> tuple[str, ...]:
        found = (expand_path(entry, self._variables, "The path") for entry in entries)
        return tuple(sorted({os.path.realpath(path) for path in found if path is not None}))

    @property
    def mode(self) -> Literal["auto", "required", "off"]:
        return self._config.mode

    @cached_property
    def profile(self) -> str:
        """A digest of mode, backend and policy; an approval is valid for one profile only."""
        return f"{self.mode}:{self._config.backend}:{self.policy.digest()}"

    def is_path_writable(self, path: str | Path) -> bool:
        return not self.policy.is_own_state(path) and (self.mode == "off" or self.policy.is_writable(path))

    def is_path_readable(self, path: str | Path, granted: Sequence[Path] = ()) -> bool:
        """`granted`: files that may be read despite `sandbox.read_deny`."""
        policy = self.policy.with_readable_files(granted) if granted else self.policy
        return not policy.is_own_state(path) and (self.mode == "off" or policy.is_readable(path))

    def is_secret(self, path: str | Path) -> bool:
        """Whether a file tool needs approval before it reads a path."""
        return self.mode != "off" and self.policy.read_restriction(path) == "ask"

    @cached_property
    def incomplete_hiding(self) -> str:
        """Why a command might see a file that `sandbox.read_deny` names; empty if all are hidden. Refers to the last
        launch, or to now if there was none."""
        return compile_patterns(self.policy.deny_patterns).find().incomplete

    def reveals_hidden_files(self, widening: Widening) -> bool:
        """Whether a command with this widening can read files that `sandbox.read_deny` hides."""
        if not widening.read:
            return False
        hidden = (*map(str, self.policy.read_deny), *compile_patterns(self.policy.deny_patterns).find().paths)
        shown = [Path(path) for path in widening.read]
        return any(self.policy.is_own_state(path) for path in shown) or any(
            Path(path).is_relative_to(folder) for path in hidden for folder in shown
        )

    def is_protected(self, path: str | Path) -> str | None:
        """Why a command may not change a path even in a writable folder; None if it may."""
        root = self.policy.root
        full = Path(root or self._cwd, path)
        if any(full.is_relative_to(folder) for folder in self.policy.installation):
            return INSTALLED_REASON
        return command_locked_reason(full, root=root, extra=self.policy.protected, writable=self.policy.writable)

    def backend(self) -> Backend | None:
        """The first backend whose probe passes for this user; None if there is none or the sandbox is off."""
        return None if self.mode == "off" else self._selector.select()

    def backends(self) -> list[Backend]:
        """The configured backends in the order they are tried."""
        return backends(self._config.backend)

    def run_escape_tests(self, backend: Backend, done: Progress | None = None) -> tuple[EscapeTestResult, ...]:
        """Run all escape tests now, ignoring the cache. `done` receives the progress."""
        return self._selector.run_escape_tests(backend, done)

    def passes_escape_tests(self) -> bool:
        """Whether the backend passes every escape test. Slow the first time on a machine, cached afterwards."""
        backend = self.backend()
        return backend is not None and not self._selector.failed_tests(backend)

    def problem(self) -> str:
        """Why there is no backend, or which escape tests it fails; empty if all is well."""
        if self.mode == "off":
            return 'the sandbox is switched off (sandbox.mode = "off")'
        backend = self.backend()
        return self._selector.failures() if backend is None else self._selector.failed_tests(backend)

    def wrap_command(self, command: Sequence[str]) -> list[str]:
        """Return an argv that runs the command contained, however it is started."""
        if self.mode == "off":
            return list(command)
        if self.backend() is None:
            raise SandboxRefused(
                f"The command cannot be sandboxed: {self.problem()}. "
                'Run `holdfast doctor`, or set sandbox.mode = "off" to run commands without a sandbox.'
            )
        check_installation(self.policy)
        arguments = _SandboxArguments(
            config=self._config,
            root=self.policy.root,
            document_dir=self._document_dir,
            state=self._state,
            extra_protected=self.policy.protected,
            widening=self._widening,
        )
        encoded = msgspec.json.encode(arguments, enc_hook=str).decode()
        return [*holdfast_module("holdfast.sandbox.sandbox", encoded), "--", *command]

    def launch(
        self,
        command: Command,
        *,
        overlays: tuple[Overlay, ...] = (),
        granted: Sequence[Path] = (),
        require_complete: bool = False,
    ) -> Launch:
        """Prepare a command.

        Without a backend, mode `auto` runs it uncontained, which the user has approved in that case, and mode
        `required` refuses. `granted`: files it may read despite `sandbox.read_deny`. `require_complete`: refuse if not
        every file that should be hidden can be.
        """
        if not command.argv or any("\0" in word for word in command.argv):
            raise SandboxRefused("The command is empty or contains a NUL character. Name a program and its arguments.")
        check_installation(self.policy)
        backend = self.backend()
        if backend is not None:
            recovery = RecoveryNotes()
            recover(self.policy.quarantine, recovery.notes)
            policy = self._expanded(granted, require_complete=require_complete)
            launch = replace(_launch_with_retries(backend, policy, command, overlays), hidden=_hidden_paths(policy))
            return replace(launch, cleanup=(*launch.cleanup, recovery)) if recovery.notes else launch
        if self.mode == "required":
            raise SandboxRefused(
                f'sandbox.mode is "required" and the command cannot be sandboxed: {self.problem()}. '
                "Run `holdfast doctor` to see what is missing."
            )
        if overlays:
            raise SandboxRefused("Overlays need a sandbox, and there is none.")
        return self._uncontained(command)

    def _expanded(self, granted: Sequence[Path], *, require_complete: bool) -> SandboxPolicy:
        """Return the policy of one command, with the current pattern matches minus the granted files."""
        for path in self.policy.own_state:
            if self.policy.is_writable(path.parent):  # only an existing folder can be masked
                make_private_folder(path)
        found = compile_patterns(self.policy.deny_patterns).find()
        self.incomplete_hiding = found.incomplete
        if require_complete and found.incomplete:
            raise SandboxRefused(
                f"Some files that sandbox.read_deny names could not be hidden: {found.incomplete}. "
                "Nothing was run. Try again."
            )
        return self.policy.with_readable_files(granted).with_pattern_matches(found.paths)

    def overlay_works(self, folder: Path) -> bool:
        """Whether changes in a writable folder can be redirected to an overlay; found by trying once."""
        backend = self.backend()
        return backend is not None and self._selector.overlay_works(backend, Path(os.path.realpath(folder)))

    def _uncontained(self, command: Command) -> Launch:
        environment = command_environment(self.policy, command, home=str(Path.home()))
        cwd = os.path.realpath(command.cwd or self.policy.root or self._cwd)
        program = find_program(command.argv[0], environment["PATH"], cwd)
        groups = ControlGroups(self.policy.limits)
        return Launch(
            argv=(program, *command.argv[1:]),
            cwd=cwd,
            env=environment,
            rlimits=rlimits(self.policy.limits),
            cgroups=groups.folders,
            cleanup=(groups.remove,),
        )

    @cached_property
    def _selector(self) -> BackendSelector:
        return BackendSelector(self._config.backend, self.policy, user_state_dir() if self._remember else None)


def _launch_with_retries(
    backend: Backend, policy: SandboxPolicy, command: Command, overlays: tuple[Overlay, ...]
) -> Launch:
    """Launch, retrying while concurrent commands add and remove mount stubs that this one has already listed."""
    for _ in range(_LAUNCH_ATTEMPTS - 1):
        with suppress(PathChanged):
            return backend.launch(policy, command, overlays)
    return backend.launch(policy, command, overlays)


def _hidden_paths(policy: SandboxPolicy) -> tuple[str, ...]:
    """The existing paths hidden from a command, except holdfast's own."""
    denied = (path for path in policy.read_deny if path not in policy.own_state)
    return tuple(str(path) for path in (*policy.pattern_matches, *denied) if os.path.lexists(path))


class RecoveryNotes:
    """Notes about paths restored after a crashed process, reported with the next command's cleanup."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def __call__(self) -> None:
        """A cleanup step without work: `recover` has run already."""


class _SandboxArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of the `Sandbox` that a wrapped command creates."""

    config: SandboxConfig
    root: Path | None = None
    document_dir: Path | None = None
    state: Path | None = None
    extra_protected: tuple[str, ...] = ()
    widening: Widening | None = None


def main(argv: list[str]) -> int:
    if len(argv) < 3 or argv[1] != "--":
        return _failed("this module is started by wrap_command, not by hand")
    try:
        arguments = msgspec.json.decode(argv[0], type=_SandboxArguments, dec_hook=lambda kind, text: kind(text))
        return _run(Sandbox(**asdict(arguments)), tuple(argv[2:]))
    except (msgspec.MsgspecError, HoldfastError, OSError) as error:
        return _failed(str(error))


def _run(sandbox: Sandbox, argv: tuple[str, ...]) -> int:
    if sandbox.backend() is None:
        return _failed(sandbox.problem())
    handler = _SignalHandler()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, handler)
    launch = sandbox.launch(Command(argv=argv, cwd=Path.cwd()))
    try:
        try:
            with start_launch(launch) as process:
                return process.wait()
        finally:
            handler.triggered = True  # cleanup must not be interrupted
    finally:
        for path in clean_up(launch):
            sys.stderr.write(f"holdfast: restored the protected path {path!a}.\n")


class _SignalHandler:
    """Ends the command on the first signal. Later signals are ignored, so that they do not interrupt the cleanup."""

    triggered = False

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if not self.triggered:
            self.triggered = True
            raise SystemExit(128 + number)


def _failed(reason: str) -> int:
    sys.stderr.write(f"holdfast: the command was not started: {reason}\n")
    return EXIT_NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
