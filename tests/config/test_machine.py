"""Options of the machine's file can only be tightened by other layers; the user's file for a project needs no trust."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import assume, given, settings
from msgspec import structs, to_builtins

from holdfast.config.config import Config, PolicyLayer, Preset, effective_options
from holdfast.config.layers import LoadedConfig, load
from holdfast.config.machine import MachineFile
from holdfast.config.roots import user_project_file
from holdfast.contract.errors import ConfigError
from tests.config.conftest import LoadHere, Write
from tests.config.layer_strategies import TOOLS, Table, exists, layers, severity, to_toml
from tests.config.strictness import looser_options
from tests.config.test_options_trust_rules import LOOSER
from tests.soak import rounds

NARROWED: Final = frozenset({"tools.profile", "tools.allow", "approval.auto_approve"})
ADDED: Final = frozenset({"approval.commands", "approval.presets"})
TABLES: Final = (
    ("tools", ("agents", "providers", "skills", "config")),
    ("model", ("providers",)),
    ("mcp", ("servers",)),
)


@pytest.fixture
def machine(tmp_path: Path) -> MachineFile:
    return MachineFile(tmp_path / "etc.toml", owner=os.getuid())


def loaded(machine: Table, *above: Table) -> LoadedConfig:
    """Load the machine's configuration below a user's, a trusted project's, a trusted document's and flags."""
    user, project, document, flags = (*above, {}, {}, {}, {})[:4]
    with tempfile.TemporaryDirectory() as folder:
        root, user_file, machine_file = Path(folder, "project"), Path(folder, "user.toml"), Path(folder, "etc.toml")
        root.mkdir()
        user_file.write_text(to_toml(user))
        machine_file.write_text(to_toml(machine))
        (root / "holdfast.toml").write_text(to_toml(project))
        try:
            return load(
                root=root,
                user_file=user_file,
                is_trusted=lambda _p, _d: True,
                document=document,
                document_trusted=True,
                flags=flags,
                machine=MachineFile(machine_file, owner=os.getuid()),
            )
        except ConfigError as error:
            assume("not a list" not in str(error) and "need the command" not in str(error))
            raise


def of_the_machine(config: Config, machine: Config) -> Config:
    """Return only the table entries that the machine has."""
    for section, names in TABLES:
        part: Any = getattr(config, section)
        known: Any = getattr(machine, section)
        kept = {
            name: {key: value for key, value in getattr(part, name).items() if key in getattr(known, name)}
            for name in names
        }
        config = structs.replace(config, **{section: structs.replace(part, **kept)})
    return structs.replace(config, secrets={key: config.secrets[key] for key in machine.secrets})


def listed(config: Config) -> Config:
    """Return the configuration with `auto_approve` as the only source of approvals."""
    approval = structs.replace(
        config.approval, require_approval=True, auto_approve_sandboxed=False, max_risk=None, commands=()
    )
    return structs.replace(config, approval=approval)


@pytest.mark.spec("P8")
@settings(max_examples=rounds(60, 400), deadline=None)
@given(base=layers, user=layers, project=layers, document=layers)
def test_no_layer_loosens_what_the_machine_sets(base: Table, user: Table, project: Table, document: Table) -> None:
    alone, whole = loaded(base), loaded(base, user, project, document)
    report = alone.layer("machine")
    assert report is not None
    keys, before, after = set(report.keys), alone.config, whole.config
    looser = set(looser_options(of_the_machine(after, before), before)) & (keys - NARROWED - ADDED)
    assert looser == set()
    ask, deny = 1, 2
    limit = PolicyLayer(profile=before.tools.profile, allow=before.tools.allow)
    for tool in TOOLS:
        if keys & {"tools.profile", "tools.allow"}:
            only = Config(tools=structs.replace(Config().tools, profile="full", narrow=(limit,)))
            assert exists(only, tool) or not exists(after, tool)
        if "approval.auto_approve" in keys and not isinstance(before.approval.auto_approve, str):
            was, now = severity(listed(before), tool), severity(listed(after), tool)
            assert now >= min(was, deny if was == deny else ask)


def _is_plain(key: str) -> bool:
    default = effective_options(Config())[key]
    return default is not None and not isinstance(default, dict)


@pytest.mark.spec("P8")
@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, value in LOOSER if key not in NARROWED | ADDED and _is_plain(key)]
)
def test_every_option_can_be_limited_by_the_machine(
    load_here: LoadHere, machine: MachineFile, key: str, value: Any
) -> None:
    """A default that the machine sets explicitly is kept against a looser value."""
    machine.path.write_text(to_toml(_nested(key, to_builtins(effective_options(Config())[key]))))
    after = load_here(machine=machine, flags={key: value}).config
    assert key not in looser_options(after, load_here(machine=machine).config)


def _nested(key: str, value: object) -> Table:
    first, _, rest = key.partition(".")
    return {first: _nested(rest, value) if rest else value}


@pytest.mark.spec("P8")
def test_a_limited_option_is_named_in_the_notice_and_in_the_report(load_here: LoadHere, machine: MachineFile) -> None:
    machine.path.write_text("[sandbox]\nmode = 'required'\nnetwork = ['a.example']\n[tools]\nprofile = 'minimal'\n")
    flags = {"sandbox.mode": "off", "sandbox.network": "off", "tools.profile": "full", "tools.max_depth": 99}
    found = load_here(machine=machine, flags=flags)
    assert (found.config.sandbox.mode, found.config.sandbox.network) == ("required", "off")
    assert found.config.tools.max_depth == 99
    assert not exists(found.config, "shell.exec") and exists(found.config, "file.read")
    report = found.layer("flags")
    assert report is not None and report.ignored == ("sandbox.mode",)
    (notice,) = found.notices
    assert notice.startswith(f"{machine.path} sets sandbox.mode, which flags can only tighten.")


@pytest.mark.spec("P8", "A19")
@pytest.mark.parametrize(
    ("setting", "left"),
    [
        ("network = 'off'", {"read", "write"}),
        ("read_deny = ['*.bak']", {"hosts", "network", "write"}),
        ("writable = ['$root']", {"hosts", "network", "read"}),
        ("mode = 'auto'", {"hosts", "network", "read", "write"}),
        ("memory = 1000000", {"hosts", "network", "read", "write", "outside"}),
        ("network = 'off'\n[approval]\nwiden = ['hosts']", {"hosts"}),
    ],
)
def test_no_approval_or_rule_widens_what_the_machine_sets(
    load_here: LoadHere, machine: MachineFile, setting: str, left: set[str]
) -> None:
    machine.path.write_text(f"[sandbox]\n{setting}\n")
    own = {"approval.widen": ["hosts", "network", "read", "write", "outside"]}
    assert set(load_here(machine=machine).config.approval.widen) == left
    assert set(load_here(machine=machine, flags=own).config.approval.widen) == left


@pytest.mark.spec("P8")
def test_exclusions_and_denials_in_the_machines_list_cannot_be_undone(
    load_here: LoadHere, machine: MachineFile
) -> None:
    machine.path.write_text(
        "[approval]\nauto_approve = { append = ['$ours'], remove = ['file.write'] }\n"
        "[approval.presets.'$ours']\ndeny = ['shell.exec']\n"
    )
    own = {"approval.auto_approve": ["$default", "file.read"], "approval.presets": {"$default": {"approve": ["*"]}}}
    approval = load_here(machine=machine, flags=own).config.approval
    assert "$ours" in approval.auto_approve and approval.presets == {"$ours": Preset(deny=("shell.exec",))}
    assert approval.excluded == ("file.write",)
    assert approval.narrow == (("$default", "$ours"), ("$default", "file.read"))


@pytest.mark.spec("P8")
@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_machine_file_writable_by_others_is_an_error(load_here: LoadHere, machine: MachineFile, mode: int) -> None:
    machine.path.write_text("")
    machine.path.chmod(mode)
    with pytest.raises(ConfigError, match=r"only by root, but .* can be written by others\. As root, run `chmod"):
        load_here(machine=machine)


@pytest.mark.spec("P8")
def test_a_machine_file_of_another_user_is_an_error(load_here: LoadHere, machine: MachineFile) -> None:
    machine.path.write_text("")
    if os.getuid() == 0:
        os.chown(machine.path, 12_345, -1)
    with pytest.raises(ConfigError, match=r"only by root, but .* belongs to another user\. As root, run `chown root"):
        load_here(machine=MachineFile(machine.path))


@pytest.mark.spec("P8")
def test_no_environment_variable_moves_the_machine_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "HOLDFAST_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path))
    assert MachineFile().path == Path("/etc/holdfast/config.toml")


@pytest.mark.spec("P8")
def test_the_users_own_file_for_a_project_applies_fully_there_and_nowhere_else(
    load_here: LoadHere, write_user: Write, write_project: Write, root: Path, tmp_path: Path
) -> None:
    write_user("[tools]\nprofile = 'minimal'\nmax_depth = 3\n")
    write_project("[tools]\nprofile = 'full'\nmax_depth = 2\n")
    file = user_project_file(root)
    file.parent.mkdir()
    file.write_text("[tools]\nprofile = 'coding'\nmodules = ['mine']\n")
    found = load_here()
    assert (found.config.tools.profile, found.config.tools.modules) == ("coding", ("mine",))
    assert found.config.tools.max_depth == 2
    assert [layer.name for layer in found.layers] == ["user", "user project", "project"]
    assert not file.is_relative_to(root)
    other = tmp_path / "other"
    other.mkdir()
    assert load(root=other, is_trusted=lambda _p, _d: False).config.tools.profile == "minimal"


@pytest.mark.spec("P8")
def test_a_users_file_for_a_project_that_others_can_write_is_refused(load_here: LoadHere, root: Path) -> None:
    file = user_project_file(root)
    file.parent.mkdir(parents=True)
    file.touch()
    file.chmod(0o666)
    with pytest.raises(ConfigError, match="can be written by others"):
        load_here()
    named = root.parent / "named.toml"
    named.touch()
    with pytest.raises(ConfigError, match="can be written by others"):
        load_here(user_file=named)
