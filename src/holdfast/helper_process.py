"""Starts the processes that holdfast needs for itself, so that none of them reads anything of the project.

The project belongs to somebody else: a module, a program or a start-up file in it must never be taken for ours.
Commands of a model are started by the supervisor (`sandbox.warden`), not from here.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    import subprocess

FOLDERS: Final = ("/usr/bin", "/usr/local/bin", "/bin", "/opt/homebrew/bin")
_NOWHERE: Final = "/"
"""Where helpers run: an empty entry of a search path (`LD_LIBRARY_PATH`, `PATH`) means the working directory."""
_OWN: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
"""The folder that holds the package."""
_ACTING: Final = re.compile(
    r"PYTHON.*|GIT_.*|PERL5?LIB|PERL5OPT|RUBYLIB|RUBYOPT|NODE_OPTIONS|NODE_PATH|BASH_ENV|ENV|BASH_FUNC_.*"
    r"|RIPGREP_CONFIG_PATH|LD_PRELOAD|LD_AUDIT|LD_LIBRARY_PATH|VIMINIT|EXINIT|GVIMINIT"
)
"""Variables that name code or settings a program loads when it starts; a project's `.envrc` may have set them."""


def isolated_python(*words: str) -> tuple[str, ...]:
    """The argv of an interpreter that finds the standard library and nothing that is installed, or in a folder."""
    return (sys.executable, "-I", "-S", *words)


def own_module(module: str, *words: str) -> tuple[str, ...]:
    """The argv of `python -m MODULE` for a module of ours, with what is installed and nothing else to import from."""
    return (sys.executable, *_isolation(), "-m", module, *words)


def _isolation() -> tuple[str, ...]:
    """`-I`, or all of it but `-s` where holdfast itself is in the user's own site-packages."""
    import site

    user = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    return ("-E", "-P") if user == _OWN else ("-I",)


def import_order(entries: Iterable[str]) -> list[str]:
    """A `sys.path` in which whatever is not installed comes last, and nothing means the working directory."""
    import site

    library = os.path.dirname(os.__file__)  # noqa: PTH120 - `pathlib` is slow at every start of the command
    archive = f"{os.path.dirname(library)}/python{sys.version_info[0]}{sys.version_info[1]}.zip"  # noqa: PTH120
    user = (site.getusersitepackages(),) if site.ENABLE_USER_SITE else ()
    installed = {archive, library, f"{library}/lib-dynload", *site.getsitepackages(), *user, _OWN}
    entries = dict.fromkeys(entry for entry in entries if entry.startswith(os.sep))
    return sorted(entries, key=lambda entry: entry not in installed)  # stable: otherwise they keep their order


def system_program(name: str) -> str | None:
    """Where a program is that holdfast itself uses; PATH has no say in it."""
    return next((path for folder in FOLDERS if os.access(path := f"{folder}/{name}", os.X_OK)), None)


def person_program(word: str, project: Path) -> str | None:
    """Where a program is that the person chose (an editor, a secret's command): never in the project."""
    import shutil

    if os.sep in word:
        return word if word.startswith(os.sep) else None
    return shutil.which(word, path=person_environment(project).get("PATH", os.defpath))


def person_environment(project: Path) -> dict[str, str]:
    """The person's variables without what a project could have put there: code to load, and folders of programs."""
    kept = {name: value for name, value in os.environ.items() if not _ACTING.fullmatch(name)}
    if "PATH" in kept:
        kept["PATH"] = os.pathsep.join(_outside(kept["PATH"].split(os.pathsep), project))
    return kept


def _outside(folders: Iterable[str], project: Path) -> list[str]:
    places = (str(project), os.path.realpath(project))
    real = ((folder, os.path.normpath(folder), os.path.realpath(folder)) for folder in folders if folder[:1] == os.sep)
    return [folder for folder, *spelt in real if not any(_inside(path, place) for path in spelt for place in places)]


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


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
        _absolute(argv),
        env=dict(env or ()),
        cwd=_NOWHERE,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
        start_new_session=start_new_session,
        bufsize=0,
    )


def run(
    argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None, cwd: Path | str = _NOWHERE
) -> bytes:
    """What a helper prints. Raises `OSError` or `subprocess.SubprocessError`, also for an exit code that is not 0."""
    import subprocess

    return subprocess.run(
        _absolute(argv),
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
    cwd: Path | str = _NOWHERE,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    start_new_session: bool = False,
    limit: int = 65_536,
) -> asyncio.subprocess.Process:
    """The same for the event loop."""
    import asyncio

    return await asyncio.create_subprocess_exec(
        *_absolute(argv),
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=start_new_session,
        limit=limit,
    )


def spawn(argv: tuple[str, ...], env: Mapping[str, str], file_actions: Sequence[tuple[int, int, int]]) -> int:
    """The pid of a helper, without the 6 ms that loading `subprocess` takes. It has to leave the folder itself."""
    return os.posix_spawn(_absolute(argv)[0], argv, env, file_actions=file_actions)


def _absolute(argv: Sequence[str]) -> Sequence[str]:
    """A bare name would be looked up on a PATH, and a relative one in the project."""
    if not argv[0].startswith(os.sep):
        raise FileNotFoundError(f"{argv[0]!a} is not an absolute path, so it could name a program of the project.")
    return argv
