from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.config.config import Config, PolicyLayer, Preset, SecretSource
from holdfast.config.layers import load
from holdfast.contract.enums import Risk
from holdfast.contract.errors import ConfigError
from tests.config.conftest import LoadHere, Write


def refused(load_here: LoadHere, **more: object) -> str:
    with pytest.raises(ConfigError) as raised:
        load_here(**more)
    return str(raised.value)


@pytest.mark.spec("E1a")
def test_without_files_the_defaults_apply(load_here: LoadHere) -> None:
    loaded = load_here()
    assert loaded.config == loaded.outer == Config()
    assert loaded.layers == () and loaded.notices == ()
    assert load(root=None, is_trusted=lambda _p, _d: False).config == Config()


@pytest.mark.spec("E1a")
def test_later_layers_override_earlier_ones(load_here: LoadHere, write_user: Write, write_project: Write) -> None:
    write_user("[tools]\nmax_depth = 1\nmax_concurrent = 1\ndefault_timeout = 1\nsearch_threshold = 1")
    write_project("[tools]\nmax_concurrent = 2\ndefault_timeout = 2\nsearch_threshold = 2")
    tools = load_here(
        trust=True,
        document={"tools": {"default_timeout": 3, "search_threshold": 3}},
        document_trusted=True,
        flags={"tools.search_threshold": 4},
    ).config.tools
    assert (tools.max_depth, tools.max_concurrent, tools.default_timeout, tools.search_threshold) == (1, 2, 3.0, 4)


@pytest.mark.spec("A2")
def test_the_outer_configuration_excludes_the_document_and_keeps_the_flags(
    load_here: LoadHere, write_user: Write
) -> None:
    write_user('[approval]\nauto_approve = ["$mine"]\n[approval.presets."$mine"]\ndeny = ["web.*"]')
    loaded = load_here(
        document={"approval": {"auto_approve": ["file.read"]}}, document_trusted=True, flags={"tools.profile": "full"}
    )
    assert loaded.config.approval.auto_approve == ("file.read",)
    assert loaded.outer.approval.auto_approve == ("$mine",)
    assert loaded.outer.tools.profile == loaded.config.tools.profile == "full"
    report = loaded.layer("document")
    assert report is not None and "approval.auto_approve" in report.keys and loaded.layer("project") is None


@pytest.mark.spec("E1a")
def test_tables_merge_key_by_key_and_lists_are_replaced(load_here: LoadHere, write_user: Write) -> None:
    write_user(
        """
        [tools.agents.bot]
        profile = "minimal"
        deny = ["web.fetch"]
        [tools.config."shell.exec"]
        shell = "zsh"
        env = { A = "1", B = "2" }
        """
    )
    tools = load_here(
        document={
            "tools": {
                "agents": {"bot": {"deny": ["git.*"]}, "other": {"allow": ["x"]}},
                "config": {"shell.exec": {"env": {"B": "3"}}},
            }
        },
        document_trusted=True,
    ).config.tools
    assert tools.agents == {
        "bot": PolicyLayer(profile="minimal", deny=("git.*",)),
        "other": PolicyLayer(allow=("x",)),
    }
    assert tools.config == {"shell.exec": {"shell": "zsh", "env": {"A": "1", "B": "3"}}}


@pytest.mark.spec("A7")
def test_list_operations_work_on_the_value_of_the_layer_below(load_here: LoadHere, write_user: Write) -> None:
    write_user('[approval.auto_approve]\nappend = ["shell.exec"]\nremove = "file.write"')
    first = load_here().config.approval
    assert first.auto_approve == ("$default", "shell.exec") and first.excluded == ("file.write",)
    assert first.importable == ("shell.exec",)
    document = {"approval": {"auto_approve": {"$append": ["file.write", "$default"]}}}
    second = load_here(document=document, document_trusted=True).config.approval
    assert second.auto_approve == ("shell.exec", "file.write", "$default") and second.excluded == ()


