"""Stored logins: one private file per MCP server, by name and address."""

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
    """The login in wire format, so that reading it needs no MCP library."""

    tokens: dict[str, Any] | None = None
    expires_at: float | None = None
    client: dict[str, Any] | None = None
    """The client registration; never the configured client."""
    redirect: str = ""
    """The redirect URI it was registered with."""
    issuer: str = ""
    """The issuer of the tokens."""
    authorisation: dict[str, Any] | None = None
    """The authorisation server's metadata. Without it a refresh token would be sent to a guessed address."""
    resource: dict[str, Any] | None = None


NOTHING: Final = StoredLogin()


class LoginFile:
    """With a path the login is persistent; without one it is lost with the process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._kept = NOTHING

    def read(self) -> StoredLogin:
        """The stored login; a file that cannot be read or belongs to another user counts as none."""
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
    """`state` is the user's state directory; None stores nothing on disk."""
    return LoginFile(None if state is None else _path_of(name, server, state))


def forget_login(name: str, server: McpServer, state: Path | None) -> bool:
    """Delete a stored login; False if there was none. Tokens stay valid at the server until they expire."""
    if state is None:
        return False
    with suppress(FileNotFoundError):
        _path_of(name, server, state).unlink()
        return True
    return False


def _path_of(name: str, server: McpServer, state: Path) -> Path:
    digest = sha256((server.url or "").encode()).hexdigest()[:16]
    return state / "mcp" / "logins" / f"{name}-{digest}.json"
