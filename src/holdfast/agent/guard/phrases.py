"""What a message spells out: a git question, a file to read, a folder to list, an earlier call to repeat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from holdfast.agent.guard.file_names import Kind
from holdfast.agent.guard.vocabulary import FOLDERS, words_of
from holdfast.agent.guard.words import Piece

_POLITE: Final = r"(?:(?:please|now|just|ok|okay|then|can you|could you|would you|will you) )*"
_TO_ME: Final = r"(?: me| us| to me| to us)?"
_THE_FILE: Final = r"(?:the )?(?:(?:whole |full |entire |raw )?(?:contents?|text|source|code) of )?(?:the )?(?:file )?"
_COURTESY: Final = r"(?: (?:file|again|please|for me|to me|now|here))*"
_SHOW: Final = r"(?:show|open|print|view|display)"
_WHAT_IS: Final = r"what(?: is|'s)"

_FOLDER: Final = r"(?:folder|directory|dir)"
_FILES: Final = r"(?:files|folders|directories|contents?|entries|everything)(?: and (?:files|folders|directories))?"
_ALL_FILES: Final = rf"(?:all )?(?:of )?(?:the )?{_FILES}"
_INSIDE: Final = r"(?:in|inside|under|within|of)"
_NAME: Final = r"(?P<path>[DEQ]|[a-z0-9_][a-z0-9_.-]*)"
_LOOK_INTO: Final = rf"(?:{_WHAT_IS} (?:in|inside)|(?:list|show|open|explore|browse)(?: me)?)"
_A_FOLDER: Final = (
    rf"(?:the )?{_FOLDER} {_NAME}",
    rf"(?:the )?{_NAME} {_FOLDER}",
    r"(?:the )?(?P<path>[DEQ])",
    r"(?P<path>[a-z0-9_][a-z0-9_.-]*)",
)
_PROJECT: Final = rf"(?:this|the current|the root|the project root|the project|the repo|the repository)(?: {_FOLDER})?"

_GIT_VERB: Final = r"(?:(?:show|run|give|display|print|view|check|see|get|what is|what's)(?: me| us)? )"
_HOW_MANY: Final = r"(?:\d+|few|two|three|four|five|ten)"
_GIT_WHICH: Final = r"(?:(?:the|my|our|current|recent|latest|last|full|output of) )*"


def _beginning(*forms: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(_POLITE + form) for form in forms)


def _whole(*forms: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(f"{_POLITE}{form}{_COURTESY}$") for form in forms)


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
_READ_SOMETHING: Final = _beginning(r"(?:read|open|cat) ")
_LIST: Final = _whole(
    rf"(?:list|tree|browse|explore) (?:the )?(?:{_FOLDER} )?(?P<path>[DE])(?: {_FOLDER})?",
    *(rf"(?:list|show|display){_TO_ME} {_ALL_FILES} {_INSIDE} {folder}" for folder in _A_FOLDER),
    *(rf"(?:what|which) {_FILES}(?: are(?: there)?| exist)? {_INSIDE} {folder}" for folder in _A_FOLDER),
    rf"{_LOOK_INTO} (?:the )?(?P<path>D)(?: {_FOLDER})?",
    rf"{_LOOK_INTO} the {_NAME} {_FOLDER}",
    rf"{_LOOK_INTO} (?:the )?{_FOLDER} {_NAME}",
    rf"ls(?: -[a-z1]+)* {_NAME}",
    rf"list (?P<path>{'|'.join(sorted(FOLDERS))})",
)
_LIST_ROOT: Final = _whole(
    r"ls(?: -[a-z1]+)*",
    rf"(?:list|show|display){_TO_ME} {_ALL_FILES}(?: here| in here| {_INSIDE} {_PROJECT})?",
    rf"(?:what|which) {_FILES} are(?: there)?(?: here| in here| {_INSIDE} {_PROJECT})",
)
_NO_FOLDER: Final = words_of(
    "it that this there here them these those use total question common general git memory order current root project "
    "repo repository codebase workspace same which what the a an my our your"
)
_GIT: Final = _beginning(
    rf"{_GIT_VERB}?{_GIT_WHICH}git (?:status|diff|log)(?= |$)",
    rf"{_GIT_VERB}(?:the |my |our )?(?:working tree|commit (?:history|log))(?= |$)",
    rf"{_GIT_VERB}(?:the |my |our )?(?:most )?(?:recent|latest|last)(?: {_HOW_MANY})? commits?(?= |$)",
)
_PLACE: Final = re.compile(r":(\d{1,9})(?:-(\d{1,9}))?:?|:(\d{1,9}):\d+:?|\#L(\d{1,9})(?:-L?(\d{1,9}))?:?")
_PLAIN_WORD: Final = re.compile(r"[\w'-]+")
_ASSENT: Final = re.compile(
    r"(?:(?:yes|yep|yeah|yup|y|ok|okay|sure|right|alright|fine|great|perfect|agreed|correct|of course|absolutely|please"
    r"|go ahead|go on|go for it|proceed|continue|do it|do that|do so|please do|sounds good|looks good|thanks|thank you)"
    r"(?: |$))+"
)
_THANKS: Final = re.compile(r"(?:(?:thanks|thank you|great|perfect|right|correct)(?: |$))+")
_HEAD: Final = 48
"""Pieces at the beginning that are looked at."""
_BEGINNING: Final = 400


def is_git_question(text: str) -> bool:
    """Whether it begins with one: `git status`, `show me the latest git diff`, `show recent commits`."""
    words = _PLAIN_WORD.findall(text[:_BEGINNING].lower().replace("’", "'").lstrip())
    head = " ".join(words)
    return any(form.match(head) for form in _GIT)


def is_assent(text: str) -> bool:
    """Whether it says yes and nothing else: `ok, do it`, `Yes please!`. Thanks or praise alone do not."""
    if len(text) > _BEGINNING:
        return False
    words = " ".join(_PLAIN_WORD.findall(text.lower()))
    return _ASSENT.fullmatch(words) is not None and _THANKS.fullmatch(words) is None and "?" not in text


class Shape:
    """The beginning of a message with paths as `F`, `D`, `E` quoted words as `Q`, for phrases to be matched with."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        head = [_sign(piece) for piece in pieces[:_HEAD]]
        self.text = " ".join([*head, "…"] if len(pieces) > _HEAD else head)

    def piece(self, match: re.Match[str]) -> tuple[Piece, Sequence[Piece]]:
        """The one that stands where the phrase has its path, and those after it."""
        at = self.text.count(" ", 0, match.start("path"))
        return self._pieces[at], self._pieces[at + 1 :]

    def is_over(self, match: re.Match[str]) -> bool:
        """Whether nothing but courtesy follows."""
        return re.fullmatch(_COURTESY, self.text[match.end() :]) is not None


