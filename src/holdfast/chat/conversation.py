"""A `.chat` file as a conversation: every change is an atomic write under the document's lock, merged with the current
content of the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec
from msgspec.structs import replace

from holdfast.agent.conversation import NOT_RECORDED, Conflict, Diagnostic, LedgerCall, SetResult, SetStatus, Slot
from holdfast.chat import document_file, turns
from holdfast.chat.attachment_files import AttachmentFiles, LoadBytes
from holdfast.chat.attachments import LinkedAttachments, WrittenAttachments, without_withheld, write_attachments
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
    AttachmentLink,
    TextSegment,
    ThinkingSegment,
    ToolResultSegment,
    ToolUseSegment,
)
from holdfast.chat.parser import MessageBlock as DocumentMessage
from holdfast.chat.state_file import (
    CallKey,
    CallLookup,
    DocumentLock,
    StateFile,
    StoredAttachment,
    call_key,
    document_key,
)
from holdfast.config.config import OutputConfig
from holdfast.contract.message import Aborted, Message, Part, Role, Text, Thinking, ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.models.port import Usage
from holdfast.text.escape import escape

_ROLES: Final[dict[str, Role]] = {turns.YOU: "user", turns.SYSTEM: "system"}


class ExpandedText(Protocol):
    """User text with expanded templates and file references. Lines of diagnostics are relative to the text."""

    @property
    def parts(self) -> Sequence[Part]: ...
    @property
    def diagnostics(self) -> Sequence[Diagnostic]: ...


Expand = Callable[[str, Role], ExpandedText]
_Problem = tuple[int, Literal["error", "warning"], str]
"""Offset, severity and message."""


class DocumentReader:
    """The messages and diagnostics of one version of a document. User text is expanded once for both."""

    def __init__(self, document: Document, expand: Expand | None, attachments: LinkedAttachments | None = None) -> None:
        self._document = document
        self._expand = expand
        self._attachments = attachments
        self._expanded: dict[int, tuple[Part, ...]] = {}
        self._expansion_diagnostics: list[tuple[int, Diagnostic]] = []
        """Diagnostics of expanded texts, each with the offset of its text."""
        self._diagnostics: list[Diagnostic] | None = None

    def messages(self) -> list[Message]:
        document, made = self._document, list[Message]()
        _add(made, "system", self._system())
        replies = turns.reply_indexes(document)
        _add(made, "user", self._user_text(0, replies[0] if replies else len(document.messages)))
        for turn in turns.read_turns(document):
            _add(made, "assistant", tuple(_parts(document, turn)))
            results = tuple(self._result(turn.number, call) for call in turn.calls)
            _add(made, "user", (*results, *self._user_text(turn.message_index + 1, turn.end_index)))
        return made

    def diagnostics(self) -> list[Diagnostic]:
        if self._diagnostics is None:
            self._system()
            self._user_text(0, len(self._document.messages))
            problems = list(self._problems())
            line = turns.line_numbers(self._document, [found[0] for found in (*problems, *self._expansion_diagnostics)])
            own = [Diagnostic(severity, message, line[start], 1) for start, severity, message in problems]
            own += [replace(one, line=line[start] + (one.line or 1) - 1) for start, one in self._expansion_diagnostics]
            found = [*self._document.diagnostics, *own]
            self._diagnostics = sorted(found, key=lambda one: (one.line or 0, one.column or 0))
        return self._diagnostics

    def _system(self) -> tuple[Part, ...]:
        """The last system message."""
        for index in range(len(self._document.messages) - 1, -1, -1):
            if self._document.messages[index].role == turns.SYSTEM:
                return self._message(index)
        return ()

    def _user_text(self, first: int, end: int) -> tuple[Part, ...]:
        """The user text of a range of messages, without results."""
        messages = self._document.messages
        return tuple(
            part for index in range(first, end) if messages[index].role == turns.YOU for part in self._message(index)
        )

    def _message(self, index: int) -> tuple[Part, ...]:
        known = self._expanded.get(index)
        if known is None:
            message = self._document.messages[index]
            starts = [start for start, _ in turns.segments_with_offsets(self._document, index)]
            found = (self._text(message.role, starts[place], text) for place, text in turns.user_texts(message))
            known = self._expanded[index] = tuple(part for parts in found for part in parts)
        return known

    def _text(self, role: str, start: int, text: str) -> Sequence[Part]:
        if self._expand is None:
            return (Text(text),)
        expanded = self._expand(text, _ROLES[role])
        self._expansion_diagnostics += [(start, one) for one in expanded.diagnostics]
        return expanded.parts

    def _result(self, number: int, call: turns.TurnCall) -> ToolResult:
        """The result of a call to send. The text of a placeholder is never sent."""
        use, block = call.use, call.block
        if block is None or block.status is not None:
            return ToolResult(use.id, use.name, NOT_RECORDED, error=True)
        attached = ()
        if block.links and self._attachments is not None:
            found = self._attachments.read(call_key(number, use), [link for _, link in block.links])
            attached = tuple(item for item, _ in found)
        return ToolResult(use.id, use.name, block.segment.content, block.segment.error, attached)

    def _problems(self) -> Iterator[_Problem]:
        document = self._document
        for index, message in enumerate(document.messages):
            if message.role not in (turns.YOU, turns.ASSISTANT, turns.SYSTEM):
                yield document.offset(index), "error", _unknown_role(message.role)
        replies = turns.reply_indexes(document)
        yield from self._stray_results({}, 0, replies[0] if replies else len(document.messages))
        for turn in turns.read_turns(document):
            yield from self._call_problems(turn)
            yield from self._attachment_problems(turn)
            yield from self._stray_results(
                {call.use.id: call for call in turn.calls}, turn.message_index + 1, turn.end_index
            )

    def _call_problems(self, turn: turns.Turn) -> Iterator[_Problem]:
        """Duplicate ids and invalid arguments of a reply's calls."""
        first = {call.use.id: call.segment_index for call in turn.calls}
        for index, (start, segment) in enumerate(turns.segments_with_offsets(self._document, turn.message_index)):
            if not isinstance(segment, ToolUseSegment) or segment.problem is not None:
                continue
            if first[segment.id] != index:
                duplicate = f"Another call of this reply has the id '{segment.id}', so this one is not run or sent."
                yield start, "warning", f"{duplicate} Give it a unique id."
            elif not _is_json(segment.body):
                yield start, "warning", f"The arguments of '{segment.id}' are not JSON."

    def _attachment_problems(self, turn: turns.Turn) -> Iterator[_Problem]:
        """Files of attachments that are missing or were changed."""
        for call in turn.calls:
            if call.block is None or not call.block.links or self._attachments is None:
                continue
            found = self._attachments.read(call_key(turn.number, call.use), [link for _, link in call.block.links])
            for (start, _), (_, problem) in zip(call.block.links, found, strict=True):
                if problem:
                    words = f"{escape(problem)}, so the model gets only a description of it."
                    yield start, "warning", f"{words} Restore the file, or remove the link."

    def _stray_results(self, calls: Mapping[str, turns.TurnCall], first: int, end: int) -> Iterator[_Problem]:
        """Results without a call, and second results of a call."""
        for index in range(first, end):
            for start, segment in turns.segments_with_offsets(self._document, index):
                if not isinstance(segment, ToolResultSegment) or segment.problem is not None:
                    continue
                call = calls.get(segment.id)
                if call is None:
                    stray = f"No call of the previous reply has the id '{segment.id}', so this result is not sent."
                    yield start, "warning", stray
                elif call.block is not None and call.block.start != start:
                    yield start, "warning", f"Call '{segment.id}' already has a result, so this one is not sent."


