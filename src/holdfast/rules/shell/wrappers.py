"""Programs that run other commands, and the commands they would run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from holdfast.rules.shell.literal import Word
from holdfast.rules.shell.scripts import SHELLS, SPECIAL, Inner, held_scripts, read_shell, script_of, stored

MAX_WRAPPED: Final = 8
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SPLIT: Final = re.compile(r"-[a-zA-Z0-9]*?S|--s[a-z-]*=?")
_VERSION: Final = re.compile(r"-?[0-9.]+$")
_EVALUATING: Final = frozenset(
    {
        *("[", "compgen", "declare", "export", "getopts", "let", "local", "mapfile", "printf", "read", "readarray"),
        *("readonly", "test", "typeset", "unset", "wait"),
    }
)
"""Builtins that evaluate subscripts or arithmetic in their arguments, quoted or not."""


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
_ANYWHERE: Final = frozenset(
    {
        *("aa-exec", "bunx", "bwrap", "capsh", "cgexec", "choom", "chpst", "chronic", "concurrently", "cpulimit"),
        *("daemonize", "dbus-launch", "dbus-run-session", "dtach", "dumb-init", "entr", "envdir", "expect", "faketime"),
        *("fakechroot", "fakeroot", "firejail", "gdb", "hyperfine", "i386", "ifne", "linux32", "linux64", "lldb"),
        *("mispipe", "nix-shell", "nodemon", "npx", "numactl", "pee", "perf", "pkexec", "proot", "proxychains"),
        *("rlwrap", "runcon", "schedtool", "script", "sem", "setarch", "setuidgid", "sg", "softlimit", "ssh-agent"),
        *("start-stop-daemon", "su", "su-exec", "systemd-nspawn", "tini", "torsocks", "tsocks", "uname26", "unbuffer"),
        *("uvx", "valgrind", "x86_64", "xterm", "xvfb-run"),
    }
)
"""Wrappers whose own arguments are not known: the command may begin at any of their words."""
_AFTER_RUN: Final = frozenset(
    {
        *("asdf", "bun", "bundle", "conda", "coverage", "direnv", "docker", "flatpak", "hatch", "kubectl", "mamba"),
        *("micromamba", "mise", "nerdctl", "nix", "npm", "pdm", "pipenv", "pixi", "pnpm", "podman", "poetry", "rustup"),
        *("rye", "screen", "snap", "tmux", "toolbox", "uv", "yarn"),
    }
)
_RUN: Final = frozenset(
    {"-c", "--command", "develop", "dlx", "exec", "new", "new-session", "new-window", "run", "shell", "tool", "x"}
)
"""Subcommands after which the command may begin at any word."""
_MAX_PLACES: Final = 64
_KEYWORDS: Final = frozenset({"!", "(", "do", "elif", "else", "if", "then", "until", "while", "{"})
"""What a wrapper may be given before a command, where the syntax tree takes it for a word."""
WRAPPERS: Final = (
    frozenset(_WRAPPERS) | _ANYWHERE | _AFTER_RUN | {"coproc", "eval", "parallel", "ssh", "trap", "watch"}
)


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
    if name in _KEYWORDS:
        return [Inner(name, tuple(rest))] if rest else []
    if name.startswith("git-"):
        return [Inner(name, ("git", name.removeprefix("git-"), *rest))]
    found = list(held_scripts(name, rest))
    if name in SHELLS:
        return [*found, *read_shell(name, rest)]
    if (special := SPECIAL.get(name)) is not None:
        found += special(name, rest)
    if name in _EVALUATING:
        found += [Inner(name, script=script) for script in evaluated(rest)]
    if name in _ANYWHERE or name.startswith(("ld-linux", "ld.so", "ld-musl")):
        found += _anywhere(name, rest)
    elif name in _AFTER_RUN:
        runs = next((at for at, word in enumerate(rest) if word is None or word in _RUN), len(rest))
        found += _anywhere(name, rest[runs:])
    if (wrapper := _WRAPPERS.get(name)) is not None:
        found += _wrapped(name, wrapper, rest)
    return found


def _wrapped(name: str, wrapper: _Wrapper, rest: list[Word]) -> Iterator[Inner]:
    yield from (Inner(name, script=script) for script in _split_strings(name, rest))
    if wrapper.assignments:
        yield from (inner for word in rest if word is not None for inner in stored(word))
    for inner in _after_options(wrapper, rest):
        if inner and name == "xargs":
            marks = _replaced(rest)
            told = [None if word is None or any(mark in word for mark in marks) else word for word in inner]
            yield Inner(name, (*told, None))
        elif inner:
            yield Inner(name, inner)


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
            yield Inner(name, tuple(rest[at:]))
        if word is not None and any(space in word for space in " \t\n"):
            yield Inner(name, script=word.partition("=")[2] if word.startswith("-") else word)
    if len(rest) > _MAX_PLACES:
        yield Inner(name, (None,))


def evaluated(words: Iterable[Word]) -> Iterator[str]:
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
        if word is None or (found := _SPLIT.match(word)) is None:
            continue
        yield script_of([word[found.end() :], *rest[at + 1 :]])
