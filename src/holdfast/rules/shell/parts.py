"""Data types of the shell analysis: words, command parts, and the verdicts on them."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from holdfast.contract.enums import Verdict
from holdfast.contract.widening import Widening, merge_widenings


def word_set(text: str) -> frozenset[str]:
    """A set of whitespace-separated words, for tables."""
    return frozenset(text.split())


UNCOVERED: Final = "no rule covers it"
"""The reason for an uncovered part if there is no better one."""
Word = str | None
"""The literal value of a word; None if it depends on variables, files or other commands."""
PartKind = Literal["command", "assignment", "redirection", "opaque"]
Dialect = Literal["bash", "posix", "other"]
"""The shell that runs a script: bash, any POSIX shell, or one with an unknown language."""


class GlobWord(Struct, frozen=True):
    """A glob pattern: a word that depends only on the files it matches."""

    text: str
    """The pattern, with quoted special characters escaped by a backslash."""


class VariableWord(Struct, frozen=True):
    """A word that is the expansion of one variable."""

    name: str
    is_quoted: bool


class ProcessSubstitution(Struct, frozen=True):
    """A word that names a pipe with the output of other commands: `<(…)`."""


class QuotedWord(Struct, frozen=True):
    """Exactly one word, because it is quoted, with an unknown value."""


class SplitWords(Struct, frozen=True):
    """Any number of words (unquoted expansions); no globs unless the variables or outputs contain some."""

    variables: tuple[str, ...] = ()
    """Unquoted variables of the script in the word."""
    commands: tuple[int, ...] = ()
    """Numbers of the commands whose unquoted output is in the word."""
    is_output: bool = False
    """Whether the word is the output of one command and nothing else."""


ParsedWord = str | GlobWord | VariableWord | ProcessSubstitution | QuotedWord | SplitWords | None
"""A word as far as it is known; None if it may be any number of words, including file names that a glob matches."""


class CommandPart(Struct, frozen=True, kw_only=True):
    """One action of a command text: a simple command, an assignment, a redirection, or an opaque statement."""

    kind: PartKind
    text: str
    words: tuple[Word, ...] = ()
    """Program and arguments of a command; operator and target of a redirection; name and value of an assignment."""
    parsed_words: tuple[ParsedWord, ...] = ()
    """The words of a command with what is known about those that are None in `words`; the items of a loop or array."""
    raw_words: tuple[str, ...] = ()
    """The words as written in the source."""
    number: int = 0
    """The number of a simple command in its script, starting at 1."""
    piped_from: int = 0
    """The number of the command whose output is piped into this one; 0 if none is."""
    redirected: bool = False
    """Whether a redirection replaces its input, or adds to or replaces its output."""
    scoped: bool = False
    """Whether an assignment applies to one command only (`A=1 make`)."""
    inside: str = ""
    """The construct it is nested in: a substitution, a function, a wrapper program."""
    obstacle: str = ""
    """Why no rule can approve it; empty if a rule can."""
    may_run_anything: bool = False
    """Whether the part could run any command at all."""
    derived: bool = False
    """Whether another part runs it; the approval of that part then covers this one."""
    guessed: bool = False
    """Whether the command might start at another word of the part that runs it."""

    @property
    def piped(self) -> bool:
        """Whether it reads the output of the command before it."""
        return self.piped_from != 0


class JudgedPart(Struct, frozen=True, kw_only=True):
    """The verdict on a part and the rule that gave it. Without a verdict no rule covers the part."""

    kind: PartKind
    text: str
    inside: str = ""
    verdict: Verdict | None = None
    rule: str = ""
    reason: str = ""
    needs: Widening | None = None
    """The access beyond the sandbox policy that the rule gives; None if no rule covers exactly this part."""


class ShellJudgement(Struct, frozen=True, kw_only=True):
    parts: tuple[JudgedPart, ...]
    verdict: Verdict | None
    """Approve only if every part is approved; None if the rules do not decide."""
    reason: str

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.rule for part in self.parts if part.rule))

    @property
    def needs(self) -> Widening:
        """The access that the rules give to the whole command, all of which runs in one sandbox."""
        return merge_widenings(part.needs for part in self.parts)

    def needs_all(self, harmless: str) -> bool:
        """Whether rules with the same access approve every command in it. Commands approved by the rule `harmless` are
        exempt
        unless the access includes reading: they change and send nothing, but print what they can read."""
        widens_reading = bool(self.needs.read)
        commands = [part for part in self.parts if part.kind == "command" and (widens_reading or part.rule != harmless)]
        return self.verdict is Verdict.APPROVE and all(part.needs == self.needs for part in commands)
