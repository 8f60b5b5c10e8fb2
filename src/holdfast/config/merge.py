"""Merges configuration layers: tables key by key, lists by operations (set, append, prepend, remove)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast, get_args, get_origin

from msgspec import NODEFAULT, Struct, ValidationError, convert, to_builtins

from holdfast.config.options import (
    FUNCTION_PATH,
    IDENTITY,
    PRESET_NAME,
    Mark,
    Option,
    Table,
    alternatives,
    check_type,
    choices,
    dotted,
    is_section,
    is_table_list,
    lower_first,
    not_a_table,
    options,
    unknown_option,
)
from holdfast.contract.errors import ConfigError, PathRefused
from holdfast.fs.paths import resolve

OPERATIONS: Final = ("set", "append", "prepend", "remove")
"""In the order they are applied when a table has several; `remove` comes last, so it wins."""
_KINDS: Final = {"bool": "a boolean", "int": "an integer", "float": "a number", "str": "a string", "dict": "a table"}


class NameList(Struct, frozen=True):
    """An immutable list option; every operation returns a new one.

    Adding an item that is already present moves it. Removing a name also excludes it, so that a tool that a preset
    adds is filtered out when the preset is expanded.
    """

    items: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def set(self, names: str | Iterable[str]) -> NameList:
        """Replace the whole list and clear the exclusions."""
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


def edit_list(current: NameList, given: object, where: str) -> NameList:
    """Apply a value from a file to a list: a plain list replaces it, a table contains operations."""
    if not isinstance(given, dict):
        return current.set(_names(given, where))
    for name, operand in operations(cast(dict[str, object], given), where).items():
        current = getattr(current, name)(operand)
    return current


def operations(table: Mapping[str, object], where: str) -> dict[str, tuple[str, ...]]:
    """Return the operations of a table (`append` or `$append`) in the order they are applied."""
    found: dict[str, tuple[str, ...]] = {}
    for key, operand in table.items():
        name = key.removeprefix("$")
        if name not in OPERATIONS:
            raise ConfigError(
                f"{where}: '{key}' is not a list operation. Use {', '.join(OPERATIONS)}, or a plain list."
            )
        if name in found:
            raise ConfigError(f"{where}: '{name}' is given twice, with and without `$`. Keep one.")
        found[name] = _names([operand] if isinstance(operand, str) else operand, f"{where}.{key}")
    if not found:
        raise ConfigError(f"{where}: the table has no list operation. Use {', '.join(OPERATIONS)}, or a plain list.")
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


S = TypeVar("S", bound=Struct)


class MergedLayer(NamedTuple, Generic[S]):
    config: S
    keys: tuple[str, ...]
    """The options the layer sets, such as `tools.profile`."""
    notes: tuple[str, ...]


class _LayerContext(NamedTuple):
    """The layer that is being merged, with the keys and notes collected so far."""

    name: str
    folder: Path
    user_level: bool
    keys: list[str]
    notes: list[str]

    def at(self, path: str) -> str:
        return f"{self.name}: {path}"


def merge_layer(base: S, given: Table, *, name: str, folder: Path, user_level: bool) -> MergedLayer[S]:
    """Return `base` with the layer's values merged in. Raises `ConfigError` for unknown options and wrong types."""
    layer = _LayerContext(name, folder, user_level, [], [])
    merged = cast(Table, to_builtins(base))
    _merge(type(base), merged, given, "", layer)
    try:
        config = convert(merged, type(base))
    except ValidationError as error:
        raise ConfigError(f"{name}: {lower_first(str(error))}.") from None
    return MergedLayer(config, tuple(layer.keys), tuple(layer.notes))


def plain_table(given: Mapping[str, object], name: str) -> Table:
    """Return the layer as plain JSON-like values; TOML dates become text."""
    try:
        return cast(Table, to_builtins(dict(given), str_keys=True))
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{name}: {lower_first(str(error))}. Use plain tables, lists, text and numbers.") from None
    except RecursionError:
        raise ConfigError(f"{name}: the tables are nested too deeply. Flatten them.") from None


