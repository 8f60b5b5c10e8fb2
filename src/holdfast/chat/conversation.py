"""A `.chat` file as a conversation: every change is one atomic write under the document's lock, made on whatever the
file is at that moment."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec
from msgspec.structs import replace

from holdfast.agent.conversation import NOT_RECORDED, Conflict, Diagnostic, LedgerCall, SetResult, SetStatus, Slot
from holdfast.chat import document_file, turns
from holdfast.chat.document import Document
from holdfast.chat.edits import (
    MergeConflict,
    apply_changes,
    changes_appended,
    insert_reply,
    repair_orphans,
    text_difference,
    with_storable_ids,
)
from holdfast.chat.parser import (
    AbortedSegment,
    Segment,
    TextSegment,
    ThinkingSegment,
    ToolResultSegment,
    ToolUseSegment,
)
from holdfast.chat.parser import MessageBlock as DocumentMessage
from holdfast.chat.state_file import CallKey, CallLookup, DocumentLock, StateFile, call_key, document_key
from holdfast.contract.message import Aborted, Message, Part, Role, Text, Thinking, ToolResult, ToolUse
from holdfast.contract.result import Attachment
from holdfast.models.port import Usage
from holdfast.text.escape import escape

_ROLES: Final[dict[str, Role]] = {turns.YOU: "user", turns.SYSTEM: "system"}


class ExpandedText(Protocol):
    """A person's text with its templates and file references filled in. Lines of diagnostics count from its first."""

    @property
    def parts(self) -> Sequence[Part]: ...
    @property
    def diagnostics(self) -> Sequence[Diagnostic]: ...


Expand = Callable[[str, Role], ExpandedText]
_Found = tuple[int, Literal["error", "warning"], str]
"""Where in the text something is wrong, how badly, and what."""


