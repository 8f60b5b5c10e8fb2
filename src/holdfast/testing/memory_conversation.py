"""An in-memory `Conversation`, and a user who edits it concurrently, for tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal
from uuid import uuid4

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.agent.conversation import (
    NOT_RECORDED,
    Conflict,
    Diagnostic,
    LedgerCall,
    SetResult,
    SetStatus,
    Slot,
    Status,
)
from holdfast.contract.enums import State
from holdfast.contract.message import Aborted, Message, Part, Text, ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.models.port import Usage


class MessageEntry(Struct, frozen=True, tag="said"):
    role: Literal["system", "user"]
    text: str


class CallEntry(Struct, frozen=True, tag="asked"):
    """A call of a reply, with its placeholder or its result."""

    use: ToolUse
    status: Status | None = None
    text: str = ""
    result: Result | None = None


class ReplyEntry(Struct, frozen=True, tag="replied"):
    parts: tuple[Part, ...]
    """The content of the reply. The state of its tool uses is in `calls`, in the same order."""
    calls: tuple[CallEntry, ...] = ()
    aborted: str | None = None


class RememberedCall(Struct, frozen=True):
    turn: int
    use: ToolUse
    ledger_call: LedgerCall


class ConversationStore(Struct):
    """The stored conversation. It can be encoded, and opened again after a crash."""

    id: str = field(default_factory=lambda: uuid4().hex)
    entries: list[MessageEntry | ReplyEntry] = field(default_factory=list[MessageEntry | ReplyEntry])
    remembered_calls: list[RememberedCall] = field(default_factory=list[RememberedCall])
    problems: list[Diagnostic] = field(default_factory=list[Diagnostic])
    unplaced: list[ReplyEntry] = field(default_factory=list[ReplyEntry])
    """Replies that were rejected because the conversation changed meanwhile."""
    usage: Usage = field(default_factory=Usage)

    @property
    def replies(self) -> list[tuple[int, ReplyEntry]]:
        """The replies with their index in `entries`."""
        return [(index, entry) for index, entry in enumerate(self.entries) if isinstance(entry, ReplyEntry)]


class MemoryConversation:
    """Edits that others make to the store become visible with `refresh`. `on_change` is called after each change."""

    def __init__(
        self,
        store: ConversationStore | None = None,
        *,
        system: str = "",
        on_change: Callable[[ConversationStore], None] | None = None,
    ) -> None:
        self.store = store or ConversationStore()
        if system and not self.store.entries:
            self.store.entries.append(MessageEntry("system", system))
        self._on_change = on_change
        self._entries: list[MessageEntry | ReplyEntry] = []
        self.refresh()

    @property
    def id(self) -> str:
        return self.store.id

    @property
    def name(self) -> str:
        return "The conversation"

    @property
    def usage(self) -> Usage:
        """The total of all replies."""
        return self.store.usage

    def say(self, text: str) -> None:
        """Append a message of the user."""
        MemoryUser(self.store).say(text)
        self.refresh()

    def refresh(self) -> bool:
        changed = self._entries != self.store.entries
        self._entries = list(self.store.entries)
        return changed

    def slots(self) -> Sequence[Slot]:
        replies = [entry for entry in self._entries if isinstance(entry, ReplyEntry)]
        if not replies:
            return []
        turn, last = len(replies) - 1, replies[-1]
        return [
            Slot(turn=turn, use=call.use, status=call.status, text=call.text, aborted=last.aborted,
                 call=self._opened(turn, call.use))
            for call in last.calls if call.result is None
        ]  # fmt: skip

    def repair(self) -> int:
        repaired = 0
        missing = Result(False, error=NOT_RECORDED, state=State.FAILED)
        for index, reply in self.store.replies[:-1]:
            without = sum(call.result is None for call in reply.calls)
            if without:
                calls = tuple(call if call.result else replace(call, result=missing) for call in reply.calls)
                self.store.entries[index] = replace(reply, calls=calls)
                repaired += without
        if repaired:
            self._done()
        return repaired

    def change(self, changes: Sequence[SetStatus | SetResult]) -> None:
        entries = list(self.store.entries)
        for change in changes:
            index, number = self._find(entries, change.slot)
            reply = entries[index]
            assert isinstance(reply, ReplyEntry)
            call = reply.calls[number]
            if isinstance(change, SetStatus):
                call = replace(call, status=change.status, text="")
            else:
                call = replace(call, status=None, text="", result=change.result)
            entries[index] = replace(reply, calls=(*reply.calls[:number], call, *reply.calls[number + 1 :]))
        self.store.entries = entries
        self._done()

    def remember(self, slot: Slot, opened: LedgerCall | None) -> None:
        if opened is not None:
            self.remember_all([(slot, opened)])
            return
        self.store.remembered_calls = [
            item for item in self.store.remembered_calls if (item.turn, item.use) != (slot.turn, slot.use)
        ]
        self._save()

    def remember_all(self, opened: Sequence[tuple[Slot, LedgerCall]]) -> None:
        keys = {(slot.turn, slot.use) for slot, _ in opened}
        self.store.remembered_calls = [
            item for item in self.store.remembered_calls if (item.turn, item.use) not in keys
        ]
        self.store.remembered_calls += [RememberedCall(slot.turn, slot.use, item) for slot, item in opened]
        self._save()

    def forget(self, call_ids: Collection[str]) -> None:
        self.store.remembered_calls = [
            item for item in self.store.remembered_calls if item.ledger_call.call_id not in call_ids
        ]
        self._save()

    def remembered(self) -> Sequence[LedgerCall]:
        return [item.ledger_call for item in self.store.remembered_calls]

    def messages(self) -> Sequence[Message]:
        made: list[Message] = []
        for entry in self._entries:
            if isinstance(entry, MessageEntry):
                _append_parts(made, entry.role, (Text(entry.text),))
                continue
            ending = () if entry.aborted is None else (Aborted(entry.aborted),)
            _append_parts(made, "assistant", (*entry.parts, *ending))
            _append_parts(made, "user", tuple(_tool_result(call) for call in entry.calls))
        return made

    def diagnostics(self) -> Sequence[Diagnostic]:
        return self.store.problems

    def awaits_reply(self) -> bool:
        last = self._entries[-1] if self._entries else None
        if isinstance(last, ReplyEntry):
            return bool(last.calls) and all(call.result for call in last.calls)
        return last is not None and last.role == "user" and bool(last.text.strip())

    def turns_since_user(self) -> int:
        turns = 0
        for entry in reversed(self._entries):
            if isinstance(entry, MessageEntry) and entry.role == "user" and entry.text.strip():
                break
            turns += isinstance(entry, ReplyEntry)
        return turns

    def add_reply(self, parts: Sequence[Part], *, aborted: str | None = None, usage: Usage | None = None) -> None:
        reply = ReplyEntry(tuple(parts), tuple(CallEntry(part) for part in parts if isinstance(part, ToolUse)), aborted)
        if self._entries != self.store.entries:
            self.store.unplaced.append(reply)
            self._save()
            raise Conflict("The conversation was changed while the model replied; its reply is in `unplaced`.")
        self.store.entries.append(reply)
        if usage is not None:
            self.store.usage += usage
        self._done()

    def _opened(self, turn: int, use: ToolUse) -> LedgerCall | None:
        return next(
            (item.ledger_call for item in self.store.remembered_calls if (item.turn, item.use) == (turn, use)), None
        )

    def _find(self, entries: list[MessageEntry | ReplyEntry], slot: Slot) -> tuple[int, int]:
        """The index of a slot's reply and call. Raises `Conflict` if the call or its placeholder has changed."""
        replies = [index for index, entry in enumerate(entries) if isinstance(entry, ReplyEntry)]
        if slot.turn < len(replies):
            reply = entries[replies[slot.turn]]
            assert isinstance(reply, ReplyEntry)
            wanted = CallEntry(slot.use, slot.status, slot.text)
            if wanted in reply.calls:
                return replies[slot.turn], reply.calls.index(wanted)
        raise Conflict(f"Call '{slot.use.id}' was changed meanwhile; its result is in the ledger.")

    def _done(self) -> None:
        self.refresh()
        self._save()

    def _save(self) -> None:
        if self._on_change is not None:
            self._on_change(self.store)


