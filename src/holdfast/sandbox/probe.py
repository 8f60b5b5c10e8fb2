"""Backend selection: an installed backend counts only if it passes its probe, a few escape tests run for real.

Results are cached in memory and in the state folder. Third parties `register` their backends here.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from holdfast.contract.command import Command
from holdfast.contract.errors import ConfigError, HoldfastError
from holdfast.fs.replace import write_private
from holdfast.fs.temporary import make_temporary_folder, remove_temporary_folder
from holdfast.sandbox.launch import Backend, EscapeTestResult, Overlay, Progress, run_launch
from holdfast.sandbox.policy import SandboxPolicy

SUCCESS_TTL: Final = 30 * 24 * 3600.0
FAILURE_TTL: Final = 300.0
_cache: dict[str, ProbeResult] = {}
_registered: dict[str, Callable[[], list[Backend]]] = {}


def register(name: str, make: Callable[[], list[Backend]]) -> Callable[[], None]:
    """Register backends under a name; `make` is called when they are first needed. Returns a function that removes
    them."""
    if name in _registered or name in (*_built_in(), "auto"):
        raise ConfigError(f"A sandbox backend named {name!r} already exists. Choose another name.")
    _registered[name] = make

    def remove() -> None:
        _registered.pop(name, None)

    return remove


def backends(wanted: str = "auto") -> list[Backend]:
    """Return all backends, or those of one name, best first."""
    every = {**_built_in(), **_registered}
    if wanted != "auto" and wanted not in every:
        known = ", ".join(sorted(every))
        raise ConfigError(f'sandbox.backend is {wanted!r}, which is unknown. Use "auto" or one of: {known}.')
    chosen = every if wanted == "auto" else {wanted: every[wanted]}
    found = [backend for make in chosen.values() for backend in make()]
    return sorted(found, key=lambda backend: (-backend.priority, backend.name))


def _built_in() -> dict[str, Callable[[], list[Backend]]]:
    # Most runs need no backend at all.
    from holdfast.sandbox.bubblewrap import installed
    from holdfast.sandbox.landlock import Landlock

    linux = sys.platform.startswith("linux")
    return {"bubblewrap": lambda: list(installed()), "landlock": lambda: [Landlock()]} if linux else {}


class ProbeResult(Struct, frozen=True, kw_only=True):
    """Escape test results with their time."""

    at: float
    cases: tuple[EscapeTestResult, ...]

    @property
    def passed(self) -> bool:
        return all(case.contained for case in self.cases)

    @property
    def fresh(self) -> bool:
        return 0 <= time.time() - self.at < (SUCCESS_TTL if self.passed else FAILURE_TTL)


class BackendSelector:
    """Chooses the backend for one configuration, on first use."""

    def __init__(self, wanted: str, policy: SandboxPolicy, state: Path | None) -> None:
        self._wanted = wanted
        self._policy = policy
        self._state = state
        self._chosen: tuple[Backend | None] | None = None
        self._overlays: dict[Path, bool] = {}
        self._lock = threading.RLock()

    def select(self) -> Backend | None:
        with self._lock:
            if self._chosen is None:
                self._chosen = (next((one for one in backends(self._wanted) if self._problem(one) is None), None),)
            return self._chosen[0]

    def failures(self) -> str:
        """Describe why each backend was rejected."""
        problems = [f"{backend.name}: {self._problem(backend)}" for backend in backends(self._wanted)]
        return "; ".join(problems) or f"there is no backend for {sys.platform}"

    def failed_tests(self, backend: Backend) -> str:
        """Return the names of the escape tests it fails; empty if it passes all."""
        return ", ".join(case.name for case in self._cached_result(backend, "escape-tests").cases if not case.contained)

    def run_escape_tests(self, backend: Backend, done: Progress | None = None) -> tuple[EscapeTestResult, ...]:
        """Run all escape tests now and cache the results; the probe is a subset of them."""
        from holdfast.sandbox import escape_tests  # not needed if the result is cached

        found = escape_tests.run_escape_tests(backend, done=done)
        for kind, cases in (
            ("escape-tests", found),
            ("probe", tuple(case for case in found if case.name in escape_tests.PROBE_TESTS)),
        ):
            _cache[_key(backend, kind)] = ProbeResult(at=time.time(), cases=cases)
        return found

    def overlay_works(self, backend: Backend, folder: Path) -> bool:
        with self._lock:
            if folder not in self._overlays:
                self._overlays[folder] = _overlay_holds(backend, self._policy, folder, self._state)
            return self._overlays[folder]

    def _problem(self, backend: Backend) -> str | None:
        problem = backend.available()
        if problem is not None:
            return problem
        result = self._cached_result(backend, "probe")
        bad = [case for case in result.cases if not case.contained]
        return None if not bad else f"it failed its probe ({'; '.join(f'{case.name}: {case.detail}' for case in bad)})"

    def _cached_result(self, backend: Backend, kind: Literal["probe", "escape-tests"]) -> ProbeResult:
        from holdfast.sandbox import escape_tests  # not needed if the result is cached

        key = _key(backend, kind)
        file = None if self._state is None else self._state / "probes" / key
        seen = _cache.get(key) or _read(file)
        with self._lock:
            if seen is None or not seen.fresh:
                seen = ProbeResult(
                    at=time.time(),
                    cases=escape_tests.run_escape_tests(backend, escape_tests.PROBE_TESTS if kind == "probe" else None),
                )
                if file is not None:
                    with suppress(OSError):
                        write_private(file, msgspec.json.encode(seen))
            _cache[key] = seen
            return seen


def _key(backend: Backend, kind: str) -> str:
    here = (platform.release(), platform.version(), str(os.geteuid()), code_version())
    digest = sha256("\0".join((kind, backend.name, backend.identity, *here)).encode()).hexdigest()
    return f"{kind}-{digest[:32]}.json"


@lru_cache(maxsize=1)
def code_version() -> str:
    """Identify the version of this package by the names, sizes and dates of its files."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return " ".join(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)


def _read(file: Path | None) -> ProbeResult | None:
    with suppress(OSError, msgspec.MsgspecError):
        return None if file is None else msgspec.json.decode(file.read_bytes(), type=ProbeResult)
    return None


def _overlay_holds(backend: Backend, policy: SandboxPolicy, folder: Path, state: Path | None) -> bool:
    """Run one command in an overlay on the folder and check that the folder itself is untouched."""
    about = folder.stat()
    if folder not in policy.writable or (about.st_uid, about.st_gid) != (os.geteuid(), os.getegid()):
        return False  # copy-up of another user's file fails: its owner is not mapped in the user namespace
    try:
        if state is not None:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = make_temporary_folder("overlay", state)
    except OSError:
        return False
    name = f".{scratch.name}"
    try:
        (scratch / "upper").mkdir()
        (scratch / "work").mkdir()
        overlay = Overlay(lower=folder, upper=scratch / "upper", work=scratch / "work")
        command = Command(argv=("/bin/sh", "-c", f"echo x > {name} && cat {name}"), cwd=folder)
        code, _out, _err = run_launch(backend.launch(policy, command, (overlay,)), 10)
        return code == 0 and (scratch / "upper" / name).is_file() and not (folder / name).exists()
    except (HoldfastError, OSError):
        return False
    finally:
        remove_temporary_folder(scratch)
