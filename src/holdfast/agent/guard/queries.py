"""Search queries of small models: one literal word instead of a phrase, and the words that find everything."""

from __future__ import annotations

import re
from typing import Final

from holdfast.agent.guard.vocabulary import words_of

_WORD: Final = re.compile(r"""[^\s\\()\[\]{}.,;:"'`]+""")
_ABOUT_ASKING: Final = words_of(
    "a an and are fn for find how in initialize initialized initialization implemented is of or the to what where "
    "initialise initialised initialisation all every does do we search locate show usage usages uses used called "
    "callers calls definition definitions defined declared"
)
_DECLARING: Final = words_of("def class function func struct enum trait interface impl pub async")
"""Like `fn`: found in every file, while the word after them is the one that is meant."""
_OBJECT: Final = words_of("self this cls")
"""What stands before the dot of a name that is meant."""
SHORTEST: Final = 3


def simplified(query: str) -> str:
    """The first word that says something and would not find everything; the query itself if there is none.

    Words end at white space, quotes, brackets and ``\\ . , ; :``. Question words, the keywords of a declaration and
    `self` say nothing, in any case of letters: `where is fn parse_line` is `parse_line`, `Session::open()` is
    `Session`, `os.path.join` is `path`.
    """
    for match in _WORD.finditer(query):
        word = match[0].lower()
        if word not in _ABOUT_ASKING and word not in _DECLARING and word not in _OBJECT and not is_weak(word):
            return match[0]
    return query


def is_weak(query: str) -> bool:
    """Whether it would find everything: empty, shorter than three characters, or `git`."""
    word = query.strip()
    return len(word) < SHORTEST or word.lower() == "git"
