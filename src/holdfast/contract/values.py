"""JSON as holdfast reads and writes it: strict in, canonical out."""

from __future__ import annotations

from hashlib import sha256
from typing import Final, cast

import jiter
import msgspec

from holdfast.contract.errors import BadJson

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Args = dict[str, Json]

MAX_ARGUMENT_BYTES: Final = 16 * 1024 * 1024

_encoder: Final = msgspec.json.Encoder()
_canonical: Final = msgspec.json.Encoder(order="sorted")
_parse: Final = jiter.from_json


def parse_json(text: str | bytes, *, limit: int = MAX_ARGUMENT_BYTES) -> Json:
    """Parse one JSON value; duplicate keys, NaN, lone surrogates, great depth and great size are errors."""
    if len(text) > limit:
        raise BadJson(f"The JSON is {len(text):,} bytes long; at most {limit:,} are accepted. Pass large data as a file.")
    try:
        raw = text.encode() if isinstance(text, str) else text
        return cast(Json, _parse(raw, catch_duplicate_keys=True, allow_inf_nan=False))
    except UnicodeEncodeError:
        raise BadJson("The JSON contains half of a surrogate pair; send well-formed Unicode.") from None
    except ValueError as error:
        raise BadJson(f"This is not valid JSON: {error}.") from None


def encode_json(value: object) -> bytes:
    """Compact JSON of a value, struct or dataclass."""
    return _encoder.encode(value)


def canonical_json(value: object) -> bytes:
    """The one byte form of a JSON value: sorted keys, no white space, integral floats as integers."""
    return _canonical.encode(_integral(value))


def digest_of(value: object) -> str:
    return sha256(canonical_json(value)).hexdigest()


def _integral(value: object) -> object:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in cast(dict[str, object], value).items()}
    if isinstance(value, list | tuple):
        return [_integral(item) for item in cast(list[object], value)]
    return value
