from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings

from holdfast.config.config import (
    CommandRule,
    Config,
    GuardrailsConfig,
    PolicyLayer,
    Preset,
    SandboxConfig,
    effective_options,
)
from holdfast.config.layers import load
from holdfast.config.merge import merge_layer
from holdfast.config.options import APPROVES_NOTHING, Option, describe_loosening, is_section, options
from holdfast.contract.enums import Risk
from holdfast.contract.errors import ConfigError
from tests.config.conftest import LoadHere, Write
from tests.config.layer_strategies import ACTIONS, PRECEDENCES, TOOLS, Table, action, exists, layers, severity, to_toml
from tests.config.strictness import at_least_as_strict, looser_options
from tests.soak import rounds

UNTRUSTED = settings(max_examples=rounds(60, 300), deadline=None)


def loaded(user: Table, project: Table | None = None, document: Table | None = None) -> Config:
    with tempfile.TemporaryDirectory() as folder:
        root, user_file = Path(folder, "project"), Path(folder, "user.toml")
        root.mkdir()
        user_file.write_text(to_toml(user))
        if project is not None:
            (root / "holdfast.toml").write_text(to_toml(project))
        try:
            return load(root=root, user_file=user_file, is_trusted=lambda _p, _d: False, document=document).config
        except ConfigError as error:
            # The only conflict that a generated pair of layers may have.
            assume("not a list" not in str(error))
            raise


@pytest.mark.spec("A2")
@UNTRUSTED
@given(user=layers, project=layers, document=layers)
def test_an_untrusted_layer_never_loosens_the_layer_below(user: Table, project: Table, document: Table) -> None:
    base, one, two = loaded(user), loaded(user, project), loaded(user, project, document)
    assert looser_options(one, base) == []
    assert looser_options(two, one) == []


@pytest.mark.spec("A2", "P4")
@UNTRUSTED
@given(user=layers, project=layers, document=layers)
def test_untrusted_layers_never_allow_what_the_user_forbids(user: Table, project: Table, document: Table) -> None:
    base, result = loaded(user), loaded(user, project, document)
    for tool in TOOLS:
        for agent in (None, "bot", "other"):
            assert exists(base, tool, agent) or not exists(result, tool, agent)
        assert severity(result, tool) >= severity(base, tool)
        for precedence in PRECEDENCES.values():
            for otherwise in ACTIONS:
                assert action(result, tool, precedence, otherwise) <= action(base, tool, precedence, otherwise)


@pytest.mark.spec("A2")
@UNTRUSTED
@given(user=layers, project=layers)
def test_applying_an_untrusted_layer_is_idempotent(user: Table, project: Table) -> None:
    once, twice = loaded(user, project), loaded(user, project, project)
    assert at_least_as_strict(twice, once)
    for tool in TOOLS:
        assert (exists(twice, tool), severity(twice, tool)) == (exists(once, tool), severity(once, tool))


@pytest.mark.spec("A2")
@UNTRUSTED
@given(config=layers)
def test_strictness_is_reflexive(config: Table) -> None:
    assert at_least_as_strict(loaded(config), loaded(config))


