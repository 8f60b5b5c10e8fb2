"""The registry of documents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.fs.own_paths import document_identities, is_registered_document, register_document, registered_documents


@pytest.mark.spec("N9", "U2")
def test_a_registered_document_is_recognized_by_every_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "Notes" / "talk.md"
    path.parent.mkdir()
    path.write_text("x")
    assert not is_registered_document(str(path))
    register_document(path)
    register_document(path)
    os.link(path, tmp_path / "hard")
    for name in ("Notes/talk.md", "notes/TALK.md", "Notes/talk.md.", "hard", "Notes/ta\u200blk.md"):
        assert is_registered_document(str(tmp_path / name)), name
    for name in ("Notes", "Notes/talk.m", "talk.md", "other"):
        assert not is_registered_document(str(tmp_path / name)), name
    assert list(registered_documents()) == [str(path)]
    assert document_identities() == {(path.stat().st_dev, path.stat().st_ino)}


@pytest.mark.spec("N9", "U2")
def test_a_document_stays_registered_while_it_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "talk.md"
    register_document(path)
    assert is_registered_document(str(path)) and document_identities() == set()
    path.write_text("x")
    assert is_registered_document(str(path)) and len(document_identities()) == 1


@pytest.mark.spec("N9")
@pytest.mark.parametrize("name", ["a\0b", "\udcff", "x" * 5000])
def test_any_path_can_be_checked(name: str) -> None:
    assert not is_registered_document(f"/tmp/{name}")
