"""Programs and builtins with their own ways to be told a command: shells, git, aliases, options that hold scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from holdfast.rules.shell.literal import Word

SHELLS: Final = frozenset(
    {
        *("ash", "bash", "csh", "dash", "elvish", "fish", "hush", "ksh", "ksh93", "lksh", "mksh", "nu", "oksh", "osh"),
        *("pdksh", "posh", "rbash", "rksh", "rzsh", "sh", "tcsh", "xonsh", "yash", "zsh"),
    }
)
_SHELL_VALUED: Final = frozenset({"--init-file", "--rcfile"})
_SHELL_FLAGS: Final = frozenset(
    {"--login", "--noediting", "--noprofile", "--norc", "--posix", "--restricted", "--verbose"}
)
_FIND_ACTIONS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_STORED: Final = re.compile(
    r"(?:BASH_ALIASES\[.*\]|BASH_CMDS\[.*\]|PROMPT_COMMAND|LESSOPEN|LESSCLOSE|SHELL|VISUAL"
    r"|[A-Z_]*(?:ASKPASS|BROWSER|COMMAND|DIFF|EDITOR|PAGER|SSH))\+?="
)
"""Variables that hold a command for later."""
_AS_USER: Final = "-c --command --session-command"
_HELD: Final = {
    "compgen": "-C",
    "complete": "-C",
    "fish": "-C -c --command --init-command",
    "flock": "-c --command",
    "git": "-x -O --exec --extcmd --upload-pack --receive-pack --open-files-in-pager --setup --env-filter "
    "--tree-filter --index-filter --parent-filter --msg-filter --commit-filter --tag-name-filter",
    "man": "-P -H --pager --html",
    "mapfile": "-C",
    "nc": "-e -c",
    "ncat": "-e -c --exec --sh-exec",
    "nix-shell": "--run --command",
    "readarray": "-C",
    "rg": "--pre --hostname-bin",
    "rsync": "-e --rsh --rsync-path",
    "runuser": _AS_USER,
    "scp": "-S",
    "script": "-c --command",
    "sftp": "-S",
    "sg": "-c",
    "sort": "--compress-program",
    "split": "--filter",
    "su": _AS_USER,
    "tar": "-F -I --checkpoint-action --info-script --new-volume-script --rmt-command --rsh-command --to-command "
    "--use-compress-program",
    "tcpdump": "-z",
    "vi": "-c --cmd",
    "vim": "-c --cmd",
}
"""Options whose value is a command."""


class Inner(Struct, frozen=True):
    """A command inside a command: words, or a script to be read."""

    by: str
    words: tuple[Word, ...] = ()
    script: str | None = None
    from_input: bool = False
    """It is whatever comes in on standard input."""


def script_of(words: Sequence[Word]) -> str:
    """Words joined to a text; what cannot be told becomes a variable, so that it stays unknown when it is read."""
    return " ".join("$_" if word is None else word for word in words)


def read_shell(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
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
            at += 1
        elif "=" not in word and word not in _SHELL_FLAGS and not _is_option(rest[at : at + 1]):
            perhaps += rest[at : at + 1]
            at += 1
    operands = rest[at:]
    if "c" in letters:
        scripts = [*perhaps, *operands[:1]]
        yield from (Inner(f"{name} -c", script=script_of([script])) for script in scripts)
    elif "s" in letters or not operands or _is_input(operands[0]):
        yield Inner(name, (None,), from_input=True)


def _is_option(words: Sequence[Word]) -> bool:
    return any(word is not None and word.startswith("-") for word in words)


def _is_input(path: Word) -> bool:
    return path is not None and path.startswith(("/dev/", "/proc/"))


def stored(assignment: str) -> Iterator[Inner]:
    """The command that setting a variable keeps for later; more words will follow it."""
    if (found := _STORED.match(assignment)) is not None and assignment[found.end() :]:
        yield Inner("a variable", script=script_of([assignment[found.end() :].lstrip("|"), None]))


def held_scripts(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    for script in _values(_HELD.get(name, ""), rest):
        yield Inner(name, script=script.removeprefix("exec=").lstrip(":!"))


def _values(options: str, words: Sequence[Word]) -> Iterator[str]:
    """The values of these options: joined by `=`, attached, or the next word; both if that is not clear."""
    letters = {option[1] for option in options.split() if len(option) == 2}
    long = [option for option in options.split() if option.startswith("--")]
    for at, word in enumerate(words):
        if word is None or not word.startswith("-"):
            continue
        after = script_of(words[at + 1 : at + 2])
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            if len(name) > 3 and any(option.startswith(name) for option in long):
                yield value if equals else after
            continue
        for letter in letters & set(word[1:]):
            attached = word[word.index(letter, 1) + 1 :]
            yield after
            if attached:
                yield attached


def _git(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    for at, word in enumerate(rest):
        if word is None:
            continue
        if word == "-c" and at + 1 < len(rest):
            setting = rest[at + 1]
            key, _, value = (setting or "").partition("=")
            told = f"git {value}" if key.startswith("alias.") and not value.startswith("!") else value.lstrip("!")
            yield Inner("git -c", script=f"{told} $_" if setting is not None else "$_")
        elif word.startswith("--config-env"):
            yield Inner("git --config-env", (None,))
        elif word == "run" and "bisect" in rest[:at]:
            yield Inner("git bisect run", tuple(rest[at + 1 :]))
        elif word == "foreach" and "submodule" in rest[:at]:
            yield Inner("git submodule foreach", script=script_of([x for x in rest[at + 1 :] if x != "--recursive"]))
        elif word.startswith("ext::"):
            yield Inner("git", script=word.removeprefix("ext::"))


def _joined(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    yield Inner(name, script=script_of(rest))


def _first(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    operands = [word for word in rest if word is None or not word.startswith("-")]
    yield Inner(name, script=script_of(operands[:1]))


def _remote(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    for at, word in enumerate(rest):
        if word is not None and not word.startswith("-"):
            yield Inner(name, script=script_of(rest[at + 1 :]))


def _parallel(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    """Without a command of its own it runs its inputs."""
    marks = [at for at, word in enumerate(rest) if word is not None and word.startswith(":::")]
    yield Inner(name, script=script_of([*rest[: marks[0]], None] if marks else rest))
    for word in rest[marks[0] + 1 :] if marks else ():
        yield Inner(name, script=script_of([word]))
    if not any(word is not None and not word.startswith("-") for word in rest):
        yield Inner(name, (None,), from_input=True)


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
    if any(word is None or _is_input(word) for word in rest[:1]):
        yield Inner(name, (None,), from_input=True)


def _coproc(name: str, rest: Sequence[Word]) -> Iterator[Inner]:
    yield Inner(name, tuple(rest))
    yield Inner(name, tuple(rest[1:]))


SPECIAL: Final[dict[str, Callable[[str, Sequence[Word]], Iterator[Inner]]]] = {
    ".": _source,
    "alias": _alias,
    "at": lambda name, rest: iter([Inner(name, (None,), from_input=True)]),
    "batch": lambda name, rest: iter([Inner(name, (None,), from_input=True)]),
    "coproc": _coproc,
    "eval": _joined,
    "find": _find,
    "git": _git,
    "hash": _hash,
    "parallel": _parallel,
    "source": _source,
    "ssh": _remote,
    "trap": _first,
    "watch": _joined,
}
