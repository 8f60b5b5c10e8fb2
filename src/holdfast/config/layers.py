"""Loads the configuration: reads its layers and applies each under the trust rules.

Layers, from low to high precedence: machine, user, user's file for the project, project, document, flags. An untrusted
layer can only tighten what the layers below it set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from msgspec import Struct, structs

from holdfast.config.config import Config, PolicyLayer, effective_options
from holdfast.config.machine import MACHINE_FILE, MachineFile, check_machine_file, enforce_limits, with_machine_limits
from holdfast.config.merge import merge_layer, plain_table
from holdfast.config.options import (
    FUNCTION_PATH,
    USER_ONLY,
    Table,
    dotted,
    entry_struct,
    is_section,
    options,
    tighten_struct,
)
from holdfast.config.roots import PROJECT_FILE, check_user_config, inside_project, user_project_file
from holdfast.contract.errors import ConfigError
from holdfast.contract.json import digest_of
from holdfast.fs.beneath import NotRegular, read_regular
from holdfast.fs.own_paths import user_config_file
from holdfast.text.escape import escape


def apply_untrusted(base: Config, wanted: Config) -> Config:
    """Return `base` tightened towards `wanted`; nothing is loosened."""
    kept = tighten_struct(base, wanted)
    tools, approval = kept.tools, kept.approval
    if (tools.profile, tools.allow) != (wanted.tools.profile, wanted.tools.allow):
        narrower = PolicyLayer(profile=wanted.tools.profile, allow=wanted.tools.allow)
        tools = structs.replace(tools, narrow=(*tools.narrow, narrower))
    names = wanted.approval.auto_approve
    if not isinstance(names, str) and names != approval.auto_approve:
        approval = structs.replace(approval, narrow=(*approval.narrow, names))
    if base.sandbox.mode == "off" != kept.sandbox.mode:
        # With the sandbox off, this option approved nothing. An untrusted file that enables the sandbox must not
        # enable those approvals as well.
        approval = structs.replace(approval, auto_approve_sandboxed=False)
    return structs.replace(kept, tools=tools, approval=approval)


def ignored_options(kept: Config, wanted: Config) -> list[str]:
    """Return the keys of the options that a layer wanted and did not get, or not fully."""
    mine, met = effective_options(kept), _fully_narrowed(kept, wanted)
    missing = [path for key, value in effective_options(wanted).items() for path in _differences(key, mine[key], value)]
    return [path for path in missing if path not in met]


def _differences(path: str, kept: object, wanted: object) -> list[str]:
    if isinstance(wanted, dict) and isinstance(kept, dict):
        mine, theirs = cast(Table, kept), cast(Table, wanted)
        return [dotted(path, name) for name, value in theirs.items() if name not in mine or mine[name] != value]
    if isinstance(wanted, tuple) and isinstance(kept, tuple):
        same = set(cast(tuple[object, ...], kept)) == set(cast(tuple[object, ...], wanted))
        return [] if same else [path]
    return [] if kept == wanted else [path]


def _fully_narrowed(kept: Config, wanted: Config) -> set[str]:
    """Return the options that `narrow` alone satisfies, because the layer only wanted less than before."""
    met: set[str] = set()
    if wanted.tools.profile == "minimal" or kept.tools.profile == "full":
        met.add("tools.profile")
    if set(wanted.tools.allow) <= set(kept.tools.allow):
        met.add("tools.allow")
    mine, theirs = kept.approval.auto_approve, wanted.approval.auto_approve
    redefined = {"$default", "$readonly"} & {*kept.approval.presets, *wanted.approval.presets}
    within = {"$readonly"} if "$default" in mine and not redefined else set[str]()  # true of the built-in presets
    if isinstance(mine, tuple) and isinstance(theirs, tuple) and set(theirs) <= {*mine, *within}:
        met.add("approval.auto_approve")
    return met


def drop_user_only(given: Table) -> tuple[Table, list[str]]:
    """Return the layer without user-only options, and the keys that were removed."""
    dropped: list[str] = []
    return _drop(Config, given, "", dropped), dropped


def _drop(shape: type[Struct], given: Any, path: str, dropped: list[str]) -> Any:
    if not isinstance(given, dict):
        return given  # `merge` reports the error
    kept: Table = {}
    for key, value in cast(Table, given).items():
        option, here = options(shape).get(key), dotted(path, key)
        if option is None:
            kept[key] = value
        elif option.trust is USER_ONLY or (here == "approval.auto_approve" and _is_function(value)):
            dropped.append(here)
        elif is_section(option.kind):
            kept[key] = _drop(option.kind, value, here, dropped)
        elif (entry := entry_struct(option.kind)) is not None and isinstance(value, dict):
            table = cast(Table, value)
            kept[key] = {name: _drop(entry, item, dotted(here, name), dropped) for name, item in table.items()}
        else:
            kept[key] = value
    return kept


def _is_function(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(FUNCTION_PATH, value) is not None


MAX_FILE_BYTES: Final = 1024 * 1024
IsTrusted = Callable[[Path, str], bool]
"""`is_trusted(path, digest)`: whether the user trusted exactly this content of the file."""


class Layer(NamedTuple):
    """The content of one configuration source, and how far it is trusted."""

    name: str
    label: str
    """Its name in messages."""
    path: Path | None
    folder: Path
    """The base of relative paths in it."""
    digest: str
    table: Table
    trusted: bool = True
    user_level: bool = True
    remedy: str = ""
    """The command that trusts it, for messages."""


def user_layer(given: Path | None, root: Path | None, is_trusted: IsTrusted) -> Layer | None:
    """Return the user's configuration. A file inside the project may be part of it, so it needs to be trusted."""
    path = user_config_file() if given is None else given.absolute()
    foreign = given is None and root is not None and inside_project(path, root)
    if given is None:
        check_user_config()
    content = _read(path)
    if content is None:
        if given is not None:
            raise ConfigError(f"There is no configuration file {path}. Create it or use another path.")
        return None
    return _own_layer("user", path, path.parent, content, foreign, is_trusted)


