"""The parts of a command: every simple command, assignment and redirection in it, however deep it is hidden.

Two readings are made of every script: our own (`lexer`) and a syntax tree's (`tree`). What they do not agree on, and
what the lexer does not model, is unknown: nothing of it is approved, and any rule that asks or denies may be about it.
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
from holdfast.rules.shell.programs import INTERPRETERS, family
from holdfast.rules.shell.syntax_tree import Outline, Overrun, Unreadable, outline
from holdfast.rules.shell.uncertainty import Doubts
from holdfast.rules.shell.verdicts import Dialect, Exact, Part, Text, Variable, Word, word_set
from holdfast.rules.shell.word_reader import Script, Unmodelled
from holdfast.rules.shell.wrappers import MAX_WRAPPED, Inner, evaluated, script_of, stored, unwrap

MAX_PARTS: Final = 1000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)
_QUOTES: Final = re.compile(r"""[\\'"]""")
_ESCAPES: Final = re.compile(r"""\\[a-z]?|['"]""")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_HOLDS: Final = re.compile(r"[$`\\]")
"""What a value needs to hold a command, or to be made into one that does."""
_SPLICED: Final = re.compile(r"[^ \t\n]\\\n[^ \t\n]")
"""No reading is asked where this stands: `"$\\` at the end of a line and `(…)"` in the next once misled both."""
_INDIRECT: Final = "it is not written as a command"
_NUMBER: Final = re.compile(r"[+-]?[0-9]*")
_READING_INTO: Final = frozenset({"getopts", "mapfile", "read", "readarray"})
_SETTING: Final = word_set("declare eval export getopts let local mapfile read readarray readonly typeset unset wait")
"""Builtins that may set variables they are given the names of."""
_DECLARING: Final = frozenset({"declare", "export", "local", "readonly", "typeset"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:=@,-]*")
_CODE_NEXT: Final = re.compile(r"-[A-Za-z]*[eEcrp]")
_LOOKING: Final = re.compile(r"-[vR]|-[a-z]*p")
_INTEGER: Final = re.compile(r"-[a-zA-Z]*[in]")
_READ_VALUED: Final = re.compile(r"-[a-zA-Z]*[dinNptu]")
_EVALUATING_NAMES: Final = word_set("declare getopts let local mapfile read readarray typeset unset")
"""Builtins that evaluate the subscript of a variable they are told to set or use."""
_SUBSCRIPTING: Final = _EVALUATING_NAMES | {"[", "export", "printf", "readonly", "test", "wait"}
_SUBSCRIPT: Final = re.compile(r"(?:-v)?[A-Za-z_][A-Za-z0-9_]*\[(.+)\]")


class Reading(Struct, frozen=True, kw_only=True, dict=True):
    parts: tuple[Part, ...] = ()
    unreadable: str = ""
    """Why the text as a whole has no certain meaning."""
    differs: bool = False
    """Whether the two readings, though they see the same programs, see other words."""
    spliced: bool = False
    """Whether something may go on in the next line in the middle of a word, whatever quotes it seems to be in."""
    evaluates: bool = False
    """Whether it evaluates variables, whose values are not certain."""
    overrun: str = ""
    """Why it is too much to judge."""
    loops: dict[str, tuple[Exact, ...]] = field(default_factory=dict[str, tuple[Exact, ...]])
    """What the variables of loops stand for, if nothing else sets them."""
    plain: frozenset[str] = frozenset()
    """Variables that are set, and never to a pattern."""
    texts: tuple[str, ...] = ()
    """The whole text, here-documents and the values of variables."""

    @cached_property
    def doubts(self) -> Doubts:
        """What is unsure about its parts."""
        return Doubts(self.parts, self.loops)

    @cached_property
    def writes(self) -> bool:
        """Whether it writes files."""
        return bool(self.doubts.written)

    @cached_property
    def depends(self) -> bool:
        """Whether there are words in it that cannot be told."""
        return any(part.kind == "command" and None in part.words for part in self.parts)

    @cached_property
    def names(self) -> frozenset[str]:
        """What may be the name of a program somewhere in it, however it is quoted."""
        words = (word for part in self.parts for word in part.words if word is not None)
        unquoted = ((_QUOTES.sub("", text), _ESCAPES.sub(" ", text)) for text in (*self.texts, *words))
        return frozenset(name for both in unquoted for text in both for name in _TOKEN.findall(text))

    @cached_property
    def code(self) -> tuple[str, ...]:
        """What interpreters are given, as far as it is more than names."""
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
def read(text: str, dialect: Dialect = "bash") -> Reading:
    """Everything that can be told about a command of a shell."""
    reader = _Reader(is_fed="|" in text or "<" in text)
    overrun = ""
    try:
        reader.read(text, dialect=dialect)
        reader.read_inputs()
        reader.check_values()
    except Overrun as over:
        overrun = str(over)
    return Reading(
        parts=tuple(reader.parts), unreadable=reader.unreadable, differs=reader.differs, overrun=overrun,
        spliced=_SPLICED.search(text) is not None, evaluates=reader.evaluates, loops=reader.loops_alone(),
        plain=reader.plain(), texts=(text, *reader.texts),
    )  # fmt: skip


class _Reader:
    def __init__(self, *, is_fed: bool) -> None:
        self._fed = is_fed
        """Whether any command may be given input."""
        self.parts: list[Part] = []
        self.unreadable = ""
        self.differs = self.evaluates = False
        self.loops: dict[str, tuple[Exact, ...]] = {}
        self._values = Script()
        """What is set and evaluated, in all scripts together."""
        self._runs_input = False
        """Whether a shell runs what it is given on its standard input."""
        self.texts: list[str] = []
        """Here-documents, here-strings and the values of variables."""

    def read_inputs(self) -> None:
        """Read here-documents and here-strings as the scripts that some shell may take them for."""
        while self._runs_input and self._values.inputs:
            self.read(self._values.inputs.pop(), "a here-document", 1)

    def check_values(self) -> None:
        """Arithmetic, and some builtins, run the commands in the values of variables."""
        found = self._values
        calculated = {name for name in found.calculated if not found.numbers.get(name, False)}
        reason = found.evaluated
        self.evaluates = bool(calculated or reason)
        if calculated:
            reason = f"arithmetic evaluates the variable '{min(calculated)}', which may hold a command"
        if not found.unknown and not any(map(_HOLDS.search, self._written())):
            reason = ""
        if reason := found.prints or reason:
            self._unknown(reason, reason, "")

    def loops_alone(self) -> dict[str, tuple[Exact, ...]]:
        """The variables of loops that nothing else sets: neither a builtin nor arithmetic."""
        setting = [part.words for part in self.parts if part.kind == "command" and _SETTING.intersection(part.words)]
        if any(None in words for words in setting):
            return {}
        changed = {(word or "").partition("[")[0] for words in setting for word in words} | self._values.changed
        return {name: values for name, values in self.loops.items() if name not in changed}

    def plain(self) -> frozenset[str]:
        return frozenset(self._values.numbers.keys() - self._values.patterned)

    def _written(self) -> Iterator[str]:
        """Every argument, value and text that can be told."""
        yield from (word for part in self.parts for word in part.words if word is not None)
        yield from self.texts

    def read(self, text: str, by: str = "", depth: int = 0, *, dialect: Dialect = "bash") -> None:
        """Read a script: the command itself, or one that a part (`by`) would run."""
        try:
            second = outline(text)
        except Unreadable as reason:
            self._unknown(str(reason), text, by)
            return
        try:
            if dialect == "other":
                raise Unmodelled("the shell that would run it is not known")
            script = lex(text, bash=dialect == "bash")
        except Unmodelled as reason:
            self._unknown(str(reason), text, by)
            for words in second.commands:
                self._add(_seen(words, by), depth)
            return
        for part in script.parts:
            self._add(replace(part, derived=True, inside=part.inside or by) if by else part, depth, dialect)
        self._compare(text, script, second, by, depth)
        self._take(script, by, depth)

    def _compare(self, text: str, script: Script, second: Outline, by: str, depth: int) -> None:
        """Whatever only the tree sees counts as well; where it sees other programs, anything may be in the text."""
        made = (part.words for part in script.parts if part.kind == "command")
        ours = Counter(words for words in made if words[0] not in ("[", "[["))  # a tree's tests are no commands
        theirs = Counter(second.commands)
        if second.broken:
            self._unknown("it is not a whole script", text, by)
        elif _programs(ours) != _programs(theirs):
            self._unknown("two readings of it differ", text, by)
        elif ours == theirs and _targets(script.parts) == Counter(second.redirections):
            return
        self.differs = True
        for words in theirs - ours:
            self._add(_seen(words, by), depth)

    def _take(self, script: Script, by: str, depth: int) -> None:
        values = self._values
        if not by:
            self.loops = script.loops
        values.inputs += script.inputs
        self.texts += [*script.inputs, *script.texts]
        self.texts += [value for _, value in script.assignments if value is not None]
        values.calculated |= script.calculated
        values.changed |= script.changed
        values.evaluated = values.evaluated or script.evaluated
        values.prints = values.prints or script.prints
        values.unknown = values.unknown or script.unknown
        values.patterned |= script.patterned
        for name, numeric in script.numbers.items():
            values.numbers[name] = values.numbers.get(name, True) and numeric
        self._read_words((value for _, value in script.assignments), "a variable", depth)
        for name, value in script.assignments:
            for inner in stored(f"{name}={script_of([value])}"):
                self._add_inner(inner, depth + 1)

    def _assign(self, name: str, *, numeric: bool) -> None:
        if not numeric:
            self._values.patterned.add(name)
        self._values.numbers[name] = self._values.numbers.get(name, True) and numeric

    def _read_words(self, words: Iterable[Word], by: str, depth: int) -> None:
        for script in evaluated(words):
            self._add_inner(Inner(by, script=script), depth + 1)

    def _unknown(self, reason: str, text: str, by: str) -> None:
        self.unreadable = self.unreadable or reason
        self._add(replace(_hiding(text, by, reason), derived=bool(by)), 0)

    def _add(self, part: Part, depth: int, dialect: Dialect = "bash") -> None:
        if len(self.parts) >= MAX_PARTS:
            raise Overrun(f"it has more than {MAX_PARTS} parts")
        self.parts.append(part)
        if part.kind == "command":
            self._note_values(part, dialect)
            for inner in unwrap(part.words):
                self._add_inner(inner, depth + 1, dialect, _written(inner, part))

    def _add_inner(self, inner: Inner, depth: int, dialect: Dialect = "bash", written: tuple[str, ...] = ()) -> None:
        if inner.if_fed and not self._fed:
            return
        self._runs_input = self._runs_input or inner.from_input
        if depth > MAX_WRAPPED:
            reason = f"commands are wrapped more than {MAX_WRAPPED} deep"
            self.unreadable = self.unreadable or reason
            self._add(replace(_hiding(inner.by, inner.by, reason), derived=True), 0)
        elif inner.script is not None:
            self.read(inner.script, inner.by, depth, dialect=inner.dialect or dialect)
        elif inner.words:
            part = replace(_seen(inner.words, inner.by), guessed=inner.guessed, written=written)
            self._add(replace(part, obstacle=inner.reason) if inner.reason else part, depth, dialect)

    def _note_values(self, part: Part, dialect: Dialect) -> None:
        """Remember which variables a builtin sets or evaluates."""
        values, name, rest = self._values, part.words[0], part.words[1:]
        if name in _READING_INTO:
            values.unknown = True
            rest = _without_values(name or "", rest)
            for word in rest:
                self._assign(word or "", numeric=False)
        elif name in _DECLARING or name == "env":
            for word in rest:
                self._note_declared(name or "", word)
        elif name == "let":
            values.calculated.update(found for word in rest for found in _NAME.findall(word or ""))
        elif name == "printf" and (rest[:1] == (None,) or (rest[:1] and (rest[0] or "").startswith("-v"))):
            values.unknown = True
        looks = name in ("[", "test") and None in rest
        if looks and (_may_be_operator(part) or _looks_up(rest) or dialect != "bash"):
            values.evaluated = values.evaluated or f"'{name}' may evaluate what it looks at"
        if (name == "printf" and _may_name(part)) or (name == "wait" and _looks_up(rest)):
            values.evaluated = values.evaluated or f"'{name}' evaluates the name of a variable"
        if name in _SUBSCRIPTING:
            found = (_SUBSCRIPT.match(word or "") for word in rest)
            values.calculated.update(name for match in found if match for name in _NAME.findall(match[1]))
        if name in _EVALUATING_NAMES and None in rest:
            values.evaluated = values.evaluated or f"'{name}' evaluates the name of a variable"

    def _note_declared(self, name: str, word: Word) -> None:
        values = self._values
        if word is None:
            values.unknown = True
        elif (found := _SET.fullmatch(word)) is not None:
            self._assign(found[1], numeric=_NUMBER.fullmatch(found[2]) is not None)
        elif name not in ("env", "export", "readonly") and _INTEGER.match(word) is not None:
            values.evaluated = values.evaluated or f"'{name} {word}' evaluates what a variable is set to"


def _looks_up(words: Sequence[Word]) -> bool:
    """Whether the name of a variable that is looked at cannot be told."""
    pairs = list(pairwise(words))
    named = [after for word, after in pairs if word is not None and _LOOKING.fullmatch(word) is not None]
    return None in named or (None, None) in pairs


def _may_name(part: Part) -> bool:
    """Whether printf may be told to set a variable whose name, or whose subscript, is evaluated."""
    first, second = (*part.words[1:3], "x", "x")[:2]
    if first is None:
        quoted = len(part.exact) > 1 and isinstance(part.exact[1], Text)
        return (len(part.words) > 3 and not quoted) or "".join(part.written[1:2]).startswith("-")
    if first == "-v":
        return second is None or _NAME.fullmatch(second) is None
    return first.startswith("-v") and _NAME.fullmatch(first[2:]) is None


def _may_be_operator(part: Part) -> bool:
    """Whether the first words of a test cannot be told, and may be `-v` and the name of a variable."""
    first = part.exact[1] if len(part.exact) > 1 else None
    return part.words[1] is None and (first is None or (isinstance(first, Variable) and not first.is_quoted))


def _without_values(name: str, words: Sequence[Word]) -> Sequence[Word]:
    """The words without the values of options, which are not names."""
    if name != "read":
        return words
    pairs = zip(("", *words), words, strict=False)
    return [word for before, word in pairs if _READ_VALUED.fullmatch(before or "") is None]


def _written(inner: Inner, part: Part) -> tuple[str, ...]:
    """How the words of a command inside are written, if they are words of the one around it."""
    count = len(inner.words)
    if not count or len(part.written) != len(part.words):
        return ()
    at = len(part.words) - count if inner.at is None else inner.at
    written = part.written[at : at + count]
    if inner.at is not None:
        return tuple("./x" if "{}" in word else word for word in written)
    return written if part.words[at:] == inner.words else ()


def _hiding(text: str, by: str, reason: str) -> Part:
    return Part(kind="opaque", text=text[:SHOWN], inside=by, obstacle=reason, hides=True)


def _seen(words: tuple[Word, ...], by: str) -> Part:
    """A command that another one runs, or that only the tree sees."""
    text = " ".join("…" if word is None else word for word in words)[:SHOWN]
    return Part(kind="command", text=text, words=words, inside=by, obstacle=_INDIRECT, derived=True)


def _programs(commands: Counter[tuple[Word, ...]]) -> Counter[Word]:
    programs = Counter[Word]()
    for words, times in commands.items():
        programs[words[0] if words else None] += times
    return programs


def _targets(parts: Sequence[Part]) -> Counter[tuple[Word, ...]]:
    return Counter(part.words for part in parts if part.kind == "redirection" and len(part.words) > 1)
