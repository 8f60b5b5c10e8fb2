"""A runtime built from a project on disk."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from holdfast.factory.runtime import build_runtime, load_project
from holdfast.store.ledger import Ledger
from tests.store.calls import APPROVED, DONE, make_call


def _prune_ends() -> None:
    for thread in threading.enumerate():
        if thread.name == "holdfast-prune":
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.spec("X15")
def test_old_ledger_entries_are_pruned_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "project"
    root.mkdir()
    (root / "holdfast.toml").touch()
    project = load_project(root)
    with Ledger.open(project.ledger_path) as ledger, pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.store.database.time.time", lambda: 1_000_000.0)
        ledger.record_call_now(make_call("old"), APPROVED, DONE)

    def calls() -> int:
        with Ledger.open(project.ledger_path) as ledger:
            return len(ledger.calls())

    def start() -> None:
        async def once() -> None:
            async with build_runtime(project):
                _prune_ends()

        asyncio.run(once())

    start()
    assert calls() == 1, "a ledger that has just begun is left alone for a day"
    long_ago = time.time() - 2 * 86_400
    os.utime(project.state / "pruned", (long_ago, long_ago))
    start()
    assert calls() == 0
    assert time.time() - (project.state / "pruned").stat().st_mtime < 3600
