"""The conformance suite of sandbox backends fails for a backend that contains nothing."""

from __future__ import annotations

import pytest

from holdfast.contract.command import Command
from holdfast.sandbox.launch import Backend, Launch, Overlay
from holdfast.sandbox.policy import SandboxPolicy
from holdfast.testing.backend import BackendConformance


class BareBackend:
    """Starts commands without a sandbox, and calls that contained."""

    name = title = identity = "bare"
    priority = 0
    guarantees = frozenset[str]()

    def available(self) -> str | None:
        return None

    def launch(self, policy: SandboxPolicy, command: Command, overlays: tuple[Overlay, ...]) -> Launch:
        assert command.cwd is not None
        folder = str(command.cwd)
        return Launch(argv=tuple(command.argv), cwd=folder, env={"HOME": folder}, contained=True)


class Suite(BackendConformance):
    def backend(self) -> Backend:
        return BareBackend()


def test_a_backend_that_only_starts_commands_passes_the_tests_of_starting() -> None:
    Suite().test_the_exit_code_and_both_streams_are_returned()


def test_a_read_only_command_that_can_write_is_found() -> None:
    with pytest.raises(AssertionError):
        Suite().test_a_read_only_command_writes_only_in_its_private_home()
