"""A denied program is found however it is hidden; every command here really runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.contract.enums import Verdict
from holdfast.fuzz.fuzzer import create_project, mutants, run_watched
from holdfast.rules.shell.programs import dialect_of

from .command_judges import judge_with, rule
from .hidden_commands import ELSEWHERE, hidden_commands

DENYING = judge_with(rule("evil", "deny"))
HIDDEN = hidden_commands()


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_denied_program_is_found_however_it_is_hidden(shell: str) -> None:
    hidden = HIDDEN if shell == "bash" else (*HIDDEN, *ELSEWHERE)
    assert [text for text in hidden if DENYING.judge_restrictions(text, dialect_of(shell)).verdict is None] == []


def planted(base: Path) -> None:
    """The fuzzer's project, with an `evil` that leaves its own mark."""
    create_project(base)
    (base / "marks" / "evil").write_text("")
    for path in (base / "project" / "evil", base / "project" / "tools" / "evil"):
        path.write_text(f"#!/bin/sh\necho ran >> {base}/marks/evil\n")
        path.chmod(0o755)


def ran_evil(commands: Sequence[str], base: Path, shell: str) -> list[str]:
    done = run_watched(commands, base, shell=shell)
    return [text for text, what in zip(commands, done, strict=True) if any("marks/evil" in outcome for outcome in what)]


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_the_hidden_commands_really_run(shell: str, tmp_path: Path) -> None:
    base = tmp_path.resolve()
    planted(base)
    sample = HIDDEN[:: 20 if shell == "bash" else 40]
    ran = ran_evil(sample, base, shell)
    assert len(ran) >= len(sample) * (0.85 if shell == "bash" else 0.5)


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_no_mutant_that_passes_a_denying_rule_runs_the_denied_program(shell: str, tmp_path: Path) -> None:
    base = tmp_path.resolve()
    planted(base)
    bases = [text for text in HIDDEN if len(text) < 60]
    made = [mutant.text for mutant in mutants(bases, 250, seed=5, outside=str(base / "outside"))]
    silent = [text for text in made if DENYING.judge_restrictions(text, dialect_of(shell)).verdict is None]
    assert ran_evil(silent, base, shell) == []


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("echo x &>/dev/null evil", Verdict.ASK),
        ("((evil))", Verdict.ASK),
        ("echo $'evil'", Verdict.ASK),
        ("function f { evil; }", Verdict.ASK),
        ("ls; evil", Verdict.DENY),
        ("ls", None),
    ],
)
def test_syntax_that_shells_interpret_differently_is_unknown_outside_bash(text: str, seen: Verdict | None) -> None:
    assert DENYING.judge_restrictions(text, "posix").verdict in (seen, Verdict.DENY if seen else seen)
    assert DENYING.judge_restrictions("ls", "other").verdict is Verdict.ASK
