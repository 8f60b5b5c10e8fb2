"""The session tools without a runtime: what they show. tests/factory/test_sessions.py tests them in a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import SessionRefused
from holdfast.contract.result import Result
from holdfast.contract.sessions import DeletedSession, Sessions, SessionSummary
from holdfast.tools.sessions import SESSIONS_DELETE, SESSIONS_LIST
from tests.tools.files.fake_context import FakeContext

ONE = SessionSummary(
    id="chat-1", document="/p/\x1b[2Ja.chat", interface="chat", agent=None, skill=None, first=0.0, last=60.0, calls=1,
    pending=1, running=0, bytes=2048, last_entry=7,
)  # fmt: skip


class FakeSessions:
    """Satisfies `Sessions` with fixed sessions."""

    def list(self, since: float | None = None, until: float | None = None, text: str = "") -> list[SessionSummary]:
        return [ONE] * 30

    def find(self, session: str, ctx: Context) -> SessionSummary:
        if session != ONE.id:
            raise SessionRefused("There is no such session.")
        return ONE

    def delete(self, session: str, last_entry: int, ctx: Context) -> DeletedSession:
        assert (session, last_entry) == (ONE.id, ONE.last_entry)
        return DeletedSession(
            id=session, calls=1, entries=3, blobs=2, freed=10, erased=False, kept=("a.chat.files/x\x1b.png",)
        )


class SessionContext(FakeContext):
    def service(self, protocol: type[Any]) -> Any:
        assert protocol is Sessions
        return FakeSessions()


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return cast(Context, SessionContext(tmp_path))


@pytest.mark.spec("B12b")
def test_the_list_is_bounded_and_no_name_reaches_the_terminal_unescaped(ctx: Context) -> None:
    execute = SESSIONS_LIST.execute
    assert execute is not None
    result = cast(Result, execute({"limit": 2}, ctx))
    lines = result.output.splitlines()
    assert len(lines) == 3 and "28 older ones" in lines[2]
    assert "1 call, 1 pending, 2.0KB" in lines[0] and "1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z" in lines[0]
    assert "\x1b" not in result.output
    assert SESSIONS_LIST.output_validator is not None and SESSIONS_LIST.output_validator.is_valid(result.structured)


@pytest.mark.spec("B12c")
def test_a_deletion_is_proposed_first_as_a_high_risk_and_then_reported(ctx: Context) -> None:
    propose, apply = SESSIONS_DELETE.propose, SESSIONS_DELETE.apply
    assert propose is not None and apply is not None
    proposal = propose({"session": ONE.id}, ctx)
    assert isinstance(proposal, Proposal) and proposal.risk is Risk.HIGH and "\x1b" not in proposal.preview
    done = cast(Result, apply(proposal.payload, ctx))
    assert (
        "files that changed since, or that another document links to: a.chat.files/x" in done.output
        and "\x1b" not in done.output
    )
    assert "1 calls" not in done.output and "file is rewritten later" in done.output
    assert SESSIONS_DELETE.output_validator is not None and SESSIONS_DELETE.output_validator.is_valid(done.structured)
    assert cast(Result, propose({"session": "x"}, ctx)).error == "There is no such session."


@pytest.mark.spec("B12b", "P1")
def test_only_the_full_profile_has_them() -> None:
    assert SESSIONS_LIST.profiles == SESSIONS_DELETE.profiles == ()
    assert SESSIONS_DELETE.presets == () and SESSIONS_DELETE.mutates and not SESSIONS_LIST.mutates


def test_the_previews_name_the_session_and_the_filter() -> None:
    listed, deleted = SESSIONS_LIST.format_preview, SESSIONS_DELETE.format_preview
    assert listed is not None and deleted is not None
    assert listed({"text": "a", "since": "2h"}, 80) == "text a  since 2h"
    assert deleted({"session": "chat-1"}, 80) == "chat-1"
