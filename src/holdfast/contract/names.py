"""Tool names: the grammar of canonical names, and the injective mapping to names that model APIs accept.

Canonical names use dots (`file.read`) or colons (`mcp:server:tool`). Model APIs accept `[a-zA-Z0-9_-]{1,64}`. `:`
becomes `__` and `.` becomes `--`; a name that does not round-trip, or is too long, becomes a readable stem followed by
128 bits of its SHA-256.
"""

from __future__ import annotations

from base64 import b32encode
from hashlib import sha256
from typing import Final

from holdfast.contract.errors import InvalidName

MAX_NAME: Final = 200
GROUP_PREFIX: Final = "group:"
"""Marks the name of a group in lists of tools."""
MCP_PREFIX: Final = "mcp:"
"""Prefix of the names and the source of MCP tools."""
_WORD: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_NAME: Final = _WORD | frozenset(".:/-")
_API_NAME: Final = _WORD | {"-"}
_DIGEST: Final = frozenset("abcdefghijklmnopqrstuvwxyz234567")
_MAX_API_NAME: Final = 64
_DIGEST_CHARS: Final = 26
_STEM_CHARS: Final = _MAX_API_NAME - len("_x") - _DIGEST_CHARS


def check_name(name: object) -> str:
    """Return the name if it is valid, else raise `InvalidName`."""
    if not isinstance(name, str):
        raise InvalidName(f"A tool name must be a string, not {type(name).__name__}.")
    if not 0 < len(name) <= MAX_NAME or not _NAME.issuperset(name) or name[0] not in _WORD or not _has_valid_end(name):
        raise InvalidName(
            f"{name[:80]!r} cannot be a tool name: use 1 to {MAX_NAME} of the letters A-Z a-z, digits and _ . : / -, "
            "beginning and ending with a letter, a digit or _."
        )
    return name


def to_api_name(name: str) -> str:
    """Return the name for model APIs. Different tool names have different API names."""
    candidate = name.replace(":", "__").replace(".", "--")
    if _is_api_name(candidate) and not _is_digested(candidate) and _from_plain(candidate) == name:
        return candidate
    digest = b32encode(sha256(name.encode()).digest()[:16]).decode().rstrip("=").lower()
    stem = "".join(char if char in _API_NAME else "_" for char in candidate[:_STEM_CHARS])
    return f"{stem}_x{digest}"


def from_api_name(api_name: str) -> str | None:
    """Return the tool name of an API name, None for one with a digest (only a registry can map those)."""
    if not _is_api_name(api_name) or _is_digested(api_name):
        return None
    return _from_plain(api_name)


def mcp_server_name(name: str) -> str | None:
    """Return the MCP server in a tool's name or source, or None."""
    return name[len(MCP_PREFIX) :].partition(":")[0] or None if name.startswith(MCP_PREFIX) else None


def is_pattern(entry: str) -> bool:
    """Whether an entry is a glob pattern: tool names cannot contain these characters."""
    return any(letter in entry for letter in "*?[")


def _has_valid_end(name: str) -> bool:
    """Whether the last character is allowed. After a colon comes an MCP name, which may end in any character."""
    return name[-1] in _WORD or (name[-1] != ":" and ":" in name)


def _is_api_name(name: str) -> bool:
    return 0 < len(name) <= _MAX_API_NAME and _API_NAME.issuperset(name)


def _is_digested(name: str) -> bool:
    return name[-_DIGEST_CHARS - 2 : -_DIGEST_CHARS] == "_x" and _DIGEST.issuperset(name[-_DIGEST_CHARS:])


def _from_plain(api_name: str) -> str:
    return api_name.replace("__", ":").replace("--", ".")
