"""The judgement of a whole command: every part with its verdict, and the strictest of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, product
from math import prod
from typing import Final

from msgspec.structs import replace

from holdfast.config.config import SHELL_READONLY, CommandRule
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import ConfigError
from holdfast.contract.json import Args
from holdfast.contract.widening import Widening, all_of
from holdfast.rules.chain import Question, warn
from holdfast.rules.shell import git
from holdfast.rules.shell.command_rules import CHECKING_FILES, Rule, read_rule
from holdfast.rules.shell.lexer import FUNCTION
from holdfast.rules.shell.location import FOUND, NOWHERE, TEXT, UNKNOWN, UNTOLD, WILD, Feed, Place, command_of, place_of
from holdfast.rules.shell.parts import Reading, read
from holdfast.rules.shell.programs import FILE_RUNNERS, INTERPRETERS, family, is_plain_name, is_script, program_name
from holdfast.rules.shell.read_only import CHECKS, MAY_LIST, READERS, check, feeds, outside
from holdfast.rules.shell.uncertainty import may_run
from holdfast.rules.shell.verdicts import (
    UNCOVERED,
    Dialect,
    Exact,
    JudgedPart,
    Part,
    Pattern,
    Pipe,
    ShellJudgement,
    Text,
    Variable,
    Words,
)
from holdfast.rules.shell.word_reader import GIVEN
from holdfast.rules.shell.wrappers import MAX_WRAPPED

_SIGNED: Final = re.compile(r"-?[0-9]+")
_LEADING: Final = {
    "stdbuf": re.compile(r"-[ioe](0|L)"),
    "timeout": re.compile(r"[0-9]+(\.[0-9]+)?[smhd]?"),
}
"""What stands before the command of a wrapper."""


def _seen_through(words: Sequence[str]) -> list[str]:
    """The command inside a wrapper that adds nothing but time limits and priorities; empty if that is not plain."""
    name, rest = words[0], list(words[1:])
    if name == "nice" and rest[:1] == ["-n"] and len(rest) > 1 and _SIGNED.fullmatch(rest[1]):
        del rest[:2]
    elif name in _LEADING and rest and _LEADING[name].fullmatch(rest[0]):
        rest.pop(0)
    elif name not in ("command", "env", "nice", "time"):
        return []
    return rest if rest and is_plain_name(rest[0]) else []


_SPLITTING: Final = re.compile(r"\s")
_MATCHING: Final = re.compile(r"[*?\[\\]")
"""What makes a pattern of an unquoted value."""
_OWN_VARIABLE: Final = re.compile(r"[A-Za-z0-9_]*[a-z][A-Za-z0-9_]*\+?")
"""Variables that shells and programs look at are written in capitals."""
_LOCALE: Final = re.compile(r"LC_[A-Z]+|LANG|TZ|NO_COLOR|COLUMNS")
_LOCALE_VALUE: Final = re.compile(r"[A-Za-z0-9_.@+-]*|[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+")
_MAX_ROUNDS: Final = 200
"""Commands that are looked at for one in a loop."""
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

    def limits(self, text: str, dialect: Dialect = "bash") -> ShellJudgement:
        """What is asked about or denied, wherever it would run; never an approval."""
        reading = read(text, dialect)
        if reading.overrun:
            return self._overrun(reading)
        strict = ((part, self._strictly(at, part, reading)) for at, part in enumerate(reading.parts))
        parts = tuple(said or _said(part, None, "", part.obstacle or UNCOVERED) for part, said in strict)
        return _summed_up(parts, approvable=False)

    def judge(self, text: str, place: Place) -> ShellJudgement:
        reading = read(text, place.dialect)
        if reading.overrun:
            return self._overrun(reading)
        if reading.differs and not self._quiet and not reading.unreadable:
            warn(f"Two readings of the command {text[:200]!a} differ, so no rule approves it.")
        approvable = not (reading.unreadable or reading.differs or reading.spliced or reading.evaluates)
        return _summed_up(self._judged(reading, place), approvable=approvable)

    def _overrun(self, reading: Reading) -> ShellJudgement:
        strict = ((part, self._strictly(at, part, reading)) for at, part in enumerate(reading.parts))
        parts = tuple(said or _said(part, None, "", part.obstacle) for part, said in strict)
        reason = f"It is too much to judge: {reading.overrun}."
        return ShellJudgement(parts=parts, verdict=Verdict.DENY, reason=reason)

    def _judged(self, reading: Reading, place: Place) -> tuple[JudgedPart, ...]:
        moved = _moved(reading, place)
        judged: list[JudgedPart] = []
        runner: JudgedPart | None = None
        commands = None if moved is None else _Commands(self, reading, moved)
        for at, part in enumerate(reading.parts):
            said = self._strictly(at, part, reading)
            if said is None and part.derived and runner is not None:
                covered = runner.verdict is Verdict.APPROVE
                said = _said(part, runner.verdict if covered else None, runner.rule if covered else "", UNCOVERED)
            elif said is None:
                said = _approved(part, commands)
            runner = runner if part.derived else said
            judged.append(said)
        return tuple(judged)

    def _strictly(self, at: int, part: Part, reading: Reading) -> JudgedPart | None:
        """What the asking and denying rules say."""
        if not self._strict:
            return None
        words = (None,) if part.hides else part.words
        fits = [(rule, rule.fits(words)) for rule in self._strict] if part.hides or part.kind == "command" else []
        if certain := [rule for rule, fit in fits if fit == "yes"]:
            rule = max(certain, key=lambda rule: rule.verdict.strictness)
            said = _said(part, rule.verdict, rule.name, f"the rule '{rule.name}' says {rule.verdict}")
            plain = not (part.inside or part.derived or part.guessed or part.hides)
            return replace(said, needs=all_of(rule.needs for rule in certain) or None) if plain else said
        hidden = next((rule for rule, fit in fits if fit == "perhaps"), None)
        if hidden is None and (doubt := reading.doubts.reasons.get(at)) is not None:
            reason = f"{doubt}, so it may run what the rule '{self._strict[0].name}' is about"
            return _said(part, Verdict.ASK, self._strict[0].name, reason)
        if hidden is None:
            return self._suspected(part, reading)
        reason = f"{part.obstacle or 'an argument cannot be told'}, so it may be what the rule '{hidden.name}' is about"
        return _said(part, Verdict.ASK, hidden.name, reason)

    def _suspected(self, part: Part, reading: Reading) -> JudgedPart | None:
        """What is said about a program that may run what it is told, where what a rule is about is written."""
        if part.kind != "command" or part.guessed or not may_run(part.words, writes=reading.writes):
            return None
        if part.inside in FILE_RUNNERS and not reading.writes:
            return None
        program = program_name(part.words[0] or "")
        others = (rule for rule in self._strict if rule.words[0] != program)
        put_together = reading.writes and reading.depends and is_script(part.words[0] or "", part.inside)
        code = reading.code if family(program).lower() in INTERPRETERS else ()
        named = next(
            (rule for rule in others if rule.named <= reading.names or put_together or rule.is_in_code(code)), None
        )
        if named is None:
            return None
        reason = f"it may run what it is given, which may be what the rule '{named.name}' is about"
        return _said(part, Verdict.ASK, named.name, reason)

    def approving(self, words: Sequence[str], place: Place) -> tuple[str, str]:
        """The rule that approves the words and its reason; or no rule, and what is in the way."""
        reasons: list[str] = []
        external = False
        for _ in range(MAX_WRAPPED + 1):
            for rule in self.rules:
                answer = rule.approves(words, place)
                if answer == "" and (answer := _distrust(words[0], place, external=external)) == "":
                    return rule.name, f"the rule '{rule.name}' approves it"
                reasons += [answer] if answer else []
            inner = _seen_through(words)
            if not inner:
                break
            if inner[0] == "cd":
                return "", "a wrapped cd is not followed"
            external = words[0] not in ("time", "command")  # it starts a program: the shell's own commands do not count
            words = inner
        else:
            return "", f"commands are wrapped more than {MAX_WRAPPED} deep"
        if self.readers and (reason := _check_known(words, place)) is not None:
            reason = reason or _distrust(words[0], place, external=external)
            if not reason:
                return SHELL_READONLY, f"the preset '{SHELL_READONLY}' approves it"
            reasons.append(reason)
        return "", reasons[0] if reasons else UNCOVERED


class _Commands:
    """The simple commands of a reading: which of them are approved, and what each prints for others."""

    def __init__(self, judge: Judge, reading: Reading, place: Place) -> None:
        self.place: Final = place
        self._judge = judge
        self._reading = reading
        self._parts = {part.number: part for part in reading.parts if part.number and not part.derived}
        self._answers: dict[int, tuple[str, str]] = {}
        self._printed: dict[int, Feed] = {}

    def approval(self, part: Part) -> tuple[str, str]:
        """The rule and its reason; or no rule, if one of the commands that it may be is not approved."""
        if part.number not in self._answers or not part.number:
            self._answers[part.number] = "", UNCOVERED  # until it is known: a command does not read its own output
            self._answers[part.number] = self._look_at(part)
        return self._answers[part.number]

    def _look_at(self, part: Part) -> tuple[str, str]:
        given: Feed = self._prints(part.fed_by) if part.fed_by and not part.rerouted else ""
        surroundings = replace(self.place, feeds=given)
        printed: set[Feed] = set()
        rule, reason = "", ""
        for words in self._expanded(part):
            rule, reason = self._judge.approving(words, surroundings)
            if not rule:
                return "", reason
            reads = rule == SHELL_READONLY or check(words, surroundings) == ""
            printed.add(feeds(words, given) if reads and not part.rerouted else "")
        self._printed[part.number] = printed.pop() if len(printed) == 1 else ""
        return rule, reason

    def needs(self, name: str) -> Widening | None:
        """What the approving rule of that name lets a command reach; nothing where several differ about it."""
        found = {rule.needs for rule in self._judge.rules if rule.name == name and rule.verdict is Verdict.APPROVE}
        return found.pop() if len(found) == 1 else None

    def _prints(self, number: int) -> Feed:
        """What the command of that number prints, if it is approved."""
        part = self._parts.get(number)
        if part is not None and not part.obstacle:
            self.approval(part)
        return self._printed.get(number, "")

    def _expanded(self, part: Part) -> Iterator[list[str]]:
        """The commands that a part may be: one for each value of the variables of loops.

        What a pattern matches is given all at once; which of it comes first depends on the language of the shell, so
        every match has to do in the place of all of them too.
        """
        loops = self._reading.loops
        names = {word.name for word in part.exact if isinstance(word, Variable) and word.name in loops}
        values = {name: [value for item in loops[name] for value in self.values(item)] for name in names}
        if prod(map(len, values.values())) > _MAX_ROUNDS:
            values = {name: [WILD] for name in names}
        for chosen in product(*values.values()):
            told = dict(zip(values, chosen, strict=True))
            pieces = [
                (_chosen(told[word.name], word),) if isinstance(word, Variable) and word.name in told
                else self.values(word) for word in part.exact
            ]  # fmt: skip
            yield list(chain(*pieces))
            for at, piece in enumerate(pieces):
                for match in piece if len(piece) > 1 else ():
                    yield [*chain(*pieces[:at]), match, *chain(*pieces[at + 1 :])]

    def values(self, word: Exact) -> Sequence[str]:
        """What a word stands for, or what may be said about that."""
        match word:
            case str():
                return (word,)
            case Pattern():
                return self.place.matches(word) or (UNKNOWN if self.place.keeps(word) else WILD,)
            case Pipe():
                return ("-",)
            case Variable(name="PWD") if word.is_quoted or self.place.has_plain_folders:
                return (".",)
            case Text() | Variable(is_quoted=True):
                return (TEXT,)
            case Variable(name=name):
                return (UNKNOWN if name in GIVEN or self._is_plain(name) else WILD,)
            case Words():
                return (self._made_of(word),)
            case None:
                return (WILD,)

    def _made_of(self, words: Words) -> str:
        if not all(map(self._is_plain, words.variables)):
            return WILD
        if not words.commands:
            return UNKNOWN
        found = all(self._prints(number) == "lines" for number in words.commands) and self.place.has_plain_names
        return WILD if not found else FOUND if words.is_output else UNKNOWN

    def _is_plain(self, variable: str) -> bool:
        """Whether the value of a variable can be no pattern."""
        if variable in self._reading.plain:
            return True
        if variable not in self._reading.loops:
            return False
        values = (value for item in self._reading.loops[variable] for value in self.values(item))
        return all(value == FOUND or (value not in UNTOLD and not _MATCHING.search(value)) for value in values)


def _chosen(value: str, variable: Variable) -> str:
    """The value of a loop's variable as a word of a command."""
    if variable.is_quoted or value in UNTOLD:
        return value
    return WILD if _MATCHING.search(value) else UNKNOWN if _SPLITTING.search(value) or not value else value


