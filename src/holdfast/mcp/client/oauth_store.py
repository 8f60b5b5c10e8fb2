"""Stored logins: one private file per MCP server, by name and address."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.config.config import McpServer
from holdfast.store.login_file import LoginFile


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


def login_file(name: str, server: McpServer, state: Path | None) -> LoginFile[StoredLogin]:
    """`state` is the user's state directory; None stores nothing on disk."""
    return LoginFile(None if state is None else _path_of(name, server, state), NOTHING)


def forget_login(name: str, server: McpServer, state: Path | None) -> bool:
    """Delete a stored login; False if there was none. Tokens stay valid at the server until they expire."""
    return login_file(name, server, state).forget()


def _path_of(name: str, server: McpServer, state: Path) -> Path:
    digest = sha256((server.url or "").encode()).hexdigest()[:16]
    return state / "mcp" / "logins" / f"{name}-{digest}.json"
