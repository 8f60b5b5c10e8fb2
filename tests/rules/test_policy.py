"""The tool policy: profiles, groups, allow and deny lists, and restricting layers."""

from __future__ import annotations

import pytest

from holdfast.config.config import (
    ApprovalConfig,
    Config,
    ConfirmationConfig,
    McpConfig,
    McpServer,
    PolicyLayer,
    Preset,
    Profile,
    ToolsConfig,
)
from holdfast.contract.call import Caller
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import ConfigError
from holdfast.contract.tool import Tool
from holdfast.rules.policy import GROUPS, CompiledPolicy, Policy, PolicyRules, check_names
from holdfast.rules.skill_file import SkillPermissions
from tests.quick import least, quickly

ALIASES = {"file.read": ("read", "read_file"), "shell.exec": ("bash",), "file.write": ("write",)}
MINIMAL = {
    "file.read",
    "file.list",
    "file.find",
    "code.search",
    "git.status",
    "git.diff",
    "git.log",
    "calculator",
    "calculator_async",
    "web.fetch",
    "system.info",
    "output.read",
}
MEMORY = {"memory.read", "memory.write", "memory.search"}
GOOGLE = {"gmail.list", "gcal.events", "gdocs.read", "gdrive.search", "gtasks.list"}
PROCESSES = {"process.start", "process.status", "process.output", "process.kill", "process.list"}
BROWSER = {"browser.navigate", "browser.screenshot", "browser.click", "browser.type", "browser.text"}
CODING = MINIMAL | {"file.write", "file.edit", "shell.exec", "ask.user"} | PROCESSES | BROWSER | MEMORY
MESSAGING = MINIMAL | {"web.search", "media.send", "ask.user"} | MEMORY | GOOGLE
OTHERS = {
    "image.analyze",
    "audio.transcribe",
    "minio.share",
    "minio.ingest",
    "minio.sync",
    "k8s.pods",
    "k8s.deployments",
    "k8s.logs",
    "sessions.list",
    "sessions.delete",
    "skill.load",
    "cron.add",
}
WITHIN: dict[str, set[str]] = {
    "fs": {"file.read", "file.list", "file.find", "file.write", "file.edit", "code.search"},
    "runtime": {"shell.exec"} | PROCESSES,
    "web": BROWSER,
    "media": {"image.analyze", "audio.transcribe"},
    "skills": {"skill.load"},
    "system": {"calculator", "calculator_async", "output.read", "ask.user"},
}
"""The groups that tools declare; other groups follow from their names."""
DECLARED: dict[Profile, set[str]] = {
    "minimal": MINIMAL, "messaging": MESSAGING - MINIMAL, "coding": CODING - MINIMAL
}  # fmt: skip
BUILTINS = {
    name: Tool(
        name=name,
        aliases=ALIASES.get(name, ()),
        groups=tuple(group for group, names in WITHIN.items() if name in names),
        profiles=tuple(profile for profile, names in DECLARED.items() if name in names),
        source="builtin",
    )
    for name in sorted(CODING | MESSAGING | OTHERS)
}
OWN = Tool(name="my.tool", groups=("mine",))
MCP = Tool(name="mcp:github:create_issue", source="mcp:github")
PACKAGED = Tool(name="acme.thing", source="package:acme", groups=("acme",))
EVERY = [*BUILTINS.values(), OWN, MCP, PACKAGED]


def compiled(
    rules: PolicyRules, *, agent: str | None = None, provider: str | None = None, skill: str | None = None
) -> CompiledPolicy:
    return Policy(rules).compile(Caller(agent=agent, provider=provider, skill=skill))


def left(
    rules: PolicyRules, *, agent: str | None = None, provider: str | None = None, skill: str | None = None
) -> set[str]:
    return {tool.name for tool in compiled(rules, agent=agent, provider=provider, skill=skill).visible(EVERY)}