def _merge(shape: type[Struct], current: Table, given: object, path: str, layer: _LayerContext) -> None:
    if not isinstance(given, dict):
        raise not_a_table(layer.at(path), given)
    known = options(shape)
    for key, value in cast(Table, given).items():
        here = dotted(path, key)
        if key not in known:
            raise unknown_option(layer.at(here), key, known)
        kind = known[key].kind
        if is_section(kind):
            _merge(kind, current[key], value, here, layer)
            continue
        layer.keys.append(here)
        if known[key].is_edited:
            _merge_list(current, key, _as_append(value) if Mark.ADDS in known[key].marks else value, here, layer)
            check_type(current[key], kind, layer.at(here))
        elif is_table_list(kind):
            _add_tables(current, key, value, kind, layer.at(here))
        elif get_origin(kind) is dict:
            _merge_table(current[key], value, known[key], here, layer)
        else:
            check_type(value, kind, layer.at(here))
            current[key] = value


def _add_tables(current: Table, key: str, given: object, kind: Any, where: str) -> None:
    given = _replace_synonyms(given, kind, where)
    check_type(given, kind, where)
    known = cast("list[Table]", current[key])
    fresh = cast("list[Table]", to_builtins(convert(given, kind)))
    current[key] = [*known, *(table for table in fresh if table not in known)]
    check_type(current[key], kind, where)


def _replace_synonyms(given: object, kind: Any, where: str) -> object:
    """Return the tables with synonyms replaced. An unknown option or word is an error that lists the known ones."""
    if not isinstance(given, list | tuple):
        return given
    known = options(next(get_args(item)[0] for item in alternatives(kind) if get_origin(item) is tuple))
    tables: list[object] = []
    for place, each in enumerate(cast("list[object]", given)):
        table = dict(cast(Table, each)) if isinstance(each, dict) else {}
        for key, value in table.items():
            here = f"{where}[{place}].{dotted('', key)}"
            if key not in known:
                raise unknown_option(here, key, known)
            if choices(known[key].kind):
                table[key] = known[key].synonyms.get(value, value) if isinstance(value, str) else value
                check_type(table[key], known[key].kind, here)
        tables.append(table if isinstance(each, dict) else each)
    return tables


def _merge_table(current: Table, given: object, option: Option, path: str, layer: _LayerContext) -> None:
    """Merge a table whose keys are names: of agents, presets, secrets, tools, patterns."""
    if not isinstance(given, dict):
        raise not_a_table(layer.at(path), given)
    key_kind, value_kind = get_args(option.kind)
    for name, value in cast(Table, given).items():
        here = dotted(path, name)
        where = layer.at(here)
        check_type(name, key_kind, f"{where} (the name)")
        if path == "approval.presets" and not re.fullmatch(PRESET_NAME, name):
            raise ConfigError(f"{where}: a preset name must start with `$`, like '$mine'. Rename it.")
        if _has_identity(value_kind) and not _changes_server(value_kind, current, name, value, where, layer):
            continue
        if Mark.WHOLE in option.marks:
            current.pop(name, None)
        if is_section(value_kind):
            if name not in current:
                defaults = {key: option.default() for key, option in options(value_kind).items()}
                current[name] = {key: default for key, default in defaults.items() if default is not NODEFAULT}
            _merge(value_kind, current[name], value, here, layer)
            check_type(current[name], value_kind, where)
        else:
            check_type(value, value_kind, where)
            found = _skill_folder(value, layer, where) if path == "tools.skills" else value
            current[name] = _merge_deep(current.get(name), found)


def _has_identity(kind: Any) -> bool:
    return is_section(kind) and any(option.trust is IDENTITY for option in options(kind).values())


