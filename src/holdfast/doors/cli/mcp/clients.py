"""Where MCP clients keep their servers, and what an entry for holdfast looks like in each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.contract.values import Json
from holdfast.helper_process import own_module

ENTRY: Final = "holdfast"
"""Our name among a client's servers."""
OURS: Final = frozenset(("type", "command", "args", "url", "headers"))
"""What of an entry is ours to write; whatever else people have put into their own files stays."""
_PLACES: Final = ("XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""Clients start servers with an environment of their own; without these another configuration would count there."""
WORKSPACE: Final = "${workspaceFolder}"


class Client(Struct, frozen=True, kw_only=True):
    """A program that starts MCP servers by a configuration file."""

    title: str
    section: str
    user: Callable[[], Path]
    project: str
    """From the project's root."""
    typed: bool = True
    """Whether an entry says what kind of server it is."""
    folder: str | None = None
    """What stands for the folder that is open; None: it starts servers there by itself."""

    def entry(self, command: list[str], root: Path | None) -> dict[str, Json]:
        """For a server it starts itself; `root`: for this project alone."""
        folder = self.folder or (None if root is None else str(root))
        program, *words = command
        args: list[Json] = [*words, *(() if folder is None else ("-C", folder)), "mcp"]
        kind: dict[str, Json] = {"type": "stdio"} if self.typed else {}
        env: dict[str, Json] = {name: os.environ[name] for name in _PLACES if _given(name)}
        return {**kind, "command": program, "args": args, **({"env": env} if env else {})}

    def remote_entry(self, url: str, token: str) -> dict[str, Json]:
        """For one that runs already."""
        kind: dict[str, Json] = {"type": "http"} if self.typed else {}
        return {**kind, "url": url, "headers": {"Authorization": f"Bearer {token}"}}


def _claude() -> Path:
    return (_given("CLAUDE_CONFIG_DIR") or Path.home()) / ".claude.json"


def user_folders() -> list[Path]:
    """Where a person's own files may be: links that lead out of these are not followed."""
    given = (_given("XDG_CONFIG_HOME"), _given("CLAUDE_CONFIG_DIR"))
    return [Path.home(), *(folder for folder in given if folder is not None)]


def _config_home() -> Path:
    return _given("XDG_CONFIG_HOME") or Path.home() / ".config"


def _given(variable: str) -> Path | None:
    """A folder the environment names; a relative one would depend on where this is run."""
    folder = Path(os.environ.get(variable, ""))
    return folder if folder.is_absolute() else None


def _code() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "Code" / "User" / "mcp.json"
    return _config_home() / "Code" / "User" / "mcp.json"


def _zed() -> Path:
    home = Path.home() / ".config" if sys.platform == "darwin" else _config_home()
    return home / "zed" / "settings.json"


CLIENTS: Final[Mapping[str, Client]] = {
    "claude": Client(title="Claude Code", section="mcpServers", user=_claude, project=".mcp.json"),
    "cursor": Client(
        title="Cursor",
        section="mcpServers",
        user=lambda: Path.home() / ".cursor" / "mcp.json",
        project=".cursor/mcp.json",
        folder=WORKSPACE,
    ),
    "vscode": Client(
        title="VS Code", section="servers", user=_code, project=".vscode/mcp.json", folder=WORKSPACE
    ),
    "zed": Client(
        title="Zed", section="context_servers", user=_zed, project=".zed/settings.json", typed=False
    ),
}


def own_command() -> list[str]:
    """How this very program is started: by its path, and with nothing from the project that a client has open."""
    return list(own_module("holdfast"))
