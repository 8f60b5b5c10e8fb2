"""The judgement of a whole command: every part with its verdict, and the strictest of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.contract.vocabulary import Verdict
from holdfast.rules.presets import SHELL_READONLY
from holdfast.rules.shell import git
from holdfast.rules.shell.known import CHECKS, READERS, check_reader, outside
from holdfast.rules.shell.parts import Part, Reading, read
from holdfast.rules.shell.place import NOWHERE, Place
from holdfast.rules.shell.plain import is_plain_name, read_plain
from holdfast.rules.shell.rules import Rule
from holdfast.rules.shell.transparent import seen_through
from holdfast.rules.shell.verdicts import JudgedPart, ShellJudgement
from holdfast.rules.words import warn

UNREAD: Final = "no rule approves it"
_DESCRIPTOR: Final = re.compile(r"[0-9]{1,3}|-")
"""Other digits than these are the name of a file."""


class Judge:
    """Rules, and whether the shipped readers are approved too."""

    def __init__(self, rules: Iterable[Rule] = (), *, readers: bool = False, quiet: bool = False) -> None:
        self.rules: Final = tuple(rules)
        self.readers: Final = readers
        self._quiet = quiet
        """Whether differences between the two readings go without a word in the log."""
        self._strict = tuple(rule for rule in self.rules if rule.verdict is not Verdict.APPROVE)

    def limits(self, text: str) -> ShellJudgement:
        """What is asked about or denied, wherever it would run; never an approval."""
        reading = read(text)
        if reading.overrun:
            return self._overrun(reading)
        strict = ((part, self._strictly(part)) for part in reading.parts)
        parts = tuple(said or _said(part, None, "", part.obstacle or UNREAD) for part, said in strict)
        return _summed_up(parts, approvable=False)

    def judge(self, text: str, place: Place) -> ShellJudgement:
        reading = read(text)
        if reading.overrun:
            return self._overrun(reading)
        approvable = not reading.unreadable and _agree(text, reading, quiet=self._quiet)
        return _summed_up(self._judged(reading, place), approvable=approvable)

    def _overrun(self, reading: Reading) -> ShellJudgement:
        parts = tuple(self._strictly(part) or _said(part, None, "", part.obstacle) for part in reading.parts)
        reason = f"It is too much to judge: {reading.overrun}."
        return ShellJudgement(parts=parts, verdict=Verdict.DENY, reason=reason)

    def _judged(self, reading: Reading, place: Place) -> tuple[JudgedPart, ...]:
        moved = _moved(reading, place)
        judged: list[JudgedPart] = []
        runner: JudgedPart | None = None
        for part in reading.parts:
            said = self._strictly(part)
            if said is None and part.derived and runner is not None:
                covered = runner.verdict is Verdict.APPROVE
                said = _said(part, runner.verdict if covered else None, runner.rule if covered else "", UNREAD)
            elif said is None:
                said = self._approved(part, moved)
            runner = runner if part.derived else said
            judged.append(said)
        return tuple(judged)

    def _strictly(self, part: Part) -> JudgedPart | None:
        """What the asking and denying rules say."""
        words = (None,) if part.hides else part.words
        fits = [(rule, rule.fits(words)) for rule in self._strict] if part.hides or part.kind == "command" else []
        if certain := [rule for rule, fit in fits if fit == "yes"]:
            rule = max(certain, key=lambda rule: rule.verdict.strictness)
            return _said(part, rule.verdict, rule.name, f"the rule '{rule.name}' says {rule.verdict}")
        hidden = next((rule for rule, fit in fits if fit == "perhaps"), None)
        if hidden is None:
            return None
        reason = f"{part.obstacle or 'an argument cannot be told'}, so it may be what the rule '{hidden.name}' is about"
        return _said(part, Verdict.ASK, hidden.name, reason)

    def _approved(self, part: Part, place: Place | None) -> JudgedPart:
        words = [word for word in part.words if word is not None]
        if part.obstacle or part.inside:
            rule, reason = "", part.obstacle or f"it is hidden in {part.inside}"
        elif place is None:
            rule, reason = "", "the folder it would run in cannot be told"
        elif part.kind == "redirection":
            reason = _check_redirection(part.words, place)
            return _said(part, None if reason else Verdict.APPROVE, "", reason or "it changes no file")
        else:
            rule, reason = self._approving(words, place, external=False)
        return _said(part, Verdict.APPROVE if rule else None, rule, reason)

    def _approving(self, words: Sequence[str], place: Place, *, external: bool) -> tuple[str, str]:
        """The rule that approves the words and its reason; or no rule, and what is in the way."""
        reasons: list[str] = []
        for rule in self.rules:
            answer = rule.approves(words, place)
            if answer == "" and (answer := _distrust(words[0], place, external=external)) == "":
                return rule.name, f"the rule '{rule.name}' approves it"
            if answer:
                reasons.append(answer)
        inner = seen_through(words)
        if inner is not None:
            if inner.words[0] == "cd":
                return "", "a wrapped cd is not followed"
            return self._approving(inner.words, place, external=inner.external)
        if self.readers and (reason := _check_known(words, place)) is not None:
            reason = reason or _distrust(words[0], place, external=external)
            if not reason:
                return SHELL_READONLY, f"the preset '{SHELL_READONLY}' approves it"
            reasons.append(reason)
        return "", reasons[0] if reasons else UNREAD


def _check_known(words: Sequence[str], place: Place) -> str | None:
    """None: the program is not one of the readers."""
    name = words[0]
    if name == "git":
        return git.check_git(words, place)
    if name in CHECKS:
        return CHECKS[name](words, place)
    return check_reader(READERS[name], words, place) if name in READERS else None


def _distrust(program: str, place: Place, *, external: bool) -> str:
    if not is_plain_name(program):
        return "the program is not a bare name"
    if place.trusts(program, external=external):
        return ""
    return f"'{program}' is not a program of the system"


def _check_redirection(words: Sequence[str | None], place: Place) -> str:
    operator = (words[0] or "").lstrip("0123456789")
    target = words[1] if len(words) > 1 else None
    if target is None:
        return "its target cannot be told"
    if operator in (">&", "<&"):
        return "" if _DESCRIPTOR.fullmatch(target) else f"it writes to '{target}'"
    if target == NOWHERE:
        return ""
    if operator == "<":
        return outside([target], place)
    return f"it writes to '{target}'"


def _moved(reading: Reading, place: Place) -> Place | None:
    """The place with every folder that a `cd` among the parts may lead to; None if one cannot be followed."""
    moved: Place | None = place
    for part in reading.parts:
        if part.kind == "command" and part.words[:1] == ("cd",) and moved is not None:
            target = part.words[1] if len(part.words) == 2 else None
            moved = None if target is None else moved.after_cd(target)
    return moved


def _agree(text: str, reading: Reading, *, quiet: bool) -> bool:
    """Whether the plain reading and the tree say the same, word by word."""
    plain = read_plain(text)
    if plain is None:
        return False
    seen = [part for part in reading.parts if not part.derived]
    commands = tuple(part.words for part in seen if part.kind == "command")
    redirections = tuple(part.words for part in seen if part.kind == "redirection")
    if (commands, redirections) == (plain.commands, plain.redirections):
        return True
    if not quiet and not any(part.obstacle for part in seen):
        warn(f"Two readings of the command {text[:200]!a} differ, so no rule approves it.")
    return False


def _summed_up(parts: tuple[JudgedPart, ...], *, approvable: bool) -> ShellJudgement:
    strictest = max(
        (part for part in parts if part.verdict is not None and part.verdict is not Verdict.APPROVE),
        key=lambda part: part.verdict.strictness if part.verdict is not None else 0,
        default=None,
    )
    if strictest is not None:
        return ShellJudgement(parts=parts, verdict=strictest.verdict, reason=_about(strictest))
    open_part = next((part for part in parts if part.verdict is None), None)
    if open_part is not None:
        return ShellJudgement(parts=parts, verdict=None, reason=_about(open_part))
    if not parts or not approvable:
        return ShellJudgement(parts=parts, verdict=None, reason="It is not plain enough to be approved by rules.")
    rules = " and ".join(dict.fromkeys(f"'{part.rule}'" for part in parts if part.rule))
    return ShellJudgement(parts=parts, verdict=Verdict.APPROVE, reason=f"Every part is approved by {rules}.")


def _about(part: JudgedPart) -> str:
    return f"'{part.text}' in {part.inside}: {part.reason}." if part.inside else f"'{part.text}': {part.reason}."


def _said(part: Part, verdict: Verdict | None, rule: str, reason: str) -> JudgedPart:
    return JudgedPart(
        kind=part.kind, text=part.text, inside=part.inside, verdict=verdict, rule=rule, reason=reason
    )