LOOSER: list[tuple[str, Any]] = [
    ("tools.profile", "full"),
    ("tools.allow", ["web.fetch"]),
    ("tools.deny", []),
    ("tools.caps", "standard"),
    ("tools.default_timeout", 600),
    ("tools.strict_check", "warn"),
    ("tools.max_concurrent", 99),
    ("tools.search_threshold", 999),
    ("tools.max_depth", 99),
    ("tools.modules", ["evil"]),
    ("tools.entry_points", True),
    ("tools.agents", {"bot": {"profile": "full"}}),
    ("tools.providers", {"p": {"deny": []}}),
    ("tools.skills", {"s": "other"}),
    ("tools.config", {"shell.exec": {"shell": "evil"}}),
    ("approval.auto_approve", ["*"]),
    ("approval.auto_approve_sandboxed", True),
    ("approval.require_approval", False),
    ("approval.presets", {"$mine": {"approve": ["*"]}}),
    ("approval.commands", [{"rule": "make test", "verdict": "approve"}]),
    ("approval.widen", ["hosts", "network", "outside"]),
    ("approval.max_risk", "high"),
    ("approval.two_people", "high"),
    ("approval.on_error", "skip"),
    ("approval.expires", 99_999),
    ("pending.ttl", 9_999_999),
    ("confirmation.autonomy", "autonomous"),
    ("confirmation.actions", {"file.*": "silent"}),
    ("sandbox.mode", "off"),
    ("sandbox.writable", ["/"]),
    ("sandbox.read_deny", {"set": []}),
    ("sandbox.read_deny", ["!.env"]),
    ("sandbox.network", "on"),
    ("sandbox.backend", "other"),
    ("sandbox.environment", ["AWS_SECRET_ACCESS_KEY"]),
    ("sandbox.memory", 2**40),
    ("sandbox.processes", 10**6),
    ("sandbox.file_size", 2**40),
    ("sandbox.open_files", 10**6),
    ("sandbox.cpu_seconds", 10**6),
    ("sandbox.undo", "off"),
    ("sandbox.undo_max_files", 1),
    ("sandbox.undo_max_bytes", 1),
    ("network.hosts", ["evil.example"]),
    ("network.private", ["127.0.0.1"]),
    ("browser.executable", "/tmp/chrome"),
    ("browser.headless", False),
    ("browser.subresources", "public"),
    ("browser.user_agent", "Mozilla/5.0"),
    ("browser.navigation_timeout", 600.0),
    ("browser.action_timeout", 600.0),
    ("browser.max_browsers", 1000),
    ("browser.max_downloads", 1000),
    ("browser.max_download_bytes", 10**12),
    ("web.user_agent", "Mozilla/5.0"),
    ("web.robots", False),
    ("web.rate", 100.0),
    ("web.burst", 1000),
    ("web.max_bytes", 10**12),
    ("web.cache_bytes", 10**12),
    ("web.cache_seconds", 999_999.0),
    ("web.search", "brave"),
    ("web.search_url", "https://evil.example"),
    ("output.max_lines", 99_999),
    ("output.max_bytes", 99_999_999),
    ("output.max_spill", 10**12),
    ("output.max_output_bytes", 10**9),
    ("output.max_attachments", 1000),
    ("output.max_attachment_bytes", 2**26),
    ("ledger.enabled", False),
    ("ledger.durability", "process"),
    ("ledger.keep_days", 1),
    ("ledger.max_blob_bytes", 1),
    ("media.vision_model", "openai:gpt-5"),
    ("media.transcription_model", "openai:whisper-1"),
    ("media.whisper_model", "/models/evil"),
    ("media.max_bytes", 10**12),
    ("media.max_pixels", 10**12),
    ("media.max_seconds", 999_999.0),
    ("memory.namespaces", ["*"]),
    ("memory.shared", ["private/*"]),
    ("memory.embedder", "small"),
    ("memory.max_item_bytes", 2**30),
    ("minio.endpoint", "https://evil.example"),
    ("minio.public_endpoint", "https://evil.example"),
    ("minio.bucket", "evil"),
    ("minio.buckets", ["evil"]),
    ("minio.region", "evil-1"),
    ("minio.access_key", "evil"),
    ("minio.secret", "other"),
    ("notify.terminal", False),
    ("notify.desktop", False),
    ("notify.webhook", "https://evil.example/hook"),
    ("notify.webhook_secret", "other"),
    ("notify.ntfy", "https://evil.example/topic"),
    ("notify.ntfy_token", "other"),
    ("notify.burst", 600),
    ("notify.quiet", "00:00-23:59"),
    ("notify.min_risk", "high"),
    ("minio.style", "virtual"),
    ("minio.ca_file", "evil.pem"),
    ("minio.timeout", 9999),
    ("minio.max_upload_bytes", 2**40),
    ("minio.max_object_bytes", 2**40),
    ("minio.max_link_seconds", 604_800),
    ("google.client_id", "evil.apps.googleusercontent.com"),
    ("google.account", "work"),
    ("google.families", ["gcal", "gmail"]),
    ("google.max_bytes", 2**30),
    ("google.endpoint", "https://evil.example"),
    ("k8s.kubeconfig", "/evil/config"),
    ("k8s.context", "production"),
    ("k8s.contexts", ["*"]),
    ("k8s.exec_plugins", True),
    ("k8s.insecure", True),
    ("model.name", "openai:gpt-evil"),
    ("model.timeout", 9999),
    ("model.connect_timeout", 99),
    ("model.retries", 20),
    ("model.context", 10**9),
    ("model.providers", {"p": {"base_url": "https://evil.example"}}),
    ("chat.autopilot", True),
    ("chat.max_turns", 9999),
    ("chat.files", "anywhere"),
    ("mcp.servers", {"evil": {"command": "evil"}}),
    ("mcp.wait", 999),
    ("mcp.client_approves", True),
    *((f"guardrails.{rule}", False) for rule in GuardrailsConfig.__struct_fields__),
    ("secrets", {"token": {"command": ["evil"]}}),
    ("agent", "other"),
    ("skill", "other"),
]
TASTE: list[tuple[str, Any]] = [
    ("memory.keyword_weight", 0.9),
    ("k8s.namespace", "kube-system"),
    ("model.thinking", "max"),
    ("model.max_tokens", "90%"),
    ("model.temperature", 1.5),
    ("model.cache_retention", "long"),
    ("model.foreign_thinking", "drop"),
    ("model.protocol", "text"),
    ("model.vision", False),
    ("chat.cursor_after_result", "next"),
]
"""Options that allow nothing additional, so an untrusted layer may change them freely."""
STRICT: Table = {
    "agent": "bot",
    "skill": "s",
    "tools": {
        "deny": ["shell.exec"],
        "caps": "small",
        "strict_check": "error",
        "entry_points": False,
        "agents": {"bot": {"profile": "minimal"}},
        "providers": {"p": {"deny": ["web.*"]}},
        "skills": {"s": "here"},
    },
    "approval": {
        "auto_approve_sandboxed": False,
        "max_risk": "low",
        "two_people": "low",
        "on_error": "ask",
        "expires": 60,
        "widen": [],
    },
    "pending": {"ttl": 60},
    "confirmation": {"autonomy": "cautious", "actions": {"file.*": "confirm"}},
    "sandbox": {"mode": "required", "cpu_seconds": 10},
    "browser": {"subresources": "approved"},
    "output": {"max_output_bytes": 1000},
    "ledger": {"durability": "power"},
    "memory": {"namespaces": ["public/*"]},
    "minio": {"max_link_seconds": 60},
    "google": {"families": ["gcal"]},
    "k8s": {"contexts": ["staging"]},
    "model": {"timeout": 60, "connect_timeout": 5, "retries": 1, "context": 8000},
    "chat": {"autopilot": False},
    "guardrails": {"enabled": True},
    "mcp": {"client_approves": False},
}


