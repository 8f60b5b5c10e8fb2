from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.layers import LoadedConfig, load

Write = Callable[[str], Path]
LoadHere = Callable[..., LoadedConfig]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary home folder, so that no file of this machine is read."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def write_user(own_home: Path) -> Write:
    def write(text: str) -> Path:
        path = own_home / ".config" / "holdfast" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def write_project(root: Path) -> Write:
    def write(text: str) -> Path:
        path = root / "holdfast.toml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def load_here(root: Path) -> LoadHere:
    """`load` for the test's project; `trust=True` trusts every project file."""

    def run(*, trust: bool = False, **more: Any) -> LoadedConfig:
        return load(root=root, is_trusted=lambda _path, _digest: trust, **more)

    return run
