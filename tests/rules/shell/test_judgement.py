"""Everyday commands that only read need no approval."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.contract.enums import Verdict
from holdfast.rules.shell.context import CommandContext

from .command_judges import PRESET, in_project, judge_with, rule

CORPUS = Path(__file__).with_name("corpora") / "everyday.txt"
READING, CHANGING = (
    [line[2:] for line in CORPUS.read_text().splitlines() if line.startswith(f"{kind} ")] for kind in "RW"
)


@pytest.fixture
def context(tmp_path: Path) -> CommandContext:
    for name in ("src/app.py", "src/util.py", "tests/test_app.py", "docs/a.md", "README.md", "data.csv", "config.ini"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    return in_project(tmp_path)


@pytest.mark.spec("A11")
def test_nine_of_ten_everyday_read_only_commands_need_no_approval(context: CommandContext) -> None:
    asked = [text for text in READING if PRESET.judge(text, context).verdict is not Verdict.APPROVE]
    assert len(READING) >= 200
    assert len(asked) <= len(READING) // 10, asked


@pytest.mark.spec("A11")
@pytest.mark.parametrize("text", CHANGING)
def test_an_everyday_command_that_changes_something_needs_approval(text: str, context: CommandContext) -> None:
    assert PRESET.judge(text, context).verdict is None


@pytest.mark.spec("A11", "A18")
@pytest.mark.parametrize(("words", "verdict"), [("git push", "deny"), ("rm", "deny"), ("curl", "ask")])
def test_a_rule_about_one_program_asks_about_few_others(words: str, verdict: str, context: CommandContext) -> None:
    judge = judge_with(rule(words, verdict))
    others = [text for text in (*READING, *CHANGING) if not set(words.split()) <= set(text.split())]
    asked = [text for text in others if judge.judge_restrictions(text).verdict is not None]
    assert len(asked) <= len(others) * 0.03, asked
