"""Reads the configuration: its layers, and what each may change under the trust rules."""

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
    """`base`, changed only where `wanted` is stricter."""
    kept = tighten_struct(base, wanted)
    tools, approval = kept.tools, kept.approval
    if (tools.profile, tools.allow) != (wanted.tools.profile, wanted.tools.allow):
        narrower = PolicyLayer(profile=wanted.tools.profile, allow=wanted.tools.allow)
        tools = structs.replace(tools, narrow=(*tools.narrow, narrower))
    names = wanted.approval.auto_approve
    if not isinstance(names, str) and names != approval.auto_approve:
        approval = structs.replace(approval, narrow=(*approval.narrow, names))
    if base.sandbox.mode == "off" != kept.sandbox.mode:
        # A sandbox that was off approved nothing; an untrusted file that switches it on must not start that.
        approval = structs.replace(approval, auto_approve_sandboxed=False)
    return structs.replace(kept, tools=tools, approval=approval)


def ignored_options(kept: Config, wanted: Config) -> list[str]:
    """The options a layer asked for and did not get, by key."""
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
    """Options whose wish is met by `narrow` alone: it asked for nothing beyond what there is."""
    met: set[str] = set()
    if wanted.tools.profile == "minimal" or kept.tools.profile == "full":
        met.add("tools.profile")
    if set(wanted.tools.allow) <= set(kept.tools.allow):
        met.add("tools.allow")
    mine, theirs = kept.approval.auto_approve, wanted.approval.auto_approve
    redefined = {"$default", "$readonly"} & {*kept.approval.presets, *wanted.approval.presets}
    within = {"$readonly"} if "$default" in mine and not redefined else set[str]()  # as the built-in lists are
    if isinstance(mine, tuple) and isinstance(theirs, tuple) and set(theirs) <= {*mine, *within}:
        met.add("approval.auto_approve")
    return met


def drop_user_only(given: Table) -> tuple[Table, list[str]]:
    """The layer without what only user-level config may say, and the keys that were taken out."""
    taken: list[str] = []
    return _take(Config, given, "", taken), taken


def _take(shape: type[Struct], given: Any, path: str, taken: list[str]) -> Any:
    if not isinstance(given, dict):
        return given  # `merge` says what is wrong with it
    kept: Table = {}
    for key, value in cast(Table, given).items():
        option, here = options(shape).get(key), dotted(path, key)
        if option is None:
            kept[key] = value
        elif option.trust is USER_ONLY or (here == "approval.auto_approve" and _is_function(value)):
            taken.append(here)
        elif is_section(option.kind):
            kept[key] = _take(option.kind, value, here, taken)
        elif (entry := entry_struct(option.kind)) is not None and isinstance(value, dict):
            table = cast(Table, value)
            kept[key] = {name: _take(entry, item, dotted(here, name), taken) for name, item in table.items()}
        else:
            kept[key] = value
    return kept


def _is_function(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(FUNCTION_PATH, value) is not None


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


def user_layer(given: Path | None, root: Path | None, is_trusted: IsTrusted) -> Layer | None:
    """The user's own file. One that somebody moved into the project may have come with it: it is trusted like that."""
    path = user_config_file() if given is None else given.absolute()
    foreign = given is None and root is not None and inside_project(path, root)
    if given is None:
        check_user_config()
    content = _read(path)
    if content is None:
        if given is not None:
            raise ConfigError(f"There is no configuration file {path}; create it or name another.")
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
    """The user's own rules for one project."""
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
    from shlex import quote

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
        _put(table, key.split("."), value, key)
    return Layer("flags", "flags", None, Path.cwd(), _digest(table, "flags"), table)


def _put(table: Table, parts: list[str], value: object, key: str) -> None:
    if len(parts) == 1 and parts[0] not in table:
        table[parts[0]] = value
        return
    inner = table.setdefault(parts[0], {})
    if len(parts) == 1 or not isinstance(inner, dict):
        raise ConfigError(f"flags: {escape(key)} is set twice, or inside a value another flag gives; keep one.")
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


_MAX_KEYS_SHOWN: Final = 8


class LayerReport(Struct, frozen=True, kw_only=True):
    """What became of one layer."""

    name: str
    """machine, user, user project, project, document or flags."""
    path: str | None
    digest: str
    trusted: bool
    applied: bool
    """Whether anything of it took effect."""
    keys: tuple[str, ...] = ()
    """The options it sets."""
    ignored: tuple[str, ...] = ()
    """The options in which it did not, or not wholly, get what it asked for."""


class LoadedConfig(Struct, frozen=True, kw_only=True):
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
    machine: MachineFile = MACHINE_FILE,
) -> LoadedConfig:
    """Read every layer and apply it under the trust rules. Flags are keyed by option: `tools.profile`."""
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
        config, report, said = _apply(config, layer, limits)
        if layer.name == "machine":
            config = with_machine_limits(config, report.keys, layer.label)
            limits = MachineLimits(config, frozenset(report.keys), layer.label)
        reports.append(report)
        notices += said
    return config, reports, notices


class MachineLimits(NamedTuple):
    """What no other layer can loosen."""

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
    told = [*notes, *_notices(layer, ignored, refused)]
    if limits is not None and over:
        told.append(
            f"{limits.label} sets {_some(over)}, which {layer.label} can only tighten; ask whoever administers this "
            "machine."
        )
    return result, report, told


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
