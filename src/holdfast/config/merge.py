"""How one layer is laid over another: tables key by key, lists by operations (set, append, prepend, remove)."""

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
"""In the order they are carried out when a table names several: what is removed stays removed."""
_KINDS: Final = {"bool": "a boolean", "int": "an integer", "float": "a number", "str": "a string", "dict": "a table"}


class NameList(Struct, frozen=True):
    """A list option under edit; every operation gives a new one.

    Putting in what is already there moves it. Removing a name excludes it as well, so that a tool which a preset brings
    in, also beside its own entry, is filtered when the preset is expanded.
    """

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


def edit_list(current: NameList, given: object, where: str) -> NameList:
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


S = TypeVar("S", bound=Struct)


class MergedLayer(NamedTuple, Generic[S]):
    config: S
    keys: tuple[str, ...]
    """The options the layer sets, such as `tools.profile`."""
    notes: tuple[str, ...]


class _Merging(NamedTuple):
    """What stays the same while one layer is merged."""

    name: str
    folder: Path
    user_level: bool
    keys: list[str]
    notes: list[str]

    def at(self, path: str) -> str:
        return f"{self.name}: {path}"


def merge_layer(base: S, given: Table, *, name: str, folder: Path, user_level: bool) -> MergedLayer[S]:
    """`base` with what the layer says put over it; `ConfigError` for anything that cannot be meant."""
    merging = _Merging(name, folder, user_level, [], [])
    merged = cast(Table, to_builtins(base))
    _merge(type(base), merged, given, "", merging)
    try:
        config = convert(merged, type(base))
    except ValidationError as error:
        raise ConfigError(f"{name}: {lower_first(str(error))}.") from None
    return MergedLayer(config, tuple(merging.keys), tuple(merging.notes))


def plain_table(given: Mapping[str, object], name: str) -> Table:
    """The layer as plain JSON-like values (TOML's dates become text)."""
    try:
        return cast(Table, to_builtins(dict(given), str_keys=True))
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{name}: {lower_first(str(error))}; use plain tables, lists, text and numbers.") from None
    except RecursionError:
        raise ConfigError(f"{name}: the tables are nested too deeply; flatten them.") from None


def _merge(shape: type[Struct], current: Table, given: object, path: str, merging: _Merging) -> None:
    if not isinstance(given, dict):
        raise not_a_table(merging.at(path), given)
    known = options(shape)
    for key, value in cast(Table, given).items():
        here = dotted(path, key)
        if key not in known:
            raise unknown_option(merging.at(here), key, known)
        kind = known[key].kind
        if is_section(kind):
            _merge(kind, current[key], value, here, merging)
            continue
        merging.keys.append(here)
        if known[key].is_edited:
            _merge_list(current, key, _added(value) if Mark.ADDS in known[key].marks else value, here, merging)
            check_type(current[key], kind, merging.at(here))
        elif is_table_list(kind):
            _add_tables(current, key, value, kind, merging.at(here))
        elif get_origin(kind) is dict:
            _merge_table(current[key], value, known[key], here, merging)
        else:
            check_type(value, kind, merging.at(here))
            current[key] = value


def _add_tables(current: Table, key: str, given: object, kind: Any, where: str) -> None:
    given = _with_known_words(given, kind, where)
    check_type(given, kind, where)
    known = cast("list[Table]", current[key])
    fresh = cast("list[Table]", to_builtins(convert(given, kind)))
    current[key] = [*known, *(table for table in fresh if table not in known)]
    check_type(current[key], kind, where)


def _with_known_words(given: object, kind: Any, where: str) -> object:
    """The tables with synonyms replaced; an option or a word that is not known is refused with those that are."""
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


def _merge_table(current: Table, given: object, option: Option, path: str, merging: _Merging) -> None:
    """A table whose keys are names: of agents, presets, secrets, tools, patterns."""
    if not isinstance(given, dict):
        raise not_a_table(merging.at(path), given)
    key_kind, value_kind = get_args(option.kind)
    for name, value in cast(Table, given).items():
        here = dotted(path, name)
        where = merging.at(here)
        check_type(name, key_kind, f"{where} (the name)")
        if path == "approval.presets" and not re.fullmatch(PRESET_NAME, name):
            raise ConfigError(f"{where}: the name of a preset begins with `$`, like '$mine'; rename it.")
        if _has_identity(value_kind) and not _server_to_change(value_kind, current, name, value, where, merging):
            continue
        if Mark.WHOLE in option.marks:
            current.pop(name, None)
        if is_section(value_kind):
            if name not in current:
                defaults = {key: option.default() for key, option in options(value_kind).items()}
                current[name] = {key: default for key, default in defaults.items() if default is not NODEFAULT}
            _merge(value_kind, current[name], value, here, merging)
            check_type(current[name], value_kind, where)
        else:
            check_type(value, value_kind, where)
            found = _skill_folder(value, merging, where) if path == "tools.skills" else value
            current[name] = _deep(current.get(name), found)


