"""The sandbox of one place: its policy, the backend that held its probe, and every command made ready to start.

`python -m holdfast.sandbox.sandbox POLICY -- COMMAND …` is what `wrap_command` makes of a command, so that any way of
starting a process starts it contained. It stays until the command has ended, then puts protected paths right.
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
"""How often a command is made ready anew where something changes meanwhile."""


class Sandbox:
    """What commands may touch here, and how they are held to it."""

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
        """This sandbox for one call that may reach more. Raises `SandboxRefused` for what nobody can give."""
        other = copy(self)
        for made in ("profile", "incomplete_hiding", "_selector"):
            other.__dict__.pop(made, None)
        other._widening = widening
        other._widen(widening)
        return other

    def _widen(self, widening: Widening) -> None:
        self.policy = widen_policy(self.policy, widening)
        if widening.outside:
            self._config = replace(self._config, mode="off")

    def resolve_widening(self, widening: Widening) -> Widening:
        """The widening with the real paths that its entries stand for, and hosts as they are compared."""
        for host in widening.hosts:
            if not is_allow_list_entry(host):
                raise SandboxRefused(f"{host!a} is not a host; write host, *.host or host:port.")
        return replace(widening, read=self._real(widening.read), write=self._real(widening.write))

    def _real(self, entries: Sequence[str]) -> tuple[str, ...]:
        found = (expand_path(entry, self._variables, "The path") for entry in entries)
        return tuple(sorted({os.path.realpath(path) for path in found if path is not None}))

    @property
    def mode(self) -> Literal["auto", "required", "off"]:
        return self._config.mode

    @cached_property
    def profile(self) -> str:
        """A digest of everything the policy says; an approval holds for one profile only."""
        return f"{self.mode}:{self._config.backend}:{self.policy.digest()}"

    def is_path_writable(self, path: str | Path) -> bool:
        return not self.policy.is_own_state(path) and (self.mode == "off" or self.policy.is_writable(path))

    def is_path_readable(self, path: str | Path, granted: Sequence[Path] = ()) -> bool:
        """`granted`: single files that may be read all the same."""
        policy = self.policy.with_readable_files(granted) if granted else self.policy
        return not policy.is_own_state(path) and (self.mode == "off" or policy.is_readable(path))

    def is_secret(self, path: str | Path) -> bool:
        """Whether a file tool must ask before it reads a path."""
        return self.mode != "off" and self.policy.read_restriction(path) == "ask"

    @cached_property
    def incomplete_hiding(self) -> str:
        """Why patterns of `sandbox.read_deny` may miss a file when a command runs; empty if they do not. As of the last
        command, or else of now."""
        return compile_patterns(self.policy.deny_patterns).find().incomplete

    def reveals_hidden_files(self, widening: Widening) -> bool:
        """Whether a command with this widening can read what `sandbox.read_deny` hides from others."""
        if not widening.read:
            return False
        hidden = (*map(str, self.policy.read_deny), *compile_patterns(self.policy.deny_patterns).find().paths)
        shown = [Path(path) for path in widening.read]
        return any(self.policy.is_own_state(path) for path in shown) or any(
            Path(path).is_relative_to(folder) for path in hidden for folder in shown
        )

    def is_protected(self, path: str | Path) -> str | None:
        """Why a command may not change a path, even in a writable folder; None if it may."""
        root = self.policy.root
        full = Path(root or self._cwd, path)
        if any(full.is_relative_to(folder) for folder in self.policy.installation):
            return INSTALLED_REASON
        return command_locked_reason(full, root=root, extra=self.policy.protected, writable=self.policy.writable)

    def backend(self) -> Backend | None:
        """The first backend whose probe held here, for this user; None if there is none or the sandbox is off."""
        return None if self.mode == "off" else self._selector.select()

    def backends(self) -> list[Backend]:
        """Those the configuration allows, in the order they are tried."""
        return backends(self._config.backend)

    def run_escape_tests(self, backend: Backend, done: Progress | None = None) -> tuple[EscapeTestResult, ...]:
        """The whole escape tests, run now, whatever is remembered; `done` is told how many cases are over."""
        return self._selector.run_escape_tests(backend, done)

    def passes_escape_tests(self) -> bool:
        """Whether every case of the escape battery held. Slow the first time on a machine, remembered after that."""
        backend = self.backend()
        return backend is not None and not self._selector.failed_tests(backend)

    def problem(self) -> str:
        """Why there is no backend, or what the one there is did not hold; empty if all is well."""
        if self.mode == "off":
            return 'the sandbox is switched off (sandbox.mode = "off")'
        backend = self.backend()
        return self._selector.failures() if backend is None else self._selector.failed_tests(backend)

    def wrap_command(self, command: Sequence[str]) -> list[str]:
        """The command as an argv that contains itself, for any way of starting it."""
        if self.mode == "off":
            return list(command)
        if self.backend() is None:
            raise SandboxRefused(
                f"The command cannot be contained: {self.problem()}. "
                'Run `holdfast doctor`, or set sandbox.mode = "off" to run commands bare.'
            )
        check_installation(self.policy)
        told = _SandboxArguments(
            config=self._config,
            root=self.policy.root,
            document_dir=self._document_dir,
            state=self._state,
            extra_protected=self.policy.protected,
            widening=self._widening,
        )
        words = msgspec.json.encode(told, enc_hook=str).decode()
        return [*holdfast_module("holdfast.sandbox.sandbox", words), "--", *command]

    def launch(
        self,
        command: Command,
        *,
        overlays: tuple[Overlay, ...] = (),
        granted: Sequence[Path] = (),
        require_complete: bool = False,
    ) -> Launch:
        """Everything needed to start the command. Without a backend it is bare in mode `auto`, since a person was
        asked about it then, and refused in mode `required`. `granted`: single files that it may read, whatever
        `sandbox.read_deny` says. `require_complete`: refuse where not everything can be hidden that should be."""
        if not command.argv or any("\0" in word for word in command.argv):
            raise SandboxRefused("The command is empty or holds a NUL character; name a program and its arguments.")
        check_installation(self.policy)
        backend = self.backend()
        if backend is not None:
            left = RecoveryNotes()
            recover(self.policy.quarantine, left.notes)
            policy = self._expanded(granted, require_complete=require_complete)
            launch = replace(_launch_with_retries(backend, policy, command, overlays), hidden=_hidden_paths(policy))
            return replace(launch, cleanup=(*launch.cleanup, left)) if left.notes else launch
        if self.mode == "required":
            raise SandboxRefused(
                f'sandbox.mode is "required" and the command cannot be contained: {self.problem()}. '
                "Run `holdfast doctor` to see what is missing."
            )
        if overlays:
            raise SandboxRefused("Without a sandbox there are no overlays.")
        return self._uncontained(command)

    def _expanded(self, granted: Sequence[Path], *, require_complete: bool) -> SandboxPolicy:
        """The policy of one command: what the patterns match now, without what was granted."""
        for path in self.policy.own_state:
            if self.policy.is_writable(path.parent):  # what is not there cannot be covered, and could be made
                make_private_folder(path)
        found = compile_patterns(self.policy.deny_patterns).find()
        self.incomplete_hiding = found.incomplete
        if require_complete and found.incomplete:
            raise SandboxRefused(
                f"Not every file that sandbox.read_deny names could be hidden: {found.incomplete}. "
                "Nothing was run; ask again."
            )
        return self.policy.with_readable_files(granted).with_pattern_matches(found.paths)

    def overlay_works(self, folder: Path) -> bool:
        """Whether changes in a writable folder can go to an overlay; found by doing it once."""
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
            cleanup=(groups,),
        )

    @cached_property
    def _selector(self) -> BackendSelector:
        return BackendSelector(self._config.backend, self.policy, user_state_dir() if self._remember else None)


def _launch_with_retries(
    backend: Backend, policy: SandboxPolicy, command: Command, overlays: tuple[Overlay, ...]
) -> Launch:
    """Commands that run at the same time put up masks and take them away, so one look may be out of date."""
    for _ in range(_LAUNCH_ATTEMPTS - 1):
        with suppress(PathChanged):
            return backend.launch(policy, command, overlays)
    return backend.launch(policy, command, overlays)


def _hidden_paths(policy: SandboxPolicy) -> tuple[str, ...]:
    """What is hidden from a command and is there, but for holdfast's own files."""
    denied = (path for path in policy.read_deny if path not in policy.own_state)
    return tuple(str(path) for path in (*policy.pattern_matches, *denied) if os.path.lexists(path))


