"""Tells the notifier of calls that become pending, in any project and by any process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError
from holdfast.factory.runtime import Project
from holdfast.net.network import Network
from holdfast.net.network_log import NETWORK_LOG, NetworkLog
from holdfast.notify.from_config import open_channels
from holdfast.notify.notifier import Notifier
from holdfast.runtime.secrets import Secrets
from holdfast.serve.events import head_of
from holdfast.serve.inbox import call_address
from holdfast.serve.projects import Projects, ServedProject
from holdfast.serve.watch import LedgerWatch
from holdfast.store.redact import Redactor

_WAIT_SECONDS = 30.0


class PageInbox:
    """What the notifier asks about pending calls, answered from the ledgers. `url` is the address of the page."""

    def __init__(self, projects: Projects, url: str) -> None:
        self._projects = projects
        self._url = url

    def is_pending(self, project: str, pending: PendingCall) -> bool:
        now = self._find(project).ledger.find_pending(pending.call.id)
        return now is not None and now.state is State.PENDING and now.digest == pending.digest

    def link(self, project: str, pending: PendingCall | None) -> str:
        if pending is None:
            return f"{self._url}/"
        return self._url + call_address(self._find(project).key, pending.call.id)

    def expires_at(self, project: str, pending: PendingCall) -> float | None:
        served = self._find(project)
        return served.expiry.expires_at(served.ledger, pending)

    def _find(self, folder: str) -> ServedProject:
        return next(project for project in self._projects if str(project.folder) == folder)


def open_notifier(project: Project, projects: Projects, url: str, *, terminal: TextIO | None, state: Path) -> Notifier:
    """The notifier by the configuration of the project in which the daemon was started."""
    config = project.loaded.config
    redactor = Redactor()
    secrets = Secrets(config.secrets, redactor.add, project.root or project.cwd)
    network = Network(
        hosts=config.network.hosts, private=config.network.private, log=NetworkLog(project.state / NETWORK_LOG)
    )
    channels = open_channels(
        config.notify,
        network,
        secrets.get,
        terminal=terminal,
        environment=os.environ,
        project=project.root or project.cwd,
    )
    return Notifier(config.notify, channels.opened, PageInbox(projects, url), redactor=redactor, state=state)


async def report_pending(projects: Projects, watch: LedgerWatch, notifier: Notifier) -> None:
    """Add every call that becomes pending, until cancelled. What was notified before, the notifier knows."""
    added: dict[str, int] = {}
    while True:
        seen = watch.count
        for project in projects:
            try:
                added[project.key] = _add_pending(project, notifier, added.get(project.key))
            except HoldfastError:  # a damaged ledger is reported where it is read
                continue
        await watch.wait(seen, _WAIT_SECONDS)


def _add_pending(project: ServedProject, notifier: Notifier, after: int | None) -> int:
    """Add the calls that became pending after this entry; returns the last entry that was looked at."""
    name, head = str(project.folder), head_of(project)
    if after is None or head < after:
        notifier.check_head(name, head)
        after = notifier.last_entry(name)
    sql = "SELECT entry, call FROM open_calls WHERE state = 'pending' AND entry > ? ORDER BY entry"
    for entry, call_id in project.ledger.rows(sql, (after,)):
        pending = project.ledger.find_pending(call_id)
        if pending is not None:
            notifier.add(entry, pending, name)
    return head
