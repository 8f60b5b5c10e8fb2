"""Symlinks in the list of writable folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.config import SandboxConfig
from holdfast.contract.errors import ConfigError
from holdfast.sandbox.policy import PathVariables, SandboxPolicy, resolve_policy


def resolved(folder: Path, entry: str) -> SandboxPolicy:
    places = PathVariables(cwd=folder / "root", root=folder / "root", home=folder / "home")
    return resolve_policy(SandboxConfig(writable=(entry,)), places)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "root" / "inner").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "root" / "build").symlink_to(tmp_path / "home")
    (tmp_path / "root" / "out").symlink_to("inner")
    (tmp_path / "way").symlink_to("root")
    return tmp_path


@pytest.mark.spec("N2")
@pytest.mark.parametrize(
    "entry", ["build", "build/x", "./build", "${UNSET_HERE:-build}", "..", "../home", "{}/root/build"]
)
def test_a_project_path_that_leads_outside_is_refused(place: Path, entry: str) -> None:
    with pytest.raises(ConfigError, match="leads out of the project"):
        resolved(place, entry.replace("{}", str(place)) if entry.startswith("{}") else entry)


@pytest.mark.spec("N2")
def test_project_paths_that_stay_inside_and_absolute_paths_are_accepted(place: Path) -> None:
    assert resolved(place, "out").writable == (place / "root" / "inner",)
    assert resolved(place, "absent/later").writable == (place / "root" / "absent" / "later",)
    assert resolved(place, "~").writable == (place / "home",)
    assert resolved(place, str(place / "home")).writable == (place / "home",)


@pytest.mark.spec("N2")
def test_a_project_reached_through_a_symlink_is_still_the_project(place: Path) -> None:
    places = PathVariables(cwd=place / "way", root=place / "way", home=place / "home")
    assert resolve_policy(SandboxConfig(writable=("$root", "inner")), places).writable == (place / "root",)
    for entry in ("build", str(place / "root" / "build")):
        with pytest.raises(ConfigError, match="leads out of the project"):
            resolve_policy(SandboxConfig(writable=(entry,)), places)