@pytest.mark.spec("A2")
def test_every_option_is_among_the_looser_examples() -> None:
    assert {path for path, _ in (*LOOSER, *TASTE)} | {"protected"} == set(effective_options(Config()))


@pytest.mark.spec("A2", "D7")
@pytest.mark.parametrize(("path", "value"), TASTE, ids=[path for path, _ in TASTE])
def test_free_options_need_no_trust(load_here: LoadHere, path: str, value: object) -> None:
    section, name = path.split(".")
    result = load_here(document={section: {name: value}})
    assert getattr(getattr(result.config, section), name) == value and result.notices == ()


@pytest.mark.spec("A2", "D7")
def test_an_untrusted_document_can_set_provider_parameters_but_not_the_address(
    load_here: LoadHere, write_user: Write
) -> None:
    write_user("[model.providers.anthropic]\nbase_url = 'https://mine.example'\nthinking_budget = 5")
    wanted = {"thinking_budget": 20_000, "base_url": "https://evil.example"}
    result = load_here(document={"model": {"providers": {"anthropic": wanted}}})
    provider = result.config.model.providers["anthropic"]
    assert (provider.thinking_budget, provider.base_url) == (20_000, "https://mine.example")
    assert result.layers[-1].ignored == ("model.providers.anthropic.base_url",)


