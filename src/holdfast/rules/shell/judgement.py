"""Judges a command: finds the verdict on every part and combines them; the strictest wins.

Also compiles the command rules of a configuration, and finds the command prefix that a grant can cover.
"""

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
from holdfast.contract.widening import Widening, merge_widenings
from holdfast.rules.chain import ApprovalRequest, log_warning
from holdfast.rules.shell import git
from holdfast.rules.shell.analysis import CommandAnalysis, analyze
from holdfast.rules.shell.command_rules import CHECKING_FILES, CompiledRule, compile_rule
from holdfast.rules.shell.context import (
    DEV_NULL,
    FOUND_PATH,
    PLACEHOLDERS,
    UNKNOWN_GLOB,
    UNKNOWN_WORD,
    UNKNOWN_WORDS,
    CommandContext,
    NameSeparator,
    command_of,
    context_of,
)
from holdfast.rules.shell.lexer import FUNCTION
from holdfast.rules.shell.parts import (
    UNCOVERED,
    CommandPart,
    Dialect,
    GlobWord,
    JudgedPart,
    ParsedWord,
    ProcessSubstitution,
    QuotedWord,
    ShellJudgement,
    SplitWords,
    VariableWord,
)
from holdfast.rules.shell.programs import FILE_RUNNERS, INTERPRETERS, family, is_plain_name, is_script, program_name
from holdfast.rules.shell.read_only import (
    MAY_LIST,
    READERS,
    SPECIAL_CHECKS,
    check_read_only,
    outside_project,
    printed_names,
)
from holdfast.rules.shell.uncertainty import may_run_others
from holdfast.rules.shell.word_reader import ENVIRONMENT_VARIABLES
from holdfast.rules.shell.wrappers import MAX_WRAPPED

_SIGNED: Final = re.compile(r"-?[0-9]+")
_WRAPPER_ARGUMENT: Final = {
    "stdbuf": re.compile(r"-[ioe](0|L)"),
    "timeout": re.compile(r"[0-9]+(\.[0-9]+)?[smhd]?"),
}
"""The argument of a wrapper before its command."""


def _unwrap_transparent(words: Sequence[str]) -> list[str]:
    """The command inside a wrapper that only sets limits or priorities; empty if there is none or it is not plain."""
    name, rest = words[0], list(words[1:])
    if name == "nice" and rest[:1] == ["-n"] and len(rest) > 1 and _SIGNED.fullmatch(rest[1]):
        del rest[:2]
    elif name in _WRAPPER_ARGUMENT and rest and _WRAPPER_ARGUMENT[name].fullmatch(rest[0]):
        rest.pop(0)
    elif name not in ("command", "env", "nice", "time"):
        return []
    return rest if rest and is_plain_name(rest[0]) else []


_SPLITTING: Final = re.compile(r"\s")
_MATCHING: Final = re.compile(r"[*?\[\\]")
"""Characters that make an unquoted value a glob."""
_OWN_VARIABLE: Final = re.compile(r"[A-Za-z0-9_]*[a-z][A-Za-z0-9_]*\+?")
"""Names of a script's own variables. Variables that shells and programs use are upper case."""
_LOCALE: Final = re.compile(r"LC_[A-Z]+|LANG|TZ|NO_COLOR|COLUMNS")
_LOCALE_VALUE: Final = re.compile(r"[A-Za-z0-9_.@+-]*|[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+")
_MAX_ROUNDS: Final = 200
"""Commands that are judged for one command in loops; beyond that the loop variables count as unknown."""
_DESCRIPTOR: Final = re.compile(r"[0-9]{1,3}|-")
"""A file descriptor. Longer numbers are file names."""


