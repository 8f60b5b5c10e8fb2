"""Tool names: the canonical grammar and the injective codec to what model APIs accept.

Canonical names are dotted (`file.read`) or coloned (`mcp:server:tool`). Model APIs take
`[a-zA-Z0-9_-]{1,64}`. `:` is written `__` and `.` is written `--`; a name that would not come back
from that exactly, or is too long, is written as a readable stem and 128 bits of its SHA-256.
"""

from __future__ import annotations

from base64 import b32encode
from hashlib import sha256
from typing import Final

from holdfast.contract.errors import InvalidName

MAX_NAME: Final = 200
MCP_PREFIX: Final = "mcp:"
"""How the names and the source of the tools of an MCP server begin."""
_WORD: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_NAME: Final = _WORD | frozenset(".:/-")
_API_NAME: Final = _WORD | {"-"}
_DIGEST: Final = frozenset("abcdefghijklmnopqrstuvwxyz234567")
_MAX_API_NAME: Final = 64
_DIGEST_CHARS: Final = 26
_STEM_CHARS: Final = _MAX_API_NAME - len("_x") - _DIGEST_CHARS


def check_name(name: object) -> str:
    """Return the name if it is one, else raise `InvalidName`."""
    if not isinstance(name, str):
        raise InvalidName(f"A tool name must be a string, not {type(name).__name__}.")
    if not 0 < len(name) <= MAX_NAME or not _NAME.issuperset(name) or name[0] not in _WORD or not _has_valid_end(name):
        raise InvalidName(
            f"{name[:80]!r} cannot be a tool name: use 1 to {MAX_NAME} of the letters A-Z a-z, digits and _ . : / -, "
            "beginning and ending with a letter, a digit or _."
        )
    return name


def to_api_name(name: str) -> str:
    """The name a model API sees. Two different tool names never share one."""
    candidate = name.replace(":", "__").replace(".", "--")
    if _is_api_name(candidate) and not _is_digested(candidate) and _from_plain(candidate) == name:
        return candidate
    digest = b32encode(sha256(name.encode()).digest()[:16]).decode().rstrip("=").lower()
    stem = "".join(char if char in _API_NAME else "_" for char in candidate[:_STEM_CHARS])
    return f"{stem}_x{digest}"


def from_api_name(api_name: str) -> str | None:
    """The tool name behind an API name, or None for a digested one (only a registry knows those)."""
    if not _is_api_name(api_name) or _is_digested(api_name):
        return None
    return _from_plain(api_name)


def mcp_server_name(name: str) -> str | None:
    """The MCP server that the name or the source of a tool names, or None."""
    return name[len(MCP_PREFIX) :].partition(":")[0] or None if name.startswith(MCP_PREFIX) else None


def is_pattern(entry: str) -> bool:
    """Whether an entry of a list stands for all names that look like it: no name has these characters."""
    return any(letter in entry for letter in "*?[")


def _has_valid_end(name: str) -> bool:
    """What stands after a colon is a name somebody else gave, and those of MCP may end in any of their characters."""
    return name[-1] in _WORD or (name[-1] != ":" and ":" in name)


def _is_api_name(name: str) -> bool:
    return 0 < len(name) <= _MAX_API_NAME and _API_NAME.issuperset(name)


def _is_digested(name: str) -> bool:
    return name[-_DIGEST_CHARS - 2 : -_DIGEST_CHARS] == "_x" and _DIGEST.issuperset(name[-_DIGEST_CHARS:])


def _from_plain(api_name: str) -> str:
    return api_name.replace("__", ":").replace("--", ".")