@pytest.mark.spec("A2", "A6")
def test_only_the_denials_of_an_untrusted_preset_apply(load_here: LoadHere) -> None:
    mixed = {"approve": ["file.read"], "deny": ["shell.exec"]}
    approval = load_here(document={"approval": {"presets": {"$mixed": mixed}}}).config.approval
    assert approval.presets == {"$mixed": Preset(deny=("shell.exec",))}


@pytest.mark.spec("A7")
def test_a_table_that_sets_the_list_replaces_a_function(load_here: LoadHere, write_user: Write) -> None:
    write_user("approval.auto_approve = 'my.policy:approve'")
    given = {"set": ["$default"], "remove": ["file.write"]}
    approval = load_here(document={"approval": {"auto_approve": given}}, document_trusted=True).config.approval
    assert (approval.auto_approve, approval.excluded) == (("$default",), ("file.write",))


@pytest.mark.spec("A2", "A6")
@pytest.mark.parametrize(("path", "value"), LOOSER, ids=[path for path, _ in LOOSER])
@pytest.mark.parametrize("origin", ["project", "document"])
def test_a_looser_value_is_ignored_and_reported_by_key(
    load_here: LoadHere, write_user: Write, write_project: Write, path: str, value: object, origin: str
) -> None:
    write_user(to_toml(STRICT))
    before = load_here().config
    table: Table = {}
    *parents, last = path.split(".")
    (table.setdefault(parents[0], {}) if parents else table)[last] = value
    if origin == "project":
        write_project(to_toml(table))
        result, name = load_here(), "holdfast.toml"
    else:
        result, name = load_here(document=table, document_name="a b.chat"), "'a b.chat'"
    assert at_least_as_strict(result.config, before)
    report = result.layer(origin)
    assert report is not None and not report.trusted
    assert [key for key in report.ignored if key == path or key.startswith(f"{path}.")]
    [notice] = result.notices
    assert path in notice
    if path in (
        "secrets", "tools.modules", "model.providers", "network.private", "memory.shared", "web.search_url",
        "browser.executable", "media.vision_model", "media.transcription_model", "media.whisper_model",
        "minio.endpoint", "minio.public_endpoint", "minio.bucket", "minio.region", "minio.access_key", "minio.secret",
        "minio.buckets", "minio.style", "minio.ca_file", "google.client_id", "google.account", "google.endpoint",
        "k8s.kubeconfig", "k8s.exec_plugins", "k8s.insecure", "notify.webhook", "notify.webhook_secret",
        "notify.ntfy", "notify.ntfy_token",
    ):  # fmt: skip
        assert "only from user-level config" in notice
    else:
        assert notice.endswith(f"then run `holdfast trust {name}`.")


@pytest.mark.spec("A2")
@pytest.mark.parametrize(("path", "value"), LOOSER, ids=[path for path, _ in LOOSER])
def test_the_strictness_ordering_detects_each_looser_value(
    load_here: LoadHere, write_user: Write, path: str, value: object
) -> None:
    write_user(to_toml(STRICT))
    before = load_here().config
    after = load_here(flags={path: value}).config
    assert after != before
    assert path in {looser.split("_set")[0] for looser in looser_options(after, before)}


@pytest.mark.spec("A2")
def test_a_trusted_project_file_applies_fully(load_here: LoadHere, write_project: Write) -> None:
    write_project("[tools]\nprofile = 'full'\n[approval]\nauto_approve = ['shell.exec']\nrequire_approval = false")
    result = load_here(trust=True)
    assert result.config.tools.profile == "full" and not result.config.approval.require_approval
    assert result.config.approval.auto_approve == ("shell.exec",)
    assert result.config.approval.narrow == () and result.notices == ()