def only(*allow: str) -> PolicyRules:
    return PolicyRules(profile="full", narrow=(layer(allow=allow),))


def layer(profile: Profile | None = None, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> PolicyLayer:
    return PolicyLayer(profile=profile, allow=allow, deny=deny)


@pytest.mark.spec("P1")
@pytest.mark.parametrize(
    ("profile", "names"),
    [("minimal", MINIMAL), ("messaging", MESSAGING), ("coding", CODING), ("full", {tool.name for tool in EVERY})],
)
def test_each_profile_includes_its_tools_and_those_of_the_program(profile: str, names: set[str]) -> None:
    assert left(PolicyRules(profile=profile)) == names | {"my.tool"}


@pytest.mark.spec("P1")
def test_coding_is_the_default() -> None:
    assert left(PolicyRules()) == left(PolicyRules(profile="coding")) == left(PolicyRules.of(ToolsConfig()))


@pytest.mark.spec("P1")
def test_a_third_party_tool_cannot_enter_a_profile_by_name_or_declaration() -> None:
    for source in ("package:acme", "mcp:acme"):
        posing = BUILTINS["file.read"].with_(source=source)
        assert posing.profiles == ("minimal",)
        for profile in ("minimal", "messaging", "coding"):
            assert not compiled(PolicyRules(profile=profile)).allows(posing)
        assert compiled(PolicyRules(profile="minimal", allow=("file.read",))).allows(posing)


@pytest.mark.spec("P1")
def test_an_unknown_profile_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match=r"tools\.profile is 'codin', which is not a profile: did you mean 'coding'\?"
    ):
        Policy(PolicyRules(profile="codin"))


@pytest.mark.spec("P2")
@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("fs", {"file.read", "file.list", "file.find", "file.write", "file.edit", "code.search"}),
        ("runtime", {"shell.exec"} | PROCESSES),
        ("web", {"web.fetch", "web.search"} | BROWSER),
        ("memory", MEMORY),
        ("minio", {"minio.share", "minio.ingest", "minio.sync"}),
        ("k8s", {"k8s.pods", "k8s.deployments", "k8s.logs"}),
        ("cron", {"cron.add"}),
        ("gmail", {"gmail.list"}),
        ("gcal", {"gcal.events"}),
        ("gdocs", {"gdocs.read"}),
        ("gdrive", {"gdrive.search"}),
        ("gtasks", {"gtasks.list"}),
        ("mcp", {"mcp:github:create_issue"}),
        ("file", {"file.read", "file.list", "file.find", "file.write", "file.edit"}),
        ("mine", {"my.tool"}),
        ("acme", {"acme.thing"}),
    ],
)
def test_a_group_matches_its_tools_in_allow_and_deny(group: str, names: set[str]) -> None:
    everything = {tool.name for tool in EVERY}
    assert left(PolicyRules(profile="full", deny=(f"group:{group}",))) == everything - names
    assert left(only(f"group:{group}")) == names


@pytest.mark.spec("P2")
def test_every_built_in_belongs_to_a_group() -> None:
    grouped = {name for group in GROUPS for name in left(only(f"group:{group}"))}
    assert grouped == set(BUILTINS) | {MCP.name}


@pytest.mark.spec("P3")
def test_allow_adds_to_the_profile_and_deny_always_wins() -> None:
    rules = PolicyRules(profile="minimal", allow=("web.search", "mcp:github:*", "bash"), deny=("bash", "git.*"))
    gone = {"git.status", "git.diff", "git.log"}
    assert left(rules) == (MINIMAL - gone) | {"web.search", "mcp:github:create_issue", "my.tool"}


