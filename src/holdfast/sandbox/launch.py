"""`Launch`: a sandboxed command as plain data, ready to start; and the `Backend` protocol that produces it.

`run_launch` runs one to its end in this process, for the probe, the escape tests and wrapped commands. Tools start
theirs through the supervisor.
"""

from __future__ import annotations

import marshal
import os
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import Struct, field

from holdfast import helper_process, privileges
from holdfast.contract.command import ChangedPath, Command
from holdfast.contract.errors import SandboxRefused
from holdfast.fs.beneath import HANDLE_FLAGS, open_beneath
from holdfast.sandbox.policy import SandboxPolicy

MAX_OPEN_FILES: Final = 200
"""A message over a Unix socket carries at most 253 descriptors (SCM_MAX_FD); the rest are streams and files."""


class OpenFiles:
    """File descriptors passed to bubblewrap so that it mounts exactly these files: a path could be swapped
    meanwhile."""

    def __init__(self) -> None:
        self.fds: list[int] = []

    def add(self, folder: Path, path: str, identity: tuple[int, int] | None = None) -> int:
        """Open a path in a folder and return its index. Refuses a path that no longer has this identity."""
        if len(self.fds) >= MAX_OPEN_FILES:
            raise SandboxRefused(
                "The writable folders contain more protected folders than can be mounted. "
                'Narrow sandbox.writable, or set sandbox.undo = "overlay".'
            )
        self.fds.append(open_unchanged(folder, path, identity))
        return len(self.fds) - 1

    def close(self) -> None:
        while self.fds:
            os.close(self.fds.pop())


def open_unchanged(folder: Path, path: str, identity: tuple[int, int] | None) -> int:
    """Open a path below a folder without following symlinks, if it still has this identity (TOCTOU check)."""
    try:
        fd = open_beneath(folder, Path(path), HANDLE_FLAGS)
    except OSError:
        raise _path_changed(path) from None
    about = os.fstat(fd)
    if identity is not None and identity != (about.st_dev, about.st_ino):
        os.close(fd)
        raise _path_changed(path)
    return fd


class PathChanged(SandboxRefused):
    """A path changed between listing a writable folder and mounting it; a retry may succeed."""


def _path_changed(path: str) -> PathChanged:
    return PathChanged(f"{path} changed while the command was being prepared. Try again.")


_commands_in: Counter[Path] = Counter()
_commands_in_lock = threading.Lock()


class FolderUse:
    """Counts the commands that run in a folder; `end` removes this one."""

    def __init__(self, folder: Path, *, exclusive: bool) -> None:
        """`exclusive`: refuse if another command runs there, because it could swap the paths to be mounted."""
        self._folder = folder
        with _commands_in_lock:
            if exclusive and _commands_in[folder]:
                raise SandboxRefused(
                    f"This bubblewrap is too old to protect paths in {folder} while another command runs there. "
                    "Wait until that command has ended, or install bubblewrap 0.10 or newer."
                )
            _commands_in[folder] += 1
        self._ended = False

    def end(self) -> None:
        with _commands_in_lock:
            if not self._ended:
                self._ended = True
                _commands_in[self._folder] -= 1


DEFAULT_PRIORITY: Final = 50


class EscapeTestResult(Struct, frozen=True, kw_only=True):
    """The result of one escape test: whether the attack was contained."""

    name: str
    contained: bool
    detail: str = ""


Progress = Callable[[int, int], None]
"""Called with the number of finished tests and their total."""


class Backend(Protocol):
    """Contains commands, as bubblewrap and Landlock do. Third parties register theirs with `probe.register`."""

    @property
    def name(self) -> str: ...
    @property
    def priority(self) -> int:
        """Higher is tried first; ties are broken by name."""
        ...

    @property
    def title(self) -> str:
        """Name and version, for people."""
        ...

    @property
    def identity(self) -> str:
        """The cache key of a probe: the program's path, size, date and version."""
        ...

    @property
    def guarantees(self) -> frozenset[str]:
        """Names of the escape tests it claims to pass."""
        ...

    def available(self) -> str | None:
        """Why it cannot be tried here; None if it can. Whether it contains anything is up to the probe."""
        ...

    def launch(self, policy: SandboxPolicy, command: Command, overlays: tuple[Overlay, ...]) -> Launch:
        """Return the command as a process to start. Raises `SandboxRefused` if it cannot enforce the policy."""
        ...


def find_program(word: str, path: str, cwd: str) -> str:
    """Return a program's absolute path. A bare name is looked up on the command's PATH, never in the working folder."""
    if not word or "\0" in word:
        raise SandboxRefused("The command is empty. Name a program to run.")
    if "/" in word:
        return os.path.join(cwd, word)  # noqa: PTH118
    found = shutil.which(word, path=path)
    if found is None:
        raise SandboxRefused(
            f"There is no program {word!a} on the PATH of commands. Install it, or give its full path."
        )
    return found


