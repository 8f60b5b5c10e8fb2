"""Programs that only read: which of their options are harmless, and which of their operands are files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.rules.shell.location import (
    DEV_NULL,
    FOUND_PATH,
    PLACEHOLDERS,
    UNKNOWN_GLOB,
    UNKNOWN_WORD,
    UNKNOWN_WORDS,
    UNKNOWNS,
    CommandContext,
    NameSeparator,
)
from holdfast.rules.shell.programs import COMPARISONS, is_plain_name
from holdfast.rules.shell.sed_awk import check_awk, check_sed
from holdfast.rules.shell.verdicts import word_set

_TAR_LISTS: Final = re.compile(r"-?(?=[tvzjJ]*t)[tvzjJ]+f")
_ARCHIVE: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
"""A name in which tar sees no other machine, and unzip no pattern."""
_XXD_FLAGS: Final = word_set("-a -b -e -E -i -p -ps -u")
_XXD_NUMBERED: Final = re.compile(r"-[cgls]([0-9]+)?")
_PROCESSES: Final = frozenset({(), ("-A",), ("-a",), ("-e",)})
"""Names only: the arguments of other programs, and their environment, may hold secrets."""
_SECONDS: Final = re.compile(r"[0-9]{1,3}(\.[0-9]+)?s?")


OperandKind = Literal["paths", "text", "none", "pattern", "one path"]
MAX_NESTED: Final = 8
_NUMBER: Final = re.compile(r"-[0-9]+")
_PROGRAM_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", re.ASCII)


class ReadOnlyProgram(Struct, frozen=True, kw_only=True):
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
    operands: OperandKind = "paths"
    numbers: bool = False
    """Whether `-5` is an option."""
    lists: bool = False
    """Whether `@file` stands for the arguments in that file."""
    follows: bool = False
    """Whether it follows links in the folders that it is given."""


def read_only_program(
    flags: str = "", valued: str = "", long: str = "", operands: OperandKind = "paths", *, attached: str = "",
    files: str = "", **marks: bool,
) -> ReadOnlyProgram:  # fmt: skip
    """The long options are written without their dashes."""
    names = tuple(f"--{name}" for name in long.split())
    return ReadOnlyProgram(
        flags=flags, valued=valued, long=names, operands=operands, attached=attached, files=files, **marks
    )  # fmt: skip


class Arguments(Struct, frozen=True):
    options: tuple[str, ...]
    operands: tuple[str, ...]
    files: tuple[str, ...] = ()
    """The values of options that name files."""
    values: tuple[tuple[str, str], ...] = ()
    """Letters and their values."""


def split_arguments(program: ReadOnlyProgram, words: Sequence[str]) -> Arguments | str:
    """Options and operands, or what is not known about them."""
    rest, options, operands, values = list(words), list[str](), list[str](), list[tuple[str, str]]()
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands += rest
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
        elif word.startswith("--"):
            name, equals, _ = word.partition("=")
            if name + equals not in program.long:
                return f"its option '{word}' is not known to be harmless"
            options.append(name)
        elif program.numbers and _NUMBER.fullmatch(word):
            options.append("-")
        else:
            for at, letter in enumerate(word[1:], 2):
                has_value = letter in program.valued
                if has_value and not (word[at:] or _can_be_value(rest[:1])):
                    return f"its option '-{letter}' is not known to be harmless"
                if has_value:
                    values.append((letter, word[at:] or rest.pop(0)))
                elif letter not in program.attached + program.flags:
                    return f"its option '-{letter}' is not known to be harmless"
                options.append(f"-{letter}")
                if has_value or letter in program.attached:
                    break
    files = tuple(value for letter, value in values if letter in program.files)
    return Arguments(tuple(options), tuple(operands), files, tuple(values))


def _can_be_value(following: Sequence[str]) -> bool:
    """A next word that looks like an option is taken for a value by nobody but this table: not known. Nor is what is
    found: it may be no word at all, or several."""
    word = next(iter(following), FOUND_PATH)
    return word != FOUND_PATH and (not word.startswith("-") or _VALUE.fullmatch(word) is not None)


def check_read_only(words: Sequence[str], context: CommandContext, depth: int = 0) -> str | None:
    """Why these words do more than read in the project; empty if they do not, None if the program is not known."""
    if len(words) == 2 and (words[1] == "--version" or words[1] == "--help"):
        name = words[0]
        if name in READERS or name in _EXPLAINED or (name in _VERSIONED and words[1] == "--version"):
            return ""
    if words[0] in SPECIAL_CHECKS:
        return SPECIAL_CHECKS[words[0]](words, context, depth)
    return _check_program(READERS[words[0]], words, context) if words[0] in READERS else None


def _check_program(program: ReadOnlyProgram, words: Sequence[str], context: CommandContext) -> str:
    if UNKNOWNS & set(words) and program.operands != "text":
        return "an argument cannot be told"
    if UNKNOWN_GLOB in words:
        return MAY_LIST
    read = split_arguments(program, words[1:])
    if isinstance(read, str):
        return read
    operands = list(read.operands)
    match program.operands:
        case "none":
            return "it takes no operands here" if operands else ""
        case "text":
            return ""
        case "pattern":
            named = operands[:1] == [FOUND_PATH] or {"-e", "-f", "--files", "--regexp"} & set(read.options)
            operands = operands if named else operands[1:]
        case "one path":
            if len(operands) > 1 or FOUND_PATH in operands:
                return "its second operand is written to"
        case "paths":
            pass
    if program.lists and any(operand == FOUND_PATH or operand.startswith("@") for operand in operands):
        return "an operand may name a file of arguments"
    if program.follows and not context.links_stay_inside and not all(map(context.is_plain_file, operands)):
        return "it may follow links out of the project"
    return outside_project([*operands, *read.files], context)


def outside_project(paths: Sequence[str], context: CommandContext) -> str:
    """Why the paths, or the folder the command runs in, are not the project's; empty if they are."""
    if not context.in_project:
        return "it does not run inside the project"
    for path in paths:
        if path in UNKNOWNS:
            return "an argument cannot be told"
        if path == FOUND_PATH and not context.found_files_stay_inside:
            return "what is found may lead out of the project"
        if path not in ("-", DEV_NULL, FOUND_PATH) and not context.contains(path):
            return f"'{path}' is not inside the project"
    return ""