def _approved(part: Part, commands: _Commands | None) -> JudgedPart:
    """What approves a part."""
    rule = ""
    if part.obstacle or part.inside == FUNCTION:
        reason = part.obstacle or "it is hidden in a function"
    elif commands is None:
        reason = "the folder it would run in cannot be told"
    elif part.kind == "command":
        rule, reason = commands.approval(part)
    elif reason := _check_other(part, commands):
        pass
    else:
        return _said(part, Verdict.APPROVE, "", "it changes nothing")
    said = _said(part, Verdict.APPROVE if rule else None, rule, reason)
    return said if commands is None or not rule else replace(said, needs=commands.needs(rule))


def _check_known(words: Sequence[str], place: Place) -> str | None:
    """None: the program is not one of the readers."""
    return git.check_git(words, place) if words[0] == "git" else check(words, place)


def _distrust(program: str, place: Place, *, external: bool) -> str:
    if not is_plain_name(program):
        return "the program is not a bare name"
    if place.trusts(program, external=external):
        return ""
    return f"'{program}' is not a program of the system"


def _check_other(part: Part, commands: _Commands) -> str:
    """Why an assignment, a redirection or a statement does something that nobody has approved."""
    match part.kind:
        case "assignment":
            listed = any(WILD in commands.values(item) for item in part.exact)
            return MAY_LIST if listed else _check_assignment(part)
        case "redirection":
            return _check_redirection(part.words, commands.place)
        case _:
            return ""


