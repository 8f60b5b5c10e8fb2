"""The English words that say what a message asks for. Whole words only: `created` is not `create`."""

from __future__ import annotations

from typing import Final


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


CHANGES: Final = words_of(
    "add change create delete edit modify overwrite replace update write "
    "append fix implement insert move refactor remove rename"
)

LOOKS_UP: Final = words_of("find where where's locate search")
USAGE: Final = words_of(
    "use uses used using usage usages call calls called caller callers invoke invokes invoked reference references "
    "referenced occur occurs occurrence occurrences appear appears"
)
DOES: Final = words_of("use call invoke reference")
"""After a name these say what it does itself."""
CONFIG: Final = words_of("config configs configure configures configured configuring configuration setting settings")
INIT: Final = words_of(
    "init initialise initialises initialised initialising initialisation initialize initializes initialized "
    "initializing initialization"
)
CREATE: Final = words_of("create creates created creating creation instantiate instantiates instantiated")
REGISTER: Final = words_of("register registers registered registering registration")
LOAD: Final = words_of("load loads loaded loading")
SAVE: Final = words_of("save saves saved saving store stored stores persist persists persisted")
DEFINITION: Final = words_of(
    "define defines defined definition definitions declare declares declared declaration implement implements "
    "implemented implementation"
)

CODE_TERMS: Final = (
    USAGE | CONFIG | INIT | CREATE | REGISTER | LOAD | SAVE | DEFINITION
) | words_of(
    "class classes code codebase command constant endpoint enum exception file files function functions handler "
    "interface method methods module modules package parser repo repository route source struct test tests tool trait "
    "type variable exported handled imported logged parsed raised rendered tested thrown validated"
)
"""Beside a word of looking up, these say that the looking is in the code."""

ALL_OF_THEM: Final = words_of("all every everywhere usages occurrences callers references places")

LISTING: Final = words_of("list ls show display explore browse tree what which")
FOLDER_TERMS: Final = words_of("files folder folders directory directories dir dirs structure layout contents")

FOLDERS: Final = words_of("src lib docs doc tests test bin app cmd pkg include internal scripts")
"""Folders by their name alone."""

PROPER_NAMES: Final = words_of(
    "JavaScript TypeScript GitHub GitLab BitBucket PostgreSQL MongoDB MySQL MariaDB OpenAI ChatGPT YouTube LinkedIn "
    "GraphQL WhatsApp WordPress PowerShell CoffeeScript OpenSSL FreeBSD CentOS MacBook MacOS DevOps LaTeX "
    "PyTorch TensorFlow FastAPI SQLite JetBrains NodeJS"
)
"""Written like a class, and known to be none."""
