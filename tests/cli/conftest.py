"""Fixtures: the command line in a project of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The real command in an empty project, with its own home."""
    return Cli.in_folder(tmp_path)


@pytest.fixture
def asking(cli: Cli) -> Cli:
    """A user whose configuration asks before changes."""
    cli.configure('[approval]\nauto_approve = ["$readonly"]\n')
    return cli


@pytest.fixture
def careful(cli: Cli) -> Cli:
    """A user whose configuration asks about everything, sandboxed commands too."""
    cli.configure("[approval]\nauto_approve = []\n")
    return cli
