"""Finds nested commands: those that wrappers, shells, git, ssh, aliases, variables and program options run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Final

from msgspec import Struct

from holdfast.rules.shell import programs
from holdfast.rules.shell.harmless import HARMLESS_SUBCOMMANDS
from holdfast.rules.shell.parts import Dialect, Word, word_set
from holdfast.rules.shell.programs import Wrapper, dialect_of, family, program_name

MAX_WRAPPED: Final = 8
_MAX_PLACES: Final = 64
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SPLIT: Final = re.compile(r"-[a-zA-Z0-9]*?S|--s[a-z-]*=?")
_SHELL_VALUED: Final = frozenset({"--init-file", "--rcfile"})
_SHELL_FLAGS: Final = word_set("--login --noediting --noprofile --norc --posix --restricted --verbose")
_DEVICE: Final = re.compile(r"(^|/)(dev|proc|stdin|fd)(/|$)|^[0-9]+$")
_FIND_ACTIONS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_DECLARING: Final = frozenset({"declare", "export", "local", "readonly", "typeset"})
_EVALUATING: Final = word_set("""
    [ compgen declare export getopts let local mapfile printf read readarray readonly test typeset unset wait
""")
"""Builtins that evaluate subscripts or arithmetic in their arguments, even quoted ones."""
_KEYWORDS: Final = word_set("! ( do elif else if then until while {")
"""Shell keywords that a parser may see as the first word of a wrapped command (`time ! ls`)."""
_SSH: Final = {
    name: Wrapper(
        valued=frozenset(f"-{letter}" for letter in valued), flags=frozenset(f"-{letter}" for letter in flags)
    )
    for name, valued, flags in (
        ("scp", "cDFiJloPSX", "346ABCOpqRrsTv"),
        ("sftp", "BbcDFiJloPRSsX", "46AaCfNpqrv"),
        ("ssh", "BbcDEeFIiJLlmOoPpQRSWw", "46AaCfGgKkMNnqsTtVvXxYy"),
    )
}
_SSH_COMMAND: Final = re.compile(r"[A-Za-z]*command\s*[=\s]\s*", re.IGNORECASE)
_SSH_PLAIN: Final = re.compile(
    r"(AddressFamily|BatchMode|BindAddress|Ciphers|Compression|ConnectTimeout|ConnectionAttempts|ControlMaster"
    r"|ControlPath|ControlPersist|ExitOnForwardFailure|ForwardAgent|ForwardX11|GSSAPI\w+|HostKeyAlgorithms|HostName"
    r"|IdentitiesOnly|IdentityFile|KexAlgorithms|LogLevel|MACs|NumberOfPasswordPrompts|PasswordAuthentication|Port"
    r"|PreferredAuthentications|PubkeyAuthentication|PubkeyAcceptedKeyTypes|RequestTTY|ServerAlive\w+"
    r"|StrictHostKeyChecking|TCPKeepAlive|User|UserKnownHostsFile|CheckHostIP|VisualHostKey)\s*[=\s].*",
    re.IGNORECASE,
)
"""Settings of ssh that run nothing."""
_MODULE: Final = re.compile(r"-[bBdEhiIOPqsSuvx]*m(.*)")
_NUMBER: Final = re.compile(r"-[0-9]+")
_CODE: Final = re.compile(r"[\s$`\\'\"]")
"""Characters that make a word a script instead of a plain word."""


class NestedCommand(Struct, frozen=True):
    """A command that another command runs: its words, or a script to analyze."""

    by: str
    words: tuple[Word, ...] = ()
    script: str | None = None
    from_input: bool = False
    """Whether the command is read from standard input."""
    only_with_input: bool = False
    """Whether it only runs something if it gets input: an interactive shell without a terminal does nothing."""
    guessed: bool = False
    """Whether it might start at another word."""
    at: int | None = None
    """The position of its words in the outer command; None if they are at the end."""
    reason: str = ""
    """Why the command is unknown; empty if it is known."""
    dialect: Dialect | None = None
    """The shell that runs the script; None for the shell of the outer command."""


def nested_commands(words: Sequence[Word]) -> list[NestedCommand]:
    """The commands that a command runs, as far as its words show them."""
    if not words or words[0] is None:
        return []
    name, rest = program_name(words[0]), list(words[1:])
    if name in _KEYWORDS:
        return [NestedCommand(name, tuple(rest))] if rest else []
    if name.startswith("git-"):
        return [NestedCommand(name, ("git", name.removeprefix("git-"), *rest))]
    scripts = _option_values(programs.COMMAND_OPTIONS.get(name, ""), rest)
    found = [NestedCommand(name, script=script.removeprefix("exec=").lstrip(":!")) for script in scripts]
    if name in programs.SHELLS:
        return [*found, *_read_shell(name, rest)]
    if (special := _SPECIAL.get(name)) is not None:
        found += special(name, rest)
    if family(name) in ("pypy", "python"):
        found += _module(name, rest)
    if name in ("uv", "yarn") and rest[:1] in (["npm"], ["pip"]):
        found.append(NestedCommand(name, tuple(rest)))
    if name in _DECLARING:
        found += [inner for word in rest if word is not None for inner in commands_in_assignment(word)]
    if name in _EVALUATING:
        found += [NestedCommand(name, script=script) for script in substitutions_in(rest)]
    if name in programs.HIDDEN_RUNNERS:
        found.append(NestedCommand(name, (None,)))
    if name in programs.OPAQUE_WRAPPERS | programs.SHELL_STARTERS or name.startswith(("ld-linux", "ld.so", "ld-musl")):
        found += _at_any_word(name, rest)
    elif name in programs.RUN_PROGRAMS and (not rest or rest[0] not in HARMLESS_SUBCOMMANDS.get(name, ())):
        runs = next((at for at, word in enumerate(rest) if word is None or word in programs.RUN_SUBCOMMANDS), len(rest))
        found += _at_any_word(name, rest[runs:])
    if name in programs.SHELL_STARTERS and not any(inner.script is not None for inner in found):
        found.append(_from_input(name, only_with_input=True))
    if (wrapper := programs.WRAPPERS.get(name)) is not None:
        found += _wrapped(name, wrapper, rest)
    return found


def script_of(words: Sequence[Word]) -> str:
    """Join words into a script. An unknown word becomes `$_`, so that it stays unknown in the analysis."""
    return " ".join("$_" if word is None else word for word in words)


def substitutions_in(words: Iterable[Word]) -> Iterator[str]:
    """Scripts for the command substitutions in literal words: `test -v 'a[$(rm x)]'` runs rm."""
    for word in words:
        if word is not None and ("$(" in word or "`" in word):
            yield f": {word}"


def commands_in_assignment(assignment: str) -> Iterator[NestedCommand]:
    """The commands that setting a variable stores for later. Programs append more words, hence the unknown word."""
    if programs.INJECTING_VARIABLES.match(assignment) is not None:
        yield NestedCommand("a variable", (None,))
    elif (found := programs.EXPANDED_VARIABLES.match(assignment)) is not None:
        value = assignment[found.end() :]
        yield NestedCommand("a variable", script=f": {value}")
        if "ENV" in found[0] or value == "$_":
            yield NestedCommand("a variable", (None if value == "$_" else value,))
    elif (found := programs.COMMAND_VARIABLES.match(assignment)) is not None and assignment[found.end() :]:
        yield NestedCommand("a variable", script=script_of([assignment[found.end() :].lstrip("|"), None]))


def _from_input(name: str, *, only_with_input: bool = False) -> NestedCommand:
    return NestedCommand(name, (None,), from_input=True, only_with_input=only_with_input)


def _wrapped(name: str, wrapper: Wrapper, rest: list[Word]) -> Iterator[NestedCommand]:
    scan = _parse_options(wrapper, rest)
    if name == "env":
        yield from _split_strings(rest)
    if wrapper.assignments:
        yield from (inner for word in rest if word is not None for inner in commands_in_assignment(word))
    yield from _wrapper_values(name, scan)
    as_user = name == "runuser" and not any(option in ("-u", "--user") for option, _ in scan.values)
    if wrapper.runs_shell or (name == "sudo" and _has_letters(rest, "is")):
        yield from _starting_shell(name, scan, always=as_user)
    if name == "jobs" and not (_has_letters(rest, "x") or None in rest):
        return
    if name == "command" and _has_letters(rest[:1], "vV"):
        return
    if scan.unknown_option:
        yield NestedCommand(name, (None,), reason=f"the option '{scan.unknown_option}' of '{name}' is unknown")
    for inner in scan.candidates:
        if inner and name == "xargs":
            marks = [value or "{}" for option, value in scan.values if option in ("-I", "-i", "--replace")]
            resolved = [None if word is None or any(mark in word for mark in marks) else word for word in inner]
            yield NestedCommand(name, (*resolved, None))
        elif inner and wrapper.joined:
            yield NestedCommand(name, script=script_of(inner), dialect="posix")
        elif inner:
            yield NestedCommand(name, inner)


def _wrapper_values(name: str, scan: _ParsedOptions) -> Iterator[NestedCommand]:
    """Option values that are commands: `strace -o '|rm x'` and `strace -E PAGER='rm x'`."""
    for option, value in scan.values if name in ("strace", "systemd-run") else ():
        if option in ("-E", "--env", "--setenv"):
            yield from commands_in_assignment(value) if value is not None else (NestedCommand(name, (None,)),)
        elif option in ("-o", "--output") and (value is None or value.startswith(("|", "!"))):
            yield NestedCommand(name, script=script_of([None if value is None else value[1:]]))
        elif option in ("-p", "--property") and name == "systemd-run":
            yield NestedCommand(name, (None,), reason="a unit property may run a program")


def _has_letters(words: Sequence[Word], letters: str) -> bool:
    """Whether one of the words is a group of short options with one of these letters."""
    bundles = (word[1:] for word in words if word is not None and re.fullmatch(r"-[A-Za-z]+", word))
    return any(letter in bundle for bundle in bundles for letter in letters)


def _starting_shell(name: str, scan: _ParsedOptions, *, always: bool) -> Iterator[NestedCommand]:
    """A shell that runs the words as its script, or reads standard input if there are none."""
    for inner in scan.candidates:
        if not inner or always:
            yield _from_input(name, only_with_input=True)
        elif name in ("doas", "sudo"):
            yield NestedCommand(name, script=script_of(inner), dialect="posix")


def _at_any_word(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    for at, word in enumerate(rest[:_MAX_PLACES]):
        if word is None or not word.startswith("-"):
            yield NestedCommand(name, tuple(rest[at:]), guessed=True)
        if word is not None and _CODE.search(word) is not None:
            yield NestedCommand(name, script=word.partition("=")[2] if word.startswith("-") else word)
    if len(rest) > _MAX_PLACES:
        yield NestedCommand(name, (None,))


class _ParsedOptions(Struct, frozen=True):
    """The parsed options of a wrapper, and the command after them."""

    candidates: list[tuple[Word, ...]]
    """The words after the options; two candidates if an option is unknown."""
    values: list[tuple[str, Word]]
    """Options with their values."""
    unknown_option: str = ""
    """The first unknown option; with one, anything may run."""


def _parse_options(wrapper: Wrapper, rest: Sequence[Word]) -> _ParsedOptions:
    at, second, unknown_option = 0, None, ""
    values: list[tuple[str, Word]] = []
    while at < len(rest):
        word = rest[at]
        if word is None:
            return _ParsedOptions([(None, *rest[at + 1 :])], values, unknown_option)
        if word == "--":
            at += 1
            break
        if wrapper.assignments and _ASSIGNMENT.match(word):
            at += 1
            continue
        if not word.startswith("-") or (word == "-" and word not in wrapper.flags):
            break
        at += 1
        option, value = _option(wrapper, word)
        if option is None:
            unknown_option = unknown_option or word
            second = at + 1 if second is None and "=" not in word else second
        elif value is None:
            values.append((option, rest[at] if at < len(rest) else ""))
            at += 1
        else:
            values.append((option, value))
    while wrapper.assignments and at < len(rest) and _ASSIGNMENT.match(rest[at] or ""):
        at += 1
    readings = [tuple(rest[at + wrapper.leading :])]
    if second is not None and second > at:
        readings.append(tuple(rest[second + wrapper.leading :]))
    return _ParsedOptions(readings, values, unknown_option)


def _option(wrapper: Wrapper, word: str) -> tuple[str | None, str | None]:
    """The last option in a word, and its value; a value of None is in the next word."""
    name, equals, value = word.partition("=")
    if word.startswith("--") or word in wrapper.flags:
        if name in wrapper.valued:
            return name, value if equals else None
        known = name in wrapper.optional or (name in wrapper.flags and not equals)
        return (name if known else None), value
    if _NUMBER.fullmatch(word) and "-n" in wrapper.valued:
        return "-n", word[1:]
    for at, letter in enumerate(word[1:], 2):
        option = f"-{letter}"
        if option in wrapper.valued:
            return option, word[at:] or None
        if option in wrapper.optional:
            return option, word[at:]
        if option not in wrapper.flags:
            return None, ""
    return f"-{word[-1]}", ""


def _split_strings(rest: list[Word]) -> Iterator[NestedCommand]:
    """`env -S 'rm x'` and its spellings. Its own escapes and variables are not supported, so they make it unknown."""
    for at, word in enumerate(rest):
        if word is None or (found := _SPLIT.match(word)) is None:
            continue
        text = script_of([word[found.end() :], *rest[at + 1 :]])
        if "\\" in text or "$" in text:
            yield NestedCommand("env", (None,))
        yield NestedCommand("env", script=f"env {text}")


def _read_shell(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    """The script or file of a shell. `-c` can be anywhere among the options; the script is the first operand."""
    at, letters, perhaps = 0, "", list[Word]()
    while at < len(rest):
        word = rest[at]
        if word is None:
            yield NestedCommand(name, (None,))
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
                yield NestedCommand(name, (None,))
            at += 1
        elif "=" not in word and word not in _SHELL_FLAGS and not script_of(rest[at : at + 1]).startswith("-"):
            perhaps += rest[at : at + 1]
            at += 1
    operands = rest[at:]
    if "c" in letters:
        scripts = [*perhaps, *operands[:1]]
        yield from (
            NestedCommand(f"{name} -c", script=script_of([script]), dialect=dialect_of(name)) for script in scripts
        )
    elif "s" in letters or not operands or _is_input(operands[0]):
        yield _from_input(name)
    else:
        yield NestedCommand(name, tuple(operands))


def _is_input(path: Word) -> bool:
    """Whether a path may be standard input: a device file, relative to any folder."""
    return path is None or _DEVICE.search(path) is not None


def _option_values(options: str, words: Sequence[Word]) -> Iterator[str]:
    """The values of these options: after `=`, attached, or the next word; all candidates if ambiguous."""
    letters = {option[1] for option in options.split() if len(option) == 2}
    long = [option for option in options.split() if len(option) > 2]
    for at, word in enumerate(words):
        if word is None or not word.startswith("-"):
            continue
        after = script_of(words[at + 1 : at + 2])
        name, equals, value = word.partition("=")
        if any(option == name or (option.startswith(name) and len(name) > 2) for option in long):
            yield value if equals else after
        if word.startswith("--"):
            continue
        for letter in letters & set(word[1:]):
            attached = word[word.index(letter, 1) + 1 :]
            yield after
            if attached:
                yield attached


def _git(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    subcommand = _git_subcommand(rest)
    for at, word in enumerate(rest):
        if word is None:
            continue
        if word == "-c" and (at < subcommand or "clone" in rest) and at + 1 < len(rest):
            yield _git_setting(rest[at + 1])
        elif word.startswith(("--config-env", "--exec-path=")) or word == "--exec-path":
            yield NestedCommand(f"git {word.partition('=')[0]}", (None,))
        elif word == "config" and at + 1 < len(rest):
            yield from _git_config(rest[at + 1 :])
        elif word == "run" and "bisect" in rest[:at]:
            yield NestedCommand("git bisect run", tuple(rest[at + 1 :]))
        elif word == "foreach" and "submodule" in rest[:at]:
            yield NestedCommand(
                "git submodule foreach", script=script_of([x for x in rest[at + 1 :] if x != "--recursive"])
            )
        elif word.startswith("ext::"):
            yield NestedCommand("git", script=word.removeprefix("ext::"))


def _git_subcommand(rest: Sequence[Word]) -> int:
    """The position of the git subcommand, after git's own options."""
    at = 0
    while at < len(rest) and (rest[at] or "-").startswith("-"):
        at += 2 if rest[at] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace") else 1
    return at


def _git_setting(setting: Word) -> NestedCommand:
    key, _, value = (setting or "").partition("=")
    resolved = f"git {value}" if key.lower().startswith("alias.") and not value.startswith("!") else value.lstrip("!")
    return NestedCommand("git -c", script=f"{resolved} $_" if setting is not None else "$_")


def _git_config(rest: Sequence[Word]) -> Iterator[NestedCommand]:
    """`git config alias.q '!rm x'`: a later git runs the value."""
    for key, value in pairwise(_operands(rest)):
        if key is None or "." in key:
            yield _git_setting(None if key is None or value is None else f"{key}={value}")


def _operands(rest: Sequence[Word]) -> list[Word]:
    return [word for word in rest if word is None or not word.startswith("-")]


def _ssh(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    """`ssh HOST COMMAND`, with options before and after the host; without a command a remote shell reads the input."""
    at_host = _parse_options(_SSH[name], rest)
    yield from _ssh_settings(name, at_host)
    for words in at_host.candidates:
        scan = _parse_options(_SSH[name], words[1:])
        yield from _ssh_settings(name, scan)
        for command in scan.candidates:
            yield NestedCommand(name, script=script_of(command)) if command else _from_input(name, only_with_input=True)


def _ssh_copy(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    """`scp` and `sftp`, whose options can be anywhere."""
    words = tuple(rest)
    while words:
        scan = _parse_options(_SSH[name], words)
        yield from _ssh_settings(name, scan)
        words = scan.candidates[0][1:]


def _ssh_settings(name: str, scan: _ParsedOptions) -> Iterator[NestedCommand]:
    """Commands in settings, such as `-o ProxyCommand=…`."""
    if scan.unknown_option:
        yield NestedCommand(name, (None,), reason=f"the option '{scan.unknown_option}' of '{name}' is unknown")
    for option, value in scan.values:
        if option in ("-F", "-o") and value is None:
            yield NestedCommand(name, (None,), reason="an ssh setting is only known at run time")
        elif option == "-o" and (found := _SSH_COMMAND.match((value or "").strip())) is not None:
            yield NestedCommand(name, script=(value or "").strip()[found.end() :])
        elif option == "-o" and _SSH_PLAIN.fullmatch((value or "").strip()) is None:
            yield NestedCommand(name, (None,), reason=f"the ssh setting '{value}' may run a program")


def _parallel(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    """GNU parallel; without a command it runs its inputs."""
    marks = [at for at, word in enumerate(rest) if word is not None and word.startswith(":::")]
    yield NestedCommand(name, script=script_of([*rest[: marks[0]], None] if marks else rest))
    for word in rest[marks[0] + 1 :] if marks else ():
        yield NestedCommand(name, script=script_of([word]))
    if not any(word is not None and not word.startswith("-") for word in rest):
        yield _from_input(name)


def _find(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    for at, word in enumerate(rest):
        if word in _FIND_ACTIONS:
            inner = takewhile(lambda item: item not in (";", "+"), rest[at + 1 :])
            resolved = (None if item is not None and "{}" in item else item for item in inner)
            yield NestedCommand(f"{name} {word}", tuple(resolved), at=at + 2)


def _alias(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    """The value of an alias; more words follow where it is used."""
    for word in rest:
        if word is None or "=" in word:
            yield NestedCommand(name, script=script_of([None if word is None else word.partition("=")[2], None]))


def _hash(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    for at, word in enumerate(rest):
        if word is not None and word.startswith("-") and "p" in word:
            yield NestedCommand(name, (word.partition("p")[2] or next(iter(rest[at + 1 :]), None), None))


def _source(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    operands = rest[1:] if rest[:1] == ["--"] else rest
    if operands:
        yield _from_input(name) if _is_input(operands[0]) else NestedCommand(name, tuple(operands))


def _daemon(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    """`start-stop-daemon --exec PROGRAM -- ARGUMENTS`."""
    arguments = tuple(rest[rest.index("--") + 1 :]) if "--" in rest else ()
    for program in _option_values("-a -x --exec --startas", rest):
        yield NestedCommand(name, (program, *arguments))


def _module(name: str, rest: Sequence[Word]) -> Iterator[NestedCommand]:
    """`python3 -m pip install x` is pip."""
    for at, word in enumerate(rest):
        if word is None or not word.startswith("-"):
            return
        if (found := _MODULE.fullmatch(word)) is not None:
            yield NestedCommand(name, (found[1], *rest[at + 1 :]) if found[1] else tuple(rest[at + 1 :]))
            return


_SPECIAL: Final[dict[str, Callable[[str, Sequence[Word]], Iterable[NestedCommand]]]] = {
    **dict.fromkeys((".", "source"), _source),
    **dict.fromkeys(("at", "batch"), lambda name, rest: [_from_input(name)]),
    **dict.fromkeys(("scp", "sftp"), _ssh_copy),
    "alias": _alias,
    "coproc": lambda name, rest: [NestedCommand(name, tuple(rest)), NestedCommand(name, tuple(rest[1:]))],
    "eval": lambda name, rest: [NestedCommand(name, script=script_of(rest[1:] if rest[:1] == ["--"] else rest))],
    "find": _find,
    "git": _git,
    "hash": _hash,
    "parallel": _parallel,
    "ssh": _ssh,
    "start-stop-daemon": _daemon,
    "trap": lambda name, rest: [NestedCommand(name, script=script_of(_operands(rest)[:1]))],
}
COMMAND_RUNNERS: Final = (
    programs.OPAQUE_WRAPPERS
    | programs.RUN_PROGRAMS
    | programs.SHELL_STARTERS
    | set(programs.WRAPPERS)
    | {*("coproc", "eval", "parallel", "ssh", "trap")}
)
"""Programs that run their arguments as commands."""
