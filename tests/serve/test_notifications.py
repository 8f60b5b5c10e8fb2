"""The daemon tells the notifier of calls that become pending, in any project and by any process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.config.config import NotifyConfig
from holdfast.contract.errors import UnknownCall
from holdfast.notify.message import Message
from holdfast.notify.notifier import Notifier
from holdfast.serve.notifications import PageInbox, report_pending
from holdfast.serve.projects import Projects
from holdfast.serve.watch import LedgerWatch
from holdfast.store.redact import Redactor
from tests.serve.daemon_client import DaemonClient, run, until

pytestmark = pytest.mark.spec("E7n")


class Recorder:
    """A channel that keeps what it is given."""

    name = "test"
    target = "this test"

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)


def test_a_call_that_becomes_pending_is_notified_once_with_a_link_to_its_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(client: DaemonClient) -> None:
        projects = Projects(client.project, every=False, flags={})
        projects.refresh()
        watch, recorder = LedgerWatch(projects), Recorder()
        inbox = PageInbox(projects, "http://127.0.0.1:1")

        def notifier() -> Notifier:
            return Notifier(NotifyConfig(burst=0.05), [recorder], inbox, redactor=Redactor(), state=tmp_path)

        first = notifier()
        tasks = [
            asyncio.create_task(work) for work in (watch.run(), first.run(), report_pending(projects, watch, first))
        ]
        pending = await client.call("shell.exec", {"command": "make release"})

        async def is_notified() -> bool:
            return bool(recorder.messages)

        await until(is_notified)
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        (message,) = recorder.messages
        assert "make release" in str(message)
        assert f"http://127.0.0.1:1/calls/{client.key}/{pending.call_id}" in str(message)
        # After a restart the same call is no news.
        second = notifier()
        adding = asyncio.create_task(report_pending(projects, watch, second))
        await asyncio.sleep(0)
        assert await second.flush() == []
        adding.cancel()
        found = next(iter(projects)).ledger.find_pending(pending.call_id or "")
        assert found is not None
        folder = str(next(iter(projects)).folder)
        assert inbox.is_pending(folder, found)
        assert (inbox.expires_at(folder, found) or 0) > found.held_at
        assert inbox.link(folder, None) == "http://127.0.0.1:1/"
        await client.approve(pending.call_id)
        assert not inbox.is_pending(folder, found)
        with pytest.raises(UnknownCall):
            projects.get("0" * 16)
        await projects.close()

    run(body, tmp_path, monkeypatch, '[sandbox]\nmode = "off"\n[approval]\nauto_approve = []\n')