def _own_layer(name: str, path: Path, folder: Path, content: bytes, foreign: bool, is_trusted: IsTrusted) -> Layer:
    label, digest = escape(str(path)), sha256(content).hexdigest()
    trusted = not foreign or is_trusted(path, digest)
    return Layer(
        name,
        label,
        path,
        folder,
        digest,
        _parse(content, label),
        trusted,
        user_level=trusted,
        remedy=f"run `holdfast trust {label}`",
    )


def machine_layer(machine: MachineFile) -> Layer | None:
    path = machine.path
    content = _read(path)
    if content is None:
        return None
    check_machine_file(machine)
    label = escape(str(path))
    return Layer("machine", label, path, path.parent, sha256(content).hexdigest(), _parse(content, label))


def user_project_layer(root: Path, is_trusted: IsTrusted) -> Layer | None:
    """Return the user's own configuration for one project."""
    path = user_project_file(root)
    content = _read(path)
    if content is None:
        return None
    check_user_config(root)
    return _own_layer("user project", path, root, content, inside_project(path, root), is_trusted)


def project_layer(root: Path, is_trusted: IsTrusted) -> Layer | None:
    path = root / PROJECT_FILE
    content = _read(path)
    if content is None:
        return None
    digest, label = sha256(content).hexdigest(), escape(str(path))
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
    from shlex import quote  # `shlex` is not needed by most runs

    label = "the document" if name is None else escape(name)
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
        remedy=f"run `holdfast trust {'FILE' if name is None else escape(quote(name))}`",
    )


def flags_layer(given: Mapping[str, Any]) -> Layer:
    table: Table = {}
    for key, value in plain_table(given, "flags").items():
        _set_nested(table, key.split("."), value, key)
    return Layer("flags", "flags", None, Path.cwd(), _digest(table, "flags"), table)


def _set_nested(table: Table, parts: list[str], value: object, key: str) -> None:
    if len(parts) == 1 and parts[0] not in table:
        table[parts[0]] = value
        return
    inner = table.setdefault(parts[0], {})
    if len(parts) == 1 or not isinstance(inner, dict):
        raise ConfigError(f"flags: {escape(key)} is set twice, or conflicts with another flag. Keep one of them.")
    _set_nested(cast(Table, inner), parts[1:], value, key)


def _digest(table: Table, label: str) -> str:
    try:
        return digest_of(table)
    except ValueError:
        raise ConfigError(f"{label} contains a lone surrogate. Use well-formed Unicode.") from None


