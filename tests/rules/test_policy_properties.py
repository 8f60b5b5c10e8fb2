"""Properties of the tool policy: overrides never add tools, deny always wins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.config import PolicyLayer, Profile
from holdfast.contract.call import Caller
from holdfast.contract.tool import Tool
from holdfast.rules.policy import GROUPS, Policy, PolicyRules, ToolMatcher
from holdfast.rules.skill_file import SkillPermissions

TOOLS = [
    Tool(name=name, aliases=aliases, groups=groups, profiles=("coding",), source=source)
    for name, aliases, groups, source in (
        ("file.read", ("read",), ("fs",), "builtin"),
        ("file.write", ("write",), ("fs",), "builtin"),
        ("shell.exec", ("bash",), ("runtime",), "builtin"),
        ("web.search", (), (), "builtin"),
        ("k8s.pods", (), (), "builtin"),
        ("my.tool", (), ("mine", "fs"), "program"),
        ("mcp:hub:issue", (), (), "mcp:hub"),
        ("acme.thing", ("thing",), ("acme",), "package:acme"),
    )
]

entries = st.one_of(
    st.sampled_from([name for tool in TOOLS for name in (*tool.names, tool.api_name)]),
    st.sampled_from(["*", "file.*", "mcp:*", "*e*", "?ead", "[a-m]*", "nothing", "", "group:", "group:none"]),
    st.sampled_from([f"group:{group}" for group in (*GROUPS, "mine", "acme")]),
)
lists = st.lists(entries, max_size=4).map(tuple)
profiles: st.SearchStrategy[Profile] = st.sampled_from(["minimal", "messaging", "coding", "full"])
layers = st.builds(PolicyLayer, profile=st.none() | profiles, allow=lists, deny=lists)
callers = st.builds(
    Caller,
    agent=st.sampled_from([None, "a", "other"]),
    provider=st.sampled_from([None, "p", "other"]),
    skill=st.sampled_from([None, "s", "other"]),
)
everyone = st.builds(
    PolicyRules,
    profile=profiles,
    allow=lists,
    deny=lists,
    agents=layers.map(lambda layer: {"a": layer}),
    providers=layers.map(lambda layer: {"p": layer}),
    skills=lists.map(lambda names: {"s": SkillPermissions(names, "its manifest")}),
    narrow=st.lists(layers, max_size=2).map(tuple),
)


@pytest.mark.spec("P4")
@given(everyone, callers)
def test_overrides_never_add_a_tool(rules: PolicyRules, caller: Caller) -> None:
    base = Policy(PolicyRules(profile=rules.profile, allow=rules.allow, deny=rules.deny)).compile(Caller())
    narrowed = Policy(rules).compile(caller)
    for tool in TOOLS:
        assert not narrowed.allows(tool) or base.allows(tool)


@pytest.mark.spec("P4")
@given(everyone, callers)
def test_an_additional_override_never_adds_tools(rules: PolicyRules, caller: Caller) -> None:
    policy = Policy(rules)
    whole = policy.compile(caller)
    for part in (
        Caller(agent=caller.agent),
        Caller(provider=caller.provider),
        Caller(skill=caller.skill),
        Caller(agent=caller.agent, skill=caller.skill),
    ):
        partial = policy.compile(part)
        for tool in TOOLS:
            assert not whole.allows(tool) or partial.allows(tool)


@pytest.mark.spec("P3")
@given(everyone, callers)
def test_deny_always_wins(rules: PolicyRules, caller: Caller) -> None:
    denied = [rules.deny, *(layer.deny for layer in rules.narrow)]
    if caller.agent == "a":
        denied.append(rules.agents["a"].deny)
    if caller.provider == "p":
        denied.append(rules.providers["p"].deny)
    policy = Policy(rules).compile(caller)
    for tool in TOOLS:
        if any(ToolMatcher(deny).match(tool) is not None for deny in denied):
            assert not policy.allows(tool)


@pytest.mark.spec("P3", "P4")
@given(everyone, callers, entries)
def test_an_additional_deny_removes_exactly_what_it_matches(rules: PolicyRules, caller: Caller, entry: str) -> None:
    before = Policy(rules).compile(caller)
    more = PolicyRules(
        profile=rules.profile,
        allow=rules.allow,
        deny=(*rules.deny, entry),
        agents=rules.agents,
        providers=rules.providers,
        skills=rules.skills,
        narrow=rules.narrow,
    )
    after = Policy(more).compile(caller)
    for tool in TOOLS:
        assert after.allows(tool) == (before.allows(tool) and ToolMatcher([entry]).match(tool) is None)


@pytest.mark.spec("P5")
@given(everyone, callers)
def test_the_reason_matches_the_decision(rules: PolicyRules, caller: Caller) -> None:
    policy = Policy(rules).compile(caller)
    for tool in TOOLS:
        decision = policy.decide(tool)
        assert (decision.verdict == "approve") == policy.allows(tool)
        assert decision.source and decision.reason
