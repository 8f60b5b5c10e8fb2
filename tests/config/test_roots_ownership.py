"""State and configuration that another user could change are refused, with a hint."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import HoldfastError
from holdfast.config import roots
from holdfast.config.roots import check_ownership
from holdfast.contract.errors import ConfigError
from holdfast.factory.runtime import load_project

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
OTHER = 12_345
Change = Callable[[Path], None]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "holdfast.toml").touch()
    for name in ("state", "config"):
        (tmp_path / name / "holdfast").mkdir(parents=True, mode=0o700)
    (tmp_path / "config" / "holdfast" / "config.toml").touch(mode=0o600)
    return tmp_path


def _always(group: int) -> bool:
    return True


def _never(group: int) -> bool:
    return False


def load(home: Path) -> None:
    load_project(home / "project")


def test_private_folders_and_missing_folders_are_accepted(home: Path) -> None:
    load(home)
    shutil.rmtree(home / "state")
    load(home)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777, 0o720])
@pytest.mark.parametrize("name", ["state/holdfast", "config/holdfast"])
def test_a_folder_writable_by_others_is_refused(
    home: Path, name: str, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roots, "_is_private_group", _never)
    (home / name).chmod(mode)
    with pytest.raises(
        ConfigError, match=rf"by others \(mode {mode:04o}\)\. Check its content and run `chmod go-w .*{name}`"
    ):
        load(home)


@pytest.mark.parametrize("name", ["config/holdfast/config.toml", "state/holdfast/user.db"])
def test_a_file_writable_by_others_is_refused(home: Path, name: str) -> None:
    (home / name).touch()
    (home / name).chmod(0o666)
    with pytest.raises(ConfigError, match="can be written by others"):
        load(home)


def test_the_state_folder_of_the_project_is_checked_too(home: Path) -> None:
    folder = load_project(home / "project").state
    folder.mkdir(parents=True, mode=0o700)
    load(home)
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match="can be written by others"):
        load(home)


INNER = ("documents", "odd", "project/chats", "project/shown", "project/blobs", f"project/shown/{os.getuid()}")
"""Subfolders of the state folder, including those of one project."""


def _inner(home: Path, name: str) -> Path:
    project = load_project(home / "project").state
    first, _, rest = name.partition("/")
    folder = project / rest if first == "project" else home / "state" / "holdfast" / name
    folder.mkdir(parents=True, mode=0o700)
    return folder


@pytest.mark.parametrize("name", INNER)
def test_a_subfolder_of_the_state_folder_writable_by_others_is_refused(home: Path, name: str) -> None:
    folder = _inner(home, name)
    load(home)
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match=r"written by others \(mode 0777\)\. Check its content and run `chmod go-w "):
        load(home)


@root_only
@pytest.mark.parametrize("name", INNER)
def test_a_subfolder_of_the_state_folder_of_another_user_is_refused(home: Path, name: str) -> None:
    os.chown(_inner(home, name), OTHER, OTHER)
    with pytest.raises(ConfigError, match=f"belongs to the user {OTHER}, who could change"):
        load(home)


@root_only
def test_a_symlink_in_the_state_folder_to_a_folder_of_another_user_is_refused(home: Path) -> None:
    folder, elsewhere = _inner(home, "project/chats"), home / "elsewhere"
    folder.rmdir()
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    load(home)
    os.chown(elsewhere, OTHER, OTHER)
    with pytest.raises(ConfigError, match=f"belongs to the user {OTHER}"):
        load(home)


def test_a_path_with_a_folder_where_others_can_replace_entries_is_refused(home: Path) -> None:
    (home / "state").chmod(0o777)
    with pytest.raises(ConfigError, match="on the path of the state folder, can be written by others"):
        load(home)
    (home / "state").chmod(0o1777)  # sticky like /tmp: others can only create new names there
    load(home)


@root_only
@pytest.mark.parametrize(
    "name", ["state/holdfast", "state", "config/holdfast", "config", "config/holdfast/config.toml"]
)
def test_a_folder_or_file_of_another_user_is_refused(home: Path, name: str) -> None:
    os.chown(home / name, OTHER, OTHER)
    with pytest.raises(ConfigError, match=f"to the user {OTHER}, who could change .* XDG_(STATE|CONFIG)_HOME"):
        load(home)


@root_only
def test_a_symlink_of_another_user_is_refused_and_an_own_one_is_followed(home: Path) -> None:
    for name in ("state", "config"):
        (home / name).rename(home / f"real-{name}")
        (home / name).symlink_to(f"real-{name}")
    load(home)
    os.chown(home / "state", OTHER, OTHER, follow_symlinks=False)
    with pytest.raises(ConfigError, match=r"is reached through .*/state, which belongs to the user 12345"):
        load(home)


def test_symlink_loops_and_parent_references_terminate(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "up").symlink_to("../" * 3 + str(tmp_path).lstrip("/"))
    check_ownership(tmp_path / "up" / "x", "It", instead="choose another")
    check_ownership(tmp_path / "a" / "x", "It", instead="choose another")


def test_only_a_private_group_may_have_write_permission(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / "state" / "holdfast"
    folder.chmod(0o770)
    monkeypatch.setattr(roots, "_is_private_group", _always)
    load(home)
    folder.chmod(0o772)
    with pytest.raises(HoldfastError):
        load(home)


def test_root_has_no_private_group(monkeypatch: pytest.MonkeyPatch) -> None:
    me = pwd.getpwall()[0]
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert roots._is_private_group(me.pw_gid) is False  # pyright: ignore[reportPrivateUsage]


def test_everything_that_holdfast_creates_is_private(home: Path) -> None:
    from holdfast.factory.runtime import open_ledger

    project = load_project(home / "project")
    open_ledger(project).close()
    for folder, _folders, files in os.walk(home / "state"):
        for path in (Path(folder), *(Path(folder, name) for name in files)):
            mode = stat.S_IMODE(path.stat().st_mode)
            assert not mode & 0o077 or path == home / "state", (path, oct(mode))
    load(home)
