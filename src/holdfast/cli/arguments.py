"""Parses the arguments of a call from the command line: one JSON object, `-` for standard input, or `key=value` words.

`key=value` is text if the tool's schema says so, otherwise JSON if it parses, otherwise text. `key:=json` is always
JSON, `key=@file` the text of a file, `key:=@file` its JSON, and `@-` standard input.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from holdfast.cli.errors import UsageProblem
from holdfast.contract.errors import BadJson
from holdfast.contract.json import MAX_ARGUMENT_BYTES, Args, Json, parse_json
from holdfast.text.escape import clip, escape

_TEXT_TYPES: Final = ("string", ["string", "null"], ["null", "string"])
_MAX_SHOWN: Final = 40


def parse_arguments(words: Sequence[str], schema: Mapping[str, Any]) -> Args | str | bytes:
    """Return what `Runtime.call` takes. JSON is passed on unparsed, so that errors in it are recorded with the call."""
    if not words:
        return {}
    if len(words) == 1:
        only = words[0]
        if only == "-":
            return _read_stdin()
        if only.lstrip()[:1] in ("{", "[", '"'):
            return only
    args: Args = {}
    for word in words:
        key, value = _pair(word, schema)
        if key in args:
            raise UsageProblem(f"The argument '{key}' is given twice. Keep one.")
        args[key] = value
    return args


def parse_object(text: str, what: str) -> Args:
    """Parse a JSON object; `-` reads it from standard input. `what` names it in the error."""
    value = parse_json(_read_stdin() if text == "-" else text)
    if not isinstance(value, dict):
        raise BadJson(f'{what} must be a JSON object, such as {{"path": "notes.txt"}}.')
    return value


def read_text(text: str) -> str:
    """Return the text, or standard input for `-`."""
    return _decoded(_read_stdin(), "Standard input").removesuffix("\n") if text == "-" else text


def _pair(word: str, schema: Mapping[str, Any]) -> tuple[str, Json]:
    name, sign, value = word.partition("=")
    key = name.removesuffix(":")
    if not sign or not key or not all(letter.isalnum() or letter in "_.$-" for letter in key):
        typed = clip(escape(word), _MAX_SHOWN)
        ways = "key=value, key:=JSON, one JSON object, or - for stdin"
        raise UsageProblem(f"Cannot read '{typed}' as an argument. Use {ways}.")
    given: str | bytes = _read_file(value[1:]) if value.startswith("@") else value
    if key != name:
        try:
            return key, parse_json(given)
        except BadJson as error:
            raise UsageProblem(f"{key}: {error}") from None
    text = given if isinstance(given, str) else _decoded(given, value[1:])
    return key, text if _wants_text(schema, key) else _json_or_text(text)


def _wants_text(schema: Mapping[str, Any], key: str) -> bool:
    properties: object = schema.get("properties")
    wanted = cast(Mapping[str, Any], properties).get(key) if isinstance(properties, Mapping) else None
    return isinstance(wanted, Mapping) and cast(Mapping[str, Any], wanted).get("type") in _TEXT_TYPES


def _json_or_text(text: str) -> Json:
    try:
        return parse_json(text)
    except BadJson:
        return text


def _read_file(name: str) -> bytes:
    if name == "-":
        return _read_stdin()
    try:
        with Path(name).open("rb") as file:
            return _bounded(file.read(MAX_ARGUMENT_BYTES + 1), name)
    except OSError as error:
        reason = error.strerror or "not a file"
        raise UsageProblem(f"Cannot read {escape(name)}: {reason}. For text that starts with @, use :=.") from None


def _read_stdin() -> bytes:
    return _bounded(sys.stdin.buffer.read(MAX_ARGUMENT_BYTES + 1), "Standard input")


def _bounded(content: bytes, name: str) -> bytes:
    if len(content) > MAX_ARGUMENT_BYTES:
        raise UsageProblem(f"{escape(name)} exceeds the {MAX_ARGUMENT_BYTES:,} bytes that a call may have.")
    return content


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UsageProblem(f"{escape(name)} is not UTF-8 text.") from None