@pytest.mark.spec("P3")
@pytest.mark.parametrize(
    ("entry", "gone"),
    [
        ("browser.*", BROWSER),
        ("*", {tool.name for tool in EVERY}),
        ("*.read", {"file.read", "memory.read", "gdocs.read", "output.read"}),
        ("read", {"file.read"}),
        ("read_*", {"file.read"}),
        ("file--read", {"file.read"}),
        ("mcp__github__*", {"mcp:github:create_issue"}),
        ("FILE.READ", set[str]()),
        ("file", set[str]()),
        ("file.rea", set[str]()),
        ("my.tool", {"my.tool"}),
    ],
)
def test_names_aliases_and_patterns_match(entry: str, gone: set[str]) -> None:
    everything = {tool.name for tool in EVERY}
    assert left(PolicyRules(profile="full", deny=(entry,))) == everything - gone
    if gone:
        assert left(only(entry)) == gone


@pytest.mark.spec("P3")
def test_a_pattern_cannot_cause_catastrophic_backtracking() -> None:
    policy = compiled(PolicyRules(deny=("*a" * 40 + "*b",)))
    victim = Tool(name="a" * 200)
    with quickly():
        assert policy.allows(victim)


@pytest.mark.spec("P4")
def test_agent_and_provider_overrides_intersect() -> None:
    rules = PolicyRules(
        profile="coding",
        agents={"fast": layer("minimal", allow=("shell.exec", "web.search"))},
        providers={"ollama": layer("messaging", deny=("web.fetch",))},
    )
    assert left(rules) == left(rules, agent="someone", provider="else") == CODING | {"my.tool"}
    assert left(rules, agent="fast") == MINIMAL | {"shell.exec", "my.tool"}, "an override cannot add web.search again"
    assert left(rules, provider="ollama") == ((CODING & MESSAGING) - {"web.fetch"}) | {"my.tool"}
    assert left(rules, agent="fast", provider="ollama") == (MINIMAL - {"web.fetch"}) | {"my.tool"}


@pytest.mark.spec("P4")
def test_an_override_without_a_profile_keeps_what_it_allows_or_removes_what_it_denies() -> None:
    rules = PolicyRules(
        agents={"only": layer(allow=("file.read", "k8s.*")), "but": layer(deny=("shell.exec",)), "same": layer()}
    )
    assert left(rules, agent="only") == {"file.read"}
    assert left(rules, agent="but") == (CODING - {"shell.exec"}) | {"my.tool"}
    assert left(rules, agent="same") == CODING | {"my.tool"}


@pytest.mark.spec("P4")
def test_a_skill_has_only_the_tools_in_its_manifest() -> None:
    rules = PolicyRules(
        skills={
            "reader": SkillPermissions(("file.read", "group:git", "k8s.*"), "`permissions.tools`"),
            "none": SkillPermissions((), "its manifest.json has no `permissions`"),
        }
    )
    assert left(rules, skill="reader") == {"file.read", "git.status", "git.diff", "git.log"}
    assert left(rules, skill="none") == left(rules, skill="unheard of") == left(rules, skill="") == set()


@pytest.mark.spec("P4")
def test_every_layer_of_an_untrusted_file_restricts() -> None:
    layers = (layer("full", allow=("*",)), layer(deny=("git.*",)), layer("coding"))
    gone = {"git.status", "git.diff", "git.log"}
    assert left(PolicyRules(profile="minimal", narrow=layers)) == (MINIMAL - gone) | {"my.tool"}


@pytest.mark.spec("P5")
def test_visible_tools_and_allowed_tools_are_the_same() -> None:
    policy = compiled(PolicyRules(profile="messaging", deny=("memory.*",)))
    shown = policy.visible(EVERY)
    for tool in EVERY:
        assert policy.allows(tool) == (tool in shown) == (policy.decide(tool).verdict is Verdict.APPROVE)


@pytest.mark.spec("P5")
def test_a_replaced_tool_is_checked_again() -> None:
    policy = compiled(PolicyRules())
    builtin = BUILTINS["file.read"]
    assert policy.allows(builtin)
    foreign = Tool(name="file.read", source="mcp:evil")
    assert not policy.allows(foreign)
    assert policy.decide(foreign).verdict is Verdict.DENY
    assert policy.allows(builtin)
    assert policy.decide(builtin).verdict is Verdict.APPROVE


