"""A lexer for shell scripts: extracts every simple command, assignment and redirection.

It follows bash character by character and raises `UnsupportedSyntax` at anything it does not support. With
`bash=False` it also refuses everything that bash and POSIX shells such as dash interpret differently.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from holdfast.rules.shell.parts import (
    CommandPart,
    GlobWord,
    ParsedWord,
    ProcessSubstitution,
    QuotedWord,
    SplitWords,
    VariableWord,
    Word,
    word_set,
)
from holdfast.rules.shell.programs import COMPARISONS
from holdfast.rules.shell.word_reader import PATTERN_SIGNS, LexedScript, UnsupportedSyntax, WordReader

_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|\[)")
_REDIRECTION: Final = re.compile(r"([0-9]*)(<<<|<<-|<<|<&|<>|<|>>|>&|>\||>)|()(&>>|&>)")
_RESERVED: Final = re.compile(r"(!|\{|\}|\[\[|[a-z]+)(?=[ \t\n;&|()<>]|$)")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEST_END: Final = re.compile(r"\]\](?=[ \t\n;&|)]|$)")
_DESCRIPTOR: Final = re.compile(r"[0-9]{1,3}|-")
_MAX_DIGITS: Final = 3
"""Digits of a file descriptor. bash treats longer numbers as words; dash does so with more than one digit."""
_TO_NOWHERE: Final = frozenset((sign, "/dev/null") for sign in (">", ">>", "1>", "2>", "2>>"))
_NEVER_HERE: Final = word_set("do done elif else esac fi in then }")
"""Reserved words that close a construct, so they cannot start a command."""
_COMPOUND: Final = word_set("! { [[ case for function if select until while")
_BASH_ONLY: Final = frozenset({"[[", "coproc", "function", "select"})
_CASE_ENDS: Final = (";;&", ";;", ";&")
FUNCTION: Final = "a function"
SHOWN: Final = 200
"""The maximum length of a part's text."""
_STATEMENTS: Final = {"select": "it waits for user input", "function": "it defines a function"}
"""Statements that need approval in addition to their parts."""
_WHOLE_QUOTE: Final = re.compile(r'"[^"]*"')
_WHOLE_VARIABLE: Final = re.compile(r"""("?)\$(\{)?([A-Za-z_][A-Za-z0-9_]*)(?(2)\})\1""")


def lex(text: str, *, bash: bool = True) -> LexedScript:
    """Parse a script. Raises `UnsupportedSyntax`."""
    lexer = _Lexer(text, LexedScript(), bash=bash)
    try:
        lexer.read_all()
    except RecursionError:
        raise UnsupportedSyntax("it is nested too deeply") from None
    return lexer.found


def _opaque(text: str, inside: str, reason: str) -> CommandPart:
    return CommandPart(kind="opaque", text=text[:SHOWN], inside=inside, obstacle=reason)


def _parse_word(word: Word | GlobWord, raw: str, shape: SplitWords | None) -> ParsedWord:
    if word is not None:
        return word
    if raw in ("$?", "$#", "$$", "$!"):
        return QuotedWord()
    if raw.strip('"') in ("$(pwd)", "`pwd`", "$(pwd -P)"):
        return VariableWord("PWD", is_quoted=raw.startswith('"'))
    if (found := _WHOLE_VARIABLE.fullmatch(raw)) is not None:
        return VariableWord(found[3], is_quoted=bool(found[1]))
    if _WHOLE_QUOTE.fullmatch(raw) is not None and "$@" not in raw and "[@]" not in raw:
        return QuotedWord()
    return ProcessSubstitution() if raw.startswith("<(") and raw.endswith(")") else shape


