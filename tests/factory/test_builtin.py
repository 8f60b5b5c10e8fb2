"""The built-in tools as configured, and the services that they ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Config, Tool
from holdfast.contract.memory import Memory
from holdfast.contract.sessions import Sessions
from holdfast.contract.tool import Reach
from holdfast.factory.builtin import configured_tools
from holdfast.factory.runtime import open_runtime
from holdfast.tools.browser.service import Browsers
from holdfast.tools.media.service import MediaService
from holdfast.tools.storage.service import Storage
from holdfast.tools.web.service import Web
from tests.runtime.support import run


def configured(name: str, table: dict[str, object]) -> Tool:
    return next(tool for tool in configured_tools(Config.from_dict(table)) if tool.name == name)


@pytest.mark.spec("B6")
def test_a_search_reaches_the_host_of_the_configured_engine() -> None:
    own = configured("web.search", {"web": {"search": "searxng", "search_url": "https://search.example:8443/"}})
    assert own.reaches is not None
    assert own.reaches({"query": "x"}) == Reach(("search.example:8443",))


@pytest.mark.spec("B7")
def test_browser_tools_look_for_the_configured_program(tmp_path: Path) -> None:
    there = configured("browser.click", {"browser": {"executable": str(tmp_path / "chromium")}})
    assert there.unavailable is not None
    assert str(tmp_path / "chromium") in str(there.unavailable())


@pytest.mark.spec("T7")
def test_a_runtime_of_a_project_has_every_service_of_the_built_in_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "holdfast.toml").write_text("")

    async def session() -> None:
        async with open_runtime(tmp_path / "project") as runtime:
            for service in (Memory, Sessions, Web, Storage, Browsers, MediaService):
                assert runtime.services.get(service) is runtime.services.get(service)

    run(session())
