"""Commands and the default shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.contract import command
from holdfast.contract.command import Command, standard_shell


def test_the_default_shell_is_bash_or_else_sh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bash").touch()
    monkeypatch.setattr(command, "_BASH", (str(tmp_path / "missing"), str(tmp_path / "bash")))
    assert standard_shell() == str(tmp_path / "bash")
    (tmp_path / "bash").unlink()
    assert standard_shell() == "/bin/sh"


def test_commands_do_not_share_their_default_environment() -> None:
    assert Command(argv=("a",)).env is not Command(argv=("a",)).env
