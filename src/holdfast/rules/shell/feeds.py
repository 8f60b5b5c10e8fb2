"""What a command prints for the next one: names of project files and nothing else, or anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.rules.shell.place import Feed
from holdfast.rules.shell.readers import READERS, Arguments, read_xargs, split_arguments

_FIND_PRINTS_MORE: Final = frozenset({"-exec", "-help", "--help", "-ls", "-printf", "-version", "--version"})
_GREP: Final = frozenset({"egrep", "fgrep", "grep"})
_GREP_LISTS: Final = frozenset({"-L", "-l", "--files-with-matches", "--files-without-match"})
_GREP_CHOOSES: Final = frozenset(
    {"-E", "-F", "-G", "-I", "-P", "-a", "-e", "-h", "-i", "-n", "-r", "-s", "-v", "-w", "-x"}
    | {"--exclude", "--exclude-dir", "--extended-regexp", "--fixed-strings", "--ignore-case", "--include"}
    | {"--invert-match", "--line-regexp", "--no-messages", "--perl-regexp", "--recursive", "--word-regexp"}
)
"""Options of grep that say which files it lists, and leave their names as they are."""
_RG_LISTS: Final = frozenset({"-l", "--files", "--files-with-matches", "--files-without-match"})
_RG_CHOOSES: Final = frozenset(
    {"-F", "-S", "-e", "-g", "-i", "-n", "-s", "-t", "-v", "-w", "-x", "--glob", "--hidden", "--no-ignore", "--type"}
)
_PASSED_ON: Final = {
    **dict.fromkeys(_GREP, frozenset({"-E", "-F", "-G", "-P", "-a", "-e", "-h", "-i", "-s", "-v", "-w", "-x"})),
    "head": frozenset({"-n", "--lines", "-"}),
    "sort": frozenset({"-R", "-V", "-b", "-d", "-f", "-g", "-h", "-i", "-k", "-n", "-r", "-s", "-t", "-u"}),
    "tac": frozenset[str](),
    "tail": frozenset({"-n", "--lines", "-"}),
    "uniq": frozenset({"-d", "-i", "-u"}),
}
"""Programs and options with which they print whole lines of what they are given, and nothing else."""


def feeds(words: Sequence[str], given: Feed) -> Feed:
    """How an approved command separates names of project files, if it prints nothing else. `given`: those it reads."""
    name, rest = words[0], list(words[1:])
    match name:
        case "find" if not _FIND_PRINTS_MORE.intersection(rest):
            return "lines" if "-print0" not in rest else "" if "-print" in rest else "nulls"
        case "ls" if all(not word.startswith("-") or word in ("-1", "-A", "-d") for word in rest):
            return "lines"  # not with -a: the folder above is no file of the project
        case "xargs":
            inner = read_xargs(words)
            return "lines" if given and not isinstance(inner, str) and _lists(inner.words) else ""
        case _ if _lists(words):
            return "lines"
        case _:
            return given if given == "lines" and _passes_on(words) else ""


def _read(words: Sequence[str]) -> Arguments | None:
    read = split_arguments(READERS[words[0]], words[1:])
    return None if isinstance(read, str) else read


def _lists(words: Sequence[str]) -> bool:
    """Whether grep or rg prints the names of files and nothing else."""
    if words[0] not in _GREP | {"rg"} or (read := _read(words)) is None:
        return False
    listing, choosing = (_RG_LISTS, _RG_CHOOSES) if words[0] == "rg" else (_GREP_LISTS, _GREP_CHOOSES)
    options = set(read.options)
    return bool(options & listing) and options <= listing | choosing


def _passes_on(words: Sequence[str]) -> bool:
    """Whether a command reads its input, not a file, and prints lines of it as they are."""
    known = _PASSED_ON.get(words[0])
    if known is None or (read := _read(words)) is None or not known.issuperset(read.options):
        return False
    patterns = 1 if words[0] in _GREP and "-e" not in read.options else 0
    return len(read.operands) == patterns
