"""The bearer token of `holdfast mcp --http`: a file only the user can read, made when it is first needed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.doors.cli.failures import UsageProblem
from holdfast.fs.private import make_private_once, read_private
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.assemble import Setting

_FILE: Final = "mcp-token"
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{20,512}")


def token_file(setting: Setting, given: str | None) -> Path:
    """The person's own, so that a client set up for all projects reaches the server of each."""
    if given is None:
        from holdfast.fs.own_paths import user_state_dir

        return user_state_dir() / _FILE
    path = Path.cwd() / given
    if setting.root is not None and Path(os.path.realpath(path)).is_relative_to(setting.root):
        raise UsageProblem(f"{visible(str(path))} lies inside the project, where tools can read it; keep it elsewhere.")
    return path


def read_token(path: Path) -> str:
    """The token in the file; a new one where there is none yet. Raises `UsageProblem` if others could know it."""
    try:
        return _read(path)
    except FileNotFoundError:
        make_private_once(path, _new_token)
        return _read(path)


def _read(path: Path) -> str:
    where = visible(str(path))
    try:
        text = read_private(path, 4096).decode(errors="replace").strip()
    except PermissionError as error:
        raise UsageProblem(
            f"{where} {error.strerror or error}, so it can hold no token; remove it, `chmod 600` it, "
            "or name another with --token-file."
        ) from error
    if not _TOKEN.fullmatch(text):
        raise UsageProblem(
            f"{where} holds no token: 20 to 512 letters, digits and ._~+/=- are needed; remove it to have one made."
        )
    return text


def _new_token() -> bytes:
    import secrets

    return f"{secrets.token_urlsafe(32)}\n".encode()
