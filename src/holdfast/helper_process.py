"""Starts holdfast's own helper processes, isolated from the project.

The project is untrusted: no module, program or start-up file in it may be loaded by a helper. Commands from a model are
started by the supervisor (`sandbox.supervisor`), not here.
"""

from __future__ import annotations

import os
import pwd
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.import_path import PACKAGE_PARENT, is_inside

if TYPE_CHECKING:
    import asyncio
    import subprocess

PROGRAM_FOLDERS: Final = ("/usr/bin", "/usr/local/bin", "/bin", "/opt/homebrew/bin")
_WORKING_FOLDER: Final = "/"
"""Not the project: an empty entry in `PATH` or `LD_LIBRARY_PATH` means the working directory."""
_CODE_VARIABLES: Final = re.compile(
    r"PYTHON.*|GIT_.*|PERL5?LIB|PERL5OPT|PERL5DB|RUBYLIB|RUBYOPT|NODE_OPTIONS|NODE_PATH|BASH_ENV|ENV|BASH_FUNC_.*"
    r"|BASHOPTS|SHELLOPTS|PROMPT_COMMAND|PS4|RIPGREP_CONFIG_PATH|LD_.*|DYLD_.*|VIMINIT|EXINIT|GVIMINIT|NVIM_APPNAME"
    r"|LUA_INIT.*|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|DOTNET_STARTUP_HOOKS|LESSOPEN|LESSCLOSE"
)
"""Variables that contain code or options that load code. They are always removed, since the project's `.envrc` may have
set them. Variables that only name a path (`VIMRUNTIME`, `CLASSPATH`) are removed if the path is in the project."""
_PATH_IN_TEXT: Final = re.compile(r"[~/][^:;,=|&<>()'\"\s]*")


class ProgramRefused(OSError):
    """A program that the user chose cannot be started safely; the message says why."""


def isolated_python(*words: str) -> tuple[str, ...]:
    """Return the argv of a Python interpreter that can import only the standard library."""
    return (sys.executable, "-I", "-S", *words)


def holdfast_module(module: str, *words: str) -> tuple[str, ...]:
    """Return the argv of `python -m MODULE` that can import only installed packages."""
    return (sys.executable, *_isolation(), "-m", module, *words)


def _isolation() -> tuple[str, ...]:
    """Return `-I`, or its parts without `-s` if holdfast is installed in the user's site-packages."""
    import site

    user = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    return ("-E", "-P") if user == PACKAGE_PARENT else ("-I",)


def system_program(name: str) -> str | None:
    """Return the path of a program that holdfast uses, from fixed folders and not from PATH; None if missing."""
    return next((path for folder in PROGRAM_FOLDERS if os.access(path := f"{folder}/{name}", os.X_OK)), None)


def user_program(word: str, project: Path) -> str:
    """Return the path of a program that the user chose (an editor, a secret's command). Raises `ProgramRefused` if it
    is in the project or not found."""
    import shutil

    if os.sep not in word:
        found = shutil.which(word, path=user_environment(project).get("PATH", os.defpath))
        if found is None:
            raise ProgramRefused(f"{word!a} was not found on PATH outside the project; use its full path.")
        return found
    if not word.startswith(os.sep):
        raise ProgramRefused(f"{word!a} is a relative path; use its full path.")
    if is_inside(word, _project_folder(project)):
        raise ProgramRefused(f"{word!a} is in the project, so it is not run; choose a program outside it.")
    return word


def user_command(line: str, project: Path) -> tuple[str, ...]:
    """Like `user_program`, for a command line from a variable. No word may point into the project."""
    from shlex import split

    try:
        word, *words = split(line)
    except ValueError:
        raise ProgramRefused(f"{line!a} cannot be parsed; correct its quotes.") from None
    for each in words:
        if _names_project(each, project):
            raise ProgramRefused(f"{line!a} points into the project, so it is not run; choose another command.")
    return (user_program(word, project), *words)


def user_environment(project: Path) -> dict[str, str]:
    """Return the environment without variables that load code and without paths into the project."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "PATH" or not (_CODE_VARIABLES.fullmatch(name) or _names_project(value, project))
    }
    if "PATH" in kept:
        folders = (folder for folder in kept["PATH"].split(os.pathsep) if folder.startswith(os.sep))
        kept["PATH"] = os.pathsep.join(folder for folder in folders if not is_inside(folder, _project_folder(project)))
    if "HOME" in os.environ and "HOME" not in kept and (home := _login_home()) is not None:
        kept["HOME"] = home
    return kept


def _names_project(text: str, project: Path) -> bool:
    """Whether a path in the text points into the project. Relative paths do not, since helpers do not run there."""
    place = _project_folder(project)
    if place is None:
        return False
    text = os.path.expandvars(text)
    if any(re.search(rf"{re.escape(spelt)}(?![\w.-])", text) for spelt in {place, os.path.realpath(place)}):
        return True
    paths = (os.path.expanduser(found) for found in _PATH_IN_TEXT.findall(text))  # noqa: PTH111
    return any(is_inside(path, place) for path in paths if path.startswith(os.sep))


def _project_folder(project: Path) -> str | None:
    """Return the project folder; None if it is the file-system root."""
    return None if project == project.parent else str(project)


def _login_home() -> str | None:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    pass_fds: Sequence[int] = (),
    start_new_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a helper, by default with an empty environment. Its pipes are unbuffered."""
    import subprocess

    return subprocess.Popen(
        _require_absolute(argv),
        env=dict(env or ()),
        cwd=_WORKING_FOLDER,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
        start_new_session=start_new_session,
        bufsize=0,
    )


def run(
    argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None, cwd: Path | str = _WORKING_FOLDER
) -> bytes:
    """Run a helper and return its stdout. Raises `OSError` or `subprocess.SubprocessError`, also for exit codes > 0."""
    import subprocess

    return subprocess.run(
        _require_absolute(argv),
        env=dict(env or ()),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        check=True,
    ).stdout


async def start_async(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | str = _WORKING_FOLDER,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    start_new_session: bool = False,
    limit: int = 65_536,
) -> asyncio.subprocess.Process:
    """Like `start`, for asyncio."""
    import asyncio

    return await asyncio.create_subprocess_exec(
        *_require_absolute(argv),
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=start_new_session,
        limit=limit,
    )


def spawn(argv: tuple[str, ...], env: Mapping[str, str], file_actions: Sequence[tuple[int, int, int]]) -> int:
    """Start a helper in its own session, so that Ctrl-C does not reach it even while it starts. Returns the pid.

    Avoids importing `subprocess`, which takes 6 ms. The helper must change its working directory itself. Signals that
    our parent ignored or blocked (`nohup`, a script's `command &`) are reset: the commands that the helper starts would
    inherit that, and could then be neither interrupted nor terminated gracefully.
    """
    import signal

    default = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    spawning = partial(
        os.posix_spawn,
        _require_absolute(argv)[0],
        argv,
        env,
        file_actions=file_actions,
        setsigdef=default,
        setsigmask=(),
    )
    try:
        return spawning(setsid=True)
    except NotImplementedError:  # an old libc without setsid: the helper calls it when it starts
        return spawning()


def _require_absolute(argv: Sequence[str]) -> Sequence[str]:
    """Reject names that would be looked up on PATH or in the project."""
    if not argv[0].startswith(os.sep):
        raise FileNotFoundError(f"{argv[0]!a} is not an absolute path, so it could name a program of the project.")
    return argv