def _unknown_role(role: str) -> str:
    known = (turns.YOU, turns.ASSISTANT, turns.SYSTEM)
    similar = [name for name in known if name.casefold() == role.casefold()]
    return f"Unknown role @{role}. Use {' or '.join(f'@{name}:' for name in similar or known)}."


def awaits_reply(document: Document) -> bool:
    """Whether the document ends with user text or results, and no call of the last reply is unfinished."""
    last = turns.last_turn(document)
    calls = () if last is None else last.calls
    if any(call.is_open for call in calls):
        return False
    after = document.messages[last.message_index + 1 if last else 0 :]
    return bool(calls) or any(message.role == turns.YOU and _has_text(message) for message in after)


def turns_since_user(document: Document) -> int:
    count = 0
    for message in reversed(document.messages):
        if message.role == turns.YOU and _has_text(message):
            break
        count += message.role == turns.ASSISTANT
    return count


def _has_text(message: DocumentMessage) -> bool:
    return any(True for _ in turns.user_texts(message))


def _parts(document: Document, turn: turns.Turn) -> Iterator[Part]:
    calls = {call.segment_index: call.use for call in turn.calls}
    for index, segment in enumerate(document.messages[turn.message_index].segments):
        match segment:
            case TextSegment():
                if segment.text.strip():
                    yield Text(segment.text)
            case ThinkingSegment():
                yield Thinking(segment.text, segment.provider, segment.signature, segment.redacted)
            case ToolUseSegment():
                if use := calls.get(index):
                    yield ToolUse(use.id, use.name, use.arguments)
                elif segment.problem is not None:
                    yield Text(segment.source.strip())
            case AbortedSegment():
                yield Aborted(segment.message)
            case _:
                continue


def _add(made: list[Message], role: Role, parts: tuple[Part, ...]) -> None:
    """Append a message, merged with the last one if it has the same role."""
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


