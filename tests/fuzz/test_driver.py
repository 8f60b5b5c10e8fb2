"""The driver that runs mutants inside the sandbox."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.fuzz import driver
from holdfast.fuzz.fuzzer import create_project


@pytest.mark.spec("E1b")
def test_changes_are_reported_and_undone_before_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path.resolve()
    create_project(base)
    commands = ["rm canary.txt", "cat canary.txt", "mkdir -p new/deep", "./evil", "cat ../home/secret.txt"]
    job: dict[str, Any] = {
        "commands": commands,
        "shell": "sh",
        "env": {"PATH": "/usr/bin:/bin"},
        "secrets": {"a file of the user": "SECRETgxqzHOME"},
    }
    monkeypatch.setattr(driver, "_WATCHED", ())  # outside a sandbox /tmp belongs to everyone
    monkeypatch.setattr(sys, "argv", ["driver.py", str(base)])
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(job)))
    driver.main()
    assert json.loads(capsys.readouterr().out) == [
        ["it changed project/canary.txt"],
        [],
        ["it changed project/new", "it changed project/new/deep"],
        ["it ran a planted program"],
        ["it printed a file of the user"],
    ]
    assert (base / "project" / "canary.txt").read_text() == "alive\n"
    assert not (base / "project" / "new").exists()
    assert (base / "marks" / "ran").read_text() == ""
