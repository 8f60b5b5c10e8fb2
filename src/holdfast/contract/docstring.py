"""Docstrings: what they say of the function, and of each parameter. Sections are read by griffe, when there are any."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

_GOOGLE: Final = r"(?m)^\s*(?:Args|Arguments|Params|Parameters):\s*$"
_NUMPY: Final = r"(?m)^\s*Parameters\s*\n\s*-{3,}\s*$"
_SPHINX: Final = r"(?m)^\s*:(?:param|parameter|arg)\b"


class Documented(NamedTuple):
    description: str
    parameters: dict[str, str]


def read_docstring(function: Callable[..., Any]) -> Documented:
    text = inspect.getdoc(function) or ""
    style = _style(text)
    return Documented(text.strip(), {}) if style is None else _read_sections(text, style)


def _style(text: str) -> Literal["google", "numpy", "sphinx"] | None:
    if "\n" not in text:
        return None
    if re.search(_GOOGLE, text):
        return "google"
    if re.search(_NUMPY, text):
        return "numpy"
    return "sphinx" if re.search(_SPHINX, text) else None


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
