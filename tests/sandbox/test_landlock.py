"""The Landlock backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.contract.command import Command
from holdfast.contract.errors import SandboxRefused
from holdfast.sandbox.landlock import Landlock
from holdfast.sandbox.launch import Backend
from holdfast.testing.backend import BackendConformance
from tests.sandbox.sandboxed_commands import policy


@pytest.mark.spec("N1", "N6")
@pytest.mark.skipif(Landlock().available() is not None, reason="this kernel has no usable Landlock")
class TestLandlock(BackendConformance):
    def backend(self) -> Backend:
        return Landlock()

    def test_it_fails_exactly_the_tests_it_does_not_claim(self) -> None:
        from holdfast.sandbox.escape_tests import ESCAPE_TESTS

        missing = set(ESCAPE_TESTS) - self.backend().guarantees
        assert missing == {"change-protected", "create-protected", "rename-parent", "host-processes"}


@pytest.mark.spec("N2")
def test_landlock_refuses_a_list_of_hosts_instead_of_allowing_all(tmp_path: Path) -> None:
    with pytest.raises(SandboxRefused, match="restrict commands to some hosts"):
        Landlock().launch(policy(tmp_path, network=("example.org",)), Command(argv=("true",)), ())
