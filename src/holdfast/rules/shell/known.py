"""What is known about single programs: which options of readers are harmless, and what must never be allowed wide."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec import Struct

from holdfast.rules.shell.place import NOWHERE, Place

Operands = Literal["paths", "text", "none", "pattern", "one path"]
_NUMBER: Final = re.compile(r"-[0-9]+")
_SED_LINES: Final = re.compile(r"([0-9]+|\$)(,([0-9]+|\$))?p")
_PROGRAM_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", re.ASCII)


class Reader(Struct, frozen=True, kw_only=True):
    """A program that only reads, with these options. What is not named here is asked about."""

    flags: str = ""
    """Letters that stand alone or together."""
    valued: str = ""
    """Letters whose value follows, attached or as the next word."""
    long: tuple[str, ...] = ()
    """Long options; with `=` at the end those that have a value."""
    operands: Operands = "paths"
    numbers: bool = False
    """Whether `-5` is an option."""


class Arguments(Struct, frozen=True):
    options: tuple[str, ...]
    operands: tuple[str, ...]


def split_arguments(reader: Reader, words: Sequence[str]) -> Arguments | str:
    """Options and operands, or what is not known about them."""
    options, operands = list[str](), list[str]()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands += rest
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
        elif word.startswith("--"):
            name, equals, _ = word.partition("=")
            if name + equals not in reader.long:
                return f"its option '{word}' is not known to be harmless"
            options.append(name)
        elif reader.numbers and _NUMBER.fullmatch(word):
            options.append("-")
        else:
            odd = _letters(reader, word[1:], rest, options)
            if odd:
                return f"its option '-{odd}' is not known to be harmless"
    return Arguments(tuple(options), tuple(operands))


def _letters(reader: Reader, letters: str, rest: list[str], options: list[str]) -> str:
    """Take a bundle of letters apart; what is returned is not known."""
    for at, letter in enumerate(letters):
        if letter in reader.valued:
            options.append(f"-{letter}")
            if at + 1 == len(letters) and not rest:
                return letter
            if at + 1 == len(letters):
                rest.pop(0)
            return ""
        if letter not in reader.flags:
            return letter
        options.append(f"-{letter}")
    return ""


def check_reader(reader: Reader, words: Sequence[str], place: Place) -> str:
    """Why these arguments are more than reading in the project; empty if they are not."""
    read = split_arguments(reader, words[1:])
    if isinstance(read, str):
        return read
    operands = list(read.operands)
    match reader.operands:
        case "none":
            return "it takes no operands here" if operands else ""
        case "text":
            return ""
        case "pattern":
            operands = operands if "-e" in read.options or "--files" in read.options else operands[1:]
        case "one path":
            if len(operands) > 1:
                return "its second operand is written to"
        case "paths":
            pass
    return outside(operands, place)


def outside(paths: Sequence[str], place: Place) -> str:
    """Why the paths, or the folder the command runs in, are not the project's; empty if they are."""
    if not place.in_project:
        return "it does not run inside the project"
    for path in paths:
        if path not in ("-", NOWHERE) and not place.holds(path):
            return f"'{path}' is not inside the project"
    return ""


def _check_echo(words: Sequence[str], place: Place) -> str:
    return ""


def _check_cd(words: Sequence[str], place: Place) -> str:
    if len(words) != 2 or place.after_cd(words[1]) is None:
        return "it goes to a folder that is not surely in the project"
    return ""


def _check_date(words: Sequence[str], place: Place) -> str:
    read = split_arguments(_DATE, words[1:])
    if isinstance(read, str):
        return read
    return "" if all(operand.startswith("+") for operand in read.operands) else "it would set the clock"


def _check_sed(words: Sequence[str], place: Place) -> str:
    if len(words) < 3 or words[1] != "-n" or not _SED_LINES.fullmatch(words[2]):
        return "of sed only `sed -n 'N,Mp' FILE` is known to be harmless"
    if any(word.startswith("-") and word != "-" for word in words[3:]):
        return "its options are not known to be harmless"
    return outside(words[3:], place)


def _check_which(words: Sequence[str], place: Place) -> str:
    names = [word for word in words[1:] if word != "-a"]
    return "" if all(map(_PROGRAM_NAME.fullmatch, names)) else "it asks for more than the names of programs"


