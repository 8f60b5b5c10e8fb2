"""What `holdfast doctor` says about the sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.helper_process import FOLDERS
from holdfast.sandbox.battery import CASES
from tests.doors.command import Cli, Json


def named(lines: list[Json], name: str) -> list[Json]:
    return [line for line in lines if line["name"] == name]


@pytest.mark.spec("N1", "N6")
def test_it_runs_the_escape_battery_and_says_what_held_for_this_user(cli: Cli) -> None:
    done = cli.run("doctor", "--json")
    assert done.code == 0
    first, *others = named(done.lines, "battery")
    assert first["status"] == "ok"
    assert f"held {len(CASES)} of {len(CASES)} attacks for user {os.geteuid()}: usable, " in first["text"]
    assert all("not tried" in line["text"] for line in others)
    (sandbox,) = named(done.lines, "sandbox")
    assert sandbox["status"] == "ok"
    assert sandbox["text"].startswith("commands run in bubblewrap ")
    assert not Path(cli.env["XDG_STATE_HOME"]).exists()


@pytest.mark.spec("N6")
def test_what_a_backend_does_not_hold_is_said_with_what_follows_from_it(cli: Cli) -> None:
    cli.configure('[sandbox]\nbackend = "landlock"\n')
    done = cli.run("doctor")
    assert done.code == 0
    for name in ("change-protected", "create-protected", "rename-parent", "host-processes"):
        assert f" does not hold {name}: " in done.out
    assert "note  sandbox   commands run in landlock" in done.out
    assert "none is approved for being sandboxed" in done.out


@pytest.mark.spec("N1")
def test_a_sandbox_that_is_switched_off_is_said_to_be(cli: Cli) -> None:
    cli.configure('[sandbox]\nmode = "off"\n')
    done = cli.run("doctor")
    assert done.code == 0
    assert 'note  sandbox   switched off (sandbox.mode = "off"): commands run bare' in done.out
    assert "battery" not in done.out


@pytest.mark.spec("N1")
def test_an_unknown_backend_is_a_mistake_with_the_names_there_are(cli: Cli) -> None:
    cli.configure('[sandbox]\nbackend = "jail"\n')
    done = cli.run("doctor")
    assert done.code == 1
    assert "bad   config    sandbox.backend is 'jail', which is not known; use \"auto\" or one of: " in done.out


@pytest.mark.spec("N1", "N6")
@pytest.mark.parametrize(("mode", "code", "status"), [("required", 1, "bad"), ("auto", 0, "note")])
def test_where_nothing_holds_it_says_what_is_refused(cli: Cli, mode: str, code: int, status: str) -> None:
    cli.configure(f'[sandbox]\nmode = "{mode}"\n')
    site = cli.project.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.platform = 'plan9'\n")
    done = cli.run("doctor", "--json", env={"PYTHONPATH": str(site)})
    assert done.code == code
    (sandbox,) = named(done.lines, "sandbox")
    assert sandbox["status"] == status
    assert "there is no backend for plan9" in sandbox["text"]
    assert ("all are refused" if mode == "required" else "a person is asked about each") in sandbox["text"]


@pytest.mark.spec("B3")
def test_git_is_looked_for_where_the_git_tools_look(cli: Cli) -> None:
    (found,) = named(cli.run("doctor", "--json", env={"PATH": ""}).lines, "git")
    there = next((path for folder in FOLDERS if (path := Path(folder, "git")).is_file()), None)
    assert found["text"] == str(there or "not found; the git tools need it")
