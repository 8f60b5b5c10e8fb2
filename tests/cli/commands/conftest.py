"""Fixtures for the tests of single commands."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli
from tests.cli.file_changes import change_files


@pytest.fixture
def changed(cli: Cli) -> str:
    (cli.project / "a.txt").write_text("one\ntwo\n")
    (cli.project / "b.txt").write_text("bee\n")
    return change_files(cli, {"a.txt": "one\n2\n", "b.txt": None, "new.txt": "new\n"})
