"""What is arithmetic, as the calculator reads it; spoken operators are written as signs."""

from __future__ import annotations

import re
from typing import Final

from holdfast.models.operator.words import ARITHMETIC

_CONSTANTS: Final = frozenset({"e", "pi", "tau"})
_SPOKEN: Final = {
    "plus": "+",
    "minus": "-",
    "times": "*",
    "multiplied by": "*",
    "divided by": "/",
    "over": "/",
    "to the power of": "^",
    "modulo": "%",
    "mod": "%",
    "×": "*",
    "·": "*",
    "÷": "/",
    "−": "-",
}
_SIGNS: Final = re.compile("|".join(rf"\b{word}\b" if word.isascii() else word for word in _SPOKEN), re.IGNORECASE)
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?![\w.])|\.[0-9]+(?![\w.]))"
    r"|(?P<name>[a-z][a-z0-9]*)|(?P<sign>\*\*|//|[-+*/^%(),]))"
)
_LINE: Final = "s*n(?:[so]s*n)*"
"""Of a shape: n an operand, s a sign, o any other operator, f a function."""
_GROUP: Final = re.compile(rf"f\({_LINE}(?:,{_LINE})*\)|\({_LINE}\)")
_WORK: Final = re.compile(r"f|[n)][so]")
_MAX: Final = 1000


def expression(text: str) -> str | None:
    """The expression in a text; None if it is anything else, or only a number."""
    signs = _SIGNS.sub(lambda found: _SPOKEN[found[0].lower()], text).strip()
    signs = signs.removesuffix("=").rstrip()
    shape = _shape(signs) if len(signs) <= _MAX else None
    if shape is None or not _WORK.search(shape):
        return None
    while (smaller := _GROUP.sub("n", shape)) != shape:
        shape = smaller
    return signs if re.fullmatch(_LINE, shape) else None


def _shape(signs: str) -> str | None:
    made: list[str] = []
    place = 0
    while place < len(signs):
        found = _TOKEN.match(signs, place)
        if found is None:
            return None
        letter = _letter(str(found.lastgroup), found[found.lastgroup or 0])
        if letter is None:
            return None
        made.append(letter)
        place = found.end()
    return "".join(made)


def _letter(kind: str, said: str) -> str | None:
    if kind == "number" or said in _CONSTANTS:
        return "n"
    if kind == "name":
        return "f" if said in ARITHMETIC else None
    return said if said in "()," else "s" if said in "+-" else "o"
