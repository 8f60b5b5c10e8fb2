"""Parses the intent of a message: the tools it needs, whether it needs evidence, and calls that it spells out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.guardrails.negation import CHANGE_WORDS, asks_for_change
from holdfast.models.requests.masked_text import Form, MaskedText, Slot, flag_slots, mask, split_sentences
from holdfast.models.requests.words import (
    FOLDERS,
    MAX_NAME_CHARS,
    RequestWord,
    WordKind,
    kind_of,
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
_NEWEST: Final = r"(?:last|latest|newest|most recent|recent|previous|first|oldest)"
_GIT_CALLS: Final = {
    "git.diff": re.compile(
        r"\bgit diff\b|\b(?:the|my) diff\b"
        r"|\bshow (?:me )?(?:the |my |all )*(?:uncommitted |unstaged |local )?changes\b"
        r"|\bwhat (?:have|did) (?:i|we) changed?\b|\bwhat (?:are|were) (?:the|my|our) (?:uncommitted |local )?changes\b"
    ),
    "git.status": re.compile(
        r"\bgit status\b|\b(?:uncommitted|unstaged|untracked)\b|\bworking (?:tree|copy)\b|\bmodified files?\b"
        r"|\b(?:which|what|current) (?:git )?branch\b|\bbranch (?:am i|are we|is checked out)\b"
        r"|\bnot (?:yet |been )*committed\b|\b(?:haven't|hasn't) (?:been )?committed\b|\b(?:left|still) to commit\b"
        r"|\bchanged? (?:\S+ ){0,3}since the (?:last|latest) commit\b|\b(?:anything|something|nothing) to commit\b"
        r"|\b(?:which|what) files? (?:\S+ ){0,2}(?:changed|modified)\b|\bcommit (?:anything|something)\b"
    ),
    "git.log": re.compile(
        rf"\bgit (?:log|history)\b|\b{_NEWEST} (?:\S+ ){{0,3}}commits?\b|\bcommit (?:history|log|messages?|author)\b"
        r"|\bwho (?:\S+ )?committed\b|\bcommitted (?:last|recently|most recently)\b"
        r"|\b(?:list|show|see) (?:\S+ ){0,3}commits\b"
        r"|\bhow many commits\b|\bwhich commits?\b|\bcommits? (?:have|were|was|did|made|by|since|today|yesterday)\b"
    ),
}
"""Questions that one call of git answers, by the plain words of a message."""
_GIT_CHANGES: Final = re.compile(
    r"(?:^|\b(?:and|then) )(?:(?:please|can you|could you|now|then|and|git) )*"
    r"(?:commit|push|pull|fetch|merge|rebase|checkout|check out"
    r"|switch|stash|revert|reset|tag|amend|squash|cherry-pick|undo|create|make|delete|add)\b"
)
"""Requests that change the repository, which no reading tool can do."""
_ABOUT_CODE: Final = word_set(
    "where where's build code class classes function functions implement implemented method methods module modules"
)
"""With one of these, a message is about code that deals with git, or only sounds like git: `where is the diff made?`"""
_IS_HOW: Final = re.compile(r"how (?:do|does|is|are|can)\b")
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


def git_call(words: Sequence[RequestWord]) -> str | None:
    """Return the git tool that answers the message (`what was the last commit about?`); None if none does."""
    plain = " ".join(word.plain or "·" for word in words[:_HEAD])
    if _GIT_CHANGES.search(plain) or _IS_HOW.match(plain) or not _ABOUT_CODE.isdisjoint(plain.split()):
        return None
    return next((tool for tool, form in _GIT_CALLS.items() if form.search(plain)), None)


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
FIND: Final = "file.find"
LOG: Final = "git.log"
STATUS: Final = "git.status"
DIFF: Final = "git.diff"


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


class Term(Struct, frozen=True):
    """Something that a message names, to search for."""

    text: str
    """An identifier, or a plain word."""
    is_identifier: bool = True

    @property
    def stem(self) -> str:
        """What other forms of the word begin with, in lower case: `retries` and `retry` share `retr`."""
        word = self.text.lower()
        if self.is_identifier:
            return word
        ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= _SHORTEST_STEM), "")
        return word[: len(word) - len(ending)]

    @property
    def forms(self) -> tuple[str, ...]:
        """The spellings of the stem: `time-out` and `timeout`."""
        return tuple(dict.fromkeys((self.stem, self.stem.replace("-", ""))))

    def is_in(self, text: str) -> bool:
        """Whether a text in lower case has the term in any form."""
        return any(form in text for form in self.forms)

    @property
    def search(self) -> dict[str, str | bool]:
        """The arguments of its search: an identifier exactly, a word in any form and spelling."""
        if self.is_identifier:
            return {"query": self.text}
        if "-" in self.stem:
            spelled = "[-_ ]?".join(map(re.escape, self.stem.split("-")))
            return {"query": spelled, "regex": True, "case": "insensitive"}
        return {"query": self.stem, "case": "insensitive"}


class Kind(StrEnum):
    GIT = "git"
    """A question that git answers."""
    CHANGE = "change"
    """A request to change files."""
    LOOKUP = "lookup"
    """A question whose answer is in the code."""
    QUESTION = "question"
    """A question whose answer may be in the code."""
    OTHER = "other"


class Intent(Struct, frozen=True, kw_only=True):
    kind: Kind
    mode: Mode = Mode.GENERAL
    asks_where: bool = False
    """The message asks for places, which a search shows."""
    scope: str | None = None
    """The folder that the message is limited to."""
    direct: DirectCall | None = None
    terms: tuple[Term, ...] = ()
    """What to search for: the identifiers of the message, or else its most telling words."""
    words: tuple[Term, ...] = ()
    """What to search for if no file has the terms: the words of the message, and those that its identifiers are made
    of."""
    files: tuple[str, ...] = ()
    """The files that the message names."""
    renamed: tuple[str, str] | None = None
    """The old and the new name, if the message asks to rename something."""
    asks_first: bool = False
    """The change waits for something: `ask me before`, `show me first`, `no wait`."""
    creates: bool = False
    """The change may be a new file."""
    adds: bool = False
    """The change may be a new line."""
    acts: bool = False
    """The message also asks for something that only other tools can do: run, install, commit, …"""


_MODES: Final = {
    Mode.USAGE: word_set(
        "use uses used using usage usages call calls called caller callers invoke invokes invoked reference references "
        "referenced occur occurs occurrence occurrences appear appears"
    ),
    Mode.CONFIG: word_set(
        "config configs configure configures configured configuring configuration setting settings default defaults "
        "value values level limit maximum minimum much many long"
    ),
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
"""The words that select a mode; the first mode with one of them counts."""
_LOOKS_UP: Final = word_set("find where where's locate search")
_DOES: Final = word_set("use call invoke reference")
"""After a name, these say what the name itself does."""
_CODE_TERMS: Final = CHANGE_WORDS.union(*_MODES.values()) | word_set(
    "class classes code codebase command constant endpoint enum exception file files function functions handler "
    "interface method methods module modules package parser repo repository route source struct test tests tool trait "
    "type variable exported handled imported logged parsed raised rendered tested thrown validated"
)
"""Together with a word for looking up, these mean a search in the code."""
_ASKS_WHERE: Final = word_set("where where's which who who's find locate list everywhere usages callers")
_QUESTION_WORDS: Final = word_set("what what's whats which where where's who who's whose how why when")
_ASKS_WHETHER: Final = word_set("does do did is are was were has have can could should")
"""These begin a question, but are in other sentences too."""
_LOOKING: Final = word_set("look looking give tell show check explain describe need know see path get")
"""Requests to look something up that are no questions."""
_SAYS_NOTHING: Final = (
    _CODE_TERMS
    | _LOOKS_UP
    | _ASKS_WHERE
    | _QUESTION_WORDS
    | _ASKS_WHETHER
    | word_set(
        "path twice repo repository codebase locate "
        "a about actually after again all also am an and another any anything anywhere as ask at be been before "
        "being both but by can could current currently default defaults describe did doing done each else ever every "
        "exactly exist exists explain for from get gets give given gives go goes going had has have having he help her "
        "here his i if in inside into it its just kind know let like line lines live lives long look looking make "
        "makes many may me mean means might more most much must my name named names need needs no not now of off "
        "on once one only onto or our out outside over own part place please project project's purpose put really "
        "responsible return returns right run runs same say says see set shall she should show shows so some "
        "someone something sort still such take takes tell than thank thanks that the their them then there these "
        "they thing things this those through to too under until up us value values very want wants was way we "
        "were while whom why will with within without work works would yes yet you your"
    )
)
"""Words that are in every message, or in every file."""
_PLAIN_TERM: Final = re.compile(r"[a-z][a-z0-9]*(?:[.-][a-z0-9]+)*[a-z0-9]{2}")
_NAME_PART: Final = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}(?![a-z])")
_ENDINGS: Final = ("ations", "ation", "ies", "ied", "ing", "ly", "ed", "es", "s", "y", "e")
_SHORTEST_STEM: Final = 4
_SHORTEST_NAME: Final = 3
_PLANS: Final = re.compile(r"\s*(?:i|we)(?:'d| would)? (?:want|need|plan|intend|like|am going|are going) to ")
_AFTER_A_NAME: Final = word_set("in everywhere and please across throughout within")
_SHOW_FIRST: Final = re.compile(
    r"^\W*(?:(?:please|first|so|but|can you|could you) )*(?:show|list|find|tell|which|where|who|what)\b"
)
_ACTS: Final = re.compile(
    r"(?:^|[,;:] |\b(?:and|then|please|you|now) )(?:re-?)?"
    r"(?:run|execute|install|launch|start|stop|kill|deploy|compile|build|commit|push|publish|download|upload|send)\b"
)
_ASK_FIRST: Final = re.compile(
    r"\b(?:ask|show|tell|check with|confirm with) (?:me|us)\b|\blet (?:me|us) (?:see|know|check|review)\b"
    r"|\b(?:suggest|propose|wait)\b|\bbefore you\b"
)
_NEW_FILE: Final = re.compile(
    r"\b(?:create|add|write|make|generate|new)\b(?: \S+){0,3} (?:file|module|script|document|page)s?\b"
)
_MAKES: Final = word_set("create write make generate new put save")
_ADDS: Final = word_set("add append insert")
MAX_TERMS: Final = 4
_LONGEST_WORD: Final = 40
"""Longer ones are hashes and other data."""
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

    | kind | condition; the first match counts |
    |---|---|
    | change | it asks for a change (`negation.asks_for_change`) |
    | git | git answers it (`git_call`) |
    | lookup | it names an identifier or a file, says `search`, or combines a word for looking up with a code term |
    | question | it is another question |
    | other | anything else |

    Paths are returned as written, and an ambiguous message has none. Pasted code is ignored; of a traceback only the
    presence of paths counts.
    """
    masked = mask(text)
    masked = masked._replace(text=_IN_TRACE.sub(" ", masked.text))
    words = words_in(masked)
    plain = [word.plain for word in words]
    said = frozenset(plain)
    identifiers = _identifier_terms(words)[:MAX_TERMS]
    telling = _word_terms(words, identifiers)
    files = tuple(dict.fromkeys(word.text for word in words if word.kind is WordKind.FILE and " " not in word.text))
    mode = _mode(words)
    found = Intent(
        kind=Kind.OTHER,
        mode=mode,
        asks_where=bool(said & _ASKS_WHERE) or mode is Mode.USAGE,
        scope=_scope(words, earlier),
        terms=identifiers or telling,
        words=telling,
        files=files,
        acts=any(_ACTS.search(sentence.lower()) for sentence in split_sentences(masked.text)),
    )
    if asks_for_change(masked) and not _only_plans(masked.text):
        found = replace(
            found,
            kind=Kind.CHANGE,
            mode=Mode.DEFINITION,
            asks_where=False,
            renamed=_renamed(words),
            asks_first=_ASK_FIRST.search(masked.text.lower()) is not None,
            adds=bool(said & _ADDS),
            creates=bool(files and said & _MAKES) or _NEW_FILE.search(" ".join(plain[:_HEAD])) is not None,
        )
        edit = edit_in(masked)
        if edit is None:
            return found
        return replace(
            found, scope=None, direct=DirectCall(EDIT, {"path": edit[0], "search": edit[1], "replace": edit[2]})
        )
    if not identifiers and (call := git_call(words)) is not None:
        return Intent(kind=Kind.GIT, direct=DirectCall(call, {}), files=files)
    direct, settled = _direct(PhraseMatcher(words), masked.text, earlier)
    if settled:
        return Intent(kind=Kind.LOOKUP, direct=direct, files=files)
    if direct is not None or files or identifiers or _is_lookup(said, plain):
        return replace(found, kind=Kind.LOOKUP, direct=direct)
    asks = bool(said & _QUESTION_WORDS or {*plain[:1]} & _ASKS_WHETHER) or masked.text.rstrip().endswith("?")
    looks = bool(said & _LOOKING) and len(telling) > 1
    return replace(found, kind=Kind.QUESTION) if telling and (asks or looks) else found