class CommandJudge:
    """Judges commands by rules and, with `readers`, by the preset `$shell-readonly`."""

    def __init__(self, rules: Iterable[CompiledRule] = (), *, readers: bool = False, quiet: bool = False) -> None:
        self.rules: Final = tuple(rules)
        self.readers: Final = readers
        self._quiet = quiet
        """Whether to skip the warning when the two parsers disagree."""
        self._strict = tuple(rule for rule in self.rules if rule.verdict is not Verdict.APPROVE)

    def judge_restrictions(self, text: str, dialect: Dialect = "bash") -> ShellJudgement:
        """Apply only the asking and denying rules, which do not depend on the context. Never approves."""
        analysis = analyze(text, dialect)
        if analysis.too_complex:
            return self._deny_too_complex(analysis)
        strict = ((part, self._match_strict_rules(at, part, analysis)) for at, part in enumerate(analysis.parts))
        parts = tuple(
            judged_part or _judged_part(part, None, "", part.obstacle or UNCOVERED) for part, judged_part in strict
        )
        return _summarize(parts, approvable=False)

    def judge(self, text: str, context: CommandContext) -> ShellJudgement:
        analysis = analyze(text, context.dialect)
        if analysis.too_complex:
            return self._deny_too_complex(analysis)
        if analysis.differs and not self._quiet and not analysis.unreadable:
            log_warning(f"Two parsers disagree about the command {text[:200]!a}, so no rule approves it.")
        approvable = not (analysis.unreadable or analysis.differs or analysis.spliced or analysis.evaluates)
        return _summarize(self._judge_parts(analysis, context), approvable=approvable)

    def _deny_too_complex(self, analysis: CommandAnalysis) -> ShellJudgement:
        strict = ((part, self._match_strict_rules(at, part, analysis)) for at, part in enumerate(analysis.parts))
        parts = tuple(judged_part or _judged_part(part, None, "", part.obstacle) for part, judged_part in strict)
        reason = f"It is too complex to analyze: {analysis.too_complex}."
        return ShellJudgement(parts=parts, verdict=Verdict.DENY, reason=reason)

    def _judge_parts(self, analysis: CommandAnalysis, context: CommandContext) -> tuple[JudgedPart, ...]:
        moved = _context_after_cds(analysis, context)
        judged: list[JudgedPart] = []
        runner: JudgedPart | None = None
        commands = None if moved is None else _CommandApprovals(self, analysis, moved)
        for at, part in enumerate(analysis.parts):
            judged_part = self._match_strict_rules(at, part, analysis)
            if judged_part is None and part.derived and runner is not None:
                covered = runner.verdict is Verdict.APPROVE
                judged_part = _judged_part(
                    part, runner.verdict if covered else None, runner.rule if covered else "", UNCOVERED
                )
            elif judged_part is None:
                judged_part = _approve_part(part, commands)
            runner = runner if part.derived else judged_part
            judged.append(judged_part)
        return tuple(judged)

    def _match_strict_rules(self, at: int, part: CommandPart, analysis: CommandAnalysis) -> JudgedPart | None:
        """The verdict of the asking and denying rules; None if none of them matches."""
        if not self._strict:
            return None
        words = (None,) if part.may_run_anything else part.words
        match = (
            [(rule, rule.match(words)) for rule in self._strict]
            if part.may_run_anything or part.kind == "command"
            else []
        )
        if certain := [rule for rule, fit in match if fit == "yes"]:
            rule = max(certain, key=lambda rule: rule.verdict.strictness)
            effect = "denies it" if rule.verdict is Verdict.DENY else "asks about it"
            judged_part = _judged_part(part, rule.verdict, rule.name, f"the rule '{rule.name}' {effect}")
            plain = not (part.inside or part.derived or part.guessed or part.may_run_anything)
            return (
                replace(judged_part, needs=merge_widenings(rule.needs for rule in certain) or None)
                if plain
                else judged_part
            )
        hidden = next((rule for rule, fit in match if fit == "perhaps"), None)
        if hidden is None and (doubt := analysis.uncertainty.reasons.get(at)) is not None:
            reason = f"{doubt}, so it may run a command that the rule '{self._strict[0].name}' covers"
            return _judged_part(part, Verdict.ASK, self._strict[0].name, reason)
        if hidden is None:
            return self._suspect_indirect_run(part, analysis)
        reason = f"{part.obstacle or 'an argument is only known at run time'}, so it may match the rule '{hidden.name}'"
        return _judged_part(part, Verdict.ASK, hidden.name, reason)

    def _suspect_indirect_run(self, part: CommandPart, analysis: CommandAnalysis) -> JudgedPart | None:
        """Ask about a program that may run its input if the text contains the words of a rule."""
        if part.kind != "command" or part.guessed or not may_run_others(part.words, writes=analysis.writes_files):
            return None
        if part.inside in FILE_RUNNERS and not analysis.writes_files:
            return None
        program = program_name(part.words[0] or "")
        others = (rule for rule in self._strict if rule.words[0] != program)
        put_together = (
            analysis.writes_files and analysis.has_unknown_words and is_script(part.words[0] or "", part.inside)
        )
        code = analysis.interpreter_code if family(program).lower() in INTERPRETERS else ()
        named = next(
            (
                rule
                for rule in others
                if rule.named <= analysis.possible_programs or put_together or rule.is_in_code(code)
            ),
            None,
        )
        if named is None:
            return None
        reason = f"it may run its input, which may match the rule '{named.name}'"
        return _judged_part(part, Verdict.ASK, named.name, reason)

    def find_approval(self, words: Sequence[str], context: CommandContext) -> tuple[str, str]:
        """The rule that approves the words, with the reason; or an empty name and why none does."""
        reasons: list[str] = []
        external = False
        for _ in range(MAX_WRAPPED + 1):
            for rule in self.rules:
                answer = rule.approves(words, context)
                if answer == "" and (answer := _untrusted_reason(words[0], context, external=external)) == "":
                    return rule.name, f"the rule '{rule.name}' approves it"
                reasons += [answer] if answer else []
            inner = _unwrap_transparent(words)
            if not inner:
                break
            if inner[0] == "cd":
                return "", "a cd inside another command is not supported"
            external = words[0] not in ("time", "command")  # env and the like start a program, never a builtin
            words = inner
        else:
            return "", f"commands are nested more than {MAX_WRAPPED} levels deep"
        if self.readers and (reason := _check_known(words, context)) is not None:
            reason = reason or _untrusted_reason(words[0], context, external=external)
            if not reason:
                return SHELL_READONLY, f"the preset '{SHELL_READONLY}' approves it"
            reasons.append(reason)
        return "", reasons[0] if reasons else UNCOVERED


