"""What is said about the parts of a command, and about the whole."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from holdfast.contract.enums import Verdict
from holdfast.contract.widening import Widening, merge_widenings


def word_set(text: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(text.split())


UNCOVERED: Final = "no rule covers it"
"""The reason for a part where there is no better one."""
Word = str | None
"""The literal value of a word; None: it depends on variables, files or other commands."""
PartKind = Literal["command", "assignment", "redirection", "opaque"]
Dialect = Literal["bash", "posix", "other"]
"""Which shell runs a script: bash; one that may be any POSIX shell; one whose language is not known."""


class GlobWord(Struct, frozen=True):
    """A word that depends on nothing but the files that it matches."""

    text: str
    """With a backslash before every quoted character that would be special."""


class VariableWord(Struct, frozen=True):
    """A word that is the value of a variable and nothing else."""

    name: str
    is_quoted: bool


class ProcessSubstitution(Struct, frozen=True):
    """A word that stands for what other commands print: `<(…)`."""


class QuotedWord(Struct, frozen=True):
    """One word, because it is quoted, of which nothing else can be told."""


class SplitWords(Struct, frozen=True):
    """Any number of words, none of them a pattern if what they are made of has none."""

    variables: tuple[str, ...] = ()
    """Variables of the script that are not quoted."""
    commands: tuple[int, ...] = ()
    """Numbers of the commands whose output is not quoted."""
    is_output: bool = False
    """Whether it is the output of one command and nothing else."""


ParsedWord = str | GlobWord | VariableWord | ProcessSubstitution | QuotedWord | SplitWords | None
"""A word as far as it can be told; None: it may be any number of words, and names of files that a pattern matches."""


class CommandPart(Struct, frozen=True, kw_only=True):
    """One thing a command would do."""

    kind: PartKind
    text: str
    words: tuple[Word, ...] = ()
    """Program and arguments of a command; operator and target of a redirection; name and value of an assignment."""
    parsed_words: tuple[ParsedWord, ...] = ()
    """The words of a command with more about those that `words` leaves open; what a loop or an array goes over."""
    raw_words: tuple[str, ...] = ()
    """The words as they are written."""
    number: int = 0
    """Of a simple command in its script."""
    piped_from: int = 0
    """The number of the command whose output it reads."""
    redirected: bool = False
    """It reads something else than what is piped to it, or prints its errors too."""
    scoped: bool = False
    """An assignment for one command."""
    inside: str = ""
    """What it is hidden in."""
    obstacle: str = ""
    """Why no rule can approve it."""
    may_run_anything: bool = False
    """Whether anything at all may be in it."""
    derived: bool = False
    """Another part runs it; it has no say in whether that one is approved."""
    guessed: bool = False
    """The command may begin at another word of the part that runs it."""

    @property
    def piped(self) -> bool:
        """It reads what the command before it prints."""
        return self.piped_from != 0


class JudgedPart(Struct, frozen=True, kw_only=True):
    """A part, what is said about it, and by which rule. Without a verdict nobody has anything to say."""

    kind: PartKind
    text: str
    inside: str = ""
    verdict: Verdict | None = None
    rule: str = ""
    reason: str = ""
    needs: Widening | None = None
    """What the rule says such a command may reach; None where no rule speaks of exactly this part."""


class ShellJudgement(Struct, frozen=True, kw_only=True):
    parts: tuple[JudgedPart, ...]
    verdict: Verdict | None
    """Approve only if every part is approved; None leaves the command to others."""
    reason: str

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.rule for part in self.parts if part.rule))

    @property
    def needs(self) -> Widening:
        """What the rules that speak of its parts let the whole command reach: all of it runs in one sandbox."""
        return merge_widenings(part.needs for part in self.parts)

    def needs_all(self, harmless: str) -> bool:
        """Whether the rules approve everything in it with all that it needs, but for what `harmless` approves: that is
        known to change nothing and to send nothing, and prints what it can read."""
        shows = bool(self.needs.read)
        commands = [part for part in self.parts if part.kind == "command" and (shows or part.rule != harmless)]
        return self.verdict is Verdict.APPROVE and all(part.needs == self.needs for part in commands)
