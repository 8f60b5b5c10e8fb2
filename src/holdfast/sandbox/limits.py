"""Resource limits of a command: rlimits, and control groups (cgroup v1 or v2) where this user may create them."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final

from msgspec import Struct

from holdfast import helper_process
from holdfast.config.config import SandboxConfig

_V1: Final = {"pids": "pids.max", "memory": "memory.limit_in_bytes"}
_V2: Final = {"pids": "pids.max", "memory": "memory.max"}
_TRIAL_LIMITS: Final = {"pids": 1024, "memory": 2**30}
_serial = count()


class Limits(Struct, frozen=True, kw_only=True):
    memory: int | None = None
    processes: int | None = None
    file_size: int | None = None
    open_files: int | None = None
    cpu_seconds: int | None = None

    @classmethod
    def from_config(cls, config: SandboxConfig) -> Limits:
        return cls(
            memory=config.memory, processes=config.processes, file_size=config.file_size, open_files=config.open_files,
            cpu_seconds=config.cpu_seconds,
        )  # fmt: skip


def rlimits(limits: Limits) -> tuple[tuple[int, int], ...]:
    """Return (resource, limit) pairs, none above this process's own hard limit."""
    wanted = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, limits.memory),
        (resource.RLIMIT_NPROC, _process_limit(limits.processes)),
        (resource.RLIMIT_FSIZE, limits.file_size),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
    )
    hard = {kind: resource.getrlimit(kind)[1] for kind, _ in wanted}
    maximum = {kind: limit for kind, limit in hard.items() if limit != resource.RLIM_INFINITY}
    return tuple((kind, min(value, maximum.get(kind, value))) for kind, value in wanted if value is not None)


def _process_limit(processes: int | None) -> int | None:
    """Add the threads that already run: RLIMIT_NPROC counts every thread of the user, not of this command."""
    if processes is None:
        return None
    with suppress(OSError, ValueError, IndexError):
        return processes + running_tasks()
    return processes


def running_tasks() -> int:
    """The number of threads on the machine, an upper bound for this user's."""
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[2])


class ControlGroups:
    """Control groups created for one command."""

    def __init__(self, limits: Limits) -> None:
        self.folders = tuple(_make_groups(limits))

    def remove(self) -> None:
        for folder in self.folders:
            with suppress(OSError):
                Path(folder).rmdir()


def _make_groups(limits: Limits) -> Iterator[str]:
    wanted = {"pids": limits.processes, "memory": limits.memory}
    name = f"holdfast-{os.getpid()}-{next(_serial)}"
    for parent, files in group_parents():
        folder = Path(parent, name)
        values = [(file, wanted[controller]) for controller, file in files if wanted[controller] is not None]
        if values and _make(folder, values):
            yield str(folder)


@lru_cache(maxsize=1)
def group_parents() -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return the folders in which this user may create groups, with their controllers and files; found by trying."""
    found = tuple((str(parent), files) for parent, files in _candidates() if _usable(parent, files))
    covered: set[str] = set()
    kept: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    for parent, files in found:
        new = tuple((controller, file) for controller, file in files if controller not in covered)
        if new:
            covered.update(controller for controller, _file in new)
            kept.append((parent, new))
    return tuple(kept)


def _candidates() -> Iterator[tuple[Path, tuple[tuple[str, str], ...]]]:
    mounts = list(_group_mounts())
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in sorted(lines):
        _number, controllers, own = line.split(":", 2)
        for kind, options, mount in mounts:
            here = mount / own.lstrip("/")
            if kind == "cgroup2" and not controllers:
                # Under v2 a group with processes cannot have child groups, so its parent is tried as well.
                for parent in (here, here.parent):
                    yield parent, _enabled_controllers(parent)
            elif kind == "cgroup" and controllers and set(controllers.split(",")) <= options:
                yield here, tuple((name, file) for name, file in _V1.items() if name in controllers.split(","))


def _group_mounts() -> Iterator[tuple[str, set[str], Path]]:
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            before, _dash, after = line.partition(" - ")
            kind, _source, options = after.split(" ", 2)
            if kind in ("cgroup", "cgroup2"):
                yield kind, set(options.split(",")), Path(before.split(" ")[4])


def _enabled_controllers(parent: Path) -> tuple[tuple[str, str], ...]:
    with suppress(OSError):
        names = (parent / "cgroup.subtree_control").read_text(encoding="ascii").split()
        return tuple((name, file) for name, file in _V2.items() if name in names)
    return ()


def _usable(parent: Path, files: Iterable[tuple[str, str]]) -> bool:
    files = tuple(files)
    if not files or not os.access(parent / "cgroup.procs", os.W_OK):
        return False
    _remove_stale_groups(parent)
    folder = parent / f"holdfast-{os.getpid()}-probe-{next(_serial)}"
    made = _make(folder, [(file, _TRIAL_LIMITS[name]) for name, file in files]) and _can_be_joined(folder)
    with suppress(OSError):
        folder.rmdir()
    return made


def _can_be_joined(folder: Path) -> bool:
    process = helper_process.start(("/bin/cat",), stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL)
    try:
        (folder / "cgroup.procs").write_text(str(process.pid), encoding="ascii")
    except OSError:
        return False
    else:
        return True
    finally:
        process.kill()
        process.communicate()


def _make(folder: Path, values: Iterable[tuple[str, int | None]]) -> bool:
    try:
        folder.mkdir()
        for file, value in values:
            (folder / file).write_text(str(value), encoding="ascii")
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        return False
    return True


def _remove_stale_groups(parent: Path) -> None:
    """Remove the groups of holdfast processes that were killed before their cleanup."""
    with suppress(OSError):
        for folder in parent.glob("holdfast-*"):
            owner = folder.name.split("-")[1]
            if owner.isdigit() and not Path("/proc", owner).exists():
                with suppress(OSError):
                    folder.rmdir()
