"""Helpers for processes that drop privileges; Landlock, seccomp and rlimits are tested through the backends."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest

from holdfast.privileges import FILE_RIGHTS, file_rights, fill_descriptors, memory_file


@pytest.mark.spec("N1")
def test_only_placeholders_before_the_command_are_filled() -> None:
    argv = ["bwrap", "--args", "{fd0}", "--seccomp", "{fd1}", "--", "echo", "{fd0}"]
    assert fill_descriptors(argv, [7, 9]) == ["bwrap", "--args", "7", "--seccomp", "9", "--", "echo", "{fd0}"]


@pytest.mark.spec("N1")
def test_a_memory_file_is_inheritable_and_read_from_its_start() -> None:
    fd = memory_file(b"x" * 100_000)
    try:
        assert os.get_inheritable(fd)
        assert os.read(fd, 200_000) == b"x" * 100_000
    finally:
        os.close(fd)


@pytest.mark.spec("N1")
def test_newer_landlock_versions_control_more_file_rights() -> None:
    known = [file_rights(abi) for abi in (1, 2, 3, 4, 5)]
    assert all(older & newer == older for older, newer in pairwise(known))
    assert FILE_RIGHTS & known[-1] == FILE_RIGHTS