def _only_plans(text: str) -> bool:
    """Whether the change is only announced, and something else is asked for: `I want to change it. Show me …`."""
    first, *rest = split_sentences(text)
    return _PLANS.match(first.lower()) is not None and any(_SHOW_FIRST.search(each.lower()) for each in rest)


def _renamed(words: Sequence[RequestWord]) -> tuple[str, str] | None:
    """Return both names of `rename A to B`, if they are certainly names: `rename the field to something short` is not.

    A plain word is a name only where no article or other word makes it part of a phrase.
    """
    plain = [word.plain for word in words]
    at = next((place for place, word in enumerate(plain) if word == "rename"), len(words))
    to = next((place for place in range(at + 2, min(at + 6, len(words) - 1)) if plain[place] in ("to", "as")), None)
    if to is None:
        return None
    old, new = (words[place].text.rstrip("()") for place in (to - 1, to + 1))
    certain = all(
        words[place].quoted or is_identifier(name) or (alone and plain[place] not in _SAYS_NOTHING)
        for place, name, alone in (
            (to - 1, old, to - 2 == at or plain[to - 2] in _CODE_TERMS),
            (to + 1, new, to + 2 == len(words) or plain[to + 2] in _AFTER_A_NAME),
        )
    )
    return (old, new) if certain and old != new and _NAME.fullmatch(old) and _NAME.fullmatch(new) else None


