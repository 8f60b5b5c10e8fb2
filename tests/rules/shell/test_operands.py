"""What a rule with `*` may be about, and which operands it approves."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.model import ApprovalConfig
from holdfast.contract.errors import ConfigError
from holdfast.contract.vocabulary import Verdict
from holdfast.rules.gate import Gate
from holdfast.rules.shell.examples import compiled
from holdfast.rules.shell.place import Place
from holdfast.rules.standard import standard_caps, standard_chain
from tests.rules.asking import SHELL, question

from .judging import judge_with, judged, rule, verdict

REFUSED = [
    "gcc", "gcc-12", "x86_64-linux-gnu-gcc", "cc", "clang++-15", "rustc", "ld", "mksh", "yash", "hyperfine", "entr",
    "nodemon", "ssh-agent", "setarch", "linux64", "bwrap", "gh", "coverage", "hatch", "nox", "m4",
]  # fmt: skip
CHANGING = ["date", "mount", "umount", "insmod", "modprobe", "mkfs.ext4", "sysctl", "useradd", "reboot", "kill"]


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("program", "reason"),
    [*((name, "runs or writes whatever") for name in REFUSED), *((name, "changes the system") for name in CHANGING)],
)
def test_what_runs_its_arguments_or_changes_the_system_is_approved_word_by_word_only(
    program: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        compiled((rule(f"{program} *"),))
    assert verdict(f"{program} a", judge_with(rule(f"{program} a"))) is Verdict.APPROVE


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
def test_a_path_inside_an_operand_must_be_the_projects_too(operand: str, approved: bool) -> None:
    said = judged(f"mytool '{operand}'", judge_with(rule("mytool *")))
    assert said.verdict is (Verdict.APPROVE if approved else None), said.reason


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "operands", ["a " * 5000, "a=" * 20, "--to" + "=" * 30_000], ids=["many", "joined", "long"]
)
def test_more_paths_than_can_be_looked_at_are_left_to_a_person(operands: str) -> None:
    said = judged(f"mytool {operands}", judge_with(rule("mytool *", options=("--to=",))))
    assert said.verdict is None
    assert "too many" in said.reason


@pytest.mark.spec("A11", "N3")
def test_a_link_inside_an_operand_is_followed(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "out").symlink_to("..")
    place = Place.at(str(root), [str(root)], lambda: True)
    tool = judge_with(rule("ls *"))
    assert verdict("ls x=out/secret", tool, place) is None
    assert verdict("ls x=in/secret", tool, place) is Verdict.APPROVE


WRITERS = judge_with(
    *(rule(f"{name} *", options=("-t", "--target=")) for name in ("cp", "mv", "touch", "rm", "mkdir", "mytool")),
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
        ("mytool out:.git/config", False),
        ("timeout 5 cp a .envrc", False),
        ("cd .git && cp a hooks/x", False),
        ("cd .github && mkdir workflows", False),
        ("cd .git/hooks && mytool", False),
        ("cd src && cp a b", True),
        ("git add src", True),
        ("git add .gitattributes", False),
        ("git checkout main .envrc", False),
        ("git log .gitattributes", True),
        ("cat .env", True),
        ("grep x .git/config Makefile", True),
    ],
)
def test_a_rule_does_not_approve_that_a_protected_path_is_handed_to_a_program_that_may_change_it(
    text: str, approved: bool
) -> None:
    said = judged(text, WRITERS)
    assert said.verdict is (Verdict.APPROVE if approved else None), said.reason


@pytest.mark.spec("A11", "A18")
def test_a_link_to_a_protected_path_is_protected(tmp_path: Path) -> None:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / "harmless").symlink_to(".git/hooks")
    place = Place.at(str(tmp_path), [str(tmp_path)], lambda: True)
    assert verdict("cp a harmless/pre-commit", WRITERS, place) is None
    assert verdict("cp a harm/pre-commit", WRITERS, place) is Verdict.APPROVE


@pytest.mark.spec("A11", "A18")
def test_what_the_configuration_protects_counts_too(tmp_path: Path) -> None:
    approval = ApprovalConfig(commands=(rule("touch *"),))
    asked = question(SHELL, {"command": "touch deploy.key"}, root=tmp_path, cwd=str(tmp_path))
    for protected, said in ((), Verdict.APPROVE), (("*.key",), Verdict.ASK):
        chain = standard_chain(approval, protected=protected)
        assert Gate(chain, standard_caps(approval, chain)).decide(asked).verdict is said
