"""Scripts of sed and awk: which of them only turn lines into other lines."""

from __future__ import annotations

import re
from typing import Final

_ADDRESS: Final = re.compile(r"[0-9]+(~[0-9]+)?|\$|[+~][0-9]+")
_SIMPLE: Final = re.compile(r"[=dDgGhHxnNpPzF]|[lqQ][ \t]*[0-9]*")
_LABEL: Final = re.compile(r"[btT][ \t]*[A-Za-z0-9_]*|:[ \t]*[A-Za-z0-9_]+")
_FLAGS: Final = re.compile(r"[gpiImM0-9]*")
_END: Final = re.compile(r"[ \t]*(?:[;\n]|(?=[}#])|$)")
_BRACKETS: Final = r"\[\^?(?:\[:[a-z]+:\]|\\[nt]|[^]\[\\\n])+\]"
"""A set of characters that every sed reads alike; a delimiter in it ends nothing."""
_AWK_ACTS: Final = re.compile(r"system|getline|close|fflush|ARG[VC]|ENVIRON|PROCINFO|FUNCTAB|SYMTAB|extension|@|\\\n")
"""Words and signs by which awk runs programs, reads other files and reaches its surroundings."""
_AWK_COMPARES: Final = re.compile(r"\b(?:if|while)[ ]*\([^()\"/{};#\n\r\\]*\)")
"""What is compared, in one line and without anything that ends a text, an expression or a comment: if it begins in one
of them, all of it is in there."""


def check_sed(script: str) -> str:
    """Why a sed script may do more than edit what it reads; empty if it does not."""
    return "" if _Sed(script).only_edits() else "its script is not known to be harmless"


class _Sed:
    """Reads a script from left to right; every way out but the end of the script means no."""

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
        """Read what stands between delimiters: an expression first, if there is one."""
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
    """Why an awk program may do more than print what it reads; empty if it does not.

    Nothing is skipped, neither texts nor expressions: what looks like one of them may be the end of the other.
    """
    if _AWK_ACTS.search(program) or "|" in program.replace("||", ""):
        return "its program may do more than print"
    _, _, actions = _AWK_COMPARES.sub(" ", program).partition("{")
    return "its program may write to a file" if ">" in actions.replace(">=", "") else ""
