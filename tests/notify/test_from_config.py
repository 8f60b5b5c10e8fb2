"""Which channels a configuration opens, and why the others are off."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

from holdfast.config.config import NotifyConfig
from holdfast.contract.errors import ConfigError
from holdfast.net.network import Network
from holdfast.notify.from_config import Channels, check_addresses, open_channels
from tests.notify.test_desktop import SESSION, install

pytestmark = pytest.mark.spec("E7n")
REMOTE = {"webhook": "https://hook.example/x", "webhook_secret": "hook", "ntfy": "https://ntfy.example/topic"}


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        yield stream
    os.close(ours)


def opened(
    folder: Path, terminal: TextIO | None = None, environment: dict[str, str] | None = None, **config: Any
) -> Channels:
    def secret(scope: str) -> str:
        raise AssertionError(f"{scope} was fetched too early")

    given = {"TERM": "xterm-kitty"} if environment is None else environment
    (folder / "project").mkdir(exist_ok=True)
    return open_channels(
        NotifyConfig(**config),
        Network(),
        secret,
        terminal=terminal,
        environment=given,
        project=folder / "project",
    )


def test_everything_that_is_configured_and_available_is_opened(
    tmp_path: Path, terminal: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = opened(tmp_path, terminal, {"TERM": "foot", **SESSION}, **REMOTE)
    assert [(each.name, each.target) for each in found.opened] == [
        ("terminal", "osc777"),
        ("desktop", "notify-send"),
        ("webhook", "https://hook.example"),
        ("ntfy", "https://ntfy.example"),
    ]
    assert found.off == {}


def test_a_channel_that_is_off_says_why(tmp_path: Path, terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert opened(tmp_path).off == {
        "terminal": "there is no terminal",
        "desktop": "notify-send is not installed",
        "webhook": "notify.webhook is not set",
        "ntfy": "notify.ntfy is not set",
    }
    assert opened(tmp_path, terminal, {"TERM": "dumb"}).off["terminal"] == "this terminal has no bell"
    silent = NotifyConfig(terminal=False, desktop=False)
    found = open_channels(silent, Network(), str, terminal=terminal, environment={}, project=tmp_path)
    assert found.opened == ()
    assert (found.off["terminal"], found.off["desktop"]) == ("notify.terminal is false", "notify.desktop is false")


def test_a_file_is_not_a_terminal(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        assert opened(tmp_path, stream).off["terminal"] == "there is no terminal"


def test_a_configured_sequence_is_used_whatever_the_terminal_is(tmp_path: Path, terminal: TextIO) -> None:
    found = open_channels(
        NotifyConfig(terminal="osc9"), Network(), str, terminal=terminal, environment={}, project=tmp_path
    )
    assert found.opened[0].target == "osc9"


def test_a_webhook_needs_a_secret() -> None:
    with pytest.raises(ConfigError, match=r"^notify\.webhook needs notify\.webhook_secret"):
        check_addresses(NotifyConfig(webhook="https://hook.example/"))


def test_quiet_hours_that_end_when_they_start_are_an_error() -> None:
    with pytest.raises(ValueError, match="quiet hours must end at another time"):
        NotifyConfig(quiet="22:00-22:00")