@pytest.mark.spec("A2")
def test_a_stricter_value_applies_without_trust(load_here: LoadHere, write_project: Write) -> None:
    write_project(
        """
        protected = ["infra"]
        tools.deny = ["web.*"]
        tools.default_timeout = 5
        tools.agents.bot.profile = "minimal"
        approval.max_risk = "low"
        approval.two_people = "medium"
        approval.on_error = "ask"
        approval.auto_approve_sandboxed = false
        approval.presets."$locked".deny = ["shell.exec"]
        confirmation.autonomy = "cautious"
        confirmation.actions."file.*" = "confirm"
        sandbox.mode = "required"
        sandbox.writable = []
        sandbox.read_deny.append = ["/srv/private"]
        output.max_lines = 10
        ledger.durability = "power"
        """
    )
    result = load_here()
    config = result.config
    assert result.notices == ()
    assert config.protected == ("infra",)
    assert config.tools.deny == ("web.*",) and config.tools.default_timeout == 5
    assert config.tools.agents == {"bot": PolicyLayer(profile="minimal")}
    assert config.approval.max_risk is Risk.LOW and config.approval.on_error == "ask"
    assert config.approval.two_people is Risk.MEDIUM
    assert not config.approval.auto_approve_sandboxed
    assert config.approval.presets == {"$locked": Preset(deny=("shell.exec",))}
    assert config.confirmation.autonomy == "cautious" and config.confirmation.actions == {"file.*": "confirm"}
    assert config.sandbox.mode == "required" and config.sandbox.writable == ()
    assert config.sandbox.read_deny == (*Config().sandbox.read_deny, "/srv/private")
    assert config.output.max_lines == 10 and config.ledger.durability == "power"


@pytest.mark.spec("A2", "A8")
def test_an_untrusted_list_only_narrows(load_here: LoadHere) -> None:
    result = load_here(document={"approval": {"auto_approve": ["file.read", "shell.exec"]}})
    approval = result.config.approval
    assert approval.auto_approve == ("$default",)
    assert approval.narrow == (("file.read", "shell.exec"),)
    assert result.layers[0].ignored == ("approval.auto_approve",) and result.layers[0].applied


@pytest.mark.spec("A2", "A7")
def test_an_untrusted_removal_excludes_the_tool(load_here: LoadHere) -> None:
    result = load_here(document={"approval": {"auto_approve": {"$remove": "file.write"}}})
    assert result.config.approval.excluded == ("file.write",) and result.notices == ()


@pytest.mark.spec("A2", "P4")
def test_an_untrusted_profile_is_intersected(load_here: LoadHere, write_user: Write) -> None:
    write_user("[tools]\nallow = ['web.search']")
    tools = load_here(document={"tools": {"profile": "minimal", "allow": ["shell.exec"]}}).config.tools
    assert (tools.profile, tools.allow) == ("coding", ("web.search",))
    assert tools.narrow == (PolicyLayer(profile="minimal", allow=("shell.exec",)),)
    assert load_here(document={"tools": {"profile": "minimal"}}).notices == ()


@pytest.mark.spec("A8")
def test_an_untrusted_file_that_enables_the_sandbox_enables_no_approvals(
    load_here: LoadHere, write_user: Write
) -> None:
    write_user("sandbox.mode = 'off'\napproval.auto_approve_sandboxed = true")
    config = load_here(document={"sandbox": {"mode": "auto"}}).config
    assert config.sandbox.mode == "auto" and not config.approval.auto_approve_sandboxed
    assert severity(config, "shell.exec") == 1


@pytest.mark.spec("A2")
def test_a_narrower_writable_path_is_ignored_because_it_could_become_a_symlink(load_here: LoadHere) -> None:
    result = load_here(document={"sandbox": {"writable": ["$root/build"]}})
    assert result.config.sandbox.writable == () and result.layers[0].ignored == ("sandbox.writable",)


@pytest.mark.spec("A5a", "P7")
@pytest.mark.parametrize("trust", [True, False])
def test_user_only_options_are_ignored_in_project_files_even_if_trusted(
    load_here: LoadHere, write_project: Write, own_home: Path, trust: bool
) -> None:
    write_project(
        """
        secrets.token.env = "TOKEN"
        tools.modules = ["their.tools"]
        approval.auto_approve = "their.policy:approve"
        """
    )
    result = load_here(trust=trust, document=None)
    assert result.config == Config()
    assert result.layers[0].ignored == ("secrets", "tools.modules", "approval.auto_approve")
    [notice] = result.notices
    assert notice.endswith(
        f"secrets, tools.modules, approval.auto_approve, which is accepted only from user-level configuration. "
        f"Move it to {own_home}/.config/holdfast/config.toml."
    )


