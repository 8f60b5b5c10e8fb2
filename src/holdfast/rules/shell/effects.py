"""Effects of a command text: the files it may write and the variables it sets, and what follows for unknown words.

A variable that the text never sets comes from the environment, so the text cannot have chosen its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from holdfast.rules.shell.harmless import (
    FROM_ENVIRONMENT,
    HARMLESS_PROGRAMS,
    OPTION_TABLES,
    UNKNOWN_PIECE,
    ResolvedWord,
    UnknownWord,
)
from holdfast.rules.shell.parts import CommandPart, GlobWord, ParsedWord, QuotedWord, VariableWord, Word, word_set
from holdfast.rules.shell.programs import FILE_RUNNERS, INTERPRETERS, WRAPPERS, family, program_name

_BARE: Final = re.compile(r"[A-Za-z0-9_./,:=@%+^-]+")
_QUOTED: Final = re.compile(r'[^"\\`$]+')
_NUMBER: Final = re.compile(
    r"\$[#?$!]|\$\{#[A-Za-z_]\w*\}|\$\(\((?:[\w\s+*/%-]|\$\{?\w+\}?|\([\w\s+*/%-]*\))*\)\)|\$\(nproc\)"
    r"|\$\(date(?: -u)?(?: [\"']?\+[%A-Za-z0-9_:.-]+[\"']?)?\)|`date(?: \+[%A-Za-z0-9_:.-]+)?`"
)
"""Expansions that can only be numbers or dates."""
_FOLDER: Final = re.compile(r"\$\(pwd\)|`pwd`|\$PWD\b|\$\{PWD\}")
_VALUE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)((?:[%^,]{1,2}|##?)[^}\"'`$\[\]]*)?\})")
_COMMAND: Final = re.compile(r"\$\([^()\"]*\)|`[^`\"]*`|\$\{[A-Za-z_]\w*[^}\"'`$\[\]]*\}|\$[0-9]")
_PARAMETER: Final = re.compile(r"\$(?:[0-9]|\{[0-9]\}|[@*]|\{[@*]\})")
_SPECIAL: Final = frozenset("$`\"'\\{}()<>&|;~!#*?[] \t\n")
_BRACED_OPERANDS: Final = re.compile(r"[A-Za-z0-9_./]*\{[A-Za-z0-9_.,/]+\}[A-Za-z0-9_.,/{}]*")
"""A brace expansion in which no word starts with a dash."""
_SHELL_SET: Final = re.compile(r"_|REPLY|OPTARG|OLDPWD|MAPFILE|DIRSTACK|COPROC|FUNCNAME|BASH_\w+|IFS|PIPESTATUS")
"""Variables that the shell sets to a value that the text can choose."""
VARIABLE_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SYSTEM_PATH: Final = re.compile(
    r"PATH=[\"']?(?:(?:\$PATH|\$\{PATH\}|/(?:usr/)?(?:local/)?s?bin|/opt/homebrew/bin):?)+[\"']?"
)
SETTING_BUILTINS: Final = frozenset({"getopts", "mapfile", "printf", "read", "readarray", "wait"})
DECLARING_BUILTINS: Final = frozenset({"declare", "export", "local", "readonly", "typeset"})
CODE_OPTION: Final = re.compile(r"-\w*[eEcr]|-[ecr].*|--(?:eval|expression|command|run)(?:=.*)?", re.DOTALL)
"""Options that take code, so that the operands are not code."""
_SETS_PARAMETERS: Final = FILE_RUNNERS | {"eval", "getopts", "set", "shift"}
_DEVICE: Final = re.compile(r"(?:^|/)(?:dev|proc)(?:/|$)")
_NON_WRITING: Final = word_set("""
    : [ [[ basename break cal cat cd chgrp chmod chown cmp comm continue cut date df diff dirname du echo egrep exit
    export expr false fgrep file free grep groups head hostname id jq kill last let local ls lsof md5sum mkdir nl nproc
    pgrep ping pkill popd printenv ps pushd pwd read readlink realpath return rm rmdir seq set sha256sum shift shopt
    sleep stat sync tail test touch tput tr true type umask uname unset wait wc which who whoami zcat declare typeset
    readonly printf rev base64 eval trap sum column dirs expand fmt fold hexdump join lsblk lscpu od paste rg sha1sum
    sha512sum stty strings tac time tty uptime users w whatis whereis yes
""")
"""Programs that write no files."""
_COPIERS: Final = frozenset({"cp", "install", "ln", "mv", "rsync"})
_FETCHERS: Final = word_set("cargo curl git gunzip gzip make npm pip pip3 tar unzip wget")
"""Programs that write downloaded or unpacked content, unless they get text from the command."""
_GIT_INPUT_SUBCOMMANDS: Final = frozenset({"am", "apply", "config", "fast-import", "hash-object", "update-index"})
_DEFERRED: Final = (("alias",), ("at",), ("coproc",), ("trap",))
"""Commands that run something later, so that the order in the text does not matter."""
ANYTHING: Final = "*"
"""Stands for any file or any variable."""


class CommandEffects:
    """What a command text writes and sets, and what is therefore known about its words."""

    def __init__(self, parts: Sequence[CommandPart], loops: Mapping[str, tuple[ParsedWord, ...]]) -> None:
        self.parts = parts
        self._loops = loops

    @cached_property
    def written_files(self) -> frozenset[str]:
        """The names of the files that the text may write; `ANYTHING` if they are unknown."""
        return self._files(self.parts)

    def _files(self, parts: Sequence[CommandPart]) -> frozenset[str]:
        copied, created = set[str](), set[str]()
        for part in parts:
            if part.kind == "redirection":
                created |= _redirect_targets(part)
            elif part.kind == "command" and part.words[0] is not None and not part.guessed:
                name = program_name(part.words[0])
                (copied if name in _COPIERS else created).update(self._files_of(name, part))
        return frozenset({ANYTHING} if copied and created else copied | created)

    def _files_of(self, name: str, part: CommandPart) -> Iterable[str]:
        words = part.words[1:]
        if name in _NON_WRITING or name in FILE_RUNNERS or part.inside in FILE_RUNNERS:
            return ()
        if name == "tee":
            return (
                ANYTHING if word is None else program_name(word) for word in words if not (word or "").startswith("-")
            )
        if name in ("awk", "gawk", "mawk", "sed"):
            sign = ("w", "W", "-i", "e") if name == "sed" else (">", "|", "system")
            return (ANYTHING,) if any(word is None or any(mark in word for mark in sign) for word in words) else ()
        if name in _COPIERS:
            is_unknown = None in words or any(_DEVICE.search(word or "") for word in words)
            return (ANYTHING,) if is_unknown else (program_name((word or "").rstrip("/")) for word in words)
        if name == "sort":
            return (
                (ANYTHING,) if any(word is not None and word.startswith("-") and "o" in word for word in words) else ()
            )
        if name == "uniq":
            return (ANYTHING,) if sum(not (word or "").startswith("-") or word == "-" for word in words) > 1 else ()
        if name == "find":
            return (ANYTHING,) if any(word is not None and word.startswith(("-fp", "-fl")) for word in words) else ()
        if name in _FETCHERS and not (self.is_given_text or part.piped) and not set(words) & _GIT_INPUT_SUBCOMMANDS:
            return ()
        code = any(CODE_OPTION.fullmatch(word or "-e") for word in words)
        if family(name).lower() in INTERPRETERS and (code or part.piped or self.is_given_text):
            return (ANYTHING,)
        known = name in HARMLESS_PROGRAMS or name in OPTION_TABLES
        if name in WRAPPERS or name in FILE_RUNNERS:
            return ()
        return (ANYTHING,) if known or self.is_given_text else ()

    @cached_property
    def is_given_text(self) -> bool:
        """Whether the text contains here-documents or here-strings."""
        return any(part.kind == "redirection" and (part.words[0] or "").startswith("<<") for part in self.parts)

    def may_have_written(self, path: str, at: int) -> bool:
        """Whether the text may have written a file before the part that runs it."""
        unordered = any(part.kind == "opaque" or part.piped or part.words[:1] in _DEFERRED for part in self.parts)
        files = self.written_files if unordered else self._files(self.parts[:at])
        return ANYTHING in files or program_name(path) in files

    @cached_property
    def _assigned(self) -> frozenset[str]:
        """The variables that the text sets; `ANYTHING` if it may set any."""
        names = set[str]()
        for part in self.parts:
            if part.kind == "assignment":
                names.add((part.words[0] or ANYTHING).partition("[")[0])
            elif part.kind == "command":
                names.update(_variables_set(part))
        return frozenset(names)

    @cached_property
    def exported(self) -> frozenset[str]:
        names = set[str]()
        for part in self.parts:
            name, rest = (part.words[0], part.words[1:]) if part.kind == "command" else ("", ())
            if name == "export" or (name in DECLARING_BUILTINS and any("x" in (word or "") for word in rest[:1])):
                names.update(_variables_set(part))
            elif name == "set" and any(re.match(r"-\w*a|allexport", word or "-a") for word in rest):
                names.add(ANYTHING)
        return frozenset(names)

    @cached_property
    def acts_on_variables(self) -> bool:
        """Whether the text runs programs that may act on environment variables."""
        commands = (part.words[0] for part in self.parts if part.kind == "command")
        return any(name is None or (program_name(name) not in HARMLESS_PROGRAMS or "/" in name) for name in commands)

    @cached_property
    def changes_path(self) -> bool:
        set_here = (part for part in self.parts if part.kind == "assignment" and part.words[0] == "PATH")
        declared = (
            word
            for part in self.parts
            if part.kind == "command"
            and (part.words[0] in DECLARING_BUILTINS or part.words[0] in ("env", *SETTING_BUILTINS))
            for word in (part.raw_words or [word or "" for word in part.words])[1:]
        )
        found = [part.text for part in set_here] + [
            word.strip("\"'") for word in declared if re.match(r"[\"']?PATH\b", word)
        ]
        return any(text != "PATH" and _SYSTEM_PATH.fullmatch(text) is None for text in found)

    def _is_inherited(self, name: str) -> bool:
        """Whether the value of a variable comes from the environment."""
        return name not in self._assigned and ANYTHING not in self._assigned and _SHELL_SET.fullmatch(name) is None

    def _is_safe_loop(self, name: str) -> bool:
        values = self._loops.get(name)
        return bool(values) and all(self._is_operand(value) for value in values or ())

    def _is_operand(self, value: ParsedWord) -> bool:
        if isinstance(value, GlobWord):
            return value.text[:1] not in ("-", "+") and (value.text[:1] not in "*?[" or not self._creates_dash_names)
        return isinstance(value, str) and not value.startswith(("-", "+")) and not re.search(r"\s", value)

    @cached_property
    def _creates_dash_names(self) -> bool:
        """Whether the text may create files whose names start with a dash, which a glob would turn into options."""
        return any(
            word is None or word.startswith("--") or "/-" in word
            for part in self.parts
            if _redirect_targets(part) or (part.kind == "command" and self._makes_files(part))
            for word in part.words[1:]
        )

    def _makes_files(self, part: CommandPart) -> bool:
        name = program_name(part.words[0] or "")
        return name in ("mkdir", "touch", "mktemp", "mkfifo") or bool(set(self._files_of(name, part)))

    @cached_property
    def _has_parameters(self) -> bool:
        """Whether the text can choose the value of `$1`."""
        names = {program_name(part.words[0] or "eval") for part in self.parts if part.kind == "command"}
        return bool(names & _SETS_PARAMETERS) or any(part.obstacle == "it defines a function" for part in self.parts)

    def _is_listed(self, at: int) -> bool:
        """Whether xargs at this position reads unchanged file names from find or a similar program."""
        commands = [part for part in self.parts[:at] if part.kind == "command" and not part.derived]
        if not commands or program_name(commands[-1].words[0] or "") != "xargs" or None in commands[-1].words:
            return False
        for part, after in zip(reversed(commands[:-1]), reversed(commands), strict=False):
            words = [word or "" for word in part.words]
            if not after.piped:
                return False
            if words[0] in ("find", "ls", "locate", "fd") or words[:2] == ["git", "ls-files"]:
                return not self._creates_dash_names and not any(word.startswith("-printf") for word in words)
            if words[0] not in ("egrep", "fgrep", "grep", "head", "sort", "tail", "uniq"):
                return False
        return False

    def resolved_words(self, part: CommandPart, at: int) -> list[ResolvedWord]:
        if part.inside == "xargs" and not part.raw_words and self._is_listed(at):
            return [UnknownWord.OPERAND if word is None else word for word in part.words[1:]]
        raw_words = part.raw_words if len(part.raw_words) == len(part.words) else ("",) * len(part.words)
        parsed_words: Sequence[ParsedWord] = (
            part.parsed_words if len(part.parsed_words) == len(part.words) else (None,) * len(part.words)
        )
        return [self._resolve_word(*word) for word in zip(part.words[1:], raw_words[1:], parsed_words[1:], strict=True)]

    def _resolve_word(self, word: Word, raw: str, parsed: ParsedWord) -> ResolvedWord:
        if word is not None:
            return word
        resolved = self._resolve_raw(raw)
        if resolved is not None:
            return resolved
        if isinstance(parsed, QuotedWord) or (isinstance(parsed, VariableWord) and parsed.is_quoted):
            return UnknownWord.ONE
        return UnknownWord.MANY

    def _resolve_raw(self, raw: str) -> ResolvedWord | None:
        """The word with markers for its unknown pieces; None if it may be several words."""
        if _BRACED_OPERANDS.fullmatch(raw) or (raw.startswith("<(") and raw.endswith(")")):
            return UnknownWord.OPERAND
        at, pieces, globs = 0, list[str](), False
        if raw.startswith("~"):
            at, pieces = 1, ["/"]
        while at < len(raw):
            char = raw[at]
            if (found := _BARE.match(raw, at)) is not None:
                pieces.append(found[0])
                at = found.end()
            elif char == "\\" and at + 1 < len(raw):
                pieces.append(raw[at + 1])
                at += 2
            elif char == "'" and (end := raw.find("'", at + 1)) > 0:
                pieces.append(raw[at + 1 : end])
                at = end + 1
            elif char == '"':
                at, quoted = self._quoted(raw, at + 1)
                if quoted is None:
                    return None
                pieces.append(quoted)
            elif raw.startswith("{}", at):
                pieces.append("{}")
                at += 2
            elif char not in _SPECIAL or raw[at:] == "$":
                pieces.append(char)
                at += 1
            elif char in "*?[]":
                globs = True
                pieces.append("*")
                at += 1
            else:
                at, value = self._value(raw, at)
                if value is None or value == UNKNOWN_PIECE:
                    return None
                pieces.append(value)
        text = _without_leading_value("".join(pieces))
        if not globs:
            return text if text or raw else None
        is_operand = text[:1] not in ("-", "+", UNKNOWN_PIECE) and (text[:1] != "*" or not self._creates_dash_names)
        return UnknownWord.OPERAND if is_operand else None

    def _quoted(self, raw: str, at: int) -> tuple[int, str | None]:
        pieces: list[str] = []
        while at < len(raw) and raw[at] != '"':
            if (found := _QUOTED.match(raw, at)) is not None:
                pieces.append(found[0])
                at = found.end()
            elif raw[at] == "\\":
                pieces.append(raw[at + 1 : at + 2])
                at += 2
            else:
                at, value = self._value(raw, at)
                if value is None:
                    return at, None
                pieces.append(value)
        return at + 1, "".join(pieces)

    def _value(self, raw: str, at: int) -> tuple[int, str | None]:
        """The value of an expansion: a number, a marker for an inherited or unknown value, or None if not supported."""
        if (found := _NUMBER.match(raw, at)) is not None:
            return found.end(), "0"
        if (found := _FOLDER.match(raw, at)) is not None and self._is_inherited("PWD"):
            return found.end(), "/x"
        if (found := _VALUE.match(raw, at)) is not None:
            name = found[1] or found[2]
            whole = not (found[3] or "").startswith(("#", "^", ","))
            known = self._is_inherited(name) or (whole and self._is_safe_loop(name))
            return found.end(), FROM_ENVIRONMENT if known else UNKNOWN_PIECE
        if (found := _PARAMETER.match(raw, at)) is not None and not self._has_parameters:
            return found.end(), FROM_ENVIRONMENT
        if (found := _COMMAND.match(raw, at)) is not None:
            return found.end(), UNKNOWN_PIECE
        return at, None


def _without_leading_value(text: str) -> str:
    """A word that starts with an inherited value cannot be an option, unless it is one when that value is empty."""
    if not text.startswith(FROM_ENVIRONMENT):
        return text
    rest = text.replace(FROM_ENVIRONMENT, "")
    return UNKNOWN_PIECE + text if rest.startswith(("-", "+")) else f"x{text[1:]}"


def _redirect_targets(part: CommandPart) -> set[str]:
    if part.kind != "redirection" or ">" not in (part.words[0] or ""):
        return set()
    target = part.words[-1]
    if target is None:
        return {ANYTHING}
    is_file = target != "/dev/null" and re.fullmatch(r"[0-9-]+", target) is None
    return {program_name(target)} if is_file else set()


def _variables_set(part: CommandPart) -> Iterator[str]:
    """The variables that a builtin sets; `ANYTHING` if a name is unknown."""
    name = part.words[0]
    if (
        name not in SETTING_BUILTINS
        and name not in DECLARING_BUILTINS
        and name not in ("env", "let", "coproc", "unset")
    ):
        return
    raw_words = part.raw_words or tuple(word or "" for word in part.words)
    for word, spelt in zip(part.words[1:], raw_words[1:], strict=False):
        found = VARIABLE_NAME.match((spelt if word is None else word).lstrip("\"'"))
        if found is not None:
            yield found[0]
        elif word is None and (name != "printf" or "-v" in part.words):
            yield ANYTHING
