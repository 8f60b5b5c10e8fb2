"""A place of its own for every test of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The real command in a project with nothing in it, and a home of its own."""
    return Cli.in_folder(tmp_path)


@pytest.fixture
def asking(cli: Cli) -> Cli:
    """The same, for a user who wants to be asked before anything is changed."""
    cli.configure('[approval]\nauto_approve = ["$readonly"]\n')
    return cli


@pytest.fixture
def careful(cli: Cli) -> Cli:
    """The same, for a user who wants to be asked about commands too, wherever they run."""
    cli.configure("[approval]\nauto_approve = []\n")
    return cli
