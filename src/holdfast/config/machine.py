"""The machine-wide configuration: written by root, and only ever tightened by other layers."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast, get_origin

from msgspec import Struct, structs

from holdfast.config.config import ApprovalConfig, Config, PolicyLayer
from holdfast.config.options import NARROWED, Option, dotted, is_section, is_table_list, options, union
from holdfast.config.roots import is_system_user, walk_components
from holdfast.contract.errors import ConfigError
from holdfast.contract.widening import WideningKind
from holdfast.text.escape import escape

S = TypeVar("S", bound=Struct)


class MachineFile(NamedTuple):
    """The location of the machine's configuration. No environment variable overrides it: any user could set that."""

    path: Path = Path("/etc/holdfast/config.toml")
    owner: int | None = None
    """The user id that may own the file besides root; only tests set it."""


MACHINE_FILE: Final = MachineFile()


def check_machine_file(machine: MachineFile) -> None:
    """Raise `ConfigError` if a user other than root could change the file or replace a folder or link on its path."""
    if not hasattr(os, "getuid"):
        return
    for place, info, last in walk_components(machine.path):
        # In a user namespace, files of the real root appear to belong to nobody; `is_system_user` accepts both.
        owned = is_system_user(info.st_uid) or info.st_uid == machine.owner
        shared = not stat.S_ISLNK(info.st_mode) and info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        sticky = info.st_mode & stat.S_ISVTX and not last
        if owned and (not shared or sticky):
            continue
        where = escape(place)
        fix = f"run `chmod go-w {where}`" if owned else f"run `chown root {where}`"
        raise ConfigError(
            f"{escape(str(machine.path))} must be writable only by root, but {where} "
            f"{'can be written by others' if owned else 'belongs to another user'}. As root, {fix}, or remove the file."
        )


def with_machine_limits(config: Config, keys: Collection[str], label: str) -> Config:
    """Return the machine's configuration with its tools and its `auto_approve` list as limits for later layers."""
    tools, approval = config.tools, config.approval
    if not {"tools.profile", "tools.allow"}.isdisjoint(keys):
        limit = PolicyLayer(profile=tools.profile, allow=tools.allow, source=label)
        tools = structs.replace(tools, narrow=(*tools.narrow, limit))
    if "approval.auto_approve" in keys and not isinstance(approval.auto_approve, str):
        approval = structs.replace(approval, narrow=(*approval.narrow, approval.auto_approve))
    if "approval.widen" not in keys:
        limited = {kind for option, kinds in _WIDENING_KINDS.items() if option in keys for kind in kinds}
        approval = structs.replace(approval, widen=tuple(kind for kind in approval.widen if kind not in limited))
    return structs.replace(config, tools=tools, approval=approval)


_WIDENING_KINDS: Final[Mapping[str, tuple[WideningKind, ...]]] = {
    "sandbox.network": ("hosts", "network", "outside"),
    "sandbox.read_deny": ("read", "outside"),
    "sandbox.writable": ("write", "outside"),
    "sandbox.mode": ("outside",),
}
"""What an approval could add beyond an option. If the machine sets the option, its `approval.widen` must allow that."""


def enforce_limits(machine: Config, wanted: Config, keys: Collection[str]) -> Config:
    """Return `wanted` with every option that the machine sets (`keys`) at least as strict as on the machine."""
    kept = _enforce_options(machine, wanted, "", keys)
    widen = tuple(kind for kind in kept.approval.widen if kind in machine.approval.widen)
    kept = structs.replace(kept, approval=structs.replace(kept.approval, widen=widen))
    if "approval.auto_approve" in keys:
        kept = structs.replace(kept, approval=_enforce_auto_approve(machine.approval, kept.approval))
    return kept


def _enforce_auto_approve(machine: ApprovalConfig, wanted: ApprovalConfig) -> ApprovalConfig:
    """Keep what the machine excludes or denies, and the machine's meaning of the presets in its list.

    What other layers approve is already limited by the machine's list in `narrow`.
    """
    named, asked = machine.auto_approve, wanted.auto_approve
    presets = {name: preset for name, preset in wanted.presets.items() if name not in named}
    presets |= {name: preset for name, preset in machine.presets.items() if name in named}
    kept, narrow = asked, wanted.narrow
    if isinstance(named, str) or isinstance(asked, str):
        kept = named
        narrow = narrow if isinstance(asked, str) else (*narrow, asked)
    elif denying := tuple(name for name in named if name in presets and presets[name].deny and name not in asked):
        kept, narrow = (*asked, *denying), (*narrow, asked)
    return structs.replace(
        wanted, auto_approve=kept, narrow=narrow, presets=presets, excluded=union(machine.excluded, wanted.excluded)
    )


def _enforce_options(machine: S, wanted: S, path: str, keys: Collection[str]) -> S:
    changes: dict[str, Any] = {}
    for option in options(type(machine)).values():
        key, mine, theirs = dotted(path, option.name), getattr(machine, option.name), getattr(wanted, option.name)
        if is_section(option.kind) and mine is not None and theirs is not None:
            changes[option.name] = _enforce_options(mine, theirs, key, keys)
        elif key in keys:
            changes[option.name] = _stricter(option, key, mine, theirs)
    return structs.replace(wanted, **changes)


def _stricter(option: Option, key: str, mine: Any, theirs: Any) -> Any:
    if option.trust is NARROWED or is_table_list(option.kind):
        # `with_machine_limits` covers NARROWED options; layers only add to lists of tables, and the strictest wins.
        return theirs
    if get_origin(option.kind) is dict and key != "confirmation.actions":
        own, others = cast(Mapping[str, Any], mine), cast(Mapping[str, Any], theirs)
        entries = option.trust.tighten(own, {name: others[name] for name in own if name in others})
        return {**others, **entries}
    return option.trust.tighten(mine, theirs)
