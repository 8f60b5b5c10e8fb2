"""Finds everything in a command text that may be a file path, however it is quoted, attached or passed on.

Deliberately broad: every run of path characters counts, and so does every word as the shell parses it. A path that
does not exist costs nothing, and a file too many only means that the user is asked again when it changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from secrets import token_hex
from typing import Final

from msgspec import Struct

from holdfast.rules.shell.analysis import CommandAnalysis, analyze
from holdfast.rules.shell.parts import CommandPart
from holdfast.rules.shell.programs import SHELLS, family, program_name

_MAX_OUTPUTS: Final = 64
_OPTIONS: Final = frozenset({"-o", "--out", "--outfile", "--output"})
_COMPILER: Final = (
    r"-(?:[cgvwsSE]|g\w+|O\w?|W[\w=,+-]+|std=\S+|m(?:32|64|\w+=\S+)|f(?:PIC|pic|PIE|pie|openmp|no-[\w-]+|[\w-]+=\S+)"
    r"|[DILlTU]\S+|shared|static|pthread|pipe)"
)
_WRITERS: Final = {
    **dict.fromkeys(("c++", "cc", "clang", "clang++", "g++", "gcc", "gfortran", "rustc"), re.compile(_COMPILER)),
    "curl": re.compile(".*"),  # other words are addresses
    "esbuild": re.compile("--[a-z-]+(?:[=:].*)?"),
    "pandoc": re.compile("-[sN]|--standalone|--toc"),
    "sort": re.compile("-[bdfghiMnRrVmsuz]+"),
}
"""Programs whose `-o FILE` only writes the file, with their options that take no value: after any other option `-o` may
be its value (`cc -MF -o x.c` compiles `x.c`). For other programs `-o` may be a flag (`unzip -o x.zip`), or mean
anything in a script."""
_WRITTEN: Final = re.compile(
    r"(?:>(?:[>|]?[ \t]*|&[ \t]*(?![0-9]))|(?<![^\s'\"])(?:-o|--out|--outfile|--output)(?:[ \t]+|=))['\"]?"
    r"([\w./+@%:,-]+)"
)
_OUTPUT_MARK: Final = f"o{token_hex(12)}x"
"""Random, so that a command cannot contain it already."""


def without_outputs(text: str) -> str:
    """The text with each file name that is only written replaced by a marker.

    Every candidate is marked and the marked text is analyzed: a marker that appears as an output, and nowhere else, is
    an output. So the same name in another position is kept.
    """
    places = [found.span(1) for found in _WRITTEN.finditer(text)][:_MAX_OUTPUTS]
    if not places:
        return text
    analysis = analyze(_marked(text, dict(enumerate(places))))
    if analysis.unreadable or analysis.too_complex:
        return text
    written = _outputs(analysis)
    return _marked(
        text, {number: place for number, place in enumerate(places) if f"{_OUTPUT_MARK}{number}x" in written}
    )


def _marked(text: str, places: dict[int, tuple[int, int]]) -> str:
    for number, (start, end) in sorted(places.items(), reverse=True):
        text = f"{text[:start]}{_OUTPUT_MARK}{number}x{text[end:]}"
    return text


def _outputs(analysis: CommandAnalysis) -> set[str]:
    redefined = any(part.kind == "opaque" or part.words[:1] == ("alias",) for part in analysis.parts)
    scripts = {word for part in analysis.parts if _is_shell(part) for word in part.words}
    outputs, others = set[str](), list[str](analysis.texts[1:])
    for part in analysis.parts:
        found = set(_written_by(part, by_option=not redefined))
        outputs |= found if not part.guessed else set()
        for word in part.words:
            if word and _OUTPUT_MARK in word and word not in scripts and word.rpartition("=")[2] not in found:
                others.append(word)
    return {word for word in outputs if not any(word in other for other in others)}


def _is_shell(part: CommandPart) -> bool:
    return part.kind == "command" and program_name(part.words[0] or "") in SHELLS


def _written_by(part: CommandPart, *, by_option: bool) -> Iterator[str]:
    words = [word or "" for word in part.words]
    if part.kind == "redirection":
        if ">" in words[0] and "<" not in words[0] and len(words) > 1:
            yield words[1]
        return
    flags = _WRITERS.get(family(words[0])) if part.kind == "command" and by_option else None
    if flags is None:
        return
    for at in range(1, len(words)):
        option, equals, value = words[at].partition("=")
        is_value = words[at - 1] in _OPTIONS and at > 1
        before = words[at - 2 if is_value else at - 1]
        if at - 1 - is_value > 0 and before.startswith("-") and flags.fullmatch(before) is None:
            continue
        if is_value:
            yield words[at]
        elif equals and option in _OPTIONS:
            yield value


MAX_TEXT: Final = 128 * 1024
"""The maximum length of one argument on Linux, so of a script too."""
MAX_WORDS: Final = 100_000
_MAX_BRACES: Final = 256
_MAX_PATH: Final = 4096
_MAX_NAME: Final = 255
_MAX_SEPARATORS: Final = 64
_MAX_FLAGS: Final = 64

_RUN: Final = re.compile(r"(?:\\.|[^\s'\"`$;&|<>(){}\\])+", re.DOTALL)
_PLAIN: Final = re.compile(r"[\w./+-]+")
_SEPARATOR: Final = re.compile(r"[^\w./+-]")
_FLAGS: Final = re.compile(r"-\w*")
_QUOTED: Final = re.compile(r"'([^']{1,4096}+)'|(?<!\\)\"((?:[^\"\\]|\\.){1,1024}+)\"", re.DOTALL)
_EXPANDED: Final = re.compile(r"(?:\$\w+|[})`]|~[\w+-]*)/([^\s'\"`$;&|<>(){}]+)")
"""`$PWD/x`, `${X}/x`, `$(pwd)/x`, `~+/x`: the folder may be any of the searched ones."""
_UNQUOTED: Final = re.compile(r"\\\n|[\\'\"]")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_CODED: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|(0?[0-7]{1,3})|([abcefnrtv\\]))")
"""Backslash escapes of `printf`, `echo -e` and `$'…'`."""

_LOOSE: Final = re.compile(r"[^\s'\"`$;&|<>()]+")
_CLASS: Final = re.compile(r"\[:\w{1,16}:\]")
_ONE_OF: Final = re.compile(r"\[[!^]?\]?[^]/]{0,255}\]")
_EXTENDED: Final = re.compile(r"[@?*+!]\([^()\s]*\)")
_RANGE: Final = re.compile(r"\{[^{},\s]{1,32}\.\.[^{},\s]{1,64}\}")
_BRACES: Final = re.compile(r"\{([^{}\s]*)\}")

_MESSAGE: Final = re.compile(r"\"\$\(cat <<-? ?(['\"])(\w+)\1\n.*?\n\2\n\s*\)\"", re.DOTALL)
_MAX_MESSAGES: Final = 8
_MARK: Final = f"m{token_hex(12)}x"
_BLANK: Final = re.compile(r"\s")
_RUNS_TEXT: Final = re.compile(
    r"(?<![\w.-])(?:busybox|eval|exec\w*|glob\w*|nu|parallel|popen|source|spawn\w*|subprocess|system|xargs"
    r"|(?:a|ba|c|da|fi|k|mk|pw|rba|s|tc|xon|ya|z)?sh)(?![\w-])"
    r"|(?:^|[;&|({\n])[ \t]*\.[ \t]",
    re.IGNORECASE,
)
"""Words that make a shell or an interpreter run text or expand globs in it."""

_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)\w+)*")
_MODULES: Final = (
    (re.compile(r"py|(?<![\w-])-\w*m", re.IGNORECASE), (".py", "/__init__.py", "/__main__.py")),
    (
        re.compile(r"\b(?:node|nodejs|bun|deno|tsx|ts-node)\b"),
        (".js", ".cjs", ".mjs", ".json", ".ts", "/index.js", "/index.ts", "/package.json"),
    ),
    (re.compile(r"\b(?:ruby|rake|irb)"), (".rb",)),
    (re.compile(r"\b(?:perl|prove\b)"), (".pm",)),
    (re.compile(r"\blua(?:jit)?[\d.]*\b"), (".lua", "/init.lua")),
)
"""Interpreters that load modules by name: how to recognize them in a text, and the file suffixes they look for."""


class TooManyPaths(Exception):
    """The text mentions more paths than can be looked up."""


class PathMentions(Struct, frozen=True):
    """The words and globs in a command text that may be paths."""

    words: tuple[str, ...]
    patterns: tuple[str, ...]
    """Globs that match at least what the shell would: `[…]` is any character, `@(…)` and `{1..3}` are anything."""
    all_names: bool
    """Whether `*` may match hidden files and `**` any depth, because the text sets shell options."""


def find_path_mentions(text: str) -> PathMentions:
    """Everything in the text that may be a path, except files that are only written. Raises `TooManyPaths`."""
    if len(text) > MAX_TEXT:
        raise TooManyPaths
    text = without_outputs(text)
    analysis = analyze(text)
    words, patterns, seen = dict[str, None](), dict[str, None](), set[str]()
    endings = [ending for starts, found in _MODULES if starts.search(text) is not None for ending in found]
    for source in dict.fromkeys(_sources(text, analysis)):
        for word in _words(source):
            if word in seen:
                continue
            seen.add(word)
            _add(words, word)
            for found in _modules(word, endings):
                _add(words, found)
    for source in dict.fromkeys(_expanding(text, analysis)):
        for pattern in _patterns(source, words):
            _add(patterns, pattern)
    return PathMentions(tuple(words), tuple(patterns), all_names="glob" in _UNQUOTED.sub("", text).lower())


def _add(words: dict[str, None], word: str) -> None:
    """Add a word and its parent folders, as in `cd $(dirname a/b)`."""
    if not 0 < len(word) <= _MAX_PATH or "\0" in word:
        return
    while word and word not in words:
        if len(words) >= MAX_WORDS:
            raise TooManyPaths
        words[word] = None
        word = word.rstrip("/").rpartition("/")[0]


def _sources(text: str, analysis: CommandAnalysis) -> Iterator[str]:
    """The text and its parsed words and values; each also without quotes, and with escapes decoded."""
    resolved = (word for part in analysis.parts for word in part.words if word)
    for source in (text, *analysis.texts, *resolved):
        yield source
        if _UNQUOTED.search(source) is not None:
            yield _UNQUOTED.sub("", source)
            yield _CODED.sub(_decoded, source)


def _expanding(text: str, analysis: CommandAnalysis) -> Iterator[str]:
    """The texts in which `*` may be a glob: all of them if a shell may run text; otherwise code and prose are left
    out."""
    text, analysis = _without_messages(text, analysis)
    if analysis.unreadable or analysis.too_complex or _RUNS_TEXT.search(_UNQUOTED.sub("", text)) is not None:
        yield from _sources(text, analysis)
        return
    for value in analysis.texts[1:]:
        if f"\n{value}\n" in text and analysis.texts.count(value) == 1:
            text = text.replace(f"\n{value}\n", "\n")  # a here-document
        else:
            yield value
    yield _QUOTED.sub(lambda found: " " if _BLANK.search(found[0]) else found[1] or found[2], text)


def _without_messages(text: str, analysis: CommandAnalysis) -> tuple[str, CommandAnalysis]:
    """The text with the messages of `git commit -m "$(cat <<'EOF' …)"`, which the lexer does not support, as markers.

    A marker that is parsed as a word of its own proves that the shell treats the message as one word too.
    """
    found = list(_MESSAGE.finditer(text)) if text.count("$(cat <<") <= _MAX_MESSAGES else []
    if not found:
        return text, analysis
    marks = [f"{_MARK}{number}x" for number in range(len(found))]
    fresh = iter(marks)
    plain = _MESSAGE.sub(lambda _: f'"{next(fresh)}"', text)
    marked = analyze(plain)
    resolved = {word for part in marked.parts for word in part.words}
    is_sure = not (marked.unreadable or marked.too_complex) and resolved.issuperset(marks)
    return (plain, marked) if is_sure else (text, analysis)


def _decoded(found: re.Match[str]) -> str:
    if digits := found[1] or found[2]:
        return chr(int(digits, 16))
    return chr(int(found[3], 8) & 0xFF) if found[3] else " "


def _words(source: str) -> Iterator[str]:
    yield source
    for found in _QUOTED.finditer(source):
        yield found[1] or _ESCAPED.sub(r"\1", found[2] or "")
    for found in _EXPANDED.finditer(source):
        yield from _spellings(found[1])
    for run in _RUN.findall(source):
        yield from _spellings(_ESCAPED.sub(r"\1", run))
    for run in _PLAIN.findall(source):
        yield from _spellings(run)


def _spellings(run: str) -> Iterator[str]:
    """The run, and everything before and after each separator: `--file=x`, `if=x`, `@x`, `x:12`, `x::test`, `-xzfx`."""
    if len(run) > _MAX_PATH:
        return
    yield run
    separators = [found.start() for found in _SEPARATOR.finditer(run)]
    for at in separators if len(separators) <= _MAX_SEPARATORS else ():
        yield run[:at]
        yield run[at + 1 :]
        yield from _without_flags(run[at + 1 :])
    yield from _without_flags(run)


def _without_flags(word: str) -> Iterator[str]:
    """Possible values that are attached to short options: `-fx`, `-xzfx`."""
    if (flags := _FLAGS.match(word)) is not None:
        if flags.end() > _MAX_FLAGS:
            raise TooManyPaths
        yield from (word[at:] for at in range(1, flags.end() + 1))


def _modules(word: str, endings: Sequence[str]) -> Iterator[str]:
    if not endings or len(word) > _MAX_NAME or _SEPARATOR.search(word.replace("::", ".")) is not None:
        return
    yield from (word + ending for ending in endings)
    if _NAME.fullmatch(word) is not None and (names := re.split(r"\.|::", word))[1:]:
        yield from ("/".join(names) + ending for ending in endings)
        yield from ("/".join((*names[:count], "__init__.py")) for count in range(1, len(names)))


def _patterns(source: str, words: dict[str, None]) -> Iterator[str]:
    """The globs in the text. Brace expansions without a glob are added to `words`."""
    loose = _RANGE.sub("*", _EXTENDED.sub("*", _ONE_OF.sub("?", _CLASS.sub("x", source))))
    for run in _LOOSE.findall(loose):
        if len(run) > _MAX_PATH:
            continue
        for word in _braced(run):
            if "*" in word or "?" in word:
                yield from _parts_with_patterns(word)
            elif word != run:
                for spelling in _spellings(word):
                    _add(words, spelling)


def _parts_with_patterns(word: str) -> Iterator[str]:
    """The word, and the globs after a separator in it: `--file=*.sh`."""
    yield word
    parts = re.split(r"[=@:,{}]", word)
    if len(parts) > 1:
        yield from (part for part in parts if "*" in part or "?" in part)


def _braced(word: str) -> list[str]:
    """Expand braces: `a{b,c}` becomes `ab` and `ac`."""
    words = [word]
    done = list[str]()
    while words:
        if len(words) + len(done) > _MAX_BRACES:
            raise TooManyPaths
        word = words.pop()
        found = next((found for found in _BRACES.finditer(word) if "," in found[1]), None)
        if found is None:
            done.append(word)
        else:
            words += [word[: found.start()] + one + word[found.end() :] for one in found[1].split(",")]
    return done