def run_launch(launch: Launch, timeout: float, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    """Run a launch, clean up, and return (exit code, stdout, stderr). The code is -9 after a timeout."""
    try:
        with start_launch(launch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(stdin, timeout=timeout)
            except subprocess.TimeoutExpired:
                stop_process(process)
                out, err = process.communicate()
                return -signal.SIGKILL, out, err
            return process.returncode, out, err
    finally:
        clean_up(launch)


@contextmanager
def start_launch(
    launch: Launch, *, stdin: int | None = None, stdout: int | None = None, stderr: int | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """Start a launch and yield its process; stop it on exit.

    A small parent process applies limits, Landlock and seccomp, and kills leftover processes if the backend has no PID
    namespace to do that.
    """
    contents = [privileges.memory_file(content) for content in launch.files]
    fds = [*contents, *launch.open_files.fds]
    request_fd = privileges.memory_file(marshal.dumps((launch.request(), fds)))
    argv = isolated_module_argv("holdfast.sandbox.supervisor.process", str(request_fd))
    try:
        process = helper_process.start(argv, pass_fds=[request_fd, *fds], stdin=stdin, stdout=stdout, stderr=stderr)
    finally:
        for fd in (request_fd, *contents):
            os.close(fd)
        launch.open_files.close()
    try:
        yield process
    finally:
        stop_process(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """Stop the process and all its descendants. Its parent kills them on SIGTERM, even those that left the session."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def clean_up(launch: Launch) -> tuple[str, ...]:
    """Run the cleanup steps and return the protected paths that had to be restored."""
    found: list[str] = []
    failed: BaseException | None = None
    for step in launch.cleanup:
        try:
            step()
        except BaseException as error:  # one failure must not skip the other steps
            failed = failed or error
        found += getattr(step, "violations", ())
    if failed is not None:
        raise failed
    return tuple(found)


def cleanup_notes(launch: Launch) -> tuple[str, ...]:
    """Return notes for the user from the cleanup steps: what was removed, and where copies are."""
    return tuple(note for step in launch.cleanup for note in getattr(step, "notes", ()))


FIRST_FD: Final = 3
"""The first descriptor after stdin, stdout and stderr."""


_REQUEST_FIELDS: Final = ("cwd", "env", "rlimits", "cgroups", "landlock", "landlock_net", "seccomp", "pid_namespace")
_PROGRAM: Final = (
    "import sys; h = sys.modules['holdfast'] = type(sys)('holdfast'); h.__path__ = [sys.argv[1]]; "
    "from {} import main; main(*sys.argv[2:])"
)


def isolated_module_argv(module: str, *words: str) -> tuple[str, ...]:
    """Return the argv of a process that runs `main` of one of our modules.

    The module is imported into an empty `holdfast` package: without `holdfast/__init__`, site-packages or anything from
    the working folder, so that it starts fast and imports nothing planted.
    """
    return helper_process.isolated_python("-c", _PROGRAM.format(module), str(Path(__file__).parents[1]), *words)


class Overlay(Struct, frozen=True, kw_only=True):
    """An overlay mount: changes to `lower` go to `upper`."""

    lower: Path
    upper: Path
    work: Path


class Launch(Struct, frozen=True, kw_only=True):
    """One process to start: its argv, environment, limits, filters and cleanup."""

    argv: tuple[str, ...]
    """Starts with the backend's program, if there is one. `argv[0]` is an absolute path."""
    cwd: str
    env: dict[str, str]
    rlimits: tuple[tuple[int, int], ...] = ()
    """(resource, limit) pairs, set in the child before exec."""
    cgroups: tuple[str, ...] = ()
    """Control groups created for this process: it joins them at the start, and they are removed after it."""
    landlock: tuple[tuple[str, int], ...] | None = None
    """(path, access rights) pairs for Landlock; None: Landlock is not used."""
    landlock_net: bool = False
    """Landlock also denies TCP, abstract sockets and signals to processes outside."""
    seccomp: bytes = b""
    """A seccomp filter that the starting process installs. bubblewrap installs its own, from `files`."""
    files: tuple[bytes, ...] = ()
    """Contents passed as open files, from descriptor 3 on; `{fd0}`, `{fd1}`, … in argv stand for their numbers."""
    open_files: OpenFiles = field(default_factory=OpenFiles)
    """Descriptors passed after `files`. Starting the launch closes them in this process."""
    pid_namespace: bool = False
    """The first process is the parent of a PID namespace: killing it kills all the others."""
    contained: bool = False
    hidden: tuple[str, ...] = ()
    """Existing paths hidden from the process by `sandbox.read_deny`."""
    cleanup: tuple[Callable[[], None], ...] = field(default_factory=tuple[Callable[[], None], ...])
    """Called in order once every process has ended. A step may have `violations` and `notes`."""

    def request(self) -> dict[str, Any]:
        """Return the message for the process that starts it; descriptors are sent separately."""
        argv = privileges.fill_descriptors(self.argv, range(FIRST_FD, FIRST_FD + len(self.files)))
        return {"argv": argv, **{name: getattr(self, name) for name in _REQUEST_FIELDS}}


class Changes(Struct, frozen=True, kw_only=True):
    """The file changes of a recorded command."""

    changes: tuple[ChangedPath, ...] = ()
    violations: tuple[str, ...] = ()
    """Protected paths that it changed and that were restored."""
    notes: tuple[str, ...] = ()
    """Sentences for the user about restored paths: what was removed, and where copies are."""
    lost: tuple[str, ...] = ()
    """Changes that could not be applied, with the reason."""
    kept: str | None = None
    """The folder with copies of the changes in `lost`."""
    together: tuple[str, ...] = ()
    """The calls whose commands ran concurrently and are recorded together, if there are several."""


class Recording(Protocol):
    """Records the file changes of one command."""

    @property
    def overlays(self) -> tuple[Overlay, ...]: ...
    def finish(self) -> Changes:
        """Called once, in a thread, after every process has ended: save the previous state and apply the changes."""
        ...

    def discard(self) -> None:
        """Called instead of `finish` if the command never started."""
        ...
