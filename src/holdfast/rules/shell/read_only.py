"""Read-only programs (the preset `$shell-readonly`): their harmless options, and which operands are files.

An allow-list: programs and options that are not in the tables need approval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.rules.shell.context import (
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
from holdfast.rules.shell.parts import word_set
from holdfast.rules.shell.programs import COMPARISONS, is_plain_name
from holdfast.rules.shell.sed_awk import check_awk, check_sed

_TAR_LISTS: Final = re.compile(r"-?(?=[tvzjJ]*t)[tvzjJ]+f")
_ARCHIVE: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
"""An archive name without the special meanings of tar (`host:file`) and unzip (globs)."""
_XXD_FLAGS: Final = word_set("-a -b -e -E -i -p -ps -u")
_XXD_NUMBERED: Final = re.compile(r"-[cgls]([0-9]+)?")
_PROCESSES: Final = frozenset({(), ("-A",), ("-a",), ("-e",)})
"""Arguments of ps that print program names only: command lines and environments may contain secrets."""
_SECONDS: Final = re.compile(r"[0-9]{1,3}(\.[0-9]+)?s?")


OperandKind = Literal["paths", "text", "none", "pattern", "one path"]
MAX_NESTED: Final = 8
_NUMBER: Final = re.compile(r"-[0-9]+")
_PROGRAM_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", re.ASCII)


class ReadOnlyProgram(Struct, frozen=True, kw_only=True):
    """The known options and operands of a read-only program."""

    flags: str = ""
    """Short options without a value, which can be combined."""
    valued: str = ""
    """Short options with a value, attached or in the next word."""
    attached: str = ""
    """Short options with an optional, attached value."""
    files: str = ""
    """Those of `valued` whose value is a file."""
    long: tuple[str, ...] = ()
    """Long options; those with a value end in `=`."""
    operands: OperandKind = "paths"
    numbers: bool = False
    """Whether `-5` is an option."""
    lists: bool = False
    """Whether `@file` is replaced by the arguments in that file."""
    follows: bool = False
    """Whether it follows symlinks inside its folders."""


def read_only_program(
    flags: str = "", valued: str = "", long: str = "", operands: OperandKind = "paths", *, attached: str = "",
    files: str = "", **marks: bool,
) -> ReadOnlyProgram:  # fmt: skip
    """Build a table entry; long options are given without their dashes."""
    names = tuple(f"--{name}" for name in long.split())
    return ReadOnlyProgram(
        flags=flags, valued=valued, long=names, operands=operands, attached=attached, files=files, **marks
    )  # fmt: skip


class Arguments(Struct, frozen=True):
    options: tuple[str, ...]
    operands: tuple[str, ...]
    files: tuple[str, ...] = ()
    """Values of options that are files."""
    values: tuple[tuple[str, str], ...] = ()
    """Short options with their values."""


def split_arguments(program: ReadOnlyProgram, words: Sequence[str]) -> Arguments | str:
    """Split arguments into options and operands; a string says which option is unknown."""
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
    """Whether the next word can be the value of an option. Not if it looks like an option, nor for `FOUND_PATH`, which
    may
    be any number of words."""
    word = next(iter(following), FOUND_PATH)
    return word != FOUND_PATH and (not word.startswith("-") or _VALUE.fullmatch(word) is not None)


def check_read_only(words: Sequence[str], context: CommandContext, depth: int = 0) -> str | None:
    """Why a command does more than read in the project; empty if it does not; None for unknown programs."""
    if len(words) == 2 and (words[1] == "--version" or words[1] == "--help"):
        name = words[0]
        if name in READERS or name in _EXPLAINED or (name in _VERSIONED and words[1] == "--version"):
            return ""
    if words[0] in SPECIAL_CHECKS:
        return SPECIAL_CHECKS[words[0]](words, context, depth)
    return _check_program(READERS[words[0]], words, context) if words[0] in READERS else None


def _check_program(program: ReadOnlyProgram, words: Sequence[str], context: CommandContext) -> str:
    if UNKNOWNS & set(words) and program.operands != "text":
        return "an argument is only known at run time"
    if UNKNOWN_GLOB in words:
        return MAY_LIST
    read = split_arguments(program, words[1:])
    if isinstance(read, str):
        return read
    operands = list(read.operands)
    match program.operands:
        case "none":
            return "it is only known to be harmless without operands" if operands else ""
        case "text":
            return ""
        case "pattern":
            named = operands[:1] == [FOUND_PATH] or {"-e", "-f", "--files", "--regexp"} & set(read.options)
            operands = operands if named else operands[1:]
        case "one path":
            if len(operands) > 1 or FOUND_PATH in operands:
                return "it writes to its second operand"
        case "paths":
            pass
    if program.lists and any(operand == FOUND_PATH or operand.startswith("@") for operand in operands):
        return "an operand may name a file with arguments"
    if program.follows and not context.links_stay_inside and not all(map(context.is_plain_file, operands)):
        return "it may follow symlinks out of the project"
    return outside_project([*operands, *read.files], context)


def outside_project(paths: Sequence[str], context: CommandContext) -> str:
    """Why the paths, or the folder the command runs in, may be outside the project; empty if they are inside."""
    if not context.in_project:
        return "it does not run inside the project"
    for path in paths:
        if path in UNKNOWNS:
            return "an argument is only known at run time"
        if path == FOUND_PATH and not context.found_files_stay_inside:
            return "a file it finds may be a symlink out of the project"
        if path not in ("-", DEV_NULL, FOUND_PATH) and not context.contains(path):
            return f"'{path}' is not inside the project"
    return ""


def _check_inner(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """Check a command that another one starts; unknown programs are refused."""
    if depth >= MAX_NESTED:
        return "commands are nested too deeply"
    if not words or not is_plain_name(words[0]):
        return "it runs a program by path, not by name"
    reason = check_read_only(words, context, depth + 1)
    if reason is None:
        return f"'{words[0]}' is not known to only read"
    return reason or (
        "" if context.is_trusted_program(words[0], external=True) else f"'{words[0]}' is not a system program"
    )


def _check_printf(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """Refuse `%n` and `-v`, which set variables."""
    format_given = words[2:3] if list(words[1:2]) == ["--"] else words[1:2]
    if not format_given or format_given[0] in PLACEHOLDERS or format_given[0].startswith("-"):
        return "its format is only known at run time"
    if "%" in _DIRECTIVE.sub("", format_given[0]):
        return "its format is not known to only print"
    return MAY_LIST if UNKNOWN_GLOB in words else ""


def _check_cd(words: Sequence[str], context: CommandContext, depth: int) -> str:
    if len(words) != 2 or context.after_cd(words[1]) is None:
        return "it changes to a folder that may be outside the project"
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
        return "an argument is only known at run time"
    scripts = [value for letter, value in read.values if letter == "e"]
    operands = list(read.operands)
    if not scripts and operands:
        scripts.append(operands.pop(0))
    if FOUND_PATH in scripts:
        return "its script is only known at run time"
    return check_sed("\n".join(scripts)) or outside_project(operands, context)


def _check_awk(words: Sequence[str], context: CommandContext, depth: int) -> str:
    read = split_arguments(_AWK, words[1:])
    if isinstance(read, str):
        return read
    if UNKNOWNS & set(words):
        return "an argument is only known at run time"
    if not read.operands or read.operands[0] == FOUND_PATH:
        return "its program is only known at run time"
    files = [word for word in read.operands[1:] if not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", word)]
    return check_awk(read.operands[0]) or outside_project(files, context)


def _check_which(words: Sequence[str], context: CommandContext, depth: int) -> str:
    names = [word for word in words[1:] if word != "-a"]
    return "" if all(map(_PROGRAM_NAME.fullmatch, names)) else "not all of its operands are program names"


def _check_command(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """Allow only `command -v NAME` and `command -V NAME`."""
    if words[1:2] != ["-v"] and words[1:2] != ["-V"]:
        return "it runs another command"
    return _check_which(words[1:], context, depth)


def _check_test(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """Check `test`, `[` and `[[`: operands must be project files or plain strings."""
    rest = list(words[1:])
    if words[0] != "test" and (not rest or rest.pop() != words[0].replace("[", "]")):
        return "its closing bracket is missing"
    if "-v" in rest or "-R" in rest:
        return "it evaluates the name of a variable"
    if (words[0] == "[[" or context.dialect != "bash") and not all(map(_INTEGER.fullmatch, _compared(rest))):
        return "the shell may evaluate its operands as arithmetic"
    files = [after for word, after in pairwise(rest) if word in _FILE_TESTS]
    files += [word for word, after in pairwise(rest) if after in ("-nt", "-ot", "-ef")]
    files += [after for word, after in pairwise(rest) if word in ("-nt", "-ot", "-ef")]
    if not all(_is_compared(rest, at) for at, word in enumerate(rest) if word in PLACEHOLDERS):
        return "an operand is only known at run time"
    return outside_project(files, context)


def _is_compared(words: Sequence[str], at: int) -> bool:
    """Whether an unknown word of a test is a single string operand, which cannot become an operator."""
    before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
    return words[at] == UNKNOWN_WORD and (before in (*_BINARY, "-n", "-z") or after in _BINARY)


def _compared(words: Sequence[str]) -> list[str]:
    """The operands of `-eq` and the like, which some shells evaluate as arithmetic."""
    around = zip(["", *words], words, [*words[1:], ""], strict=False)
    return [side for before, word, after in around if word in COMPARISONS for side in (before, after)]


def _check_find(words: Sequence[str], context: CommandContext, depth: int) -> str:
    rest = list(words[1:])
    files: list[str] = []
    if rest[:1] in (["-L"], ["-H"]) and (rest.pop(0) and not context.found_files_stay_inside):
        return "it may follow symlinks out of the project"
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
            return f"the find expression '{word}' is not known to be harmless"
    return "an argument is only known at run time" if UNKNOWNS & set(words) else outside_project(files, context)


def _is_after_type(words: Sequence[str], rest: Sequence[str]) -> bool:
    """Whether `-type f` comes before this action, so that it only sees regular files."""
    before = list(words[: len(words) - len(rest)])
    return any(pair == ("-type", "f") for pair in pairwise(before))


def _check_exec(rest: list[str], context: CommandContext, depth: int, *, regular: bool) -> str:
    """Check `-exec COMMAND {} ;` and remove its words from `rest`."""
    inner: list[str] = []
    while rest and rest[0] != ";" and not (rest[0] == "+" and inner[-1:] == ["{}"]):
        inner.append(rest.pop(0))
    if not rest:
        return "its -exec has no terminator"
    rest.pop(0)
    if any("{}" in word and word != "{}" for word in inner):
        return "`{}` is only part of a word"
    regular = regular and FOUND_PATH not in inner  # those were found by another command
    found = [FOUND_PATH if word == "{}" else word for word in inner]
    return _check_inner(found, replace(context, only_regular_files=True) if regular else context, depth)


class Xargs(Struct, frozen=True):
    words: tuple[str, ...]
    """The command that xargs runs."""
    nulls: bool = False
    mark: str = ""
    """The replacement string (`-I`); empty if the input is appended."""


def read_xargs(words: Sequence[str]) -> Xargs | str:
    """Parse an xargs command; a string says what is unknown."""
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
        return "how it splits its input is not known"
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
        return "its replacement string is only part of a word"
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
    """Allow `read` into the script's own variables."""
    read = split_arguments(read_only_program("ers", "dnNptu"), words[1:])
    if isinstance(read, str):
        return read
    return (
        ""
        if all(map(_OWN_NAME.fullmatch, read.operands))
        else "it sets a variable that the shell or other programs may use"
    )


