"""Docstrings: what they say of the function, and of each parameter. Sections are read by griffe, when there are any."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

_GOOGLE: Final = re.compile(r"^\s*(?:Args|Arguments|Params|Parameters):\s*$", re.MULTILINE)
_NUMPY: Final = re.compile(r"^\s*Parameters\s*\n\s*-{3,}\s*$", re.MULTILINE)
_SPHINX: Final = re.compile(r"^\s*:(?:param|parameter|arg)\b", re.MULTILINE)


class Documented(NamedTuple):
    description: str
    parameters: dict[str, str]


def read_docstring(function: Callable[..., Any]) -> Documented:
    text = inspect.getdoc(function) or ""
    style = _style(text)
    return Documented(text.strip(), {}) if style is None else _read_sections(text, style)


def _style(text: str) -> Literal["google", "numpy", "sphinx"] | None:
    if _GOOGLE.search(text):
        return "google"
    if _NUMPY.search(text):
        return "numpy"
    return "sphinx" if _SPHINX.search(text) else None


def _read_sections(text: str, style: Literal["google", "numpy", "sphinx"]) -> Documented:
    import logging

    from griffe import Docstring, DocstringSectionParameters, DocstringSectionText

    logging.getLogger("griffe").setLevel(logging.ERROR)
    description: list[str] = []
    parameters: dict[str, str] = {}
    for section in Docstring(text).parse(style):
        if isinstance(section, DocstringSectionText):
            description.append(section.value.strip())
        elif isinstance(section, DocstringSectionParameters):
            parameters |= {item.name.lstrip("*"): " ".join(item.description.split()) for item in section.value}
    return Documented("\n\n".join(description), parameters)