def _read(path: Path) -> bytes | None:
    """Return the content of a regular file, or None if it does not exist."""
    try:
        content = read_regular(path, MAX_FILE_BYTES + 1, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise ConfigError(f"{path} is a broken symlink. Remove it or restore its target.") from None
        return None
    except NotRegular:
        raise ConfigError(f"{path} is not a regular file. Replace it with one.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}. Fix that or remove the file.") from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes. Make it shorter.")
    return content


def _parse(content: bytes, label: str) -> Table:
    import tomllib  # only needed if there is a file

    try:
        return plain_table(tomllib.loads(content.decode()), label)
    except UnicodeDecodeError:
        raise ConfigError(f"{label} is not UTF-8 text. Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{label} is not valid TOML: {error}.") from None
    except RecursionError:
        raise ConfigError(f"{label}: the tables are nested too deeply. Flatten them.") from None


_MAX_KEYS_SHOWN: Final = 8


class LayerReport(Struct, frozen=True, kw_only=True):
    """What one layer changed."""

    name: str
    """machine, user, user project, project, document or flags."""
    path: str | None
    digest: str
    trusted: bool
    applied: bool
    """Whether it changed anything."""
    keys: tuple[str, ...] = ()
    """The options it sets."""
    ignored: tuple[str, ...] = ()
    """The options whose value was ignored, fully or in part."""


class LoadedConfig(Struct, frozen=True, kw_only=True):
    config: Config
    outer: Config
    """The configuration without the document. Its denials still apply when a trusted document decides about approvals.
    """
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
    machine: MachineFile = MACHINE_FILE,
) -> LoadedConfig:
    """Read every layer and apply it under the trust rules. Flags are keyed by option, such as `tools.profile`."""
    found = (
        machine_layer(machine),
        user_layer(user_file, root, is_trusted),
        None if root is None else user_project_layer(root, is_trusted),
        None if root is None else project_layer(root, is_trusted),
        None if document is None else document_layer(document, document_name, root, document_trusted),
        flags_layer(flags) if flags else None,
    )
    layers = [layer for layer in found if layer is not None]
    config, reports, notices = _stack(layers)
    outer = config
    if document is not None:
        outer, _, _ = _stack([layer for layer in layers if layer.name != "document"])
    return LoadedConfig(config=config, outer=outer, layers=tuple(reports), notices=tuple(notices))


def _stack(layers: Sequence[Layer]) -> tuple[Config, list[LayerReport], list[str]]:
    config, reports, notices = Config(), list[LayerReport](), list[str]()
    limits: MachineLimits | None = None
    for layer in layers:
        config, report, new_notices = _apply(config, layer, limits)
        if layer.name == "machine":
            config = with_machine_limits(config, report.keys, layer.label)
            limits = MachineLimits(config, frozenset(report.keys), layer.label)
        reports.append(report)
        notices += new_notices
    return config, reports, notices


class MachineLimits(NamedTuple):
    """The machine's options, which no other layer can loosen."""

    config: Config
    keys: frozenset[str]
    label: str


def _apply(base: Config, layer: Layer, limits: MachineLimits | None) -> tuple[Config, LayerReport, list[str]]:
    table, refused = (layer.table, list[str]()) if layer.user_level else drop_user_only(layer.table)
    wanted, keys, notes = merge_layer(base, table, name=layer.label, folder=layer.folder, user_level=layer.user_level)
    result, ignored = wanted, list[str]()
    if not layer.trusted:
        result = apply_untrusted(base, wanted)
        ignored = ignored_options(result, wanted)
    over: list[str] = []
    if limits is not None:
        free, result = result, enforce_limits(limits.config, result, limits.keys)
        over = [key for key in ignored_options(result, free) if key not in ignored]
    report = LayerReport(
        name=layer.name,
        path=None if layer.path is None else str(layer.path),
        digest=layer.digest,
        trusted=layer.trusted,
        applied=result != base,
        keys=keys,
        ignored=(*ignored, *over, *refused),
    )
    notices = [*notes, *_notices(layer, ignored, refused)]
    if limits is not None and over:
        notices.append(
            f"{limits.label} sets {_join_some(over)}, which {layer.label} can only tighten. Ask the administrator of "
            "this machine."
        )
    return result, report, notices


def _notices(layer: Layer, ignored: Sequence[str], refused: Sequence[str]) -> list[str]:
    notices: list[str] = []
    if ignored:
        notices.append(
            f"{layer.label} is not trusted and can only tighten, so these options are only limits: "
            f"{_join_some(ignored)}. Read it, then {layer.remedy}."
        )
    if refused:
        notices.append(
            f"{layer.label} sets {_join_some(refused)}, which is accepted only from user-level configuration. "
            f"Move it to {user_config_file()}."
        )
    return notices


def _join_some(keys: Sequence[str]) -> str:
    shown = ", ".join(keys[:_MAX_KEYS_SHOWN])
    return shown if len(keys) <= _MAX_KEYS_SHOWN else f"{shown} and {len(keys) - _MAX_KEYS_SHOWN} more"
