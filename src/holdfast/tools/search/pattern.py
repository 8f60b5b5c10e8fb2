"""Regular expressions that ripgrep and Python read alike: what could differ is refused, the rest is spelled out.

A pattern matches bytes within one line; letters, digits, spaces and case are ASCII's. Which part of a line matches does
not matter here, only whether one does: laziness and groups make no difference.
"""

from __future__ import annotations

from typing import Final, NoReturn

from msgspec import Struct

from holdfast.tools.search.globs import bytes_class

_NEVER: Final = frozenset(b"\n\0")
"""Lines end at a newline, and files with a NUL are not searched."""
_ALL: Final = frozenset(range(256)) - _NEVER
_DIGIT: Final = frozenset(b"0123456789")
_LOWER: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz")
_UPPER: Final = frozenset(byte - 32 for byte in _LOWER)
_WORD: Final = _DIGIT | _LOWER | _UPPER | {0x5F}
_SPACE: Final = frozenset(b" \t\r\f\v")
_SETS: Final = {"d": _DIGIT, "D": _ALL - _DIGIT, "w": _WORD, "W": _ALL - _WORD, "s": _SPACE, "S": _ALL - _SPACE}
_CONTROLS: Final = {"t": 0x09, "r": 0x0D, "f": 0x0C, "v": 0x0B, "a": 0x07}
_POSIX: Final = {
    "alnum": _DIGIT | _LOWER | _UPPER,
    "alpha": _LOWER | _UPPER,
    "blank": frozenset(b" \t"),
    "digit": _DIGIT,
    "lower": _LOWER,
    "punct": frozenset(range(33, 127)) - _DIGIT - _LOWER - _UPPER,
    "space": _SPACE,
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGIT | frozenset(b"abcdefABCDEF"),
}
_MOST_REPEATS: Final = 1000
_MOST_PARTS: Final = 10_000
_DEEPEST: Final = 50


class BadPattern(ValueError):
    """The pattern cannot be used; the message is a sentence with the next step."""


class Pattern(Struct, frozen=True):
    """What to look for: the text itself, or a regular expression that both engines read alike."""

    text: bytes
    regex: bool = False
    fold: bool = False
    """Literals only: upper and lower case ASCII letters are the same. A regex has it spelled out."""


def literal(query: str, *, fold: bool = False) -> Pattern:
    _check(query)
    return Pattern(query.encode(), fold=fold)


def regular(query: str, *, fold: bool = False) -> Pattern:
    """Raises `BadPattern`. A pattern without special characters is a literal."""
    _check(query)
    reader = _Reader(query, fold)
    text, _ = reader.alternatives(0)
    if reader.at < len(query):
        reader.wrong("a ')' that closes nothing", reader.at)
    if reader.is_plain and not reader.plain:
        raise BadPattern("The query is empty; say what to look for.")
    return Pattern(reader.plain, fold=reader.fold) if reader.is_plain else Pattern(text, regex=True)


def _check(query: str) -> None:
    if not query:
        raise BadPattern("The query is empty; say what to look for.")
    if "\n" in query or "\0" in query:
        raise BadPattern("The query spans lines or contains NUL; search looks at one line at a time, so give one line.")
    if len(query) > 4000:
        raise BadPattern(f"The query is {len(query):,} characters long; at most 4,000 are accepted.")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise BadPattern("The query contains broken Unicode; send the text as it is in the file.") from None