class DocumentReader:
    """One state of a document. What people wrote is expanded once, for the messages and the diagnostics alike."""

    def __init__(self, document: Document, expand: Expand | None) -> None:
        self._document = document
        self._expand = expand
        self._expanded: dict[int, tuple[Part, ...]] = {}
        self._found: list[tuple[int, Diagnostic]] = []
        """What expanding has found, with the place where the text begins."""
        self._diagnostics: list[Diagnostic] | None = None

    def messages(self, attachments: Mapping[CallKey, tuple[Attachment, ...]]) -> list[Message]:
        document, made = self._document, list[Message]()
        _add(made, "system", self._system())
        replies = turns.reply_indexes(document)
        _add(made, "user", self._words(0, replies[0] if replies else len(document.messages)))
        for turn in turns.read_turns(document):
            _add(made, "assistant", tuple(_parts(document, turn)))
            results = tuple(_result(turn.number, asked, attachments) for asked in turn.calls)
            _add(made, "user", (*results, *self._words(turn.message_index + 1, turn.end_index)))
        return made

    def diagnostics(self) -> list[Diagnostic]:
        if self._diagnostics is None:
            self._system()
            self._words(0, len(self._document.messages))
            strange = list(self._strange())
            line = turns.line_numbers(self._document, [found[0] for found in (*strange, *self._found)])
            own = [Diagnostic(severity, message, line[start], 1) for start, severity, message in strange]
            own += [replace(one, line=line[start] + (one.line or 1) - 1) for start, one in self._found]
            found = [*self._document.diagnostics, *own]
            self._diagnostics = sorted(found, key=lambda one: (one.line or 0, one.column or 0))
        return self._diagnostics

    def _system(self) -> tuple[Part, ...]:
        """The last one is the one that counts."""
        for index in range(len(self._document.messages) - 1, -1, -1):
            if self._document.messages[index].role == turns.SYSTEM:
                return self._message(index)
        return ()

    def _words(self, first: int, end: int) -> tuple[Part, ...]:
        """What a person wrote from one message to another, without the results."""
        messages = self._document.messages
        return tuple(
            part for index in range(first, end) if messages[index].role == turns.YOU for part in self._message(index)
        )

    def _message(self, index: int) -> tuple[Part, ...]:
        known = self._expanded.get(index)
        if known is None:
            found = (
                self._text(index, start, segment)
                for start, segment in turns.segments_with_offsets(self._document, index)
            )
            known = self._expanded[index] = tuple(part for parts in found for part in parts)
        return known

    def _text(self, index: int, start: int, segment: Segment) -> Sequence[Part]:
        if not isinstance(segment, TextSegment) or not segment.text.strip():
            return ()
        if self._expand is None:
            return (Text(segment.text),)
        expanded = self._expand(segment.text, _ROLES[self._document.messages[index].role])
        self._found += [(start, one) for one in expanded.diagnostics]
        return expanded.parts

    def _strange(self) -> Iterator[_Found]:
        document = self._document
        for index, message in enumerate(document.messages):
            if message.role not in (turns.YOU, turns.ASSISTANT, turns.SYSTEM):
                yield document.offset(index), "error", _unknown_role(message.role)
        replies = turns.reply_indexes(document)
        yield from self._strays({}, 0, replies[0] if replies else len(document.messages))
        for turn in turns.read_turns(document):
            yield from self._calls(turn)
            yield from self._strays(
                {asked.use.id: asked for asked in turn.calls}, turn.message_index + 1, turn.end_index
            )

    def _calls(self, turn: turns.Turn) -> Iterator[_Found]:
        """Calls of a reply that are not what they should be."""
        first = {asked.use.id: asked.segment_index for asked in turn.calls}
        for place, (start, segment) in enumerate(turns.segments_with_offsets(self._document, turn.message_index)):
            if not isinstance(segment, ToolUseSegment) or segment.problem is not None:
                continue
            if first[segment.id] != place:
                said = f"Another call of this reply has the id '{segment.id}' already; this one is neither run nor "
                yield start, "warning", f"{said}sent, give it an id of its own."
            elif not _is_json(segment.body):
                yield start, "warning", f"The arguments of '{segment.id}' are not JSON."

    def _strays(self, asked: Mapping[str, turns.TurnCall], first: int, end: int) -> Iterator[_Found]:
        """Results that belong to no call, or to one that has a result."""
        for index in range(first, end):
            for start, segment in turns.segments_with_offsets(self._document, index):
                if not isinstance(segment, ToolResultSegment) or segment.problem is not None:
                    continue
                call = asked.get(segment.id)
                if call is None:
                    told = f"No call of the reply before has the id '{segment.id}'; this result is not sent."
                    yield start, "warning", told
                elif call.block is not None and call.block.start != start:
                    yield start, "warning", f"Call '{segment.id}' has a result already; this one is not sent."


def _unknown_role(role: str) -> str:
    known = (turns.YOU, turns.ASSISTANT, turns.SYSTEM)
    meant = [name for name in known if name.casefold() == role.casefold()]
    return f"Unknown role @{role}. Use {' or '.join(f'@{name}:' for name in meant or known)}."


def awaits_reply(document: Document) -> bool:
    """Whether the last word is a person's or a tool's, and no call of the last reply is open."""
    last = turns.last_turn(document)
    asked = () if last is None else last.calls
    if any(one.is_open for one in asked):
        return False
    after = document.messages[last.message_index + 1 if last else 0 :]
    return bool(asked) or any(message.role == turns.YOU and _has_words(message) for message in after)


def turns_since_user(document: Document) -> int:
    count = 0
    for message in reversed(document.messages):
        if message.role == turns.YOU and _has_words(message):
            break
        count += message.role == turns.ASSISTANT
    return count


def _has_words(message: DocumentMessage) -> bool:
    return any(isinstance(segment, TextSegment) and segment.text.strip() for segment in message.segments)


