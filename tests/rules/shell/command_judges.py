"""Contexts and judges for the tests of shell commands."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from holdfast.config.config import CommandRule
from holdfast.contract.enums import Verdict
from holdfast.rules.shell.context import CommandContext
from holdfast.rules.shell.judgement import EXAMPLE_CONTEXT, CommandJudge, compile_rules
from holdfast.rules.shell.parts import ShellJudgement

PRESET = CommandJudge(readers=True)


def in_project(root: Path) -> CommandContext:
    """A real project with a sandbox, in which every program is trusted."""
    return replace(CommandContext.at(str(root), [str(root)], lambda: True), is_system_program=_any_program)


def _any_program(name: str, root: str | None) -> bool:
    return True


def rule(words: str, verdict: str = "approve", **fields: tuple[str, ...]) -> CommandRule:
    return CommandRule(rule=words, verdict=verdict, **fields)  # pyright: ignore[reportArgumentType]


def judge_with(*rules: CommandRule, readers: bool = False) -> CommandJudge:
    return CommandJudge(compile_rules(rules), readers=readers)


def verdict(text: str, judge: CommandJudge = PRESET, context: CommandContext = EXAMPLE_CONTEXT) -> Verdict | None:
    return judge.judge(text, context).verdict


def judged(text: str, judge: CommandJudge = PRESET, context: CommandContext = EXAMPLE_CONTEXT) -> ShellJudgement:
    return judge.judge(text, context)
