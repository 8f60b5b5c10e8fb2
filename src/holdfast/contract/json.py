"""JSON: strict parsing, encoding, canonical form and digests."""

from __future__ import annotations

from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast

import jiter
import msgspec

from holdfast.contract.errors import BadJson

if TYPE_CHECKING:
    Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
else:
    Json = Any  # msgspec cannot decode a recursive alias
Args = dict[str, Json]


class Doc(NamedTuple):
    """The description of a field: `Annotated[type, Doc("...")]`. Used in reference docs and schemas."""

    text: str


IDENTIFIER: Final = "identifier"
Identifier = Annotated[str, IDENTIFIER]
"""A string that holdfast generated or validated, such as an id or a digest. Redaction does not change it."""

MAX_ARGUMENT_BYTES: Final = 16 * 1024 * 1024

_encoder: Final = msgspec.json.Encoder()
_canonical: Final = msgspec.json.Encoder(order="sorted")
_parse: Final = jiter.from_json


def parse_json(text: str | bytes, *, limit: int = MAX_ARGUMENT_BYTES, finite: bool = True) -> Json:
    """Parse one JSON value. Raises `BadJson`, also for duplicate keys, NaN, infinity, lone surrogates, depth and size.

    `finite=False` skips the check for infinity (1e400) if the caller's schema rejects it.
    """
    if len(text) > limit:
        raise _too_long(len(text), limit)
    try:
        raw = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError:
        raise BadJson("The JSON contains a lone surrogate; send valid Unicode.") from None
    if len(raw) > limit:
        raise _too_long(len(raw), limit)
    try:
        value: Json = _parse(raw, catch_duplicate_keys=True, allow_inf_nan=False)
    except ValueError as error:
        raise BadJson(f"This is not valid JSON: {_reason(raw, str(error))}.") from None
    if finite and not _is_finite(value):
        raise BadJson("The JSON contains a number that is too large for a float; send it as a string.")
    return value


def encode_json(value: object) -> bytes:
    """Encode a value, struct or dataclass as compact JSON."""
    return _encoder.encode(value)


def canonical_json(value: object) -> bytes:
    """Encode canonically: sorted keys, no white space, integral floats as integers."""
    return _canonical.encode(_integral(value))


def digest_of(value: object) -> str:
    return sha256(canonical_json(value)).hexdigest()


def _integral(value: object) -> object:
    if isinstance(value, float):
        if not isfinite(value):
            raise BadJson(f"{value} cannot be represented in JSON, so it has no digest.")
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in cast(dict[str, object], value).items()}
    if isinstance(value, list | tuple):
        return [_integral(item) for item in cast(list[object], value)]
    return value


def _is_finite(value: Json) -> bool:
    if isinstance(value, dict):
        return all(_is_finite(item) for item in value.values())
    if isinstance(value, list):
        return all(_is_finite(item) for item in value)
    return not isinstance(value, float) or isfinite(value)


def _too_long(size: int, limit: int) -> BadJson:
    return BadJson(f"The JSON is {size:,} bytes long; at most {limit:,} are accepted. Pass large data as a file.")


def _reason(raw: bytes, error: str) -> str:
    if raw.startswith(b"\xef\xbb\xbf"):
        return "it begins with a byte order mark; send plain UTF-8"
    if b"\x00" in raw[:2] or raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it looks like UTF-16; send UTF-8"
    if error.startswith("recursion limit"):
        return "it is nested more than 200 levels deep"
    return error if len(error) <= 200 else f"{error[:120]} … {error[-60:]}"
