"""The rules of a configuration, read and held against their own examples."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from holdfast.config.model import CommandRule
from holdfast.contract.errors import ConfigError
from holdfast.rules.shell.judge import Judge
from holdfast.rules.shell.place import Place
from holdfast.rules.shell.rules import Rule, read_rule


@lru_cache(maxsize=32)
def compiled(rules: tuple[CommandRule, ...]) -> tuple[Rule, ...]:
    """The rules of a configuration, read and held against their examples; `ConfigError` names what is wrong."""
    found = tuple(map(read_rule, rules))
    for given, rule in zip(rules, found, strict=True):
        for example in given.match:
            if not _concerns(rule, example):
                raise ConfigError(f"The command rule '{given.rule}' should match {example!a} and does not.")
        for example in given.not_match:
            if _concerns(rule, example):
                raise ConfigError(f"The command rule '{given.rule}' should not match {example!a} and does.")
    return found


def _concerns(rule: Rule, example: str) -> bool:
    """Whether the rule alone decides about a command, in an ordinary project with a sandbox."""
    return Judge([rule]).judge(example, ANYWHERE).verdict is rule.verdict


ANYWHERE: Final = Place(
    root="/project",
    folders=("/project",),
    contained=lambda: True,
    is_system_program=lambda name, root: True,
    exists=lambda path: True,
)
