"""One layer laid over a configuration, checked key by key, as if it were trusted.

Tables merge key by key (a secret source is replaced whole, and so is an MCP server that is told what to run or where
it is), lists are edited, everything else is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, get_args, get_origin

from msgspec import NODEFAULT, Struct, ValidationError, convert, structs, to_builtins

from holdfast.config.lists import NameList, edit, operations
from holdfast.config.model import FUNCTION_PATH, PRESET_NAME, SERVER_IDENTITY, Config, McpServer, SecretSource
from holdfast.config.paths import resolve
from holdfast.config.shape import (
    check,
    dotted,
    is_edited,
    is_section,
    is_table_list,
    lower_first,
    not_a_table,
    options,
    unknown_option,
)
from holdfast.contract.errors import ConfigError, PathRefused

Table = dict[str, Any]
_LIMITS: Final = frozenset(McpServer.__struct_fields__).difference(SERVER_IDENTITY)
"""What can be said about an MCP server without knowing what it is."""


class Overlay(NamedTuple):
    config: Config
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


def overlay(base: Config, given: Table, *, name: str, folder: Path, user_level: bool) -> Overlay:
    """`base` with what the layer says put over it; `ConfigError` for anything that cannot be meant."""
    merging = _Merging(name, folder, user_level, [], [])
    merged = cast(Table, to_builtins(base))
    _merge(Config, merged, given, "", merging)
    try:
        config = convert(merged, Config)
    except ValidationError as error:
        raise ConfigError(f"{name}: {lower_first(str(error))}.") from None
    return Overlay(config, tuple(merging.keys), tuple(merging.notes))


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
    known = options(shape, path)
    for key, value in cast(Table, given).items():
        here = dotted(path, key)
        if key not in known:
            raise unknown_option(merging.at(here), key, known)
        kind = known[key]
        if is_section(kind):
            _merge(kind, current[key], value, here, merging)
            continue
        merging.keys.append(here)
        if is_edited(shape, key, kind):
            _merge_list(current, key, value, here, merging)
            check(current[key], kind, merging.at(here))
        elif is_table_list(kind):
            _add_tables(current, key, value, kind, merging.at(here))
        elif get_origin(kind) is dict:
            _merge_table(current[key], value, kind, here, merging)
        else:
            check(value, kind, merging.at(here))
            current[key] = value


def _add_tables(current: Table, key: str, given: object, kind: Any, where: str) -> None:
    check(given, kind, where)
    known = cast("list[Table]", current[key])
    fresh = cast("list[Table]", to_builtins(convert(given, kind)))
    current[key] = [*known, *(table for table in fresh if table not in known)]
    check(current[key], kind, where)


def _merge_table(current: Table, given: object, kind: Any, path: str, merging: _Merging) -> None:
    """A table whose keys are names: of agents, presets, secrets, tools, patterns."""
    if not isinstance(given, dict):
        raise not_a_table(merging.at(path), given)
    key_kind, value_kind = get_args(kind)
    for name, value in cast(Table, given).items():
        here = dotted(path, name)
        where = merging.at(here)
        check(name, key_kind, f"{where} (the name)")
        if path == "approval.presets" and not re.fullmatch(PRESET_NAME, name):
            raise ConfigError(f"{where}: the name of a preset begins with `$`, like '$mine'; rename it.")
        if value_kind is McpServer and not _server_to_change(current, name, value, where, merging):
            continue
        if value_kind is SecretSource:
            current.pop(name, None)
        if is_section(value_kind):
            _merge(value_kind, current.setdefault(name, _unset(value_kind)), value, here, merging)
            check(current[name], value_kind, where)
        else:
            check(value, value_kind, where)
            found = _skill_folder(value, merging, where) if path == "tools.skills" else value
            current[name] = _deep(current.get(name), found)


def _server_to_change(current: Table, name: str, said: object, where: str, merging: _Merging) -> bool:
    """Whether the layer is about a server there is, or begins one: then nothing is left of one of the same name, for
    the secrets in its environment and headers are meant for that program or address alone."""
    given = cast(Table, said) if isinstance(said, dict) else {"": said}
    if "command" in given or "url" in given:
        current.pop(name, None)
    elif name not in current and given.keys() <= _LIMITS:
        merging.notes.append(f"{where}: there is no such server, nothing was changed.")
        return False
    elif name in current and ("args" in given or "cwd" in given):
        raise ConfigError(f"{where}: args and cwd belong to a command, which another layer gives; give it here too.")
    return True


def _unset(shape: type[Struct]) -> Table:
    """What holds before a table says anything: the default of every field that has one."""
    made: Table = {}
    for item in structs.fields(shape):
        if item.default is not NODEFAULT:
            made[item.name] = item.default
        elif item.default_factory is not NODEFAULT:
            made[item.name] = item.default_factory()
    return made


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
        after = edit(NameList(tuple(before)), given, where)
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
        after = edit(NameList(tuple(before), tuple(current["excluded"])), given, where)
        value, excluded = after.items, after.excluded
    current.update(auto_approve=value, auto_approve_set=True, excluded=excluded)
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


def _only_additions(given: object, where: str) -> object:
    if isinstance(given, list | tuple):
        return {"append": cast(object, given)}
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
