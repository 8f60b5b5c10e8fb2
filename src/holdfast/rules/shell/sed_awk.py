"""Checks sed scripts and awk programs: only those that transform text are harmless."""

from __future__ import annotations

import re
from typing import Final

_ADDRESS: Final = re.compile(r"[0-9]+(~[0-9]+)?|\$|[+~][0-9]+")
_SIMPLE: Final = re.compile(r"[=dDgGhHxnNpPzF]|[lqQ][ \t]*[0-9]*")
_LABEL: Final = re.compile(r"[btT][ \t]*[A-Za-z0-9_]*|:[ \t]*[A-Za-z0-9_]+")
_FLAGS: Final = re.compile(r"[gpiImM0-9]*")
_END: Final = re.compile(r"[ \t]*(?:[;\n]|(?=[}#])|$)")
_BRACKETS: Final = r"\[\^?(?:\[:[a-z]+:\]|\\[nt]|[^]\[\\\n])+\]"
"""A bracket expression that every sed parses alike; a delimiter inside it does not end the expression."""
_AWK_ACTS: Final = re.compile(r"system|getline|close|fflush|ARG[VC]|ENVIRON|PROCINFO|FUNCTAB|SYMTAB|extension|@|\\\n")
"""Words and characters with which awk runs programs, reads other files or accesses its environment."""
_AWK_COMPARES: Final = re.compile(r"\b(?:if|while)[ ]*\([^()\"/{};#\n\r\\]*\)")
"""A condition on one line without any character that ends a string, a regular expression or a comment: if it starts
inside one of those, all of it is inside."""


def check_sed(script: str) -> str:
    """Why a sed script may do more than edit its input; empty if it does not."""
    return "" if _Sed(script).only_edits() else "its script is not known to be harmless"


class _Sed:
    """Parses a sed script from left to right; anything unknown makes it unsafe."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.at = 0

    def only_edits(self) -> bool:
        while True:
            self._take(re.compile(r"[ \t\n;}]*"))
            if self.at >= len(self.script):
                return True
            if self.script[self.at] == "#":
                self._take(re.compile(r"[^\n]*"))
            elif not (self._address() and self._command()):
                return False

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.script, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found[0]

    def _address(self) -> bool:
        for _ in range(2):
            if self.script[self.at : self.at + 1] in ("/", "\\"):
                self.at += self.script[self.at] == "\\"
                if not self._delimited(1):
                    return False
                self._take(re.compile(r"[IM]*"))
            else:
                self._take(_ADDRESS)
            self._take(re.compile(r"[ \t]*"))
            if self.script[self.at : self.at + 1] != ",":
                break
            self.at += 1
            self._take(re.compile(r"[ \t]*"))
        return self._take(re.compile(r"[ \t]*(?:![ \t!]*)?")) is not None

    def _command(self) -> bool:
        match self.script[self.at : self.at + 1]:
            case "{":
                self.at += 1
                return True
            case "s":
                self.at += 1
                return self._delimited(2) and self._take(_FLAGS) is not None and self._ended()
            case "y":
                self.at += 1
                return self._delimited(2, regex=False) and self._ended()
            case "a" | "c" | "i":
                self._take(re.compile(r"(?:[^\\\n]|\\.)*", re.DOTALL))
                return True
            case _:
                return (self._take(_SIMPLE) or self._take(_LABEL)) is not None and self._ended()

    def _ended(self) -> bool:
        return self._take(_END) is not None

    def _delimited(self, count: int, *, regex: bool = True) -> bool:
        """Parse `count` delimited fields; the first is a regular expression if `regex`."""
        delimiter = self.script[self.at : self.at + 1]
        if not delimiter or delimiter in "\\\n" or delimiter.isalnum():
            return False
        self.at += 1
        end = re.escape(delimiter)
        text = rf"(?:[^\\\n{end}]|\\.)*{end}"
        expression = rf"(?:{_BRACKETS}|[^\\\n\[{end}]|\\.)*{end}"
        parts = [expression if regex else text, text][:count]
        return all(self._take(re.compile(part, re.DOTALL)) is not None for part in parts)


def check_awk(program: str) -> str:
    """Why an awk program may do more than print its input; empty if it does not.

    Strings and regular expressions are searched too: telling them apart needs a full parser, as the end of one can look
    like the start of another.
    """
    if _AWK_ACTS.search(program) or "|" in program.replace("||", ""):
        return "its program may do more than print"
    _, _, actions = _AWK_COMPARES.sub(" ", program).partition("{")
    return "its program may write to a file" if ">" in actions.replace(">=", "") else ""
