"""What a model is told: notes with a request, corrections, and why a call was refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.agent.guard.evidence import Gate
from holdfast.text.visible import visible

CORRECTION: Final = "[runtime:correction] "
_NOTE: Final = "[runtime:note] "
_LONGEST: Final = 120

GATES: Final = {
    Gate.DEFINITION_ONLY: "only defines it",
    Gate.NOT_CONFIG: "is no configuration file",
    Gate.LACKS_TERM: "does not speak of it",
    Gate.NOT_DEFINITION: "does not define it",
    Gate.LOCKFILE: "is a lock file",
    Gate.IMPORT_ONLY: "only imports it",
}


def quoted(text: str, limit: int = _LONGEST) -> str:
    """A name or a path of a model's, on one line and not too long."""
    line = visible(" ".join(text.split())).replace("`", "'")
    return f"`{line if len(line) <= limit else line[: limit - 1] + '…'}`"


def several(texts: Sequence[str], most: int = 5) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(map(quoted, texts[:most])) + more


# Notes


def tools_left(names: Sequence[str]) -> str:
    if not names:
        return f"{_NOTE}This message needs no tools: answer it in words."
    return f"{_NOTE}Tools for this message: {', '.join(names)}."


def look_first() -> str:
    return f"{_NOTE}Look before you answer: search for one word of the code, then read a file the search finds."


def answer_now(paths: Sequence[str]) -> str:
    return f"{_NOTE}You have read {several(paths)}. Answer now from what it says, and ask for nothing more."


# Why a call is refused


def outside_surface(tool: str, names: Sequence[str]) -> str:
    left = f"Call one of {', '.join(names)}, or answer." if names else "There are none: answer in words."
    return f"{CORRECTION}{quoted(tool)} is not among the tools for this message. {left}"


def enough_seen(tool: str, paths: Sequence[str]) -> str:
    return f"{CORRECTION}{quoted(tool)} was not run: you have read {several(paths)}, which shows it. Answer now."


def weak_query(query: str) -> str:
    said = f"{quoted(query)} would find almost everything" if query.strip() else "a search needs something to look for"
    return f"{CORRECTION}Nothing was searched: {said}. Search for one name of the code, three letters or longer."


def search_closed(found: bool) -> str:
    then = "Read a file the search found, or answer." if found else "Answer from what you have, or say what is missing."
    return f"{CORRECTION}No more searches for this message. {then}"


def search_pending() -> str:
    return f"{CORRECTION}One search at a time: look at what the first one finds."


def search_first(folder: str) -> str:
    return f"{CORRECTION}{quoted(folder)} was not listed: search for a name of the code first, then read what is found."


def read_already(path: str) -> str:
    return f"{CORRECTION}{quoted(path)} was not read again: its content is above. Use that, or read another file."


def read_twice(path: str) -> str:
    return f"{CORRECTION}{quoted(path)} was not read twice: your reply asks for it already. Use what that call gives."


def reads_spent(path: str, count: int, what: str) -> str:
    return f"{CORRECTION}{quoted(path)} was not read: {count} {what} for one message are the limit. Answer from those."


def call_repeated(tool: str) -> str:
    return f"{CORRECTION}{quoted(tool)} was not run again with the same arguments: its result is above. Go on from it."


def call_doubled(tool: str) -> str:
    return (
        f"{CORRECTION}{quoted(tool)} was not run again with the same arguments: "
        "your reply asks for it already. Go on from what that call gives."
    )


# Why an answer is sent back


def no_evidence_yet(searched: bool, looked: bool, read: Sequence[str]) -> str:
    if read:
        what = f"{several(read)} does not show it" + (", and the search found nothing" if searched else "")
    elif searched:
        what = "the search found nothing"
    else:
        what = "no file that shows it was read" if looked else "no search was made for this message"
    return (
        f"{CORRECTION}That cannot be answered yet: {what}. "
        f"Search for {'another' if searched else 'one'} name of the code, and read a file that is found."
    )


def not_read(path: str, read: Sequence[str]) -> str:
    known = f"Name only files you have read: {several(read)}." if read else "You have read no file."
    return f"{CORRECTION}Your answer names {quoted(path)}, which was not read. {known} Answer again."


def out_of_scope(path: str, scope: str) -> str:
    return (
        f"{CORRECTION}Your answer names {quoted(path)}, which is not in {quoted(scope)}. "
        f"Answer again, about {quoted(scope)} only."
    )
