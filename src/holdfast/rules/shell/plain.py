"""A second, much smaller reading of commands: only what is so plain that everyone reads it the same way.

Nothing is approved unless this reading and the syntax tree agree word by word. It knows bare words, simple quotes,
the separators newline `;` `&&` `||` `|`, comments, and redirections; anything else ends it.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

_SPACE: Final = " \t"
_SAFE: Final = frozenset("_./,:=@%+-^")
_ESCAPABLE: Final = frozenset("();!<>|&*?[]{}$\"'#~` ")
_REDIRECTION: Final = re.compile(r"([0-9]*)(>>|>\||>&|<&|&>>|&>|<|>)")
_RESERVED: Final = frozenset(
    {
        *("!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function"),
        *("if", "in", "select", "then", "until", "while"),
    }
)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*|:", re.ASCII)


class Plain(Struct, frozen=True):
    """The commands of a text in order, and its redirections in order."""

    commands: tuple[tuple[str, ...], ...]
    redirections: tuple[tuple[str, str], ...]


class _NotPlain(Exception):
    pass


def is_plain_name(word: str) -> bool:
    """Whether a word in command position can only be the bare name of a program."""
    return _NAME.fullmatch(word) is not None and word not in _RESERVED


def read_plain(text: str) -> Plain | None:
    """None unless the whole text is plain."""
    try:
        return _Lexer(text).read()
    except _NotPlain:
        return None


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.commands: list[tuple[str, ...]] = []
        self.redirections: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.bare = False
        """Whether the first word is written without quotes and escapes."""
        self.needs_more = False
        """After `&&`, `||` and `|` a command must follow."""

    def read(self) -> Plain:
        while self.at < len(self.text):
            self._step()
        self._end_command(needs_more=False)
        if self.needs_more:
            raise _NotPlain
        return Plain(tuple(self.commands), tuple(self.redirections))

    def _step(self) -> None:
        rest = self.text[self.at :]
        char = rest[0]
        if char in _SPACE:
            self.at += 1
        elif char == "#":
            self.at = self.text.find("\n", self.at) if "\n" in rest else len(self.text)
        elif rest.startswith(("&&", "||")):
            self._end_command(needs_more=True, width=2)
        elif char == "|" and not rest.startswith("|&"):
            self._end_command(needs_more=True, width=1)
        elif char in ";\n":
            self._separate(char)
        elif (found := _REDIRECTION.match(rest)) is not None:
            self.at += found.end()
            self._redirect(found[1] + found[2])
        else:
            self.words.append(self._word())

    def _separate(self, char: str) -> None:
        if char == ";" and not self.words:
            raise _NotPlain
        if self.words or not self.needs_more:
            self._end_command(needs_more=False, width=1)
        else:
            self.at += 1

    def _end_command(self, *, needs_more: bool, width: int = 0) -> None:
        self.at += width
        if self.words:
            if not is_plain_name(self.words[0]) or not self.bare:
                raise _NotPlain
            self.commands.append(tuple(self.words))
            self.needs_more = False
        elif needs_more:
            raise _NotPlain
        self.needs_more = self.needs_more or needs_more
        self.words = []

    def _redirect(self, operator: str) -> None:
        if not self.words:
            raise _NotPlain
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.text[self.at : self.at + 1] in ("", "(", "#", "\n"):
            raise _NotPlain
        self.redirections.append((operator, self._word()))

    def _word(self) -> str:
        began, pieces = self.at, list[str]()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in "'\"":
                pieces.append(self._quoted(char))
            elif char == "\\":
                pieces.append(self._escaped())
            elif char in _SAFE or char.isalnum() or (char == "~" and self.text[began : self.at][-1:].isalnum()):
                pieces.append(char)
                self.at += 1
            elif char in " \t\n;|&<>":
                break
            else:
                raise _NotPlain
        if self.at == began:
            raise _NotPlain
        if not self.words:
            self.bare = self.text[began : self.at] == "".join(pieces)
        return "".join(pieces)

    def _quoted(self, quote: str) -> str:
        end = self.text.find(quote, self.at + 1)
        inner = self.text[self.at + 1 : end]
        if end < 0 or not inner.isprintable() or (quote == '"' and any(char in "$`\\!" for char in inner)):
            raise _NotPlain
        self.at = end + 1
        return inner

    def _escaped(self) -> str:
        char = self.text[self.at + 1 : self.at + 2]
        if char not in _ESCAPABLE or not char:
            raise _NotPlain
        self.at += 2
        return char