def _parts(document: Document, turn: turns.Turn) -> Iterator[Part]:
    calls = {asked.segment_index: asked.use for asked in turn.calls}
    for place, segment in enumerate(document.messages[turn.message_index].segments):
        match segment:
            case TextSegment():
                if segment.text.strip():
                    yield Text(segment.text)
            case ThinkingSegment():
                yield Thinking(segment.text, segment.provider, segment.signature, segment.redacted)
            case ToolUseSegment():
                if use := calls.get(place):
                    yield ToolUse(use.id, use.name, use.arguments)
                elif segment.problem is not None:
                    yield Text(segment.source.strip())
            case AbortedSegment():
                yield Aborted(segment.message)
            case _:
                continue


def _result(number: int, asked: turns.TurnCall, attachments: Mapping[CallKey, tuple[Attachment, ...]]) -> ToolResult:
    """What is in a placeholder is never sent."""
    use, answer = asked.use, asked.block
    if answer is None or answer.status is not None:
        return ToolResult(use.id, use.name, NOT_RECORDED, error=True)
    kept = attachments.get(call_key(number, use), ()) if attachments else ()
    return ToolResult(use.id, use.name, answer.segment.content, answer.segment.error, kept)


def _add(made: list[Message], role: Role, parts: tuple[Part, ...]) -> None:
    """One message for whatever one side says in a row."""
    if parts and made and made[-1].role == role:
        made[-1] = Message(role, (*made[-1].parts, *parts))
    elif parts:
        made.append(Message(role, parts))


