"""Trusted files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store.ledger import Ledger
from holdfast.store.trust import TrustStore

FILE = Path("/project/holdfast.toml")


@pytest.fixture
def trust(tmp_path: Path) -> Iterator[TrustStore]:
    made = TrustStore(tmp_path / "state" / "user.db")
    yield made
    made.close()


@pytest.mark.spec("A12")
def test_trust_covers_one_content_of_one_file(trust: TrustStore) -> None:
    trust.trust(FILE, "aaa", by="ada")
    assert trust.is_trusted(FILE, "aaa")
    assert not trust.is_trusted(FILE, "bbb")
    assert not trust.is_trusted(Path("/other/holdfast.toml"), "aaa")
    trust.trust(FILE, "bbb", by="ada")
    assert trust.is_trusted(FILE, "bbb")
    assert not trust.is_trusted(FILE, "aaa")
    assert [(item.path, item.digest, item.by) for item in trust.list()] == [(str(FILE), "bbb", "ada")]


@pytest.mark.spec("A12")
def test_revoked_trust_is_gone_in_every_process(trust: TrustStore, tmp_path: Path) -> None:
    elsewhere = TrustStore(tmp_path / "state" / "user.db")
    trust.trust(FILE, "aaa", by="ada")
    assert elsewhere.is_trusted(FILE, "aaa")
    assert elsewhere.revoke(FILE, by="bob") is True
    assert not trust.is_trusted(FILE, "aaa")
    assert trust.revoke(FILE, by="bob") is False
    assert trust.list() == []
    elsewhere.close()


@pytest.mark.spec("A12")
def test_reading_trust_creates_no_file(trust: TrustStore, tmp_path: Path) -> None:
    assert not trust.is_trusted(FILE, "aaa")
    assert trust.list() == []
    assert trust.revoke(FILE, by="ada") is False
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("X10")
def test_every_change_of_trust_is_in_the_hash_chain(trust: TrustStore, tmp_path: Path) -> None:
    trust.trust(FILE, "aaa", by="ada")
    trust.trust(FILE, "bbb", by="ada")
    trust.revoke(FILE, by="bob")
    trust.trust(Path("/other"), "ccc", by="ada")
    with Ledger.open(tmp_path / "state" / "user.db") as ledger:
        assert [entry.kind for entry in ledger.entries()] == ["trusted", "trusted", "untrusted", "trusted"]
        assert ledger.verify().ok
    assert trust.is_trusted(Path("/other"), "ccc")
