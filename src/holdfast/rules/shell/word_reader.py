"""Parses the words of a script the way bash does: quotes, escapes, expansions and arithmetic.

Words contain commands and commands contain words, so this is the abstract base class of the parser in `lexer`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from holdfast.rules.shell.parts import CommandPart, GlobWord, ParsedWord, SplitWords, Word, word_set

_AFTER_WORDS: Final = frozenset(("", " ", "\t", "\n", ";", "|", ")"))
_BARE: Final = re.compile(r"[A-Za-z0-9_./,:=@%+^-]+")
_QUOTED: Final = re.compile(r'[^"\\$`\x00-\x08\x0b-\x1f\x7f]+')
_PARAMETER: Final = re.compile(r"(!?)(#?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*?$!_-])|#)")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_POSIX_OPERATORS: Final = re.compile(r":?[-=?+]|##?|%%?")
_BASH_OPERATORS: Final = re.compile(r":?[-=?+]|##?|%%?|//?|\^\^?|,,?|@[A-Za-z]|:")
_PLAIN_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])(?:\[[^]]*\])?\}?")
_OPERAND: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9A-Za-z_#@]*")
_NAMED_DESCRIPTOR: Final = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*(\[.*\])?\}", re.DOTALL)
_SETS: Final = re.compile(r"\+\+|--|<<=|>>=|(?<![=!<>])=(?!=)")
"""Operators that assign to a variable in an arithmetic expression."""
_RANGE: Final = re.compile(r"\{[0-9]+\.\.[0-9]+(\.\.[0-9]+)?\}")
_CUTTING: Final = word_set("# ## % %% ^ ^^ , ,,")
"""Parameter operators that remove a part of a value or change its case, so they add no glob."""
ENVIRONMENT_VARIABLES: Final = frozenset(
    {
        *("COLUMNS", "EDITOR", "EUID", "HOME", "HOSTNAME", "HOSTTYPE", "LANG", "LC_ALL", "LINENO", "LINES", "LOGNAME"),
        *("MACHTYPE", "OLDPWD", "OSTYPE", "PATH", "PPID", "PWD", "RANDOM", "SECONDS", "SHELL", "SHLVL", "TERM"),
        *("TMPDIR", "TZ", "UID", "USER", "VIRTUAL_ENV", *"0123456789@*#?$!-"),
    }
)
"""Variables that contain no glob unless the environment had one. Others are set by scripts, or by the shell from what
scripts do: `REPLY`, `BASH_REMATCH`, `BASH_EXECUTION_STRING`, `_`."""
PATTERN_SIGNS: Final = re.compile(r"[*?\[\\]")
_ADDED_SIGNS: Final = re.compile(r"[*?\[\\$`]")
_NUMERIC: Final = frozenset("#?$!")
"""Special parameters that are always numbers."""
_UNESCAPED: Final = re.compile(r"\\[`$\\\n]")
_UNESCAPED_IN_QUOTES: Final = re.compile(r'\\[`$\\"\n]')
_PRINTED: Final = "arithmetic evaluates the output of a command"
_COUNTING: Final = {
    "nproc": re.compile(r"--all"),
    "seq": re.compile(r"-w|[+-]?[0-9.]+"),
    "wc": re.compile(r"-[clLmw]+"),
    "date": re.compile(r"-u|\+(%[sYmdHMSjuwNy])+"),
}
"""Programs, with arguments, that print only numbers. A file name in the output could be evaluated as code."""
_PLAINLY_PRINTING: Final = frozenset({"date", "hostname", "id", "nproc", "uname", "whoami"})
"""Programs that print no glob characters unless their arguments contain some."""
_ESCAPE: Final = r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|([abeEfnrtv\\'\"?]))"
_ANSI: Final = re.compile(_ESCAPE)
_ANSI_TEXT: Final = re.compile(rf"(?:[^\\]|{_ESCAPE})*", re.DOTALL)
"""Other escapes are not supported: `\\c` control characters, `\\x{…}`, and unknown ones."""
_ANSI_LETTERS: Final = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


class UnsupportedSyntax(Exception):
    """The text contains syntax whose meaning is not certain."""


class LexedScript(Struct, kw_only=True):
    """The result of parsing a script, including nested scripts."""

    parts: list[CommandPart] = field(default_factory=list[CommandPart])
    assignments: list[tuple[str, Word]] = field(default_factory=list[tuple[str, Word]])
    """Assigned variables with their values."""
    texts: list[str] = field(default_factory=list[str])
    """Items of loops."""
    inputs: list[str] = field(default_factory=list[str])
    """Here-documents and here-strings, which a shell may run; `$_` for an unknown one."""
    numeric: dict[str, bool] = field(default_factory=dict[str, bool])
    """Assigned variables, and whether they are only ever set to numbers."""
    arithmetic_variables: set[str] = field(default_factory=set[str])
    """Variables evaluated as arithmetic, which runs command substitutions in their values."""
    evaluation: str = ""
    """Why a value is evaluated as code; matters only if a variable contains a command."""
    evaluated_output: str = ""
    """Why the output of a command is evaluated; matters whatever the variables contain."""
    has_unknown_values: bool = False
    """Whether a variable is set to an unknown value."""
    loops: dict[str, tuple[ParsedWord, ...]] = field(default_factory=dict[str, tuple[ParsedWord, ...]])
    """Loop variables with their items."""
    arithmetic_targets: set[str] = field(default_factory=set[str])
    """Variables assigned in arithmetic."""
    glob_variables: set[str] = field(default_factory=set[str])
    """Variables that may be set to a glob."""
    command_count: int = 0
    """The number of simple commands so far."""


def ansi_value(text: str) -> Word:
    """The value of `$'…'`; None if versions of bash interpret it differently."""
    if _ANSI_TEXT.fullmatch(text) is None:
        return None
    value = _ANSI.sub(_ansi_char, text)
    return None if "\0" in value or not value.isascii() else value


def _ansi_char(found: re.Match[str]) -> str:
    if hexadecimal := found[1] or found[2] or found[3]:
        code = int(hexadecimal, 16)
        return chr(code) if code < 0x110000 else "\0"
    if found[4]:
        return chr(int(found[4], 8) & 0xFF)
    return _ANSI_LETTERS[found[5]]


def has_braces(bare: str) -> bool:
    """Whether the unquoted text of a word may be a brace expansion: `{a,b}`, `{1..3}`, `{a{b}c,d}`, `{a}b,c}`.

    Brace matching is ignored on purpose: bash tries the next closing brace if the first pair contains no separator.
    """
    begin, end = bare.find("{"), bare.rfind("}")
    return 0 <= begin < end and ("," in (inner := bare[begin:end]) or ".." in inner)


class WordReader(ABC):
    """A cursor in a text with methods that parse words."""

    def __init__(self, text: str, found: LexedScript, *, bash: bool, inside: str = "") -> None:
        self.text = text
        self.found = found
        self.bash = bash
        self.at: int = 0
        self._inside = inside
        """The outermost construct around the current position."""
        self._heredocs: list[tuple[str, bool, bool]] = []
        """Pending here-documents: delimiter, whether it is quoted, whether leading tabs are removed."""
        self._numeric = True
        """Whether the current word can only be a number."""
        self._shape: SplitWords | None = SplitWords()
        """What is known about the last word if its value is unknown; None if it may contain globs."""
        self._fed_by = 0
        """The number of the command that is piped into the next one."""
        self._last = 0
        """The number of the last command of a list, if it is a simple command."""
        self._output_began = self._output_ended = -1
        """The position of the last unquoted command substitution."""

    @abstractmethod
    def read_all(self) -> None:
        """Parse the whole text as a script."""

    @abstractmethod
    def _list(self, closing: frozenset[str]) -> str:
        """Parse commands up to one of the closing words or operators, which is returned."""

    @abstractmethod
    def _inner(self, text: str, label: str) -> WordReader:
        """A parser for a nested text that adds to the same result."""

    def _within(self, label: str, read: Callable[[], object]) -> None:
        """Call `read` inside a construct; the outermost label wins."""
        before, self._inside = self._inside, self._inside or label
        read()
        self._inside = before

    def _ahead(self, sign: str) -> bool:
        return self.text.startswith(sign, self.at)

    def _skip_blanks(self) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t":
                self.at += 1
            elif char == "\\" and self._ahead("\\\n"):
                self._join()
            else:
                break

    def _join(self) -> None:
        """Skip a line continuation; supported only between words, next to a blank."""
        before = self.text[self.at - 1 : self.at] or " "
        after = self.text[self.at + 2 : self.at + 3] or " "
        if before not in " \t\n" and after not in " \t":
            raise UnsupportedSyntax("a word continues on the next line")
        self.at += 2

    def _join_quoted(self) -> None:
        """Skip a line continuation in double quotes; only after a blank, because `$` and `(` could be joined."""
        if self._heredocs or self.text[self.at - 1] not in " \t\n":
            raise UnsupportedSyntax("a word continues on the next line")
        self.at += 2
        self._numeric = False

    def _skip_comment(self) -> None:
        self._skip_blanks()
        if self._ahead("#"):
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def _word(self) -> Word | GlobWord:
        """Parse a word. Returns its value, a glob, or None if the value is unknown."""
        began = self.at
        found = _BARE.match(self.text, began)
        if found is not None and self.text[found.end() : found.end() + 1] in _AFTER_WORDS:
            self.at = found.end()
            self._numeric = found[0].isdigit()
            return found[0]
        pieces: list[str] = []
        pattern: list[str] = []
        bare: list[str] = []
        globs, known = False, True
        self._numeric = True
        self._shape = SplitWords()
        while self.at < len(self.text):
            found = _BARE.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                pieces.append(found[0])
                bare.append(found[0])
                pattern.append(found[0])
                self._numeric = self._numeric and found[0].isdigit()
                continue
            char = self.text[self.at]
            if char in " \t\n;&|)":
                break
            if char in "<>" and self.text[self.at + 1 : self.at + 2] != "(":
                break
            if char == "(" or (char == "#" and self.at == began):
                break
            before = self.at
            value = self._piece(char)
            numeric = self._numeric
            if value is None:
                known = False
            else:
                pieces.append(value)
                numeric = numeric and not value
            if char in "*?[]":
                globs = globs or char != "]"
                pattern.append(char)
            elif value is not None:
                pattern.append(re.sub(r"([\\*?\[\]])", r"\\\1", value))
            bare.append(self.text[before : self.at] if char in "*?[]{}~!#" else "x")
            self._numeric = numeric
        if self.at == began:
            raise UnsupportedSyntax("a word is missing")
        if self.text[self.at : self.at + 1] in ("<", ">") and _NAMED_DESCRIPTOR.fullmatch(self.text, began, self.at):
            raise UnsupportedSyntax("a redirection sets a variable")
        return self._valued("".join(pieces), "".join(pattern), "".join(bare), began, known=known, globs=globs)

    def _valued(self, value: str, pattern: str, bare: str, began: int, *, known: bool, globs: bool) -> Word | GlobWord:
        tilde = bare.startswith("~") or "=~" in bare or ":~" in bare
        if has_braces(bare):
            known = False
            self._numeric = _RANGE.fullmatch(self.text, began, self.at) is not None
            if not self.bash:
                raise UnsupportedSyntax("shells treat braces differently")
        if globs:
            self._shape = None
        if not known or tilde:
            self._note_whole(began)
            return None
        return GlobWord(pattern) if globs and value != "[" else value

    def _note_whole(self, began: int) -> None:
        """Record whether a word is the output of one command and nothing else."""
        shape = self._shape
        if shape is None or len(shape.commands) != 1 or shape.variables:
            return
        if began == self._output_began and self.at == self._output_ended:
            self._shape = SplitWords(commands=shape.commands, is_output=True)

    def _may_hold(self, *, variable: str = "", command: int = 0) -> None:
        """Record an unquoted variable or command that may put globs into the word."""
        if self._shape is not None:
            variables = (*self._shape.variables, variable) if variable else self._shape.variables
            commands = (*self._shape.commands, command) if command else self._shape.commands
            self._shape = SplitWords(variables, commands)

    def _piece(self, char: str) -> str | None:
        """Parse a quoted or expanded piece of a word; None if its value is unknown."""
        match char:
            case "'":
                self._numeric = False
                return self._single()
            case '"':
                return self._double()
            case "\\":
                return self._escaped()
            case "$":
                return self._dollar(quoted=False)
            case "`":
                return self._backtick(quoted=False)
            case "<" | ">":
                self._substituted_process()
                return None
            case _:
                pass
        if char in "*?[]{}~!#" or (not char.isascii() and char.isprintable()):
            self.at += 1
            self._numeric = self._numeric and char in "{}"
            return char
        raise UnsupportedSyntax(f"it contains {char!a}")

    def _substituted_process(self) -> None:
        if not self.bash:
            raise UnsupportedSyntax("shells treat process substitutions differently")
        self.at += 2
        shape = self._shape
        self._substituted("<(…)")
        self._shape, self._numeric = shape, False

    def _substituted(self, label: str) -> None:
        """Parse commands up to the closing parenthesis. Here-documents must not cross it."""
        before = self._heredocs
        self._within(label, lambda: self._list(frozenset(")")))
        if before or self._heredocs:
            raise UnsupportedSyntax("a here-document spans a substitution")

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise UnsupportedSyntax("a quote is not closed")
        inner = self.text[self.at + 1 : end]
        self._check_lines(inner)
        self.at = end + 1
        return inner

    def _check_lines(self, text: str) -> None:
        if self._heredocs and "\n" in text:
            raise UnsupportedSyntax("a quote spans the start of a here-document")

    def _escaped(self) -> str:
        char = self.text[self.at + 1 : self.at + 2]
        if not char or char == "\n":
            raise UnsupportedSyntax("a word continues on the next line")
        self.at += 2
        self._numeric = False
        return char

    def _double(self) -> str | None:
        self.at += 1
        pieces: list[str] = []
        known = True
        while self.at < len(self.text):
            found = _QUOTED.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                self._check_lines(found[0])
                pieces.append(found[0])
                self._numeric = self._numeric and found[0].isdigit()
                continue
            match self.text[self.at]:
                case '"':
                    self.at += 1
                    return "".join(pieces) if known else None
                case "\\":
                    pieces.append(self._escaped_in_quotes())
                case "$":
                    value = self._dollar(quoted=True)
                    known = known and value is not None
                    pieces.append(value or "")
                case "`":
                    self._backtick(quoted=True)
                    known = False
                case char:
                    raise UnsupportedSyntax(f"it contains {char!a}")
        raise UnsupportedSyntax("a quote is not closed")

    def _escaped_in_quotes(self) -> str:
        char = self.text[self.at + 1 : self.at + 2]
        if char == "\n":
            self._join_quoted()
            return ""
        self.at += 2
        self._numeric = False
        return char if char in ("$", "`", '"', "\\") else f"\\{char}"

    def _dollar(self, *, quoted: bool, document: bool = False) -> str | None:
        after = self.text[self.at + 1 : self.at + 2]
        if after == "(":
            self._command_or_arithmetic(quoted=quoted)
            return None
        if after == "{":
            self.at += 2
            self._parameter(quoted=quoted or document)
            return None
        if after == "[":
            raise UnsupportedSyntax("`$[` is obsolete arithmetic syntax")
        if after in ("'", '"') and after and not quoted:
            return self._special_quotes(after)
        found = _VARIABLE.match(self.text, self.at + 1)
        if found is None:
            self.at += 1
            self._numeric = False
            return "$"
        self.at = found.end()
        self._numeric = self._numeric and found[0] in _NUMERIC
        if not quoted and found[0] not in ENVIRONMENT_VARIABLES:
            self._may_hold(variable=found[0])
        return None

    def _special_quotes(self, quote: str) -> str | None:
        if not self.bash:
            raise UnsupportedSyntax("shells treat `$` before a quote differently")
        self.at += 1
        self._numeric = False
        if quote == '"':
            self._double()
            return None
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise UnsupportedSyntax("a quote is not closed")
        inner = self.text[self.at + 1 : end]
        self.at = end + 1
        return ansi_value(inner)

    def _command_or_arithmetic(self, *, quoted: bool) -> None:
        began, shape = self.at, self._shape
        if self._ahead("$(("):
            self.at += 3
            self._arithmetic("))")
            self._shape = shape
            return
        self.at += 2
        numeric, before = self._numeric, len(self.found.parts)
        self._substituted("$(…)")
        self._shape, self._numeric = shape, numeric and self._counts(before, self._last)
        if not quoted:
            self._note_output(began, before, self._last)

    def _note_output(self, began: int, before: int, command: int) -> None:
        """Record that the output of a command is split into words and globs in it are expanded."""
        self._output_began, self._output_ended = began, self.at
        if not self._prints_plainly(before, command):
            self._may_hold(command=command)
            self._shape = self._shape if command else None

    def _prints_plainly(self, before: int, command: int) -> bool:
        """Whether the one command parsed since `before` prints no globs."""
        made = [part.words for part in self.found.parts[before:]]
        if self._counts(before, command):
            return True
        plain = len(made) == 1 and bool(made[0]) and made[0][0] in _PLAINLY_PRINTING
        return plain and all(word is not None and PATTERN_SIGNS.search(word) is None for word in made[0])

    def _counts(self, before: int, command: int) -> bool:
        """Whether the commands parsed since `before` print only numbers. `command`: the last one of the pipeline."""
        made = self.found.parts[before:]
        if any(part.kind == "redirection" and ">" in (part.words[0] or "") for part in made):
            return False  # error messages may be mixed into the numbers
        last = next((part for part in made if part.kind == "command" and part.number == command), None)
        if last is None or not command or (counted := _COUNTING.get(last.words[0] or "")) is None:
            return False
        return all(counted.fullmatch(word or "") for word in last.words[1:])

    def _backtick(self, *, quoted: bool) -> None:
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "`":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise UnsupportedSyntax("a backtick is not closed")
        inside = self.text[self.at + 1 : end]
        if (_UNESCAPED_IN_QUOTES if quoted else _UNESCAPED).search(inside):
            raise UnsupportedSyntax("backticks contain escapes")
        began, before = self.at, len(self.found.parts)
        inner = self._inner(inside, "$(…)")
        inner.read_all()
        self._numeric = self._numeric and self._counts(before, inner._last)
        self.at = end + 1
        if not quoted:
            self._note_output(began, before, inner._last)

    def _parameter(self, *, quoted: bool) -> None:
        """Parse `${…}`, starting after the brace."""
        found = _PARAMETER.match(self.text, self.at)
        if found is None or (found[1] and not self.bash):
            raise UnsupportedSyntax("a parameter expansion has no name")
        counted = found[2].startswith("#") and len(found[2]) > 1
        self.at = found.end()
        if found[1] and self._ahead("}"):
            self._evaluate("a variable is expanded indirectly")
        if self._ahead("["):
            shape = self._shape
            self.at += 1
            self._arithmetic("]")
            self._shape = shape
        if not quoted and not counted and (found[1] or found[2] not in ENVIRONMENT_VARIABLES):
            self._may_hold(variable=found[2])
        if self._ahead("}"):
            self.at += 1
            self._numeric = self._numeric and (counted or found[2] in _NUMERIC)
            self._shape = None if found[1] and not quoted else self._shape
            return
        self._numeric = False
        shape = self._shape
        cut = self._use(found, quoted=quoted)
        self._shape = shape if quoted or cut else None

    def _use(self, found: re.Match[str], *, quoted: bool) -> bool:
        """Parse the operator of a parameter expansion up to the brace. Returns whether it adds no glob to the value."""
        if found[1] and (self._ahead("*}") or self._ahead("@}")):
            self.at += 2
            return True
        operator = (_BASH_OPERATORS if self.bash else _POSIX_OPERATORS).match(self.text, self.at)
        if operator is None:
            raise UnsupportedSyntax("a parameter expansion is not supported")
        self.at = operator.end()
        if operator[0] == ":":
            self._arithmetic("}")
            return not found[1]
        if found[1]:
            self._evaluate("a variable is expanded indirectly")
        if operator[0] in ("@P", "@p"):
            self._evaluate("a value is expanded like a prompt")
        if operator[0] in ("=", ":="):
            self._assign(found[2], numeric=False, known=False)
            self._assigned(f"{found[2]}=")
        self._replacement(quoted=quoted)
        added = "" if operator[0] in _CUTTING else self.text[operator.end() : self.at]
        return not found[1] and _ADDED_SIGNS.search(added) is None

    def _replacement(self, *, quoted: bool) -> None:
        while self.at < len(self.text):
            match self.text[self.at]:
                case "}":
                    self.at += 1
                    return
                case "\\":
                    if self.text[self.at + 1 : self.at + 2] in ("", "\n"):
                        raise UnsupportedSyntax("a word continues on the next line")
                    self.at += 2
                case "'" if quoted:
                    raise UnsupportedSyntax("there is a quote in a quoted parameter expansion")
                case "'":
                    self._single()
                case '"' if not quoted:
                    self._double()
                case '"':
                    raise UnsupportedSyntax("there is a quote in a quoted parameter expansion")
                case "$":
                    self._dollar(quoted=quoted)
                case "`":
                    self._backtick(quoted=quoted)
                case "<" | ">" if self.text[self.at + 1 : self.at + 2] == "(":
                    raise UnsupportedSyntax("there is a process substitution in a parameter expansion")
                case "\n" | "\x00":
                    raise UnsupportedSyntax("a parameter expansion spans lines")
                case _:
                    self.at += 1
        raise UnsupportedSyntax("a parameter expansion is not closed")

    def _arithmetic(self, end: str, *, parts: bool = False) -> None:
        """Parse an arithmetic expression up to `end`. Every variable in it is evaluated. `parts`: allow `;`, as in
        loops."""
        depth, began = 0, self.at
        while self.at < len(self.text):
            if depth == 0 and self._ahead(end):
                if _SETS.search(expression := self.text[began : self.at]) is not None:
                    self.found.arithmetic_targets.update(_OPERAND.findall(expression))
                self.at += len(end)
                return
            found = _OPERAND.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                if not found[0][0].isdigit():
                    self.found.arithmetic_variables.add(found[0])
                continue
            char = self.text[self.at]
            if char == "$":
                self._calculated_dollar()
            elif char == "`":
                self._numeric = True
                self._backtick(quoted=False)
                self.found.evaluated_output = self.found.evaluated_output or ("" if self._numeric else _PRINTED)
            elif char in "([":
                depth += 1
                self.at += 1
            elif char in ")]":
                depth -= 1
                self.at += 1
                if depth < 0:
                    raise UnsupportedSyntax("an expression is not closed")
            elif char in "+-*/%<>=!&|^~?:,.@ \t\n" or (char == ";" and parts) or (char == '"' and end != "]"):
                self.at += 1
            else:
                raise UnsupportedSyntax(f"an expression contains {char!a}")
        raise UnsupportedSyntax("an expression is not closed")

    def _calculated_dollar(self) -> None:
        began, self._numeric = self.at, True
        self._dollar(quoted=True)
        if self._numeric:
            return
        raw = self.text[began : self.at]
        if (found := _PLAIN_VARIABLE.fullmatch(raw)) is not None:
            self.found.arithmetic_variables.add(found[1])
        elif raw.startswith("$("):
            self.found.evaluated_output = _PRINTED
        else:
            self._evaluate("arithmetic evaluates a composed value")

    def _evaluate(self, reason: str) -> None:
        self.found.evaluation = self.found.evaluation or reason

    def _assigned(self, text: str, parsed_words: tuple[ParsedWord, ...] = ()) -> None:
        """Add a part for a variable that is set by something other than an assignment."""
        part = CommandPart(
            kind="assignment", text=text, words=(text[:-1], None), parsed_words=parsed_words, inside=self._inside
        )
        self.found.parts.append(part)

    def _assign(self, name: str, *, numeric: bool, known: bool, plain: bool = False) -> None:
        """Record an assignment. `plain`: the value contains no glob."""
        if not (numeric or plain):
            self.found.glob_variables.add(name)
        self.found.has_unknown_values = self.found.has_unknown_values or not (numeric or known)
        self.found.loops.pop(name, None)
        self.found.numeric[name] = self.found.numeric.get(name, True) and numeric
