"""Read-only git commands."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.rules.shell.git import NOT_CONTAINED, check_git
from holdfast.rules.shell.judgement import EXAMPLE_CONTEXT


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text",
    ["git status --short", "git log -5 --oneline", "git --no-pager diff HEAD", "git branch --list x", "git remote -v"],
)
def test_reading_subcommands_are_approved_in_a_sandbox_only(text: str) -> None:
    assert check_git(text.split(), EXAMPLE_CONTEXT) == ""
    assert check_git(text.split(), replace(EXAMPLE_CONTEXT, is_sandboxed=lambda: False)) == NOT_CONTAINED


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("git", "it has no subcommand"),
        ("git push", "'git push' is not known to only read"),
        ("git branch x", "it would create a branch"),
        ("git log --output=x", "its option '--output=x' is not known to be harmless"),
        ("git diff ../x", "'../x' is not inside the project"),
    ],
)
def test_everything_else_is_refused_with_a_reason(text: str, reason: str) -> None:
    assert check_git(text.split(), EXAMPLE_CONTEXT) == reason