def _changes_server(
    kind: type[Struct], current: Table, name: str, value: object, where: str, layer: _LayerContext
) -> bool:
    """Whether the layer defines a server or changes an existing one.

    A new definition replaces the old one completely: the secrets in its environment and headers are meant for that
    program or address only.
    """
    given = cast(Table, value) if isinstance(value, dict) else {"": value}
    known = options(kind)
    if "command" in given or "url" in given:
        current.pop(name, None)
    elif name not in current and not any(key not in known or known[key].trust is IDENTITY for key in given):
        layer.notes.append(f"{where}: there is no such server; nothing was changed.")
        return False
    elif name in current and ("args" in given or "cwd" in given):
        raise ConfigError(f"{where}: args and cwd need the command, which another layer sets. Repeat it here.")
    return True


def _skill_folder(value: str, layer: _LayerContext, where: str) -> str:
    try:
        return str(resolve(value, layer.folder))
    except PathRefused as error:
        raise ConfigError(f"{where}: {error}") from None


def _merge_list(current: Table, key: str, given: object, path: str, layer: _LayerContext) -> None:
    where = layer.at(path)
    if path == "approval.auto_approve":
        _merge_auto_approve(current, given, where, layer.user_level)
    elif key == "network" and isinstance(given, str):
        current[key] = given
    else:
        if path == "protected":
            given = _only_additions(given, where)
        before = _list_before(current.get(key, ()), given, where)
        after = edit_list(NameList(tuple(before)), given, where)
        layer.notes.extend(f"{where}: {name!a} is not in the list; nothing was removed." for name in after.excluded)
        current[key] = after.items


def _merge_auto_approve(current: Table, given: object, where: str, user_level: bool) -> None:
    before = current["auto_approve"]
    if isinstance(given, str):
        _check_function(given, where)
        value, excluded = given, ()
    else:
        if isinstance(before, str):
            if _only_changes(given, where):
                raise ConfigError(f"{where}: the value so far is '{before}', not a list. Give a complete list.")
            before = ()
        after = edit_list(NameList(tuple(before), tuple(current["excluded"])), given, where)
        value, excluded = after.items, after.excluded
    named = frozenset(_added_items(given, where))
    left = [name for name in (*current["removed"], *current["excluded"]) if name not in named and name not in excluded]
    current.update(auto_approve=value, excluded=excluded, removed=_unique(left))
    if user_level:
        current["importable"] = tuple(dict.fromkeys((*current["importable"], *_added_items(given, where))))


def _only_changes(given: object, where: str) -> bool:
    return isinstance(given, dict) and "set" not in operations(cast(Table, given), where)


def _check_function(given: str, where: str) -> None:
    if not re.fullmatch(FUNCTION_PATH, given):
        raise ConfigError(
            f"{where}: {given!a} is not an import path like 'my_pkg.policy:approve'. Use a list for tools or presets."
        )


def _added_items(given: object, where: str) -> tuple[str, ...]:
    """Return the items that the layer itself adds to a list."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, dict):
        table = operations(cast(Table, given), where)
        return tuple(name for key, names in table.items() if key != "remove" for name in names)
    return tuple(cast("list[str]", given))


def _list_before(before: object, given: object, where: str) -> tuple[str, ...]:
    if before in ("on", None) and _only_changes(given, where):
        so_far = "the value so far is 'on'" if before else "the value so far is that of the sandbox"
        raise ConfigError(f"{where}: {so_far}, not a list. Give a complete list.")
    return () if before is None or isinstance(before, str) else cast(tuple[str, ...], before)


def _as_append(given: object) -> object:
    return {"append": cast(object, given)} if isinstance(given, list | tuple) else given


def _only_additions(given: object, where: str) -> object:
    given = _as_append(given)
    if not isinstance(given, dict):
        return given
    table = operations(cast(Table, given), where)
    if "remove" in table:
        raise ConfigError(f"{where}: protected paths cannot be removed. Delete 'remove'.")
    return {"append": [name for names in table.values() for name in names]}


def _merge_deep(current: Any, given: Any) -> Any:
    if not (isinstance(current, dict) and isinstance(given, dict)):
        return given
    merged = dict(cast(Table, current))
    for key, value in cast(Table, given).items():
        merged[key] = _merge_deep(merged.get(key), value)
    return merged
