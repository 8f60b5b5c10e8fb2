"""Rules with `*`: the programs they may name, and the operands they approve."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.config import ApprovalConfig, CommandRule
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import ConfigError
from holdfast.rules.decider import Decider
from holdfast.rules.from_config import standard_caps, standard_chain
from holdfast.rules.shell.context import CommandContext
from holdfast.rules.shell.judgement import compile_rules
from tests.rules.approval_requests import SHELL, approval_request

from .command_judges import in_project, judge_with, judged, rule, verdict

NOT_KNOWN = [
    *("ansible", "ansible-playbook", "at", "bash", "bwrap", "cargo", "coverage", "crontab", "deno", "entr", "env"),
    *("flake8", "gawk", "gcc", "gh", "go", "gradle", "groovy", "hatch", "hyperfine", "java", "jshell", "julia", "ld"),
    *("linux64", "lua", "m4", "make", "mksh", "mount", "mvn", "mypy", "ninja", "node", "nodemon", "nothing-known"),
    *("npm", "perl", "php", "prettier", "psql", "pylint", "python3", "qemu", "reboot", "ruby", "ruff", "rustc", "sh"),
    *("setarch", "sqlite3", "ssh-agent", "sudo", "swift", "task", "timeout", "tox", "ts-node", "tsx", "useradd", "vim"),
    *("wish", "x86_64-linux-gnu-gcc", "xargs", "yash", "zsh"),
]


def files(words: str, **fields: tuple[str, ...]) -> CommandRule:
    """A rule whose `*` stands for project files."""
    return CommandRule(rule=words, verdict="approve", operands="files", **fields)  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("A11")
@pytest.mark.parametrize("program", NOT_KNOWN)
def test_a_program_not_known_to_treat_files_as_data_cannot_be_approved_with_operands(program: str) -> None:
    for given in (rule(f"{program} *"), files(f"{program} *"), files(f"{program} x *")):
        with pytest.raises(ConfigError, match="is not known to treat its operands as data"):
            compile_rules((given,))
    assert verdict(f"{program} a", judge_with(rule(f"{program} a"))) is Verdict.APPROVE


@pytest.mark.spec("A11")
@pytest.mark.parametrize("words", ["tee", "cp", "pytest", "ruff check", "shellcheck"])
def test_a_program_that_changes_files_needs_operands_files(words: str) -> None:
    with pytest.raises(ConfigError, match='operands = "files"'):
        compile_rules((rule(f"{words} *"),))
    compile_rules((files(f"{words} *"),))


@pytest.mark.spec("A11")
def test_with_operands_files_every_operand_must_exist(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("")
    context = in_project(tmp_path)
    judge = judge_with(files("pytest *", options=("-q",)), files("ruff check *"))
    for approved in ("pytest", "pytest tests", "pytest -q tests/test_a.py", "pytest tests/test_a.py::test_x"):
        assert verdict(approved, judge, context) is Verdict.APPROVE
    for asked in (
        "pytest -x tests",
        "pytest missing",
        "pytest ../tests",
        "ruff check rm tests",
        "ruff tests",
        "pytest @tests",
        "pytest $(find tests -name '*.py')",
        "find tests -name '*.py' | xargs pytest",
    ):
        assert verdict(asked, judge, context) is None


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("operand", "approved"),
    [
        *((operand, True) for operand in ("a.py", "a=b", "src/a.py:3", "a.py::test_x", "k=src/b", "a,b", "a..b")),
        *((operand, False) for operand in (
            "@/etc/passwd", "@a", "x=/etc/passwd", "x:/etc/passwd", "x=../y", "x=..", "x:..", "x=~", "x=~/y", "x:~/y",
            "a,/etc/passwd", "x=src/../../y", "a=b=/c", "a:b:../c", "http://x/y", "user@/etc", "x=.git/config",
        )),
    ],
)  # fmt: skip
def test_a_path_inside_an_operand_must_be_in_the_project(operand: str, approved: bool) -> None:
    outcome = judged(f"shellcheck '{operand}'", judge_with(files("shellcheck *")))
    assert outcome.verdict is (Verdict.APPROVE if approved else None), outcome.reason


@pytest.mark.spec("A11")
@pytest.mark.parametrize("operands", ["a " * 5000, "a=" * 20, "--to" + "=" * 30_000], ids=["many", "joined", "long"])
def test_a_command_with_too_many_paths_needs_approval(operands: str) -> None:
    outcome = judged(f"shellcheck {operands}", judge_with(files("shellcheck *", options=("--to=",))))
    assert outcome.verdict is None
    assert "too many" in outcome.reason


@pytest.mark.spec("A11", "N3")
def test_a_symlink_inside_an_operand_is_resolved(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "out").symlink_to("..")
    context = CommandContext.at(str(root), [str(root)], lambda: True)
    tool = judge_with(rule("ls *"))
    assert verdict("ls x=out/secret", tool, context) is None
    assert verdict("ls x=in/secret", tool, context) is Verdict.APPROVE


WRITERS = judge_with(
    *(files(f"{name} *", options=("-t", "--target=")) for name in ("cp", "mv", "touch", "rm", "mkdir", "shellcheck")),
    *(rule(f"git {name} *") for name in ("add", "checkout", "log")),
    *(rule(f"{name} *") for name in ("cat", "cd", "grep")),
    rule("touch .envrc"),
)


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize(
    ("text", "approved"),
    [
        ("cp a b", True),
        ("cp a .git/hooks/pre-commit", False),
        ("cp a .GIT/hooks/pre-commit", False),
        ("mv .git x", False),
        ("mv a sub/.envrc", False),
        ("touch .env", False),
        ("touch .envrc", True),
        ("touch .envrc .envrc", False),
        ("rm Makefile", False),
        ("mkdir .github/workflows", False),
        ("cp -t .git/hooks a", False),
        ("cp --target=.git/hooks a", False),
        ("cp --target=src a", True),
        ("shellcheck out:.git/config", False),
        ("timeout 5 cp a .envrc", False),
        ("cd .git && cp a hooks/x", False),
        ("cd .github && mkdir workflows", False),
        ("cd .git/hooks && shellcheck", False),
        ("cd src && cp a b", True),
        ("git add src", True),
        ("git add .gitattributes", False),
        ("git checkout main .envrc", False),
        ("git log .gitattributes", True),
        ("cat .env", True),
        ("grep x .git/config Makefile", True),
    ],
)
def test_a_rule_does_not_approve_a_protected_path_for_a_program_that_may_change_it(text: str, approved: bool) -> None:
    outcome = judged(text, WRITERS)
    assert outcome.verdict is (Verdict.APPROVE if approved else None), outcome.reason


@pytest.mark.spec("A11", "A18")
def test_a_rule_that_spells_out_a_written_file_still_protects_paths() -> None:
    judge = judge_with(rule("tar xf x.tar", options=("--directory=",)), rule("sort a", options=("--output=",)))
    for asked in ("tar xf x.tar --directory=.git/hooks", "sort a --output=.envrc"):
        assert verdict(asked, judge) is None
    assert verdict("tar xf x.tar --directory=src", judge) is Verdict.APPROVE


@pytest.mark.spec("A11", "A18")
def test_a_symlink_to_a_protected_path_is_protected(tmp_path: Path) -> None:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / "harmless").symlink_to(".git/hooks")
    context = CommandContext.at(str(tmp_path), [str(tmp_path)], lambda: True)
    (tmp_path / ".git" / "hooks" / "pre-commit").touch()
    assert verdict("cp a harmless/pre-commit", WRITERS, context) is None
    (tmp_path / "harm").mkdir()
    for name in ("a", "harm/pre-commit"):
        (tmp_path / name).touch()
    assert verdict("cp a harm/pre-commit", WRITERS, context) is Verdict.APPROVE


@pytest.mark.spec("A11", "A18")
def test_paths_protected_by_the_configuration_are_protected(tmp_path: Path) -> None:
    (tmp_path / "deploy.key").touch()
    approval = ApprovalConfig(commands=(files("touch *"),))
    asked = approval_request(SHELL, {"command": "touch deploy.key"}, root=tmp_path, cwd=str(tmp_path))
    for protected, outcome in ((), Verdict.APPROVE), (("*.key",), Verdict.ASK):
        chain = standard_chain(approval, protected=protected)
        assert Decider(chain, standard_caps(approval, chain)).decide(asked).verdict is outcome
