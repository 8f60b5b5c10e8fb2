"""Starts the processes that holdfast needs for itself, so that none of them reads anything of the project.

The project belongs to somebody else: a module, a program or a start-up file in it must never be taken for ours.
Commands of a model are started by the supervisor (`sandbox.supervisor`), not from here.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.import_path import PACKAGE_PARENT, is_inside

if TYPE_CHECKING:
    import asyncio
    import subprocess

PROGRAM_FOLDERS: Final = ("/usr/bin", "/usr/local/bin", "/bin", "/opt/homebrew/bin")
_WORKING_FOLDER: Final = "/"
"""Where helpers run: an empty entry of a search path (`LD_LIBRARY_PATH`, `PATH`) means the working directory."""
_CODE_VARIABLES: Final = re.compile(
    r"PYTHON.*|GIT_.*|PERL5?LIB|PERL5OPT|PERL5DB|RUBYLIB|RUBYOPT|NODE_OPTIONS|NODE_PATH|BASH_ENV|ENV|BASH_FUNC_.*"
    r"|BASHOPTS|SHELLOPTS|PROMPT_COMMAND|PS4|RIPGREP_CONFIG_PATH|LD_.*|DYLD_.*|VIMINIT|EXINIT|GVIMINIT|NVIM_APPNAME"
    r"|LUA_INIT.*|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|DOTNET_STARTUP_HOOKS|LESSOPEN|LESSCLOSE"
)
"""Variables that hold code, or options that load some, whatever path they name: a project's `.envrc` may have set them.
Those that only name a folder or a file (`VIMRUNTIME`, `XDG_CONFIG_HOME`, `CLASSPATH`) go by where that is."""
_PATH_IN_TEXT: Final = re.compile(r"[~/][^:;,=|&<>()'\"\s]*")


class ProgramRefused(OSError):
    """A program that a person chose is not started; says why."""


def isolated_python(*words: str) -> tuple[str, ...]:
    """The argv of an interpreter that finds the standard library and nothing that is installed, or in a folder."""
    return (sys.executable, "-I", "-S", *words)


def holdfast_module(module: str, *words: str) -> tuple[str, ...]:
    """The argv of `python -m MODULE` for a module of ours, with what is installed and nothing else to import from."""
    return (sys.executable, *_isolation(), "-m", module, *words)


def _isolation() -> tuple[str, ...]:
    """`-I`, or all of it but `-s` where holdfast itself is in the user's own site-packages."""
    import site

    user = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    return ("-E", "-P") if user == PACKAGE_PARENT else ("-I",)


def system_program(name: str) -> str | None:
    """Where a program is that holdfast itself uses; PATH has no say in it."""
    return next((path for folder in PROGRAM_FOLDERS if os.access(path := f"{folder}/{name}", os.X_OK)), None)


def user_program(word: str, project: Path) -> str:
    """Where a program is that the person chose (an editor, a secret's command). Raises `NotStarted` if it is in the
    project, or nowhere."""
    import shutil

    if os.sep not in word:
        found = shutil.which(word, path=user_environment(project).get("PATH", os.defpath))
        if found is None:
            raise ProgramRefused(
                f"{word!a} is in no absolute folder of PATH outside the project; write its whole path."
            )
        return found
    if not word.startswith(os.sep):
        raise ProgramRefused(f"{word!a} means another program in every folder; write its whole path.")
    if is_inside(word, _project_folder(project)):
        raise ProgramRefused(f"{word!a} lies in the project, so it is not run for you; choose a program outside it.")
    return word


def user_command(line: str, project: Path) -> tuple[str, ...]:
    """The same for a line of words that a variable holds, of which none may lead into the project."""
    from shlex import split

    try:
        word, *words = split(line)
    except ValueError:
        raise ProgramRefused(f"{line!a} is no line of words; correct its quotes.") from None
    for each in words:
        if _names_project(each, project):
            raise ProgramRefused(f"{line!a} leads into the project, so it is not run for you; choose another command.")
    return (user_program(word, project), *words)


def user_environment(project: Path) -> dict[str, str]:
    """The person's variables without what a project could have put there: code to load, and whatever leads into it."""
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
    """Whether some path in a text leads into the project; relative ones do not, as nothing is started there."""
    place = _project_folder(project)
    if place is None:
        return False
    text = os.path.expandvars(text)
    if any(re.search(rf"{re.escape(spelt)}(?![\w.-])", text) for spelt in {place, os.path.realpath(place)}):
        return True
    paths = (os.path.expanduser(found) for found in _PATH_IN_TEXT.findall(text))  # noqa: PTH111
    return any(is_inside(path, place) for path in paths if path.startswith(os.sep))


def _project_folder(project: Path) -> str | None:
    """The folder of the project; None where that would be the whole file system."""
    return None if project == project.parent else str(project)


def _login_home() -> str | None:
    import pwd

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
    """A helper, with an empty environment unless it is given one. Its pipes are not buffered."""
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
    """What a helper prints. Raises `OSError` or `subprocess.SubprocessError`, also for an exit code that is not 0."""
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
    """The same for the event loop."""
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
    """The pid of a helper in a session of its own, so that Ctrl-C at a terminal does not reach it, not even while it
    starts. Without the 6 ms that loading `subprocess` takes. It has to leave the folder itself."""
    try:
        return os.posix_spawn(_require_absolute(argv)[0], argv, env, file_actions=file_actions, setsid=True)
    except NotImplementedError:  # an old libc: the helper does it as soon as it can
        return os.posix_spawn(_require_absolute(argv)[0], argv, env, file_actions=file_actions)


def _require_absolute(argv: Sequence[str]) -> Sequence[str]:
    """A bare name would be looked up on a PATH, and a relative one in the project."""
    if not argv[0].startswith(os.sep):
        raise FileNotFoundError(f"{argv[0]!a} is not an absolute path, so it could name a program of the project.")
    return argv
