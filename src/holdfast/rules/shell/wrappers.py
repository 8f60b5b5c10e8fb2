"""Programs that run other commands, and the commands they would run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from holdfast.rules.shell.literal import Word

MAX_WRAPPED: Final = 8
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_FIND_ACTIONS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_VERSION: Final = re.compile(r"[\d.]+$")
_EVALUATING: Final = frozenset(
    {
        *("[", "declare", "export", "getopts", "let", "local", "mapfile", "printf", "read", "readarray", "readonly"),
        *("test", "typeset", "unset", "wait"),
    }
)
"""Builtins that evaluate subscripts or arithmetic in their arguments, quoted or not."""


class Inner(Struct, frozen=True):
    """A command inside a command: words, or a script to be read."""

    by: str
    words: tuple[Word, ...] = ()
    script: str | None = None


class _Wrapper(Struct, frozen=True):
    """How a wrapper's own arguments end."""

    valued: frozenset[str] = frozenset()
    """Options whose value is the next word."""
    flags: frozenset[str] = frozenset()
    """Options without a value. Whether others have one is not known, so both are looked at."""
    leading: int = 0
    """Operands before the command."""
    assignments: bool = False


def _wrapper(valued: str = "", flags: str = "", leading: int = 0, *, assignments: bool = False) -> _Wrapper:
    return _Wrapper(frozenset(valued.split()), frozenset(flags.split()), leading, assignments)


_WRAPPERS: Final = {
    "builtin": _wrapper(),
    "busybox": _wrapper(),
    "caffeinate": _wrapper("-t -w", "-d -i -m -s -u"),
    "chroot": _wrapper("", "", 1),
    "chrt": _wrapper("-T -P -D", "-b -f -i -o -r -a -v -R", 1),
    "command": _wrapper("", "-p"),
    "coproc": _wrapper(),
    "doas": _wrapper("-u -C -a", "-n -s -L"),
    "env": _wrapper("-u --unset -C --chdir -a --argv0", "-i --ignore-environment -0 --null -v --debug -", 0,
                    assignments=True),
    "exec": _wrapper("-a", "-c -l -cl -lc"),
    "flock": _wrapper("-w --timeout -E", "-s -x -e -n -o -F -u", 1),
    "gosu": _wrapper("", "", 1),
    "ionice": _wrapper("-c --class -n --classdata -p -P -u", "-t"),
    "ltrace": _wrapper("-e -o -p -n -a -s -u -l -x", "-f -c -S -r -t -tt -T -i -C"),
    "nice": _wrapper("-n --adjustment"),
    "nohup": _wrapper(),
    "nsenter": _wrapper("-t --target -S -G", "-a -m -u -i -n -p -C -U -F -Z"),
    "prlimit": _wrapper("-p --pid"),
    "runuser": _wrapper("-u --user -g -G -s --shell", "-l - -m -p -f"),
    "setpriv": _wrapper("", "--clear-groups --no-new-privs --init-groups --keep-groups --reset-env"),
    "setsid": _wrapper("", "-c --ctty -f --fork -w --wait"),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "strace": _wrapper("-e -o -p -s -u -E -a -P -S -O -b -I -X", "-f -ff -c -C -D -q -r -t -tt -T -v -x -y -i -k"),
    "sudo": _wrapper("-u --user -g --group -h --host -p --prompt -C -D --chdir -R -r -t -T -U",
                     "-A -b -E -e -H -i -k -K -l -n -P -S -s -V -v", 0, assignments=True),
    "systemd-run": _wrapper("-p -u -t -M -H --unit --property --slice", "--user --scope --pty -q --wait --pipe"),
    "taskset": _wrapper("", "-a -c", 1),
    "time": _wrapper("-f -o --format --output", "-p -a -v -q"),
    "timeout": _wrapper("-k --kill-after -s --signal", "-v --foreground --preserve-status", 1),
    "toybox": _wrapper(),
    "unshare": _wrapper("-S -G -R -w", "-m -u -i -n -p -U -r -f -c -C -T"),
    "xargs": _wrapper("-a -d -E -I -L -n -P -s --arg-file --delimiter --replace --max-args --max-procs --max-lines",
                      "-0 -r -t -p -x -o --null --no-run-if-empty --verbose --interactive"),
}  # fmt: skip
SHELLS: Final = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "rbash", "sh", "tcsh", "zsh"})
WRAPPERS: Final = frozenset(_WRAPPERS) | {"eval", "parallel", "script", "ssh", "su", "trap", "watch"}


