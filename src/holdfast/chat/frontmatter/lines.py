"""On which line of a frontmatter a word stands first; the code is read once, however many words are asked for."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

_TOKEN: Final = re.compile(r"""\n|"([^"\\\n]*)"|'([^'\n]*)'|([\w$-]+)""")


class Lines:
    def __init__(self, code: str) -> None:
        self._code = code

    def of(self, word: str) -> int | None:
        """The line of a key, in quotes or without."""
        return self._first.get(word)

    @cached_property
    def _first(self) -> dict[str, int]:
        first: dict[str, int] = {}
        line = 1
        for found in _TOKEN.finditer(self._code):
            if found.lastindex is None:
                line += 1
            else:
                first.setdefault(found[found.lastindex], line)
        return first
