"""The fuzzer of command rules: real runs show whether a rule approves harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.contract.enums import Verdict
from holdfast.fuzz.corpus import READONLY_CORPUS
from holdfast.fuzz.fuzzer import create_project, fuzz, mutants, run_watched
from holdfast.rules.shell.context import CommandContext
from holdfast.rules.shell.judgement import CommandJudge

PRESET = CommandJudge(readers=True, quiet=True)


def shipped(text: str, context: CommandContext) -> str | None:
    judged = PRESET.judge(text, context)
    return ", ".join(judged.rules) if judged.verdict is Verdict.APPROVE else None


@pytest.mark.spec("A11", "E1b")
@pytest.mark.parametrize(("shell", "tidy"), [("bash", False), ("dash", False), ("bash", True)])
def test_no_approved_mutant_of_the_shipped_preset_does_harm(shell: str, tidy: bool) -> None:
    report = fuzz(READONLY_CORPUS, shipped, count=1200, seed=7, shell=shell, tidy=tidy)
    assert report.mutants == 1200
    assert report.unasked >= 30
    assert report.escapes == ()


@pytest.mark.spec("A11", "E1b")
def test_the_fuzzer_finds_a_rule_that_only_checks_the_prefix() -> None:
    def careless(text: str, context: CommandContext) -> str | None:
        return "git log" if text.startswith("git log") else None

    report = fuzz(["git log", "git log --oneline"], careless, count=600, seed=1)
    assert len(report.escapes) >= 10
    assert {escape.rule for escape in report.escapes} == {"git log"}
    seen = " ".join(escape.what for escape in report.escapes)
    assert "it changed" in seen and "it printed" in seen and "it ran a planted program" in seen


@pytest.mark.spec("A11", "E1b")
def test_every_kind_of_harm_is_detected_and_undone(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    create_project(base)
    commands = {
        "rm canary.txt": "it changed project/canary.txt",
        "cat canary.txt": "",
        "echo x >> canary.txt": "it changed project/canary.txt",
        "cat canary.txt # again": "",
        "touch new": "it changed project/new",
        "chmod 600 canary.txt": "it changed project/canary.txt",
        "evil": "it ran a planted program",
        "tools/git": "it ran a planted program",
        "cat ~/secret.txt": "it printed a file of the user",
        "rev ../outside/secret.txt": "it printed a file outside the project",
        "cat link-secret": "it printed a file outside the project",
        "touch /tmp/pwned": "it changed /tmp/pwned",
        "ls -la; git status; git log": "",
        "rm -rf ../home src": None,
        "cat notes.txt": "",
        "ls \x00": "",
    }
    found = run_watched(list(commands), base)
    for (command, wanted), what in zip(commands.items(), found, strict=True):
        assert bool(what) if wanted is None else "; ".join(what) == wanted, (command, what)


@pytest.mark.spec("A11")
def test_mutants_are_distinct_and_reproducible_by_seed() -> None:
    made = list(mutants(READONLY_CORPUS, 10_000, seed=3))
    assert len({mutant.text for mutant in made}) == 10_000
    assert made == list(mutants(READONLY_CORPUS, 10_000, seed=3))
    assert made[:10] != list(mutants(READONLY_CORPUS, 10, seed=4))
    assert len(list(mutants(["a"], 2000))) == 2000