class _Lexer(WordReader):
    """Parses lists, compound commands, simple commands, assignments and redirections."""

    def read_all(self) -> None:
        self._list(frozenset())
        if self._heredocs:
            raise UnsupportedSyntax("a here-document has no text")

    def _list(self, closing: frozenset[str]) -> str:
        """Parse commands up to one of the closing words or operators, which is returned; up to the end if there are
        none."""
        operator, last, pipelines = "", 0, 0
        while True:
            self._skip_lines()
            if (end := self._closed(closing)) is not None:
                if operator in ("&&", "||", "|", "|&"):
                    raise UnsupportedSyntax("a command is missing")
                self._last = last if pipelines == 1 else 0
                return end
            pipelines += operator != "|"
            self._fed_by = last if operator == "|" else 0
            last = self._command()
            operator = self._separator(closing)

    def _closed(self, closing: frozenset[str]) -> str | None:
        if self.at >= len(self.text):
            if closing:
                raise UnsupportedSyntax("a construct is not closed")
            return ""
        if ")" in closing and self._ahead(")"):
            self.at += 1
            return ")"
        if ";;" in closing and (end := next(filter(self._ahead, _CASE_ENDS), None)) is not None:
            self.at += len(end)
            return ";;"
        found = _RESERVED.match(self.text, self.at)
        if found is not None and found[1] in closing:
            self.at = found.end()
            return found[1]
        return None

    def _separator(self, closing: frozenset[str]) -> str:
        """The operator after a command; empty at the end of a line or of the text."""
        self._skip_comment()
        if self.at >= len(self.text) or self._ahead("\n"):
            return ""
        if ")" in closing and self._ahead(")"):
            return ""
        if ";;" in closing and any(map(self._ahead, _CASE_ENDS)):
            return ""
        for operator in ("&&", "||", "|&", "|", "&", ";"):
            if self._ahead(operator):
                break
        else:
            raise UnsupportedSyntax("there is unexpected text after a command")
        if operator == "|&" and not self.bash:
            raise UnsupportedSyntax("shells treat `|&` differently")
        self.at += len(operator)
        if operator == "&":
            self.found.parts.append(_opaque("&", self._inside, "it runs a command in the background"))
        return operator

    def _command(self) -> int:
        """Parse a command. Returns its number, or 0 if it is not a simple command."""
        found = _RESERVED.match(self.text, self.at)
        word = found[1] if found is not None else ""
        if word in _NEVER_HERE or (word in _BASH_ONLY and not self.bash):
            raise UnsupportedSyntax(f"there is an unexpected '{word}' where a command starts")
        began, slot = self.at, len(self.found.parts)
        piped_from, self._fed_by = self._fed_by, 0
        if self._ahead("("):
            self._parenthesis()
        elif word in _COMPOUND:
            self.at += len(word)
            self._compound(word)
        else:
            return self._simple(piped_from)
        text = self.text[began : self.at]
        if word != "[[":
            self.found.parts.insert(slot, _opaque(text, self._inside, _STATEMENTS.get(word, "")))
        self._redirections()
        return 0

    def _compound(self, word: str) -> None:
        match word:
            case "!":
                self._skip_blanks()
                self._command()
            case "{":
                self._list(frozenset("}"))
            case "[[":
                self._test()
            case "case":
                self._case()
            case "function":
                self._function()
            case "if":
                self._if()
            case "while" | "until":
                self._list(frozenset({"do"}))
                self._list(frozenset({"done"}))
            case _:
                self._for()

    def _parenthesis(self) -> None:
        if not self._ahead("(("):
            self.at += 1
            self._within("(…)", lambda: self._list(frozenset(")")))
            return
        if not self.bash:
            raise UnsupportedSyntax("shells treat `((` differently")
        self.at += 2
        self._arithmetic("))")
        self.found.parts.append(_opaque("((…))", self._inside, "it evaluates arithmetic"))

    def _if(self) -> None:
        end = "elif"
        while end == "elif":
            self._list(frozenset({"then"}))
            end = self._list(frozenset({"elif", "else", "fi"}))
        if end == "else":
            self._list(frozenset({"fi"}))

    def _for(self) -> None:
        self._skip_blanks()
        if self._ahead("(("):
            self.at += 2
            self._arithmetic("))", parts=True)
        else:
            found = _NAME.match(self.text, self.at)
            if found is None or self.text[found.end() : found.end() + 1] not in (" ", "\t", "\n", ";"):
                raise UnsupportedSyntax("the loop variable is not a name")
            self.at = found.end()
            self._skip_lines()
            self._loop(found[0])
        self._skip_blanks()
        if self._ahead(";"):
            self.at += 1
        self._skip_lines()
        found = _RESERVED.match(self.text, self.at)
        if found is None or found[1] not in ("do", "{"):
            raise UnsupportedSyntax("a loop has no body")
        self.at = found.end()
        self._list(frozenset({"done" if found[1] == "do" else "}"}))

    def _loop(self, name: str) -> None:
        known = name not in self.found.numeric
        values: list[ParsedWord] = []
        self._assign(name, numeric=self._values(values), known=True)
        if known:
            self.found.loops[name] = tuple(values)
        self._assigned(f"{name}=", tuple(values))

    def _values(self, values: list[ParsedWord]) -> bool:
        """Parse the optional `in WORDS` of a loop. Returns whether all words are numbers."""
        found = _RESERVED.match(self.text, self.at)
        if found is None or found[1] != "in":
            self.found.has_unknown_values = True
            values.append(None)
            return False
        self.at = found.end()
        numeric = True
        while True:
            self._skip_blanks()
            if self.at >= len(self.text) or self.text[self.at] in "\n;#":
                return numeric
            began = self.at
            word = self._word()
            values.append(_parse_word(word, self.text[began : self.at], self._shape))
            number = self._numeric or (isinstance(word, str) and _NUMBER.fullmatch(word) is not None)
            self.found.has_unknown_values = self.found.has_unknown_values or not (number or isinstance(word, str))
            self.found.texts += [word] if isinstance(word, str) else []
            numeric = numeric and number

    def _case(self) -> None:
        self._skip_blanks()
        self._word()
        self._skip_lines()
        found = _RESERVED.match(self.text, self.at)
        if found is None or found[1] != "in":
            raise UnsupportedSyntax("a `case` has no `in`")
        self.at = found.end()
        end = ";;"
        while end == ";;":
            self._skip_lines()
            if self._closed(frozenset({"esac"})) is not None:
                return
            if self._ahead("("):
                self.at += 1
            self._patterns()
            end = self._list(frozenset({";;", "esac"}))

    def _patterns(self) -> None:
        while True:
            self._skip_blanks()
            self._word()
            self._skip_blanks()
            if self._ahead(")"):
                self.at += 1
                return
            if not self._ahead("|") or self._ahead("||"):
                raise UnsupportedSyntax("a `case` pattern is not closed")
            self.at += 1

    def _function(self) -> None:
        self._skip_blanks()
        self._word()
        self._skip_blanks()
        if self._ahead("("):
            self._skip_parameters()
        self._body()

    def _skip_parameters(self) -> None:
        self.at += 1
        self._skip_blanks()
        if not self._ahead(")"):
            raise UnsupportedSyntax("there is an unexpected parenthesis in a command")
        self.at += 1

    def _body(self) -> None:
        self._skip_lines()
        found = _RESERVED.match(self.text, self.at)
        if not self._ahead("(") and (found is None or found[1] not in _COMPOUND - {"!"}):
            raise UnsupportedSyntax("a function has no body")
        self._within(FUNCTION, self._command)

    def _test(self) -> None:
        """Parse `[[ … ]]`. The operands of `-eq` and the like are arithmetic, and `-v` evaluates subscripts."""
        began, slot = self.at - 2, len(self.found.parts)
        words: list[str] = []
        values: list[Word] = ["[["]
        while True:
            self._skip_lines()
            if (found := _TEST_END.match(self.text, self.at)) is not None:
                self.at = found.end()
                break
            operator = next((sign for sign in ("&&", "||", "(", ")", "<", ">") if self._ahead(sign)), "")
            if operator:
                self.at += len(operator)
            elif self._ahead("=~"):
                self.at += 2
                self._regex()
            else:
                before = self.at
                word = self._word()
                words.append(self.text[before : self.at])
                values.append(word if isinstance(word, str) else None)
        for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
            if word in COMPARISONS:
                self._calculate(before)
                self._calculate(after)
            elif word == "-v" and _NAME.fullmatch(after) is None:
                self._evaluate("a test evaluates a subscript")
        words_of_test = (*values, "]]")
        text = self.text[began : self.at][:SHOWN]
        parsed_words = tuple(QuotedWord() if value is None else value for value in words_of_test)
        self.found.parts.insert(
            slot,
            CommandPart(kind="command", text=text, words=words_of_test, parsed_words=parsed_words, inside=self._inside),
        )

    def _calculate(self, word: str) -> None:
        """Parse an arithmetic operand of a test."""
        quoted = len(word) > 1 and word[0] in "'\"" and word[-1] == word[0]
        self._inner((word[1:-1] if quoted else word) + "\x00", "a test")._arithmetic("\x00")

    def _regex(self) -> None:
        """Skip the right side of `=~`, up to the next unquoted blank."""
        self._skip_blanks()
        while self.at < len(self.text) and self.text[self.at] not in " \t\n":
            char = self.text[self.at]
            if char == "\\" and self._ahead("\\\n"):
                raise UnsupportedSyntax("a word continues on the next line")
            if char == "\\":
                self.at += 2
            elif char == "'":
                self._single()
            elif char == '"':
                self._double()
            elif char == "$" and self.text[self.at + 1 : self.at + 2] not in ("", " ", "|", ")", "]"):
                self._dollar(quoted=False)
            elif char in "`;&<>":
                raise UnsupportedSyntax("a regular expression contains an operator")
            else:
                self.at += 1

    def _simple(self, piped_from: int) -> int:
        words: list[Word | GlobWord] = []
        raw_words: list[str] = []
        parsed_words: list[ParsedWord] = []
        redirected = False
        began, slot = self.at, len(self.found.parts)
        ended, prefixes = self.at, list[int]()
        while True:
            self._skip_blanks()
            if self.at >= len(self.text) or self.text[self.at] in "\n;|)#":
                break
            if self._ahead("&") and not self._ahead("&>"):
                break
            if self._ahead("("):
                self._define(words, prefixed=bool(prefixes), slot=slot, began=began)
                return 0
            before = len(self.found.parts)
            if self._redirection():
                redirected = redirected or self.found.parts[before].words not in _TO_NOWHERE
            elif not words and self._assignment():
                prefixes.append(before)
            else:
                started = self.at
                words.append(self._word())
                raw_words.append(self.text[started : self.at])
                parsed_words.append(_parse_word(words[-1], raw_words[-1], self._shape))
            ended = self.at
        if ended == began:
            raise UnsupportedSyntax("a command is missing")
        if not words:
            return 0
        for at in prefixes:
            self.found.parts[at] = replace(self.found.parts[at], scoped=True)
        obstacle = ""
        if words[0] is None:
            obstacle = "the program is only known at run time"
        elif words[0] != raw_words[0]:
            obstacle = "the program's name is quoted or escaped"
        self.found.command_count += 1
        part = CommandPart(
            kind="command", text=self.text[began:ended][:SHOWN], inside=self._inside, obstacle=obstacle,
            words=tuple(None if isinstance(word, GlobWord) else word for word in words),
            parsed_words=tuple(parsed_words),
            raw_words=tuple(raw_words), number=self.found.command_count, piped_from=piped_from, redirected=redirected,
        )  # fmt: skip
        self.found.parts.insert(slot, part)
        return part.number

    def _define(self, words: list[Word | GlobWord], *, prefixed: bool, slot: int, began: int) -> None:
        if len(words) != 1 or not isinstance(words[0], str) or prefixed:
            raise UnsupportedSyntax("there is an unexpected parenthesis in a command")
        self._skip_parameters()
        self._body()
        text = self.text[began : self.at]
        self.found.parts.insert(slot, _opaque(text, self._inside, _STATEMENTS["function"]))

    def _assignment(self) -> bool:
        found = _ASSIGNED.match(self.text, self.at)
        if found is None:
            return False
        began, slot = self.at, len(self.found.parts)
        name, sign = found[1], found[2]
        if not self.bash and sign != "=":
            raise UnsupportedSyntax("shells treat this assignment differently")
        self.at = found.end()
        if sign == "[":
            self._arithmetic("]")
            sign = next(filter(self._ahead, ("=", "+=")), "")
            if not sign:
                raise UnsupportedSyntax("there is an unexpected bracket in a name")
            self.at += len(sign)
        items: list[ParsedWord] = []
        if self._ahead("("):
            self._array(name, items)
        else:
            self._value(name, self.text[began : self.at].rstrip("+="))
        text = self.text[began : self.at][:SHOWN]
        part = CommandPart(
            kind="assignment", text=text, words=(name, None), parsed_words=tuple(items), inside=self._inside
        )
        self.found.parts.insert(slot, part)
        return True

    def _value(self, name: str, target: str) -> None:
        if self.at >= len(self.text) or self.text[self.at] in " \t\n;&|)<>":
            word, numeric = "", True
        else:
            word = self._word()
            numeric = self._numeric or (isinstance(word, str) and _NUMBER.fullmatch(word) is not None)
        plain = isinstance(word, str) and PATTERN_SIGNS.search(word) is None
        self._assign(name, numeric=numeric, known=isinstance(word, str), plain=plain)
        self.found.assignments.append((target, word.text if isinstance(word, GlobWord) else word))

    def _array(self, name: str, items: list[ParsedWord]) -> None:
        if not self.bash:
            raise UnsupportedSyntax("shells treat arrays differently")
        self.at += 1
        while True:
            self._skip_lines()
            if self._ahead(")"):
                self.at += 1
                break
            if self._ahead("["):
                self.at += 1
                self._arithmetic("]")
                if not self._ahead("="):
                    raise UnsupportedSyntax("there is an unexpected bracket in an array")
                self.at += 1
                if self.at < len(self.text) and self.text[self.at] in " \t\n)":
                    continue
            began = self.at
            word = self._word()
            items.append(_parse_word(word, self.text[began : self.at], self._shape))
            number = isinstance(word, str) and _NUMBER.fullmatch(word) is not None
            self._assign(name, numeric=number, known=isinstance(word, str))
            self.found.assignments.append((name, word.text if isinstance(word, GlobWord) else word))

    def _redirections(self) -> None:
        """Parse the redirections after a compound command."""
        self._skip_blanks()
        while self._redirection():
            self._skip_blanks()

    def _redirection(self) -> bool:
        found = _REDIRECTION.match(self.text, self.at)
        if found is None:
            return False
        operator = found[2] or found[4]
        if operator in ("<", ">") and self.text[found.end() : found.end() + 1] == "(":
            if found[1]:
                raise UnsupportedSyntax("a number precedes a process substitution")
            return False
        if operator in ("<<<", "&>", "&>>") and not self.bash:
            raise UnsupportedSyntax(f"shells treat `{operator}` differently")
        if len(found[1] or "") > (_MAX_DIGITS if self.bash else 1):
            raise UnsupportedSyntax("shells treat a file descriptor with several digits differently")
        slot = len(self.found.parts)
        self.at = found.end()
        self._skip_blanks()
        if operator in ("<<", "<<-"):
            self._heredoc(tabs=operator == "<<-")
            self._given(slot, operator)
            return True
        word = self._word()
        target = None if isinstance(word, GlobWord) else word
        if operator == "<<<":
            self.found.inputs.append("$_" if target is None else target)
            self._given(slot, operator)
            return True
        if operator == ">&" and not self.bash and not _DESCRIPTOR.fullmatch(target or ""):
            raise UnsupportedSyntax("shells treat `>&` with a file differently")
        text = self.text[found.start() : self.at][:SHOWN]
        words = ((found[1] or "") + operator, target)
        self.found.parts.insert(slot, CommandPart(kind="redirection", text=text, words=words, inside=self._inside))
        return True

    def _given(self, slot: int, operator: str) -> None:
        part = CommandPart(kind="redirection", text=operator, words=(operator,), inside=self._inside)
        self.found.parts.insert(slot, part)

    def _heredoc(self, *, tabs: bool) -> None:
        before = self.at
        end = self._word()
        raw = self.text[before : self.at]
        if not isinstance(end, str) or "$" in raw or "\n" in end:
            raise UnsupportedSyntax("the delimiter of a here-document is only known at run time")
        self._heredocs.append((end, raw != end, tabs))

    def _skip_heredocs(self) -> None:
        """Parse the bodies of pending here-documents, which start after the current line."""
        waiting, self._heredocs = self._heredocs, []
        for end, quoted, tabs in waiting:
            lines = list[str]()
            while True:
                if self.at >= len(self.text):
                    raise UnsupportedSyntax("a here-document has no end")
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line = self.text[self.at : stop]
                self.at = min(stop + 1, len(self.text))
                line = line.lstrip("\t") if tabs else line
                if line == end:
                    break
                lines.append(line)
            self.found.inputs.append("\n".join(lines))
            if not quoted:
                self._expand("\n".join(lines))

    def _expand(self, body: str) -> None:
        """Parse the substitutions in the body of an unquoted here-document."""
        if "\\\n" in body or body.endswith("\\"):
            raise UnsupportedSyntax("lines of a here-document are joined")
        inner = self._inner(body, "a here-document")
        while inner.at < len(body):
            char = body[inner.at]
            if char == "\\":
                inner.at += 2
            elif char == "$":
                inner._dollar(quoted=True, document=True)
            elif char == "`":
                inner._backtick(quoted=False)
            else:
                inner.at += 1

    def _inner(self, text: str, label: str) -> _Lexer:
        return _Lexer(text, self.found, bash=self.bash, inside=self._inside or label)

    def _skip_lines(self) -> None:
        while True:
            self._skip_comment()
            if not self._ahead("\n"):
                return
            self.at += 1
            if self._heredocs:
                self._skip_heredocs()
