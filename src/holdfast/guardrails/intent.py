"""Parses the intent of a message: the tools it needs, whether it needs evidence, and calls that it spells out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

from msgspec import Struct

from holdfast.agent.surface import ANSWER_ONLY, GIT_READ_ONLY, MUTATION_ENABLED, RETRIEVAL_FIRST, Surface
from holdfast.guardrails.negation import CHANGE_WORDS, asks_for_change
from holdfast.models.requests.masked_text import Form, MaskedText, Slot, flag_slots, mask
from holdfast.models.requests.words import (
    FOLDERS,
    MAX_NAME_CHARS,
    RequestWord,
    WordKind,
    is_code,
    is_config_format,
    kind_of,
    plain_word,
    strip_line_number,
    word_set,
    words_in,
)

_POLITE: Final = r"(?:(?:please|now|just|ok|okay|then|can you|could you|would you|will you) )*"
_TO_ME: Final = r"(?: me| us| to me| to us)?"
_THE_FILE: Final = r"(?:the )?(?:(?:whole |full |entire |raw )?(?:contents?|text|source|code) of )?(?:the )?(?:file )?"
_COURTESY: Final = r"(?: (?:file|again|please|for me|to me|now|here))*"
_SHOW: Final = r"(?:show|open|print|view|display)"
_WHAT_IS: Final = r"what(?: is|'s)"

_FOLDER: Final = r"(?:folder|directory|dir)"
_FILES: Final = r"(?:files|folders|directories|contents?|entries|everything)(?: and (?:files|folders|directories))?"
_ALL_FILES: Final = rf"(?:list|show|display){_TO_ME} (?:all )?(?:of )?(?:the )?{_FILES}"
_INSIDE: Final = r"(?:in|inside|under|within|of)"
_BARE: Final = r"[a-z0-9_][a-z0-9_.-]*"
_FOLDER_NAME: Final = rf"(?P<path>[DEQ]|{_BARE})"
_LOOK_INTO: Final = rf"(?:{_WHAT_IS} (?:in|inside)|(?:list|show|open|explore|browse)(?: me)?)"
_A_FOLDER: Final = (
    rf"(?:the )?{_FOLDER} {_FOLDER_NAME}",
    rf"(?:the )?{_FOLDER_NAME} {_FOLDER}",
    rf"(?:the )?(?P<path>[DEQ])|(?P<bare>{_BARE})",
)
_PROJECT: Final = rf"(?:this|the current|the root|the project root|the project|the repo|the repository)(?: {_FOLDER})?"
_HERE: Final = rf"(?: here| in here| {_INSIDE} {_PROJECT})"

_GIT_VERB: Final = r"(?:(?:show|run|give|display|print|view|check|see|get|what is|what's)(?: me| us)? )"
_GIT_WHICH: Final = r"(?:(?:the|my|our|current|recent|latest|last|full|output of) )*"


def _beginning(*forms: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(_POLITE + form) for form in forms)


def _whole(*forms: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(f"{_POLITE}(?:{form}){_COURTESY}$") for form in forms)


_READ_RAW: Final = _beginning(
    rf"(?:read|cat|{_SHOW}){_TO_ME} {_THE_FILE}(?P<path>F)",
    rf"(?:read|cat) {_THE_FILE}(?P<path>E)(?={_COURTESY}$)",
    rf"{_SHOW}{_TO_ME} (?:the )?file (?P<path>E)(?={_COURTESY}$)",
    rf"(?:show me )?{_WHAT_IS} (?:in|inside) {_THE_FILE}(?P<path>F)",
    r"what does (?:the )?(?:file )?(?P<path>F) contain",
)
_EXPLAIN: Final = _beginning(
    rf"(?:explain|summari[sz]e|describe|review|walk me through|tell me about){_TO_ME} "
    rf"(?:what |how )?{_THE_FILE}(?P<path>F)",
    rf"give me an? (?:short |brief |quick )?(?:summary|overview|explanation) of {_THE_FILE}(?P<path>F)",
    rf"(?:what does|{_WHAT_IS}|how does) (?:the )?(?:file )?(?P<path>F)",
)
_READ_SOMETHING: Final = re.compile(rf"{_POLITE}(?:read|open|cat) ")
_LIST: Final = _whole(
    rf"(?:list|tree|browse|explore) (?:the )?(?:{_FOLDER} )?(?P<path>[DE])(?: {_FOLDER})?",
    *(rf"{_ALL_FILES} {_INSIDE} (?:{folder})" for folder in _A_FOLDER),
    *(rf"(?:what|which) {_FILES}(?: are(?: there)?| exist)? {_INSIDE} (?:{folder})" for folder in _A_FOLDER),
    rf"{_LOOK_INTO} (?:the )?(?P<path>D)(?: {_FOLDER})?",
    rf"{_LOOK_INTO} the {_FOLDER_NAME} {_FOLDER}",
    rf"{_LOOK_INTO} (?:the )?{_FOLDER} {_FOLDER_NAME}",
    rf"ls(?: -[a-z1]+)* {_FOLDER_NAME}",
    rf"list (?P<path>{'|'.join(sorted(FOLDERS))})",
)
_LIST_ROOT: Final = _whole(
    r"ls(?: -[a-z1]+)*", rf"{_ALL_FILES}{_HERE}?", rf"(?:what|which) {_FILES} are(?: there)?{_HERE}"
)
_NO_FOLDER: Final = word_set(
    "it that this there here them these those use total question common general git memory order current root project "
    "repo repository codebase workspace same which what the a an my our your"
)
_GIT: Final = _beginning(
    rf"{_GIT_VERB}?{_GIT_WHICH}git (?:status|diff|log)(?= |$)",
    rf"{_GIT_VERB}(?:the |my |our )?(?:working tree|commit (?:history|log))(?= |$)",
    rf"{_GIT_VERB}(?:the |my |our )?(?:most )?(?:recent|latest|last)(?: (?:\d+|few|two|three|four|five|ten))? commits?"
    r"(?= |$)",
)
_LINES: Final = re.compile(r":(\d{1,9})(?:-(\d{1,9}))?:?|:(\d{1,9}):\d+:?|\#L(\d{1,9})(?:-L?(\d{1,9}))?:?")
_PLAIN_WORD: Final = re.compile(r"[\w'-]+")
_ASSENT: Final = re.compile(
    r"(?:(?:yes|yep|yeah|yup|y|ok|okay|sure|right|alright|fine|great|perfect|agreed|correct|of course|absolutely|please"
    r"|go ahead|go on|go for it|proceed|continue|do it|do that|do so|please do|sounds good|looks good|thanks|thank you)"
    r"(?: |$))+"
)
_THANKS: Final = re.compile(r"(?:(?:thanks|thank you|great|perfect|right|correct)(?: |$))+")
_HEAD: Final = 48
"""Number of leading words that are matched."""
_BEGINNING: Final = 400


def is_git_question(text: str) -> bool:
    """Whether a message starts with a git question: `git status`, `show me the latest git diff`."""
    head = " ".join(_PLAIN_WORD.findall(text[:_BEGINNING].lower().replace("’", "'").lstrip()))
    return any(form.match(head) for form in _GIT)


def is_assent(text: str) -> bool:
    """Whether a message only agrees: `ok, do it`, `Yes please!`. Thanks or praise alone do not count."""
    if len(text) > _BEGINNING:
        return False
    words = " ".join(_PLAIN_WORD.findall(text.lower()))
    return _ASSENT.fullmatch(words) is not None and _THANKS.fullmatch(words) is None and "?" not in text


class PhraseMatcher:
    """Matches phrases at the start of a message, with paths written as `F`, `D`, `E` and quoted words as `Q`."""

    def __init__(self, words: Sequence[RequestWord]) -> None:
        self._words = words
        signs = [word.kind.value if word.kind.is_path else "Q" if word.quoted else word.plain for word in words[:_HEAD]]
        self._text = " ".join([*signs, "…"] if len(words) > _HEAD else signs)

    def file_to_read(self) -> tuple[RequestWord, bool, Sequence[RequestWord]] | None:
        """Return the path, whether the message asks for nothing but its content, and the words after it."""
        for forms, shows in ((_READ_RAW, True), (_EXPLAIN, False)):
            if match := next(filter(None, (form.match(self._text) for form in forms)), None):
                at = self._at(match)
                over = re.fullmatch(_COURTESY, self._text[match.end() :]) is not None
                return self._words[at], shows and over, self._words[at + 1 :]
        return None

    def wants_to_read(self) -> bool:
        """Whether the message starts with a request to read, whatever the file is."""
        return _READ_SOMETHING.match(self._text) is not None

    def folder_to_list(self) -> str | None:
        for match in filter(None, (form.match(self._text) for form in _LIST)):
            name = self._words[self._at(match)].text
            if name and " " not in name and name.lower() not in _NO_FOLDER:
                return name if name.strip("/") == "" else name.rstrip("/")
        return "." if any(form.match(self._text) for form in _LIST_ROOT) else None

    def _at(self, match: re.Match[str]) -> int:
        """Return the index of the word at the path of the phrase."""
        return self._text.count(" ", 0, match.start("path" if match["path"] else "bare"))


def lines_of(place: str) -> tuple[int, int] | None:
    """Return the first and last line of a suffix (`:12`, `:3-9`, `:12:4`, `#L3-L9`); None if it names no lines."""
    match = _LINES.fullmatch(place)
    if match is None:
        return None
    first, last = int(match[1] or match[3] or match[4]), match[2] or match[5]
    lines = first, first if last is None else int(last)
    return lines if 1 <= lines[0] <= lines[1] else None


_CALLED: Final = word_set("content text word string line")
_OVER: Final = re.compile(r"[.!]?(?:,? (?:please|thanks|thank you))?[.!]?$", re.IGNORECASE)
_LIKE_CODE: Final = re.compile(r"[_(=\d]|[a-z][A-Z]")
_SHORTEST_EDITED: Final = 4
"""Shorter words occur too often inside other words."""
_LONGEST_EDIT: Final = 4000


def _path(found: str, masked: MaskedText) -> str | None:
    """Return the path; None if it is not a path or has a line number."""
    literal = masked.literal(found)
    path = found if literal is None else literal.text
    is_file = kind_of(path, quoted=literal is not None) in (WordKind.FILE, WordKind.EITHER)
    return path if is_file and strip_line_number(path) == path else None


def _exact(found: str, masked: MaskedText) -> tuple[str, bool] | None:
    """Return a text and whether it is quoted; unquoted text must be unambiguous."""
    if (literal := masked.literal(found)) is not None:
        return None if literal.raw[0] in literal.text else (literal.text, True)
    plain = found.isprintable() and found[-1] not in ".,:!?…" and found[0] not in "\"'`“‘"
    return (found, False) if plain and len(found) >= _SHORTEST_EDITED and _LIKE_CODE.search(found) else None


_SLOTS: Final = {
    "FILE": Slot(r"\S+?", _path),
    **dict.fromkeys(("OLD", "NEW"), Slot(r"\S+", _exact)),
    **flag_slots(_CALLED),
}
_REPLACE: Final = "replace/replacing [the content/text/word/string/line] OLD with NEW"
_EDITS: Final = (
    Form(f"[please] edit/in/modify/update/change [the] [file] FILE [,/:/;] [and/by/to/then] {_REPLACE}", _SLOTS),
    Form(f"[and/by/to/then] {_REPLACE} in [the] [file] FILE", _SLOTS),
)


def edit_in(masked: MaskedText) -> tuple[str, str, str] | None:
    """Return path, old text and new text of an edit that is spelled out unambiguously on one line.

    Quotes of any kind delimit the texts exactly. Without quotes each text is one word that looks like code and is not
    too short (`old_name`, `retries=3`), without `the line …` or `the word …`, which may mean more or less than that
    text. Only a full stop or a courtesy may follow, because further words may contain a condition or a correction.
    """
    line = masked.text.strip()
    if len(line) > _LONGEST_EDIT or "\n" in line or masked.problem:
        return None
    line = _OVER.sub("", line, count=1)
    slots = next(filter(None, (form.match(line, masked) for form in _EDITS)), None)
    if slots is None:
        return None
    (old, quoted), (new, _) = slots["OLD"], slots["NEW"]
    return (slots["FILE"], old, new) if old and old != new and (quoted or not slots.keys() & _CALLED) else None


READ: Final = "file.read"
LIST: Final = "file.list"
SEARCH: Final = "code.search"
EDIT: Final = "file.edit"


class Mode(StrEnum):
    """What an answer must show. The first mode that matches a message counts."""

    USAGE = "usage"
    CONFIG = "config"
    INIT = "initialisation"
    CREATE = "creation"
    REGISTER = "registration"
    LOAD = "loading"
    SAVE = "saving"
    DEFINITION = "definition"
    GENERAL = "general"


class DirectCall(Struct, frozen=True):
    """A call that the message spells out."""

    tool: str
    args: dict[str, str | int]
    raw: bool = False
    """The file content itself is the answer."""


class EarlierContext(Struct, frozen=True):
    """The last calls before a message, for references such as "that file again"."""

    read: str | None = None
    """The last file that was read."""
    query: str | None = None
    """The last search query."""
    folder: str | None = None
    """The folder of the last search, listing or read."""


class Intent(Struct, frozen=True, kw_only=True):
    surface: Surface
    investigates: bool = False
    """The answer must be found in the code."""
    mode: Mode = Mode.GENERAL
    broad: bool = False
    """The message asks for all places, so one is not enough."""
    scope: str | None = None
    """The folder that the message is limited to."""
    direct: DirectCall | None = None
    names: frozenset[str] = frozenset()
    """The identifiers in the message."""


_MODES: Final = {
    Mode.USAGE: word_set(
        "use uses used using usage usages call calls called caller callers invoke invokes invoked reference references "
        "referenced occur occurs occurrence occurrences appear appears"
    ),
    Mode.CONFIG: word_set("config configs configure configures configured configuring configuration setting settings"),
    Mode.INIT: word_set(
        "init initialise initialises initialised initialising initialisation initialize initializes initialized "
        "initializing initialization"
    ),
    Mode.CREATE: word_set("create creates created creating creation instantiate instantiates instantiated"),
    Mode.REGISTER: word_set("register registers registered registering registration"),
    Mode.LOAD: word_set("load loads loaded loading"),
    Mode.SAVE: word_set("save saves saved saving store stored stores persist persists persisted"),
    Mode.DEFINITION: word_set(
        "define defines defined definition definitions declare declares declared declaration implement implements "
        "implemented implementation"
    ),
}
"""The words that select a mode. Only whole words match: `created` is not `create`."""
_LOOKS_UP: Final = word_set("find where where's locate search")
_DOES: Final = word_set("use call invoke reference")
"""After a name, these say what the name itself does."""
_CODE_TERMS: Final = CHANGE_WORDS.union(*_MODES.values()) | word_set(
    "class classes code codebase command constant endpoint enum exception file files function functions handler "
    "interface method methods module modules package parser repo repository route source struct test tests tool trait "
    "type variable exported handled imported logged parsed raised rendered tested thrown validated"
)
"""Together with a word for looking up, these mean a search in the code."""
_ALL_OF_THEM: Final = word_set("every everywhere usages occurrences callers references places")
_LISTING: Final = word_set("list ls show display explore browse tree what which")
_FOLDER_TERMS: Final = word_set("files folder folders directory directories dir dirs structure layout contents")
_PROPER_NAMES: Final = word_set(
    "JavaScript TypeScript GitHub GitLab BitBucket PostgreSQL MongoDB MySQL MariaDB OpenAI ChatGPT YouTube LinkedIn "
    "GraphQL WhatsApp WordPress PowerShell CoffeeScript OpenSSL FreeBSD CentOS MacBook MacOS DevOps LaTeX "
    "PyTorch TensorFlow FastAPI SQLite JetBrains NodeJS"
)
"""Names that look like classes but are not."""
_THAT_FILE: Final = ("read that file", "read that file again")
_THAT_SEARCH: Final = ("search that again", "search that again in the same folder")
_IN_TRACE: Final = re.compile(r"\(most recent call (?:last|first)\)", re.IGNORECASE)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SNAKE: Final = re.compile(r"_*[A-Za-z][A-Za-z0-9]+(?:_[A-Za-z0-9]{2,})+_*|__[a-z][a-z0-9]+__")
_CAMEL: Final = re.compile(r"[a-z]{2,}[0-9]*[A-Z][a-z]")
_SHORTEST_HUMPED: Final = 5


def intent_of(text: str, earlier: EarlierContext) -> Intent:
    """Parse a message. A pure function of the message and the earlier context.

    | surface | condition; the first match counts |
    |---|---|
    | git-read-only | it starts with a git question (`is_git_question`) |
    | mutation-enabled | it asks for a change (`negation.asks_for_change`) |
    | retrieval-first | it asks to find, read or list something, or has a path, even in a pasted traceback |
    | answer-only | anything else |

    A message investigates if it names an identifier (`snake_case`, `PascalCase`, `camelCase`) or a code file, says
    `search`, or combines a word for looking up with a code term; not if it names a file to read or a folder to list.
    Paths are returned as written, and an ambiguous message has none. Pasted code is ignored; of a traceback only the
    presence of paths counts.
    """
    if is_git_question(text):
        return Intent(surface=GIT_READ_ONLY)
    masked = mask(text)
    masked = masked._replace(text=_IN_TRACE.sub(" ", masked.text))
    words = words_in(masked)
    if asks_for_change(masked):
        edit = edit_in(masked)
        direct = None if edit is None else DirectCall(EDIT, dict(zip(("path", "search", "replace"), edit, strict=True)))
        return Intent(surface=MUTATION_ENABLED, scope=None if direct else _scope(words, earlier), direct=direct)
    plain = [word.plain for word in words]
    said = frozenset(plain)
    shape = PhraseMatcher(words)
    direct, settled = _direct(shape, masked.text, earlier)
    if settled:
        return Intent(surface=RETRIEVAL_FIRST, direct=direct)
    scope = _scope(words, earlier)
    if direct is not None or _is_lookup(said, plain) or any(map(_names_code, words)):
        return Intent(
            surface=RETRIEVAL_FIRST,
            investigates=True,
            mode=_mode(words),
            broad=_is_broad(said, plain),
            scope=scope,
            direct=direct,
            names=frozenset(name for word in words for name in _identifiers(word)),
        )
    traced = map(plain_word, masked.traces.replace('"', " ").split())
    looks = any(word.is_path for word in (*words, *traced))
    looks = looks or bool(said & _LISTING and said & _FOLDER_TERMS) or shape.wants_to_read() or bool(said & _LOOKS_UP)
    return Intent(surface=RETRIEVAL_FIRST if looks or scope is not None else ANSWER_ONLY, scope=scope)


def _mode(words: Sequence[RequestWord]) -> Mode:
    """`What does parse_line call?` asks what it does, not where it is used."""
    said = frozenset(
        word.plain
        for before, word in zip([None, *words], words, strict=False)
        if not (word.plain in _DOES and before is not None and any(_identifiers(before)))
    )
    return next((mode for mode, terms in _MODES.items() if said & terms), Mode.GENERAL)


def _direct(shape: PhraseMatcher, text: str, earlier: EarlierContext) -> tuple[DirectCall | None, bool]:
    """Return the call that the message spells out, and whether the message names its target, so that no search is
    needed.

    Two files at once, or "that file" without an earlier one, name a target but spell out no call.
    """
    phrase = " ".join(text.lower().split()).rstrip(".!? ")
    if phrase in _THAT_FILE:
        return (None if earlier.read is None else DirectCall(READ, {"path": earlier.read}, raw=True)), True
    if phrase in _THAT_SEARCH:
        return (None if earlier.query is None else DirectCall(SEARCH, {"query": earlier.query})), False
    found = shape.file_to_read()
    if found is not None:
        word, raw, rest = found
        if any(after.plain in _LOOKS_UP for after in rest):
            return None, False
        return (None if any(after.is_path for after in rest) else _reading(word, raw)), True
    folder = shape.folder_to_list()
    return (None, False) if folder is None else (DirectCall(LIST, {"path": folder}), True)


def _reading(word: RequestWord, raw: bool) -> DirectCall | None:
    """Return the read of a file or of the lines to show. For an explanation, the model chooses the lines."""
    if not word.line_suffix:
        return DirectCall(READ, {"path": word.text}, raw)
    lines = lines_of(word.line_suffix) if raw else None
    if lines is None:
        return None
    return DirectCall(READ, {"path": word.text, "offset": lines[0], "limit": lines[1] - lines[0] + 1}, raw)


def _scope(words: Sequence[RequestWord], earlier: EarlierContext) -> str | None:
    """Return the folder after `in` or `within` (a path, or `the same folder`); None if there are several."""
    found: set[str] = set()
    for at, word in enumerate(words):
        if word.plain not in ("in", "within"):
            continue
        after = words[at + 1 : at + 6]
        if [one.plain for one in after[:3]] == ["the", "same", "folder"]:
            found |= {earlier.folder} if earlier.folder is not None else set()
            continue
        after = after[1:] if after and after[0].plain == "the" else after
        if after and after[0].is_path and ("/" in after[0].text or "\\" in after[0].text):
            found |= {named.text.rstrip("/\\") for named in (after[0], *_joined(after[1:4]))}
    return found.pop() if len(found) == 1 else None


def _joined(after: Sequence[RequestWord]) -> Sequence[RequestWord]:
    """Return the folder that is joined to the one before: `and lib/x`, `, lib/x`, `or the tests`."""
    rest = list(after)
    joint = bool(rest) and rest[0].plain in ("and", "or", "&", "plus")
    rest = rest[1:] if joint else rest
    rest = rest[1:] if rest and rest[0].plain in ("the", "in", "within") else rest
    return rest[:1] if rest and (rest[0].is_path or (joint and rest[0].plain in FOLDERS)) else []


def _is_lookup(said: frozenset[str], plain: Sequence[str]) -> bool:
    if "search" in said or (said & _LOOKS_UP and said & _CODE_TERMS):
        return True
    return any(one == "which" and other in ("file", "files", "module", "modules") for one, other in pairwise(plain))


def _names_code(word: RequestWord) -> bool:
    """Whether a word is an identifier, perhaps inside `obj.name(…)`, or a code file. Folders of a path do not count."""
    if word.kind is WordKind.FILE and " " not in word.text and (is_code(word.text) or is_config_format(word.text)):
        return True
    return any(_identifiers(word))


def _identifiers(word: RequestWord) -> Iterator[str]:
    if not word.kind.is_path and len(word.text) <= MAX_NAME_CHARS:
        yield from filter(is_identifier, _NAME.findall(word.text))


def is_identifier(name: str) -> bool:
    """Whether a name is `snake_case` with parts of two or more characters, or `PascalCase` or `camelCase` of five or
    more."""
    if "_" in name:
        return _SNAKE.fullmatch(name) is not None
    if len(name) < _SHORTEST_HUMPED or name in _PROPER_NAMES:
        return False
    humps = any(map(str.isupper, name[1:])) and sum(map(str.islower, name)) >= 2
    return humps and (name[0].isupper() or _CAMEL.match(name) is not None)


def _is_broad(said: frozenset[str], plain: Sequence[str]) -> bool:
    return bool(said & _ALL_OF_THEM) or any(
        word == "all" and before not in ("at", "after") for before, word in pairwise(["", *plain])
    )