@pytest.mark.spec("P5")
def test_callers_of_the_same_kind_share_one_compiled_policy() -> None:
    policy = Policy(PolicyRules(agents={"fast": layer("minimal")}))
    plain = policy.compile(Caller(interface="cli", session="1"))
    assert policy.compile(Caller(interface="mcp", session="2", agent="unlisted", provider="any")) is plain
    assert policy.compile(Caller(agent="fast")) is not plain
    assert policy.compile(Caller(agent="fast", session="x")) is policy.compile(Caller(agent="fast"))
    for number in range(1000):
        assert not policy.compile(Caller(skill=f"s{number}")).allows(OWN)


@pytest.mark.spec("P3", "P4")
@pytest.mark.parametrize(
    ("rules", "caller", "tool", "verdict", "source", "words"),
    [
        (PolicyRules(), {}, "file.read", "approve", "tools.profile", "the profile 'coding' includes 'file.read'"),
        (PolicyRules(), {}, "my.tool", "approve", "tools.profile", "your program registered"),
        (PolicyRules(profile="full"), {}, "k8s.pods", "approve", "tools.profile", "'full' includes every tool"),
        (PolicyRules(), {}, "k8s.pods", "deny", "tools.profile", "add it to tools.allow"),
        (PolicyRules(allow=("group:k8s",)), {}, "k8s.pods", "approve", "tools.allow", "'group:k8s' in tools.allow"),
        (PolicyRules(deny=("re*",)), {}, "file.read", "deny", "tools.deny", "'re*' in tools.deny"),
        (
            PolicyRules(agents={"fast": layer("minimal")}),
            {"agent": "fast"},
            "shell.exec",
            "deny",
            "tools.agents.fast.profile",
            "the profile 'minimal' does not include 'shell.exec'",
        ),
        (
            PolicyRules(providers={"ollama": layer(allow=("file.*",))}),
            {"provider": "ollama"},
            "shell.exec",
            "deny",
            "tools.providers.ollama.allow",
            "does not name 'shell.exec'",
        ),
        (PolicyRules(), {"skill": "x"}, "file.read", "deny", "skill:x", "has no tools: it has no manifest.json"),
        (
            PolicyRules(narrow=(layer(), layer(deny=("bash",)))),
            {},
            "shell.exec",
            "deny",
            "tools.narrow[1].deny",
            "'bash' in tools.narrow[1].deny",
        ),
    ],
)
def test_a_decision_names_the_layer_and_the_entry_that_decided(
    rules: PolicyRules, caller: dict[str, str], tool: str, verdict: str, source: str, words: str
) -> None:
    (subject,) = (known for known in EVERY if known.name == tool)
    decision = compiled(rules, **caller).decide(subject)
    assert (decision.verdict, decision.source) == (verdict, source)
    assert words in decision.reason


