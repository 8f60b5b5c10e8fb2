"""The tool policy: which tools a caller can use, from profiles, groups, allow-lists, deny-lists and skill manifests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from importlib.util import find_spec
from itertools import chain
from typing import Final, get_args

from msgspec import Struct, field

from holdfast.config.config import ApprovalConfig, Config, PolicyLayer, ToolsConfig
from holdfast.contract.call import Caller, Decision
from holdfast.contract.enums import BuiltInPreset, Profile, Verdict
from holdfast.contract.errors import ConfigError
from holdfast.contract.names import GROUP_PREFIX, from_api_name, is_pattern, mcp_server_name
from holdfast.contract.tool import Tool
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.rules.skill_file import NO_MANIFEST, SkillPermissions
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean

PROFILES: Final = get_args(Profile)
FULL: Final = "full"
"""The profile with all tools, including third-party ones."""

GROUPS: Final = frozenset({
    "browser", "cron", "fs", "gcal", "gdocs", "gdrive", "git", "gmail", "gtasks", "k8s", "mcp", "media", "memory",
    "minio", "runtime", "sessions", "skills", "system", "web",
})  # fmt: skip
"""Known group names: using one is not reported as a typo, even if no tool is in the group."""


class ToolMatcher:
    """Matches tools against a list of names, patterns and groups. Aliases and API names match too."""

    __slots__ = ("_exact", "_groups", "_patterns")

    def __init__(self, entries: Iterable[str]) -> None:
        self._exact: dict[str, str] = {}
        self._groups: dict[str, str] = {}
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        for entry in entries:
            if entry.startswith(GROUP_PREFIX):
                self._groups[entry.removeprefix(GROUP_PREFIX)] = entry
            elif is_pattern(entry):
                self._patterns.append((re.compile(translate(entry)), entry))
            else:
                self._exact[entry] = entry

    def __bool__(self) -> bool:
        return bool(self._exact or self._groups or self._patterns)

    def match(self, tool: Tool) -> str | None:
        """The entry that matches the tool, or None."""
        names = (*tool.names, tool.api_name)
        for name in names:
            if name in self._exact:
                return self._exact[name]
        for group, entry in self._groups.items():
            if tool.in_group(group):
                return entry
        for pattern, entry in self._patterns:
            if any(map(pattern.match, names)):
                return entry
        return None


_MAX_COMPILED: Final = 256


class PolicyRules(Struct, frozen=True, kw_only=True):
    """The inputs of the policy."""

    profile: str = "coding"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    agents: Mapping[str, PolicyLayer] = field(default_factory=dict[str, PolicyLayer])
    providers: Mapping[str, PolicyLayer] = field(default_factory=dict[str, PolicyLayer])
    skills: Mapping[str, SkillPermissions] = field(default_factory=dict[str, SkillPermissions])
    """Permissions by skill; a skill that is missing has no tools."""
    servers: frozenset[str] = frozenset()
    """The configured MCP servers: configuring a server allows its tools."""
    narrow: tuple[PolicyLayer, ...] = ()
    """Layers of untrusted files: they can remove tools, never add any."""

    @classmethod
    def of(
        cls, config: ToolsConfig, skills: Mapping[str, SkillPermissions] | None = None, servers: Iterable[str] = ()
    ) -> PolicyRules:
        return cls(
            profile=config.profile, allow=config.allow, deny=config.deny, agents=config.agents,
            providers=config.providers, skills=skills or {}, servers=frozenset(servers), narrow=config.narrow,
        )  # fmt: skip


class Policy:
    """Compiles the rules once for each kind of caller."""

    def __init__(self, rules: PolicyRules | None = None) -> None:
        self.rules: Final = rules or PolicyRules()
        self._compiled: dict[tuple[str | None, str | None, str | None, frozenset[str] | None], CompiledPolicy] = {}
        profile = _validate_profile(self.rules.profile, "tools.profile")
        self._base = _Layer("tools", profile, self.rules.allow, self.rules.deny, self.rules.servers)
        self._agents = {
            name: _restricting_layer(f"tools.agents.{name}", layer) for name, layer in self.rules.agents.items()
        }
        self._providers = {
            name: _restricting_layer(f"tools.providers.{name}", layer) for name, layer in self.rules.providers.items()
        }
        self._narrow = [
            _restricting_layer(f"tools.narrow[{place}]", layer) for place, layer in enumerate(self.rules.narrow)
        ]

    def compile(self, caller: Caller) -> CompiledPolicy:
        """The policy for a caller; cached for callers with the same agent, provider, skill and surface."""
        agent = caller.agent if caller.agent in self._agents else None
        provider = caller.provider if caller.provider in self._providers else None
        key = (agent, provider, caller.skill, caller.only)
        found = self._compiled.get(key)
        if found is None:
            if len(self._compiled) >= _MAX_COMPILED:
                self._compiled.clear()
            layers = self._layers(agent, provider, caller.skill)
            if caller.only is not None:
                layers.append(_SurfaceLayer(caller.only))
            found = self._compiled[key] = CompiledPolicy(layers)
        return found

    def _layers(self, agent: str | None, provider: str | None, skill: str | None) -> list[AnyLayer]:
        layers: list[AnyLayer] = [self._base]
        if agent is not None:
            layers.append(self._agents[agent])
        if provider is not None:
            layers.append(self._providers[provider])
        if skill is not None:
            layers.append(_SkillLayer(skill, self.rules.skills.get(skill, NO_MANIFEST)))
        return [*layers, *self._narrow]


class CompiledPolicy:
    """The policy for one kind of caller. Caches the decision per tool; a replaced tool is decided again."""

    __slots__ = ("_decisions", "_layers")

    def __init__(self, layers: Iterable[AnyLayer]) -> None:
        self._layers = tuple(layers)
        self._decisions: dict[str, tuple[Tool, Decision]] = {}

    def allows(self, tool: Tool) -> bool:
        return self.decide(tool).verdict is Verdict.APPROVE

    def decide(self, tool: Tool) -> Decision:
        """Approve or deny, with the deciding layer and its reason."""
        found = self._decisions.get(tool.name)
        if found is None or found[0] is not tool:
            decisions = [layer.check(tool) for layer in self._layers]
            denied = next((decision for decision in decisions if decision.verdict is not Verdict.APPROVE), decisions[0])
            found = self._decisions[tool.name] = (tool, denied)
        return found[1]

    def visible(self, tools: Iterable[Tool]) -> list[Tool]:
        return list(filter(self.allows, tools))


class _Layer:
    """A layer with a profile (None means every tool), an allow-list and a deny-list."""

    __slots__ = ("_allow", "_deny", "_label", "_profile", "_servers")

    def __init__(
        self,
        label: str,
        profile: str | None,
        allow: Iterable[str],
        deny: Iterable[str],
        servers: frozenset[str] = frozenset(),
    ) -> None:
        self._label = label
        self._servers = servers
        self._profile = profile
        self._allow = ToolMatcher(allow)
        self._deny = ToolMatcher(deny)

    def check(self, tool: Tool) -> Decision:
        label = self._label
        if (entry := self._deny.match(tool)) is not None:
            return Decision(Verdict.DENY, f"{label}.deny", f"'{entry}' in {label}.deny removes '{tool.name}'")
        if (entry := self._allow.match(tool)) is not None:
            return Decision(Verdict.APPROVE, f"{label}.allow", f"'{entry}' in {label}.allow adds '{tool.name}'")
        if tool.name == TOOL_SEARCH and tool.source == "builtin":
            return Decision(
                Verdict.APPROVE,
                label,
                f"'{tool.name}' only finds tools that are allowed; add it to a deny list to remove it",
            )
        if (name := mcp_server_name(tool.source)) is not None and name in self._servers:
            return Decision(Verdict.APPROVE, f"mcp.servers.{name}", f"mcp.servers.{name} provides '{tool.name}'")
        if self._profile is not None:
            return self._by_profile(tool, self._profile)
        if self._allow:
            return Decision(Verdict.DENY, f"{label}.allow", f"{label}.allow does not name '{tool.name}'")
        return Decision(Verdict.APPROVE, label, f"{label} does not restrict '{tool.name}'")

    def _by_profile(self, tool: Tool, profile: str) -> Decision:
        source = f"{self._label}.profile"
        if profile == FULL:
            return Decision(Verdict.APPROVE, source, f"the profile '{FULL}' includes every tool")
        if tool.source == "program":
            return Decision(Verdict.APPROVE, source, f"your program registered '{tool.name}' itself")
        if tool.source == "builtin" and not {"minimal", profile}.isdisjoint(tool.profiles):
            return Decision(Verdict.APPROVE, source, f"the profile '{profile}' includes '{tool.name}'")
        return Decision(
            Verdict.DENY,
            source,
            f"the profile '{profile}' does not include '{tool.name}'; add it to {self._label}.allow",
        )


class _SkillLayer:
    """Allows only the tools that a skill names, in each of its lists."""

    __slots__ = ("_allow", "_reason", "_skill", "_within")

    def __init__(self, skill: str, permissions: SkillPermissions) -> None:
        self._skill = skill
        self._allow = ToolMatcher(permissions.allow)
        self._within = None if permissions.within is None else ToolMatcher(permissions.within)
        self._reason = permissions.reason

    def check(self, tool: Tool) -> Decision:
        entry = self._allow.match(tool)
        if entry is not None and (self._within is None or self._within.match(tool) is not None):
            return Decision(Verdict.APPROVE, f"skill:{self._skill}", f"'{entry}' is in {self._reason}")
        if self._allow:
            reason = f"'{tool.name}' is not in {self._reason}"
        else:
            reason = f"the skill '{self._skill}' has no tools: {self._reason}"
        return Decision(Verdict.DENY, f"skill:{self._skill}", reason)


class _SurfaceLayer:
    """Allows only the tools on the surface of this turn or document."""

    __slots__ = ("_names",)

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def check(self, tool: Tool) -> Decision:
        if tool.name in self._names:
            return Decision(Verdict.APPROVE, "surface", f"'{tool.name}' is on the surface of this turn")
        return Decision(Verdict.DENY, "surface", f"'{tool.name}' is not on the surface of this turn")


AnyLayer = _Layer | _SkillLayer | _SurfaceLayer


def check_agent(config: Config) -> None:
    """Raise `ConfigError` if the configuration enters an agent that it does not define."""
    name, known = config.agent, sorted(config.tools.agents)
    if name is None or name in known:
        return
    meant = did_you_mean(name, known)
    listed = f"tools.agents has {', '.join(known)}." if known else "Add it to tools.agents."
    hint = f"Did you mean '{meant}'?" if meant else listed
    raise ConfigError(escape(f"There is no agent '{name[:80]}'. {hint}"))


def check_names(
    config: Config, known: Iterable[Tool], skills: Mapping[str, SkillPermissions] | None = None
) -> list[str]:
    """A warning for each name in the configuration that no tool, group or preset has.

    Call this when all sources are ready. Names of an MCP server that is not connected are skipped: its tools are
    unknown.
    """
    named = list(_name_lists(config, skills or {}))
    if not named:
        return []
    tools = list(known)
    names = {name for tool in tools for name in (*tool.names, tool.api_name)} | {TOOL_SEARCH}
    groups = {f"{GROUP_PREFIX}{group}" for group in GROUPS.union(*(tool.groups for tool in tools))}
    presets = {*get_args(BuiltInPreset), *config.approval.presets}
    there = {mcp_server_name(tool.source) for tool in tools}
    away = {name for name in config.mcp.servers if name not in there}
    warnings: list[str] = []
    for where, entry in named:
        kind = "preset" if entry.startswith("$") else "tool or group"
        candidates = presets if entry.startswith("$") else groups if entry.startswith(GROUP_PREFIX) else names
        server = mcp_server_name(entry if ":" in entry else from_api_name(entry) or "")
        if entry in candidates or is_pattern(entry) or server in away or any(map(ToolMatcher([entry]).match, tools)):
            continue
        meant = did_you_mean(entry, sorted(candidates))
        hint = f"Did you mean '{meant}'?" if meant else "It has no effect."
        warnings.append(f"{where} names '{entry}', but there is no such {kind}. {hint}")
    return warnings


def _name_lists(config: Config, skills: Mapping[str, SkillPermissions]) -> Iterator[tuple[str, str]]:
    """Every tool name in the configuration, with the place it is written in."""
    tools, approval = config.tools, config.approval
    layers: dict[str, ToolsConfig | PolicyLayer] = {"tools": tools}
    layers |= {f"tools.agents.{name}": layer for name, layer in tools.agents.items()}
    layers |= {f"tools.providers.{name}": layer for name, layer in tools.providers.items()}
    layers |= {f"tools.narrow[{place}]": layer for place, layer in enumerate(tools.narrow) if not layer.source}
    lists: dict[str, Iterable[str]] = {}
    for label, layer in layers.items():
        lists |= {f"{label}.allow": layer.allow, f"{label}.deny": layer.deny}
    lists |= {f"The skill '{name}'": permissions.allow for name, permissions in skills.items()}
    lists["tools.config"] = tools.config
    if not isinstance(approval.auto_approve, str):
        lists["approval.auto_approve"] = [
            entry for entry in approval.auto_approve if not (entry in approval.importable and _is_module(entry))
        ]
    lists["The `remove` of approval.auto_approve"] = approval.excluded
    limits = [names for names in approval.narrow if names != approval.auto_approve]
    lists["approval.auto_approve of the machine or of an untrusted file"] = list(chain.from_iterable(limits))
    for name, preset in approval.presets.items():
        lists |= {f"approval.presets.{name}.approve": preset.approve, f"approval.presets.{name}.deny": preset.deny}
    lists["confirmation.actions"] = config.confirmation.actions
    default = ApprovalConfig().auto_approve
    return ((where, entry) for where, names in lists.items() for entry in names if entry not in default)


def _is_module(entry: str) -> bool:
    """Whether an entry is the path of an existing module, and not a misspelled tool name."""
    top = entry.partition(":")[0].partition(".")[0]
    try:
        return top.isidentifier() and find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def _restricting_layer(label: str, layer: PolicyLayer) -> _Layer:
    label = f"{layer.source}: tools" if layer.source else label
    profile = None if layer.profile is None else _validate_profile(layer.profile, f"{label}.profile")
    return _Layer(label, profile, layer.allow, layer.deny)


def _validate_profile(name: str, where: str) -> str:
    if name in PROFILES:
        return name
    meant = did_you_mean(name, PROFILES)
    hint = f"did you mean '{meant}'?" if meant else f"use one of {', '.join(PROFILES)}."
    raise ConfigError(f"{where} is '{name}', which is not a profile: {hint}")
