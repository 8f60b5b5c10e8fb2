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
from holdfast.contract.widening import Widening, merge_widenings
from holdfast.rules.chain import ApprovalRequest, log_warning
from holdfast.rules.shell import git
from holdfast.rules.shell.command_rules import CHECKING_FILES, CompiledRule, compile_rule
from holdfast.rules.shell.lexer import FUNCTION
from holdfast.rules.shell.location import (
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
from holdfast.rules.shell.parts import CommandAnalysis, analyze
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
from holdfast.rules.shell.verdicts import (
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
from holdfast.rules.shell.word_reader import ENVIRONMENT_VARIABLES
from holdfast.rules.shell.wrappers import MAX_WRAPPED

_SIGNED: Final = re.compile(r"-?[0-9]+")
_WRAPPER_ARGUMENT: Final = {
    "stdbuf": re.compile(r"-[ioe](0|L)"),
    "timeout": re.compile(r"[0-9]+(\.[0-9]+)?[smhd]?"),
}
"""What stands before the command of a wrapper."""


def _unwrap_transparent(words: Sequence[str]) -> list[str]:
    """The command inside a wrapper that adds nothing but time limits and priorities; empty if that is not plain."""
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
"""What makes a pattern of an unquoted value."""
_OWN_VARIABLE: Final = re.compile(r"[A-Za-z0-9_]*[a-z][A-Za-z0-9_]*\+?")
"""Variables that shells and programs look at are written in capitals."""
_LOCALE: Final = re.compile(r"LC_[A-Z]+|LANG|TZ|NO_COLOR|COLUMNS")
_LOCALE_VALUE: Final = re.compile(r"[A-Za-z0-9_.@+-]*|[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+")
_MAX_ROUNDS: Final = 200
"""Commands that are looked at for one in a loop."""
_DESCRIPTOR: Final = re.compile(r"[0-9]{1,3}|-")
"""Other digits than these are the name of a file."""


class CommandJudge:
    """Rules, and whether the shipped readers are approved too."""

    def __init__(self, rules: Iterable[CompiledRule] = (), *, readers: bool = False, quiet: bool = False) -> None:
        self.rules: Final = tuple(rules)
        self.readers: Final = readers
        self._quiet = quiet
        """Whether differences between the two readings go without a word in the log."""
        self._strict = tuple(rule for rule in self.rules if rule.verdict is not Verdict.APPROVE)

    def judge_restrictions(self, text: str, dialect: Dialect = "bash") -> ShellJudgement:
        """What is asked about or denied, wherever it would run; never an approval."""
        analysis = analyze(text, dialect)
        if analysis.too_complex:
            return self._deny_too_complex(analysis)
        strict = ((part, self._match_strict_rules(at, part, analysis)) for at, part in enumerate(analysis.parts))
        parts = tuple(said or _judged_part(part, None, "", part.obstacle or UNCOVERED) for part, said in strict)
        return _summarize(parts, approvable=False)

    def judge(self, text: str, context: CommandContext) -> ShellJudgement:
        analysis = analyze(text, context.dialect)
        if analysis.too_complex:
            return self._deny_too_complex(analysis)
        if analysis.differs and not self._quiet and not analysis.unreadable:
            log_warning(f"Two readings of the command {text[:200]!a} differ, so no rule approves it.")
        approvable = not (analysis.unreadable or analysis.differs or analysis.spliced or analysis.evaluates)
        return _summarize(self._judged(analysis, context), approvable=approvable)

    def _deny_too_complex(self, analysis: CommandAnalysis) -> ShellJudgement:
        strict = ((part, self._match_strict_rules(at, part, analysis)) for at, part in enumerate(analysis.parts))
        parts = tuple(said or _judged_part(part, None, "", part.obstacle) for part, said in strict)
        reason = f"It is too much to judge: {analysis.too_complex}."
        return ShellJudgement(parts=parts, verdict=Verdict.DENY, reason=reason)

    def _judged(self, analysis: CommandAnalysis, context: CommandContext) -> tuple[JudgedPart, ...]:
        moved = _context_after_cds(analysis, context)
        judged: list[JudgedPart] = []
        runner: JudgedPart | None = None
        commands = None if moved is None else _CommandApprovals(self, analysis, moved)
        for at, part in enumerate(analysis.parts):
            said = self._match_strict_rules(at, part, analysis)
            if said is None and part.derived and runner is not None:
                covered = runner.verdict is Verdict.APPROVE
                said = _judged_part(
                    part, runner.verdict if covered else None, runner.rule if covered else "", UNCOVERED
                )
            elif said is None:
                said = _approve_part(part, commands)
            runner = runner if part.derived else said
            judged.append(said)
        return tuple(judged)

    def _match_strict_rules(self, at: int, part: CommandPart, analysis: CommandAnalysis) -> JudgedPart | None:
        """What the asking and denying rules say."""
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
            said = _judged_part(part, rule.verdict, rule.name, f"the rule '{rule.name}' says {rule.verdict}")
            plain = not (part.inside or part.derived or part.guessed or part.may_run_anything)
            return replace(said, needs=merge_widenings(rule.needs for rule in certain) or None) if plain else said
        hidden = next((rule for rule, fit in match if fit == "perhaps"), None)
        if hidden is None and (doubt := analysis.uncertainty.reasons.get(at)) is not None:
            reason = f"{doubt}, so it may run what the rule '{self._strict[0].name}' is about"
            return _judged_part(part, Verdict.ASK, self._strict[0].name, reason)
        if hidden is None:
            return self._suspect_indirect_run(part, analysis)
        reason = f"{part.obstacle or 'an argument cannot be told'}, so it may be what the rule '{hidden.name}' is about"
        return _judged_part(part, Verdict.ASK, hidden.name, reason)

    def _suspect_indirect_run(self, part: CommandPart, analysis: CommandAnalysis) -> JudgedPart | None:
        """What is said about a program that may run what it is told, where what a rule is about is written."""
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
        reason = f"it may run what it is given, which may be what the rule '{named.name}' is about"
        return _judged_part(part, Verdict.ASK, named.name, reason)

    def find_approval(self, words: Sequence[str], context: CommandContext) -> tuple[str, str]:
        """The rule that approves the words and its reason; or no rule, and what is in the way."""
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
                return "", "a wrapped cd is not followed"
            external = words[0] not in ("time", "command")  # it starts a program: the shell's own commands do not count
            words = inner
        else:
            return "", f"commands are wrapped more than {MAX_WRAPPED} deep"
        if self.readers and (reason := _check_known(words, context)) is not None:
            reason = reason or _untrusted_reason(words[0], context, external=external)
            if not reason:
                return SHELL_READONLY, f"the preset '{SHELL_READONLY}' approves it"
            reasons.append(reason)
        return "", reasons[0] if reasons else UNCOVERED


class _CommandApprovals:
    """The simple commands of a reading: which of them are approved, and what each prints for others."""

    def __init__(self, judge: CommandJudge, analysis: CommandAnalysis, context: CommandContext) -> None:
        self.context: Final = context
        self._judge = judge
        self._analysis = analysis
        self._parts = {part.number: part for part in analysis.parts if part.number and not part.derived}
        self._answers: dict[int, tuple[str, str]] = {}
        self._printed: dict[int, NameSeparator] = {}

    def approval(self, part: CommandPart) -> tuple[str, str]:
        """The rule and its reason; or no rule, if one of the commands that it may be is not approved."""
        if part.number not in self._answers or not part.number:
            self._answers[part.number] = "", UNCOVERED  # until it is known: a command does not read its own output
            self._answers[part.number] = self._judge_command(part)
        return self._answers[part.number]

    def _judge_command(self, part: CommandPart) -> tuple[str, str]:
        given: NameSeparator = self._prints(part.piped_from) if part.piped_from and not part.redirected else ""
        surroundings = replace(self.context, input_names=given)
        printed: set[NameSeparator] = set()
        rule, reason = "", ""
        for words in self._expanded(part):
            rule, reason = self._judge.find_approval(words, surroundings)
            if not rule:
                return "", reason
            reads = rule == SHELL_READONLY or check_read_only(words, surroundings) == ""
            printed.add(printed_names(words, given) if reads and not part.redirected else "")
        self._printed[part.number] = printed.pop() if len(printed) == 1 else ""
        return rule, reason

    def needs(self, name: str) -> Widening | None:
        """What the approving rule of that name lets a command reach; nothing where several differ about it."""
        found = {rule.needs for rule in self._judge.rules if rule.name == name and rule.verdict is Verdict.APPROVE}
        return found.pop() if len(found) == 1 else None

    def _prints(self, number: int) -> NameSeparator:
        """What the command of that number prints, if it is approved."""
        part = self._parts.get(number)
        if part is not None and not part.obstacle:
            self.approval(part)
        return self._printed.get(number, "")

    def _expanded(self, part: CommandPart) -> Iterator[list[str]]:
        """The commands that a part may be: one for each value of the variables of loops.

        What a pattern matches is given all at once; which of it comes first depends on the language of the shell, so
        every match has to do in the place of all of them too.
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
        """What a word stands for, or what may be said about that."""
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
        """Whether the value of a variable can be no pattern."""
        if variable in self._analysis.plain_variables:
            return True
        if variable not in self._analysis.loops:
            return False
        values = (value for item in self._analysis.loops[variable] for value in self.values(item))
        return all(
            value == FOUND_PATH or (value not in PLACEHOLDERS and not _MATCHING.search(value)) for value in values
        )


def _loop_word(value: str, variable: VariableWord) -> str:
    """The value of a loop's variable as a word of a command."""
    if variable.is_quoted or value in PLACEHOLDERS:
        return value
    return (
        UNKNOWN_GLOB if _MATCHING.search(value) else UNKNOWN_WORDS if _SPLITTING.search(value) or not value else value
    )


def _approve_part(part: CommandPart, commands: _CommandApprovals | None) -> JudgedPart:
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
        return _judged_part(part, Verdict.APPROVE, "", "it changes nothing")
    said = _judged_part(part, Verdict.APPROVE if rule else None, rule, reason)
    return said if commands is None or not rule else replace(said, needs=commands.needs(rule))


def _check_known(words: Sequence[str], context: CommandContext) -> str | None:
    """None: the program is not one of the readers."""
    return git.check_git(words, context) if words[0] == "git" else check_read_only(words, context)


def _untrusted_reason(program: str, context: CommandContext, *, external: bool) -> str:
    if not is_plain_name(program):
        return "the program is not a bare name"
    if context.is_trusted_program(program, external=external):
        return ""
    return f"'{program}' is not a program of the system"


def _check_other(part: CommandPart, commands: _CommandApprovals) -> str:
    """Why an assignment, a redirection or a statement does something that nobody has approved."""
    match part.kind:
        case "assignment":
            listed = any(UNKNOWN_GLOB in commands.values(item) for item in part.parsed_words)
            return MAY_LIST if listed else _check_assignment(part)
        case "redirection":
            return _check_redirection(part.words, commands.context)
        case _:
            return ""


def _check_assignment(part: CommandPart) -> str:
    """Variables of the script's own are harmless; those that programs or the shell look at are not."""
    name, _, value = part.text.partition("=")
    if part.scoped:
        harmless = _LOCALE.fullmatch(name) is not None and _LOCALE_VALUE.fullmatch(value) is not None
        return "" if harmless or part.text == "IFS=" else "variables are set for a command"
    return "" if _OWN_VARIABLE.fullmatch(name) and not name.endswith("_proxy") else f"it sets {name}"


def _check_redirection(words: Sequence[str | None], context: CommandContext) -> str:
    operator = (words[0] or "").lstrip("0123456789")
    target = words[1] if len(words) > 1 else None
    if operator in ("<<", "<<-", "<<<"):
        return ""
    if target is None:
        return "its target cannot be told"
    if operator in (">&", "<&"):
        return "" if _DESCRIPTOR.fullmatch(target) else f"it writes to '{target}'"
    if target == DEV_NULL:
        return ""
    if operator == "<":
        return outside_project([target], context)
    return f"it writes to '{target}'"


def _context_after_cds(analysis: CommandAnalysis, context: CommandContext) -> CommandContext | None:
    """The place with every folder that a `cd` among the parts may lead to; None if one cannot be followed."""
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
        return ShellJudgement(parts=parts, verdict=None, reason="It is not plain enough to be approved by rules.")
    rules = " and ".join(dict.fromkeys(f"'{part.rule}'" for part in parts if part.rule))
    return ShellJudgement(parts=parts, verdict=Verdict.APPROVE, reason=f"Every part is approved by {rules}.")


def _part_reason(part: JudgedPart) -> str:
    return f"'{part.text}' in {part.inside}: {part.reason}." if part.inside else f"'{part.text}': {part.reason}."


def _judged_part(part: CommandPart, verdict: Verdict | None, rule: str, reason: str) -> JudgedPart:
    return JudgedPart(kind=part.kind, text=part.text, inside=part.inside, verdict=verdict, rule=rule, reason=reason)


@lru_cache(maxsize=32)
def compile_rules(rules: tuple[CommandRule, ...]) -> tuple[CompiledRule, ...]:
    """The rules of a configuration, read and held against their examples; `ConfigError` names what is wrong."""
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
    """Whether the rule alone decides about a command, in an ordinary project with a sandbox."""
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
"""The family of a script, up to its first colon."""


def reading_prefix(request: ApprovalRequest) -> tuple[str, ...] | None:
    """The words of this call that may be allowed with other arguments; None if it does more than read."""
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
    """Whether a call is one plain command that begins with these words and only reads in the project."""
    words = _words(request.args)
    return bool(prefix) and words is not None and words[: len(prefix)] == prefix and only_reads(request)


def checking_prefix(request: ApprovalRequest) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The words and the options of a call that checks or formats files of the project, and may do so with any of them.

    The options are kept: without one of them (`--check`, `--collect-only`) it would do more.
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
    """`npm run test:` of a call `npm run test:unit`: it runs what the project says under names that begin so."""
    words = _words(request.args, runs_others=True)
    if words is None or len(words) != 3 or words[0] not in _SCRIPT_RUNNERS or words[1] != "run":
        return None
    found = _SCRIPT.fullmatch(words[2])
    return None if found is None else (*words[:2], found[1])


def only_reads(request: ApprovalRequest) -> bool:
    """Whether the command of a call only reads in the project, by the preset `$shell-readonly`.

    Whether a sandbox holds it is not asked here: for a grant the sandbox it was given under is.
    """
    text = command_of(request.args)
    if text is None:
        return False
    judged = CommandJudge(readers=True).judge(text, context_of(request, "posix", lambda: True))
    return judged.verdict is Verdict.APPROVE


def _words(args: Args, *, runs_others: bool = False) -> tuple[str, ...] | None:
    """The words of a text that is one plain command and nothing else; with `runs_others` also of one that runs others
    by itself."""
    text = command_of(args)
    parts = () if text is None else analyze(text, "posix").parts
    if runs_others:
        parts = tuple(part for part in parts if not part.derived)
    if len(parts) != 1 or parts[0].kind != "command" or parts[0].obstacle:
        return None
    words = tuple(word for word in parts[0].words if word is not None)
    return words if len(words) == len(parts[0].words) else None
