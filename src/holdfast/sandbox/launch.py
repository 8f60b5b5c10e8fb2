"""What a backend makes of a command, as plain data: what the process that starts it needs to know, and how it is run.

`run_launch` runs one to its end, for the probe, the battery and wrapped commands; tools go through the supervisor.
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

from holdfast import helper_process
from holdfast.contract.command import ChangedPath, Command
from holdfast.contract.errors import SandboxRefused
from holdfast.fs.beneath import HANDLE_FLAGS, open_beneath
from holdfast.sandbox import privileges
from holdfast.sandbox.policy import SandboxPolicy

MAX_OPEN_FILES: Final = 200
"""A message between processes carries 253 open files."""


class OpenFiles:
    """Open files that go with a launch; closed when they were handed over, or when nobody wants them."""

    def __init__(self) -> None:
        self.fds: list[int] = []

    def add(self, folder: Path, path: str, identity: tuple[int, int] | None = None) -> int:
        """Open a path in a folder; its place among the open files. Refuses what is not what it was."""
        if len(self.fds) >= MAX_OPEN_FILES:
            raise SandboxRefused(
                "There are more protected folders in the writable folders than can be held; "
                'narrow sandbox.writable, or set sandbox.undo = "overlay".'
            )
        self.fds.append(open_unchanged(folder, path, identity))
        return len(self.fds) - 1

    def __call__(self) -> None:
        while self.fds:
            os.close(self.fds.pop())


def open_unchanged(folder: Path, path: str, identity: tuple[int, int] | None) -> int:
    """A path in a folder, opened without following any symlink, if it is still the one with this identity."""
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
    """Something moved between the look at a writable folder and the mounts: a new look may find it at rest."""


def _path_changed(path: str) -> PathChanged:
    return PathChanged(f"{path} changed while the command was made ready; try again.")


_commands_in: Counter[Path] = Counter()
_commands_in_lock = threading.Lock()


class FolderUse:
    """One command at work in a folder; calling it says that it is over."""

    def __init__(self, folder: Path, *, exclusive: bool) -> None:
        """`exclusive`: the command cannot be started safely while another one runs there."""
        self._folder = folder
        with _commands_in_lock:
            if exclusive and _commands_in[folder]:
                raise SandboxRefused(
                    f"This bubblewrap is too old to hold paths in {folder} while another command runs there; "
                    "wait until that has ended, or install bubblewrap 0.10 or newer."
                )
            _commands_in[folder] += 1
        self._ended = False

    def __call__(self) -> None:
        with _commands_in_lock:
            if not self._ended:
                self._ended = True
                _commands_in[self._folder] -= 1


DEFAULT_PRIORITY: Final = 50


class EscapeTestResult(Struct, frozen=True, kw_only=True):
    """One attack of the escape battery, and whether it was contained."""

    name: str
    contained: bool
    detail: str = ""


Progress = Callable[[int, int], None]
"""Told how many of the attacks are over, and how many there are."""


class Backend(Protocol):
    """A way to contain commands."""

    @property
    def name(self) -> str: ...
    @property
    def priority(self) -> int:
        """Higher is tried first; ties go by name, then by `identity`."""
        ...

    @property
    def title(self) -> str:
        """Its name and version, for people."""
        ...

    @property
    def identity(self) -> str:
        """What a remembered probe is good for: the program's path, size, date and version."""
        ...

    @property
    def guarantees(self) -> frozenset[str]:
        """Cases of the escape battery it claims to hold."""
        ...

    def available(self) -> str | None:
        """Why it cannot even be tried here; None if it can. Whether it holds is for the probe to say."""
        ...

    def launch(self, policy: SandboxPolicy, command: Command, overlays: tuple[Overlay, ...]) -> Launch:
        """The command as a process to start. `SandboxRefused` where this backend cannot do what the policy says."""
        ...


def find_program(word: str, path: str, cwd: str) -> str:
    """The absolute path of a program: a bare name is looked up on the path commands get, never in the folder."""
    if not word or "\0" in word:
        raise SandboxRefused("The command is empty; name a program to run.")
    if "/" in word:
        return os.path.join(cwd, word)  # noqa: PTH118
    found = shutil.which(word, path=path)
    if found is None:
        raise SandboxRefused(
            f"There is no program {word!a} on the path that commands get; install it, or name it by its path."
        )
    return found


