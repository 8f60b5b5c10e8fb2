"""Which process owns a call, and whether that process is still the same one and alive."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import time
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import Owner
from holdfast.fs.own_paths import user_state_dir
from holdfast.fs.replace import write_private
from holdfast.fs.temporary import pid_scope, start_time
from holdfast.helper_process import run, system_program


def os_user() -> str:
    """The account this process really runs as: no variable has a say in it."""
    if not hasattr(os, "getuid"):
        return ""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def this_process() -> Owner:
    return _own(os.getpid())


def owner_of(pid: int) -> Owner:
    """A process of now; one that has ended already is never alive."""
    return Owner(pid, _started(pid) or f"{_here()}:gone")


@lru_cache(maxsize=1)
def _own(pid: int) -> Owner:
    return Owner(pid, _started(pid) or "")


def alive(owner: Owner) -> bool:
    """Whether the owner still runs. Where that cannot be known it counts as alive, so that its calls are left alone."""
    me = this_process()
    if owner == me or not owner.started or not me.started:
        return True
    try:
        boot, container = owner.started.split(":")[:2]
    except (AttributeError, ValueError, TypeError):
        return True  # the record of it is damaged
    my_boot, my_container = me.started.split(":")[:2]
    pids_mean_nothing_here = boot == my_boot and container != my_container
    return pids_mean_nothing_here or _started(owner.pid) == owner.started


def _started(pid: int) -> str | None:
    """`boot:container:start time`; None for a process that is gone or only waits to be reaped."""
    moment = start_time(pid) if Path("/proc/self/stat").exists() else _start_by_ps(pid)
    return None if moment is None else f"{_here()}:{moment}"


def _start_by_ps(pid: int) -> str | None:
    from subprocess import SubprocessError

    program = system_program("ps")
    if program is None:
        return None
    try:
        words = run((program, "-o", "stat=,lstart=", "-p", str(pid)), timeout=5).decode().split()
    except (OSError, SubprocessError):
        return None
    return None if not words or words[0].startswith("Z") else " ".join(words[1:])


def _here() -> str:
    boot, container = pid_scope()
    return f"{boot}:{container}"


_FOLDER: Final = "writers"


class Writer(Struct, frozen=True, kw_only=True):
    owner: Owner
    """The process that ends it."""
    folders: tuple[str, ...]
    ended: float | None = None


class Noted:
    """A writer that lives; calling it says that it does not any more."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Raises `OSError` if it cannot be noted down: then it must not start."""
        self._writer = Writer(owner=this_process(), folders=tuple(map(str, folders)))
        self._path = user_state_dir() / _FOLDER / os.urandom(8).hex()
        _write(self._path, self._writer)

    def __call__(self) -> None:
        with suppress(OSError):
            _write(self._path, replace(self._writer, ended=time()))
            _forget(self._path, self._writer)


def wrote(path: Path, since: float | None) -> bool:
    """Whether one that may write there lives; with `since`, also one that ended after that, or nobody knows when."""
    found = False
    for file, writer in _noted():
        if not any(path.is_relative_to(folder) for folder in writer.folders):
            continue
        if writer.ended is None and alive(writer.owner):
            found = True
        elif writer.ended is None:  # killed with its owner: it ended by now, and that is all that is known
            found = found or since is not None
            with suppress(OSError):
                _write(file, replace(writer, ended=time()))
        elif since is not None and writer.ended >= since:
            found = True
    return found


def _noted() -> Iterator[tuple[Path, Writer]]:
    with suppress(OSError):
        for file in sorted((user_state_dir() / _FOLDER).iterdir()):
            with suppress(OSError, msgspec.MsgspecError):
                yield file, msgspec.json.decode(file.read_bytes(), type=Writer)


def _forget(path: Path, writer: Writer) -> None:
    """Of those that ended only the last one with the same folders matters."""
    for file, other in _noted():
        if file != path and other.ended is not None and other.folders == writer.folders:
            file.unlink(missing_ok=True)


def _write(path: Path, writer: Writer) -> None:
    write_private(path, msgspec.json.encode(writer))