class _CommandApprovals:
    """Approvals of the simple commands of a text, and what each prints for the commands that read its output."""

    def __init__(self, judge: CommandJudge, analysis: CommandAnalysis, context: CommandContext) -> None:
        self.context: Final = context
        self._judge = judge
        self._analysis = analysis
        self._parts = {part.number: part for part in analysis.parts if part.number and not part.derived}
        self._answers: dict[int, tuple[str, str]] = {}
        self._printed: dict[int, NameSeparator] = {}

    def approval(self, part: CommandPart) -> tuple[str, str]:
        """The approving rule and reason; an empty name if any possible expansion of the command is not approved."""
        if part.number not in self._answers or not part.number:
            self._answers[part.number] = "", UNCOVERED  # ends the recursion if a command reads its own output
            self._answers[part.number] = self._judge_command(part)
        return self._answers[part.number]

    def _judge_command(self, part: CommandPart) -> tuple[str, str]:
        given: NameSeparator = self._prints(part.piped_from) if part.piped_from and not part.redirected else ""
        own_context = replace(self.context, input_names=given)
        printed: set[NameSeparator] = set()
        rule, reason = "", ""
        for words in self._expanded(part):
            rule, reason = self._judge.find_approval(words, own_context)
            if not rule:
                return "", reason
            reads = rule == SHELL_READONLY or check_read_only(words, own_context) == ""
            printed.add(printed_names(words, given) if reads and not part.redirected else "")
        self._printed[part.number] = printed.pop() if len(printed) == 1 else ""
        return rule, reason

    def needs(self, name: str) -> Widening | None:
        """The access that the approving rule of that name gives; None if several rules of that name differ."""
        found = {rule.needs for rule in self._judge.rules if rule.name == name and rule.verdict is Verdict.APPROVE}
        return found.pop() if len(found) == 1 else None

    def _prints(self, number: int) -> NameSeparator:
        """How the command with that number separates the file names it prints; empty unless it is approved."""
        part = self._parts.get(number)
        if part is not None and not part.obstacle:
            self.approval(part)
        return self._printed.get(number, "")

    def _expanded(self, part: CommandPart) -> Iterator[list[str]]:
        """The commands that a part can become: one for each combination of loop values.

        A glob is replaced by all its matches at once. Their order depends on the locale, so each match is also tried
        alone,
        as the first operand can be special.
        """
        loops = self._analysis.loops
        names = {word.name for word in part.parsed_words if isinstance(word, VariableWord) and word.name in loops}
        values = {name: [value for item in loops[name] for value in self.values(item)] for name in names}
        if prod(map(len, values.values())) > _MAX_ROUNDS:
            values = {name: [UNKNOWN_GLOB] for name in names}
        for chosen in product(*values.values()):
            resolved = dict(zip(values, chosen, strict=True))
            pieces = [
                (_loop_word(resolved[word.name], word),) if isinstance(word, VariableWord) and word.name in resolved
                else self.values(word) for word in part.parsed_words
            ]  # fmt: skip
            yield list(chain(*pieces))
            for at, piece in enumerate(pieces):
                for match in piece if len(piece) > 1 else ():
                    yield [*chain(*pieces[:at]), match, *chain(*pieces[at + 1 :])]

    def values(self, word: ParsedWord) -> Sequence[str]:
        """The values of a word, or a placeholder."""
        match word:
            case str():
                return (word,)
            case GlobWord():
                return self.context.expand_glob(word) or (
                    UNKNOWN_WORDS if self.context.glob_stays_inside(word) else UNKNOWN_GLOB,
                )
            case ProcessSubstitution():
                return ("-",)
            case VariableWord(name="PWD") if word.is_quoted or self.context.has_plain_folders:
                return (".",)
            case QuotedWord() | VariableWord(is_quoted=True):
                return (UNKNOWN_WORD,)
            case VariableWord(name=name):
                return (UNKNOWN_WORDS if name in ENVIRONMENT_VARIABLES or self._is_plain(name) else UNKNOWN_GLOB,)
            case SplitWords():
                return (self._split_value(word),)
            case None:
                return (UNKNOWN_GLOB,)

    def _split_value(self, words: SplitWords) -> str:
        if not all(map(self._is_plain, words.variables)):
            return UNKNOWN_GLOB
        if not words.commands:
            return UNKNOWN_WORDS
        found = all(self._prints(number) == "lines" for number in words.commands) and self.context.has_plain_names
        return UNKNOWN_GLOB if not found else FOUND_PATH if words.is_output else UNKNOWN_WORDS

    def _is_plain(self, variable: str) -> bool:
        """Whether the value of a variable cannot be a glob."""
        if variable in self._analysis.plain_variables:
            return True
        if variable not in self._analysis.loops:
            return False
        values = (value for item in self._analysis.loops[variable] for value in self.values(item))
        return all(
            value == FOUND_PATH or (value not in PLACEHOLDERS and not _MATCHING.search(value)) for value in values
        )


