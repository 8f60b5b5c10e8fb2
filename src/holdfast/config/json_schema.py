"""Generates the JSON Schema of the configuration files, and the option tables of `docs/config.md`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final, cast

import msgspec.json
from msgspec import NODEFAULT, Struct, to_builtins

from holdfast.config.config import Config, SecretSource
from holdfast.config.merge import OPERATIONS
from holdfast.config.options import (
    APPROVES_NOTHING,
    FUNCTION_PATH,
    PRESET_NAME,
    USER_ONLY,
    Option,
    Section,
    choices,
    is_section,
    options,
)

JsonObject = dict[str, Any]
_EDIT: Final = "ListEdit"


def json_schema() -> JsonObject:
    """Return the JSON Schema (2020-12) of a configuration file, for editors."""
    made = msgspec.json.schema(Config)
    defs = cast(dict[str, JsonObject], made["$defs"])
    for shape in Section.__subclasses__():
        _describe(defs[shape.__name__], shape)
    approval = cast(dict[str, JsonObject], defs["ApprovalConfig"]["properties"])
    approval["presets"]["propertyNames"] = {"pattern": PRESET_NAME}
    for choice in approval["auto_approve"]["anyOf"]:
        if choice.get("type") == "string":
            choice["pattern"] = FUNCTION_PATH
    defs["SecretSource"]["oneOf"] = [{"required": [name]} for name in options(SecretSource)]
    _describe_server(defs["McpServer"])
    defs[_EDIT] = _list_edit()
    top = defs.pop("Config")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **top,
        "title": "holdfast configuration",
        "$defs": defs,
    }


def _describe(made: JsonObject, shape: type[Struct]) -> None:
    """Remove computed options; add descriptions and, for lists, their operations."""
    given = cast(dict[str, JsonObject], made["properties"])
    made.pop("required", None)
    made["properties"] = {name: _property(given[name], option) for name, option in options(shape).items()}


def _describe_server(made: JsonObject) -> None:
    """A layer may change a server that another layer defines, so neither command nor url is required."""
    made["not"] = {"required": ["command", "url"]}
    for choice in made["properties"]["url"]["anyOf"]:
        if choice["type"] == "string":
            choice["pattern"] = "^https?://"


def _property(given: JsonObject, option: Option) -> JsonObject:
    user_only = " User-level only." if option.trust is USER_ONLY else ""
    plain = {key: value for key, value in given.items() if key != "default"}
    if option.is_edited:
        plain = {"anyOf": [*plain.pop("anyOf", [plain]), {"$ref": f"#/$defs/{_EDIT}"}]}
    if "default" in given and not isinstance(given["default"], dict):
        plain["default"] = given["default"]
    return {**plain, "description": option.doc + user_only}


def _list_edit() -> JsonObject:
    names: JsonObject = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    return {
        "title": "List operations",
        "description": "Changes to the list of the layer below. The `$` is optional.",
        "type": "object",
        "properties": {f"{sign}{name}": names for name in OPERATIONS for sign in ("", "$")},
        "minProperties": 1,
        "additionalProperties": False,
    }


_TABLE: Final = re.compile(r"(<!-- options: (.+) -->\n)(?:\|.*\n)*")
_HEAD: Final = "| option | default | meaning | an untrusted file may |\n|---|---|---|---|\n"
_UNITS: Final = ((2**30, "GiB"), (2**20, "MiB"))
_MAX_ITEMS: Final = 4


def with_tables(text: str) -> str:
    """Return the page with every table after an `options:` comment regenerated.

    The comment names sections, top-level options, and structs of table entries.
    """
    return _TABLE.sub(lambda found: found[1] + _HEAD + "".join(map(_rows, found[2].split())), text)


def _rows(name: str) -> str:
    top = options(Config).get(name)
    if top is not None and not is_section(top.kind):
        return _row(name, top)
    shape = next(shape for shape in Section.__subclasses__() if shape.__name__ == name) if top is None else top.kind
    prefix = "" if top is None else f"{name}."
    return "".join(_row(prefix + key, option) for key, option in options(shape).items())


def _row(key: str, option: Option) -> str:
    known = [f"`{word.lower()}`" for word in choices(option.kind)]
    one_of = "" if all(word in option.doc for word in known) else f" One of {', '.join(known)}."
    approves = "" if option.approves is APPROVES_NOTHING else f" Can approve: {option.approves.calls}."
    return f"| `{key}` | {_default(option.default())} | {option.doc}{one_of}{approves} | {option.trust.may} |\n"


def _default(value: Any) -> str:
    if value is NODEFAULT or value is None or value == {}:
        return ""
    for size, unit in _UNITS:
        if isinstance(value, int) and value >= size and value % size == 0:
            return f"{value // size} {unit}"
    plain = to_builtins(value)
    if isinstance(plain, list | tuple) and len(items := cast("list[str]", plain)) > _MAX_ITEMS:
        return ", ".join(f"`{item}`" for item in items[:_MAX_ITEMS]) + ", …"
    return f"`{json.dumps(plain)}`"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_tables(page.read_text()))
