"""Hypothesis strategies for layers, and a small independent model of what a configuration allows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, cast

from hypothesis import strategies as st

from holdfast.config.config import Config, PolicyLayer, Preset
from holdfast.contract.enums import Risk

READING = frozenset({"file.read", "git.log"})
RISKS = {
    "file.read": Risk.LOW,
    "git.log": Risk.LOW,
    "file.write": Risk.MEDIUM,
    "web.search": Risk.MEDIUM,
    "shell.exec": Risk.HIGH,
}
TOOLS = tuple(RISKS)
PROFILES = {
    "minimal": READING,
    "messaging": READING | {"web.search"},
    "coding": READING | {"file.write", "shell.exec"},
    "full": frozenset(TOOLS),
}
BUILTIN_PRESETS = {"$readonly": Preset(approve=tuple(READING)), "$default": Preset(approve=(*READING, "file.write"))}
ACTIONS = ("confirm", "log", "silent")
Table = dict[str, Any]

_tool = st.sampled_from([*TOOLS, "file.*", "*"])
_tools = st.lists(_tool, max_size=3, unique=True)
_items = st.lists(st.one_of(_tool, st.sampled_from(["$default", "$readonly", "$mine"])), max_size=3, unique=True)
_edits = st.dictionaries(st.sampled_from(["set", "append", "prepend", "remove"]), _items, min_size=1)
_profile = st.sampled_from(sorted(PROFILES))


def _table(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Table]:
    return st.fixed_dictionaries({}, optional=fields)


_network = st.one_of(
    st.sampled_from(["off", "on"]), st.lists(st.sampled_from(["a.example", "*"]), max_size=2, unique=True)
)
_writable = st.lists(st.sampled_from(["$root", "/", "$root/build"]), max_size=2, unique=True)
_limits: dict[str, st.SearchStrategy[Any]] = {
    "enabled": st.booleans(),
    "include": st.one_of(_tools, _edits),
    "exclude": st.one_of(_tools, _edits),
    "trust": st.sampled_from(["pinned", "any"]),
    "start_timeout": st.sampled_from([1, 999]),
    "timeout": st.sampled_from([1, 999]),
}
_own_sandbox: dict[str, st.SearchStrategy[Any]] = {"network": _network, "writable": _writable}
_caps = st.sampled_from(["standard", "small"])
_program: dict[str, st.SearchStrategy[Any]] = {"command": st.sampled_from(["serve", "evil"])}
_address: dict[str, st.SearchStrategy[Any]] = {"url": st.sampled_from(["https://here.example", "https://evil.example"])}
_of_program: dict[str, st.SearchStrategy[Any]] = {
    "args": st.lists(st.sampled_from(["-v", "--all"]), max_size=2),
    "env": st.dictionaries(st.just("TOKEN"), st.sampled_from(["${secret:token}", "plain"]), max_size=1),
    "cwd": st.just("/tmp"),
    **_own_sandbox,
}
_of_address: dict[str, st.SearchStrategy[Any]] = {
    "headers": st.dictionaries(st.just("X"), st.sampled_from(["1", "2"]), max_size=1),
    "transport": st.sampled_from(["http", "sse"]),
    "protocol": st.just("handshake"),
    "oauth": st.fixed_dictionaries({"client_id": st.sampled_from(["a", "b"])}),
}
_server: st.SearchStrategy[Table] = st.one_of(
    st.fixed_dictionaries(_program, optional=_of_program | _limits),
    st.fixed_dictionaries(_address, optional=_of_address | _limits),
    _table(**_limits),
)
_policy = _table(profile=_profile, allow=_tools, deny=_tools, caps=_caps)
layers: st.SearchStrategy[Table] = _table(
    agent=st.sampled_from(["bot", "other"]),
    skill=st.sampled_from(["s", "other"]),
    tools=_table(
        profile=_profile,
        allow=st.one_of(_tools, _edits),
        deny=st.one_of(_tools, _edits),
        caps=_caps,
        default_timeout=st.sampled_from([1, 30.0, 600]),
        strict_check=st.sampled_from(["warn", "error"]),
        max_concurrent=st.integers(1, 20),
        search_threshold=st.integers(1, 200),
        max_depth=st.integers(0, 20),
        modules=st.just(["evil.tools"]),
        entry_points=st.booleans(),
        agents=st.dictionaries(st.sampled_from(["bot", "other"]), _policy, max_size=2),
        providers=st.dictionaries(st.just("p"), _policy, max_size=1),
        skills=st.dictionaries(st.just("s"), st.sampled_from(["/skills/here", "/skills/there"]), max_size=1),
        config=st.dictionaries(st.just("shell.exec"), st.just({"shell": "/tmp/evil"}), max_size=1),
    ),
    approval=_table(
        auto_approve=st.one_of(_items, _edits, st.just("evil.policy:approve")),
        auto_approve_sandboxed=st.booleans(),
        require_approval=st.booleans(),
        presets=st.dictionaries(
            st.sampled_from(["$default", "$readonly", "$mine"]), _table(approve=_tools, deny=_tools), max_size=2
        ),
        commands=st.lists(
            st.fixed_dictionaries(
                {
                    "rule": st.sampled_from(["make test", "git push *"]),
                    "verdict": st.sampled_from(["approve", "ask"]),
                },
                optional={"network": st.sampled_from(["on", ["evil.example"]]), "read": st.just(["~/.ssh"])},
            )
            | st.fixed_dictionaries({"rule": st.just("make test"), "verdict": st.just("deny")}),
            max_size=2,
        ),
        max_risk=st.sampled_from(["low", "medium", "high"]),
        two_people=st.sampled_from(["low", "medium", "high"]),
        on_error=st.sampled_from(["skip", "ask"]),
        widen=st.lists(st.sampled_from(["hosts", "network", "outside"]), max_size=2, unique=True),
        expires=st.sampled_from([60, 3600]),
    ),
    pending=_table(ttl=st.sampled_from([60, 3600])),
    confirmation=_table(
        autonomy=st.sampled_from(["cautious", "standard", "autonomous"]),
        actions=st.dictionaries(_tool, st.sampled_from(ACTIONS), max_size=3),
    ),
    sandbox=_table(
        mode=st.sampled_from(["auto", "required", "off"]),
        writable=_writable,
        read_deny=st.lists(st.sampled_from(["~/.ssh", "/x"]), max_size=2, unique=True),
        network=_network,
        backend=st.sampled_from(["auto", "landlock"]),
        environment=st.lists(st.sampled_from(["PATH", "SECRET"]), max_size=2, unique=True),
        memory=st.sampled_from([2**20, 2**40]),
        processes=st.sampled_from([1, 10**6]),
        file_size=st.sampled_from([1, 2**40]),
        open_files=st.sampled_from([8, 10**6]),
        cpu_seconds=st.sampled_from([1, 10**6]),
        undo=st.sampled_from(["auto", "off"]),
        undo_max_files=st.sampled_from([1, 10**6]),
        undo_max_bytes=st.sampled_from([1, 10**9]),
    ),
    output=_table(
        max_lines=st.sampled_from([10, 10_000]),
        max_bytes=st.sampled_from([10, 10**9]),
        max_spill=st.sampled_from([0, 10**12]),
        max_output_bytes=st.sampled_from([5, 10**9]),
    ),
    ledger=_table(
        enabled=st.booleans(),
        durability=st.sampled_from(["process", "power"]),
        keep_days=st.sampled_from([1, 1000]),
        max_blob_bytes=st.sampled_from([1, 2**40]),
    ),
    model=_table(
        name=st.sampled_from(["operator", "anthropic:evil"]),
        thinking=st.sampled_from(["low", "max", 0, 9000]),
        max_tokens=st.sampled_from([100, "90%"]),
        temperature=st.sampled_from([0, 2.0]),
        timeout=st.sampled_from([1, 9999]),
        retries=st.integers(0, 20),
        context=st.sampled_from([1, 10**9]),
        protocol=st.sampled_from(["native", "text"]),
        providers=st.dictionaries(
            st.sampled_from(["anthropic", "mine"]),
            _table(
                api=st.just("openai"),
                base_url=st.just("https://evil.example"),
                api_key=st.just({"command": ["/tmp/evil"]}),
                thinking_budget=st.sampled_from([0, 9000]),
            ),
            max_size=2,
        ),
    ),
    chat=_table(
        autopilot=st.booleans(),
        max_turns=st.sampled_from([1, 9999]),
        cursor_after_result=st.sampled_from(["result", "stay"]),
        files=st.sampled_from(["project", "anywhere"]),
    ),
    guardrails=_table(enabled=st.booleans(), surfaces=st.booleans(), evidence=st.booleans()),
    mcp=_table(
        client_approves=st.booleans(),
        wait=st.sampled_from([0, 5, 1000]),
        servers=st.dictionaries(st.sampled_from(["one", "two"]), _server, max_size=2),
    ),
    secrets=st.dictionaries(st.just("token"), st.just({"command": ["/tmp/evil"]}), max_size=1),
    protected=st.lists(st.sampled_from(["infra", "deploy"]), max_size=2, unique=True),
)


def to_toml(table: Mapping[str, Any]) -> str:
    return "\n".join(f"{json.dumps(key)} = {_value(value)}" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = cast(Table, value).items()
        return "{" + ", ".join(f"{json.dumps(key)} = {_value(item)}" for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, cast("list[Any]", value))) + "]"
    return json.dumps(value)


def exists(config: Config, tool: str, agent: str | None = None) -> bool:
    """Whether the policy makes a tool available to a caller."""
    top = PolicyLayer(profile=config.tools.profile, allow=config.tools.allow, deny=config.tools.deny)
    own = [config.tools.agents[agent]] if agent in config.tools.agents else []
    return all(_leaves(layer, tool) for layer in (top, *own, *config.tools.narrow))


def _leaves(layer: PolicyLayer, tool: str) -> bool:
    begun = tool in PROFILES[layer.profile] if layer.profile else not layer.allow
    return (begun or _matches(layer.allow, tool)) and not _matches(layer.deny, tool)


def severity(config: Config, tool: str) -> int:
    """0 approve, 1 ask, 2 deny: the chain of list, sandbox and catch-all under `max_risk` and `two_people`."""
    two = config.approval.two_people
    return max(_chain_severity(config, tool), int(two is not None and RISKS[tool].level >= two.level))


def _chain_severity(config: Config, tool: str) -> int:
    approval = config.approval
    presets = {**BUILTIN_PRESETS, **approval.presets}
    names = approval.auto_approve
    if isinstance(names, tuple):
        verdict = _listed(names, presets, tool)
        if verdict == 2:
            return 2
        narrowed = all(_listed(other, presets, tool) == 0 for other in approval.narrow)
        risky = approval.max_risk is not None and RISKS[tool].level > approval.max_risk.level
        if verdict == 0 and narrowed and not risky and not _matches(approval.excluded, tool):
            return 0
    sandboxed = approval.auto_approve_sandboxed and config.sandbox.mode != "off"
    if sandboxed and tool == "shell.exec" and not _matches((*approval.excluded, *approval.removed), tool):
        return 0
    return 1 if approval.require_approval else 0


def _listed(names: Iterable[str], presets: Mapping[str, Preset], tool: str) -> int:
    used = [presets[name] for name in names if name in presets]
    if any(_matches(preset.deny, tool) for preset in used):
        return 2
    plain = [name for name in names if not name.startswith("$")]
    return 0 if _matches(plain, tool) or any(_matches(preset.approve, tool) for preset in used) else 1


Precedence = Callable[[list[tuple[str, str]]], str]
PRECEDENCES: dict[str, Precedence] = {
    "strictest": lambda found: min((action for _, action in found), key=ACTIONS.index),
    "most specific": lambda found: max(found, key=lambda item: len(item[0].rstrip("*")))[1],
    "first": lambda found: found[0][1],
    "last": lambda found: found[-1][1],
}


def action(config: Config, tool: str, precedence: Precedence, otherwise: str) -> int:
    """The action for a call under each precedence of matching patterns."""
    found = [(pattern, name) for pattern, name in config.confirmation.actions.items() if fnmatchcase(tool, pattern)]
    return ACTIONS.index(precedence(found) if found else otherwise)


def _matches(patterns: Iterable[str], tool: str) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)
