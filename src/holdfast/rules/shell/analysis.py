"""Analyzes a command text: finds every simple command, assignment and redirection, however deeply nested.

Every script is parsed twice, by our `lexer` and by tree-sitter (`syntax_tree`). Where they disagree, and where the
lexer does not support the syntax, the text is unknown: nothing in it is approved, and any asking or denying rule may
match.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.rules.shell.lexer import SHOWN, lex
from holdfast.rules.shell.parts import CommandPart, Dialect, ParsedWord, QuotedWord, VariableWord, Word, word_set
from holdfast.rules.shell.programs import INTERPRETERS, family
from holdfast.rules.shell.syntax_tree import AmbiguousText, SyntaxOutline, TooComplex, parse_outline
from holdfast.rules.shell.uncertainty import Uncertainty
from holdfast.rules.shell.word_reader import LexedScript, UnsupportedSyntax
from holdfast.rules.shell.wrappers import (
    MAX_WRAPPED,
    NestedCommand,
    commands_in_assignment,
    nested_commands,
    script_of,
    substitutions_in,
)

MAX_PARTS: Final = 1000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)
_QUOTES: Final = re.compile(r"""[\\'"]""")
_ESCAPES: Final = re.compile(r"""\\[a-z]?|['"]""")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_HOLDS: Final = re.compile(r"[$`\\]")
"""Characters that a value needs to contain a command, or to become one that does."""
_SPLICED: Final = re.compile(r"[^ \t\n]\\\n[^ \t\n]")
"""Line continuations inside a word are never approved: `"$\\` at the end of a line with `(…)"` on the next one
once misled both parsers."""
_INDIRECT: Final = "it is not written as a plain command"
_NUMBER: Final = re.compile(r"[+-]?[0-9]*")
_READING_INTO: Final = frozenset({"getopts", "mapfile", "read", "readarray"})
_SETTING: Final = word_set("declare eval export getopts let local mapfile read readarray readonly typeset unset wait")
"""Builtins that set variables named in their arguments."""
_DECLARING: Final = frozenset({"declare", "export", "local", "readonly", "typeset"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:=@,-]*")
_CODE_NEXT: Final = re.compile(r"-[A-Za-z]*[eEcrp]")
_LOOKING: Final = re.compile(r"-[vR]|-[a-z]*p")
_INTEGER: Final = re.compile(r"-[a-zA-Z]*[in]")
_READ_VALUED: Final = re.compile(r"-[a-zA-Z]*[dinNptu]")
_EVALUATING_NAMES: Final = word_set("declare getopts let local mapfile read readarray typeset unset")
"""Builtins that evaluate the subscript of the variable that they set or use."""
_SUBSCRIPTING: Final = _EVALUATING_NAMES | {"[", "export", "printf", "readonly", "test", "wait"}
_SUBSCRIPT: Final = re.compile(r"(?:-v)?[A-Za-z_][A-Za-z0-9_]*\[(.+)\]")


class CommandAnalysis(Struct, frozen=True, kw_only=True, dict=True):
    parts: tuple[CommandPart, ...] = ()
    unreadable: str = ""
    """Why the text has no certain meaning; empty if it has."""
    differs: bool = False
    """Whether the two parsers see the same programs with different words."""
    spliced: bool = False
    """Whether a word may continue on the next line."""
    evaluates: bool = False
    """Whether it evaluates variables with uncertain values as code."""
    too_complex: str = ""
    """Why the text exceeds the limits; empty if it does not."""
    loops: dict[str, tuple[ParsedWord, ...]] = field(default_factory=dict[str, tuple[ParsedWord, ...]])
    """The values of loop variables that nothing else sets."""
    plain_variables: frozenset[str] = frozenset()
    """Variables that are set, but never to a glob."""
    texts: tuple[str, ...] = ()
    """The whole text, followed by here-documents and values of variables."""

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """Reasons why its parts may run something that they do not show."""
        return Uncertainty(self.parts, self.loops)

    @cached_property
    def writes_files(self) -> bool:
        """Whether it may write files."""
        return bool(self.uncertainty.written_files)

    @cached_property
    def has_unknown_words(self) -> bool:
        """Whether a command in it has unknown words."""
        return any(part.kind == "command" and None in part.words for part in self.parts)

    @cached_property
    def possible_programs(self) -> frozenset[str]:
        """Everything in the text that may be a program name, with quotes and escapes removed."""
        words = (word for part in self.parts for word in part.words if word is not None)
        unquoted = ((_QUOTES.sub("", text), _ESCAPES.sub(" ", text)) for text in (*self.texts, *words))
        return frozenset(name for both in unquoted for text in both for name in _TOKEN.findall(text))

    @cached_property
    def interpreter_code(self) -> tuple[str, ...]:
        """The arguments of interpreters that may be code."""
        commands = [part for part in self.parts if part.kind == "command" and part.words[0] is not None]
        interpreters = {family(part.words[0] or "").lower() for part in commands} & INTERPRETERS
        if not interpreters:
            return ()
        given = [
            word
            for part in commands
            for before, word in pairwise(part.words)
            if word is not None
            and ("sed" in interpreters or _PLAIN.fullmatch(word) is None or _CODE_NEXT.fullmatch(before or ""))
        ]
        return (*given, *self.texts[1:])


@lru_cache(maxsize=64)
def analyze(text: str, dialect: Dialect = "bash") -> CommandAnalysis:
    """Analyze the text of a shell command."""
    analyzer = _Analyzer(has_input="|" in text or "<" in text)
    too_complex = ""
    try:
        analyzer.analyze(text, dialect=dialect)
        analyzer.read_inputs()
        analyzer.check_values()
    except TooComplex as over:
        too_complex = str(over)
    return CommandAnalysis(
        parts=tuple(analyzer.parts), unreadable=analyzer.unreadable, differs=analyzer.differs, too_complex=too_complex,
        spliced=_SPLICED.search(text) is not None, evaluates=analyzer.evaluates, loops=analyzer.loops_alone(),
        plain_variables=analyzer.plain_variables(), texts=(text, *analyzer.texts),
    )  # fmt: skip


class _Analyzer:
    def __init__(self, *, has_input: bool) -> None:
        self._has_input = has_input
        """Whether any command can get input, from a pipe or a redirection."""
        self.parts: list[CommandPart] = []
        self.unreadable = ""
        self.differs = self.evaluates = False
        self.loops: dict[str, tuple[ParsedWord, ...]] = {}
        self._values = LexedScript()
        """The variables set and evaluated in all scripts together."""
        self._runs_input = False
        """Whether a shell runs its standard input."""
        self.texts: list[str] = []
        """Here-documents, here-strings and values of variables."""

    def read_inputs(self) -> None:
        """Analyze here-documents and here-strings as scripts if a shell may run them."""
        while self._runs_input and self._values.inputs:
            self.analyze(self._values.inputs.pop(), "a here-document", 1)

    def check_values(self) -> None:
        """Check whether arithmetic or builtins may run commands inside the values of variables."""
        found = self._values
        calculated = {name for name in found.arithmetic_variables if not found.numeric.get(name, False)}
        reason = found.evaluation
        self.evaluates = bool(calculated or reason)
        if calculated:
            reason = f"arithmetic evaluates the variable '{min(calculated)}', which may contain a command"
        if not found.has_unknown_values and not any(map(_HOLDS.search, self._raw_words_of())):
            reason = ""
        if reason := found.evaluated_output or reason:
            self._unknown(reason, reason, "")

    def loops_alone(self) -> dict[str, tuple[ParsedWord, ...]]:
        """Loop variables that neither a builtin nor arithmetic sets."""
        setting = [part.words for part in self.parts if part.kind == "command" and _SETTING.intersection(part.words)]
        if any(None in words for words in setting):
            return {}
        changed = {
            (word or "").partition("[")[0] for words in setting for word in words
        } | self._values.arithmetic_targets
        return {name: values for name, values in self.loops.items() if name not in changed}

    def plain_variables(self) -> frozenset[str]:
        return frozenset(self._values.numeric.keys() - self._values.glob_variables)

    def _raw_words_of(self) -> Iterator[str]:
        """Every known argument, value and text."""
        yield from (word for part in self.parts for word in part.words if word is not None)
        yield from self.texts

    def analyze(self, text: str, by: str = "", depth: int = 0, *, dialect: Dialect = "bash") -> None:
        """Analyze a script: the command itself, or one that a part (`by`) runs."""
        try:
            second = parse_outline(text)
        except AmbiguousText as reason:
            self._unknown(str(reason), text, by)
            return
        try:
            if dialect == "other":
                raise UnsupportedSyntax("the shell that runs it is unknown")
            script = lex(text, bash=dialect == "bash")
        except UnsupportedSyntax as reason:
            self._unknown(str(reason), text, by)
            for words in second.commands:
                self._add(_nested_part(words, by), depth)
            return
        for part in script.parts:
            self._add(replace(part, derived=True, inside=part.inside or by) if by else part, depth, dialect)
        self._compare(text, script, second, by, depth)
        self._take(script, by, depth)

    def _compare(self, text: str, script: LexedScript, second: SyntaxOutline, by: str, depth: int) -> None:
        """Add commands that only the syntax tree has; if it sees other programs, the text is unknown."""
        made = (part.words for part in script.parts if part.kind == "command")
        ours = Counter(
            words for words in made if words[0] not in ("[", "[[")
        )  # the tree does not list tests as commands
        theirs = Counter(second.commands)
        if second.broken:
            self._unknown("it is not a complete script", text, by)
        elif _programs(ours) != _programs(theirs):
            self._unknown("two parsers disagree about it", text, by)
        elif ours == theirs and _targets(script.parts) == Counter(second.redirections):
            return
        self.differs = True
        for words in theirs - ours:
            self._add(_nested_part(words, by), depth)

    def _take(self, script: LexedScript, by: str, depth: int) -> None:
        values = self._values
        if not by:
            self.loops = script.loops
        values.inputs += script.inputs
        self.texts += [*script.inputs, *script.texts]
        self.texts += [value for _, value in script.assignments if value is not None]
        values.arithmetic_variables |= script.arithmetic_variables
        values.arithmetic_targets |= script.arithmetic_targets
        values.evaluation = values.evaluation or script.evaluation
        values.evaluated_output = values.evaluated_output or script.evaluated_output
        values.has_unknown_values = values.has_unknown_values or script.has_unknown_values
        values.glob_variables |= script.glob_variables
        for name, numeric in script.numeric.items():
            values.numeric[name] = values.numeric.get(name, True) and numeric
        self._read_words((value for _, value in script.assignments), "a variable", depth)
        for name, value in script.assignments:
            for inner in commands_in_assignment(f"{name}={script_of([value])}"):
                self._add_inner(inner, depth + 1)

    def _assign(self, name: str, *, numeric: bool) -> None:
        if not numeric:
            self._values.glob_variables.add(name)
        self._values.numeric[name] = self._values.numeric.get(name, True) and numeric

    def _read_words(self, words: Iterable[Word], by: str, depth: int) -> None:
        for script in substitutions_in(words):
            self._add_inner(NestedCommand(by, script=script), depth + 1)

    def _unknown(self, reason: str, text: str, by: str) -> None:
        self.unreadable = self.unreadable or reason
        self._add(replace(_opaque_part(text, by, reason), derived=bool(by)), 0)

    def _add(self, part: CommandPart, depth: int, dialect: Dialect = "bash") -> None:
        if len(self.parts) >= MAX_PARTS:
            raise TooComplex(f"it has more than {MAX_PARTS} parts")
        self.parts.append(part)
        if part.kind == "command":
            self._note_values(part, dialect)
            for inner in nested_commands(part.words):
                self._add_inner(inner, depth + 1, dialect, _raw_words_of(inner, part))

    def _add_inner(
        self, inner: NestedCommand, depth: int, dialect: Dialect = "bash", raw_words: tuple[str, ...] = ()
    ) -> None:
        if inner.only_with_input and not self._has_input:
            return
        self._runs_input = self._runs_input or inner.from_input
        if depth > MAX_WRAPPED:
            reason = f"commands are nested more than {MAX_WRAPPED} levels deep"
            self.unreadable = self.unreadable or reason
            self._add(replace(_opaque_part(inner.by, inner.by, reason), derived=True), 0)
        elif inner.script is not None:
            self.analyze(inner.script, inner.by, depth, dialect=inner.dialect or dialect)
        elif inner.words:
            part = replace(_nested_part(inner.words, inner.by), guessed=inner.guessed, raw_words=raw_words)
            self._add(replace(part, obstacle=inner.reason) if inner.reason else part, depth, dialect)

    def _note_values(self, part: CommandPart, dialect: Dialect) -> None:
        """Record which variables a builtin sets or evaluates."""
        values, name, rest = self._values, part.words[0], part.words[1:]
        if name in _READING_INTO:
            values.has_unknown_values = True
            rest = _without_values(name or "", rest)
            for word in rest:
                self._assign(word or "", numeric=False)
        elif name in _DECLARING or name == "env":
            for word in rest:
                self._note_declared(name or "", word)
        elif name == "let":
            values.arithmetic_variables.update(found for word in rest for found in _NAME.findall(word or ""))
        elif name == "printf" and (rest[:1] == (None,) or (rest[:1] and (rest[0] or "").startswith("-v"))):
            values.has_unknown_values = True
        looks = name in ("[", "test") and None in rest
        if looks and (_may_be_operator(part) or _looks_up(rest) or dialect != "bash"):
            values.evaluation = values.evaluation or f"'{name}' may evaluate its operands"
        if (name == "printf" and _may_name(part)) or (name == "wait" and _looks_up(rest)):
            values.evaluation = values.evaluation or f"'{name}' evaluates the name of a variable"
        if name in _SUBSCRIPTING:
            found = (_SUBSCRIPT.match(word or "") for word in rest)
            values.arithmetic_variables.update(name for match in found if match for name in _NAME.findall(match[1]))
        if name in _EVALUATING_NAMES and None in rest:
            values.evaluation = values.evaluation or f"'{name}' evaluates the name of a variable"

    def _note_declared(self, name: str, word: Word) -> None:
        values = self._values
        if word is None:
            values.has_unknown_values = True
        elif (found := _SET.fullmatch(word)) is not None:
            self._assign(found[1], numeric=_NUMBER.fullmatch(found[2]) is not None)
        elif name not in ("env", "export", "readonly") and _INTEGER.match(word) is not None:
            values.evaluation = values.evaluation or f"'{name} {word}' evaluates the value of a variable"


def _looks_up(words: Sequence[Word]) -> bool:
    """Whether the name of a tested variable is unknown."""
    pairs = list(pairwise(words))
    named = [after for word, after in pairs if word is not None and _LOOKING.fullmatch(word) is not None]
    return None in named or (None, None) in pairs


def _may_name(part: CommandPart) -> bool:
    """Whether printf may set a variable (`-v`) whose name or subscript is evaluated."""
    first, second = (*part.words[1:3], "x", "x")[:2]
    if first is None:
        quoted = len(part.parsed_words) > 1 and isinstance(part.parsed_words[1], QuotedWord)
        return (len(part.words) > 3 and not quoted) or "".join(part.raw_words[1:2]).startswith("-")
    if first == "-v":
        return second is None or _NAME.fullmatch(second) is None
    return first.startswith("-v") and _NAME.fullmatch(first[2:]) is None


def _may_be_operator(part: CommandPart) -> bool:
    """Whether the first word of a test is unknown and may be an operator such as `-v`."""
    first = part.parsed_words[1] if len(part.parsed_words) > 1 else None
    return part.words[1] is None and (first is None or (isinstance(first, VariableWord) and not first.is_quoted))


def _without_values(name: str, words: Sequence[Word]) -> Sequence[Word]:
    """The words without option values, which are not variable names."""
    if name != "read":
        return words
    pairs = zip(("", *words), words, strict=False)
    return [word for before, word in pairs if _READ_VALUED.fullmatch(before or "") is None]


def _raw_words_of(inner: NestedCommand, part: CommandPart) -> tuple[str, ...]:
    """The raw words of a nested command, if they are words of the outer command."""
    count = len(inner.words)
    if not count or len(part.raw_words) != len(part.words):
        return ()
    at = len(part.words) - count if inner.at is None else inner.at
    raw_words = part.raw_words[at : at + count]
    if inner.at is not None:
        return tuple("./x" if "{}" in word else word for word in raw_words)
    return raw_words if part.words[at:] == inner.words else ()


def _opaque_part(text: str, by: str, reason: str) -> CommandPart:
    return CommandPart(kind="opaque", text=text[:SHOWN], inside=by, obstacle=reason, may_run_anything=True)


def _nested_part(words: tuple[Word, ...], by: str) -> CommandPart:
    """A part for a command that another one runs, or that only the syntax tree has."""
    text = " ".join("…" if word is None else word for word in words)[:SHOWN]
    return CommandPart(kind="command", text=text, words=words, inside=by, obstacle=_INDIRECT, derived=True)


def _programs(commands: Counter[tuple[Word, ...]]) -> Counter[Word]:
    programs = Counter[Word]()
    for words, times in commands.items():
        programs[words[0] if words else None] += times
    return programs


def _targets(parts: Sequence[CommandPart]) -> Counter[tuple[Word, ...]]:
    return Counter(part.words for part in parts if part.kind == "redirection" and len(part.words) > 1)
