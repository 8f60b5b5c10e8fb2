"""Names of what holdfast writes beside a document."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.fs.document_names import attachments_folder, conflict_copy, is_conflict_copy

NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..")
)


@pytest.mark.spec("B2")
def test_the_folder_of_the_attachments_is_named_after_the_document() -> None:
    assert attachments_folder("notes.chat") == "notes.chat.files"


@given(NAMES, st.integers(1, 9999))
@pytest.mark.spec("B2")
def test_a_conflict_copy_is_recognized_by_its_name(document: str, number: int) -> None:
    name = conflict_copy(document, number)
    assert is_conflict_copy(name, document)
    assert not is_conflict_copy(name, f"x{document}")


@pytest.mark.parametrize(
    "name",
    [
        "notes.chat",
        "notes.conflict.chat",
        "notes.conflict-x.chat",
        "notes.conflict-01.chat",
        "notes.conflict-1.txt",
        "notes.conflict-1.chat.bak",
        "other.conflict-1.chat",
    ],
)
@pytest.mark.spec("B2")
def test_similar_names_are_no_conflict_copies(name: str) -> None:
    assert is_conflict_copy("notes.conflict-1.chat", "notes.chat")
    assert not is_conflict_copy(name, "notes.chat")
