"""Projects, policies and sandboxed commands for tests."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.sandbox.bubblewrap import Bubblewrap, installed
from holdfast.sandbox.landlock import Landlock
from holdfast.sandbox.launch import Backend, Launch, Overlay, clean_up, run_launch
from holdfast.sandbox.policy import PathVariables, SandboxPolicy, resolve_policy

TIMEOUT = 60.0


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def bubblewraps() -> list[Bubblewrap]:
    return list(installed())


def best_backend() -> Backend:
    """The best backend here; every machine that runs these tests has one."""
    found = [*bubblewraps(), Landlock()]
    return found[0]


def policy(root: Path, cwd: Path | None = None, **options: Any) -> SandboxPolicy:
    config = SandboxConfig(**options)
    return resolve_policy(config, PathVariables(cwd=cwd or root, root=root, home=Path.home()))


def policy_with_installation(root: Path) -> SandboxPolicy:
    """The policy of a project that contains holdfast's interpreter two folders down."""
    (root / "server" / "venv" / "bin").mkdir(parents=True)
    (root / "server" / "venv" / "bin" / "python").write_text("ours")
    return replace(policy(root), installation=(root / "server" / "venv",))


def launched(
    backend: Backend, policy: SandboxPolicy, argv: Sequence[str], *, overlays: tuple[Overlay, ...] = (), **options: Any
) -> Launch:
    return backend.launch(policy, Command(argv=tuple(argv), **options), overlays)


def run(backend: Backend, policy: SandboxPolicy, *argv: str, **options: Any) -> Ran:
    code, out, err = run_launch(launched(backend, policy, argv, **options), TIMEOUT)
    return Ran(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def run_with_violations(
    backend: Backend, policy: SandboxPolicy, *argv: str, **options: Any
) -> tuple[Ran, tuple[str, ...]]:
    """Run a command; return its result and the restored protected paths."""
    launch = launched(backend, policy, argv, **options)
    code, out, err = run_launch(replace(launch, cleanup=()), TIMEOUT)
    return Ran(code, out.decode(), err.decode()), clean_up(launch)


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.email", "a@example.org")
    git(folder, "config", "user.name", "A")
    return folder


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout
