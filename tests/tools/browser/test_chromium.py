"""How Chromium is found and started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Runtime
from holdfast.contract.enums import Failure
from holdfast.tools.browser import chromium
from holdfast.tools.browser.navigation import BROWSER_NAVIGATE
from tests.runtime.support import run


def _nothing(configured: str | None = None) -> None:
    return None


@pytest.mark.spec("B7f")
def test_without_chromium_the_tools_are_unavailable_and_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "find_chromium", _nothing)
    assert chromium.missing() == (
        "it needs Chromium. Install it (apt-get install chromium), or set browser.executable to its path."
    )

    async def call() -> Failure | None:
        async with Runtime(tools=[BROWSER_NAVIGATE]) as runtime:
            return (await runtime.call("browser.navigate", {"url": "https://example.com/"})).failure

    assert run(call()) is Failure.UNAVAILABLE


def _needs(extra: str, *packages: str) -> Callable[[], str]:
    return lambda: f"install {extra}"


@pytest.mark.spec("B7f")
def test_without_playwright_the_tools_say_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "needs_extra", _needs)
    assert chromium.missing() == "install browser"


def test_a_configured_program_is_used_if_it_exists(tmp_path: Path) -> None:
    program = tmp_path / "chrome"
    program.touch(0o755)
    assert chromium.find_chromium(str(program)) == str(program)
    gone = str(tmp_path / "gone")
    assert chromium.find_chromium(gone) is None
    assert chromium.no_chromium(gone) == f"there is no program {gone}. Correct browser.executable."


@pytest.mark.spec("B7d")
def test_the_environment_holds_nothing_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "hush")
    monkeypatch.setenv("DISPLAY", ":1")
    assert "hush" not in chromium.environment(tmp_path, headless=True).values()
    assert "DISPLAY" not in chromium.environment(tmp_path, headless=True)
    assert chromium.environment(tmp_path, headless=False)["DISPLAY"] == ":1"


@pytest.mark.spec("B7d")
def test_quic_webrtc_name_resolution_and_extensions_are_off() -> None:
    assert {
        "--disable-quic",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--proxy-bypass-list=<-loopback>",
        "--disable-extensions",
    } <= set(chromium.ARGUMENTS)