def _is_json(body: str) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


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
        self._memory = StateFile(self._path, state)
        self._known = document_file.read(self._path)
        self._document = Document.parse(document_file.decode(self._known.data))
        self._reading = DocumentReader(self._document, expand)
        self._sent: Document | None = None
        self._frontmatter: tuple[Diagnostic, ...] = ()

    @property
    def id(self) -> str:
        return document_key(self._path)

    @property
    def name(self) -> str:
        return escape(self._path.name)

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
    def lock(self, wait: float = 0.0) -> Generator[None]:
        """Drive the document alone. Raises `DocumentBusy` when others do so for longer than `wait` seconds."""
        with self._lock.acquire(wait):
            document_file.remove_leftovers(self._path)
            yield

    def set_expander(self, expand: Expand, frontmatter: Sequence[Diagnostic] = ()) -> None:
        """From now on templates and file references are filled in so; `frontmatter`: what is odd about that."""
        self._expand = expand
        self._frontmatter = tuple(frontmatter)
        self._reading = DocumentReader(self._document, expand)

    def refresh(self) -> bool:
        self._reading = DocumentReader(self._document, self._expand)
        if self._known.is_unchanged(self._path):
            return False
        return self._take_in(document_file.read_stable(self._path, self._known))

    def slots(self) -> Sequence[Slot]:
        turn = turns.last_turn(self._document)
        if turn is None or not any(asked.is_open for asked in turn.calls):
            return []
        opened = CallLookup(self._memory.read().calls, turn.number)
        line = turns.line_numbers(self._document, (asked.block.start for asked in turn.calls if asked.block))
        return [
            Slot(
                turn=turn.number,
                use=asked.use,
                status=asked.block and asked.block.status,
                text=turns.placeholder_text(self._document, asked),
                aborted=turn.aborted,
                call=opened.take(call_key(turn.number, asked.use)),
                line=asked.block and line[asked.block.start],
            )
            for asked in turn.calls
            if asked.is_open
        ]

    def repair(self) -> int:
        count = 0

        def op(document: Document) -> Document:
            nonlocal count
            new, count = repair_orphans(document)
            return new

        if repair_orphans(self._document)[1]:
            self._write(op, lambda base: repair_orphans(base)[0].text)
        return count

    def change(self, changes: Sequence[SetStatus | SetResult]) -> None:
        if not changes:
            return
        results = [one for one in changes if isinstance(one, SetResult)]
        with self._lock.acquire(_WAIT):
            if results:
                self._memory.store_attachments([(_key(one.slot), one.result.attachments) for one in results])
            self._write(lambda document: apply_changes(document, changes), lambda base: changes_appended(base, changes))

    def remember(self, slot: Slot, opened: LedgerCall | None) -> None:
        with self._lock.acquire(_WAIT):
            self._memory.set_calls([(_key(slot), opened)])

    def remember_all(self, opened: Sequence[tuple[Slot, LedgerCall]]) -> None:
        with self._lock.acquire(_WAIT):
            self._memory.set_calls([(_key(slot), one) for slot, one in opened])

    def forget(self, call_ids: Collection[str]) -> None:
        with self._lock.acquire(_WAIT):
            self._memory.forget_calls(call_ids)

    def remembered(self) -> Sequence[LedgerCall]:
        return [item.call for item in self._memory.read().calls]

    def messages(self) -> Sequence[Message]:
        self._sent = self._document
        found = self._memory.read()
        return self._reading.messages(self._memory.load_attachments(found) if found.attachments else {})

    def diagnostics(self) -> Sequence[Diagnostic]:
        return [*self._frontmatter, *self._reading.diagnostics()]

    def awaits_reply(self) -> bool:
        return awaits_reply(self._document)

    def turns_since_user(self) -> int:
        return turns_since_user(self._document)

    def add_reply(self, parts: Sequence[Part], *, aborted: str | None = None, usage: Usage | None = None) -> None:
        answered = self._sent or self._document
        named = with_storable_ids(parts)
        with self._lock.acquire(_WAIT):
            self._write(
                lambda document: insert_reply(document, answered, named, aborted),
                lambda _: insert_reply(answered, answered, named, aborted).text,
            )
            if usage is not None:
                self._memory.add_usage(usage, first=len(turns.reply_indexes(self._document)) == 1)
        self._sent = None

    def say(self, text: str) -> None:
        """Append a person's words: in their message if the document ends with one, else in a new one."""

        def op(document: Document) -> Document:
            for found in document.diagnostics:
                if found.severity == "error":
                    line = "" if found.line is None else f":{found.line}"
                    raise document_file.DocumentError(f"{self._path}{line}: {found.message}")
            return turns.append_user_text(document, text)

        self._write(op, lambda base: turns.append_user_text(base, text).text)

    def _write(self, op: Callable[[Document], Document], ours: Callable[[Document], str]) -> None:
        """Do `op` on what the file is now, again if it changes meanwhile; `ours` is kept where that cannot be done."""
        base = self._document
        with self._lock.acquire(_WAIT):
            for _ in range(_TRIES):
                try:
                    self._take_in(document_file.read_stable(self._path, self._known))
                    new = op(self._document)
                except document_file.UnreadableDocument as error:
                    raise self._conflict(str(error).rstrip("."), ours(base)) from None
                except MergeConflict as found:
                    raise self._conflict(f"In {self._path} {found} meanwhile", ours(base)) from None
                data = document_file.encode(new.text)
                if data == self._known.data:
                    return
                try:
                    self._adopt(document_file.replace(self._path, self._known, data), new)
                except document_file.FileChanged:
                    continue
                return
        raise document_file.DocumentError(
            f"{self._path} is changed all the time by something else; stop that and run again."
        )

    def _conflict(self, found: str, ours: str) -> Conflict:
        kept = document_file.write_conflict_copy(
            self._path, self._state, document_file.encode(document_file.replace_surrogates(ours))
        )
        return Conflict(
            f"{found}; {self._path} was left as it is, and what was to be written is in {kept}: "
            "take from it what you want and run again."
        )

    def _take_in(self, found: document_file.Snapshot) -> bool:
        if found.data == self._known.data:
            self._known = found
            return False
        start, end, new = text_difference(self._document.text, document_file.decode(found.data))
        self._adopt(found, self._document.edit(start, end, new))
        return True

    def _adopt(self, known: document_file.Snapshot, document: Document) -> None:
        self._known, self._document = known, document
        self._reading = DocumentReader(document, self._expand)


def _key(slot: Slot) -> CallKey:
    return call_key(slot.turn, slot.use)
