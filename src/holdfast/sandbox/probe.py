"""Which backends there are, and which works here: one that was run and held, not one that is installed.

What was seen is remembered. Third parties register their backends here.
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
from holdfast.sandbox.launch import Backend, EscapeTestResult, Overlay, Progress
from holdfast.sandbox.policy import SandboxPolicy

SUCCESS_TTL: Final = 30 * 24 * 3600.0
FAILURE_TTL: Final = 300.0
_cache: dict[str, ProbeResult] = {}

_registered: dict[str, Callable[[], list[Backend]]] = {}


def register(name: str, make: Callable[[], list[Backend]]) -> Callable[[], None]:
    """Add backends under a name, made when they are first needed; the answer takes them away again."""
    if name in _registered or name in (*_built_in(), "auto"):
        raise ConfigError(f"There is a sandbox backend {name!r} already; choose another name.")
    _registered[name] = make

    def remove() -> None:
        _registered.pop(name, None)

    return remove


def backends(wanted: str = "auto") -> list[Backend]:
    """Those to try, best first: all of them, or those of one name."""
    every = {**_built_in(), **_registered}
    if wanted != "auto" and wanted not in every:
        known = ", ".join(sorted(every))
        raise ConfigError(f'sandbox.backend is {wanted!r}, which is not known; use "auto" or one of: {known}.')
    chosen = every if wanted == "auto" else {wanted: every[wanted]}
    found = [backend for make in chosen.values() for backend in make()]
    return sorted(found, key=lambda backend: (-backend.priority, backend.name))


def _built_in() -> dict[str, Callable[[], list[Backend]]]:
    from holdfast.sandbox.bubblewrap import installed
    from holdfast.sandbox.landlock import Landlock

    linux = sys.platform.startswith("linux")
    return {"bubblewrap": lambda: list(installed()), "landlock": lambda: [Landlock()]} if linux else {}


class ProbeResult(Struct, frozen=True, kw_only=True):
    """The outcome of cases that were run, and when."""

    at: float
    cases: tuple[EscapeTestResult, ...]

    @property
    def passed(self) -> bool:
        return all(case.contained for case in self.cases)

    @property
    def fresh(self) -> bool:
        return 0 <= time.time() - self.at < (SUCCESS_TTL if self.passed else FAILURE_TTL)


class BackendSelector:
    """The backends one configuration allows, tried when somebody asks."""

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
        """Every backend and why it was not taken."""
        faults = [f"{backend.name}: {self._problem(backend)}" for backend in backends(self._wanted)]
        return "; ".join(faults) or f"there is no backend for {sys.platform}"

    def failed_tests(self, backend: Backend) -> str:
        """The cases of the whole battery that did not hold; empty if all of them did."""
        return ", ".join(case.name for case in self._cached_result(backend, "escape-tests").cases if not case.contained)

    def run_escape_tests(self, backend: Backend, done: Progress | None = None) -> tuple[EscapeTestResult, ...]:
        """Run the battery now; what it shows replaces what was known, and the probe is a part of it."""
        from holdfast.sandbox import escape_tests

        found = escape_tests.run_escape_tests(backend, done=done)
        for what, cases in (
            ("escape-tests", found),
            ("probe", tuple(case for case in found if case.name in escape_tests.PROBE_TESTS)),
        ):
            _cache[_key(backend, what)] = ProbeResult(at=time.time(), cases=cases)
        return found

    def overlay_works(self, backend: Backend, folder: Path) -> bool:
        with self._lock:
            if folder not in self._overlays:
                self._overlays[folder] = _overlay_holds(backend, self._policy, folder, self._state)
            return self._overlays[folder]

    def _problem(self, backend: Backend) -> str | None:
        fault = backend.available()
        if fault is not None:
            return fault
        seen = self._cached_result(backend, "probe")
        bad = [case for case in seen.cases if not case.contained]
        return None if not bad else f"it did not hold ({'; '.join(f'{case.name}: {case.detail}' for case in bad)})"

    def _cached_result(self, backend: Backend, kind: Literal["probe", "escape-tests"]) -> ProbeResult:
        from holdfast.sandbox import escape_tests

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


def _key(backend: Backend, what: str) -> str:
    here = (platform.release(), platform.version(), str(os.geteuid()), code_version())
    digest = sha256("\0".join((what, backend.name, backend.identity, *here)).encode()).hexdigest()
    return f"{what}-{digest[:32]}.json"


@lru_cache(maxsize=1)
def code_version() -> str:
    """Which version of this room was probed with: its files, their sizes and dates."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return " ".join(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)


def _read(file: Path | None) -> ProbeResult | None:
    with suppress(OSError, msgspec.MsgspecError):
        return None if file is None else msgspec.json.decode(file.read_bytes(), type=ProbeResult)
    return None


def _overlay_holds(backend: Backend, policy: SandboxPolicy, folder: Path, state: Path | None) -> bool:
    """One run that changes and makes files, with the overlay where recordings are kept; the folder must not notice."""
    about = folder.stat()
    if folder not in policy.writable or (about.st_uid, about.st_gid) != (os.geteuid(), os.getegid()):
        return False  # what belongs to somebody else cannot be copied up: its owner does not exist inside
    try:
        if state is not None:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = make_temporary_folder("overlay", state)
    except OSError:
        return False
    name = f".{scratch.name}"
    from holdfast.sandbox.launch import run_launch

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
