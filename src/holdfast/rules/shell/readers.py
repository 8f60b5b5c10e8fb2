"""Programs that only read: which of their options are harmless, and which of their operands are files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.rules.shell.filters import check_awk, check_sed
from holdfast.rules.shell.place import FOUND, NOWHERE, TEXT, UNKNOWN, UNSURE, UNTOLD, WILD, Feed, Place
from holdfast.rules.shell.programs import COMPARISONS, is_plain_name
from holdfast.rules.shell.verdicts import word_set

_TAR_LISTS: Final = re.compile(r"-?(?=[tvzjJ]*t)[tvzjJ]+f")
_ARCHIVE: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
"""A name in which tar sees no other machine, and unzip no pattern."""
_XXD_FLAGS: Final = word_set("-a -b -e -E -i -p -ps -u")
_XXD_NUMBERED: Final = re.compile(r"-[cgls]([0-9]+)?")
_PROCESSES: Final = frozenset({(), ("-A",), ("-a",), ("-e",)})
"""Names only: the arguments of other programs, and their environment, may hold secrets."""
_SECONDS: Final = re.compile(r"[0-9]{1,3}(\.[0-9]+)?s?")


def archive_of(words: Sequence[str]) -> str | None:
    """The archive whose contents `tar` or `unzip` only lists; None if it may do anything else."""
    if UNTOLD & set(words):
        return None
    match list(words):
        case ["tar", letters, path] if _TAR_LISTS.fullmatch(letters) and _ARCHIVE.fullmatch(path):
            return path
        case ["unzip", "-l" | "-Z1", path] if _ARCHIVE.fullmatch(path) and path.endswith(".zip"):
            return path  # without the ending it looks for other files too
        case _:
            return None


def dumped_by_xxd(words: Sequence[str]) -> list[str] | None:
    """The file that `xxd` shows, if any; None if it may do anything else: a second one is written to."""
    rest, files = list(words[1:]), list[str]()
    while rest:
        word = rest.pop(0)
        if files:
            return None  # whatever it looks like: options come first
        numbered = _XXD_NUMBERED.fullmatch(word)
        if numbered is not None and numbered[1] is None and rest and rest[0].isascii() and rest[0].isdecimal():
            rest.pop(0)
        elif (numbered is not None and numbered[1]) or word in _XXD_FLAGS:
            pass
        elif word.startswith("-") and word != "-":
            return None
        else:
            files.append(word)
    return None if UNTOLD & set(files) else files


def lists_processes(words: Sequence[str]) -> bool:
    return tuple(words[1:]) in _PROCESSES


def only_waits(words: Sequence[str]) -> bool:
    return len(words) == 2 and _SECONDS.fullmatch(words[1]) is not None


Operands = Literal["paths", "text", "none", "pattern", "one path"]
MAX_NESTED: Final = 8
_NUMBER: Final = re.compile(r"-[0-9]+")
_PROGRAM_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", re.ASCII)


class Reader(Struct, frozen=True, kw_only=True):
    """A program that only reads, with these options. What is not named here is asked about."""

    flags: str = ""
    """Letters that stand alone or together."""
    valued: str = ""
    """Letters whose value follows, attached or as the next word."""
    attached: str = ""
    """Letters whose value may follow, and then only attached."""
    files: str = ""
    """Of those with a value, the letters whose value is a file."""
    long: tuple[str, ...] = ()
    """Long options; with `=` at the end those that have a value."""
    operands: Operands = "paths"
    numbers: bool = False
    """Whether `-5` is an option."""
    lists: bool = False
    """Whether `@file` stands for the arguments in that file."""
    follows: bool = False
    """Whether it follows links in the folders that it is given."""


def dashed(text: str) -> tuple[str, ...]:
    """Long options, written without their dashes."""
    return tuple(f"--{name}" for name in text.split())


class Arguments(Struct, frozen=True):
    options: tuple[str, ...]
    operands: tuple[str, ...]
    files: tuple[str, ...] = ()
    """The values of options that name files."""
    values: tuple[tuple[str, str], ...] = ()
    """Letters and their values."""


def split_arguments(reader: Reader, words: Sequence[str]) -> Arguments | str:
    """Options and operands, or what is not known about them."""
    split = _Splitter(reader, list(words))
    reason = split.read()
    if reason:
        return reason
    files = tuple(value for letter, value in split.values if letter in reader.files)
    return Arguments(tuple(split.options), tuple(split.operands), files, tuple(split.values))


class _Splitter:
    def __init__(self, reader: Reader, rest: list[str]) -> None:
        self.reader = reader
        self.rest = rest
        self.options: list[str] = []
        self.operands: list[str] = []
        self.values: list[tuple[str, str]] = []

    def read(self) -> str:
        while self.rest:
            word = self.rest.pop(0)
            if word == "--":
                self.operands += self.rest
                return ""
            if not word.startswith("-") or word == "-":
                self.operands.append(word)
            elif word.startswith("--"):
                name, equals, _ = word.partition("=")
                if name + equals not in self.reader.long:
                    return f"its option '{word}' is not known to be harmless"
                self.options.append(name)
            elif self.reader.numbers and _NUMBER.fullmatch(word):
                self.options.append("-")
            elif odd := self._letters(word[1:]):
                return f"its option '-{odd}' is not known to be harmless"
        return ""

    def _letters(self, letters: str) -> str:
        """Take a bundle of letters apart; what is returned is not known."""
        for at, letter in enumerate(letters):
            rest = letters[at + 1 :]
            if letter in self.reader.valued:
                return "" if self._valued(letter, rest) else letter
            self.options.append(f"-{letter}")
            if letter in self.reader.attached:
                return ""
            if letter not in self.reader.flags:
                return letter
        return ""

    def _valued(self, letter: str, attached: str) -> bool:
        """A next word that looks like an option is taken for a value by nobody but this table: not known. Nor is what
        is found: it may be no word at all, or several."""
        following = "" if not self.rest else self.rest[0]
        if not attached and (not self.rest or following == FOUND):
            return False
        if not attached and following.startswith("-") and not _VALUE.fullmatch(following):
            return False
        self.options.append(f"-{letter}")
        self.values.append((letter, attached or self.rest.pop(0)))
        return True


def check(words: Sequence[str], place: Place, depth: int = 0) -> str | None:
    """Why these words do more than read in the project; empty if they do not, None if the program is not known."""
    if len(words) == 2 and (words[1] == "--version" or words[1] == "--help"):
        name = words[0]
        if name in READERS or name in _EXPLAINED or (name in _VERSIONED and words[1] == "--version"):
            return ""
    if words[0] in CHECKS:
        return CHECKS[words[0]](words, place, depth)
    return _check_reader(READERS[words[0]], words, place) if words[0] in READERS else None


def _check_reader(reader: Reader, words: Sequence[str], place: Place) -> str:
    if UNSURE & set(words) and reader.operands != "text":
        return "an argument cannot be told"
    if WILD in words:
        return MAY_LIST
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
            named = operands[:1] == [FOUND] or {"-e", "-f", "--files", "--regexp"} & set(read.options)
            operands = operands if named else operands[1:]
        case "one path":
            if len(operands) > 1 or FOUND in operands:
                return "its second operand is written to"
        case "paths":
            pass
    if reader.lists and any(operand == FOUND or operand.startswith("@") for operand in operands):
        return "an operand may name a file of arguments"
    if reader.follows and not place.links_stay and not all(map(place.is_plain_file, operands)):
        return "it may follow links out of the project"
    return outside([*operands, *read.files], place)


def outside(paths: Sequence[str], place: Place) -> str:
    """Why the paths, or the folder the command runs in, are not the project's; empty if they are."""
    if not place.in_project:
        return "it does not run inside the project"
    for path in paths:
        if path in UNSURE:
            return "an argument cannot be told"
        if path == FOUND and not place.is_closed:
            return "what is found may lead out of the project"
        if path not in ("-", NOWHERE, FOUND) and not place.holds(path):
            return f"'{path}' is not inside the project"
    return ""


