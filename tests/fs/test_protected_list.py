"""The list of protected names is consistent."""

from __future__ import annotations

import re

from holdfast.fs.paths import fold
from holdfast.fs.protected_list import (
    COMMAND_PATTERNS,
    DOCUMENT_PATTERN,
    FORGE_FOLDERS,
    INERT,
    INERT_AT_TOP,
    OWN_REASON,
    PACKAGE_FOLDERS,
    PROTECTED,
)

EVERY = [pattern for patterns in PROTECTED.values() for pattern in patterns]


def test_no_pattern_is_listed_twice() -> None:
    assert sorted(EVERY) == sorted(set(EVERY))


def test_every_exception_for_commands_is_for_a_listed_pattern() -> None:
    assert set(COMMAND_PATTERNS) <= set(EVERY)


def test_inert_names_are_folded_and_not_listed() -> None:
    for names in (INERT, INERT_AT_TOP, frozenset(FORGE_FOLDERS)):
        assert names == frozenset(map(fold, names))
        assert names.isdisjoint(EVERY)


def test_the_exceptions_below_a_forge_folder_match_folded_paths() -> None:
    for pattern in FORGE_FOLDERS.values():
        assert re.compile(pattern) and pattern == pattern.lower()


def test_documents_and_package_folders_are_protected() -> None:
    assert DOCUMENT_PATTERN in PROTECTED[OWN_REASON]
    assert set(EVERY) >= PACKAGE_FOLDERS
