"""One Lua host for the tests of a module, and a project for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.chat.lua.host import LuaHost
from tests.chat.templates.support import Project


@pytest.fixture(scope="module")
def lua() -> Iterator[LuaHost]:
    with LuaHost() as host:
        yield host


@pytest.fixture
def project(tmp_path: Path, lua: LuaHost) -> Project:
    return Project(tmp_path, lua)
