"""What a layer nobody has trusted changes: every option by its own rule, and what holds between options."""

from __future__ import annotations

import re
from typing import Any, cast

from msgspec import Struct, structs

from holdfast.config.model import FUNCTION_PATH, Config, PolicyLayer, Table, in_force
from holdfast.config.options import USER_ONLY, dotted, entry_shape, is_section, options, tightened


def tighten(base: Config, wanted: Config) -> Config:
    """`base`, changed only where `wanted` is stricter."""
    kept = tightened(base, wanted)
    tools, approval = kept.tools, kept.approval
    if (tools.profile, tools.allow) != (wanted.tools.profile, wanted.tools.allow):
        narrower = PolicyLayer(profile=wanted.tools.profile, allow=wanted.tools.allow)
        tools = structs.replace(tools, narrow=(*tools.narrow, narrower))
    names = wanted.approval.auto_approve
    if not isinstance(names, str) and names != approval.auto_approve:
        approval = structs.replace(approval, narrow=(*approval.narrow, names))
    if base.sandbox.mode == "off" != kept.sandbox.mode:
        # A sandbox that was off approved nothing; switching it on must not start to.
        approval = structs.replace(approval, auto_approve_sandboxed=False)
    return structs.replace(kept, tools=tools, approval=approval)


def held_back(kept: Config, wanted: Config) -> list[str]:
    """The options a layer asked for and did not get, by key."""
    mine, met = in_force(kept), _fully_narrowed(kept, wanted)
    missing = [path for key, value in in_force(wanted).items() for path in _differences(key, mine[key], value)]
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
    if isinstance(mine, tuple) and isinstance(theirs, tuple) and set(theirs) <= set(mine):
        met.add("approval.auto_approve")
    return met


def take_user_only(given: Table) -> tuple[Table, list[str]]:
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
        elif (held := entry_shape(option.kind)) is not None and isinstance(value, dict):
            table = cast(Table, value)
            kept[key] = {name: _take(held, entry, dotted(here, name), taken) for name, entry in table.items()}
        else:
            kept[key] = value
    return kept


def _is_function(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(FUNCTION_PATH, value) is not None
