"""What a command text as a whole does: the files it may write, the variables it sets, and what that says about words.

Variables that the text never sets come from the environment and hold nothing that the text could have chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from holdfast.rules.shell.harmless import FREE, GIVEN, HOLE, TABLES, Told, Untold
from holdfast.rules.shell.programs import FILE_RUNNERS, INTERPRETERS, WRAPPERS, family, program_name
from holdfast.rules.shell.verdicts import Exact, Part, Pattern, Text, Variable, Word, word_set

_BARE: Final = re.compile(r"[A-Za-z0-9_./,:=@%+^-]+")
_QUOTED: Final = re.compile(r'[^"\\`$]+')
_NUMBER: Final = re.compile(
    r"\$[#?$!]|\$\{#[A-Za-z_]\w*\}|\$\(\((?:[\w\s+*/%-]|\$\{?\w+\}?|\([\w\s+*/%-]*\))*\)\)|\$\(nproc\)"
    r"|\$\(date(?: -u)?(?: [\"']?\+[%A-Za-z0-9_:.-]+[\"']?)?\)|`date(?: \+[%A-Za-z0-9_:.-]+)?`"
)
"""Expansions that are numbers or dates."""
_FOLDER: Final = re.compile(r"\$\(pwd\)|`pwd`|\$PWD\b|\$\{PWD\}")
_VALUE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)((?:[%^,]{1,2}|##?)[^}\"'`$\[\]]*)?\})")
_COMMAND: Final = re.compile(r"\$\([^()\"]*\)|`[^`\"]*`|\$\{[A-Za-z_]\w*[^}\"'`$\[\]]*\}|\$[0-9]")
_PARAMETER: Final = re.compile(r"\$(?:[0-9]|\{[0-9]\}|[@*]|\{[@*]\})")
_SPECIAL: Final = frozenset("$`\"'\\{}()<>&|;~!#*?[] \t\n")
_LISTED: Final = re.compile(r"[A-Za-z0-9_./]*\{[A-Za-z0-9_.,/]+\}[A-Za-z0-9_.,/{}]*")
"""A word in braces none of whose words begins with a dash."""
_TEXT_MADE: Final = re.compile(r"_|REPLY|OPTARG|OLDPWD|MAPFILE|DIRSTACK|COPROC|FUNCNAME|BASH_\w+|IFS|PIPESTATUS")
"""Variables that the shell sets to something that the text chooses."""
NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SYSTEM_PATH: Final = re.compile(
    r"PATH=[\"']?(?:(?:\$PATH|\$\{PATH\}|/(?:usr/)?(?:local/)?s?bin|/opt/homebrew/bin):?)+[\"']?"
)
SETTING: Final = frozenset({"getopts", "mapfile", "printf", "read", "readarray", "wait"})
DECLARING: Final = frozenset({"declare", "export", "local", "readonly", "typeset"})
CODE_OPTION: Final = re.compile(r"-\w*[eEcr]|-[ecr].*|--(?:eval|expression|command|run)(?:=.*)?", re.DOTALL)
"""What code is given by, so that operands are not."""
_PARAMETRIC: Final = FILE_RUNNERS | {"eval", "getopts", "set", "shift"}
_DEVICE: Final = re.compile(r"(?:^|/)(?:dev|proc)(?:/|$)")
_QUIET: Final = word_set("""
    : [ [[ basename break cal cat cd chgrp chmod chown cmp comm continue cut date df diff dirname du echo egrep exit
    export expr false fgrep file free grep groups head hostname id jq kill last let local ls lsof md5sum mkdir nl nproc
    pgrep ping pkill popd printenv ps pushd pwd read readlink realpath return rm rmdir seq set sha256sum shift shopt
    sleep stat sync tail test touch tput tr true type umask uname unset wait wc which who whoami zcat declare typeset
    readonly printf rev base64 eval trap sum column dirs expand fmt fold hexdump join lsblk lscpu od paste rg sha1sum
    sha512sum stty strings tac time tty uptime users w whatis whereis yes
""")
"""Programs that write no file of their own accord."""
_COPYING: Final = frozenset({"cp", "install", "ln", "mv", "rsync"})
_FETCHING: Final = word_set("cargo curl git gunzip gzip make npm pip pip3 tar unzip wget")
"""Programs that write what comes from elsewhere, if they are not given text."""
_RECEIVING: Final = frozenset({"am", "apply", "config", "fast-import", "hash-object", "update-index"})
_LATER: Final = (("alias",), ("at",), ("coproc",), ("trap",))
"""Commands that run something later."""
ANY: Final = "*"
"""Any file at all."""


class Effects:
    """One command text: what it writes and sets, and what is known about a word of it because of that."""

    def __init__(self, parts: Sequence[Part], loops: Mapping[str, tuple[Exact, ...]]) -> None:
        self.parts = parts
        self._loops = loops

    @cached_property
    def written(self) -> frozenset[str]:
        """The names of the files that the text may write; `ANY` if they cannot be told."""
        return self._files(self.parts)

    def _files(self, parts: Sequence[Part]) -> frozenset[str]:
        copied, made = set[str](), set[str]()
        for part in parts:
            if part.kind == "redirection":
                made |= _redirected(part)
            elif part.kind == "command" and part.words[0] is not None and not part.guessed:
                name = program_name(part.words[0])
                (copied if name in _COPYING else made).update(self._files_of(name, part))
        return frozenset({ANY} if copied and made else copied | made)

    def _files_of(self, name: str, part: Part) -> Iterable[str]:
        words = part.words[1:]
        if name in _QUIET or name in FILE_RUNNERS or part.inside in FILE_RUNNERS:
            return ()
        if name == "tee":
            return (ANY if word is None else program_name(word) for word in words if not (word or "").startswith("-"))
        if name in ("awk", "gawk", "mawk", "sed"):
            sign = ("w", "W", "-i", "e") if name == "sed" else (">", "|", "system")
            return (ANY,) if any(word is None or any(mark in word for mark in sign) for word in words) else ()
        if name in _COPYING:
            untold = None in words or any(_DEVICE.search(word or "") for word in words)
            return (ANY,) if untold else (program_name((word or "").rstrip("/")) for word in words)
        if name == "sort":
            return (ANY,) if any(word is not None and word.startswith("-") and "o" in word for word in words) else ()
        if name == "uniq":
            return (ANY,) if sum(not (word or "").startswith("-") or word == "-" for word in words) > 1 else ()
        if name == "find":
            return (ANY,) if any(word is not None and word.startswith(("-fp", "-fl")) for word in words) else ()
        if name in _FETCHING and not (self.is_given_text or part.piped) and not set(words) & _RECEIVING:
            return ()
        code = any(CODE_OPTION.fullmatch(word or "-e") for word in words)
        if family(name).lower() in INTERPRETERS and (code or part.piped or self.is_given_text):
            return (ANY,)
        known = name in FREE or name in TABLES
        if name in WRAPPERS or name in FILE_RUNNERS:
            return ()
        return (ANY,) if known or self.is_given_text else ()

    @cached_property
    def is_given_text(self) -> bool:
        """Whether here-documents or here-strings stand in the text."""
        return any(part.kind == "redirection" and (part.words[0] or "").startswith("<<") for part in self.parts)

    def may_have_written(self, path: str, at: int) -> bool:
        """Whether the text may have written a file before the part that runs it."""
        unordered = any(part.kind == "opaque" or part.piped or part.words[:1] in _LATER for part in self.parts)
        files = self.written if unordered else self._files(self.parts[:at])
        return ANY in files or program_name(path) in files

    @cached_property
    def _own(self) -> frozenset[str]:
        """Variables that the text sets; `ANY` if it may set any."""
        names = set[str]()
        for part in self.parts:
            if part.kind == "assignment":
                names.add((part.words[0] or ANY).partition("[")[0])
            elif part.kind == "command":
                names.update(_named(part))
        return frozenset(names)

    @cached_property
    def exported(self) -> frozenset[str]:
        names = set[str]()
        for part in self.parts:
            name, rest = (part.words[0], part.words[1:]) if part.kind == "command" else ("", ())
            if name == "export" or (name in DECLARING and any("x" in (word or "") for word in rest[:1])):
                names.update(_named(part))
            elif name == "set" and any(re.match(r"-\w*a|allexport", word or "-a") for word in rest):
                names.add(ANY)
        return frozenset(names)

    @cached_property
    def obeys_variables(self) -> bool:
        """Whether there are programs that may do what variables say."""
        commands = (part.words[0] for part in self.parts if part.kind == "command")
        return any(name is None or (program_name(name) not in FREE or "/" in name) for name in commands)

    @cached_property
    def changes_path(self) -> bool:
        set_here = (part for part in self.parts if part.kind == "assignment" and part.words[0] == "PATH")
        declared = (
            word
            for part in self.parts
            if part.kind == "command" and (part.words[0] in DECLARING or part.words[0] in ("env", *SETTING))
            for word in (part.written or [word or "" for word in part.words])[1:]
        )
        found = [part.text for part in set_here] + [
            word.strip("\"'") for word in declared if re.match(r"[\"']?PATH\b", word)
        ]
        return any(text != "PATH" and _SYSTEM_PATH.fullmatch(text) is None for text in found)

    def _is_given(self, name: str) -> bool:
        """Whether a variable comes from the environment."""
        return name not in self._own and ANY not in self._own and _TEXT_MADE.fullmatch(name) is None

    def _is_safe_loop(self, name: str) -> bool:
        values = self._loops.get(name)
        return bool(values) and all(self._is_operand(value) for value in values or ())

    def _is_operand(self, value: Exact) -> bool:
        if isinstance(value, Pattern):
            return value.text[:1] not in ("-", "+") and (value.text[:1] not in "*?[" or not self._names_files)
        return isinstance(value, str) and not value.startswith(("-", "+")) and not re.search(r"\s", value)

    @cached_property
    def _names_files(self) -> bool:
        """Whether the text may make files whose names begin with a dash, which patterns match."""
        return any(
            word is None or word.startswith("--") or "/-" in word
            for part in self.parts
            if _redirected(part) or (part.kind == "command" and self._makes_files(part))
            for word in part.words[1:]
        )

    def _makes_files(self, part: Part) -> bool:
        name = program_name(part.words[0] or "")
        return name in ("mkdir", "touch", "mktemp", "mkfifo") or bool(set(self._files_of(name, part)))

    @cached_property
    def _has_parameters(self) -> bool:
        """Whether `$1` may be something that the text chooses."""
        names = {program_name(part.words[0] or "eval") for part in self.parts if part.kind == "command"}
        return bool(names & _PARAMETRIC) or any(part.obstacle == "it defines a function" for part in self.parts)

    def _is_listed(self, at: int) -> bool:
        """Whether xargs at this position is given names of files as they are, by find or the like."""
        commands = [part for part in self.parts[:at] if part.kind == "command" and not part.derived]
        if not commands or program_name(commands[-1].words[0] or "") != "xargs" or None in commands[-1].words:
            return False
        for part, after in zip(reversed(commands[:-1]), reversed(commands), strict=False):
            words = [word or "" for word in part.words]
            if not after.piped:
                return False
            if words[0] in ("find", "ls", "locate", "fd") or words[:2] == ["git", "ls-files"]:
                return not self._names_files and not any(word.startswith("-printf") for word in words)
            if words[0] not in ("egrep", "fgrep", "grep", "head", "sort", "tail", "uniq"):
                return False
        return False

    def told(self, part: Part, at: int) -> list[Told]:
        if part.inside == "xargs" and not part.written and self._is_listed(at):
            return [Untold.OPERAND if word is None else word for word in part.words[1:]]
        written = part.written if len(part.written) == len(part.words) else ("",) * len(part.words)
        exact: Sequence[Exact] = part.exact if len(part.exact) == len(part.words) else (None,) * len(part.words)
        return [self._tell(*word) for word in zip(part.words[1:], written[1:], exact[1:], strict=True)]

    def _tell(self, word: Word, written: str, exact: Exact) -> Told:
        if word is not None:
            return word
        made = self._skeleton(written)
        if made is not None:
            return made
        if isinstance(exact, Text) or (isinstance(exact, Variable) and exact.is_quoted):
            return Untold.ONE
        return Untold.MANY

    def _skeleton(self, written: str) -> Told | None:
        """A word with holes for what cannot be told; None if it may be several words."""
        if _LISTED.fullmatch(written) or (written.startswith("<(") and written.endswith(")")):
            return Untold.OPERAND
        at, made, globs = 0, list[str](), False
        if written.startswith("~"):
            at, made = 1, ["/"]
        while at < len(written):
            char = written[at]
            if (found := _BARE.match(written, at)) is not None:
                made.append(found[0])
                at = found.end()
            elif char == "\\" and at + 1 < len(written):
                made.append(written[at + 1])
                at += 2
            elif char == "'" and (end := written.find("'", at + 1)) > 0:
                made.append(written[at + 1 : end])
                at = end + 1
            elif char == '"':
                at, quoted = self._quoted(written, at + 1)
                if quoted is None:
                    return None
                made.append(quoted)
            elif written.startswith("{}", at):
                made.append("{}")
                at += 2
            elif char not in _SPECIAL or written[at:] == "$":
                made.append(char)
                at += 1
            elif char in "*?[]":
                globs = True
                made.append("*")
                at += 1
            else:
                at, value = self._value(written, at)
                if value is None or value == HOLE:
                    return None
                made.append(value)
        text = _with_given("".join(made))
        if not globs:
            return text if text or written else None
        is_operand = text[:1] not in ("-", "+", HOLE) and (text[:1] != "*" or not self._names_files)
        return Untold.OPERAND if is_operand else None

    def _quoted(self, written: str, at: int) -> tuple[int, str | None]:
        made: list[str] = []
        while at < len(written) and written[at] != '"':
            if (found := _QUOTED.match(written, at)) is not None:
                made.append(found[0])
                at = found.end()
            elif written[at] == "\\":
                made.append(written[at + 1 : at + 2])
                at += 2
            else:
                at, value = self._value(written, at)
                if value is None:
                    return at, None
                made.append(value)
        return at + 1, "".join(made)

    def _value(self, written: str, at: int) -> tuple[int, str | None]:
        """What an expansion is: a number, what the environment holds, or a hole; None if it is not modelled."""
        if (found := _NUMBER.match(written, at)) is not None:
            return found.end(), "0"
        if (found := _FOLDER.match(written, at)) is not None and self._is_given("PWD"):
            return found.end(), "/x"
        if (found := _VALUE.match(written, at)) is not None:
            name = found[1] or found[2]
            whole = not (found[3] or "").startswith(("#", "^", ","))
            known = self._is_given(name) or (whole and self._is_safe_loop(name))
            return found.end(), GIVEN if known else HOLE
        if (found := _PARAMETER.match(written, at)) is not None and not self._has_parameters:
            return found.end(), GIVEN
        if (found := _COMMAND.match(written, at)) is not None:
            return found.end(), HOLE
        return at, None


def _with_given(text: str) -> str:
    """A word that begins with what the environment holds is no option, unless it would be one without that."""
    if not text.startswith(GIVEN):
        return text
    rest = text.replace(GIVEN, "")
    return HOLE + text if rest.startswith(("-", "+")) else f"x{text[1:]}"


def _redirected(part: Part) -> set[str]:
    if part.kind != "redirection" or ">" not in (part.words[0] or ""):
        return set()
    target = part.words[-1]
    if target is None:
        return {ANY}
    is_file = target != "/dev/null" and re.fullmatch(r"[0-9-]+", target) is None
    return {program_name(target)} if is_file else set()


def _named(part: Part) -> Iterator[str]:
    """The variables that a builtin sets; `ANY` if one cannot be told."""
    name = part.words[0]
    if name not in SETTING and name not in DECLARING and name not in ("env", "let", "coproc", "unset"):
        return
    written = part.written or tuple(word or "" for word in part.words)
    for word, spelt in zip(part.words[1:], written[1:], strict=False):
        found = NAME.match((spelt if word is None else word).lstrip("\"'"))
        if found is not None:
            yield found[0]
        elif word is None and (name != "printf" or "-v" in part.words):
            yield ANY