def program_name(word: str) -> str:
    """The name a program goes by, without its folder."""
    return word.rpartition("/")[2]


def family(word: str) -> str:
    """The same without a version: `python3.11` is `python`."""
    name = program_name(word)
    return _VERSION.sub("", name) or name


def unwrap(words: Sequence[Word]) -> list[Inner]:
    """The commands a command would run, as far as its words show them."""
    if not words or words[0] is None:
        return []
    name, rest = program_name(words[0]), list(words[1:])
    if name in SHELLS:
        return list(_shell(name, rest))
    if (special := _SPECIAL.get(name)) is not None:
        return list(special(name, rest))
    if name in _EVALUATING:
        return [Inner(name, script=script) for script in evaluated(rest)]
    if (wrapper := _WRAPPERS.get(name)) is None:
        return []
    found = [Inner(name, script=script) for script in _split_strings(name, rest)]
    found += [Inner(name, inner) for inner in _after_options(wrapper, rest) if inner]
    if name == "xargs":
        found = [Inner(name, (*inner.words, None)) for inner in found]
    return found


def evaluated(words: Sequence[Word]) -> Iterator[str]:
    """Scripts with the substitutions that literal words hold: `test -v 'a[$(rm x)]'` runs rm."""
    for word in words:
        if word is not None and ("$(" in word or "`" in word):
            yield f": {word}"


def _after_options(wrapper: _Wrapper, rest: list[Word]) -> list[tuple[Word, ...]]:
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
        elif not word.startswith("-"):
            break
        elif word in wrapper.valued:
            at += 2
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


def _split_strings(name: str, rest: list[Word]) -> Iterator[str]:
    """`env -S 'rm x'` and its spellings."""
    if name != "env":
        return
    for at, word in enumerate(rest):
        if word is None or not word.startswith("-"):
            continue
        if word in ("-S", "--split-string", "-vS", "-iS"):
            yield _script(rest[at + 1 :])
        elif word.startswith(("-S", "--split-string=")):
            yield _script([word.removeprefix("--split-string=").removeprefix("-S"), *rest[at + 1 :]])


def _shell(name: str, rest: list[Word]) -> Iterator[Inner]:
    for at, word in enumerate(rest):
        if word is None:
            yield Inner(name, (None,))
            return
        if word.startswith(("-", "+")) and not word.startswith("--") and "c" in word:
            yield Inner(f"{name} -c", script=_script(rest[at + 1 : at + 2]))
            return
        if not word.startswith(("-", "+")):
            return


def _joined(name: str, rest: list[Word]) -> Iterator[Inner]:
    yield Inner(name, script=_script(rest))


def _first(name: str, rest: list[Word]) -> Iterator[Inner]:
    operands = [word for word in rest if word is None or not word.startswith("-")]
    yield Inner(name, script=_script(operands[:1]))


def _after_c(name: str, rest: list[Word]) -> Iterator[Inner]:
    for at, word in enumerate(rest):
        if word in ("-c", "--command"):
            yield Inner(name, script=_script(rest[at + 1 : at + 2]))
        elif word is not None and word.startswith("--command="):
            yield Inner(name, script=word.removeprefix("--command="))
        elif word is None:
            yield Inner(name, (None,))


def _remote(name: str, rest: list[Word]) -> Iterator[Inner]:
    for at, word in enumerate(rest):
        if word is not None and not word.startswith("-"):
            yield Inner(name, script=_script(rest[at + 1 :]))


def _find(name: str, rest: list[Word]) -> Iterator[Inner]:
    for at, word in enumerate(rest):
        if word in _FIND_ACTIONS:
            inner = [None if item is not None and "{}" in item else item for item in _until_end(rest[at + 1 :])]
            yield Inner(f"{name} {word}", tuple(inner))


def _until_end(words: list[Word]) -> Iterator[Word]:
    for word in words:
        if word in (";", "+"):
            return
        yield word


def _script(words: Sequence[Word]) -> str:
    """Words joined to a text; what cannot be told becomes a variable, so that it stays unknown when it is read."""
    return " ".join("$_" if word is None else word for word in words)


_SPECIAL: Final[dict[str, Callable[[str, list[Word]], Iterator[Inner]]]] = {
    "eval": _joined,
    "find": _find,
    "parallel": _joined,
    "runuser": _after_c,
    "script": _after_c,
    "ssh": _remote,
    "su": _after_c,
    "trap": _first,
    "watch": _joined,
}