class MemoryUser:
    """A user who edits the same conversation. The ids are those of calls of the last reply."""

    def __init__(self, store: ConversationStore) -> None:
        self._store = store

    def say(self, text: str) -> None:
        self._store.entries.append(MessageEntry("user", text))

    def set_status(self, use_id: str, status: Status) -> None:
        self._edit(use_id, lambda call: replace(call, status=status))

    def put_text(self, use_id: str, text: str) -> None:
        self._edit(use_id, lambda call: replace(call, text=text))

    def remove_fence(self, use_id: str) -> None:
        """Turn the placeholder into an ordinary result with its text."""
        self._edit(use_id, lambda call: replace(call, status=None, text="", result=Result(True, call.text)))

    def remove_placeholder(self, use_id: str) -> None:
        self._edit(use_id, lambda call: replace(call, status=None, text=""))

    def edit_call(self, use_id: str, arguments: str) -> None:
        self._edit(use_id, lambda call: replace(call, use=replace(call.use, arguments=arguments)))

    def remove_call(self, use_id: str) -> None:
        """Remove a call and its placeholder."""
        self._edit(use_id, lambda call: None)

    def _edit(self, use_id: str, edit: Callable[[CallEntry], CallEntry | None]) -> None:
        index, reply = self._store.replies[-1]
        edited = {call.use.id: edit(call) if call.use.id == use_id else call for call in reply.calls}
        if use_id not in edited:
            raise KeyError(use_id)
        calls = tuple(call for call in edited.values() if call is not None)
        uses = {call.use.id: call.use for call in calls}
        parts = tuple(uses.get(part.id) if isinstance(part, ToolUse) else part for part in reply.parts)
        self._store.entries[index] = replace(reply, parts=tuple(part for part in parts if part), calls=calls)


def _tool_result(call: CallEntry) -> ToolResult:
    use, result = call.use, call.result
    if result is None:
        return ToolResult(use.id, use.name, NOT_RECORDED, error=True)
    return ToolResult(use.id, use.name, result.text, not result.success, result.attachments)


def _append_parts(
    messages: list[Message], role: Literal["system", "user", "assistant"], parts: tuple[Part, ...]
) -> None:
    """Add parts to the last message if it has the same role, else add a message."""
    if not parts:
        return
    if messages and messages[-1].role == role:
        messages[-1] = Message(role, (*messages[-1].parts, *parts))
    else:
        messages.append(Message(role, parts))