def _loop_word(value: str, variable: VariableWord) -> str:
    """The value of a loop variable as a word of a command."""
    if variable.is_quoted or value in PLACEHOLDERS:
        return value
    return (
        UNKNOWN_GLOB if _MATCHING.search(value) else UNKNOWN_WORDS if _SPLITTING.search(value) or not value else value
    )


def _approve_part(part: CommandPart, commands: _CommandApprovals | None) -> JudgedPart:
    """Judge a part that no asking or denying rule matches."""
    rule = ""
    if part.obstacle or part.inside == FUNCTION:
        reason = part.obstacle or "it is inside a function"
    elif commands is None:
        reason = "the folder it runs in is only known at run time"
    elif part.kind == "command":
        rule, reason = commands.approval(part)
    elif reason := _check_other(part, commands):
        pass
    else:
        return _judged_part(part, Verdict.APPROVE, "", "it changes nothing")
    judged_part = _judged_part(part, Verdict.APPROVE if rule else None, rule, reason)
    return judged_part if commands is None or not rule else replace(judged_part, needs=commands.needs(rule))


def _check_known(words: Sequence[str], context: CommandContext) -> str | None:
    """Why a known read-only program does more than read; empty if it does not; None for other programs."""
    return git.check_git(words, context) if words[0] == "git" else check_read_only(words, context)


