"""Grants: scopes, sessions, expiry, revocation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.contract.errors import GrantRefused
from holdfast.store.ledger import Grants, Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "project" / "l.db") as opened:
        yield opened


@pytest.fixture
def grants(ledger: Ledger, tmp_path: Path) -> Iterator[Grants]:
    made = ledger.grants.with_user(tmp_path / "user" / "user.db")
    yield made
    made.close()


@pytest.mark.spec("A12")
def test_a_grant_is_listed_with_all_its_fields(grants: Grants, ledger: Ledger) -> None:
    grant = grants.add(tool="shell.exec", pattern={"command": "make"}, scope="project", by="ada", expires=9e9)
    assert grants.list() == [grant]
    assert (grant.tool, grant.pattern, grant.scope, grant.by, grant.expires, grant.uses) == (
        *("shell.exec", {"command": "make"}, "project", "ada", 9e9, None),
    )
    assert grants.list(tool="file.write") == []
    with Ledger.open(ledger.path) as after_restart:
        assert after_restart.grants.list() == [grant]


@pytest.mark.spec("A12")
def test_a_session_grant_applies_only_in_its_session(grants: Grants) -> None:
    grant = grants.add(tool="t", pattern={}, scope="session", session="s1", by="ada")
    assert grants.list(session="s1") == [grant]
    assert grants.list(session="s2") == grants.list() == []
    assert grants.list(every=True) == [grant]
    with pytest.raises(GrantRefused, match="needs a session"):
        grants.add(tool="t", pattern={}, scope="session", by="ada")


@pytest.mark.spec("A12")
def test_a_user_grant_is_stored_outside_the_project(ledger: Ledger, grants: Grants, tmp_path: Path) -> None:
    assert grants.list() == []
    assert not (tmp_path / "user").exists()
    grant = grants.add(tool="t", pattern={}, scope="user", by="ada")
    assert grants.list() == [grant]
    assert ledger.grants.list() == []
    with Ledger.open(tmp_path / "other" / "l.db") as other:
        elsewhere = other.grants.with_user(tmp_path / "user" / "user.db")
        assert elsewhere.list() == [grant]
        assert elsewhere.revoke(grant.id, by="bob")
        elsewhere.close()
    assert grants.list() == []
    with pytest.raises(GrantRefused, match="Choose the scope project"):
        ledger.grants.add(tool="t", pattern={}, scope="user", by="ada")


@pytest.mark.spec("A12")
def test_a_revoked_grant_disappears_immediately_for_every_process(ledger: Ledger, grants: Grants) -> None:
    grant = grants.add(tool="t", pattern={}, scope="project", by="ada")
    with Ledger.open(ledger.path) as other:
        assert other.grants.list() == grants.list() == ledger.grants.list() == [grant]
        assert other.grants.revoke(grant.id, by="bob") is True
        assert other.grants.list() == grants.list() == ledger.grants.list() == []
    assert grants.revoke(grant.id, by="bob") is False
    assert grants.consume(grant.id, "c1") is False


@pytest.mark.spec("A12")
def test_a_grant_for_once_is_consumed_and_others_are_not(grants: Grants) -> None:
    once = grants.add(tool="t", pattern={}, scope="once", by="ada", session="s1")
    often = grants.add(tool="t", pattern={}, scope="project", by="ada")
    assert [grants.consume(once.id, f"c{number}") for number in range(3)] == [True, False, False]
    assert [grants.consume(often.id, f"c{number}") for number in range(3)] == [True, True, True]
    assert grants.list(session="s1") == [often]


@pytest.mark.spec("A12")
def test_an_expired_grant_allows_nothing(grants: Grants) -> None:
    grant = grants.add(tool="t", pattern={}, scope="once", by="ada", expires=time.time() - 1)
    assert grants.list() == []
    assert grants.consume(grant.id, "c1") is False
    assert grants.list(every=True) == [grant]


@pytest.mark.spec("A12", "X10")
def test_every_change_of_a_grant_is_in_the_hash_chain(ledger: Ledger) -> None:
    grants = ledger.grants
    once = grants.add(tool="t", pattern={}, scope="once", by="ada")
    kept = grants.add(tool="t", pattern={}, scope="project", by="ada")
    gone = grants.add(tool="t", pattern={}, scope="project", by="ada")
    grants.consume(once.id, "c1")
    grants.revoke(gone.id, by="bob")
    entries = list(ledger.entries())
    assert [entry.kind for entry in entries] == ["granted", "granted", "granted", "consumed", "revoked"]
    assert entries[3].body == {"id": once.id, "for_call": "c1"}
    assert entries[4].body == {"id": gone.id, "by": "bob"}
    assert ledger.verify().ok
    assert grants.list() == [kept]
    assert ledger.calls() == []
