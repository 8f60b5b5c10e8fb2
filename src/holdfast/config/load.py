"""Reads the configuration: its layers, and how one is laid over another."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, get_args, get_origin

from msgspec import NODEFAULT, Struct, ValidationError, convert, structs, to_builtins

from holdfast.config.lists import NameList, edit, operations
from holdfast.config.model import FUNCTION_PATH, PRESET_NAME, SERVER_IDENTITY, Config, McpServer, SecretSource, Table
from holdfast.config.roots import PROJECT_FILE, check_user_config, inside_project, user_config_file
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
from holdfast.config.strictness import looser_options
from holdfast.config.trust_rules import held_back, take_user_only, tighten
from holdfast.contract.errors import ConfigError, PathRefused
from holdfast.contract.values import digest_of
from holdfast.fs.beneath import NotRegular, read_regular
from holdfast.fs.paths import resolve
from holdfast.text.visible import visible

MAX_FILE_BYTES: Final = 1024 * 1024
IsTrusted = Callable[[Path, str], bool]
"""`is_trusted(path, digest)`: whether a person trusted exactly this content of this file."""


class Layer(NamedTuple):
    """What one place says, and how far it may be followed."""

    name: str
    label: str
    """How messages call it."""
    path: Path | None
    folder: Path
    """What relative paths in it are taken from."""
    digest: str
    table: Table
    trusted: bool = True
    user_level: bool = True
    remedy: str = ""
    """What to run to trust it."""


def user_layer(given: Path | None, root: Path | None) -> Layer | None:
    path = user_config_file() if given is None else given.absolute()
    if given is None and root is not None and inside_project(path, root):
        raise ConfigError(
            f"The user configuration {path} lies inside the project {root}, where tools can write; "
            "keep it outside, or set XDG_CONFIG_HOME to a folder outside."
        )
    if given is None:
        check_user_config()
    content = _read(path)
    if content is None:
        if given is not None:
            raise ConfigError(f"There is no configuration file {path}; create it or name another.")
        return None
    label = visible(str(path))
    return Layer("user", label, path, path.parent, sha256(content).hexdigest(), _parse(content, label))


def project_layer(root: Path, is_trusted: IsTrusted) -> Layer | None:
    path = root / PROJECT_FILE
    content = _read(path)
    if content is None:
        return None
    digest, label = sha256(content).hexdigest(), visible(str(path))
    return Layer(
        name="project",
        label=label,
        path=path,
        folder=root,
        digest=digest,
        table=_parse(content, label),
        trusted=is_trusted(path, digest),
        user_level=False,
        remedy=f"run `holdfast trust {PROJECT_FILE}`",
    )


def document_layer(given: Mapping[str, Any], name: str | None, root: Path | None, trusted: bool) -> Layer:
    from shlex import quote

    label = "the document" if name is None else visible(name)
    table = plain_table(given, label)
    return Layer(
        name="document",
        label=label,
        path=None if name is None else Path(name),
        folder=root or Path.cwd(),
        digest=_digest(table, label),
        table=table,
        trusted=trusted,
        user_level=False,
        remedy=f"run `holdfast trust {'FILE' if name is None else visible(quote(name))}`",
    )


def flags_layer(given: Mapping[str, Any]) -> Layer:
    table: Table = {}
    for key, value in plain_table(given, "flags").items():
        _put(table, key.split("."), value, key)
    return Layer("flags", "flags", None, Path.cwd(), _digest(table, "flags"), table)


def _put(table: Table, parts: list[str], value: object, key: str) -> None:
    if len(parts) == 1 and parts[0] not in table:
        table[parts[0]] = value
        return
    inner = table.setdefault(parts[0], {})
    if len(parts) == 1 or not isinstance(inner, dict):
        raise ConfigError(f"flags: {visible(key)} is set twice, or inside a value another flag gives; keep one.")
    _put(cast(Table, inner), parts[1:], value, key)


def _digest(table: Table, label: str) -> str:
    try:
        return digest_of(table)
    except ValueError:
        raise ConfigError(f"{label} contains half of a surrogate pair; use well-formed Unicode.") from None


def _read(path: Path) -> bytes | None:
    """The content of a regular file, None if there is nothing of that name."""
    try:
        content = read_regular(path, MAX_FILE_BYTES + 1, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise ConfigError(f"{path} is a symlink to nothing; remove it or restore its target.") from None
        return None
    except NotRegular:
        raise ConfigError(f"{path} is not a regular file; replace it with one.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; fix that or remove the file.") from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes; make it shorter.")
    return content


def _parse(content: bytes, label: str) -> Table:
    import tomllib

    try:
        return plain_table(tomllib.loads(content.decode()), label)
    except UnicodeDecodeError:
        raise ConfigError(f"{label} is not UTF-8 text; save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{label} is not valid TOML: {error}; correct it there.") from None
    except RecursionError:
        raise ConfigError(f"{label}: the tables are nested too deeply; flatten them.") from None


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


_MAX_KEYS_SHOWN: Final = 8


class LayerReport(Struct, frozen=True, kw_only=True):
    """What became of one layer."""

    name: str
    """user, project, document or flags."""
    path: str | None
    digest: str
    trusted: bool
    applied: bool
    """Whether anything of it took effect."""
    keys: tuple[str, ...] = ()
    """The options it sets."""
    ignored: tuple[str, ...] = ()
    """The options in which it did not, or not wholly, get what it asked for."""


class Loaded(Struct, frozen=True, kw_only=True):
    config: Config
    outer: Config
    """The same without the document: what still denies when a trusted document decides about approvals."""
    layers: tuple[LayerReport, ...] = ()
    notices: tuple[str, ...] = ()

    def layer(self, name: str) -> LayerReport | None:
        return next((layer for layer in self.layers if layer.name == name), None)


def load(
    *,
    root: Path | None,
    is_trusted: IsTrusted,
    user_file: Path | None = None,
    document: Mapping[str, Any] | None = None,
    document_trusted: bool = False,
    document_name: str | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Loaded:
    """Read every layer and apply it under the trust rules. Flags are keyed by option: `tools.profile`."""
    found = (
        user_layer(user_file, root),
        None if root is None else project_layer(root, is_trusted),
        None if document is None else document_layer(document, document_name, root, document_trusted),
        flags_layer(flags) if flags else None,
    )
    layers = [layer for layer in found if layer is not None]
    config, reports, notices = _stack(layers)
    outer = config
    if document is not None:
        outer, _, _ = _stack([layer for layer in layers if layer.name != "document"])
    return Loaded(config=config, outer=outer, layers=tuple(reports), notices=tuple(notices))


def _stack(layers: Sequence[Layer]) -> tuple[Config, list[LayerReport], list[str]]:
    config, reports, notices = Config(), list[LayerReport](), list[str]()
    for layer in layers:
        config, report, said = _apply(config, layer)
        reports.append(report)
        notices += said
    return config, reports, notices


def _apply(base: Config, layer: Layer) -> tuple[Config, LayerReport, list[str]]:
    table, refused = (layer.table, list[str]()) if layer.user_level else take_user_only(layer.table)
    wanted, keys, notes = overlay(base, table, name=layer.label, folder=layer.folder, user_level=layer.user_level)
    result, ignored = wanted, list[str]()
    if not layer.trusted:
        result = tighten(base, wanted)
        ignored = held_back(result, wanted)
        if looser := looser_options(result, base):
            raise ConfigError(f"{layer.label} would loosen {', '.join(looser)}; {layer.remedy}, or take them out.")
    report = LayerReport(
        name=layer.name,
        path=None if layer.path is None else str(layer.path),
        digest=layer.digest,
        trusted=layer.trusted,
        applied=result != base,
        keys=keys,
        ignored=(*ignored, *refused),
    )
    return result, report, [*notes, *_notices(layer, ignored, refused)]


def _notices(layer: Layer, ignored: Sequence[str], refused: Sequence[str]) -> list[str]:
    said: list[str] = []
    if ignored:
        said.append(
            f"{layer.label} is not trusted and can only tighten, so these count as limits only: {_some(ignored)}; "
            f"read it, then {layer.remedy}."
        )
    if refused:
        said.append(
            f"{layer.label} sets {_some(refused)}, which is taken only from user-level config; "
            f"move it to {user_config_file()}."
        )
    return said


def _some(keys: Sequence[str]) -> str:
    shown = ", ".join(keys[:_MAX_KEYS_SHOWN])
    return shown if len(keys) <= _MAX_KEYS_SHOWN else f"{shown} and {len(keys) - _MAX_KEYS_SHOWN} more"