def _check_inner(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """The same for a command that another one starts."""
    if depth >= MAX_NESTED:
        return "commands are wrapped too deep"
    if not words or not is_plain_name(words[0]):
        return "the program that it runs is not a bare name"
    reason = check_read_only(words, context, depth + 1)
    if reason is None:
        return f"'{words[0]}' is not known to only read"
    return reason or (
        "" if context.is_trusted_program(words[0], external=True) else f"'{words[0]}' is not a program of the system"
    )


def _check_printf(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """`%n` and `-v` set variables."""
    format_given = words[2:3] if list(words[1:2]) == ["--"] else words[1:2]
    if not format_given or format_given[0] in PLACEHOLDERS or format_given[0].startswith("-"):
        return "its format cannot be told"
    if "%" in _DIRECTIVE.sub("", format_given[0]):
        return "its format is not known to only print"
    return MAY_LIST if UNKNOWN_GLOB in words else ""


def _check_cd(words: Sequence[str], context: CommandContext, depth: int) -> str:
    if len(words) != 2 or context.after_cd(words[1]) is None:
        return "it goes to a folder that is not surely in the project"
    return ""


def _check_date(words: Sequence[str], context: CommandContext, depth: int) -> str:
    read = split_arguments(_DATE, words[1:])
    if isinstance(read, str):
        return read
    return "" if all(operand.startswith("+") for operand in read.operands) else "it would set the clock"


def _check_sed(words: Sequence[str], context: CommandContext, depth: int) -> str:
    read = split_arguments(_SED, words[1:])
    if isinstance(read, str):
        return read
    if UNKNOWNS & set(words):
        return "an argument cannot be told"
    scripts = [value for letter, value in read.values if letter == "e"]
    operands = list(read.operands)
    if not scripts and operands:
        scripts.append(operands.pop(0))
    if FOUND_PATH in scripts:
        return "its script cannot be told"
    return check_sed("\n".join(scripts)) or outside_project(operands, context)


def _check_awk(words: Sequence[str], context: CommandContext, depth: int) -> str:
    read = split_arguments(_AWK, words[1:])
    if isinstance(read, str):
        return read
    if UNKNOWNS & set(words):
        return "an argument cannot be told"
    if not read.operands or read.operands[0] == FOUND_PATH:
        return "its program cannot be told"
    files = [word for word in read.operands[1:] if not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", word)]
    return check_awk(read.operands[0]) or outside_project(files, context)


def _check_which(words: Sequence[str], context: CommandContext, depth: int) -> str:
    names = [word for word in words[1:] if word != "-a"]
    return "" if all(map(_PROGRAM_NAME.fullmatch, names)) else "it asks for more than the names of programs"


def _check_command(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """`command -v NAME`."""
    if words[1:2] != ["-v"] and words[1:2] != ["-V"]:
        return "it runs another command"
    return _check_which(words[1:], context, depth)


def _check_test(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """`test`, `[` and `[[`: files in the project, and texts."""
    rest = list(words[1:])
    if words[0] != "test" and (not rest or rest.pop() != words[0].replace("[", "]")):
        return "it is not closed"
    if "-v" in rest or "-R" in rest:
        return "it evaluates the name of a variable"
    if (words[0] == "[[" or context.dialect != "bash") and not all(map(_INTEGER.fullmatch, _compared(rest))):
        return "it may evaluate what it compares"
    files = [after for word, after in pairwise(rest) if word in _FILE_TESTS]
    files += [word for word, after in pairwise(rest) if after in ("-nt", "-ot", "-ef")]
    files += [after for word, after in pairwise(rest) if word in ("-nt", "-ot", "-ef")]
    if not all(_is_compared(rest, at) for at, word in enumerate(rest) if word in PLACEHOLDERS):
        return "what it looks at cannot be told"
    return outside_project(files, context)


def _is_compared(words: Sequence[str], at: int) -> bool:
    """Whether an untold word of a test is one word, and a text: it may not become an operator."""
    before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
    return words[at] == UNKNOWN_WORD and (before in (*_BINARY, "-n", "-z") or after in _BINARY)


def _compared(words: Sequence[str]) -> list[str]:
    """What `-eq` and the like compare; some shells evaluate it."""
    around = zip(["", *words], words, [*words[1:], ""], strict=False)
    return [side for before, word, after in around if word in COMPARISONS for side in (before, after)]


def _check_find(words: Sequence[str], context: CommandContext, depth: int) -> str:
    rest = list(words[1:])
    files: list[str] = []
    if rest[:1] in (["-L"], ["-H"]) and (rest.pop(0) and not context.found_files_stay_inside):
        return "it may follow links out of the project"
    while rest and not rest[0].startswith(("-", "(", "!", ",")):
        files.append(rest.pop(0))
    joined = any(word in _FIND_CHOICES for word in rest)
    while rest:
        word = rest.pop(0)
        if word in _FIND_FILES and rest and rest[0] != FOUND_PATH:
            files.append(rest.pop(0))
        elif word in _FIND_VALUED and rest and rest[0] != FOUND_PATH:
            rest.pop(0)
        elif word == "-exec":
            reason = _check_exec(rest, context, depth, regular=not joined and _is_after_type(words, rest))
            if reason:
                return reason
        elif word not in _FIND_ALONE and not (word == "-follow" and context.found_files_stay_inside):
            return f"its '{word}' is not known to be harmless"
    return "an argument cannot be told" if UNKNOWNS & set(words) else outside_project(files, context)


def _is_after_type(words: Sequence[str], rest: Sequence[str]) -> bool:
    """Whether only regular files get as far as this action."""
    before = list(words[: len(words) - len(rest)])
    return any(pair == ("-type", "f") for pair in pairwise(before))


def _check_exec(rest: list[str], context: CommandContext, depth: int, *, regular: bool) -> str:
    """`-exec COMMAND {} ;`: a command that only reads what is found. Takes its words away."""
    inner: list[str] = []
    while rest and rest[0] != ";" and not (rest[0] == "+" and inner[-1:] == ["{}"]):
        inner.append(rest.pop(0))
    if not rest:
        return "its command has no end"
    rest.pop(0)
    if any("{}" in word and word != "{}" for word in inner):
        return "its command is given more than what is found"
    regular = regular and FOUND_PATH not in inner  # which other commands found
    found = [FOUND_PATH if word == "{}" else word for word in inner]
    return _check_inner(found, replace(context, only_regular_files=True) if regular else context, depth)


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
    if mark in PLACEHOLDERS or (nulls and lines):
        return "how it reads its input cannot be told"
    return Xargs(tuple(rest) or ("echo",), nulls, mark)


def _check_xargs(words: Sequence[str], context: CommandContext, depth: int) -> str:
    read = read_xargs(words)
    if isinstance(read, str):
        return read
    separated = "nulls" if read.nulls else "lines"
    given = (
        FOUND_PATH if context.input_names == separated and (read.nulls or context.has_plain_names) else UNKNOWN_WORDS
    )
    if read.mark and any(read.mark in word and word != read.mark for word in read.words):
        return "its command is given more than its input"
    resolved = [given if read.mark and word == read.mark else word for word in read.words]
    return _check_inner(resolved if read.mark else [*resolved, given], context, depth)


def _check_jq(words: Sequence[str], context: CommandContext, depth: int) -> str:
    read = split_arguments(_JQ, words[1:])
    if isinstance(read, str):
        return read
    if not read.operands or PLACEHOLDERS & {read.operands[0]} or re.search(r"env|ENV|import|include", read.operands[0]):
        return "its filter may read more than its input"
    return outside_project(read.operands[1:], context)


def _check_read(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """`read`, into variables of the script's own."""
    read = split_arguments(read_only_program("ers", "dnNptu"), words[1:])
    if isinstance(read, str):
        return read
    return "" if all(map(_OWN_NAME.fullmatch, read.operands)) else "it sets a variable that is not the script's own"


def _check_archive(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """`tar` and `unzip`, where they only list what is in an archive."""
    path = words[2] if len(words) == 3 and not PLACEHOLDERS & set(words) and _ARCHIVE.fullmatch(words[2]) else None
    if words[0] == "tar":
        lists = path is not None and _TAR_LISTS.fullmatch(words[1]) is not None
    else:  # without the ending it looks for other files too
        lists = path is not None and words[1] in ("-l", "-Z1") and path.endswith(".zip")
    return outside_project([words[2]], context) if lists else "it is not known to only list"


def _check_ps(words: Sequence[str], context: CommandContext, depth: int) -> str:
    return "" if tuple(words[1:]) in _PROCESSES else "it is not known to only list"


def _check_sleep(words: Sequence[str], context: CommandContext, depth: int) -> str:
    return "" if len(words) == 2 and _SECONDS.fullmatch(words[1]) else "how long it waits cannot be told"


def _check_xxd(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """It shows one file; a second one is written to. Options come first, whatever follows a file looks like."""
    rest, unknown = list(words[1:]), "it is not known to only read"
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        numbered = _XXD_NUMBERED.fullmatch(word)
        if numbered is not None and numbered[1] is None and rest and rest[0].isascii() and rest[0].isdecimal():
            rest.pop(0)
        elif (numbered is None or not numbered[1]) and word not in _XXD_FLAGS:
            return unknown
    return unknown if len(rest) > 1 or PLACEHOLDERS & set(rest) else outside_project(rest, context)


def _check_set(words: Sequence[str], context: CommandContext, depth: int) -> str:
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
_AWK: Final = read_only_program("", "Fv", "version")
_SED: Final = read_only_program("nErzus", "e", "quiet silent regexp-extended version")
_DATE: Final = read_only_program("uR", "d", "utc iso-8601 iso-8601= rfc-3339= date= rfc-email", attached="I")
_JQ: Final = read_only_program(
    "aceCMnrsSj",
    "",
    """
    compact-output raw-output slurp null-input exit-status sort-keys tab monochrome-output color-output join-output
    ascii-output raw-input""",
)
READERS: Final = {
    name: known
    for names, known in {
        "arch false lscpu true whoami": read_only_program(operands="none"),
        "b2sum md5sum sha1sum sha256sum sha512sum": read_only_program("bt", "", "binary text tag"),
        "base64": read_only_program("di", "w", "decode wrap="),
        "basename": read_only_program("az", "s", operands="text"),
        "bc": read_only_program("lqsw", "", "mathlib quiet"),
        "cat": read_only_program("AbeEnstTuv", "", "number show-all squeeze-blank"),
        "cksum rev tsort zcat": read_only_program(),
        "cmp": read_only_program("bls", "n"),
        "column": read_only_program("tx", "csoN"),
        "comm": read_only_program("123z", "", "nocheck-order check-order output-delimiter="),
        "cut": read_only_program("nsz", "bcdf", "complement delimiter= fields="),
        "df": read_only_program("ahHiklmPT", "", "human-readable total"),
        "dirname": read_only_program("z", operands="text"),
        "diff": read_only_program("abBcdeiNpqrstTuwy", "CUWxI", """
            brief recursive unified unified= side-by-side suppress-common-lines color color= ignore-all-space
            ignore-blank-lines ignore-case ignore-space-change text new-file exclude= strip-trailing-cr
            report-identical-files minimal width=""", numbers=True, follows=True),
        "du": read_only_program("abcDhHklmsSx0", "d", "human-readable summarize max-depth="),
        "egrep fgrep grep": read_only_program("EFGIPivwxclLqsnHhoabryzZTU", "emABCf", """
            extended-regexp fixed-strings perl-regexp ignore-case invert-match count word-regexp line-regexp
            files-with-matches files-without-match line-number recursive no-filename with-filename only-matching quiet
            no-messages text include= exclude= exclude-dir= color= color max-count= context= after-context=
            before-context= null line-buffered colour colour= regexp=""", "pattern", files="f", numbers=True),
        "expand": read_only_program("i", "t"),
        "expr groups": read_only_program(operands="text"),
        "file": read_only_program("binN0", "", "brief mime mime-type mime-encoding"),
        "fmt": read_only_program("cstu", "wgp", numbers=True),
        "free": read_only_program("bghkmtw", operands="none"),
        "fold": read_only_program("bs", "w", "width= spaces", numbers=True),
        "head tail": read_only_program("qvz", "nc", "lines= bytes= quiet verbose", numbers=True),
        "hexdump": read_only_program("bcCdovx", "ns"),
        "hostname": read_only_program("Is", operands="none"),
        "id": read_only_program("gGnru", operands="text"),
        "join": read_only_program("iz", "12aejotv", numbers=True),
        "ls": read_only_program("1aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ", "ITw", """
            all almost-all color color= classify directory full-time group-directories-first human-readable ignore=
            inode reverse size recursive sort= time= time-style= width="""),
        "nl": read_only_program("p", "bdfhilnsvw"),
        "nproc": read_only_program("", "", "all", "none"),
        "od": read_only_program("abcdfilosvx", "AjNSt", "skip-bytes= read-bytes= format=", attached="w"),
        "paste": read_only_program("sz", "d"),
        "pwd": read_only_program("LP", operands="none"),
        "readlink": read_only_program("efmnqsvz"),
        "realpath": read_only_program("emLPqsz"),
        "rg": read_only_program("nNiSswxlcFovHIuqUP0", "eABCgtTmj", """
            line-number no-line-number ignore-case smart-case case-sensitive word-regexp files files-with-matches
            files-without-match count count-matches fixed-strings hidden no-ignore no-ignore-vcs unrestricted
            only-matching invert-match with-filename no-filename heading no-heading json stats trim column multiline
            pcre2 color= glob= iglob= type= type-not= max-count= max-depth= context= after-context= before-context=
            sort= sortr= no-config type-list max-columns= vimgrep""", "pattern"),
        "seq": read_only_program("w", "fs", operands="text", numbers=True),
        "sort": read_only_program("bcCdfghiMmnRrsuVz", "kt", """
            reverse numeric-sort unique key= field-separator= human-numeric-sort"""),
        "shuf": read_only_program("erz", "n"),
        "stat": read_only_program("ft", "c", "format= printf= file-system terse"),
        "tac": read_only_program("br", "s"),
        "strings": read_only_program("af", "nt", numbers=True, lists=True),
        "sum": read_only_program("rs"),
        "tr": read_only_program("cCdst", operands="text"),
        "tree": read_only_program("adfipsughDFqNQrtcUvACSn", "LPI", """
            noreport dirsfirst du si gitignore prune inodes device version charset= filelimit= timefmt= sort= help"""),
        "uname": read_only_program("amnoprsv", operands="none"),
        "uniq": read_only_program("cdDiuz", "fsw", operands="one path"),
        "unexpand": read_only_program("a", "t"),
        "uptime": read_only_program("p", operands="none"),
        "wc": read_only_program("clLmw", "", "lines words bytes chars"),
    }.items()
    for name in names.split()
}  # fmt: skip
SPECIAL_CHECKS: Final[dict[str, Callable[[Sequence[str], CommandContext, int], str]]] = {
    **dict.fromkeys(("[", "[[", "test"), _check_test),
    **dict.fromkeys(("tar", "unzip"), _check_archive),
    **dict.fromkeys(("type", "which"), _check_which),
    "awk": _check_awk,
    "cd": _check_cd,
    "command": _check_command,
    "date": _check_date,
    "echo": lambda words, context, depth: MAY_LIST if UNKNOWN_GLOB in words else "",
    "find": _check_find,
    "jq": _check_jq,
    "printf": _check_printf,
    "ps": _check_ps,
    "read": _check_read,
    "sed": _check_sed,
    "set": _check_set,
    "sleep": _check_sleep,
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
_LINE_FILTERS: Final = {
    **dict.fromkeys(_GREPS, word_set("-E -F -G -P -a -e -h -i -s -v -w -x")),
    "head": frozenset({"-n", "--lines", "-"}),
    "sort": word_set("-R -V -b -d -f -g -h -i -k -n -r -s -t -u"),
    "tac": frozenset[str](),
    "tail": frozenset({"-n", "--lines", "-"}),
    "uniq": frozenset({"-d", "-i", "-u"}),
}
"""Programs and options with which they print whole lines of what they are given, and nothing else."""


def printed_names(words: Sequence[str], given: NameSeparator) -> NameSeparator:
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
            return given if given == "lines" and _filters_lines(words) else ""


def _parse_arguments(words: Sequence[str]) -> Arguments | None:
    read = split_arguments(READERS[words[0]], words[1:])
    return None if isinstance(read, str) else read


def _lists(words: Sequence[str]) -> bool:
    """Whether grep or rg prints the names of files and nothing else."""
    if words[0] not in _GREPS | {"rg"} or (read := _parse_arguments(words)) is None:
        return False
    listing, choosing = (_RG_LISTS, _RG_CHOOSES) if words[0] == "rg" else (_GREP_LISTS, _GREP_CHOOSES)
    options = set(read.options)
    return bool(options & listing) and options <= listing | choosing


def _filters_lines(words: Sequence[str]) -> bool:
    """Whether a command reads its input, not a file, and prints lines of it as they are."""
    known = _LINE_FILTERS.get(words[0])
    if known is None or (read := _parse_arguments(words)) is None or not known.issuperset(read.options):
        return False
    patterns = 1 if words[0] in _GREPS and "-e" not in read.options else 0
    return len(read.operands) == patterns
