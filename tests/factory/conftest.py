"""A place of its own for every test of an opened document."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.factory.places import Place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "project"
    root.mkdir()
    (root / "holdfast.toml").touch()
    return Place(root)