def _check_inner(words: Sequence[str], place: Place, depth: int) -> str:
    """The same for a command that another one starts."""
    if depth >= MAX_NESTED:
        return "commands are wrapped too deep"
    if not words or not is_plain_name(words[0]):
        return "the program that it runs is not a bare name"
    reason = check(words, place, depth + 1)
    if reason is None:
        return f"'{words[0]}' is not known to only read"
    return reason or ("" if place.trusts(words[0], external=True) else f"'{words[0]}' is not a program of the system")


def _check_echo(words: Sequence[str], place: Place, depth: int) -> str:
    return MAY_LIST if WILD in words else ""


def _check_printf(words: Sequence[str], place: Place, depth: int) -> str:
    """`%n` and `-v` set variables."""
    format_given = words[2:3] if list(words[1:2]) == ["--"] else words[1:2]
    if not format_given or format_given[0] in UNTOLD or format_given[0].startswith("-"):
        return "its format cannot be told"
    if "%" in _DIRECTIVE.sub("", format_given[0]):
        return "its format is not known to only print"
    return MAY_LIST if WILD in words else ""


def _check_cd(words: Sequence[str], place: Place, depth: int) -> str:
    if len(words) != 2 or place.after_cd(words[1]) is None:
        return "it goes to a folder that is not surely in the project"
    return ""


