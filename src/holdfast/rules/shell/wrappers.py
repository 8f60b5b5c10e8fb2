"""The commands that a command would run: what wrappers, shells, git, aliases and the options of programs hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from holdfast.rules.shell.programs import (
    AFTER_RUN,
    ANYWHERE,
    EXPANDED,
    HELD,
    HIDING,
    RUN,
    SHELL_STARTERS,
    SHELLS,
    STORED,
    UNSEEN,
    WRAPPERS,
    Wrapper,
    dialect_of,
    program_name,
)
from holdfast.rules.shell.verdicts import Dialect, Word

MAX_WRAPPED: Final = 8
_MAX_PLACES: Final = 64
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SPLIT: Final = re.compile(r"-[a-zA-Z0-9]*?S|--s[a-z-]*=?")
_SHELL_VALUED: Final = frozenset({"--init-file", "--rcfile"})
_SHELL_FLAGS: Final = frozenset(
    {"--login", "--noediting", "--noprofile", "--norc", "--posix", "--restricted", "--verbose"}
)
_DEVICE: Final = re.compile(r"(^|/)(dev|proc|stdin|fd)(/|$)|^[0-9]+$")
_FIND_ACTIONS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_DECLARING: Final = frozenset({"declare", "export", "local", "readonly", "typeset"})
_EVALUATING: Final = frozenset(
    {
        *("[", "compgen", "declare", "export", "getopts", "let", "local", "mapfile", "printf", "read", "readarray"),
        *("readonly", "test", "typeset", "unset", "wait"),
    }
)
"""Builtins that evaluate subscripts or arithmetic in their arguments, quoted or not."""
_KEYWORDS: Final = frozenset({"!", "(", "do", "elif", "else", "if", "then", "until", "while", "{"})
"""What a wrapper may be given before a command, where a reading takes it for a word."""
_SSH: Final = Wrapper(
    valued=frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOoPpQRSWw"),
    flags=frozenset(f"-{letter}" for letter in "46AaCfGgKkMNnqsTtVvXxYy"),
)
_SSH_COMMAND: Final = re.compile(r"[A-Za-z]*command[ =]", re.IGNORECASE)


class Inner(Struct, frozen=True):
    """A command inside a command: words, or a script to be read."""

    by: str
    words: tuple[Word, ...] = ()
    script: str | None = None
    from_input: bool = False
    """It is whatever comes in on standard input."""
    if_fed: bool = False
    """It is started only if something is given to it: an interactive shell has nobody to talk to."""
    guessed: bool = False
    """It may begin elsewhere."""
    dialect: Dialect | None = None
    """The shell that reads the script, if it is not the one that reads the command."""


def unwrap(words: Sequence[Word]) -> list[Inner]:
    """The commands a command would run, as far as its words show them."""
    if not words or words[0] is None:
        return []
    name, rest = program_name(words[0]), list(words[1:])
    if name in _KEYWORDS:
        return [Inner(name, tuple(rest))] if rest else []
    if name.startswith("git-"):
        return [Inner(name, ("git", name.removeprefix("git-"), *rest))]
    found = list(_held_scripts(name, rest))
    if name in SHELLS:
        return [*found, *_read_shell(name, rest)]
    if (special := _SPECIAL.get(name)) is not None:
        found += special(name, rest)
    if name in _DECLARING:
        found += [inner for word in rest if word is not None for inner in stored(word)]
    if name in _EVALUATING:
        found += [Inner(name, script=script) for script in evaluated(rest)]
    if name in HIDING:
        found.append(Inner(name, (None,)))
    if name in ANYWHERE or name in SHELL_STARTERS or name.startswith(("ld-linux", "ld.so", "ld-musl")):
        found += _anywhere(name, rest)
    elif name in AFTER_RUN:
        runs = next((at for at, word in enumerate(rest) if word is None or word in RUN), len(rest))
        found += _anywhere(name, rest[runs:])
    if name in SHELL_STARTERS and not any(inner.script is not None for inner in found):
        found.append(_from_input(name, if_fed=True))
    if (wrapper := WRAPPERS.get(name)) is not None:
        found += _wrapped(name, wrapper, rest)
    return found


def script_of(words: Sequence[Word]) -> str:
    """Words joined to a text; what cannot be told becomes a variable, so that it stays unknown when it is read."""
    return " ".join("$_" if word is None else word for word in words)


def evaluated(words: Iterable[Word]) -> Iterator[str]:
    """Scripts with the substitutions that literal words hold: `test -v 'a[$(rm x)]'` runs rm."""
    for word in words:
        if word is not None and ("$(" in word or "`" in word):
            yield f": {word}"


def stored(assignment: str) -> Iterator[Inner]:
    """The command that setting a variable keeps for later; more words will follow it."""
    if UNSEEN.match(assignment) is not None:
        yield Inner("a variable", (None,))
    elif (found := EXPANDED.match(assignment)) is not None:
        value = assignment[found.end() :]
        yield Inner("a variable", script=f": {value}")
        if "ENV" in found[0]:
            yield Inner("a variable", (None if value == "$_" else value,))
    elif (found := STORED.match(assignment)) is not None and assignment[found.end() :]:
        yield Inner("a variable", script=script_of([assignment[found.end() :].lstrip("|"), None]))


def _from_input(name: str, *, if_fed: bool = False) -> Inner:
    return Inner(name, (None,), from_input=True, if_fed=if_fed)


def _wrapped(name: str, wrapper: Wrapper, rest: list[Word]) -> Iterator[Inner]:
    if name == "env":
        yield from _split_strings(rest)
    if wrapper.assignments:
        yield from (inner for word in rest if word is not None for inner in stored(word))
    if wrapper.runs_shell or (name == "sudo" and _has_letters(rest, "is")):
        yield from _starting_shell(name, wrapper, rest)
    if name == "jobs" and "-x" not in rest:
        return
    if name == "command" and _has_letters(rest[:1], "vV"):
        return
    for inner in _after_options(wrapper, rest):
        if inner and name == "xargs":
            marks = _replaced(rest)
            told = [None if word is None or any(mark in word for mark in marks) else word for word in inner]
            yield Inner(name, (*told, None))
        elif inner and wrapper.joined:
            yield Inner(name, script=script_of(inner), dialect="posix")
        elif inner:
            yield Inner(name, inner)


def _has_letters(words: Sequence[Word], letters: str) -> bool:
    """Whether one of the words is a bundle of options with one of these letters."""
    bundles = (word[1:] for word in words if word is not None and re.fullmatch(r"-[A-Za-z]+", word))
    return any(letter in bundle for bundle in bundles for letter in letters)


def _starting_shell(name: str, wrapper: Wrapper, rest: list[Word]) -> Iterator[Inner]:
    """A shell that gets the words as its script, or reads its input if there are none."""
    for inner in _after_options(wrapper, rest):
        if not inner:
            yield _from_input(name, if_fed=True)
        elif name in ("doas", "sudo"):
            yield Inner(name, script=script_of(inner), dialect="posix")


def _replaced(rest: Sequence[Word]) -> list[str]:
    """What `xargs -I%` replaces by its input."""
    marks = list[str]()
    for word, after in zip(rest, [*rest[1:], None], strict=True):
        if word in ("-I", "--replace", "-i") or (word or "").startswith("--replace="):
            marks += [(word or "").partition("=")[2] or "{}", *([after] if word == "-I" and after else [])]
        elif word is not None and word.startswith(("-I", "-i")):
            marks.append(word[2:])
    return marks


def _anywhere(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    for at, word in enumerate(rest[:_MAX_PLACES]):
        if word is None or not word.startswith("-"):
            yield Inner(name, tuple(rest[at:]), guessed=True)
        if word is not None and any(space in word for space in " \t\n"):
            yield Inner(name, script=word.partition("=")[2] if word.startswith("-") else word)
    if len(rest) > _MAX_PLACES:
        yield Inner(name, (None,))


def _after_options(wrapper: Wrapper, rest: list[Word]) -> list[tuple[Word, ...]]:
    """What is left when the wrapper's own options and operands are gone; two readings if an option is not known."""
    at, second = 0, None
    while at < len(rest):
        word = rest[at]
        if word is None:
            return [(None, *rest[at + 1 :])]
        if word == "--":
            at += 1
            break
        if wrapper.assignments and _ASSIGNMENT.match(word):
            at += 1
        elif not word.startswith("-") or (word == "-" and word not in wrapper.flags):
            break
        elif word in wrapper.valued:
            at += 2
        elif _is_attached(wrapper, word):
            at += 1
        else:
            if word not in wrapper.flags and "=" not in word and second is None:
                second = at + 2
            at += 1
    while wrapper.assignments and at < len(rest) and _ASSIGNMENT.match(rest[at] or ""):
        at += 1
    readings = [tuple(rest[at + wrapper.leading :])]
    if second is not None and second > at:
        readings.append(tuple(rest[second + wrapper.leading :]))
    return readings


