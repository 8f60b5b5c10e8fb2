"""What can be told about MCP servers: how each one is, and which definitions have changed."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ServerState = Literal["starting", "ready", "away", "off"]


class ServerStatus(Struct, frozen=True, kw_only=True):
    """How a server is now."""

    name: str
    state: ServerState
    tools: int = 0
    """How many of its tools are registered."""
    changed: int = 0
    """How many of them are held because nobody has seen their definition as it is."""
    reason: str = ""
    """Why it is away."""
    title: str = ""
    """What it calls itself."""
    version: str = ""
    protocol: str = ""


class Changed(Struct, frozen=True, kw_only=True):
    """A tool whose definition is not the one a person has seen, or that came later than its server."""

    server: str
    tool: str
    difference: str
    """What a person is shown, all of it."""
    digest: str
    """Of the new definition, all of it."""
    new: bool = False
    """No definition of it was ever seen: all of it is shown as added."""