def _check_date(words: Sequence[str], place: Place, depth: int) -> str:
    read = split_arguments(_DATE, words[1:])
    if isinstance(read, str):
        return read
    return "" if all(operand.startswith("+") for operand in read.operands) else "it would set the clock"


def _check_sed(words: Sequence[str], place: Place, depth: int) -> str:
    read = split_arguments(_SED, words[1:])
    if isinstance(read, str):
        return read
    if UNSURE & set(words):
        return "an argument cannot be told"
    scripts = [value for letter, value in read.values if letter == "e"]
    operands = list(read.operands)
    if not scripts and operands:
        scripts.append(operands.pop(0))
    if FOUND in scripts:
        return "its script cannot be told"
    return check_sed("\n".join(scripts)) or outside(operands, place)


def _check_awk(words: Sequence[str], place: Place, depth: int) -> str:
    read = split_arguments(_AWK, words[1:])
    if isinstance(read, str):
        return read
    if UNSURE & set(words):
        return "an argument cannot be told"
    if not read.operands or read.operands[0] == FOUND:
        return "its program cannot be told"
    files = [word for word in read.operands[1:] if not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", word)]
    return check_awk(read.operands[0]) or outside(files, place)


def _check_which(words: Sequence[str], place: Place, depth: int) -> str:
    names = [word for word in words[1:] if word != "-a"]
    return "" if all(map(_PROGRAM_NAME.fullmatch, names)) else "it asks for more than the names of programs"


def _check_command(words: Sequence[str], place: Place, depth: int) -> str:
    """`command -v NAME`."""
    if words[1:2] != ["-v"] and words[1:2] != ["-V"]:
        return "it runs another command"
    return _check_which(words[1:], place, depth)


def _check_test(words: Sequence[str], place: Place, depth: int) -> str:
    """`test`, `[` and `[[`: files in the project, and texts."""
    rest = list(words[1:])
    if words[0] != "test" and (not rest or rest.pop() != words[0].replace("[", "]")):
        return "it is not closed"
    if "-v" in rest or "-R" in rest:
        return "it evaluates the name of a variable"
    if (words[0] == "[[" or place.dialect != "bash") and not all(map(_INTEGER.fullmatch, _compared(rest))):
        return "it may evaluate what it compares"
    files = [after for word, after in pairwise(rest) if word in _FILE_TESTS]
    files += [word for word, after in pairwise(rest) if after in ("-nt", "-ot", "-ef")]
    files += [after for word, after in pairwise(rest) if word in ("-nt", "-ot", "-ef")]
    if not all(_is_compared(rest, at) for at, word in enumerate(rest) if word in UNTOLD):
        return "what it looks at cannot be told"
    return outside(files, place)


def _is_compared(words: Sequence[str], at: int) -> bool:
    """Whether an untold word of a test is one word, and a text: it may not become an operator."""
    before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
    return words[at] == TEXT and (before in (*_BINARY, "-n", "-z") or after in _BINARY)


def _compared(words: Sequence[str]) -> list[str]:
    """What `-eq` and the like compare; some shells evaluate it."""
    around = zip(["", *words], words, [*words[1:], ""], strict=False)
    return [side for before, word, after in around if word in COMPARISONS for side in (before, after)]


def _check_find(words: Sequence[str], place: Place, depth: int) -> str:
    rest = list(words[1:])
    files: list[str] = []
    if rest[:1] in (["-L"], ["-H"]) and (rest.pop(0) and not place.is_closed):
        return "it may follow links out of the project"
    while rest and not rest[0].startswith(("-", "(", "!", ",")):
        files.append(rest.pop(0))
    joined = any(word in _FIND_CHOICES for word in rest)
    while rest:
        word = rest.pop(0)
        if word in _FIND_FILES and rest and rest[0] != FOUND:
            files.append(rest.pop(0))
        elif word in _FIND_VALUED and rest and rest[0] != FOUND:
            rest.pop(0)
        elif word == "-exec":
            reason = _check_exec(rest, place, depth, regular=not joined and _is_after_type(words, rest))
            if reason:
                return reason
        elif word not in _FIND_ALONE and not (word == "-follow" and place.is_closed):
            return f"its '{word}' is not known to be harmless"
    return "an argument cannot be told" if UNSURE & set(words) else outside(files, place)


def _is_after_type(words: Sequence[str], rest: Sequence[str]) -> bool:
    """Whether only regular files get as far as this action."""
    before = list(words[: len(words) - len(rest)])
    return any(pair == ("-type", "f") for pair in pairwise(before))


def _check_exec(rest: list[str], place: Place, depth: int, *, regular: bool) -> str:
    """`-exec COMMAND {} ;`: a command that only reads what is found. Takes its words away."""
    inner: list[str] = []
    while rest and rest[0] != ";" and not (rest[0] == "+" and inner[-1:] == ["{}"]):
        inner.append(rest.pop(0))
    if not rest:
        return "its command has no end"
    rest.pop(0)
    if any("{}" in word and word != "{}" for word in inner):
        return "its command is given more than what is found"
    regular = regular and FOUND not in inner  # which other commands found
    found = [FOUND if word == "{}" else word for word in inner]
    return _check_inner(found, replace(place, regular=True) if regular else place, depth)


class Xargs(Struct, frozen=True):
    words: tuple[str, ...]
    """The command it runs."""
    nulls: bool = False
    mark: str = ""
    """What stands for the input in the command; without it the input follows the command."""


def read_xargs(words: Sequence[str]) -> Xargs | str:
    """What xargs would run, or what is not known about that."""
    rest = list(words[1:])
    nulls, mark, lines = False, "", False
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word in ("-n", "-P", "-L", "-s") and rest and rest[0].isdecimal() and rest[0].isascii():
            rest.pop(0)
        elif word in ("-d", "--delimiter") and rest[:1] in (["\n"], ["\\n"]):
            lines = bool(rest.pop(0))
        elif word == "-I" and rest:
            mark = rest.pop(0)
        elif word == "--null":
            nulls = True
        elif (found := re.fullmatch(r"(?:-I|--replace=)(.+)|(?:-i|--replace)", word, re.DOTALL)) is not None:
            mark = found[1] or "{}"
        elif (found := _XARGS_HARMLESS.fullmatch(word)) is None:
            return f"its option '{word}' is not known to be harmless"
        else:
            nulls = nulls or "0" in (found[1] or "")
    if mark in UNTOLD or (nulls and lines):
        return "how it reads its input cannot be told"
    return Xargs(tuple(rest) or ("echo",), nulls, mark)


def _check_xargs(words: Sequence[str], place: Place, depth: int) -> str:
    read = read_xargs(words)
    if isinstance(read, str):
        return read
    separated = "nulls" if read.nulls else "lines"
    given = FOUND if place.feeds == separated and (read.nulls or place.has_plain_names) else UNKNOWN
    if read.mark and any(read.mark in word and word != read.mark for word in read.words):
        return "its command is given more than its input"
    told = [given if read.mark and word == read.mark else word for word in read.words]
    return _check_inner(told if read.mark else [*told, given], place, depth)


def _check_jq(words: Sequence[str], place: Place, depth: int) -> str:
    read = split_arguments(_JQ, words[1:])
    if isinstance(read, str):
        return read
    if not read.operands or UNTOLD & {read.operands[0]} or re.search(r"env|ENV|import|include", read.operands[0]):
        return "its filter may read more than its input"
    return outside(read.operands[1:], place)


def _check_read(words: Sequence[str], place: Place, depth: int) -> str:
    """`read`, into variables of the script's own."""
    read = split_arguments(Reader(flags="ers", valued="dnNptu"), words[1:])
    if isinstance(read, str):
        return read
    return "" if all(map(_OWN_NAME.fullmatch, read.operands)) else "it sets a variable that is not the script's own"


def _check_archive(words: Sequence[str], place: Place, depth: int) -> str:
    archive = archive_of(words)
    return "it is not known to only list" if archive is None else outside([archive], place)


def _check_ps(words: Sequence[str], place: Place, depth: int) -> str:
    return "" if lists_processes(words) else "it is not known to only list"


def _check_sleep(words: Sequence[str], place: Place, depth: int) -> str:
    return "" if only_waits(words) else "how long it waits cannot be told"


def _check_xxd(words: Sequence[str], place: Place, depth: int) -> str:
    files = dumped_by_xxd(words)
    return "it is not known to only read" if files is None else outside(files, place)


def _check_set(words: Sequence[str], place: Place, depth: int) -> str:
    return "" if re.fullmatch(r"-(e|u|x|eu|ex|eux)|-e?u?x?o pipefail", " ".join(words[1:])) else "it changes the shell"


_VERSIONED: Final = word_set("bash clang g++ gcc make node perl pip pip3 python python3 ruby")
"""Programs that tell their version without looking at the project."""
_EXPLAINED: Final = word_set("awk date find jq ps sed tar unzip xargs")
"""Programs with checks of their own that tell their version, and how to use them."""
_XARGS_HARMLESS: Final = re.compile(
    r"-([0rtx]*)(?:[nPL][0-9]+|l[0-9]*|)|--no-run-if-empty|--verbose|--max-(?:args|procs)=[0-9]+"
)
MAY_LIST: Final = "it may list files outside the project"
_DIRECTIVE: Final = re.compile(r"%%|%[-+ #0]*[0-9]*(?:\.[0-9]*)?[bcdiouxXeEfFgGaAsq]")
"""What `printf` only prints; without `%n`, and without widths that are given as arguments."""
_OWN_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_BINARY: Final = frozenset({"=", "==", "!=", "<", ">", *COMPARISONS})
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_VALUE: Final = re.compile(r"-|-[0-9]+")
"""What looks like an option and is none: standard input, and a negative number."""
_FILE_TESTS: Final = frozenset(f"-{letter}" for letter in "abcdefgGhkLNOprsSuwx")
_FIND_CHOICES: Final = word_set("-o -or , ! -not ( )")
_FIND_ALONE: Final = word_set("""
    -a -and -o -or -not ! ( ) , -true -false -empty -readable -writable -executable -print -print0 -ls -prune -quit
    -depth -d -mount -xdev -daystart -nouser -nogroup -noleaf -ignore_readdir_race --version -version --help -help
""")
_FIND_FILES: Final = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})
_FIND_VALUED: Final = word_set("""
    -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -maxdepth -mindepth -mtime -mmin
    -atime -amin -ctime -cmin -perm -user -size -group -uid -gid -links -inum -used -printf -xtype -lname -ilname
    -fstype -newermt -newerat -newerct
""")
_AWK: Final = Reader(valued="Fv", long=("--version",))
_SED: Final = Reader(flags="nErzus", valued="e", long=dashed("quiet silent regexp-extended version"))
_DATE: Final = Reader(flags="uR", valued="d", attached="I", long=dashed("""
    utc iso-8601 iso-8601= rfc-3339= date= rfc-email
"""))  # fmt: skip
_JQ: Final = Reader(
    flags="aceCMnrsSj",
    long=dashed("""
        compact-output raw-output slurp null-input exit-status sort-keys tab monochrome-output color-output join-output
        ascii-output raw-input
    """),
)
_SUM: Final = Reader(flags="bt", long=dashed("binary text tag"))
_GREP: Final = Reader(
    flags="EFGIPivwxclLqsnHhoabryzZTU",
    valued="emABCf",
    files="f",
    long=dashed("""
        extended-regexp fixed-strings perl-regexp ignore-case invert-match count word-regexp line-regexp
        files-with-matches files-without-match line-number recursive no-filename with-filename only-matching quiet
        no-messages text include= exclude= exclude-dir= color= color max-count= context= after-context= before-context=
        null line-buffered colour colour= regexp=
    """),
    operands="pattern",
    numbers=True,
)
_RG: Final = Reader(
    flags="nNiSswxlcFovHIuqUP0",
    valued="eABCgtTmj",
    long=dashed("""
        line-number no-line-number ignore-case smart-case case-sensitive word-regexp files files-with-matches
        files-without-match count count-matches fixed-strings hidden no-ignore no-ignore-vcs unrestricted only-matching
        invert-match with-filename no-filename heading no-heading json stats trim column multiline pcre2 color= glob=
        iglob= type= type-not= max-count= max-depth= context= after-context= before-context= sort= sortr= no-config
        type-list max-columns= vimgrep
    """),
    operands="pattern",
)
READERS: Final = {
    "arch": Reader(operands="none"),
    "b2sum": _SUM,
    "base64": Reader(flags="di", valued="w", long=("--decode", "--wrap=")),
    "basename": Reader(flags="az", valued="s", operands="text"),
    "bc": Reader(flags="lqsw", long=("--mathlib", "--quiet")),
    "cat": Reader(flags="AbeEnstTuv", long=dashed("number show-all squeeze-blank")),
    "cksum": Reader(),
    "cmp": Reader(flags="bls", valued="n"),
    "column": Reader(flags="tx", valued="csoN"),
    "comm": Reader(flags="123z", long=dashed("nocheck-order check-order output-delimiter=")),
    "cut": Reader(flags="nsz", valued="bcdf", long=dashed("complement delimiter= fields=")),
    "df": Reader(flags="ahHiklmPT", long=("--human-readable", "--total")),
    "dirname": Reader(flags="z", operands="text"),
    "diff": Reader(
        flags="abBcdeiNpqrstTuwy",
        valued="CUWxI",
        long=dashed("""
            brief recursive unified unified= side-by-side suppress-common-lines color color= ignore-all-space
            ignore-blank-lines ignore-case ignore-space-change text new-file exclude= strip-trailing-cr
            report-identical-files minimal width=
        """),
        numbers=True,
        follows=True,
    ),
    "du": Reader(flags="abcDhHklmsSx0", valued="d", long=dashed("human-readable summarize max-depth=")),
    "egrep": _GREP,
    "false": Reader(operands="none"),
    "fgrep": _GREP,
    "expand": Reader(flags="i", valued="t"),
    "expr": Reader(operands="text"),
    "file": Reader(flags="binN0", long=dashed("brief mime mime-type mime-encoding")),
    "fmt": Reader(flags="cstu", valued="wgp", numbers=True),
    "free": Reader(flags="bghkmtw", operands="none"),
    "fold": Reader(flags="bs", valued="w", long=("--width=", "--spaces"), numbers=True),
    "grep": _GREP,
    "groups": Reader(operands="text"),
    "head": Reader(flags="qvz", valued="nc", long=dashed("lines= bytes= quiet verbose"), numbers=True),
    "hexdump": Reader(flags="bcCdovx", valued="ns"),
    "hostname": Reader(flags="Is", operands="none"),
    "id": Reader(flags="gGnru", operands="text"),
    "join": Reader(flags="iz", valued="12aejotv", numbers=True),
    "ls": Reader(
        flags="1aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ",
        valued="ITw",
        long=dashed("""
            all almost-all color color= classify directory full-time group-directories-first human-readable ignore=
            inode reverse size recursive sort= time= time-style= width=
        """),
    ),
    "lscpu": Reader(operands="none"),
    "md5sum": _SUM,
    "nl": Reader(flags="p", valued="bdfhilnsvw"),
    "nproc": Reader(long=("--all",), operands="none"),
    "od": Reader(flags="abcdfilosvx", valued="AjNSt", attached="w", long=dashed("skip-bytes= read-bytes= format=")),
    "paste": Reader(flags="sz", valued="d"),
    "pwd": Reader(flags="LP", operands="none"),
    "readlink": Reader(flags="efmnqsvz"),
    "realpath": Reader(flags="emLPqsz"),
    "rev": Reader(),
    "rg": _RG,
    "seq": Reader(flags="w", valued="fs", operands="text", numbers=True),
    "sha1sum": _SUM,
    "sha256sum": _SUM,
    "sha512sum": _SUM,
    "sort": Reader(
        flags="bcCdfghiMmnRrsuVz",
        valued="kt",
        long=dashed("reverse numeric-sort unique key= field-separator= human-numeric-sort"),
    ),
    "shuf": Reader(flags="erz", valued="n"),
    "stat": Reader(flags="ft", valued="c", long=dashed("format= printf= file-system terse")),
    "tac": Reader(flags="br", valued="s"),
    "tail": Reader(flags="qvz", valued="nc", long=dashed("lines= bytes= quiet verbose"), numbers=True),
    "strings": Reader(flags="af", valued="nt", numbers=True, lists=True),
    "sum": Reader(flags="rs"),
    "tr": Reader(flags="cCdst", operands="text"),
    "tree": Reader(
        flags="adfipsughDFqNQrtcUvACSn",
        valued="LPI",
        long=dashed("""
            noreport dirsfirst du si gitignore prune inodes device version charset= filelimit= timefmt= sort= help
        """),
    ),
    "true": Reader(operands="none"),
    "tsort": Reader(),
    "uname": Reader(flags="amnoprsv", operands="none"),
    "uniq": Reader(flags="cdDiuz", valued="fsw", operands="one path"),
    "unexpand": Reader(flags="a", valued="t"),
    "uptime": Reader(flags="p", operands="none"),
    "wc": Reader(flags="clLmw", long=dashed("lines words bytes chars")),
    "whoami": Reader(operands="none"),
    "zcat": Reader(),
}
CHECKS: Final[dict[str, Callable[[Sequence[str], Place, int], str]]] = {
    "[": _check_test,
    "[[": _check_test,
    "awk": _check_awk,
    "cd": _check_cd,
    "command": _check_command,
    "date": _check_date,
    "echo": _check_echo,
    "find": _check_find,
    "jq": _check_jq,
    "printf": _check_printf,
    "ps": _check_ps,
    "read": _check_read,
    "sed": _check_sed,
    "set": _check_set,
    "sleep": _check_sleep,
    "tar": _check_archive,
    "test": _check_test,
    "type": _check_which,
    "unzip": _check_archive,
    "which": _check_which,
    "xargs": _check_xargs,
    "xxd": _check_xxd,
}


