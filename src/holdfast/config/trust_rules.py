"""What a layer nobody has trusted may do: tighten at once, loosen never.

`tighten` takes the configuration and what it would be if the layer were trusted, and keeps of each option the
stricter side. An option without a rule keeps its value, so a new one is safe before it is thought about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct, structs

from holdfast.config.model import (
    FUNCTION_PATH,
    PENDING_TTL,
    SERVER_IDENTITY,
    Action,
    CommandRule,
    Config,
    GuardrailsConfig,
    McpServer,
    ModelProvider,
    PolicyLayer,
    Preset,
    Table,
)
from holdfast.config.shape import dotted, is_section, options
from holdfast.contract.vocabulary import Risk

Rule = Callable[[Any, Any], Any]
"""`rule(base, wanted)`: the value that is as strict as both."""


def tighten(base: Config, wanted: Config) -> Config:
    """`base`, changed only where `wanted` is stricter."""
    changes: dict[str, Any] = {}
    for section, kind in options(Config).items():
        old, new = getattr(base, section), getattr(wanted, section)
        if is_section(kind):
            changes[section] = _tighten_section(section, old, new)
        else:
            changes[section] = _rule(section)(old, new)
    changes["tools"] = structs.replace(changes["tools"], narrow=_narrow_tools(base, wanted))
    approval = changes["approval"]
    switched_on = base.sandbox.mode == "off" != changes["sandbox"].mode
    changes["approval"] = structs.replace(
        approval,
        narrow=_narrow_approval(base, wanted),
        excluded=_united(base.approval.excluded, wanted.approval.excluded),
        # A sandbox that was off approved nothing; switching it on must not start to.
        auto_approve_sandboxed=approval.auto_approve_sandboxed and not switched_on,
    )
    return structs.replace(base, **changes)


def held_back(kept: Config, wanted: Config) -> list[str]:
    """The options a layer asked for and did not get, by key."""
    missing: list[str] = []
    for section, kind in options(Config).items():
        mine, theirs = getattr(kept, section), getattr(wanted, section)
        if is_section(kind):
            for name in options(kind, section):
                missing += _differences(f"{section}.{name}", getattr(mine, name), getattr(theirs, name))
        else:
            missing += _differences(section, mine, theirs)
    met = _fully_narrowed(kept, wanted)
    return [path for path in missing if path not in met]


def take_user_only(given: Table) -> tuple[Table, list[str]]:
    """The layer without what only user-level config may say, and the keys that were taken out."""
    kept, taken = dict(given), list[str]()
    if "secrets" in kept:
        del kept["secrets"]
        taken.append("secrets")
    for section, name in (("tools", "modules"), ("approval", "auto_approve")):
        table = kept.get(section)
        if not isinstance(table, dict):
            continue
        value = cast(Table, table).get(name)
        if value is not None and (name == "modules" or _is_function(value)):
            kept[section] = {key: value for key, value in cast(Table, table).items() if key != name}
            taken.append(f"{section}.{name}")
    _take_endpoints(kept, taken)
    return kept, taken


def _take_endpoints(kept: Table, taken: list[str]) -> None:
    """Where conversations are sent, and with which key, is nobody's choice but the user's."""
    model = kept.get("model")
    providers = cast(Table, model).get("providers") if isinstance(model, dict) else None
    if not isinstance(providers, dict):
        return
    left: Table = {}
    for name, given in cast(Table, providers).items():
        table = cast(Table, given) if isinstance(given, dict) else {}
        taken += [dotted(f"model.providers.{name}", key) for key in table if key in ENDPOINT]
        left[name] = {key: value for key, value in table.items() if key not in ENDPOINT} if table else given
    kept["model"] = {**cast(Table, model), "providers": left}


def _is_function(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(FUNCTION_PATH, value) is not None


def _tighten_section(section: str, old: Struct, new: Struct) -> Struct:
    names = options(type(old), section)
    return structs.replace(
        old, **{name: _rule(f"{section}.{name}")(getattr(old, name), getattr(new, name)) for name in names}
    )


def _rule(path: str) -> Rule:
    return _RULES.get(path, _unchanged)


def _unchanged(base: Any, wanted: Any) -> Any:
    return base


def _wanted(base: Any, wanted: Any) -> Any:
    """For what is a matter of taste, not of rules."""
    return wanted


def _model_providers(
    base: Mapping[str, ModelProvider], wanted: Mapping[str, ModelProvider]
) -> dict[str, ModelProvider]:
    """Parameters as wanted, endpoints as they are."""
    merged = dict(base)
    for name, provider in wanted.items():
        old = base.get(name, ModelProvider())
        merged[name] = structs.replace(provider, **{key: getattr(old, key) for key in ENDPOINT})
    return merged


def _smaller(base: float | None, wanted: float | None) -> float | None:
    """None is no limit at all."""
    if base is None or wanted is None:
        return wanted if base is None else base
    return min(base, wanted)


def _sooner(base: float | None, wanted: float | None) -> float | None:
    """None waits as long as holdfast does by itself."""
    return base if wanted is None else min(PENDING_TTL if base is None else base, wanted)


def _both(base: bool, wanted: bool) -> bool:
    return base and wanted


def _either(base: bool, wanted: bool) -> bool:
    return base or wanted


def _united(base: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*base, *wanted)))


def _common(base: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Only what both name literally: a path inside a writable path may become a symlink to somewhere else."""
    return tuple(item for item in base if item in wanted)


