"""A `.chat` file as a conversation: every change is one atomic write under the document's lock, made on whatever the
file is at that moment."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.agent.conversation import Conflict, Diagnostic, Open, Placed, Settled, Slot
from holdfast.chat import files
from holdfast.chat.document import Document
from holdfast.chat.locking import DocumentLock, key
from holdfast.chat.merging import Mismatch, changed, difference, repaired, replied, unplaced, with_own_ids
from holdfast.chat.reading import Expand, Reading, awaits_reply, turns_since_user
from holdfast.chat.remembering import Key, Memory, OpenCalls, key_of
from holdfast.chat.speaking import spoken
from holdfast.chat.turns import last_turn, lines, starts, words
from holdfast.contract.message import Message, Part
from holdfast.models.port import Usage
from holdfast.text.visible import visible

_TRIES: Final = 20
_WAIT: Final = 5.0
"""Seconds a single write waits for another process that is writing; who drives a document holds it all the time."""


class DocumentConversation:
    """For one task of one process. Raises `DocumentError` for what cannot be read or written.

    `state` is the folder for this project's chats in the user's state directory.
    """

    def __init__(self, path: Path, *, state: Path, expand: Expand | None = None) -> None:
        self._path = Path(os.path.realpath(path))
        self._state = state
        self._expand = expand
        self._lock = DocumentLock(self._path, state)
        self._memory = Memory(self._path, state)
        self._known = files.read(self._path)
        self._document = Document.parse(files.decode(self._known.data))
        self._reading = Reading(self._document, expand)
        self._sent: Document | None = None

    @property
    def id(self) -> str:
        return key(self._path)

    @property
    def name(self) -> str:
        return visible(self._path.name)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def document(self) -> Document:
        """As it was last seen."""
        return self._document

    @property
    def usage(self) -> Usage:
        """Of all replies so far."""
        return self._memory.read().usage

    @property
    def replies(self) -> int:
        """How many replies that usage is of."""
        return self._memory.read().replies

    @contextmanager
    def held(self, wait: float = 0.0) -> Generator[None]:
        """Drive the document alone. Raises `DocumentBusy` when others do so for longer than `wait` seconds."""
        with self._lock.held(wait):
            files.sweep(self._path)
            yield

    def expand_with(self, expand: Expand) -> None:
        """From now on templates and file references are filled in so."""
        self._expand = expand
        self._reading = Reading(self._document, expand)

    def refresh(self) -> bool:
        self._reading = Reading(self._document, self._expand)
        if self._known.is_still(self._path):
            return False
        return self._take_in(files.read_settled(self._path, self._known))

    def slots(self) -> Sequence[Slot]:
        turn = last_turn(self._document)
        if turn is None or not any(asked.is_open for asked in turn.asked):
            return []
        opened = OpenCalls(self._memory.read().open, turn.number)
        line = lines(self._document, (asked.answer.start for asked in turn.asked if asked.answer))
        return [
            Slot(
                turn=turn.number,
                use=asked.use,
                status=asked.answer and asked.answer.status,
                text=words(self._document, asked),
                aborted=turn.aborted,
                open=opened.take(key_of(turn.number, asked.use)),
                line=asked.answer and line[asked.answer.start],
            )
            for asked in turn.asked
            if asked.is_open
        ]

    def repair(self) -> int:
        count = 0

        def op(document: Document) -> Document:
            nonlocal count
            new, count = repaired(document)
            return new

        if repaired(self._document)[1]:
            self._write(op, lambda base: repaired(base)[0].text)
        return count

    def change(self, changes: Sequence[Placed | Settled]) -> None:
        if not changes:
            return
        results = [one for one in changes if isinstance(one, Settled)]
        with self._lock.held(_WAIT):
            if results:
                self._memory.keep([(_key(one.slot), one.result.attachments) for one in results])
            self._write(lambda document: changed(document, changes), lambda base: unplaced(base, changes))

    def remember(self, slot: Slot, opened: Open | None) -> None:
        with self._lock.held(_WAIT):
            self._memory.open([(_key(slot), opened)])

    def remember_all(self, opened: Sequence[tuple[Slot, Open]]) -> None:
        with self._lock.held(_WAIT):
            self._memory.open([(_key(slot), one) for slot, one in opened])

    def forget(self, call_ids: Collection[str]) -> None:
        with self._lock.held(_WAIT):
            self._memory.forget(call_ids)

    def remembered(self) -> Sequence[Open]:
        return [item.open for item in self._memory.read().open]

    def messages(self) -> Sequence[Message]:
        self._sent = self._document
        found = self._memory.read()
        return self._reading.messages(self._memory.attachments(found) if found.kept else {})

    def diagnostics(self) -> Sequence[Diagnostic]:
        return self._reading.diagnostics()

    def awaits_reply(self) -> bool:
        return awaits_reply(self._document)

    def turns_since_user(self) -> int:
        return turns_since_user(self._document)

    def add_reply(self, parts: Sequence[Part], *, aborted: str | None = None, usage: Usage | None = None) -> None:
        answered = self._sent or self._document
        named = with_own_ids(parts)
        with self._lock.held(_WAIT):
            self._write(
                lambda document: replied(document, answered, named, aborted),
                lambda _: replied(answered, answered, named, aborted).text,
            )
            if usage is not None:
                self._memory.count(usage, first=len(starts(self._document)) == 1)
        self._sent = None

    def say(self, text: str) -> None:
        """Append a person's words: in their message if the document ends with one, else in a new one."""

        def op(document: Document) -> Document:
            for found in document.diagnostics:
                if found.severity == "error":
                    line = "" if found.line is None else f":{found.line}"
                    raise files.DocumentError(f"{self._path}{line}: {found.message}")
            return spoken(document, text)

        self._write(op, lambda base: spoken(base, text).text)

    def _write(self, op: Callable[[Document], Document], ours: Callable[[Document], str]) -> None:
        """Do `op` on what the file is now, again if it changes meanwhile; `ours` is kept where that cannot be done."""
        base = self._document
        with self._lock.held(_WAIT):
            for _ in range(_TRIES):
                try:
                    self._take_in(files.read_settled(self._path, self._known))
                    new = op(self._document)
                except files.Unreadable as error:
                    raise self._conflict(str(error).rstrip("."), ours(base)) from None
                except Mismatch as found:
                    raise self._conflict(f"In {self._path} {found} meanwhile", ours(base)) from None
                data = files.encode(new.text)
                if data == self._known.data:
                    return
                try:
                    self._adopt(files.replace(self._path, self._known, data), new)
                except files.Changed:
                    continue
                return
        raise files.DocumentError(f"{self._path} is changed all the time by something else; stop that and run again.")

    def _conflict(self, found: str, ours: str) -> Conflict:
        kept = files.keep_beside(self._path, self._state, files.encode(files.storable(ours)))
        return Conflict(
            f"{found}; {self._path} was left as it is, and what was to be written is in {kept}: "
            "take from it what you want and run again."
        )

    def _take_in(self, found: files.Snapshot) -> bool:
        if found.data == self._known.data:
            self._known = found
            return False
        start, end, new = difference(self._document.text, files.decode(found.data))
        self._adopt(found, self._document.edit(start, end, new))
        return True

    def _adopt(self, known: files.Snapshot, document: Document) -> None:
        self._known, self._document = known, document
        self._reading = Reading(document, self._expand)


def _key(slot: Slot) -> Key:
    return key_of(slot.turn, slot.use)
