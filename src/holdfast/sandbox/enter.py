"""`python -m holdfast.sandbox.enter POLICY -- COMMAND …`: what `wrap_command` makes of a command, so that any way of
starting a process starts it contained. It stays until the command has ended, then puts protected paths right."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType

import msgspec
from msgspec import Struct

from holdfast.config.model import SandboxConfig
from holdfast.contract.command import Command
from holdfast.contract.errors import HoldfastError

CANNOT = 126


class Told(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    config: SandboxConfig
    root: str | None = None
    document_dir: str | None = None
    state: str | None = None
    protected: tuple[str, ...] = ()


def main(argv: list[str]) -> int:
    if len(argv) < 3 or argv[1] != "--":
        return _failed("it is started by wrap_command, not by hand")
    try:
        told = msgspec.json.decode(argv[0], type=Told)
        return _run(told, tuple(argv[2:]))
    except (msgspec.MsgspecError, HoldfastError, OSError) as error:
        return _failed(str(error))


def _run(told: Told, argv: tuple[str, ...]) -> int:
    from holdfast.sandbox.running import finish, started
    from holdfast.sandbox.sandbox import Sandbox

    sandbox = Sandbox(
        told.config,
        root=_path(told.root),
        document_dir=_path(told.document_dir),
        state=_path(told.state),
        extra_protected=told.protected,
    )
    if sandbox.backend() is None:
        return _failed(sandbox.why_not())
    stopping = _Stopping()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stopping)
    launch = sandbox.launch(Command(argv=argv, cwd=Path.cwd()))
    try:
        try:
            with started(launch) as process:
                return process.wait()
        finally:
            stopping.heard = True
    finally:
        for path in finish(launch):
            sys.stderr.write(f"holdfast: the protected path {path!a} was put back.\n")


class _Stopping:
    """The first signal ends the command; those that come later do not disturb what is put right after it."""

    def __init__(self) -> None:
        self.heard = False

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if not self.heard:
            self.heard = True
            raise SystemExit(128 + number)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _failed(reason: str) -> int:
    sys.stderr.write(f"holdfast: the command was not started: {reason}\n")
    return CANNOT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
