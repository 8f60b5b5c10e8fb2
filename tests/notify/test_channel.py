"""What every channel has in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.net.network import Network
from holdfast.notify.channel import Channel
from holdfast.notify.desktop import DesktopChannel, command
from holdfast.notify.message import pending_message, question_of, trial_message
from holdfast.notify.notifier import send_to
from holdfast.notify.remote import NtfyChannel, WebhookChannel
from holdfast.notify.terminal import TerminalChannel, encode_sequence
from tests.runtime.support import recorder, run, runtime_in

pytestmark = pytest.mark.spec("E7n")
SECRET = "hunter2-correct-horse"


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


def test_a_secret_of_a_real_call_is_in_no_text_of_a_channel(tmp_path: Path) -> None:
    note, _ = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    runtime.redactor.add("db", SECRET)
    result = run(runtime.call("note", {"text": f"the password is {SECRET}, keep it"}))
    (pending,) = runtime.pending.list()
    assert pending.call.id == result.call_id and SECRET in str(pending.call.args)
    message = pending_message([question_of(pending, str(tmp_path), runtime.redactor)])
    texts = (encode_sequence("osc9", message), encode_sequence("osc777", message), command(message), message)
    for text in texts:
        assert SECRET not in str(text) and "[secret db]" in str(text)
