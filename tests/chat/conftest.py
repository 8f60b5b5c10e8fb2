"""Fixtures for documents on disk and for Lua."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.chat.lua.host import LuaHost


@pytest.fixture
def user_state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate user state directory, where documents are registered."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user-state"))


@pytest.fixture(scope="module")
def lua() -> Iterator[LuaHost]:
    """One Lua host per module: starting one costs a process."""
    with LuaHost() as host:
        yield host