@pytest.mark.spec("A7")
def test_every_list_can_be_edited_also_inside_named_tables(load_here: LoadHere, write_user: Write) -> None:
    write_user(
        """
        sandbox.network = ["a.example"]
        tools.agents.bot.deny = ["x"]
        approval.presets."$p".deny = ["d"]
        """
    )
    config = load_here(
        document={
            "sandbox": {"network": {"append": "b.example"}, "read_deny": {"remove": "~/.ssh"}},
            "tools": {"agents": {"bot": {"deny": {"append": "y"}}}, "allow": {"append": "z"}},
            "approval": {"presets": {"$p": {"deny": {"prepend": "c"}}}},
        },
        document_trusted=True,
    ).config
    assert config.sandbox.network == ("a.example", "b.example")
    assert "~/.ssh" not in config.sandbox.read_deny and "~/.aws" in config.sandbox.read_deny
    assert config.tools.agents["bot"].deny == ("x", "y") and config.tools.allow == ("z",)
    assert config.approval.presets["$p"] == Preset(deny=("c", "d"))


@pytest.mark.spec("A7")
def test_removing_a_missing_item_gives_a_notice(load_here: LoadHere) -> None:
    loaded = load_here(flags={"tools.allow": {"remove": ["web.fetch"]}})
    assert loaded.config.tools.allow == ()
    assert loaded.notices == ("flags: tools.allow: 'web.fetch' is not in the list; nothing was removed.",)


@pytest.mark.spec("A5a", "A7")
def test_the_user_can_set_a_function_which_cannot_be_edited_as_a_list(load_here: LoadHere, write_user: Write) -> None:
    write_user('[approval]\nauto_approve = "my_pkg.policy:approve"')
    approval = load_here().config.approval
    assert approval.auto_approve == "my_pkg.policy:approve" and approval.importable == ("my_pkg.policy:approve",)
    edited = {"approval": {"auto_approve": {"append": ["file.read"]}}}
    assert "not a list. Give a complete list" in refused(load_here, document=edited, document_trusted=True)
    replaced = {"approval": {"auto_approve": ["file.read"]}}
    assert load_here(document=replaced, document_trusted=True).config.approval.auto_approve == ("file.read",)


@pytest.mark.spec("A5a")
def test_only_items_from_user_level_configuration_may_be_imported(
    load_here: LoadHere, write_user: Write, write_project: Write
) -> None:
    write_user('[approval]\nauto_approve = ["mine.policy"]')
    write_project('[approval]\nauto_approve = { append = ["theirs.policy"] }')
    approval = load_here(trust=True, flags={"approval.auto_approve": {"append": ["flag.policy"]}}).config.approval
    assert approval.auto_approve == ("mine.policy", "theirs.policy", "flag.policy")
    assert approval.importable == ("mine.policy", "flag.policy")


@pytest.mark.spec("A6")
def test_every_layer_adds_protected_patterns_and_none_removes_them(load_here: LoadHere, write_user: Write) -> None:
    write_user('protected = ["infra"]')
    assert load_here(flags={"protected": ["deploy"]}).config.protected == ("infra", "deploy")
    assert load_here(flags={"protected": {"set": ["deploy"]}}).config.protected == ("infra", "deploy")
    assert "cannot be removed" in refused(load_here, flags={"protected": {"remove": ["infra"]}})


@pytest.mark.spec("P7")
def test_a_secret_has_exactly_one_source_and_a_later_layer_replaces_it(load_here: LoadHere, write_user: Write) -> None:
    write_user(
        """
        [secrets]
        github = { env = "GH_TOKEN" }
        mail = { keyring = "mail/me" }
        s3 = { command = ["pass", "s3"] }
        """
    )
    secrets = load_here(flags={"secrets": {"github": {"command": ["gh", "auth", "token"]}}}).config.secrets
    assert secrets == {
        "github": SecretSource(command=("gh", "auth", "token")),
        "mail": SecretSource(keyring="mail/me"),
        "s3": SecretSource(command=("pass", "s3")),
    }
    wrong: list[dict[str, object]] = [{}, {"env": "A", "keyring": "b/c"}, {"command": []}, {"keyring": "no-slash"}]
    for source in wrong:
        assert "secrets.x" in refused(load_here, flags={"secrets": {"x": source}})