_MAX_ATTEMPTS: Final = 20
_LOCK_SECONDS: Final = 5.0
"""How long a single write waits for the lock of another writer. An open session holds the lock all the time."""


class DocumentConversation:
    """Not thread-safe. Raises `DocumentError` if the file cannot be read or written.

    `state` is the folder for the stored state of the project's documents.
    """

    def __init__(self, path: Path, *, state: Path, expand: Expand | None = None) -> None:
        self._path = Path(os.path.realpath(path))
        self._state = state
        self._expand = expand
        self._lock = DocumentLock(self._path, state)
        self._state_file = StateFile(self._path, state)
        self._files, self._limits = AttachmentFiles(self._path), OutputConfig()
        self._snapshot = document_file.read(self._path)
        self._document = Document.parse(document_file.decode(self._snapshot.data))
        self._reader = self._new_reader()
        self._sent_document: Document | None = None
        self._frontmatter_diagnostics: tuple[Diagnostic, ...] = ()

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
        """The last version read."""
        return self._document

    @property
    def usage(self) -> Usage:
        """The total usage of all replies."""
        return self._state_file.read().usage

    @property
    def replies(self) -> int:
        """The number of replies in `usage`."""
        return self._state_file.read().replies

    @contextmanager
    def lock(self, wait: float = 0.0) -> Generator[None]:
        """Lock the document. Raises `DocumentBusy` if another process holds the lock for longer than `wait` seconds."""
        with self._lock.acquire(wait):
            document_file.remove_leftovers(self._path)
            yield

    def set_expander(self, expand: Expand, frontmatter: Sequence[Diagnostic] = ()) -> None:
        """Set the expansion of templates and file references, and the diagnostics of the frontmatter."""
        self._expand = expand
        self._frontmatter_diagnostics = tuple(frontmatter)
        self._reader = self._new_reader()

    def set_attachments(self, load: LoadBytes, limits: OutputConfig) -> None:
        """Set where missing files of attachments are restored from, and how many bytes a result may have."""
        self._files, self._limits = AttachmentFiles(self._path, load), limits
        self._reader = self._new_reader()

    def with_paths(self, result: Result) -> Result:
        """The result with the paths of its attachments, once it is written."""
        items = ((item, self._files.find(item) if item.data else None) for item in result.attachments)
        return replace(
            result,
            attachments=tuple(replace(item, path=None if path is None else str(path)) for item, path in items),
        )

    def _new_reader(self) -> DocumentReader:
        # The state is read on first use: a document that was just opened may not have any.
        attachments = LinkedAttachments(self._files, self._stored_attachments, self._limits)
        return DocumentReader(self._document, self._expand, attachments)

    def _stored_attachments(self) -> Sequence[StoredAttachment]:
        return self._state_file.read().attachments

    def refresh(self) -> bool:
        self._reader = self._new_reader()
        if self._snapshot.is_unchanged(self._path):
            return False
        return self._merge(document_file.read_stable(self._path, self._snapshot))

    def slots(self) -> Sequence[Slot]:
        turn = turns.last_turn(self._document)
        if turn is None or not any(call.is_open for call in turn.calls):
            return []
        stored = CallLookup(self._state_file.read().calls, turn.number)
        line = turns.line_numbers(self._document, (call.block.start for call in turn.calls if call.block))
        return [
            Slot(
                turn=turn.number,
                use=call.use,
                status=call.block and call.block.status,
                text=turns.placeholder_text(self._document, call),
                aborted=turn.aborted,
                call=stored.take(call_key(turn.number, call.use)),
                line=call.block and line[call.block.start],
            )
            for call in turn.calls
            if call.is_open
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
        changes = [
            SetResult(one.slot, without_withheld(one.result)) if isinstance(one, SetResult) else one for one in changes
        ]
        with self._lock.acquire(_LOCK_SECONDS):
            written = self._write_attachments([one for one in changes if isinstance(one, SetResult)])
            links = _ResultLinks(written, self._document, self._stored_attachments)
            self._write(
                lambda document: apply_changes(document, changes, links),
                lambda base: changes_appended(base, changes, links),
            )

    def _write_attachments(self, results: Sequence[SetResult]) -> Mapping[CallKey, WrittenAttachments]:
        """Write the files and what is stored about them, before the text that links to them."""
        written = {
            (key := _key(one.slot)): write_attachments(self._files, key, one.result.attachments)
            for one in results
            if one.result.attachments
        }
        if written:
            self._state_file.store_attachments([item for one in written.values() for item in one.stored])
        return written

    def remember(self, slot: Slot, opened: LedgerCall | None) -> None:
        with self._lock.acquire(_LOCK_SECONDS):
            self._state_file.set_calls([(_key(slot), opened)])

    def remember_all(self, opened: Sequence[tuple[Slot, LedgerCall]]) -> None:
        with self._lock.acquire(_LOCK_SECONDS):
            self._state_file.set_calls([(_key(slot), one) for slot, one in opened])

    def forget(self, call_ids: Collection[str]) -> None:
        with self._lock.acquire(_LOCK_SECONDS):
            self._state_file.forget_calls(call_ids)

    def remembered(self) -> Sequence[LedgerCall]:
        return [item.call for item in self._state_file.read().calls]

    def messages(self) -> Sequence[Message]:
        self._sent_document = self._document
        return self._reader.messages()

    def diagnostics(self) -> Sequence[Diagnostic]:
        return [*self._frontmatter_diagnostics, *self._reader.diagnostics()]

    def awaits_reply(self) -> bool:
        return awaits_reply(self._document)

    def turns_since_user(self) -> int:
        return turns_since_user(self._document)

    def add_reply(self, parts: Sequence[Part], *, aborted: str | None = None, usage: Usage | None = None) -> None:
        answered = self._sent_document or self._document
        named = with_storable_ids(parts)
        with self._lock.acquire(_LOCK_SECONDS):
            self._write(
                lambda document: insert_reply(document, answered, named, aborted),
                lambda _: insert_reply(answered, answered, named, aborted).text,
            )
            if usage is not None:
                self._state_file.add_usage(usage, first=len(turns.reply_indexes(self._document)) == 1)
        self._sent_document = None

    def say(self, text: str) -> None:
        """Append user text, to the user message at the end of the document or in a new one."""

        def op(document: Document) -> Document:
            for found in document.diagnostics:
                if found.severity == "error":
                    line = "" if found.line is None else f":{found.line}"
                    raise document_file.DocumentError(f"{self._path}{line}: {found.message}")
            return turns.append_user_text(document, text)

        self._write(op, lambda base: turns.append_user_text(base, text).text)

    def _write(self, op: Callable[[Document], Document], ours: Callable[[Document], str]) -> None:
        """Apply `op` to the current file, retrying if it changes; on a conflict, save the text `ours` as a copy."""
        base = self._document
        with self._lock.acquire(_LOCK_SECONDS):
            for _ in range(_MAX_ATTEMPTS):
                try:
                    self._merge(document_file.read_stable(self._path, self._snapshot))
                    new = op(self._document)
                except document_file.UnreadableDocument as error:
                    raise self._conflict(str(error).rstrip("."), ours(base)) from None
                except MergeConflict as found:
                    raise self._conflict(f"In {self._path} {found} meanwhile", ours(base)) from None
                data = document_file.encode(new.text)
                if data == self._snapshot.data:
                    return
                try:
                    self._set_document(document_file.replace(self._path, self._snapshot, data), new)
                except document_file.FileChanged:
                    continue
                return
        raise document_file.DocumentError(
            f"{self._path} keeps changing ({_MAX_ATTEMPTS} attempts). Close whatever is writing to it and retry."
        )

    def _conflict(self, found: str, ours: str) -> Conflict:
        kept = document_file.write_conflict_copy(
            self._path, self._state, document_file.encode(document_file.replace_surrogates(ours))
        )
        return Conflict(
            f"{found}. {self._path} is unchanged; the version with the unsaved changes is {kept}. "
            "Copy what you need from it and run again."
        )

    def _merge(self, snapshot: document_file.Snapshot) -> bool:
        """Take over the version on disk; return whether it differs."""
        if snapshot.data == self._snapshot.data:
            self._snapshot = snapshot
            return False
        start, end, new = text_difference(self._document.text, document_file.decode(snapshot.data))
        self._set_document(snapshot, self._document.edit(start, end, new))
        return True

    def _set_document(self, snapshot: document_file.Snapshot, document: Document) -> None:
        self._snapshot, self._document = snapshot, document
        self._reader = self._new_reader()


class _ResultLinks:
    """Implements `edits.Links` with what is written and what the stored state knows."""

    def __init__(
        self,
        written: Mapping[CallKey, WrittenAttachments],
        document: Document,
        stored: Callable[[], Sequence[StoredAttachment]],
    ) -> None:
        self._written = written
        self._document = document
        self._stored = stored

    def new(self, change: SetResult) -> Sequence[str]:
        return self._written[_key(change.slot)].links if change.result.attachments else ()

    def is_old(self, change: SetResult, link: AttachmentLink) -> bool:
        calls = {item.call for item in self._stored() if item.target == link.known_as}
        # A call that was edited and runs again has another digest: its old one is that of no call any more.
        return bool(calls) and not calls & (self._calls - {_key(change.slot).digest})

    @cached_property
    def _calls(self) -> Set[str]:
        """The digests of the document's calls."""
        found = turns.read_turns(self._document)
        return {call_key(turn.number, call.use).digest for turn in found for call in turn.calls}


def _key(slot: Slot) -> CallKey:
    return call_key(slot.turn, slot.use)
