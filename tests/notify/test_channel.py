"""What every channel has in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.net.network import Network
from holdfast.notify.channel import Channel
from holdfast.notify.desktop import DesktopChannel
from holdfast.notify.message import trial_message
from holdfast.notify.notifier import send_to
from holdfast.notify.remote import NtfyChannel, WebhookChannel
from holdfast.notify.terminal import TerminalChannel
from tests.runtime.support import run

pytestmark = pytest.mark.spec("E7n")


def failing(folder: Path) -> dict[str, Channel]:
    """Channels that cannot work here."""
    return {
        "terminal": TerminalChannel(-1, "bell"),
        "desktop": DesktopChannel(folder),
        "webhook": WebhookChannel(Network(), "http://127.0.0.1:1/hidden-path", "hook", str),
        "ntfy": NtfyChannel(Network(), "http://127.0.0.1:1/hidden-path", None, str),
    }


@pytest.mark.parametrize("name", ["terminal", "desktop", "webhook", "ntfy"])
def test_a_channel_that_cannot_send_gives_a_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    channel = failing(tmp_path)[name]
    done = run(send_to(channel, trial_message()))
    assert (done.channel, done.outcome) == (name, "failed")
    assert done.reason.endswith(".") and done.reason.isprintable()
    assert "hidden-path" not in f"{done.reason}{done.target}"
