"""Rules over commands: what a rule says, when it fits, and whether its own examples bear it out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cache
from typing import Final

from msgspec import Struct

from holdfast.config.model import CommandRule
from holdfast.contract.errors import ConfigError
from holdfast.contract.vocabulary import Verdict
from holdfast.rules.shell import git
from holdfast.rules.shell.hazards import SHELL_CHANGING, is_reader, operand_refusal, pieces, star_refusal
from holdfast.rules.shell.options import Fit, fit_option
from holdfast.rules.shell.place import FOUND, Place
from holdfast.rules.shell.programs import family, is_plain_name, program_name
from holdfast.rules.shell.readers import check, outside
from holdfast.rules.shell.subcommands import is_same, without_management
from holdfast.rules.shell.verdicts import Word

STAR: Final = "*"
_MAX_LOOKS: Final = 4000
"""Paths that are looked for on disk for one command."""
_QUOTED: Final = re.compile(r"""'[^']*'|"[^"$`]*"|\\.""")
_OPERATOR: Final = re.compile(r"[;&|<>()$`\n]")


class Rule(Struct, frozen=True, kw_only=True):
    """A rule that has been read: the words a command begins with, and what may follow."""

    name: str
    verdict: Verdict
    words: tuple[str, ...]
    options: tuple[str, ...] = ()
    any_operands: bool = False
    only_files: bool = False
    """Whether every operand must be a file of the project that is there."""

    def approves(self, words: Sequence[str], place: Place) -> str | None:
        """Empty if these plain words are approved, a reason if they would be elsewhere, None if they do not fit."""
        count = len(self.words)
        if self.verdict is not Verdict.APPROVE or tuple(words[:count]) != self.words:
            return None
        rest = words[count:]
        operands = [word for word in rest if not word.startswith("-") or word == "-"]
        if operands and not self.any_operands:
            return None
        if not all(self._has_option(word) for word in rest if word.startswith("-") and word != "-"):
            return None
        if self.words[0] == "git" and place.contained() is not True:
            return git.NOT_CONTAINED
        if self.any_operands and self.words[0] != "git" and (reason := check(words, place)):
            return reason
        if FOUND in rest and (self.words[0] == "git" or not is_reader(self.words)):
            return "an argument cannot be told"
        return (outside(operands, place) if operands else "") or self._strays(rest, place)

    def _strays(self, rest: Sequence[str], place: Place) -> str:
        """Why further words, or paths in them, are not simply files of the project; empty if they are."""
        if len(rest) * len(place.folders) > _MAX_LOOKS:
            return "it has too many operands to look at"
        reads = is_reader(self.words) and (self.any_operands or self.words[0] == "git")
        for word in rest:
            if self.only_files and not word.startswith("-") and not place.has_file(word.partition("::")[0]):
                return f"'{word}' is not a file of the project"
            if reason := operand_refusal(word, place):
                return reason
            if not reads and (path := next(filter(place.protects, (word, *pieces(word))), None)) is not None:
                return f"'{path}' is a protected path"
        return "it runs in a protected folder" if not reads and place.is_protected else ""

    def _has_option(self, word: str) -> bool:
        name, equals, _ = word.partition("=")
        return word in self.options or bool(equals and f"{name}=" in self.options)

    def fits(self, words: Sequence[Word]) -> Fit:
        """Whether an asking or denying rule concerns a command. Options between the rule's words hide nothing."""
        if not words:
            return "no"
        if words[0] is None:
            return "perhaps"
        name = program_name(words[0])
        if name != self.words[0] and self.words[0] != family(name) and name != family(self.words[0]):
            return "no"
        named = [word for word in self.words if not word.startswith("-")]
        rest = _apart(named[1:], words[1:])
        options = [fit_option(named, option, rest) for option in self.words[1:] if option.startswith("-")]
        found = [_in_order(self.words[0], named[1:], without_management(self.words[0], named[1:], rest)), *options]
        if "no" in found:
            return "no"
        return "perhaps" if "perhaps" in found or name != self.words[0] else "yes"

    def is_in_code(self, texts: Sequence[str]) -> bool:
        """Whether every word is written in the code of an interpreter, alone or behind a command of one letter."""
        return bool(texts) and all(any(_in_code(word).search(text) for text in texts) for word in self.named)

    @property
    def named(self) -> frozenset[str]:
        """The words without the options."""
        return frozenset(word for word in self.words if not word.startswith("-"))


def _apart(wanted: Sequence[str], words: Sequence[Word]) -> list[Word]:
    """The words with options and the wanted values they are joined to taken apart: `-uroot` is `-u root`."""
    apart: list[Word] = []
    for word in words:
        name, _, value = (word or "").partition("=")
        if word is not None and word.startswith("--") and value in wanted:
            apart += [name, value]
        elif word is not None and word.startswith("-") and word[2:] in wanted:
            apart += [word[:2], word[2:]]
        else:
            apart.append(word)
    return apart


@cache
def _in_code(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?:(?<![A-Za-z0-9_])|-[a-z]+)(?:[0-9$,]*e)?{re.escape(word)}(?![A-Za-z0-9_])")


def _in_order(program: str, wanted: Sequence[str], words: Sequence[Word]) -> Fit:
    """Whether the wanted operands come first, with nothing but options (and perhaps their values) before them."""
    if not wanted:
        return "yes"
    for at, word in enumerate(words):
        if word is None:
            return "perhaps"
        if word == wanted[0] or is_same(program, wanted[0], word):
            return _in_order(program, wanted[1:], words[at + 1 :])
        if not word.startswith("-") and (at == 0 or not (words[at - 1] or "").startswith("-")):
            return "no"
    return "no"


def read_rule(given: CommandRule) -> Rule:
    """The rule a configuration spells out; `ConfigError` if it means nothing or would approve too much."""
    try:
        words = shlex.split(given.rule)
    except ValueError:
        raise _wrong(given, "its quotes do not match") from None
    if _OPERATOR.search(_QUOTED.sub("", given.rule)):
        raise _wrong(given, "a rule is the words of one command, without operators and variables")
    starred = words[-1:] == [STAR]
    words = words[:-1] if starred else words
    if not words:
        raise _wrong(given, "it names no program")
    if STAR in words:
        raise _wrong(given, "`*` stands for further words and comes last")
    verdict = Verdict(given.verdict)
    if "/" in words[0] or (verdict is Verdict.APPROVE and not is_plain_name(words[0])):
        raise _wrong(given, f"'{words[0]}' is not the bare name of a program")
    if verdict is Verdict.APPROVE:
        _check_approval(given, words, starred)
    return Rule(
        name=given.rule,
        verdict=verdict,
        words=tuple(words),
        options=given.options,
        any_operands=starred,
        only_files=given.operands == "files",
    )


def _check_approval(given: CommandRule, words: list[str], starred: bool) -> None:
    if words[0] in SHELL_CHANGING:
        raise _wrong(given, f"'{words[0]}' changes what later commands mean and is always asked about")
    if starred and (reason := star_refusal(words, only_files=given.operands == "files")):
        raise _wrong(given, reason)
    for option in given.options:
        if not option.startswith("-"):
            raise _wrong(given, f"the option '{option}' does not begin with '-'")
        if words[0] == "git" and option.rstrip("=") in git.HAZARDOUS:
            raise _wrong(given, f"'{option}' of {words[0]} runs or writes something and is always asked about")


def _wrong(given: CommandRule, reason: str) -> ConfigError:
    return ConfigError(f"The command rule '{given.rule}' cannot be used: {reason}.")
