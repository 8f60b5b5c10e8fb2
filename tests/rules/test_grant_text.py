"""A grant in words."""

from __future__ import annotations

from holdfast.rules.grant_text import describe_grant
from holdfast.rules.grants import narrow_grant
from holdfast.tools.shell import SHELL_EXEC
from tests.rules.test_grants import approval_request


def test_a_command_is_described_as_a_command() -> None:
    spec = narrow_grant(approval_request(SHELL_EXEC, {"command": "make test"}), "project", "ann")
    assert describe_grant(spec.tool, spec.pattern).startswith("`make test` with any timeout")


def test_a_hostile_command_cannot_control_the_terminal() -> None:
    spec = narrow_grant(approval_request(SHELL_EXEC, {"command": "echo \x1b[2J\nok"}), "project", "ann")
    assert describe_grant(spec.tool, spec.pattern).isprintable()


def test_an_unreadable_or_old_grant_is_described_as_allowing_nothing() -> None:
    assert "allows nothing" in describe_grant("note", {"unknown": 1})
    assert "allows nothing" in describe_grant("note", {"definition": "d", "args": {}})
