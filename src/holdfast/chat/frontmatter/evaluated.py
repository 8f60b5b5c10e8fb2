"""What an evaluated frontmatter is, and what it is evaluated against."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct, field

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.lua.host import Script
from holdfast.config.model import Config
from holdfast.contract.tool import Tool
from holdfast.registry.selection import Edit
from holdfast.rules.chain import Resolve


class Base(Struct, frozen=True, kw_only=True):
    """What holds without the document; every evaluation starts from it."""

    config: Config = field(default_factory=Config)
    tools: tuple[Tool, ...] = ()
    """Those the caller may see, and those that are switched off: naming one switches it on."""
    hidden: frozenset[str] = frozenset()
    """Names of tools that exist and are not for this caller. They are no mistake, and are never suggested."""


class Evaluated(Struct, frozen=True, kw_only=True, eq=False):
    digest: str
    """What a person trusts; see `digest_of_frontmatter`."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """A document layer for `config.load.load(document=...)`."""
    tool_edits: tuple[Edit, ...] = ()
    approve: Resolve | None = None
    """A function that decides about calls. It answers "ask" when it fails."""
    variables: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Data for templates. The variables of Lua live where templates run: see `script`."""
    script: Script | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether something in it could not be understood: nothing may then run without a person."""
        return any(item.severity == "error" for item in self.diagnostics)


def digest_of_frontmatter(language: str, code: str) -> str:
    return sha256(f"{language}\n{code}".encode("utf-8", "surrogatepass")).hexdigest()


NOTHING = Evaluated(digest="")
"""A document without frontmatter."""