def run_launch(launch: Launch, timeout: float, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    """(exit code, stdout, stderr); -9 when the time was up. Cleans up either way."""
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
    """The process of a launch. A small parent applies what the launch says and, where the backend has no process
    namespace of its own, ends whatever the command leaves behind."""
    contents = [privileges.memory_file(content) for content in launch.files]
    fds = [*contents, *launch.open_files.fds]
    request_fd = privileges.memory_file(marshal.dumps((launch.request(), fds)))
    argv = isolated_module_argv("holdfast.sandbox.supervisor.process", str(request_fd))
    try:
        process = helper_process.start(argv, pass_fds=[request_fd, *fds], stdin=stdin, stdout=stdout, stderr=stderr)
    finally:
        for fd in (request_fd, *contents):
            os.close(fd)
        launch.open_files()
    try:
        yield process
    finally:
        stop_process(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """End it and everything it started: its parent does so on SIGTERM, whatever its children do."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def clean_up(launch: Launch) -> tuple[str, ...]:
    """Do what a launch leaves to be done; the protected paths that had to be put right."""
    found: list[str] = []
    failed: BaseException | None = None
    for step in launch.cleanup:
        try:
            step()
        except BaseException as error:  # the other steps must be done all the same
            failed = failed or error
        found += getattr(step, "violations", ())
    if failed is not None:
        raise failed
    return tuple(found)


def cleanup_notes(launch: Launch) -> tuple[str, ...]:
    """What a person should know of how a launch was finished: what was taken away, and where it is kept."""
    return tuple(note for step in launch.cleanup for note in getattr(step, "notes", ()))


FIRST_FD: Final = 3
"""The number of the first open file a process finds beside its three streams."""


_REQUEST_FIELDS: Final = ("cwd", "env", "rlimits", "cgroups", "landlock", "landlock_net", "seccomp", "pid_namespace")
_PROGRAM: Final = (
    "import sys; h = sys.modules['holdfast'] = type(sys)('holdfast'); h.__path__ = [sys.argv[1]]; "
    "from {} import main; main(*sys.argv[2:])"
)


def isolated_module_argv(module: str, *words: str) -> tuple[str, ...]:
    """The argv of a process that runs `main` of one of our modules, without the package around it or any other."""
    return helper_process.isolated_python("-c", _PROGRAM.format(module), str(Path(__file__).parents[1]), *words)


class Overlay(Struct, frozen=True, kw_only=True):
    """A folder whose changes go to `upper` instead of to itself."""

    lower: Path
    upper: Path
    work: Path


class Launch(Struct, frozen=True, kw_only=True):
    """One process to start."""

    argv: tuple[str, ...]
    """With the backend's own program first, if it has one. `argv[0]` is an absolute path."""
    cwd: str
    env: dict[str, str]
    rlimits: tuple[tuple[int, int], ...] = ()
    """(resource, limit) pairs, set in the child before it starts."""
    cgroups: tuple[str, ...] = ()
    """Folders of control groups that were made for this process: it is put into them, and they are removed after it."""
    landlock: tuple[tuple[str, int], ...] | None = None
    """(path, access rights) pairs under Landlock; None: not used. See `sandbox.landlock`."""
    landlock_net: bool = False
    """Landlock also refuses TCP, abstract sockets and signals to outsiders."""
    seccomp: bytes = b""
    """A filter the starting process installs itself (for bubblewrap it is in `files` instead)."""
    files: tuple[bytes, ...] = ()
    """Contents handed over as open files, from number 3 on; `{fd0}`, `{fd1}`, … in argv stand for their numbers."""
    open_files: OpenFiles = field(default_factory=OpenFiles)
    """Files that are open already: the process finds them after `files`. Whoever starts it closes them here."""
    pid_namespace: bool = False
    """Killing the first process kills all of them: it is the parent of a process namespace of their own."""
    contained: bool = False
    hidden: tuple[str, ...] = ()
    """What is there and the process cannot read, by `sandbox.read_deny`."""
    cleanup: tuple[Callable[[], None], ...] = field(default_factory=tuple[Callable[[], None], ...])
    """To be called, in order, when every process is gone."""

    def request(self) -> dict[str, Any]:
        """What the process that starts it is told, beside its open files."""
        argv = privileges.fill_descriptors(self.argv, range(FIRST_FD, FIRST_FD + len(self.files)))
        return {"argv": argv, **{name: getattr(self, name) for name in _REQUEST_FIELDS}}


class Changes(Struct, frozen=True, kw_only=True):
    """What a recorded command changed."""

    changes: tuple[ChangedPath, ...] = ()
    violations: tuple[str, ...] = ()
    """Protected paths it tried to change; none of them is changed any more."""
    notes: tuple[str, ...] = ()
    """What was done about protected paths, in sentences: what was taken away, and where it is kept."""
    lost: tuple[str, ...] = ()
    """What could not be taken over, and why."""
    kept: str | None = None
    """The folder where that is kept."""
    together: tuple[str, ...] = ()
    """The calls whose commands ran at the same time and are recorded as one, where there are several."""


class Recording(Protocol):
    """Watches one command's changes."""

    @property
    def overlays(self) -> tuple[Overlay, ...]: ...
    def finish(self) -> Changes:
        """Called once, in a thread, when every process is gone: keep what was before, take over what is now."""
        ...

    def discard(self) -> None:
        """The command never started."""
        ...