_FIND_ALONE: Final = frozenset(
    {
        *("-a", "-and", "-o", "-or", "-not", "!", "(", ")", ",", "-true", "-false", "-empty", "-readable", "-writable"),
        *("-executable", "-print", "-print0", "-ls", "-prune", "-quit", "-depth", "-d", "-mount", "-xdev", "-daystart"),
        *("-nouser", "-nogroup", "-noleaf"),
    }
)
_FIND_VALUED: Final = frozenset(
    {
        *("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-regextype", "-type", "-size"),
        *("-maxdepth", "-mindepth", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-perm", "-user"),
        *("-group", "-uid", "-gid", "-links", "-inum", "-used", "-printf"),
    }
)


def _check_find(words: Sequence[str], place: Place) -> str:
    rest = list(words[1:])
    starts: list[str] = []
    while rest and not rest[0].startswith(("-", "(", "!", ",")):
        starts.append(rest.pop(0))
    while rest:
        word = rest.pop(0)
        if word in _FIND_VALUED and rest:
            rest.pop(0)
        elif word not in _FIND_ALONE:
            return f"its '{word}' is not known to be harmless"
    return outside(starts, place)


_DATE: Final = Reader(flags="uR", valued="d", long=("--utc", "--iso-8601", "--iso-8601=", "--rfc-3339=", "--date="))
_SUM: Final = Reader(flags="bt", long=("--binary", "--text", "--tag"))
_GREP: Final = Reader(
    flags="EFGPivwxclLqsnHhoabryzZTU",
    valued="emABC",
    long=(
        *("--extended-regexp", "--fixed-strings", "--perl-regexp", "--ignore-case", "--invert-match", "--count"),
        *("--word-regexp", "--line-regexp", "--files-with-matches", "--files-without-match", "--line-number"),
        *("--recursive", "--no-filename", "--with-filename", "--only-matching", "--quiet", "--no-messages", "--text"),
        *("--include=", "--exclude=", "--exclude-dir=", "--color=", "--color", "--max-count=", "--context="),
        *("--after-context=", "--before-context=", "--null"),
    ),
    operands="pattern",
)
_RG: Final = Reader(
    flags="nNiSswxlcFovHIuqUP0",
    valued="eABCgtTmj",
    long=(
        *("--line-number", "--no-line-number", "--ignore-case", "--smart-case", "--case-sensitive", "--word-regexp"),
        *("--files", "--files-with-matches", "--files-without-match", "--count", "--count-matches", "--fixed-strings"),
        *("--hidden", "--no-ignore", "--no-ignore-vcs", "--unrestricted", "--only-matching", "--invert-match"),
        *("--with-filename", "--no-filename", "--heading", "--no-heading", "--json", "--stats", "--trim", "--column"),
        *("--multiline", "--pcre2", "--color=", "--glob=", "--iglob=", "--type=", "--type-not=", "--max-count="),
        *("--max-depth=", "--context=", "--after-context=", "--before-context=", "--sort=", "--sortr=", "--no-config"),
        *("--type-list", "--max-columns=", "--vimgrep"),
    ),
    operands="pattern",
)
READERS: Final = {
    "basename": Reader(flags="az", valued="s", operands="text"),
    "cat": Reader(flags="AbeEnstTuv", long=("--number", "--show-all", "--squeeze-blank")),
    "cksum": Reader(),
    "cmp": Reader(flags="bls", valued="n"),
    "comm": Reader(flags="123z"),
    "cut": Reader(flags="nsz", valued="bcdf", long=("--complement", "--delimiter=", "--fields=")),
    "df": Reader(flags="ahHiklmPT", long=("--human-readable", "--total")),
    "dirname": Reader(flags="z", operands="text"),
    "du": Reader(flags="abchkmsSx0", valued="d", long=("--human-readable", "--summarize", "--max-depth=")),
    "egrep": _GREP,
    "false": Reader(operands="none"),
    "fgrep": _GREP,
    "file": Reader(flags="biN0", long=("--brief", "--mime", "--mime-type", "--mime-encoding")),
    "grep": _GREP,
    "head": Reader(flags="qvz", valued="nc", long=("--lines=", "--bytes=", "--quiet", "--verbose"), numbers=True),
    "id": Reader(flags="gGnru", operands="text"),
    "ls": Reader(
        flags="1aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ",
        valued="ITw",
        long=(
            *("--all", "--almost-all", "--color", "--color=", "--classify", "--directory", "--full-time"),
            *("--group-directories-first", "--human-readable", "--ignore=", "--inode", "--reverse", "--size"),
            *("--recursive", "--sort=", "--time=", "--time-style=", "--width="),
        ),
    ),
    "md5sum": _SUM,
    "nl": Reader(flags="p", valued="bdfhilnsvw"),
    "paste": Reader(flags="sz", valued="d"),
    "pwd": Reader(flags="LP", operands="none"),
    "readlink": Reader(flags="efmnqsvz"),
    "realpath": Reader(flags="emLPqsz"),
    "rg": _RG,
    "seq": Reader(flags="w", valued="fs", operands="text", numbers=True),
    "sha1sum": _SUM,
    "sha256sum": _SUM,
    "sha512sum": _SUM,
    "sort": Reader(
        flags="bcCdfghiMmnRrsuVz",
        valued="kt",
        long=("--reverse", "--numeric-sort", "--unique", "--key=", "--field-separator=", "--human-numeric-sort"),
    ),
    "stat": Reader(flags="ft", valued="c", long=("--format=", "--printf=", "--file-system", "--terse")),
    "tac": Reader(flags="br", valued="s"),
    "tail": Reader(flags="qvz", valued="nc", long=("--lines=", "--bytes=", "--quiet", "--verbose"), numbers=True),
    "tr": Reader(flags="cCdst", operands="text"),
    "true": Reader(operands="none"),
    "uname": Reader(flags="amnoprsv", operands="none"),
    "uniq": Reader(flags="cdDiuz", valued="fsw", operands="one path"),
    "wc": Reader(flags="clLmw", long=("--lines", "--words", "--bytes", "--chars")),
    "whoami": Reader(operands="none"),
}
CHECKS: Final[dict[str, Callable[[Sequence[str], Place], str]]] = {
    "cd": _check_cd,
    "date": _check_date,
    "echo": _check_echo,
    "find": _check_find,
    "sed": _check_sed,
    "which": _check_which,
}
