"""What a message spells out: a git question, a file to read, a folder to list, an edit, a yes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from holdfast.models.requests.literals import Masked
from holdfast.models.requests.notation import Form, Slot, telling
from holdfast.models.requests.words import FOLDERS, Kind, Word, kind_of, without_place, words_of

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
_NAME: Final = rf"(?P<path>[DEQ]|{_BARE})"
_LOOK_INTO: Final = rf"(?:{_WHAT_IS} (?:in|inside)|(?:list|show|open|explore|browse)(?: me)?)"
_A_FOLDER: Final = (
    rf"(?:the )?{_FOLDER} {_NAME}",
    rf"(?:the )?{_NAME} {_FOLDER}",
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
    rf"{_LOOK_INTO} the {_NAME} {_FOLDER}",
    rf"{_LOOK_INTO} (?:the )?{_FOLDER} {_NAME}",
    rf"ls(?: -[a-z1]+)* {_NAME}",
    rf"list (?P<path>{'|'.join(sorted(FOLDERS))})",
)
_LIST_ROOT: Final = _whole(
    r"ls(?: -[a-z1]+)*", rf"{_ALL_FILES}{_HERE}?", rf"(?:what|which) {_FILES} are(?: there)?{_HERE}"
)
_NO_FOLDER: Final = words_of(
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
"""Words at the beginning that are looked at."""
_BEGINNING: Final = 400


def is_git_question(text: str) -> bool:
    """Whether it begins with one: `git status`, `show me the latest git diff`, `show recent commits`."""
    head = " ".join(_PLAIN_WORD.findall(text[:_BEGINNING].lower().replace("’", "'").lstrip()))
    return any(form.match(head) for form in _GIT)


def is_assent(text: str) -> bool:
    """Whether it says yes and nothing else: `ok, do it`, `Yes please!`. Thanks or praise alone do not."""
    if len(text) > _BEGINNING:
        return False
    words = " ".join(_PLAIN_WORD.findall(text.lower()))
    return _ASSENT.fullmatch(words) is not None and _THANKS.fullmatch(words) is None and "?" not in text


class Shape:
    """The beginning of a message with paths as `F`, `D`, `E` and quoted words as `Q`, for phrases to match."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        signs = [word.kind.value if word.kind.is_path else "Q" if word.quoted else word.plain for word in words[:_HEAD]]
        self._text = " ".join([*signs, "…"] if len(words) > _HEAD else signs)

    def file_to_read(self) -> tuple[Word, bool, Sequence[Word]] | None:
        """The path, whether its content is all that is asked for, and the words after it."""
        for forms, shows in ((_READ_RAW, True), (_EXPLAIN, False)):
            if match := next(filter(None, (form.match(self._text) for form in forms)), None):
                at = self._at(match)
                over = re.fullmatch(_COURTESY, self._text[match.end() :]) is not None
                return self._words[at], shows and over, self._words[at + 1 :]
        return None

    def wants_to_read(self) -> bool:
        """Whether it begins like that, whatever is to be read."""
        return _READ_SOMETHING.match(self._text) is not None

    def folder_to_list(self) -> str | None:
        for match in filter(None, (form.match(self._text) for form in _LIST)):
            name = self._words[self._at(match)].text
            if name and " " not in name and name.lower() not in _NO_FOLDER:
                return name if name.strip("/") == "" else name.rstrip("/")
        return "." if any(form.match(self._text) for form in _LIST_ROOT) else None

    def _at(self, match: re.Match[str]) -> int:
        """Which word stands where the phrase has its path."""
        return self._text.count(" ", 0, match.start("path" if match["path"] else "bare"))


def lines_of(place: str) -> tuple[int, int] | None:
    """The first and the last line a place names (`:12`, `:3-9`, `:12:4`, `#L3-L9`); None if there are none such."""
    match = _LINES.fullmatch(place)
    if match is None:
        return None
    first, last = int(match[1] or match[3] or match[4]), match[2] or match[5]
    lines = first, first if last is None else int(last)
    return lines if 1 <= lines[0] <= lines[1] else None


_CALLED: Final = words_of("content text word string line")
_OVER: Final = re.compile(r"[.!]?(?:,? (?:please|thanks|thank you))?[.!]?$", re.IGNORECASE)
_LIKE_CODE: Final = re.compile(r"[_(=\d]|[a-z][A-Z]")
_SHORTEST: Final = 4
"""Shorter ones stand inside other words too often."""
_LONGEST: Final = 4000


def _path(found: str, masked: Masked) -> str | None:
    """None for what is no path, or where only a line of it is meant."""
    piece = masked.piece(found)
    path = found if piece is None else piece.text
    is_file = kind_of(path, quoted=piece is not None) in (Kind.FILE, Kind.EITHER)
    return path if is_file and without_place(path) == path else None


def _exact(found: str, masked: Masked) -> tuple[str, bool] | None:
    """A text, and whether it is quoted; without quotes only what can be taken as it is."""
    if (piece := masked.piece(found)) is not None:
        return None if piece.raw[0] in piece.text else (piece.text, True)
    plain = found.isprintable() and found[-1] not in ".,:!?…" and found[0] not in "\"'`“‘"
    return (found, False) if plain and len(found) >= _SHORTEST and _LIKE_CODE.search(found) else None


_SLOTS: Final = {
    "FILE": Slot(r"\S+?", _path),
    **dict.fromkeys(("OLD", "NEW"), Slot(r"\S+", _exact)),
    **telling(_CALLED),
}
_REPLACE: Final = "replace/replacing [the content/text/word/string/line] OLD with NEW"
_EDITS: Final = (
    Form(f"[please] edit/in/modify/update/change [the] [file] FILE [,/:/;] [and/by/to/then] {_REPLACE}", _SLOTS),
    Form(f"[and/by/to/then] {_REPLACE} in [the] [file] FILE", _SLOTS),
)


def edit_in(masked: Masked) -> tuple[str, str, str] | None:
    """Path, text and new text of an edit that is spelled out on one line so that there is only one way to read it.

    Quotes of any kind around the texts say exactly where they begin and end. Without quotes each is one word that looks
    like code and is not too short (`old_name`, `retries=3`), not `the line …` or `the word …`, which may mean more or
    less than that text; and nothing but a full stop or a courtesy follows: in more words there may be a condition, or a
    change of mind.
    """
    line = masked.text.strip()
    if len(line) > _LONGEST or "\n" in line or masked.problem:
        return None
    line = _OVER.sub("", line, count=1)
    slots = next(filter(None, (form.match(line, masked) for form in _EDITS)), None)
    if slots is None:
        return None
    (old, quoted), (new, _) = slots["OLD"], slots["NEW"]
    return (slots["FILE"], old, new) if old and old != new and (quoted or not slots.keys() & _CALLED) else None