class _Reader:
    """Reads a pattern once, from left to right, and writes the common spelling."""

    def __init__(self, pattern: str, fold: bool) -> None:
        self.pattern = pattern
        self.at = 0
        self.plain = b""
        self.is_plain = True
        self.fold = fold
        if pattern.startswith("(?i)"):
            self.fold = True
            self.at = 4

    def wrong(self, what: str, at: int) -> NoReturn:
        """What no engine could read, and where it is."""
        raise BadPattern(
            f"The pattern has {what} at character {at + 1}; mend it, escape the character with a backslash, "
            "or search for plain text without `regex`."
        )

    def refuse(self, what: str) -> NoReturn:
        """What engines read differently; it is where the reader stands."""
        raise BadPattern(
            f"The pattern contains {what} at character {self.at + 1}, which is not supported here; "
            "escape it with a backslash, write it another way, or search for plain text without `regex`."
        )

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        char = self.peek()
        self.at += 1
        return char

    def alternatives(self, depth: int) -> tuple[bytes, int]:
        """The spelling, and how many parts it has once repeats are written out."""
        if depth > _DEEPEST:
            self.refuse("groups nested too deeply")
        branches: list[bytes] = []
        size = 0
        while True:
            text, more = self.sequence(depth)
            branches.append(text)
            size += more
            if self.peek() != "|":
                break
            self.at += 1
            self.is_plain = False
        return b"|".join(branches), size

    def sequence(self, depth: int) -> tuple[bytes, int]:
        out: list[bytes] = []
        total = 0
        while self.at < len(self.pattern) and self.peek() not in "|)":
            text, size, repeatable = self.part(depth)
            low, high = self.repeat(repeatable)
            if (low, high) != (1, 1):
                self.is_plain = False
                text = b"(?:" + text + b")" + _times(low, high)
            total += size * max(1, high or low + 1)
            if total > _MOST_PARTS:
                self.refuse("repeats that multiply to too much")
            out.append(text)
        return b"".join(out), total

    def part(self, depth: int) -> tuple[bytes, int, bool]:
        start = self.at
        char = self.take()
        if char == "(":
            self.is_plain = False
            return self.group(depth, start)
        if char in "^$":
            self.is_plain = False
            return char.encode(), 1, False
        if char in "*+?{":
            self.wrong(f"a '{char}' with nothing to repeat", start)
        if char == ".":
            return self.one_of(_ALL)
        if char == "[":
            return self.one_of(self.choice(start))
        if char == "\\":
            return self.escaped()
        return self.character(char)

    def group(self, depth: int, start: int) -> tuple[bytes, int, bool]:
        if self.peek() == "?":
            rest = self.pattern[self.at :]
            if rest.startswith("?:"):
                self.at += 2
            elif rest.startswith(("?P<", "?<")) and not rest.startswith(("?<=", "?<!")):
                end = rest.find(">")
                if not rest[rest.find("<") + 1 : end].isidentifier():
                    self.wrong("a group without a proper name", start)
                self.at += end + 1
            else:
                self.refuse("a look-around, a flag or another kind of special group")
        text, size = self.alternatives(depth + 1)
        if self.take() != ")":
            self.wrong("a '(' that is never closed", start)
        return b"(?:" + text + b")", size + 1, True

    def repeat(self, repeatable: bool) -> tuple[int, int | None]:
        char = self.peek()
        if not char or char not in "*+?{":
            return 1, 1
        if not repeatable:
            self.refuse(f"a '{char}' after something that has no length")
        bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(char) or self.counted()
        self.at += char != "{"
        self.at += self.peek() == "?"
        if self.peek() and self.peek() in "*+?{":
            self.refuse("a repeat of a repeat")
        return bounds

    def counted(self) -> tuple[int, int | None]:
        end = self.pattern.find("}", self.at)
        low, comma, high = self.pattern[self.at + 1 : max(end, 0)].partition(",")
        good = end > 0 and low.isdecimal() and low.isascii() and (not high or (high.isdecimal() and high.isascii()))
        if not good or max(len(low), len(high)) > 4:
            self.refuse("a '{' that is not a repeat such as {2} or {2,5}")
        least, most = int(low), int(high) if high else None if comma else int(low)
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            self.refuse(f"a repeat that is backwards or above {_MOST_REPEATS}")
        self.at = end + 1
        return least, most

    def escaped(self) -> tuple[bytes, int, bool]:
        char = self.take()
        if char == "b":
            self.is_plain = False
            return rb"\b", 1, False
        if char in _SETS and char:
            return self.one_of(_SETS[char])
        byte = self.escaped_byte(char)
        return self.character(chr(byte))

    def escaped_byte(self, char: str) -> int:
        if not char:
            self.wrong("a backslash with nothing to escape", len(self.pattern) - 1)
        start = self.at - 2
        value = _CONTROLS.get(char, -1)
        if char == "x":
            digits = self.pattern[self.at : self.at + 2]
            if len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
                value = int(digits, 16)
                self.at += 2
        elif char.isascii() and char.isprintable() and not char.isalnum() and char not in "<>":
            value = ord(char)
        if not 0 <= value < 0x80 or value in _NEVER:
            self.at = start
            self.refuse(f"the escape \\{char}")
        return value

    def character(self, char: str) -> tuple[bytes, int, bool]:
        encoded = char.encode()
        self.plain += encoded
        if len(encoded) > 1:
            return b"(?:" + b"".join(b"\\x%02x" % byte for byte in encoded) + b")", len(encoded), True
        if self.fold and char.isalpha():
            return b"[" + char.lower().encode() + char.upper().encode() + b"]", 1, True
        return (encoded if char.isalnum() else b"\\x%02x" % encoded[0]), 1, True

    def one_of(self, members: frozenset[int]) -> tuple[bytes, int, bool]:
        self.is_plain = False
        if self.fold:
            members |= {byte ^ 0x20 for byte in members & (_LOWER | _UPPER)}
        if not members:
            self.refuse("a class that matches nothing")
        return bytes_class(members), 1, True

    def choice(self, start: int) -> frozenset[int]:
        negated = self.peek() == "^"
        self.at += negated
        members: set[int] = set()
        first = True
        while first or self.peek() != "]":
            place = self.at
            found = self.member(start)
            if isinstance(found, frozenset):
                members |= found
            elif self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] != "]":
                self.at += 1
                last = self.member(start)
                if isinstance(last, frozenset) or last < found:
                    self.wrong("a range that is backwards or has no end", place)
                members.update(range(found, last + 1))
            else:
                members.add(found)
            first = False
        self.at += 1
        if negated and self.fold:
            members |= {byte ^ 0x20 for byte in members & (_LOWER | _UPPER)}
        return _ALL - members if negated else frozenset(members) - _NEVER

    def member(self, start: int) -> int | frozenset[int]:
        """One character of a class, or a set of them. What Rust's set notation would read otherwise is refused."""
        char = self.take()
        if not char:
            self.wrong("a '[' that is never closed", start)
        if char == "[":
            end = self.pattern.find(":]", self.at)
            name = self.pattern[self.at + 1 : end]
            if self.peek() == ":" and end > 0 and name in _POSIX:
                self.at = end + 2
                return _POSIX[name]
            self.at -= 1
            self.refuse("an unescaped '[' in a class")
        if char == "\\":
            char = self.take()
            return _SETS[char] if char and char in _SETS else self.escaped_byte(char)
        if char == "]" or not char.isascii() or (char in "&-~" and self.peek() == char):
            self.at -= 1
            self.refuse(f"'{char}' in a class")
        return ord(char)


def _times(low: int, high: int | None) -> bytes:
    if high is None:
        return b"*" if low == 0 else b"+" if low == 1 else b"{%d,}" % low
    return b"{%d}" % low if low == high else b"{%d,%d}" % (low, high)