def _check_assignment(part: Part) -> str:
    """Variables of the script's own are harmless; those that programs or the shell look at are not."""
    name, _, value = part.text.partition("=")
    if part.scoped:
        harmless = _LOCALE.fullmatch(name) is not None and _LOCALE_VALUE.fullmatch(value) is not None
        return "" if harmless or part.text == "IFS=" else "variables are set for a command"
    return "" if _OWN_VARIABLE.fullmatch(name) and not name.endswith("_proxy") else f"it sets {name}"


def _check_redirection(words: Sequence[str | None], place: Place) -> str:
    operator = (words[0] or "").lstrip("0123456789")
    target = words[1] if len(words) > 1 else None
    if operator in ("<<", "<<-", "<<<"):
        return ""
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
    if not approvable or not any(part.rule for part in parts):
        return ShellJudgement(parts=parts, verdict=None, reason="It is not plain enough to be approved by rules.")
    rules = " and ".join(dict.fromkeys(f"'{part.rule}'" for part in parts if part.rule))
    return ShellJudgement(parts=parts, verdict=Verdict.APPROVE, reason=f"Every part is approved by {rules}.")


def _about(part: JudgedPart) -> str:
    return f"'{part.text}' in {part.inside}: {part.reason}." if part.inside else f"'{part.text}': {part.reason}."


