"""The narrow rule "always allow" makes of a command: one reading program, or one reading subcommand of git."""

from __future__ import annotations

from typing import Final

from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Verdict
from holdfast.rules.chain import Question
from holdfast.rules.shell.calls import command_of, place_of
from holdfast.rules.shell.judge import Judge
from holdfast.rules.shell.parts import read
from holdfast.rules.shell.readers import CHECKS, READERS

_NOT_GRANTED: Final = frozenset({"cd"})


def reading_prefix(question: Question) -> tuple[str, ...] | None:
    """The words of this call that may be allowed with other arguments; None if it does more than read."""
    words = _words(question.args)
    if words is None or words[0] in _NOT_GRANTED:
        return None
    if words[0] == "git":
        prefix = words[:2]
    elif words[0] in READERS or words[0] in CHECKS:
        prefix = words[:1]
    else:
        return None
    return prefix if has_prefix(prefix, question) else None


def has_prefix(prefix: tuple[str, ...], question: Question) -> bool:
    """Whether a call is one plain command that begins with these words and only reads in the project."""
    words = _words(question.args)
    return bool(prefix) and words is not None and words[: len(prefix)] == prefix and only_reads(question)


def only_reads(question: Question) -> bool:
    """Whether the command of a call only reads in the project, by the preset `$shell-readonly`.

    Whether a sandbox holds it is not asked here: for a grant the sandbox it was given under is.
    """
    text = command_of(question.args)
    if text is None:
        return False
    judged = Judge(readers=True).judge(text, place_of(question, "posix", lambda: True))
    return judged.verdict is Verdict.APPROVE


def _words(args: Args) -> tuple[str, ...] | None:
    """The words of a text that is one plain command and nothing else."""
    text = command_of(args)
    parts = () if text is None else read(text, "posix").parts
    if len(parts) != 1 or parts[0].kind != "command" or parts[0].obstacle:
        return None
    words = tuple(word for word in parts[0].words if word is not None)
    return words if len(words) == len(parts[0].words) else None
