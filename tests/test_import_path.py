"""The import path: nothing in the project is imported."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import import_path
from holdfast.factory.runtime import build_registry, load_project
from tests.hostile_project import HostileProject

PACKAGE = Path(holdfast.__file__).parent


@pytest.mark.spec("N8")
def test_the_command_removes_its_working_directory_from_the_import_path(tmp_path: Path) -> None:
    """`-m` adds it first in the list. Only modules that Python imports before holdfast runs could come from there."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("msgspec", "click", "jiter", "sqlite3", "asyncio"):
        (project / f"{name}.py").write_text("raise SystemExit(97)\n")
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "call", "calculator", "expression=1+1"],
        cwd=project, capture_output=True, text=True, timeout=60, check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": f":{project}"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


@pytest.mark.spec("N8")
def test_installed_folders_come_first_and_relative_entries_are_dropped() -> None:
    installed = site.getsitepackages()[0]
    library = str(Path(os.__file__).parent)
    given = ["", ".", "src", "/project", installed, "/project/src", library]
    assert import_path.import_order(given) == [installed, library, "/project", "/project/src"]


@pytest.mark.spec("N8")
def test_entries_in_a_project_are_removed_unless_they_are_installed_folders(tmp_path: Path) -> None:
    installed, project, elsewhere = site.getsitepackages()[0], tmp_path / "project", tmp_path / "tools"
    for folder in (project / ".git", project / "src", project / "sub" / "deep", elsewhere):
        folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(project / "src")
    given = [str(project), str(tmp_path / "link"), f"{elsewhere}/../project/src", str(elsewhere), installed]
    for folder in (project, project / "sub" / "deep"):
        assert import_path.without_projects(given, [str(folder)]) == [installed, str(elsewhere)]
    assert import_path.without_projects([installed], ["/", str(Path(installed).parent)]) == [installed]
    assert import_path.without_projects([str(elsewhere)], ["/"]) == [str(elsewhere)]


@pytest.mark.spec("N8")
@pytest.mark.parametrize("where", ["here", "-C", "argument"])
@pytest.mark.parametrize(
    "words", [("tools",), ("call", "calculator", "expression=1+1"), ("--set", "sandbox.mode=off", "doctor", "--json")]
)
def test_the_command_imports_nothing_from_a_project_on_pythonpath(
    tmp_path: Path, where: str, words: tuple[str, ...]
) -> None:
    project = HostileProject(tmp_path)
    options = {"here": (), "-C": ("-C", str(project.root)), "argument": (f"-C{project.root}",)}[where]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "holdfast", *options, *words],
        cwd=project.root if where == "here" else tmp_path,
        capture_output=True, text=True, timeout=110, check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": f"{PACKAGE.parent}:{project.root}/src"},
    )  # fmt: skip
    assert done.stdout, done.stderr
    assert "onlyhere" not in done.stderr
    project.check()


@pytest.mark.spec("N8")
def test_entry_points_of_a_package_that_is_only_in_the_project_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """holdfast does not change the `sys.path` of a program that imports it, but it filters entry points."""
    project = HostileProject(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(project.root)
    monkeypatch.setattr(sys, "path", [*sys.path, str(project.root / "src")])
    registry = build_registry(load_project())
    assert [warning for warning in registry.warnings if "'evil' is inside the project and not installed" in warning]
    project.check()