@pytest.mark.spec("R6")
def test_unknown_names_cause_a_warning_with_a_suggestion() -> None:
    tools = ToolsConfig(
        allow=("shell.exce", "group:runtme", "mcp:none:*", "group:acme", "read"),
        deny=("k8s.pods",),
        agents={"fast": layer(deny=("bsh",))},
        providers={"ollama": layer(allow=("entirely.unknown",))},
        narrow=(layer(deny=("file.raed",)),),
        config={"bash": {}, "shel.exec": {}},
    )
    approval = ApprovalConfig(
        auto_approve=("$defualt", "file.raed", "json", "$mine"),
        importable=("json", "file.raed"),
        excluded=("file.wirte",),
        presets={"$mine": Preset(approve=("file.lst",), deny=("bassh",))},
        narrow=(("git.dif",),),
    )
    config = Config(
        tools=tools, approval=approval, confirmation=ConfirmationConfig(actions={"git.*": "log", "shell.exek": "log"})
    )
    skills = {"s": SkillPermissions(("git.stats",), "x")}
    places = {
        "tools.allow names 'shell.exce'": "tool or group. Did you mean 'shell.exec'?",
        "tools.allow names 'group:runtme'": "tool or group. Did you mean 'group:runtime'?",
        "tools.agents.fast.deny names 'bsh'": "tool or group. Did you mean 'bash'?",
        "tools.providers.ollama.allow names 'entirely.unknown'": "tool or group. It has no effect.",
        "tools.narrow[0].deny names 'file.raed'": "tool or group. Did you mean 'file.read'?",
        "The skill 's' names 'git.stats'": "tool or group. Did you mean 'git.status'?",
        "tools.config names 'shel.exec'": "tool or group. Did you mean 'shell.exec'?",
        "approval.auto_approve names '$defualt'": "preset. Did you mean '$default'?",
        "approval.auto_approve names 'file.raed'": "tool or group. Did you mean 'file.read'?",
        "The `remove` of approval.auto_approve names 'file.wirte'": "tool or group. Did you mean 'file.write'?",
        "approval.auto_approve of the machine or of an untrusted file names 'git.dif'": (
            "tool or group. Did you mean 'git.diff'?"
        ),
        "approval.presets.$mine.approve names 'file.lst'": "tool or group. Did you mean 'file.list'?",
        "approval.presets.$mine.deny names 'bassh'": "tool or group. Did you mean 'bash'?",
        "confirmation.actions names 'shell.exek'": "tool or group. Did you mean 'shell.exec'?",
    }
    assert check_names(config, EVERY, skills) == [
        f"{place}, but there is no such {hint}" for place, hint in places.items()
    ]
    assert check_names(Config(), EVERY) == []


@pytest.mark.spec("R6")
def test_names_of_a_server_that_is_not_connected_cause_no_warning() -> None:
    servers = {"hub": McpServer(command="hub")}
    config = Config(tools=ToolsConfig(deny=("mcp:hub:isue", "mcp__hub__isue")), mcp=McpConfig(servers=servers))
    assert check_names(config, EVERY) == []
    there = Tool(name="mcp:hub:issue", source="mcp:hub")
    assert len(check_names(config, [*EVERY, there])) == 2


@pytest.mark.spec("P5")
def test_a_cached_decision_is_fast() -> None:
    rules = PolicyRules(deny=tuple(f"x{number}.*" for number in range(200)))
    tool = BUILTINS["file.read"]
    new = iter([compiled(rules) for _ in range(20)])
    policy = compiled(rules)
    policy.allows(tool)
    assert least(lambda: policy.allows(tool), 200) * 10 < least(lambda: next(new).allows(tool), 20)


@pytest.mark.spec("P3", "K1")
@pytest.mark.parametrize(
    ("rules", "caller", "allowed"),
    [
        (PolicyRules(servers=frozenset({"fs"})), Caller(), True),
        (PolicyRules(servers=frozenset({"fs"}), profile="minimal"), Caller(), True),
        (PolicyRules(servers=frozenset({"other"})), Caller(), False),
        (PolicyRules(servers=frozenset({"fs"}), deny=("mcp:*",)), Caller(), False),
        (PolicyRules(servers=frozenset({"fs"}), agents={"s": PolicyLayer(profile="full")}), Caller(agent="s"), True),
        (PolicyRules(servers=frozenset({"fs"}), agents={"s": PolicyLayer(profile="coding")}), Caller(agent="s"), False),
        (PolicyRules(servers=frozenset({"fs"}), narrow=(PolicyLayer(profile="coding"),)), Caller(), False),
    ],
)
def test_configuring_a_server_allows_its_tools(rules: PolicyRules, caller: Caller, *, allowed: bool) -> None:
    tool = Tool(name="mcp:fs:read_file", source="mcp:fs")
    assert Policy(rules).compile(caller).allows(tool) is allowed