def _untrusted_reason(program: str, context: CommandContext, *, external: bool) -> str:
    if not is_plain_name(program):
        return "the program is given by path, not by name"
    if context.is_trusted_program(program, external=external):
        return ""
    return f"'{program}' is not a system program"


def _check_other(part: CommandPart, commands: _CommandApprovals) -> str:
    """Why an assignment, a redirection or a statement needs approval; empty if it is harmless."""
    match part.kind:
        case "assignment":
            listed = any(UNKNOWN_GLOB in commands.values(item) for item in part.parsed_words)
            return MAY_LIST if listed else _check_assignment(part)
        case "redirection":
            return _check_redirection(part.words, commands.context)
        case _:
            return ""


def _check_assignment(part: CommandPart) -> str:
    """A script's own variables are harmless; those that programs or the shell use are not."""
    name, _, value = part.text.partition("=")
    if part.scoped:
        harmless = _LOCALE.fullmatch(name) is not None and _LOCALE_VALUE.fullmatch(value) is not None
        return "" if harmless or part.text == "IFS=" else "it sets variables for a command"
    return "" if _OWN_VARIABLE.fullmatch(name) and not name.endswith("_proxy") else f"it sets {name}"


def _check_redirection(words: Sequence[str | None], context: CommandContext) -> str:
    operator = (words[0] or "").lstrip("0123456789")
    target = words[1] if len(words) > 1 else None
    if operator in ("<<", "<<-", "<<<"):
        return ""
    if target is None:
        return "its target is only known at run time"
    if operator in (">&", "<&"):
        return "" if _DESCRIPTOR.fullmatch(target) else f"it writes to '{target}'"
    if target == DEV_NULL:
        return ""
    if operator == "<":
        return outside_project([target], context)
    return f"it writes to '{target}'"


def _context_after_cds(analysis: CommandAnalysis, context: CommandContext) -> CommandContext | None:
    """The context with every folder that a `cd` in the text may lead to; None if one is unknown."""
    moved: CommandContext | None = context
    for part in analysis.parts:
        if part.kind == "command" and part.words[:1] == ("cd",) and moved is not None:
            target = part.words[1] if len(part.words) == 2 else None
            moved = None if target is None else moved.after_cd(target)
    return moved


def _summarize(parts: tuple[JudgedPart, ...], *, approvable: bool) -> ShellJudgement:
    strictest = max(
        (part for part in parts if part.verdict is not None and part.verdict is not Verdict.APPROVE),
        key=lambda part: part.verdict.strictness if part.verdict is not None else 0,
        default=None,
    )
    if strictest is not None:
        return ShellJudgement(parts=parts, verdict=strictest.verdict, reason=_part_reason(strictest))
    open_part = next((part for part in parts if part.verdict is None), None)
    if open_part is not None:
        return ShellJudgement(parts=parts, verdict=None, reason=_part_reason(open_part))
    if not approvable or not any(part.rule for part in parts):
        return ShellJudgement(parts=parts, verdict=None, reason="It is too complex to be approved by rules.")
    rules = " and ".join(dict.fromkeys(f"'{part.rule}'" for part in parts if part.rule))
    return ShellJudgement(parts=parts, verdict=Verdict.APPROVE, reason=f"Every part is approved by {rules}.")


def _part_reason(part: JudgedPart) -> str:
    return f"'{part.text}' in {part.inside}: {part.reason}." if part.inside else f"'{part.text}': {part.reason}."


def _judged_part(part: CommandPart, verdict: Verdict | None, rule: str, reason: str) -> JudgedPart:
    return JudgedPart(kind=part.kind, text=part.text, inside=part.inside, verdict=verdict, rule=rule, reason=reason)


@lru_cache(maxsize=32)
def compile_rules(rules: tuple[CommandRule, ...]) -> tuple[CompiledRule, ...]:
    """Compile the rules of a configuration and check their examples. Raises `ConfigError`."""
    found = tuple(map(compile_rule, rules))
    for given, rule in zip(rules, found, strict=True):
        for example in given.match:
            if not _decides_example(rule, example):
                raise ConfigError(f"The command rule '{given.rule}' should match {example!a} and does not.")
        for example in given.not_match:
            if _decides_example(rule, example):
                raise ConfigError(f"The command rule '{given.rule}' should not match {example!a} and does.")
    return found


