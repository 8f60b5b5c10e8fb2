"""The protocol of sessions: those of a project satisfy it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.contract.errors import SessionRefused
from holdfast.contract.sessions import Sessions
from holdfast.factory.sessions import ProjectSessions
from holdfast.store.ledger import Ledger
from tests.store.calls import APPROVED, DONE, make_call


def test_the_sessions_of_a_project_can_be_listed_and_need_a_ledger(tmp_path: Path) -> None:
    with Ledger.in_memory() as ledger:
        ledger.record_call_now(make_call("c1"), APPROVED, DONE)
        sessions: Sessions = ProjectSessions(ledger, tmp_path, tmp_path / "web")
        assert [session.id for session in sessions.list()] == ["s1"]
    with pytest.raises(SessionRefused, match="ledger is disabled"):
        ProjectSessions(None, tmp_path, tmp_path / "web").list()