class RecoveryNotes:
    """What had to be put right after earlier commands, told with what the next one leaves."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def __call__(self) -> None:
        """It is done already."""


class _SandboxArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a wrapped command is told: the arguments of its `Sandbox`."""

    config: SandboxConfig
    root: Path | None = None
    document_dir: Path | None = None
    state: Path | None = None
    extra_protected: tuple[str, ...] = ()
    widening: Widening | None = None


def main(argv: list[str]) -> int:
    if len(argv) < 3 or argv[1] != "--":
        return _failed("it is started by wrap_command, not by hand")
    try:
        told = msgspec.json.decode(argv[0], type=_SandboxArguments, dec_hook=lambda kind, text: kind(text))
        return _run(Sandbox(**asdict(told)), tuple(argv[2:]))
    except (msgspec.MsgspecError, HoldfastError, OSError) as error:
        return _failed(str(error))


def _run(sandbox: Sandbox, argv: tuple[str, ...]) -> int:
    if sandbox.backend() is None:
        return _failed(sandbox.problem())
    stopping = _SignalHandler()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stopping)
    launch = sandbox.launch(Command(argv=argv, cwd=Path.cwd()))
    try:
        try:
            with start_launch(launch) as process:
                return process.wait()
        finally:
            stopping.heard = True
    finally:
        for path in clean_up(launch):
            sys.stderr.write(f"holdfast: the protected path {path!a} was put back.\n")


class _SignalHandler:
    """The first signal ends the command; those that come later do not disturb what is put right after it."""

    heard = False

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if not self.heard:
            self.heard = True
            raise SystemExit(128 + number)


def _failed(reason: str) -> int:
    sys.stderr.write(f"holdfast: the command was not started: {reason}\n")
    return EXIT_NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