def _is_attached(wrapper: Wrapper, word: str) -> bool:
    """Whether a word is all of an option: its value follows the letter, or all of its letters have none."""
    if word.startswith("--"):
        return "=" in word
    for at, letter in enumerate(word[1:], 2):
        if f"-{letter}" in wrapper.valued:
            return at < len(word)
        if f"-{letter}" not in wrapper.flags:
            return False
    return True


def _split_strings(rest: list[Word]) -> Iterator[Inner]:
    """`env -S 'rm x'` and its spellings. It has escapes and variables of its own, which are not modelled."""
    for at, word in enumerate(rest):
        if word is None or (found := _SPLIT.match(word)) is None:
            continue
        text = script_of([word[found.end() :], *rest[at + 1 :]])
        if "\\" in text or "$" in text:
            yield Inner("env", (None,))
        yield Inner("env", script=f"env {text}")


def _read_shell(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    """`-c` may stand anywhere among the options; the script is the first word after all of them."""
    at, letters, perhaps = 0, "", list[Word]()
    while at < len(rest):
        word = rest[at]
        if word is None:
            yield Inner(name, (None,))
            return
        if not word.startswith(("-", "+")):
            break
        at += 1
        if word in ("-", "--"):
            break
        if word in ("--help", "--version"):
            return
        if not word.startswith("--"):
            letters += word[1:]
            at += word.count("o") + word.count("O")
        elif word in _SHELL_VALUED:
            if rest[at : at + 1] == [None]:
                yield Inner(name, (None,))
            at += 1
        elif "=" not in word and word not in _SHELL_FLAGS and not _is_option(rest[at : at + 1]):
            perhaps += rest[at : at + 1]
            at += 1
    operands = rest[at:]
    if "c" in letters:
        scripts = [*perhaps, *operands[:1]]
        yield from (Inner(f"{name} -c", script=script_of([script]), dialect=dialect_of(name)) for script in scripts)
    elif "s" in letters or not operands or _is_input(operands[0]):
        yield _from_input(name)
    else:
        yield Inner(name, tuple(operands))


def _is_option(words: Sequence[Word]) -> bool:
    return any(word is not None and word.startswith("-") for word in words)


def _is_input(path: Word) -> bool:
    """Whether a file may be what comes in: a device, wherever the command may have gone by then."""
    return path is None or _DEVICE.search(path) is not None


def _held_scripts(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    for script in _values(HELD.get(name, ""), rest):
        yield Inner(name, script=script.removeprefix("exec=").lstrip(":!"))


def _values(options: str, words: Sequence[Word]) -> Iterator[str]:
    """The values of these options: joined by `=`, attached, or the next word; both if that is not clear."""
    letters = {option[1] for option in options.split() if len(option) == 2}
    long = [option for option in options.split() if len(option) > 2]
    for at, word in enumerate(words):
        if word is None or not word.startswith("-"):
            continue
        after = script_of(words[at + 1 : at + 2])
        name, equals, value = word.partition("=")
        if any(option == name or (option.startswith(name) and len(name) > 3) for option in long):
            yield value if equals else after
        if word.startswith("--"):
            continue
        for letter in letters & set(word[1:]):
            attached = word[word.index(letter, 1) + 1 :]
            yield after
            if attached:
                yield attached


def _git(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    subcommand = _git_subcommand(rest)
    for at, word in enumerate(rest):
        if word is None:
            continue
        if word == "-c" and (at < subcommand or "clone" in rest) and at + 1 < len(rest):
            yield _git_setting(rest[at + 1])
        elif word.startswith(("--config-env", "--exec-path=")) or word == "--exec-path":
            yield Inner(f"git {word.partition('=')[0]}", (None,))
        elif word == "config" and at + 1 < len(rest):
            yield from _git_config(rest[at + 1 :])
        elif word == "run" and "bisect" in rest[:at]:
            yield Inner("git bisect run", tuple(rest[at + 1 :]))
        elif word == "foreach" and "submodule" in rest[:at]:
            yield Inner("git submodule foreach", script=script_of([x for x in rest[at + 1 :] if x != "--recursive"]))
        elif word.startswith("ext::"):
            yield Inner("git", script=word.removeprefix("ext::"))


def _git_subcommand(rest: Sequence[Word]) -> int:
    """Where git's own options end."""
    at = 0
    while at < len(rest) and (rest[at] or "-").startswith("-"):
        at += 2 if rest[at] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace") else 1
    return at


def _git_setting(setting: Word) -> Inner:
    key, _, value = (setting or "").partition("=")
    told = f"git {value}" if key.lower().startswith("alias.") and not value.startswith("!") else value.lstrip("!")
    return Inner("git -c", script=f"{told} $_" if setting is not None else "$_")


def _git_config(rest: Sequence[Word]) -> Iterator[Inner]:
    """`git config alias.q '!rm x'`: what a setting holds is run by a later git."""
    operands = [word for word in rest if word is None or not word.startswith("-")]
    for key, value in pairwise(operands):
        if key is None or "." in key:
            yield _git_setting(None if key is None or value is None else f"{key}={value}")


def _joined(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    yield Inner(name, script=script_of(rest[1:] if rest[:1] == ["--"] else rest))


def _first(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    operands = [word for word in rest if word is None or not word.startswith("-")]
    yield Inner(name, script=script_of(operands[:1]))


def _ssh(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    """`ssh HOST COMMAND`, with options on both sides of the host; without a command its input goes to a shell there."""
    at_host = _after_options(_SSH, list(rest))
    for words in at_host:
        for command in _after_options(_SSH, list(words[1:])):
            yield Inner(name, script=script_of(command)) if command else _from_input(name, if_fed=True)
    yield from _ssh_options(name, rest)


def _ssh_options(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    """`-o ProxyCommand=…` and its kin."""
    for at, word in enumerate(rest):
        if word is None or not word.startswith("-o"):
            continue
        value = word[2:] or next(iter(rest[at + 1 : at + 2]), "")
        if value is None:
            yield Inner(name, (None,))
        elif (found := _SSH_COMMAND.match(value.strip())) is not None:
            yield Inner(name, script=value.strip()[found.end() :])


def _parallel(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    """Without a command of its own it runs its inputs."""
    marks = [at for at, word in enumerate(rest) if word is not None and word.startswith(":::")]
    yield Inner(name, script=script_of([*rest[: marks[0]], None] if marks else rest))
    for word in rest[marks[0] + 1 :] if marks else ():
        yield Inner(name, script=script_of([word]))
    if not any(word is not None and not word.startswith("-") for word in rest):
        yield _from_input(name)


def _find(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    for at, word in enumerate(rest):
        if word in _FIND_ACTIONS:
            inner = [None if item is not None and "{}" in item else item for item in _until_end(rest[at + 1 :])]
            yield Inner(f"{name} {word}", tuple(inner))


def _until_end(words: Sequence[Word]) -> Iterator[Word]:
    for word in words:
        if word in (";", "+"):
            return
        yield word


def _alias(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    """What stands for another word; more words will follow it."""
    for word in rest:
        if word is None or "=" in word:
            yield Inner(name, script=script_of([None if word is None else word.partition("=")[2], None]))


def _hash(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    for at, word in enumerate(rest):
        if word is not None and word.startswith("-") and "p" in word:
            yield Inner(name, (word.partition("p")[2] or next(iter(rest[at + 1 :]), None), None))


def _source(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    operands = rest[1:] if rest[:1] == ["--"] else rest
    if operands:
        yield _from_input(name) if _is_input(operands[0]) else Inner(name, tuple(operands))


def _coproc(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    yield Inner(name, tuple(rest))
    yield Inner(name, tuple(rest[1:]))


def _reads_input(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    yield _from_input(name)


_SPECIAL: Final[dict[str, Callable[[str, Sequence[Word]], Iterator[Inner]]]] = {
    ".": _source,
    "alias": _alias,
    "at": _reads_input,
    "batch": _reads_input,
    "coproc": _coproc,
    "eval": _joined,
    "find": _find,
    "git": _git,
    "hash": _hash,
    "parallel": _parallel,
    "scp": _ssh_options,
    "sftp": _ssh_options,
    "source": _source,
    "ssh": _ssh,
    "trap": _first,
}
WRAPPING: Final = (
    frozenset(WRAPPERS) | ANYWHERE | AFTER_RUN | SHELL_STARTERS | {"coproc", "eval", "parallel", "ssh", "trap"}
)
"""Programs that run what their arguments say."""