@pytest.mark.spec("E1a")
def test_skill_folders_are_relative_to_their_layer(load_here: LoadHere, root: Path, write_user: Write) -> None:
    user = write_user('[tools.skills]\na = "skills/a"\nb = "~/b"')
    skills = load_here(document={"tools": {"skills": {"c": "c"}}}, document_trusted=True).config.tools.skills
    assert skills == {"a": str(user.parent / "skills/a"), "b": str(Path.home() / "b"), "c": str(root / "c")}
    assert "another user's home" in refused(load_here, flags={"tools.skills": {"d": "~root/x"}})


@pytest.mark.spec("E1a")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tols]", "holdfast.toml: tols is not an option. Did you mean 'tools'?"),
        ("[tools]\nprofil = 'full'", "tools.profil is not an option. Did you mean 'profile'?"),
        ("[tools]\nzzzzzzzz = 1", "tools.zzzzzzzz is not an option. Options here: agents, allow"),
        ("[tools.agents.bot]\nalow = []", "tools.agents.bot.alow is not an option. Did you mean 'allow'?"),
        ("[tools]\nprofile = 'codin'", "tools.profile: expected one of minimal, messaging, coding, full, got 'codin'"),
        ("[tools]\nprofile = 3", "tools.profile: expected `str`, got `int`."),
        ("[tools]\nmax_depth = 'deep'", "tools.max_depth: expected `int`, got `str`."),
        ("[tools]\nmax_depth = true", "tools.max_depth: expected `int`, got `bool`."),
        ("[tools]\ndefault_timeout = nan", "tools.default_timeout: expected `float`"),
        ("[tools]\ndefault_timeout = inf", "tools.default_timeout: expected `float` <="),
        ("[tools]\ndefault_timeout = 0", "tools.default_timeout: expected `float` > 0"),
        ("[tools]\nallow = 'file.read'", "tools.allow: expected a list of strings, got a string."),
        ("[tools]\nallow = ['']", "tools.allow[0]: expected `str` of length >= 1."),
        ("tools = 3", "tools: expected a table, got 3."),
        ("[tools]\nagents = ['x']", "tools.agents: expected a table, got ['x']."),
        ("[tools]\nconfig = { x = 3 }", "tools.config.x: expected `object`, got `int`."),
        (
            "[confirmation.actions]\n'file.*' = 'conform'",
            'confirmation.actions."file.*": expected one of confirm, log, silent',
        ),
        ("[approval]\nmax_risk = 'hihg'", "approval.max_risk: expected one of low, medium, high, got 'hihg'. Did you"),
        ("[approval]\nauto_approve = '$default'", "Use a list for tools or presets"),
        ("[approval.presets.mine]\napprove = []", "approval.presets.mine: a preset name must start with `$`"),
        ("[sandbox]\nnetwork = 'of'", "sandbox.network: expected one of off, on, got 'of'"),
        ("[tools]\nnarrow = []", "tools.narrow is not an option"),
        ("[approval]\nremoved = []", "approval.removed is not an option"),
        ("[approval]\nexcluded = []", "approval.excluded is not an option"),
        ("[approval]\nimportable = ['x']", "approval.importable is not an option"),
        ("[approval]\nnarrow = [['x']]", "approval.narrow is not an option"),
        ("[tools", "is not valid TOML"),
        (
            "[[approval.commands]]\nrule = 'ls'\nverdict = 'permit'",
            "approval.commands[0].verdict: expected one of approve, ask, deny, got 'permit'.",
        ),
        ("[[approval.commands]]\nrul = 'ls'", "approval.commands[0].rul is not an option. Did you mean 'rule'?"),
    ],
)
@pytest.mark.parametrize("trust", [True, False])
def test_an_error_names_the_file_the_key_and_the_expected_value(
    load_here: LoadHere, write_project: Write, text: str, says: str, trust: bool
) -> None:
    path = write_project(text)
    message = refused(load_here, trust=trust)
    assert says in message and message.startswith(str(path)) and "\n" not in message


@pytest.mark.spec("A11")
@pytest.mark.parametrize(("word", "verdict"), [("allow", "approve"), ("confirm", "ask"), ("deny", "deny")])
def test_synonyms_for_a_verdict_are_accepted(load_here: LoadHere, write_user: Write, word: str, verdict: str) -> None:
    write_user(f"[[approval.commands]]\nrule = 'ls'\nverdict = '{word}'")
    (rule,) = load_here().config.approval.commands
    assert rule.verdict == verdict


