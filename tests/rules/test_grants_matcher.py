"""Grants in the ledger: stored, found, consumed and revoked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config.config import ApprovalConfig
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import GrantRefused
from holdfast.rules.from_config import standard_chain
from holdfast.rules.grants import GrantMatcher, narrow_grant
from holdfast.rules.resolvers import GRANTS
from holdfast.store.ledger import Grants, Ledger

from .approval_requests import READ, SHELL, approval_request

MAKE = approval_request(SHELL, {"command": "make test"})


@pytest.fixture
def grants(tmp_path: Path) -> Iterator[Grants]:
    with Ledger.in_memory() as ledger:
        matcher = Grants(ledger, tmp_path / "user.db")
        yield matcher
        matcher.close()


@pytest.mark.spec("A12")
@pytest.mark.parametrize("scope", ["once", "session", "project", "user"])
def test_a_stored_grant_approves_its_call_and_nothing_else(grants: Grants, scope: str) -> None:
    matcher = GrantMatcher(grants)
    chain = standard_chain(ApprovalConfig(), grants=matcher)
    assert chain.judge(MAKE).decision.verdict is Verdict.ASK
    grant = matcher.add(narrow_grant(MAKE, scope, "ann"))  # pyright: ignore[reportArgumentType]
    decision = chain.judge(MAKE).decision
    assert (decision.verdict, decision.source) == (Verdict.APPROVE, GRANTS)
    assert decision.reason == f"Allowed earlier by ann (grant {grant.id}, scope {scope})."
    other = approval_request(SHELL, {"command": "make test; rm -rf /"})
    assert chain.judge(other).decision.verdict is Verdict.ASK


@pytest.mark.spec("A12")
def test_a_one_time_grant_is_used_up_by_one_call(grants: Grants) -> None:
    matcher = GrantMatcher(grants)
    matcher.add(narrow_grant(MAKE, "once", "ann"))
    assert matcher.find(MAKE) is not None
    assert [matcher.consume(MAKE) for _ in range(2)] == [True, False]
    assert matcher.find(MAKE) is None


@pytest.mark.spec("A12")
def test_an_unlimited_grant_is_used_before_a_one_time_grant(grants: Grants) -> None:
    matcher = GrantMatcher(grants)
    matcher.add(narrow_grant(MAKE, "once", "ann"))
    matcher.add(narrow_grant(MAKE, "session", "ann"))
    assert [matcher.consume(MAKE) for _ in range(3)] == [True] * 3
    assert sorted(grant.scope for grant in grants.list(session="session-1")) == ["once", "session"]


@pytest.mark.spec("A12")
def test_grants_can_be_listed_and_revoked(grants: Grants) -> None:
    matcher = GrantMatcher(grants)
    grant = matcher.add(narrow_grant(MAKE, "project", "ann"))
    assert [listed.id for listed in grants.list()] == [grant.id]
    assert grants.revoke(grant.id, by="ann")
    assert matcher.find(MAKE) is None


@pytest.mark.spec("A12")
def test_a_session_grant_does_not_apply_in_another_session(grants: Grants) -> None:
    matcher = GrantMatcher(grants)
    matcher.add(narrow_grant(MAKE, "session", "ann"))
    assert matcher.find(approval_request(SHELL, {"command": "make test"}, session="session-2")) is None


@pytest.mark.spec("A12")
def test_an_expired_grant_covers_nothing(grants: Grants) -> None:
    matcher = GrantMatcher(grants)
    matcher.add(narrow_grant(MAKE, "session", "ann"), expires=1.0)
    assert matcher.find(MAKE) is None
    assert matcher.consume(MAKE) is False


@pytest.mark.spec("A12")
def test_a_refused_grant_is_not_stored(grants: Grants) -> None:
    with pytest.raises(GrantRefused):
        GrantMatcher(grants).add(narrow_grant(MAKE, "user", "ann", width="tool"))
    assert grants.list(every=True) == []


@pytest.mark.spec("A12")
def test_a_folder_grant_survives_storage(grants: Grants) -> None:
    matcher = GrantMatcher(grants)
    matcher.add(narrow_grant(approval_request(READ, {"path": "docs/a.md"}), "project", "ann", width="folder"))
    assert matcher.find(approval_request(READ, {"path": "docs/b.md"})) is not None
    assert matcher.find(approval_request(READ, {"path": "src/b.py"})) is None
