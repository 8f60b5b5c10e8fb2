"""Resolving the sandbox configuration to a policy."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.contract.errors import ConfigError
from holdfast.sandbox.policy import (
    PathVariables,
    SandboxPolicy,
    command_environment,
    expand_path,
    resolve_policy,
    safe_search_path,
)
from holdfast.sandbox.sandbox import Sandbox


def places(folder: Path, *, document: Path | None = None) -> PathVariables:
    return PathVariables(cwd=folder / "cwd", root=folder / "root", document=document, home=folder / "home")


def resolved(folder: Path, *writable: str, read_deny: tuple[str, ...] = ()) -> SandboxPolicy:
    return resolve_policy(SandboxConfig(writable=writable, read_deny=read_deny), places(folder))


@pytest.mark.spec("N2", "N5")
@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("$root", "root"),
        ("${root}", "root"),
        ("$cwd", "cwd"),
        ("urn:flemma:cwd", "cwd"),
        ("$document", "docs"),
        ("urn:flemma:buffer:path", "docs"),
        ("~", "home"),
        ("~/cache", "home/cache"),
        ("build", "root/build"),
        ("${EMPTY:-~/fallback}", "home/fallback"),
        ("${UNSET:-~/fallback}", "home/fallback"),
        ("${UNSET:-}", None),
        ("$UNSET", None),
        ("$EMPTY", None),
    ],
)
def test_an_entry_may_be_a_variable(tmp_path: Path, entry: str, expected: str | None) -> None:
    found = expand_path(entry, places(tmp_path, document=tmp_path / "docs"), "sandbox.writable", {"EMPTY": ""})
    assert found == (None if expected is None else tmp_path / expected)


@pytest.mark.spec("N2")
def test_a_set_variable_wins_over_its_default(tmp_path: Path) -> None:
    environ = {"CACHE": "/var/cache/mine"}
    for entry in ("$CACHE", "${CACHE}", "${CACHE:-/other}"):
        assert expand_path(entry, places(tmp_path), "sandbox.writable", environ) == Path("/var/cache/mine")


@pytest.mark.spec("N2")
def test_an_unsaved_document_has_no_folder(tmp_path: Path) -> None:
    assert expand_path("urn:flemma:buffer:path", places(tmp_path), "sandbox.writable") is None
    assert resolved(tmp_path, "$document").writable == ()


@pytest.mark.spec("N2")
@pytest.mark.parametrize("entry", ["urn:flemma:home", "$root/build", "${HOME}/x", "/", "/proc", "/dev/shm"])
def test_malformed_entries_are_refused(tmp_path: Path, entry: str) -> None:
    with pytest.raises(ConfigError, match=r"sandbox\.writable"):
        resolved(tmp_path, entry)


@pytest.mark.spec("N2")
def test_folders_are_resolved_and_nested_ones_dropped(tmp_path: Path) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    names = ("real/below", "link", "real-other", "real", "link/below")
    found = resolved(tmp_path, *(str(tmp_path / name) for name in names))
    assert found.writable == (tmp_path / "real", tmp_path / "real-other")


@pytest.mark.spec("N2")
def test_writability_follows_symlinks(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "out").symlink_to(tmp_path)
    found = resolved(tmp_path, "$root")
    assert found.is_writable(tmp_path / "root" / "new" / "file")
    assert not found.is_writable(tmp_path / "root" / "out" / "file")
    assert not found.is_writable(tmp_path / "root-evil")


@pytest.mark.spec("N2")
def test_denied_paths_apply_whether_they_exist_or_not(tmp_path: Path) -> None:
    found = resolved(tmp_path, "$root", read_deny=("~/.ssh", "~/.netrc"))
    assert not found.is_readable(tmp_path / "home" / ".ssh" / "id_ed25519")
    assert not found.is_readable(tmp_path / "home" / ".netrc")
    assert found.is_readable(tmp_path / "home" / ".sshx")


@pytest.mark.spec("N2")
def test_keys_in_the_accounts_home_are_denied_even_if_home_points_elsewhere(tmp_path: Path) -> None:
    import pwd

    real = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert not resolved(tmp_path, "$root", read_deny=("~/.ssh",)).is_readable(real / ".ssh" / "id_ed25519")


@pytest.mark.spec("N2")
def test_denying_wins_over_writing(tmp_path: Path) -> None:
    found = resolved(tmp_path, "$root", "~/.ssh/sockets", read_deny=("~/.ssh",))
    assert found.writable == (tmp_path / "root",)


@pytest.mark.spec("N2")
def test_holdfast_state_is_hidden_from_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = resolve_policy(SandboxConfig(), places(tmp_path), state=tmp_path / "state" / "holdfast" / "projects" / "x")
    assert not found.is_readable(tmp_path / "state" / "holdfast" / "user.db")


@pytest.mark.spec("N2")
def test_holdfast_itself_is_read_only_in_a_writable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.sandbox import policy as module

    module.installation_folders.cache_clear()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "root" / ".venv"))
    try:
        found = resolved(tmp_path, "$root")
    finally:
        module.installation_folders.cache_clear()
    assert found.installation == (tmp_path / "root" / ".venv",)
    assert not found.is_writable(tmp_path / "root" / ".venv" / "bin" / "holdfast")
    assert safe_search_path(f"{tmp_path}/root/.venv/bin:/usr/bin", found) == f"{tmp_path}/root/.venv/bin:/usr/bin"


@pytest.mark.spec("N2")
def test_commands_get_only_allow_listed_variables(tmp_path: Path) -> None:
    surroundings = {"PATH": "/usr/bin", "LC_ALL": "C", "LC": "no", "AWS_SECRET": "no", "MY_X": "yes", "MYX": "no"}
    found = command_environment(
        resolve_policy(SandboxConfig(environment=("PATH", "LC_*", "MY_*")), places(tmp_path)),
        Command(argv=("true",), env={"GIVEN": "1"}),
        home="/h",
        environ=surroundings,
    )
    assert found == {"PATH": "/usr/bin", "LC_ALL": "C", "MY_X": "yes", "HOME": "/h", "GIVEN": "1"}


@pytest.mark.spec("N2")
def test_path_contains_no_folder_that_commands_can_write(tmp_path: Path) -> None:
    (tmp_path / "root" / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "root" / "bin")
    found = resolved(tmp_path, "$root")
    text = f".::bin:{tmp_path}/root/bin:{tmp_path}/link:/usr/bin:/bin:/usr/bin"
    assert safe_search_path(text, found) == "/usr/bin:/bin"
    assert safe_search_path(f"{tmp_path}/root/bin", found) == "/usr/local/bin:/usr/bin:/bin"


@pytest.mark.spec("N2")
def test_the_profile_changes_with_every_part_of_the_policy(tmp_path: Path) -> None:
    changed = (
        SandboxConfig(),
        SandboxConfig(mode="required"),
        SandboxConfig(backend="landlock"),
        SandboxConfig(writable=("$root", "/srv")),
        SandboxConfig(read_deny=()),
        SandboxConfig(network="on"),
        SandboxConfig(network=("example.org",)),
        SandboxConfig(environment=()),
        SandboxConfig(memory=1),
        SandboxConfig(processes=None),
    )
    profiles = {Sandbox(config, root=tmp_path, cwd=tmp_path).profile for config in changed}
    assert len(profiles) == len(changed)
    assert Sandbox(SandboxConfig(), root=tmp_path, cwd=tmp_path, extra_protected=["x"]).profile not in profiles
    assert Sandbox(SandboxConfig(), root=tmp_path, cwd=tmp_path).profile in profiles
