"""Globs as ripgrep reads them (`*`, `?`, `**`, classes, `{a,b}`, escapes), on bytes, in time linear in the path.

Stands alone: the scanning processes import it without the rest of holdfast.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

SEPARATOR: Final = 0x2F
_NO_SEPARATOR: Final = frozenset(range(256)) - {SEPARATOR}
_ANYTHING: Final = frozenset(range(256))
_EASY: Final = 2
"""Parts of varying length a backtracking match may have; beyond that its time could explode."""
MAX_DEPTH: Final = 20
"""Of braces in braces."""


class BadGlob(ValueError):
    """The glob is malformed; the message says how."""


class Alternates(list["list[Token]"]):
    """`{a,b}`: one list of tokens for each branch."""


Token = frozenset[int] | str | Alternates
"""One byte out of a set, `{…}`, or a part of varying length.

star `*` · prefix `**/` in front · suffix `/**` at the end · middle `/**/`
"""
STAR, _PREFIX, _SUFFIX, _MIDDLE = "star", "prefix", "suffix", "middle"
_REGEX: Final = {STAR: b"[^/]*", _PREFIX: b"(?:/?|.*/)", _SUFFIX: b"/.*", _MIDDLE: b"(?:/|/.*/)"}


def parse(glob: str, *, strict: bool = False) -> list[Token]:
    """A '[' that is never closed stands for itself, as in ignore files, or is refused if `strict`."""
    parser = _Parser(glob)
    tokens = parser.tokens()
    if strict and parser.class_left_open:
        raise BadGlob("a '[' is never closed")
    return tokens


class _Parser:
    def __init__(self, glob: str) -> None:
        self.text = glob
        self.at = 0
        self.branches: list[list[Token]] = [[]]
        self.groups: list[int] = []
        self.class_left_open = False

    def tokens(self) -> list[Token]:
        while self.at < len(self.text):
            self.step()
        if self.groups:
            raise BadGlob("a '{' is never closed")
        return self.branches[0]

    def step(self) -> None:
        char = self.text[self.at]
        self.at += 1
        if char == "?":
            self.put(_NO_SEPARATOR)
        elif char == "*":
            self.star()
        elif char == "[" and not self.class_left_open:
            self.choice()
        elif char == "{":
            if len(self.groups) == MAX_DEPTH:
                raise BadGlob(f"its braces are nested more than {MAX_DEPTH} deep")
            self.groups.append(len(self.branches))
            self.branches.append([])
        elif char == "}":
            self.close()
        elif char == "," and self.groups:
            self.branches.append([])
        elif char == "\\":
            if self.at == len(self.text):
                raise BadGlob("it ends in a backslash")
            self.literal(self.text[self.at])
            self.at += 1
        else:
            self.literal(char)

    def put(self, token: Token) -> None:
        self.branches[-1].append(token)

    def literal(self, char: str) -> None:
        for byte in char.encode("utf-8", "surrogateescape"):
            self.put(frozenset((byte,)))

    def close(self) -> None:
        if not self.groups:
            raise BadGlob("a '}' closes nothing")
        start = self.groups.pop()
        made = Alternates(self.branches[start:])
        del self.branches[start:]
        self.put(made)

    def star(self) -> None:
        before = self.text[self.at - 2] if self.at >= 2 else None
        if self.peek() != "*":
            self.put(STAR)
            return
        self.at += 1
        after = self.peek()
        if not self.branches[-1]:
            if after not in (None, "/"):
                self.two_stars()
            else:
                self.put(_PREFIX)
                self.at += 1
            return
        in_group = bool(self.groups)
        if before != "/" and not (in_group and before in (",", "{")):
            self.two_stars()
        elif after is None or (in_group and after in (",", "}")):
            self.recursive(_SUFFIX)
        elif after == "/":
            self.at += 1
            self.recursive(_MIDDLE)
        else:
            self.two_stars()

    def two_stars(self) -> None:
        self.put(STAR)
        self.put(STAR)

    def recursive(self, token: str) -> None:
        last = self.branches[-1].pop()
        self.put(last if last in (_PREFIX, _SUFFIX) else token)

    def peek(self) -> str | None:
        return self.text[self.at] if self.at < len(self.text) else None

    def choice(self) -> None:
        """A class; without its `]` the `[` stands for itself, and so does every later one."""
        start = self.at
        negated = self.peek() in ("!", "^")
        self.at += negated
        ranges: list[tuple[str, str]] = []
        opened = False
        first = True
        while True:
            char = self.peek()
            self.at += 1
            if char is None:
                self.at = start
                self.class_left_open = True
                self.literal("[")
                return
            if char == "]" and not first:
                break
            if char == "-" and not first and not opened:
                opened = True
            elif opened:
                low = ranges.pop()[0]
                if char < low:
                    raise BadGlob(f"the range {low}-{char} is backwards")
                ranges.append((low, char))
                opened = False
            else:
                ranges.append((char, char))
            first = False
        if opened:
            ranges.append(("-", "-"))
        found = frozenset(byte for low, high in ranges for byte in _bytes_between(low, high))
        self.put(_ANYTHING - found if negated else found)


def _bytes_between(low: str, high: str) -> list[int]:
    first, last = low.encode("utf-8", "surrogateescape"), high.encode("utf-8", "surrogateescape")
    if low == high:
        return list(first)
    return [*first[:-1], *range(first[-1], last[0] + 1), *last[1:]]


def compile_tokens(tokens: list[Token]) -> Callable[[bytes], bool]:
    """A function that says whether a whole path matches."""
    if varying(tokens) > _EASY:
        return Automaton(tokens).matches
    pattern = re.compile(b"(?s:" + regex_of(tokens) + b")")
    return lambda path: pattern.fullmatch(path) is not None


def varying(tokens: list[Token]) -> int:
    """How many parts have no fixed length."""
    return sum(
        max(map(varying, token), default=0) + 1 if isinstance(token, Alternates) else isinstance(token, str)
        for token in tokens
    )


def regex_of(tokens: list[Token]) -> bytes:
    """Of a whole glob: `**/` alone matches everything, which as one of several choices it does not."""
    return b".*" if tokens == [_PREFIX] else _regex_of(tokens)


def _regex_of(tokens: list[Token]) -> bytes:
    return b"".join(map(_token_regex, tokens))


def _token_regex(token: Token) -> bytes:
    if isinstance(token, str):
        return _REGEX[token]
    if isinstance(token, Alternates):
        branches = [regex for regex in map(_regex_of, token) if regex]
        return b"(?:" + b"|".join(branches) + b")" if branches else b""
    if len(token) == 1:
        return re.escape(bytes(token))
    return bytes_class(token)


def bytes_class(members: frozenset[int]) -> bytes:
    """A character class for exactly these bytes, in a spelling Python and Rust read alike."""
    if not members:
        return b"[^\\x00-\\xff]"
    out: list[str] = []
    start = None
    for byte in range(257):
        if byte in members:
            start = byte if start is None else start
        elif start is not None:
            out.append(f"\\x{start:02x}" if start == byte - 1 else f"\\x{start:02x}-\\x{byte - 1:02x}")
            start = None
    return f"[{''.join(out)}]".encode()


class Automaton:
    """A matcher without backtracking: states are found as they are needed, and forgotten when there are too many."""

    _MOST = 4096

    def __init__(self, tokens: list[Token]) -> None:
        self._steps: list[list[tuple[frozenset[int], int]]] = [[]]
        self._free: list[list[int]] = [[]]
        end = self._add(tokens, 0)
        self._end = end
        self._known: dict[frozenset[int], dict[int, frozenset[int]]] = {}
        self._start = self._closed({0})

    def matches(self, path: bytes) -> bool:
        here = self._start
        for byte in path:
            row = self._known.get(here)
            if row is None:
                if len(self._known) >= self._MOST:
                    self._known.clear()
                row = self._known[here] = {}
            following = row.get(byte)
            if following is None:
                reached = {to for state in here for members, to in self._steps[state] if byte in members}
                following = row[byte] = self._closed(reached)
            here = following
        return self._end in here

    def _state(self) -> int:
        self._steps.append([])
        self._free.append([])
        return len(self._steps) - 1

    def _add(self, tokens: list[Token], at: int) -> int:
        for token in tokens:
            at = self._add_one(token, at)
        return at

    def _add_one(self, token: Token, at: int) -> int:
        if isinstance(token, Alternates):
            end = self._state()
            ends = [self._add(branch, at) for branch in token if branch]
            for last in ends or [at]:
                self._free[last].append(end)
            return end
        if isinstance(token, frozenset):
            return self._byte(token, at)
        if token == STAR:
            return self._loop(_NO_SEPARATOR, at)
        if token == _SUFFIX:
            return self._loop(_ANYTHING, self._byte(frozenset((SEPARATOR,)), at))
        slash = frozenset((SEPARATOR,))
        if token == _MIDDLE:
            at = self._byte(slash, at)
            end = self._byte(slash, self._loop(_ANYTHING, at))
        else:
            end = self._byte(slash, self._loop(_ANYTHING, at))
        self._free[at].append(end)
        return end

    def _byte(self, members: frozenset[int], at: int) -> int:
        to = self._state()
        self._steps[at].append((members, to))
        return to

    def _loop(self, members: frozenset[int], at: int) -> int:
        inside = self._state()
        self._free[at].append(inside)
        self._steps[inside].append((members, inside))
        return inside

    def _closed(self, states: set[int]) -> frozenset[int]:
        todo = list(states)
        while todo:
            for state in self._free[todo.pop()]:
                if state not in states:
                    states.add(state)
                    todo.append(state)
        return frozenset(states)



