"""What the configuration's types say about a key: whether it exists, what it holds, and how a misfit is worded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from msgspec import Struct, ValidationError, convert, structs

from holdfast.config.model import INTERNAL, CommandRule, McpOAuth, McpServer, SecretSource
from holdfast.contract.errors import ConfigError
from holdfast.text.suggest import did_you_mean

_BARE: Final = re.compile(r"[A-Za-z0-9_$-]+", re.ASCII)
_AT: Final = re.compile(r" - at (?:`key` in )?`\$?(.*)`$")
_MAX_SHOWN: Final = 60
_WHOLE: Final = (SecretSource, CommandRule, McpOAuth)


def options(shape: type[Struct], path: str = "") -> dict[str, Any]:
    """Name and type of every field of a struct at `path` that a file may set."""
    prefix = f"{path}." if path else ""
    return {name: kind for name, kind in _fields(shape).items() if prefix + name not in INTERNAL}


def is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def is_list(kind: Any) -> bool:
    """A list of names, which files can edit."""
    return any(get_origin(option) is tuple for option in _alternatives(kind)) and not is_table_list(kind)


def is_edited(shape: type[Struct], name: str, kind: Any) -> bool:
    """Whether a layer can edit the list; words of a command and the like are one value, in which words may repeat."""
    return is_list(kind) and shape not in _WHOLE and (shape, name) != (McpServer, "args")


def is_table_list(kind: Any) -> bool:
    """A list of tables, to which every layer adds."""
    return any(get_origin(option) is tuple and is_section(get_args(option)[0]) for option in _alternatives(kind))


def dotted(path: str, key: str) -> str:
    """A key under a path, quoted the way TOML wants it, with nothing a terminal would obey."""
    shown = key if _BARE.fullmatch(key) else '"' + key.encode("unicode_escape").decode().replace('"', '\\"') + '"'
    return f"{path}.{shown}" if path else shown


def check(value: object, kind: Any, where: str) -> None:
    """Raise `ConfigError` unless the value fits the type."""
    try:
        convert(value, kind)
    except ValidationError as error:
        raise ConfigError(_misfit(value, kind, where, str(error))) from None


def not_a_table(where: str, value: object) -> ConfigError:
    return ConfigError(f"{where}: expected a table, got {show(value)}.")


def unknown_option(where: str, key: str, known: Iterable[str]) -> ConfigError:
    names = sorted(known)
    close = did_you_mean(key, names)
    hint = f"did you mean '{close}'?" if close else f"known here are {', '.join(names)}."
    return ConfigError(f"{where} is not an option; {hint}")


def show(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def lower_first(message: str) -> str:
    return message[:1].lower() + message[1:]


def _misfit(value: object, kind: Any, where: str, message: str) -> str:
    words = [word for option in _alternatives(kind) for word in _words(option)]
    if words and isinstance(value, str):
        close = did_you_mean(value, words)
        hint = f"; did you mean '{close}'?" if close else "."
        return f"{where}: expected one of {', '.join(words)}, got {show(value)}{hint}"
    at = _AT.search(message)
    return f"{where}{at[1] if at else ''}: {lower_first(_AT.sub('', message))}."


def _words(option: Any) -> list[str]:
    if get_origin(option) is Literal:
        return [str(word) for word in get_args(option)]
    if isinstance(option, type) and issubclass(option, Enum):
        return [str(member.value) for member in option]
    return []


def _alternatives(kind: Any) -> list[Any]:
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [inner for option in get_args(kind) for inner in _alternatives(option)]
    return [kind]


@cache
def _fields(shape: type[Struct]) -> dict[str, Any]:
    return {item.name: item.type for item in structs.fields(shape)}