def _decides_example(rule: CompiledRule, example: str) -> bool:
    """Whether the rule alone decides about a command, in an example project with a sandbox."""
    return CommandJudge([rule]).judge(example, EXAMPLE_CONTEXT).verdict is rule.verdict


EXAMPLE_CONTEXT: Final = CommandContext(
    root="/project",
    folders=("/project",),
    is_sandboxed=lambda: True,
    is_system_program=lambda name, root: True,
    exists=lambda path: True,
)


_NOT_GRANTED: Final = frozenset({"cd"})
_SCRIPT_RUNNERS: Final = frozenset({"bun", "npm", "pnpm", "yarn"})
_SCRIPT: Final = re.compile(r"([A-Za-z0-9_]+:)[A-Za-z0-9_][A-Za-z0-9_:.-]*")
"""A script name with its family, which ends at the first colon."""


def reading_prefix(request: ApprovalRequest) -> tuple[str, ...] | None:
    """The words of a call that can be granted with other arguments; None if it does more than read."""
    words = _words(request.args)
    if words is None or words[0] in _NOT_GRANTED:
        return None
    if words[0] == "git":
        prefix = words[:2]
    elif words[0] in READERS or words[0] in SPECIAL_CHECKS:
        prefix = words[:1]
    else:
        return None
    return prefix if has_prefix(prefix, request) else None


def has_prefix(prefix: tuple[str, ...], request: ApprovalRequest) -> bool:
    """Whether a call is one plain command that starts with these words and only reads in the project."""
    words = _words(request.args)
    return bool(prefix) and words is not None and words[: len(prefix)] == prefix and only_reads(request)


def checking_prefix(request: ApprovalRequest) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The words and options of a call that checks or formats project files, so that any project file can be granted.

    The options are part of the grant: without one of them (`--check`, `--collect-only`) the program would do more.
    """
    words = _words(request.args)
    if words is None:
        return None
    program = words[:2] if " ".join(words[:2]) in CHECKING_FILES else words[:1]
    rest = words[len(program) :]
    options = tuple(sorted({word for word in rest if word.startswith("-")}))
    if " ".join(program) not in CHECKING_FILES or len(options) == len(rest):
        return None
    name = " ".join(program)
    rule = CompiledRule(
        name=name, verdict=Verdict.APPROVE, words=program, options=options, any_operands=True, only_files=True
    )
    judged = CommandJudge((rule,)).judge(command_of(request.args) or "", context_of(request, "posix", lambda: True))
    return (program, options) if judged.verdict is Verdict.APPROVE else None


def script_prefix(request: ApprovalRequest) -> tuple[str, ...] | None:
    """The prefix `npm run test:` of a call `npm run test:unit`, which covers all scripts of that family."""
    words = _words(request.args, runs_others=True)
    if words is None or len(words) != 3 or words[0] not in _SCRIPT_RUNNERS or words[1] != "run":
        return None
    found = _SCRIPT.fullmatch(words[2])
    return None if found is None else (*words[:2], found[1])


def only_reads(request: ApprovalRequest) -> bool:
    """Whether the command of a call only reads in the project, by the preset `$shell-readonly`.

    Ignores the sandbox: a grant is bound to the confinement it was made under.
    """
    text = command_of(request.args)
    if text is None:
        return False
    judged = CommandJudge(readers=True).judge(text, context_of(request, "posix", lambda: True))
    return judged.verdict is Verdict.APPROVE


def _words(args: Args, *, runs_others: bool = False) -> tuple[str, ...] | None:
    """The words of a text that is a single plain command; with `runs_others` also of one that runs other commands."""
    text = command_of(args)
    parts = () if text is None else analyze(text, "posix").parts
    if runs_others:
        parts = tuple(part for part in parts if not part.derived)
    if len(parts) != 1 or parts[0].kind != "command" or parts[0].obstacle:
        return None
    words = tuple(word for word in parts[0].words if word is not None)
    return words if len(words) == len(parts[0].words) else None
