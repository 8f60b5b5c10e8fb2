"""Ignore files (`.gitignore`, `.ignore`, `.rgignore`, `.git/info/exclude`) as ripgrep reads them.

Stands alone: the scanning processes import it without the rest of holdfast.
"""

from __future__ import annotations

import re

from holdfast.tools.search.globs import SEPARATOR, STAR, Automaton, BadGlob, Token, parse, regex_of, varying

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Final

KINDS: Final = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
"""What is read in every folder, the strongest first."""
_BLANK: Final = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_EASY: Final = 2


class Rule:
    """One line of an ignore file."""

    __slots__ = ("keeps", "name_only", "only_folders", "tokens")

    def __init__(self, tokens: list[Token], *, keeps: bool, only_folders: bool, name_only: bool) -> None:
        self.tokens = tokens
        self.keeps = keeps
        """It begins with `!`: what it matches is not ignored."""
        self.only_folders = only_folders
        self.name_only = name_only
        """It is about the last name of a path, wherever that is."""


def read_rules(content: bytes) -> list[Rule]:
    """The rules of a file, in order. Reading ends at the first line that is not UTF-8; malformed globs are left out."""
    rules: list[Rule] = []
    for number, raw in enumerate(content.split(b"\n")):
        try:
            line = raw.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            break
        if number == 0:
            line = line.lstrip("\ufeff")
        try:
            rule = read_rule(line)
        except BadGlob:
            continue
        if rule is not None:
            rules.append(rule)
    return rules


def read_rule(line: str) -> Rule | None:
    """One line; None if it says nothing. Raises `BadGlob`."""
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip(_BLANK)
    if not line:
        return None
    keeps = anchored = False
    if line.startswith(("\\!", "\\#")):
        line = line[1:]
    else:
        keeps = line.startswith("!")
        line = line[keeps:]
        anchored = line.startswith("/")
        line = line[anchored:]
    only_folders = line.endswith("/")
    if only_folders:
        line = line[:-1].removesuffix("\\")
    anywhere = not anchored and "/" not in line and line != "**"
    tokens = parse(f"{'**/' if anywhere else ''}{line}{'/*' if line.endswith('/**') else ''}")
    name_only = anywhere and len(tokens) > 1 and not _reaches_across(tokens[1:])
    return Rule(tokens, keeps=keeps, only_folders=only_folders, name_only=name_only)


def _reaches_across(tokens: list[Token]) -> bool:
    for token in tokens:
        if isinstance(token, list):
            if any(map(_reaches_across, token)):
                return True
        elif isinstance(token, str):
            if token != STAR:
                return True
        elif SEPARATOR in token:
            return True
    return False


class Matcher:
    """The rules of one file, ready to be asked: the last rule that matches decides."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.keeps_some = any(rule.keeps for rule in rules)
        self._files = _grouped([rule for rule in rules if not rule.only_folders])
        self._folders = _grouped(rules)

    def ask(self, path: bytes, name: bytes, is_folder: bool) -> bool | None:
        """True: ignored; False: explicitly kept; None: nothing is said. `path` begins at the file's own folder."""
        for keeps, matches in self._folders if is_folder else self._files:
            if matches(path, name):
                return not keeps
        return None


def _grouped(rules: Sequence[Rule]) -> list[tuple[bool, Callable[[bytes, bytes], bool]]]:
    """Neighbouring rules with the same verdict become one question; the last of the file comes first."""
    groups: list[tuple[bool, Callable[[bytes, bytes], bool]]] = []
    pending: list[Rule] = []
    for rule in reversed(rules):
        if pending and pending[0].keeps != rule.keeps:
            groups.append((pending[0].keeps, _question(pending)))
            pending = []
        pending.append(rule)
    if pending:
        groups.append((pending[0].keeps, _question(pending)))
    return groups


def _question(rules: Iterable[Rule]) -> Callable[[bytes, bytes], bool]:
    names: list[bytes] = []
    paths: list[bytes] = []
    plain: set[bytes] = set()
    hard: list[Automaton] = []
    for rule in rules:
        tokens = rule.tokens[1:] if rule.name_only else rule.tokens
        if varying(tokens) > _EASY:
            hard.append(Automaton(rule.tokens))
        elif not rule.name_only:
            paths.append(regex_of(tokens))
        elif all(isinstance(token, frozenset) and len(token) == 1 for token in tokens):
            plain.add(b"".join(bytes(token) for token in tokens if isinstance(token, frozenset)))
        else:
            names.append(regex_of(tokens))
    by_name = re.compile(b"(?s:" + b"|".join(names) + b")").fullmatch if names else None
    by_path = re.compile(b"(?s:" + b"|".join(paths) + b")").fullmatch if paths else None

    def matches(path: bytes, name: bytes) -> bool:
        return (
            name in plain
            or (by_name is not None and by_name(name) is not None)
            or (by_path is not None and by_path(path) is not None)
            or any(automaton.matches(path) for automaton in hard)
        )

    return matches


class Level:
    """The ignore files of one folder, and those of the folders above it."""

    __slots__ = ("_at", "_matchers", "above")

    def __init__(self, above: Level | None, folder: bytes, contents: Sequence[bytes | None]) -> None:
        self.above = above
        self._at = len(folder) + 1 if folder else 0
        self._matchers = tuple(
            Matcher(rules) if content and (rules := read_rules(content)) else None for content in contents
        )

    @property
    def keeps_some(self) -> bool:
        return any(matcher is not None and matcher.keeps_some for matcher in self._matchers)

    def ask(self, path: bytes, name: bytes, is_folder: bool) -> bool | None:
        """Of each kind of file the nearest that says something counts; of these the strongest kind."""
        for kind in range(len(KINDS)):
            level: Level | None = self
            while level is not None:
                matcher = level._matchers[kind]
                if matcher is not None:
                    verdict = matcher.ask(path[level._at :], name, is_folder)
                    if verdict is not None:
                        return verdict
                level = level.above
        return None
