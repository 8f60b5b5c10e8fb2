"""Tool names: the canonical grammar and the injective codec to what model APIs accept.

Canonical names are dotted (`file.read`) or coloned (`mcp:server:tool`). Model APIs take
`[a-zA-Z0-9_-]{1,64}`. `:` is written `__` and `.` is written `--`; a name that would not come back
from that exactly, or is too long, is written as a readable stem and 128 bits of its SHA-256.
"""

from __future__ import annotations

import re
from base64 import b32encode
from hashlib import sha256
from typing import Final

from holdfast.contract.errors import InvalidName

MAX_NAME: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.:/-]*[A-Za-z0-9_])?", re.ASCII)
_API_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)
_DIGESTED: Final = re.compile(r".*_x[a-z2-7]{26}", re.ASCII)
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST_CHARS: Final = 26
_STEM_CHARS: Final = 64 - len("_x") - _DIGEST_CHARS


def check_name(name: object) -> str:
    """Return the name if it is one, else raise `InvalidName`."""
    if not isinstance(name, str):
        raise InvalidName(f"A tool name must be a string, not {type(name).__name__}.")
    if not 0 < len(name) <= MAX_NAME or not _NAME.fullmatch(name):
        raise InvalidName(
            f"{name[:80]!r} cannot be a tool name: use 1 to {MAX_NAME} of the letters A-Z a-z, digits and _ . : / -, "
            "beginning and ending with a letter, a digit or _."
        )
    return name


def to_api_name(name: str) -> str:
    """The name a model API sees. Two different tool names never share one."""
    candidate = name.replace(":", "__").replace(".", "--")
    if _API_NAME.fullmatch(candidate) and not _DIGESTED.fullmatch(candidate) and _from_plain(candidate) == name:
        return candidate
    digest = b32encode(sha256(name.encode()).digest()[:16]).decode().rstrip("=").lower()
    return f"{_ILLEGAL.sub('_', candidate)[:_STEM_CHARS]}_x{digest}"


def from_api_name(api_name: str) -> str | None:
    """The tool name behind an API name, or None for a digested one (only a registry knows those)."""
    if not _API_NAME.fullmatch(api_name) or _DIGESTED.fullmatch(api_name):
        return None
    return _from_plain(api_name)


def _from_plain(api_name: str) -> str:
    return api_name.replace("__", ":").replace("--", ".")
