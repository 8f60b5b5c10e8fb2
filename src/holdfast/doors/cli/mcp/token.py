"""The bearer token of `holdfast mcp --http`: a file only the user can read, made when it is first needed."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.doors.cli.failures import UsageProblem
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.assemble import Setting

_FILE: Final = "mcp-token"
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{20,512}")


def token_file(setting: Setting, given: str | None) -> Path:
    if given is None:
        return setting.state / _FILE
    path = Path.cwd() / given
    if setting.root is not None and Path(os.path.realpath(path)).is_relative_to(setting.root):
        raise UsageProblem(f"{visible(str(path))} lies inside the project, where tools can read it; keep it elsewhere.")
    return path


def read_token(path: Path) -> str:
    """The token in the file; a new one where there is none yet. Raises `UsageProblem` if others could know it."""
    try:
        return _read(path)
    except FileNotFoundError:
        _make(path)
        return _read(path)


def _read(path: Path) -> str:
    with open(path, "rb", opener=_open) as file:
        status = os.fstat(file.fileno())
        where = visible(str(path))
        if not stat.S_ISREG(status.st_mode):
            raise UsageProblem(f"{where} is not a file; name another with --token-file.")
        if status.st_mode & 0o077 or status.st_uid != os.getuid():
            raise UsageProblem(f"{where} is not yours alone, so it can hold no token; remove it, or `chmod 600` it.")
        text = file.read(4096).decode(errors="replace").strip()
    if not _TOKEN.fullmatch(text):
        raise UsageProblem(
            f"{where} holds no token: 20 to 512 letters, digits and ._~+/=- are needed; remove it to have one made."
        )
    return text


def _make(path: Path) -> None:
    """Whoever comes first makes it; another process that is as early reads that one."""
    import secrets

    from holdfast.store.files import make_private_folder

    make_private_folder(path.parent)
    new = path.parent / f".new-{os.urandom(8).hex()}"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n".encode())
        with suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
