"""Operations on a list option: set, append, prepend, remove, and their `+` and `-`.

Putting in what is already there moves it. Removing a name excludes it as well, so that a tool which a preset brings
in, also beside its own entry, is filtered when the preset is expanded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from msgspec import Struct

from holdfast.contract.errors import ConfigError

OPERATIONS: Final = ("set", "append", "prepend", "remove")
"""In the order they are carried out when a table names several: what is removed stays removed."""
_KINDS: Final = {"bool": "a boolean", "int": "an integer", "float": "a number", "str": "a string", "dict": "a table"}


class NameList(Struct, frozen=True):
    """A list option under edit; every operation gives a new one."""

    items: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def set(self, names: str | Iterable[str]) -> NameList:
        """State the whole list; earlier exclusions end."""
        return NameList(_unique(names))

    def append(self, names: str | Iterable[str]) -> NameList:
        new = _unique(names)
        return NameList((*_without(self.items, new), *new), _without(self.excluded, new))

    def prepend(self, names: str | Iterable[str]) -> NameList:
        new = _unique(names)
        return NameList((*new, *_without(self.items, new)), _without(self.excluded, new))

    def remove(self, names: str | Iterable[str]) -> NameList:
        gone = _unique(names)
        tools = tuple(name for name in gone if not name.startswith("$") or name not in self.items)
        return NameList(_without(self.items, gone), _unique((*self.excluded, *tools)))

    def __add__(self, names: str | Iterable[str]) -> NameList:
        return self.append(names)

    def __sub__(self, names: str | Iterable[str]) -> NameList:
        return self.remove(names)

    def __xor__(self, names: str | Iterable[str]) -> NameList:
        return self.prepend(names)


def edit(current: NameList, given: object, where: str) -> NameList:
    """Carry out what a file says about a list: a plain list sets it, a table names operations."""
    if not isinstance(given, dict):
        return current.set(_names(given, where))
    for name, operand in operations(cast(dict[str, object], given), where).items():
        current = getattr(current, name)(operand)
    return current


def operations(table: Mapping[str, object], where: str) -> dict[str, tuple[str, ...]]:
    """The operations of a table, `append` or `$append` alike, in the order they are carried out."""
    found: dict[str, tuple[str, ...]] = {}
    for key, operand in table.items():
        name = key.removeprefix("$")
        if name not in OPERATIONS:
            raise ConfigError(f"{where}: '{key}' is no list operation; use {', '.join(OPERATIONS)}, or a plain list.")
        if name in found:
            raise ConfigError(f"{where}: '{name}' is given twice, with and without `$`; keep one.")
        found[name] = _names([operand] if isinstance(operand, str) else operand, f"{where}.{key}")
    if not found:
        raise ConfigError(f"{where}: the table names no operation; use {', '.join(OPERATIONS)}, or a plain list.")
    return {name: found[name] for name in OPERATIONS if name in found}


def _names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where}: expected a list of strings, got {_kind(value)}.")
    items = cast("list[object] | tuple[object, ...]", value)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise ConfigError(f"{where}[{index}]: expected a string, got {_kind(item)}.")
    return cast(tuple[str, ...], tuple(items))


def _kind(value: object) -> str:
    return "null" if value is None else _KINDS.get(type(value).__name__, type(value).__name__)


def _unique(names: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((names,) if isinstance(names, str) else names))


def _without(items: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    gone = frozenset(others)
    return tuple(item for item in items if item not in gone)