def _stricter(*order: object) -> Rule:
    """The one that comes first in the order."""
    return lambda base, wanted: min(base, wanted, key=order.index)


def _network(base: str | tuple[str, ...], wanted: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if base == "off" or wanted == "off":
        return "off"
    if isinstance(base, str):
        return wanted
    return base if isinstance(wanted, str) else _common(base, wanted)


def _layers(base: Mapping[str, PolicyLayer], wanted: Mapping[str, PolicyLayer]) -> dict[str, PolicyLayer]:
    """A new layer can only narrow; a known one gets more denials and keeps the rest."""
    merged = dict(base)
    for name, layer in wanted.items():
        old = base.get(name)
        if old is None:
            merged[name] = layer
        else:
            small = layer.caps if layer.caps == "small" else old.caps
            merged[name] = structs.replace(old, deny=_united(old.deny, layer.deny), caps=small)
    return merged


def _presets(base: Mapping[str, Preset], wanted: Mapping[str, Preset]) -> dict[str, Preset]:
    merged = dict(base)
    for name, preset in wanted.items():
        old = base.get(name)
        if old is not None:
            merged[name] = structs.replace(old, deny=_united(old.deny, preset.deny))
        elif preset.deny:
            merged[name] = structs.replace(preset, approve=())
    return merged


def _commands(base: tuple[CommandRule, ...], wanted: tuple[CommandRule, ...]) -> tuple[CommandRule, ...]:
    """More to ask about and to deny, nothing more to approve."""
    return (*base, *(rule for rule in wanted if rule.verdict != "approve" and rule not in base))


def _actions(base: Mapping[str, Action], wanted: Mapping[str, Action]) -> dict[str, Action]:
    """A new pattern may only ask for confirmation: anything less could replace what a wider pattern says."""
    merged = dict(base)
    for pattern, action in wanted.items():
        if pattern in base:
            merged[pattern] = _stricter(*_ACTIONS)(base[pattern], action)
        elif action == "confirm":
            merged[pattern] = action
    return merged


def _servers(base: Mapping[str, McpServer], wanted: Mapping[str, McpServer]) -> dict[str, McpServer]:
    """Only the servers there are, and of one that would run something else or be somewhere else nothing is taken."""
    return {name: _server(server, wanted.get(name, server)) for name, server in base.items()}


def _server(base: McpServer, wanted: McpServer) -> McpServer:
    if any(getattr(base, key) != getattr(wanted, key) for key in SERVER_IDENTITY):
        return base
    return structs.replace(
        base,
        enabled=base.enabled and wanted.enabled,
        include=_included(base.include, wanted.include),
        exclude=_united(base.exclude, wanted.exclude),
        trust=_stricter("pinned", "any")(base.trust, wanted.trust),
        start_timeout=min(base.start_timeout, wanted.start_timeout),
        timeout=min(base.timeout, wanted.timeout),
        network=_own_network(base.network, wanted.network),
        writable=_common(base.writable, wanted.writable),
    )


def _included(base: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns are not compared, but for the one that is everything."""
    if "*" in base:
        return wanted
    return base if "*" in wanted else _common(base, wanted)


def _own_network(base: Any, wanted: Any) -> Any:
    """None follows the sandbox's value, which only `off` is sure to be as strict as."""
    if base is None or wanted is None:
        return wanted if wanted == "off" else base
    return _network(base, wanted)


def _narrow_tools(base: Config, wanted: Config) -> tuple[PolicyLayer, ...]:
    old, new = base.tools, wanted.tools
    if (old.profile, old.allow) == (new.profile, new.allow):
        return old.narrow
    return (*old.narrow, PolicyLayer(profile=new.profile, allow=new.allow))


def _narrow_approval(base: Config, wanted: Config) -> tuple[tuple[str, ...], ...]:
    names = wanted.approval.auto_approve
    if isinstance(names, str) or names == base.approval.auto_approve:
        return base.approval.narrow
    return (*base.approval.narrow, names)


def _differences(path: str, kept: object, wanted: object) -> list[str]:
    if isinstance(wanted, dict) and isinstance(kept, dict):
        mine, theirs = cast(Table, kept), cast(Table, wanted)
        return [dotted(path, name) for name, value in theirs.items() if name not in mine or mine[name] != value]
    if isinstance(wanted, tuple) and isinstance(kept, tuple):
        same = set(cast(tuple[str, ...], kept)) == set(cast(tuple[str, ...], wanted))
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


ENDPOINT: Final = ("api", "base_url", "api_key", "project", "location")
"""What of a model provider only user-level config may say."""
_ACTIONS: Final[tuple[Action, ...]] = ("confirm", "log", "silent")
_RULES: Final[dict[str, Rule]] = {
    "tools.deny": _united,
    "tools.caps": _stricter("small", "standard"),
    "tools.default_timeout": _smaller,
    "tools.strict_check": _stricter("error", "warn"),
    "tools.max_concurrent": _smaller,
    "tools.search_threshold": _smaller,
    "tools.max_depth": _smaller,
    "tools.entry_points": _both,
    "tools.agents": _layers,
    "tools.providers": _layers,
    "approval.auto_approve_sandboxed": _both,
    "approval.require_approval": _either,
    "approval.presets": _presets,
    "approval.commands": _commands,
    "approval.max_risk": _stricter(*Risk, None),
    "approval.on_error": _stricter("ask", "skip"),
    "approval.expires": _smaller,
    "pending.ttl": _sooner,
    "hooks.autonomy": _stricter("cautious", "standard", "autonomous"),
    "hooks.actions": _actions,
    "sandbox.mode": _stricter("required", "auto", "off"),
    "sandbox.writable": _common,
    "sandbox.read_deny": _united,
    "sandbox.network": _network,
    "sandbox.environment": _common,
    "sandbox.memory": _smaller,
    "sandbox.processes": _smaller,
    "sandbox.file_size": _smaller,
    "sandbox.open_files": _smaller,
    "sandbox.cpu_seconds": _smaller,
    "output.max_lines": _smaller,
    "output.max_bytes": _smaller,
    "output.max_spill": _smaller,
    "output.max_output_bytes": _smaller,
    "ledger.enabled": _either,
    "ledger.durability": _stricter("power", "process"),
    "model.thinking": _wanted,
    "model.max_tokens": _wanted,
    "model.temperature": _wanted,
    "model.cache_retention": _wanted,
    "model.foreign_thinking": _wanted,
    "model.timeout": _smaller,
    "model.connect_timeout": _smaller,
    "model.retries": _smaller,
    "model.context": _smaller,
    "model.protocol": _wanted,
    "model.providers": _model_providers,
    "chat.autopilot": _both,
    "chat.max_turns": _smaller,
    "chat.cursor_after_result": _wanted,
    "chat.files": _stricter("project", "anywhere"),
    **{f"guardrails.{rule}": _either for rule in GuardrailsConfig.__struct_fields__},
    "mcp.servers": _servers,
    "mcp.client_approves": _both,
    "mcp.wait": _smaller,
    "protected": _united,
}
"""No rule for `tools.config`, `tools.skills`, `tools.modules`, `secrets`, `sandbox.backend`, `sandbox.undo*`,
`ledger.keep_days`, `ledger.max_blob_bytes`, `model.name`: an untrusted layer has no say in them.

`tools.profile`, `tools.allow` and `approval.auto_approve` keep their values and become an entry of `narrow`."""
