"""What a command only writes: targets of `>`, and values of `-o` where that is known to name an output.

A build changes its outputs each time, so binding a grant to them would void it with the first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from secrets import token_hex
from typing import Final

from holdfast.rules.shell.parts import Reading, read
from holdfast.rules.shell.programs import SHELLS, family, program_name
from holdfast.rules.shell.verdicts import Part

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
"""Programs whose `-o` always has a value and only writes there, and the options of theirs that take no further word:
after any other one `-o` may be its value (`cc -MF -o x.c` compiles `x.c`). For other programs it may be a flag
(`unzip -o x.zip`), or mean what a script in the command makes of it."""
_WRITTEN: Final = re.compile(
    r"(?:>(?:[>|]?[ \t]*|&[ \t]*(?![0-9]))|(?<![^\s'\"])(?:-o|--out|--outfile|--output)(?:[ \t]+|=))['\"]?"
    r"([\w./+@%:,-]+)"
)
_MARK: Final = f"o{token_hex(12)}x"
"""Nobody who writes a command can know it, so that it stands only where it was put."""


def without_outputs(text: str) -> str:
    """The text with a mark in the place of each name that is only written.

    Each name that may be one is marked, and the marked text is read: a mark that is found as an output, and nowhere
    else, stands for an output. So the place in the text counts, and the same name elsewhere stays.
    """
    places = [found.span(1) for found in _WRITTEN.finditer(text)][:_MAX_OUTPUTS]
    if not places:
        return text
    reading = read(_marked(text, dict(enumerate(places))))
    if reading.unreadable or reading.overrun:
        return text
    written = _outputs(reading)
    return _marked(text, {number: place for number, place in enumerate(places) if f"{_MARK}{number}x" in written})


def _marked(text: str, places: dict[int, tuple[int, int]]) -> str:
    for number, (start, end) in sorted(places.items(), reverse=True):
        text = f"{text[:start]}{_MARK}{number}x{text[end:]}"
    return text


def _outputs(reading: Reading) -> set[str]:
    redefined = any(part.kind == "opaque" or part.words[:1] == ("alias",) for part in reading.parts)
    scripts = {word for part in reading.parts if _is_shell(part) for word in part.words}
    outputs, others = set[str](), list[str](reading.texts[1:])
    for part in reading.parts:
        found = set(_written_by(part, by_option=not redefined))
        outputs |= found if not part.guessed else set()
        for word in part.words:
            if word and _MARK in word and word not in scripts and word.rpartition("=")[2] not in found:
                others.append(word)
    return {word for word in outputs if not any(word in other for other in others)}


def _is_shell(part: Part) -> bool:
    return part.kind == "command" and program_name(part.words[0] or "") in SHELLS


def _written_by(part: Part, *, by_option: bool) -> Iterator[str]:
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
