"""One Lua host for the tests of a module: starting one costs a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.chat.lua.host import LuaHost


@pytest.fixture(scope="module")
def lua() -> Iterator[LuaHost]:
    with LuaHost() as host:
        yield host