def _check_archive(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """Allow `tar` and `unzip` only to list an archive."""
    path = words[2] if len(words) == 3 and not PLACEHOLDERS & set(words) and _ARCHIVE.fullmatch(words[2]) else None
    if words[0] == "tar":
        lists = path is not None and _TAR_LISTS.fullmatch(words[1]) is not None
    else:  # without the suffix, unzip also looks for other files
        lists = path is not None and words[1] in ("-l", "-Z1") and path.endswith(".zip")
    return outside_project([words[2]], context) if lists else "it is not known to only list"


def _check_ps(words: Sequence[str], context: CommandContext, depth: int) -> str:
    return "" if tuple(words[1:]) in _PROCESSES else "it is not known to only list"


def _check_sleep(words: Sequence[str], context: CommandContext, depth: int) -> str:
    return "" if len(words) == 2 and _SECONDS.fullmatch(words[1]) else "its duration is not a plain number of seconds"


def _check_xxd(words: Sequence[str], context: CommandContext, depth: int) -> str:
    """Allow xxd with one file; it writes to a second one. Options must come before the file."""
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
    return (
        ""
        if re.fullmatch(r"-(e|u|x|eu|ex|eux)|-e?u?x?o pipefail", " ".join(words[1:]))
        else "it changes options of the shell"
    )


_VERSIONED: Final = word_set("bash clang g++ gcc make node perl pip pip3 python python3 ruby")
"""Programs whose `--version` does not look at the project."""
_EXPLAINED: Final = word_set("awk date find jq ps sed tar unzip xargs")
"""Programs with a special check whose `--version` and `--help` are harmless."""
_XARGS_HARMLESS: Final = re.compile(
    r"-([0rtx]*)(?:[nPL][0-9]+|l[0-9]*|)|--no-run-if-empty|--verbose|--max-(?:args|procs)=[0-9]+"
)
MAY_LIST: Final = "it may list files outside the project"
_DIRECTIVE: Final = re.compile(r"%%|%[-+ #0]*[0-9]*(?:\.[0-9]*)?[bcdiouxXeEfFgGaAsq]")
"""Format directives that only print: no `%n`, and no width from an argument."""
_OWN_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_BINARY: Final = frozenset({"=", "==", "!=", "<", ">", *COMPARISONS})
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_VALUE: Final = re.compile(r"-|-[0-9]+")
"""Words that look like options but are not: standard input, and negative numbers."""
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
"""Options of grep that select files without changing how their names are printed."""
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
"""Programs, with options, that print whole lines of their input and nothing else."""


def printed_names(words: Sequence[str], given: NameSeparator) -> NameSeparator:
    """The separator of the project file names that an approved command prints; empty if it prints anything else.

    `given` is the separator of the names it reads from standard input.
    """
    name, rest = words[0], list(words[1:])
    match name:
        case "find" if not _FIND_PRINTS_MORE.intersection(rest):
            return "lines" if "-print0" not in rest else "" if "-print" in rest else "nulls"
        case "ls" if all(not word.startswith("-") or word in ("-1", "-A", "-d") for word in rest):
            return "lines"  # not with -a, which lists the parent folder
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
    """Whether grep or rg prints file names and nothing else."""
    if words[0] not in _GREPS | {"rg"} or (read := _parse_arguments(words)) is None:
        return False
    listing, choosing = (_RG_LISTS, _RG_CHOOSES) if words[0] == "rg" else (_GREP_LISTS, _GREP_CHOOSES)
    options = set(read.options)
    return bool(options & listing) and options <= listing | choosing


def _filters_lines(words: Sequence[str]) -> bool:
    """Whether a command reads standard input, not a file, and prints unchanged lines of it."""
    known = _LINE_FILTERS.get(words[0])
    if known is None or (read := _parse_arguments(words)) is None or not known.issuperset(read.options):
        return False
    patterns = 1 if words[0] in _GREPS and "-e" not in read.options else 0
    return len(read.operands) == patterns