_FIND_PRINTS_MORE: Final = word_set("-exec -help --help -ls -printf -version --version")
_GREPS: Final = frozenset({"egrep", "fgrep", "grep"})
_GREP_LISTS: Final = frozenset({"-L", "-l", "--files-with-matches", "--files-without-match"})
_GREP_CHOOSES: Final = frozenset(
    {"-E", "-F", "-G", "-I", "-P", "-a", "-e", "-h", "-i", "-n", "-r", "-s", "-v", "-w", "-x"}
    | {"--exclude", "--exclude-dir", "--extended-regexp", "--fixed-strings", "--ignore-case", "--include"}
    | {"--invert-match", "--line-regexp", "--no-messages", "--perl-regexp", "--recursive", "--word-regexp"}
)
"""Options of grep that say which files it lists, and leave their names as they are."""
_RG_LISTS: Final = frozenset({"-l", "--files", "--files-with-matches", "--files-without-match"})
_RG_CHOOSES: Final = word_set("-F -S -e -g -i -n -s -t -v -w -x --glob --hidden --no-ignore --type")
_PASSED_ON: Final = {
    **dict.fromkeys(_GREPS, word_set("-E -F -G -P -a -e -h -i -s -v -w -x")),
    "head": frozenset({"-n", "--lines", "-"}),
    "sort": word_set("-R -V -b -d -f -g -h -i -k -n -r -s -t -u"),
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
    if words[0] not in _GREPS | {"rg"} or (read := _read(words)) is None:
        return False
    listing, choosing = (_RG_LISTS, _RG_CHOOSES) if words[0] == "rg" else (_GREP_LISTS, _GREP_CHOOSES)
    options = set(read.options)
    return bool(options & listing) and options <= listing | choosing


def _passes_on(words: Sequence[str]) -> bool:
    """Whether a command reads its input, not a file, and prints lines of it as they are."""
    known = _PASSED_ON.get(words[0])
    if known is None or (read := _read(words)) is None or not known.issuperset(read.options):
        return False
    patterns = 1 if words[0] in _GREPS and "-e" not in read.options else 0
    return len(read.operands) == patterns