def _has_identity(kind: Any) -> bool:
    return is_section(kind) and any(option.trust is IDENTITY for option in options(kind).values())


def _server_to_change(
    kind: type[Struct], current: Table, name: str, said: object, where: str, merging: _Merging
) -> bool:
    """Whether the layer is about a server there is, or begins one: then nothing is left of one of the same name, for
    the secrets in its environment and headers are meant for that program or address alone."""
    given = cast(Table, said) if isinstance(said, dict) else {"": said}
    known = options(kind)
    if "command" in given or "url" in given:
        current.pop(name, None)
    elif name not in current and not any(key not in known or known[key].trust is IDENTITY for key in given):
        merging.notes.append(f"{where}: there is no such server, nothing was changed.")
        return False
    elif name in current and ("args" in given or "cwd" in given):
        raise ConfigError(f"{where}: args and cwd belong to a command, which another layer gives; give it here too.")
    return True


def _skill_folder(value: str, merging: _Merging, where: str) -> str:
    try:
        return str(resolve(value, merging.folder))
    except PathRefused as error:
        raise ConfigError(f"{where}: {error}") from None


def _merge_list(current: Table, key: str, given: object, path: str, merging: _Merging) -> None:
    where = merging.at(path)
    if path == "approval.auto_approve":
        _merge_auto_approve(current, given, where, merging.user_level)
    elif key == "network" and isinstance(given, str):
        current[key] = given
    else:
        if path == "protected":
            given = _only_additions(given, where)
        before = _list_before(current.get(key, ()), given, where)
        after = edit_list(NameList(tuple(before)), given, where)
        merging.notes.extend(f"{where}: {name!a} is not in the list, nothing was removed." for name in after.excluded)
        current[key] = after.items


def _merge_auto_approve(current: Table, given: object, where: str, user_level: bool) -> None:
    before = current["auto_approve"]
    if isinstance(given, str):
        _check_function(given, where)
        value, excluded = given, ()
    else:
        if isinstance(before, str):
            if _only_changes(given, where):
                raise ConfigError(f"{where}: there is no list to change, it is '{before}' so far; give a whole list.")
            before = ()
        after = edit_list(NameList(tuple(before), tuple(current["excluded"])), given, where)
        value, excluded = after.items, after.excluded
    named = frozenset(_put_in(given, where))
    left = [name for name in (*current["removed"], *current["excluded"]) if name not in named and name not in excluded]
    current.update(auto_approve=value, excluded=excluded, removed=_unique(left))
    if user_level:
        current["importable"] = tuple(dict.fromkeys((*current["importable"], *_put_in(given, where))))


def _only_changes(given: object, where: str) -> bool:
    return isinstance(given, dict) and "set" not in operations(cast(Table, given), where)


def _check_function(given: str, where: str) -> None:
    if not re.fullmatch(FUNCTION_PATH, given):
        raise ConfigError(
            f"{where}: {given!a} is not an import path like 'my_pkg.policy:approve'; "
            "to name tools or presets, give a list."
        )


def _put_in(given: object, where: str) -> tuple[str, ...]:
    """The items a layer itself puts into a list."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, dict):
        table = operations(cast(Table, given), where)
        return tuple(name for key, names in table.items() if key != "remove" for name in names)
    return tuple(cast("list[str]", given))


def _list_before(before: object, given: object, where: str) -> tuple[str, ...]:
    if before in ("on", None) and _only_changes(given, where):
        so_far = "the network is 'on'" if before else "it follows the sandbox's"
        raise ConfigError(f"{where}: {so_far}, there is no list to change; give a whole list.")
    return () if before is None or isinstance(before, str) else cast(tuple[str, ...], before)


def _added(given: object) -> object:
    return {"append": cast(object, given)} if isinstance(given, list | tuple) else given


def _only_additions(given: object, where: str) -> object:
    given = _added(given)
    if not isinstance(given, dict):
        return given
    table = operations(cast(Table, given), where)
    if "remove" in table:
        raise ConfigError(f"{where}: protected paths can be added, never removed; take 'remove' out.")
    return {"append": [name for names in table.values() for name in names]}


def _deep(current: Any, given: Any) -> Any:
    if not (isinstance(current, dict) and isinstance(given, dict)):
        return given
    merged = dict(cast(Table, current))
    for key, value in cast(Table, given).items():
        merged[key] = _deep(merged.get(key), value)
    return merged