@pytest.mark.spec("A2")
def test_a_notice_lists_a_limited_number_of_keys_without_control_characters(load_here: LoadHere) -> None:
    actions = {f"\x1b[2J{number}\u202e": "silent" for number in range(500)}
    [notice] = load_here(document={"confirmation": {"actions": actions}}).notices
    assert "and 492 more" in notice and notice.isprintable() and len(notice) < 1000


@pytest.mark.spec("A7", "A20")
@pytest.mark.parametrize("later", [["$readonly"], {"append": ["git.log"]}, {"set": []}, "my.policy:approve"])
def test_a_later_list_that_does_not_name_a_removed_tool_leaves_it_removed(
    load_here: LoadHere, write_user: Write, later: Any
) -> None:
    write_user("approval.auto_approve.remove = ['shell.exec']\napproval.auto_approve_sandboxed = true")
    approval = load_here(flags={"approval.auto_approve": later}).config.approval
    assert "shell.exec" in (*approval.excluded, *approval.removed)
    approval = load_here(flags={"approval.auto_approve": ["shell.exec"]}).config.approval
    assert (approval.excluded, approval.removed) == ((), ())


@pytest.mark.spec("A20", "A20a")
@pytest.mark.parametrize(("path", "value"), LOOSER)
def test_a_loosening_is_described_in_words(load_here: LoadHere, path: str, value: Any) -> None:
    """An option that can approve calls describes a looser value; one that approves nothing describes nothing."""
    base = merge_layer(Config(), STRICT, name="strict", folder=Path("/"), user_level=True).config
    more: Any = value
    for key in reversed(path.split(".")):
        more = {key: more}
    after = merge_layer(base, more, name="looser", folder=Path("/"), user_level=True).config
    assert bool(describe_loosening(base, after)) is (_option(path).approves is not APPROVES_NOTHING)
    assert describe_loosening(after, after) == []


@pytest.mark.spec("A20", "N2")
@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("*.bak", "", "*.bak"),
        ("*.bak", "*.bak !a.bak", "a.bak"),
        ("!a.bak *.bak", "*.bak !a.bak", "a.bak"),
        ("*.bak !a.bak", "!a.bak *.bak", ""),
        ("*.bak !a.bak", "*.bak !a.bak *.log", ""),
        ("*.bak !a.bak", "*.log *.bak !a.bak", ""),
    ],
)
def test_newly_readable_paths_are_described_in_words(before: str, after: str, shown: str) -> None:
    old, new = (Config(sandbox=SandboxConfig(read_deny=tuple(names.split()))) for names in (before, after))
    assert describe_loosening(old, new) == ([f"commands and file tools can read {shown}"] if shown else [])


def _option(path: str) -> Option:
    section, _, key = path.partition(".")
    top = options(Config)[section]
    return options(top.kind)[key] if is_section(top.kind) else top


@pytest.mark.spec("A2", "A19")
def test_a_command_rule_of_a_project_asks_at_once_and_widens_only_if_trusted(tmp_path: Path) -> None:
    rule = {"rule": "git push", "verdict": "ask", "network": ["evil.example"], "read": ["~/.ssh"], "write": ["/srv"]}
    root, user = tmp_path / "project", tmp_path / "user.toml"
    root.mkdir()
    user.write_text("")
    (root / "holdfast.toml").write_text(to_toml({"approval": {"commands": [rule]}}))
    untrusted = load(root=root, user_file=user, is_trusted=lambda _p, _d: False)
    assert untrusted.config.approval.commands == (CommandRule(rule="git push", verdict="ask"),)
    assert any("approval.commands" in notice for notice in untrusted.notices)
    trusted = load(root=root, user_file=user, is_trusted=lambda _p, _d: True)
    (whole,) = trusted.config.approval.commands
    assert (whole.network, whole.read, whole.write) == (("evil.example",), ("~/.ssh",), ("/srv",))
    user.write_text(to_toml({"approval": {"commands": [{"rule": "git push", "verdict": "ask", "network": "on"}]}}))
    (kept,) = load(root=root, user_file=user, is_trusted=lambda _p, _d: False).config.approval.commands
    assert kept.network == "on", "a project's rule removes nothing from the user's own"
