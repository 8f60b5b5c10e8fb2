"""How a body becomes the text that is hashed and written: JSON, without secrets, of bounded size."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import Final, cast

import msgspec
from msgspec import Struct

from holdfast.contract.errors import LedgerUnavailable
from holdfast.store.blobs import Blobs
from holdfast.store.bodies import Elsewhere, decoder_of
from holdfast.store.redact import Redactor

MAX_INLINE: Final = 1024 * 1024
_MAX_DEPTH: Final = 100
_PLACEHOLDER: Final = b"[an attachment that held a secret]"
_FREE: Final = frozenset({"args", "asked", "original", "original_args", "structured", "metadata", "payload", "pattern"})
"""Fields with content of no fixed form: everything in them can be replaced, numbers and keys too."""
_FIXED: Final = frozenset(
    {"id", "call_id", "state", "verdict", "kind", "failure", "risk", "digest", "definition_digest", "scope", "blob"}
)
"""Fields whose values come from closed lists or are made by us."""


class Sealer:
    """Turns bodies into text without secrets; the only way into the ledger. What could not be read back later is
    refused here: no caller, tool or hook can make an entry that nobody can read."""

    def __init__(self, redactor: Redactor, blobs: Blobs) -> None:
        self._redactor = redactor
        self._blobs = blobs
        self._encode = msgspec.json.Encoder(enc_hook=repr).encode

    def __call__(self, body: Struct) -> str:
        try:
            text = self._encode(body).decode()
        except (UnicodeEncodeError, RecursionError, TypeError, ValueError, OverflowError):
            text = self._encode(_plain(body)).decode()
        if self._redactor.finds(text):
            text = self._encode(self._clean(msgspec.json.decode(text), "", free=False)).decode()
        try:
            decoder_of(type(body)).decode(text)
        except msgspec.DecodeError as error:
            raise LedgerUnavailable(f"It cannot be recorded, because it could not be read back: {error}.") from None
        if len(text) > MAX_INLINE:
            raw = text.encode()
            text = self._encode(Elsewhere(self._blobs.put(raw), len(raw))).decode()
        return text

    def _clean(self, value: object, key: str, *, free: bool) -> object:
        if isinstance(value, dict):
            items = cast(dict[str, object], value).items()
            if free:
                return {self._redactor(name): self._clean(item, "", free=True) for name, item in items}
            return {name: self._clean(item, name, free=name in _FREE) for name, item in items}
        if isinstance(value, list):
            return [self._clean(item, key, free=free) for item in cast(list[object], value)]
        if isinstance(value, str):
            if free:
                return self._redactor(value)
            return self._attachment(value) if key == "data" else value if key in _FIXED else self._redactor(value)
        if free and isinstance(value, int | float) and not isinstance(value, bool):
            shown = str(value)
            redacted = self._redactor(shown)
            return value if redacted == shown else redacted
        return value

    def _attachment(self, encoded: str) -> str:
        try:
            content = a2b_base64(encoded).decode("utf-8", "replace")
        except Base64Error:
            content = encoded
        if self._redactor.finds(encoded) or self._redactor.finds(content):
            return b2a_base64(_PLACEHOLDER, newline=False).decode()
        return encoded


def _plain(value: object, depth: int = 0) -> object:
    """The value as far as JSON can carry it: broken Unicode, cycles and strange objects become text."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if value is None or isinstance(value, bool | int | float | bytes):
        return value
    if depth > _MAX_DEPTH:
        return "[nested too deeply]"
    if isinstance(value, Struct):
        fields: dict[str, object] = {name: getattr(value, name) for name in value.__struct_fields__}
        config = value.__struct_config__
        tag = {config.tag_field: config.tag} if config.tag_field else {}
        return tag | {name: _plain(item, depth + 1) for name, item in fields.items()}
    if isinstance(value, dict):
        items = cast(dict[object, object], value).items()
        return {str(_plain(str(name))): _plain(item, depth + 1) for name, item in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in cast(list[object], value)]
    return _plain(repr(value))

