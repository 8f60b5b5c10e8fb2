"""The tables of options in `docs/config.md`, generated: `python -m holdfast.config.reference docs/config.md`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final, cast

from msgspec import NODEFAULT, to_builtins

from holdfast.config.model import Config, Section
from holdfast.config.options import Option, is_section, options, words

_TABLE: Final = re.compile(r"(<!-- options: (.+) -->\n)(?:\|.*\n)*")
_HEAD: Final = "| option | default | meaning | an untrusted file may |\n|---|---|---|---|\n"
_UNITS: Final = ((2**30, "GiB"), (2**20, "MiB"))
_MAX_ITEMS: Final = 4


def with_tables(text: str) -> str:
    """The page with every table that follows an `options:` comment made anew.

    The comment names sections, options outside of any, and structs that other options hold.
    """
    return _TABLE.sub(lambda found: found[1] + _HEAD + "".join(map(_rows, found[2].split())), text)


def _rows(name: str) -> str:
    top = options(Config).get(name)
    if top is not None and not is_section(top.kind):
        return _row(name, top)
    shape = next(shape for shape in Section.__subclasses__() if shape.__name__ == name) if top is None else top.kind
    prefix = "" if top is None else f"{name}."
    return "".join(_row(prefix + key, option) for key, option in options(shape).items())


def _row(key: str, option: Option) -> str:
    known = [f"`{word.lower()}`" for word in words(option.kind)]
    choices = "" if all(word in option.doc for word in known) else f" One of {', '.join(known)}."
    return f"| `{key}` | {_default(option.default())} | {option.doc}{choices} | {option.trust.may} |\n"


def _default(value: Any) -> str:
    if value is NODEFAULT or value is None or value == {}:
        return ""
    for size, unit in _UNITS:
        if isinstance(value, int) and value >= size and value % size == 0:
            return f"{value // size} {unit}"
    plain = to_builtins(value)
    if isinstance(plain, list | tuple) and len(items := cast("list[str]", plain)) > _MAX_ITEMS:
        return ", ".join(f"`{item}`" for item in items[:_MAX_ITEMS]) + ", …"
    return f"`{json.dumps(plain)}`"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_tables(page.read_text()))
