"""Grants for shell commands."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from holdfast.contract.errors import GrantRefused
from holdfast.rules.chain import ApprovalRequest, Confinement
from holdfast.rules.grants import GrantPattern, matches, narrow_grant
from holdfast.store.ledger import Grant, Scope
from tests.rules.approval_requests import READ, SHELL, approval_request


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    return tmp_path


def granted(command: str, root: Path, scope: Scope = "project", **args: str) -> Grant:
    asked = approval_request(SHELL, {"command": command, **args}, root=root, cwd=str(root))
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
def test_a_read_only_command_can_be_granted_with_other_arguments(
    allowed: str, command: str, covered: bool, root: Path
) -> None:
    grant = granted(allowed, root)
    assert matches(grant, approval_request(SHELL, {"command": command}, root=root, cwd=str(root))) is covered


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    "command",
    [
        "python3 x.py", "bash -c ls", "env ls", "git push", "git", "sudo ls", "git -C x status", "make test", "rm x",
        "xargs ls", "ls; pwd", "ls > f", "cat ../x", "ls *", "cd src", "A=1 ls", "$x", "git clone ext::x y",
        "sed -i s/a/b/ x", "timeout 5 ls",
    ],
)  # fmt: skip
def test_a_command_that_runs_its_arguments_or_does_more_than_read_cannot_be_widened(command: str, root: Path) -> None:
    with pytest.raises(GrantRefused, match="Allow exactly this"):
        granted(command, root)


@pytest.mark.spec("A12")
def test_a_widened_command_grant_is_bound_to_its_folder_other_arguments_and_tool(root: Path) -> None:
    grant = granted("ls", root, stdin="5")
    assert matches(grant, approval_request(SHELL, {"command": "ls src", "stdin": "5"}, root=root, cwd=str(root)))
    assert not matches(grant, approval_request(SHELL, {"command": "ls src"}, root=root, cwd=str(root)))
    assert not matches(
        grant, approval_request(SHELL, {"command": "ls", "stdin": "5"}, root=root, cwd=str(root / "src"))
    )
    with pytest.raises(GrantRefused):
        narrow_grant(approval_request(READ, {"command": "ls"}, root=root), "project", "ann", width="command")
    with pytest.raises(GrantRefused, match="Choose a longer scope"):
        granted("ls", root, scope="once")


@pytest.mark.spec("A12")
def test_a_forged_command_prefix_covers_nothing(root: Path) -> None:
    forged = GrantPattern(definition=SHELL.digest, args={}, command=("python3",), cwd=str(root))
    grant = Grant(id="g", tool=SHELL.name, pattern=msgspec.to_builtins(forged), scope="user", by="x", created=1.0)
    assert not matches(grant, approval_request(SHELL, {"command": "python3 -c 1"}, root=root, cwd=str(root)))


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    ("allowed", "command", "covered"),
    [
        ("npm run test:unit", "npm run test:e2e", True),
        ("npm run test:unit", "npm run test:unit:fast", True),
        ("npm run test:unit", "npm run test", False),
        ("npm run test:unit", "npm run build:all", False),
        ("npm run test:unit", "npm run test:unit -- --x", False),
        ("npm run test:unit", "npm run test:e2e && rm -r src", False),
        ("npm run test:unit", "npm run test:$X", False),
        ("npm run test:unit", "A=1 npm run test:e2e", False),
        ("npm run test:unit", "npm run test:e2e > src/a.py", False),
        ("npm run test:unit", "pnpm run test:unit", False),
        ("pytest -q src/a.py", "pytest src/b.py -q", True),
        ("pytest -q src/a.py", "pytest -q src/a.py src/b.py", True),
        ("pytest -q src/a.py", "pytest src/b.py", False),
        ("pytest -q src/a.py", "pytest -q -p evil src/b.py", False),
        ("pytest -q src/a.py", "pytest -q", False),
        ("pytest -q src/a.py", "pytest -q ../b.py", False),
        ("pytest -q src/a.py", "pytest -q src/none.py", False),
        ("pytest --collect-only src/a.py", "pytest src/a.py", False),
        ("ruff check src/a.py", "ruff check src/b.py", True),
        ("ruff check src/a.py", "ruff format src/b.py", False),
        ("ruff check src/a.py", "ruff check --fix src/b.py", False),
    ],
)
def test_a_prefix_can_be_granted_if_only_a_file_or_a_script_of_the_family_can_follow(
    allowed: str, command: str, covered: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "b.py"):
        (root / "src" / name).write_text("")
    monkeypatch.setattr("holdfast.rules.shell.judgement._untrusted_reason", _trust)
    assert (
        matches(granted(allowed, root), approval_request(SHELL, {"command": command}, root=root, cwd=str(root)))
        is covered
    )


def _trust(program: str, context: object, *, external: bool) -> str:
    """Treat every program as a system program."""
    return ""


@pytest.mark.spec("A12")
def test_a_command_grant_ignores_the_timeout(root: Path) -> None:
    asked = approval_request(SHELL, {"command": "npm test", "timeout": None, "label": "a"}, root=root, cwd=str(root))
    spec = narrow_grant(asked, "project", "ann")
    grant = Grant(id="g", tool=spec.tool, pattern=spec.pattern, scope="project", by="ann", created=1.0)
    for timeout in (None, 5, 600):
        again = approval_request(SHELL, {"command": "npm test", "timeout": timeout}, root=root, cwd=str(root))
        assert matches(grant, again)
    other = approval_request(SHELL, {"command": "npm test --x", "timeout": None}, root=root, cwd=str(root))
    assert not matches(grant, other)


@pytest.mark.spec("A12")
def test_a_user_grant_applies_in_another_project_only_under_its_sandbox(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"

    def asked(
        root: Path, writable: Path | None = None, cwd: Path | None = None, hidden: str = "$secrets"
    ) -> ApprovalRequest:
        writable = writable or root
        held = Confinement(
            backend="bubblewrap",
            network="off",
            writable=(str(writable), "/scratch"),
            patterns=(f"{root}: {hidden}",),
        )
        return approval_request(
            SHELL, {"command": "npm test"}, root=root, cwd=str(cwd or root), confinement=lambda: held
        )

    spec = narrow_grant(asked(one), "user", "ann")
    grant = Grant(id="g", tool=spec.tool, pattern=spec.pattern, scope="user", by="ann", created=1.0)
    assert str(one) not in str(spec.pattern)
    assert matches(grant, asked(one)) and matches(grant, asked(two))
    assert not matches(grant, asked(two, writable=tmp_path))
    assert not matches(grant, asked(two, writable=one)), "the other project is not the project of the call"
    assert not matches(grant, asked(two, cwd=two / "src"))
    assert not matches(grant, asked(two, hidden="other")), "the same patterns must hide files there"
    narrow = narrow_grant(asked(one), "project", "ann")
    assert not matches(
        Grant(id="g", tool=narrow.tool, pattern=narrow.pattern, scope="project", by="ann", created=1.0), asked(two)
    )