def _said(part: Part, verdict: Verdict | None, rule: str, reason: str) -> JudgedPart:
    return JudgedPart(kind=part.kind, text=part.text, inside=part.inside, verdict=verdict, rule=rule, reason=reason)


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


_NOT_GRANTED: Final = frozenset({"cd"})
_SCRIPT_RUNNERS: Final = frozenset({"bun", "npm", "pnpm", "yarn"})
_SCRIPT: Final = re.compile(r"([A-Za-z0-9_]+:)[A-Za-z0-9_][A-Za-z0-9_:.-]*")
"""The family of a script, up to its first colon."""


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


def checking_prefix(question: Question) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The words and the options of a call that checks or formats files of the project, and may do so with any of them.

    The options are kept: without one of them (`--check`, `--collect-only`) it would do more.
    """
    words = _words(question.args)
    if words is None:
        return None
    program = words[:2] if " ".join(words[:2]) in CHECKING_FILES else words[:1]
    rest = words[len(program) :]
    options = tuple(sorted({word for word in rest if word.startswith("-")}))
    if " ".join(program) not in CHECKING_FILES or len(options) == len(rest):
        return None
    name = " ".join(program)
    rule = Rule(name=name, verdict=Verdict.APPROVE, words=program, options=options, any_operands=True, only_files=True)
    judged = Judge((rule,)).judge(command_of(question.args) or "", place_of(question, "posix", lambda: True))
    return (program, options) if judged.verdict is Verdict.APPROVE else None


def script_prefix(question: Question) -> tuple[str, ...] | None:
    """`npm run test:` of a call `npm run test:unit`: it runs what the project says under names that begin so."""
    words = _words(question.args, runs_others=True)
    if words is None or len(words) != 3 or words[0] not in _SCRIPT_RUNNERS or words[1] != "run":
        return None
    found = _SCRIPT.fullmatch(words[2])
    return None if found is None else (*words[:2], found[1])


def only_reads(question: Question) -> bool:
    """Whether the command of a call only reads in the project, by the preset `$shell-readonly`.

    Whether a sandbox holds it is not asked here: for a grant the sandbox it was given under is.
    """
    text = command_of(question.args)
    if text is None:
        return False
    judged = Judge(readers=True).judge(text, place_of(question, "posix", lambda: True))
    return judged.verdict is Verdict.APPROVE


def _words(args: Args, *, runs_others: bool = False) -> tuple[str, ...] | None:
    """The words of a text that is one plain command and nothing else; with `runs_others` also of one that runs others
    by itself."""
    text = command_of(args)
    parts = () if text is None else read(text, "posix").parts
    if runs_others:
        parts = tuple(part for part in parts if not part.derived)
    if len(parts) != 1 or parts[0].kind != "command" or parts[0].obstacle:
        return None
    words = tuple(word for word in parts[0].words if word is not None)
    return words if len(words) == len(parts[0].words) else None
