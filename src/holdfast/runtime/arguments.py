"""Arguments as doors give them, made into objects that are ours."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, cast

from holdfast.contract.errors import BadJson
from holdfast.contract.values import MAX_ARGUMENT_BYTES, Args, encode_json, parse_json

Arguments = str | bytes | Mapping[str, Any] | None
_RECORDED_CHARACTERS: Final = 4096


def read_arguments(arguments: Arguments) -> Args:
    """Arguments as a door gives them, as the object they must be."""
    if type(arguments) is dict:
        args = cast(Args, arguments)
        for value in args.values():
            if type(value) is str and len(value) > MAX_ARGUMENT_BYTES:
                raise BadJson(
                    f"An argument is {len(value):,} characters long; at most {MAX_ARGUMENT_BYTES:,} are accepted."
                )
        return args
    if arguments is None:
        return {}
    if isinstance(arguments, str | bytes):
        return parse_object(_text(arguments))
    if isinstance(arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - doors pass on what they get
        return dict(arguments)
    raise BadJson(f"The arguments must be a JSON object, not {type(arguments).__name__}.")


def parse_object(text: str, finite: bool = True) -> Args:
    """`parse_json` of what must be an object; see there for `finite`."""
    value = parse_json(text, finite=finite)
    if type(value) is dict:
        return value
    raise BadJson(f"The arguments must be a JSON object, not {_json_kind(value)}.")


def _text(arguments: str | bytes) -> str:
    try:
        return str(arguments) if isinstance(arguments, str) else arguments.decode()
    except UnicodeDecodeError as error:
        raise BadJson(f"This is not valid JSON: it is not UTF-8 (byte {error.start}).") from None


def own(args: Args, limit: int = sys.maxsize) -> Args:
    """A copy of plain JSON that nobody else can change; `BadJson` if it is longer than `limit` bytes."""
    for value in args.values():
        if type(value) is dict or type(value) is list:
            return cast(Args, parse_json(encode_json(args), limit=limit))
    return args.copy()


def recordable(given: Any) -> Any:
    """What was given instead of arguments, as far as the ledger keeps it."""
    if isinstance(given, bytes):
        return given[:_RECORDED_CHARACTERS].decode(errors="replace")
    if isinstance(given, str):
        return given[:_RECORDED_CHARACTERS].encode(errors="replace").decode()
    try:
        encode_json(given)
    except Exception:
        return f"[{type(given).__name__} that JSON cannot carry]"
    return given


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    return {"str": "a string", "list": "a list", "bool": "a boolean"}.get(type(value).__name__, "a number")
