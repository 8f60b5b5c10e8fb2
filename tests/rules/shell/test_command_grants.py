"""\"Always allow\" for shell commands."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from holdfast.contract.errors import GrantRefused
from holdfast.rules.grants import GrantPattern, matches, narrow_grant
from holdfast.store.ledger import Grant, Scope
from tests.rules.asking import READ, SHELL, question


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    return tmp_path


def granted(command: str, root: Path, scope: Scope = "project", **args: str) -> Grant:
    asked = question(SHELL, {"command": command, **args}, root=root, cwd=str(root))
    spec = narrow_grant(asked, scope, "ann", width="command")
    return Grant(
        id="g1", tool=spec.tool, pattern=spec.pattern, scope=scope, by="ann", session=spec.session, created=1.0
    )


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    ("allowed", "command", "covered"),
    [
        ("git status", "git status --short", True),
        ("git status", "git log", False),
        ("git status", "git status; rm x", False),
        ("git status", "git -c a=b status", False),
        ("git status", "git status > f", False),
        ("git log -3", "git log --oneline src", True),
        ("git log", "git log --output=f", False),
        ("ls src", "ls -la", True),
        ("ls src", "ls ..", False),
        ("ls src", "ls $(rm x)", False),
        ("ls src", "cat a", False),
        ("find . -name x", "find . -delete", False),
        ("sed -n 1p src", "sed -i s/a/b/ x", False),
    ],
)
def test_a_reading_command_can_be_allowed_with_other_arguments(
    allowed: str, command: str, covered: bool, root: Path
) -> None:
    grant = granted(allowed, root)
    assert matches(grant, question(SHELL, {"command": command}, root=root, cwd=str(root))) is covered


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    "command",
    [
        "python3 x.py", "bash -c ls", "env ls", "git push", "git", "sudo ls", "git -C x status", "make test", "rm x",
        "xargs ls", "ls; pwd", "ls > f", "cat ../x", "ls *", "cd src", "A=1 ls", "$x", "git clone ext::x y",
        "sed -i s/a/b/ x", "timeout 5 ls",
    ],
)  # fmt: skip
def test_what_runs_its_arguments_or_does_more_than_read_is_not_offered(command: str, root: Path) -> None:
    with pytest.raises(GrantRefused, match="allow exactly this"):
        granted(command, root)


@pytest.mark.spec("A12")
def test_such_a_grant_is_for_its_folder_its_other_arguments_and_its_tool(root: Path) -> None:
    grant = granted("ls", root, timeout="5")
    assert matches(grant, question(SHELL, {"command": "ls src", "timeout": "5"}, root=root, cwd=str(root)))
    assert not matches(grant, question(SHELL, {"command": "ls src"}, root=root, cwd=str(root)))
    assert not matches(grant, question(SHELL, {"command": "ls", "timeout": "5"}, root=root, cwd=str(root / "src")))
    with pytest.raises(GrantRefused):
        narrow_grant(question(READ, {"command": "ls"}, root=root), "project", "ann", width="command")
    with pytest.raises(GrantRefused, match="choose a longer scope"):
        granted("ls", root, scope="once")


@pytest.mark.spec("A12")
def test_a_stored_prefix_that_was_never_offered_covers_nothing_that_runs(root: Path) -> None:
    forged = GrantPattern(definition=SHELL.digest, args={}, command=("python3",), cwd=str(root))
    grant = Grant(
        id="g", tool=SHELL.name, pattern=msgspec.to_builtins(forged), scope="user", by="x", created=1.0
    )
    assert not matches(grant, question(SHELL, {"command": "python3 -c 1"}, root=root, cwd=str(root)))
