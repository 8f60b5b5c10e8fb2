from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from holdfast.config import roots
from holdfast.config.roots import check_state_dir, find_root, state_dir
from holdfast.contract.errors import ConfigError
from holdfast.fs.own_paths import user_config_file, user_state_dir


@pytest.mark.spec("N5")
@pytest.mark.parametrize("marker", ["holdfast.toml", ".git"])
def test_the_root_is_the_nearest_ancestor_with_a_marker(root: Path, marker: str) -> None:
    inner = root / "a" / "b"
    inner.mkdir(parents=True)
    (root / marker).touch()
    assert find_root(inner) == find_root(root) == root
    (root / "a" / ".git").mkdir()
    assert find_root(inner) == root / "a"


@pytest.mark.spec("N5")
def test_a_symlink_into_a_project_leads_to_its_real_root(root: Path, tmp_path: Path) -> None:
    (root / ".git").mkdir()
    (root / "sub").mkdir()
    (tmp_path / "link").symlink_to(root / "sub")
    assert find_root(tmp_path / "link") == root


@pytest.mark.spec("N5")
def test_a_marker_that_is_a_broken_symlink_counts(root: Path) -> None:
    (root / "holdfast.toml").symlink_to(root / "gone")
    assert find_root(root) == root


@pytest.mark.spec("N5")
def test_each_root_has_its_own_state_folder_outside_the_project(root: Path, own_home: Path) -> None:
    one, two = state_dir(root), state_dir(root / "sub")
    assert one != two and one == state_dir(Path(os.path.relpath(root)))
    assert one.parent == two.parent == own_home / ".local/state/holdfast/projects" == user_state_dir() / "projects"
    assert one.name.startswith("project-") and not one.exists()
    assert state_dir(Path("/")).name.startswith("root-")
    assert state_dir(root / "a/..b\n *").name.isascii()


@pytest.mark.spec("N5")
def test_a_root_that_contains_the_home_folder_is_accepted(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "_login_home", lambda: own_home)
    (own_home / ".git").mkdir()
    assert find_root(own_home / "x") == own_home
    assert state_dir(own_home).is_relative_to(own_home)


@pytest.mark.spec("N7", "A2")
@pytest.mark.parametrize(("variable", "folder"), [("XDG_STATE_HOME", "holdfast"), ("HOME", ".local/state/holdfast")])
def test_a_state_folder_inside_the_project_is_used_only_if_it_was_created_here(
    root: Path, monkeypatch: pytest.MonkeyPatch, variable: str, folder: str
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv(variable, str(root / "moved"))
    state = root / "moved" / folder
    check_state_dir(root)
    assert state.is_dir() and state_dir(root).is_relative_to(state)
    check_state_dir(root)
    shutil.copytree(state, root / "copy")
    shutil.rmtree(state)
    shutil.move(root / "copy", state)
    with pytest.raises(ConfigError, match="was not created on this machine"):
        check_state_dir(root)
    check_state_dir(root.parent / "elsewhere")
    check_state_dir(root)


@pytest.mark.spec("N5")
def test_the_xdg_folders_are_used_when_absolute_and_ignored_when_relative(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert user_config_file() == tmp_path / "c/holdfast/config.toml" and user_state_dir() == tmp_path / "s/holdfast"
    monkeypatch.setenv("XDG_CONFIG_HOME", "c")
    monkeypatch.setenv("XDG_STATE_HOME", "s")
    assert user_config_file() == own_home / ".config/holdfast/config.toml"
    assert user_state_dir() == own_home / ".local/state/holdfast"