def _sign(piece: Piece) -> str:
    if piece.kind.is_path:
        return piece.kind.value
    return "Q" if piece.quoted else piece.word


def lines_of(place: str) -> tuple[int, int] | None:
    """The first and the last line a place names (`:12`, `:3-9`, `:12:4`, `#L3-L9`); None if there are none such."""
    match = _PLACE.fullmatch(place)
    if match is None:
        return None
    first, last = int(match[1] or match[3] or match[4]), match[2] or match[5]
    lines = first, first if last is None else int(last)
    return lines if 1 <= lines[0] <= lines[1] else None


def file_to_read(shape: Shape) -> tuple[Piece, bool, Sequence[Piece]] | None:
    """The path, whether its content is all that is asked for, and the pieces after it."""
    for forms, shows in ((_READ_RAW, True), (_EXPLAIN, False)):
        for form in forms:
            if match := form.match(shape.text):
                piece, rest = shape.piece(match)
                return piece, shows and shape.is_over(match), rest
    return None


def wants_to_read(shape: Shape) -> bool:
    """Whether it begins like that, whatever is to be read."""
    return any(form.match(shape.text) for form in _READ_SOMETHING)


def folder_to_list(shape: Shape) -> str | None:
    for form in _LIST:
        if match := form.match(shape.text):
            name = shape.piece(match)[0].text
            if name and " " not in name and name.lower() not in _NO_FOLDER:
                return name if name.strip("/") == "" else name.rstrip("/")
    return "." if any(form.match(shape.text) for form in _LIST_ROOT) else None


def is_path(piece: Piece) -> bool:
    """Whether it names something in the project: `.` and a command such as `/help` do not."""
    return piece.kind.is_path and piece.text.strip("./\\") != "" and not _is_slash_command(piece)


def _is_slash_command(piece: Piece) -> bool:
    return piece.kind is Kind.EITHER and piece.text.startswith("/") and piece.text.count("/") == 1
