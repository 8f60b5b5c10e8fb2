"""What a login to an MCP server leaves behind: one private file for each server, by name and address."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.config.config import McpServer
from holdfast.fs.replace import read_private, write_private

_MOST_BYTES: Final = 1 << 20


class StoredLogin(Struct, frozen=True, kw_only=True):
    """The parts in wire form, so that reading them needs no MCP library."""

    tokens: dict[str, Any] | None = None
    expires_at: float | None = None
    client: dict[str, Any] | None = None
    """How this client was registered; never what the configuration says."""
    redirect: str = ""
    """The callback address it was registered with."""
    issuer: str = ""
    """Who gave the tokens."""
    authorisation: dict[str, Any] | None = None
    """What the authorisation server says of itself: without it a refresh token would be sent to a guessed address."""
    resource: dict[str, Any] | None = None


NOTHING: Final = StoredLogin()


class LoginFile:
    """With a path it lasts; without one it is forgotten with the process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._kept = NOTHING

    def read(self) -> StoredLogin:
        """What is there now; a file that cannot be read or is not ours is no login."""
        if self._path is None:
            return self._kept
        try:
            return msgspec.json.decode(read_private(self._path, _MOST_BYTES), type=StoredLogin)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return NOTHING

    def write(self, kept: StoredLogin) -> None:
        self._kept = kept
        if self._path is None:
            return
        write_private(self._path, msgspec.json.encode(kept), sync=True)


def login_file(name: str, server: McpServer, state: Path | None) -> LoginFile:
    """`state` is the user's state folder; None: nothing is kept on disk."""
    return LoginFile(None if state is None else _path_of(name, server, state))


def forget_login(name: str, server: McpServer, state: Path | None) -> bool:
    """Delete what a login left; False if there was nothing. Tokens stay valid at the server until they expire."""
    if state is None:
        return False
    with suppress(FileNotFoundError):
        _path_of(name, server, state).unlink()
        return True
    return False


def _path_of(name: str, server: McpServer, state: Path) -> Path:
    digest = sha256((server.url or "").encode()).hexdigest()[:16]
    return state / "mcp" / "logins" / f"{name}-{digest}.json"
