"""Places and judges for the tests about shell commands."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from holdfast.config.config import CommandRule
from holdfast.contract.enums import Verdict
from holdfast.rules.shell.judgement import ANYWHERE, Judge, compiled
from holdfast.rules.shell.location import Place
from holdfast.rules.shell.verdicts import ShellJudgement

PRESET = Judge(readers=True)


def in_project(root: Path) -> Place:
    """A real project in which a sandbox holds commands, and every program is the system's."""
    return replace(Place.at(str(root), [str(root)], lambda: True), is_system_program=_any_program)


def _any_program(name: str, root: str | None) -> bool:
    return True


def rule(words: str, verdict: str = "approve", **fields: tuple[str, ...]) -> CommandRule:
    return CommandRule(rule=words, verdict=verdict, **fields)  # pyright: ignore[reportArgumentType]


def judge_with(*rules: CommandRule, readers: bool = False) -> Judge:
    return Judge(compiled(rules), readers=readers)


def verdict(text: str, judge: Judge = PRESET, place: Place = ANYWHERE) -> Verdict | None:
    return judge.judge(text, place).verdict


def judged(text: str, judge: Judge = PRESET, place: Place = ANYWHERE) -> ShellJudgement:
    return judge.judge(text, place)