@pytest.mark.spec("E1a")
def test_an_error_in_the_user_file_or_a_document_is_fatal_too(load_here: LoadHere, write_user: Write) -> None:
    assert refused(load_here, document={"hook": {}}, document_name="a.chat").startswith("a.chat: hook is not an option")
    assert "Use plain tables" in refused(load_here, document={"tools": {"config": {"x": {"f": object()}}}})
    assert "surrogate" in refused(load_here, document={"tools": {"allow": ["\ud800"]}})
    path = write_user("[tools]\nprofile = 1")
    assert refused(load_here).startswith(str(path))


@pytest.mark.spec("E1a")
def test_a_file_that_is_not_regular_or_not_readable_is_refused_without_blocking(
    load_here: LoadHere, root: Path, write_project: Write
) -> None:
    path = root / "holdfast.toml"
    os.mkfifo(path)
    assert "not a regular file" in refused(load_here)
    path.unlink()
    path.mkdir()
    assert "not a regular file" in refused(load_here)
    path.rmdir()
    path.symlink_to(root / "gone.toml")
    assert "broken symlink" in refused(load_here)
    path.unlink()
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refused(load_here)
    path.write_bytes(b"#" * (1024 * 1024 + 1))
    assert "larger than" in refused(load_here)
    write_project("[tools.config.x]\nx = " + "[" * 20_000 + "]" * 20_000)
    assert "nested too deeply" in refused(load_here)


@pytest.mark.spec("E1a")
def test_an_explicitly_named_user_file_must_exist(load_here: LoadHere, tmp_path: Path) -> None:
    assert "There is no configuration file" in refused(load_here, user_file=tmp_path / "no.toml")
    given = tmp_path / "other.toml"
    given.write_text("[tools]\nprofile = 'full'")
    assert load_here(user_file=given).config.tools.profile == "full"


@pytest.mark.spec("A2")
def test_a_user_configuration_inside_the_project_only_tightens_until_it_is_trusted(
    load_here: LoadHere, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / ".config"))
    (root / ".config/holdfast").mkdir(parents=True)
    (root / ".config/holdfast/config.toml").write_text("[tools]\nprofile = 'full'\ndeny = ['shell.exec']\n")
    loaded = load_here()
    assert (loaded.config.tools.profile, loaded.config.tools.deny) == ("coding", ("shell.exec",))
    assert any("holdfast trust" in notice for notice in loaded.notices)


@pytest.mark.spec("E1a")
def test_flags_are_keyed_by_option_and_cannot_conflict(load_here: LoadHere) -> None:
    config = load_here(flags={"approval.max_risk": "low", "confirmation": {"actions": {"file.*": "confirm"}}}).config
    assert config.approval.max_risk is Risk.LOW and config.confirmation.actions == {"file.*": "confirm"}
    assert "Keep one" in refused(load_here, flags={"tools.profile": "full", "tools": {"profile": "minimal"}})
    assert "Keep one" in refused(load_here, flags={"tools": {"profile": "full"}, "tools.profile.x": 1})


@pytest.mark.spec("E1a")
def test_dates_in_tool_settings_become_text(load_here: LoadHere, write_user: Write) -> None:
    write_user("[tools.config.x]\nsince = 2024-05-01")
    assert load_here().config.tools.config == {"x": {"since": "2024-05-01"}}


@pytest.mark.spec("E1a")
def test_a_layer_report_has_name_path_digest_and_keys(load_here: LoadHere, write_project: Write) -> None:
    path = write_project("[tools]\nprofile = 'full'")
    asked: list[tuple[Path, str]] = []

    def is_trusted(path: Path, digest: str) -> bool:
        asked.append((path, digest))
        return True

    loaded = load(root=path.parent, is_trusted=is_trusted)
    digest = sha256(path.read_bytes()).hexdigest()
    assert asked == [(path, digest)]
    [report] = loaded.layers
    assert (report.name, report.path, report.digest) == ("project", str(path), digest)
    assert report.trusted and report.applied and report.keys == ("tools.profile",) and report.ignored == ()