def _identifier_terms(words: Sequence[RequestWord]) -> tuple[Term, ...]:
    return tuple(map(Term, dict.fromkeys(name for word in words for name in _identifiers(word))))


def _word_terms(words: Sequence[RequestWord], identifiers: Sequence[Term]) -> tuple[Term, ...]:
    """The most telling words, longest first."""
    said = (word.plain.removesuffix("'s") for word in words)
    plain = [word for word in said if len(word) <= _LONGEST_WORD and _PLAIN_TERM.fullmatch(word)]
    plain += [part.lower() for term in identifiers for part in _NAME_PART.findall(term.text)]
    telling = dict.fromkeys(word for word in plain if word not in _SAYS_NOTHING and not is_identifier(word))
    found: list[Term] = []
    for term in (Term(word, is_identifier=False) for word in sorted(telling, key=len, reverse=True)):
        if len(found) == MAX_TERMS:
            break
        if not any(other.stem.startswith(term.stem) for other in found):  # a search for one finds the other
            found.append(term)
    return tuple(found)


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


def _identifiers(word: RequestWord) -> Iterator[str]:
    """Yield the identifiers in a word. A quoted word and the name of a call count however they are spelled."""
    if word.kind.is_path or len(word.text) > MAX_NAME_CHARS:
        return
    for match in _NAME.finditer(word.text):
        called = word.text[match.end() : match.end() + 1] == "("
        alone = word.quoted and match[0] == word.text
        if is_identifier(match[0]) or ((called or alone) and len(match[0]) >= _SHORTEST_NAME):
            yield match[0]


def is_identifier(name: str) -> bool:
    """Whether a name is `snake_case` with parts of two or more characters, or `PascalCase` or `camelCase` of five or
    more."""
    if "_" in name:
        return _SNAKE.fullmatch(name) is not None
    if len(name) < _SHORTEST_HUMPED or name in _PROPER_NAMES:
        return False
    humps = any(map(str.isupper, name[1:])) and sum(map(str.islower, name)) >= 2
    return humps and (name[0].isupper() or _CAMEL.match(name) is not None)
