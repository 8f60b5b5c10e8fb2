"""A separate project for every test with an opened document."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.factory.chat_project import ChatProject


@pytest.fixture
def chat_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChatProject:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "project"
    root.mkdir()
    (root / "holdfast.toml").touch()
    return ChatProject(root)
