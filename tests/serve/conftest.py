"""Fixtures: a project whose user is asked before changes, and a daemon that serves it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.command_line import Cli
from tests.cli.conftest import asking, cli
from tests.serve.projects_on_disk import Disk
from tests.serve.served import Daemon, daemon

__all__ = ["asking", "cli"]  # fixtures


@pytest.fixture
def served(asking: Cli) -> Generator[Daemon]:
    with daemon(asking) as running:
        yield running


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)
