"""A conversation kept in memory, for interfaces without a document; and the person who may change it meanwhile."""

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
    """A call of a reply, with what is said about it beside it."""

    use: ToolUse
    status: Status | None = None
    text: str = ""
    result: Result | None = None


class ReplyEntry(Struct, frozen=True, tag="replied"):
    parts: tuple[Part, ...]
    """Everything but its calls' state; a `ToolUse` here stands for the call of that number in `calls`."""
    calls: tuple[CallEntry, ...] = ()
    aborted: str | None = None


class RememberedCall(Struct, frozen=True):
    turn: int
    use: ToolUse
    ledger_call: LedgerCall


class ConversationStore(Struct):
    """Where a conversation lies. It can be encoded, and opened again after a crash."""

    id: str = field(default_factory=lambda: uuid4().hex)
    entries: list[MessageEntry | ReplyEntry] = field(default_factory=list[MessageEntry | ReplyEntry])
    remembered_calls: list[RememberedCall] = field(default_factory=list[RememberedCall])
    problems: list[Diagnostic] = field(default_factory=list[Diagnostic])
    unplaced: list[ReplyEntry] = field(default_factory=list[ReplyEntry])
    """Replies to what was changed while they came."""
    usage: Usage = field(default_factory=Usage)

    @property
    def replies(self) -> list[tuple[int, ReplyEntry]]:
        """Each with its place among the entries."""
        return [(place, entry) for place, entry in enumerate(self.entries) if isinstance(entry, ReplyEntry)]


class MemoryConversation:
    """What others put on the store is seen after `refresh`. `saved` is called when something has been changed."""

    def __init__(
        self,
        store: ConversationStore | None = None,
        *,
        system: str = "",
        saved: Callable[[ConversationStore], None] | None = None,
    ) -> None:
        self.store = store or ConversationStore()
        if system and not self.store.entries:
            self.store.entries.append(MessageEntry("system", system))
        self._saved = saved
        self._seen: list[MessageEntry | ReplyEntry] = []
        self.refresh()

    @property
    def id(self) -> str:
        return self.store.id

    @property
    def name(self) -> str:
        return "The conversation"

    @property
    def usage(self) -> Usage:
        """Of all replies so far."""
        return self.store.usage

    def say(self, text: str) -> None:
        """A person's next words."""
        MemoryUser(self.store).say(text)
        self.refresh()

    def refresh(self) -> bool:
        changed = self._seen != self.store.entries
        self._seen = list(self.store.entries)
        return changed

    def slots(self) -> Sequence[Slot]:
        replies = [entry for entry in self._seen if isinstance(entry, ReplyEntry)]
        if not replies:
            return []
        turn, last = len(replies) - 1, replies[-1]
        return [
            Slot(turn=turn, use=asked.use, status=asked.status, text=asked.text, aborted=last.aborted,
                 call=self._opened(turn, asked.use))
            for asked in last.calls if asked.result is None
        ]  # fmt: skip

    def repair(self) -> int:
        repaired = 0
        missing = Result(False, error=NOT_RECORDED, state=State.FAILED)
        for place, reply in self.store.replies[:-1]:
            without = sum(asked.result is None for asked in reply.calls)
            if without:
                calls = tuple(asked if asked.result else replace(asked, result=missing) for asked in reply.calls)
                self.store.entries[place] = replace(reply, calls=calls)
                repaired += without
        if repaired:
            self._done()
        return repaired

    def change(self, changes: Sequence[SetStatus | SetResult]) -> None:
        entries = list(self.store.entries)
        for change in changes:
            place, number = self._find(entries, change.slot)
            reply = entries[place]
            assert isinstance(reply, ReplyEntry)
            asked = reply.calls[number]
            if isinstance(change, SetStatus):
                asked = replace(asked, status=change.status, text="")
            else:
                asked = replace(asked, status=None, text="", result=change.result)
            entries[place] = replace(reply, calls=(*reply.calls[:number], asked, *reply.calls[number + 1 :]))
        self.store.entries = entries
        self._done()

    def remember(self, slot: Slot, opened: LedgerCall | None) -> None:
        if opened is not None:
            self.remember_all([(slot, opened)])
            return
        self.store.remembered_calls = [
            kept for kept in self.store.remembered_calls if (kept.turn, kept.use) != (slot.turn, slot.use)
        ]
        self._save()

    def remember_all(self, opened: Sequence[tuple[Slot, LedgerCall]]) -> None:
        keys = {(slot.turn, slot.use) for slot, _ in opened}
        self.store.remembered_calls = [
            kept for kept in self.store.remembered_calls if (kept.turn, kept.use) not in keys
        ]
        self.store.remembered_calls += [RememberedCall(slot.turn, slot.use, item) for slot, item in opened]
        self._save()

    def forget(self, call_ids: Collection[str]) -> None:
        self.store.remembered_calls = [
            kept for kept in self.store.remembered_calls if kept.ledger_call.call_id not in call_ids
        ]
        self._save()

    def remembered(self) -> Sequence[LedgerCall]:
        return [kept.ledger_call for kept in self.store.remembered_calls]

    def messages(self) -> Sequence[Message]:
        made: list[Message] = []
        for entry in self._seen:
            if isinstance(entry, MessageEntry):
                _append_parts(made, entry.role, (Text(entry.text),))
                continue
            ending = () if entry.aborted is None else (Aborted(entry.aborted),)
            _append_parts(made, "assistant", (*entry.parts, *ending))
            _append_parts(made, "user", tuple(_tool_result(asked) for asked in entry.calls))
        return made

    def diagnostics(self) -> Sequence[Diagnostic]:
        return self.store.problems

    def awaits_reply(self) -> bool:
        last = self._seen[-1] if self._seen else None
        if isinstance(last, ReplyEntry):
            return bool(last.calls) and all(asked.result for asked in last.calls)
        return last is not None and last.role == "user" and bool(last.text.strip())

    def turns_since_user(self) -> int:
        turns = 0
        for entry in reversed(self._seen):
            if isinstance(entry, MessageEntry) and entry.role == "user" and entry.text.strip():
                break
            turns += isinstance(entry, ReplyEntry)
        return turns

    def add_reply(self, parts: Sequence[Part], *, aborted: str | None = None, usage: Usage | None = None) -> None:
        reply = ReplyEntry(tuple(parts), tuple(CallEntry(part) for part in parts if isinstance(part, ToolUse)), aborted)
        if self._seen != self.store.entries:
            self.store.unplaced.append(reply)
            self._save()
            raise Conflict("The conversation was changed while the model answered; its answer is in `unplaced`.")
        self.store.entries.append(reply)
        if usage is not None:
            self.store.usage += usage
        self._done()

    def _opened(self, turn: int, use: ToolUse) -> LedgerCall | None:
        return next(
            (kept.ledger_call for kept in self.store.remembered_calls if (kept.turn, kept.use) == (turn, use)), None
        )

    def _find(self, entries: list[MessageEntry | ReplyEntry], slot: Slot) -> tuple[int, int]:
        """Where a slot's call is, if nobody changed it or what is said about it."""
        replies = [place for place, entry in enumerate(entries) if isinstance(entry, ReplyEntry)]
        if slot.turn < len(replies):
            reply = entries[replies[slot.turn]]
            assert isinstance(reply, ReplyEntry)
            wanted = CallEntry(slot.use, slot.status, slot.text)
            if wanted in reply.calls:
                return replies[slot.turn], reply.calls.index(wanted)
        raise Conflict(f"Call '{slot.use.id}' was changed meanwhile; what was to be written is in the ledger.")

    def _done(self) -> None:
        self.refresh()
        self._save()

    def _save(self) -> None:
        if self._saved is not None:
            self._saved(self.store)


class MemoryUser:
    """Somebody at the same conversation. Ids are those of calls of the last reply."""

    def __init__(self, store: ConversationStore) -> None:
        self._store = store

    def say(self, text: str) -> None:
        self._store.entries.append(MessageEntry("user", text))

    def set_status(self, use_id: str, status: Status) -> None:
        self._edit(use_id, lambda asked: replace(asked, status=status))

    def put_text(self, use_id: str, text: str) -> None:
        self._edit(use_id, lambda asked: replace(asked, text=text))

    def remove_fence(self, use_id: str) -> None:
        """What is in the placeholder is a result like any other now."""
        self._edit(use_id, lambda asked: replace(asked, status=None, text="", result=Result(True, asked.text)))

    def remove_placeholder(self, use_id: str) -> None:
        self._edit(use_id, lambda asked: replace(asked, status=None, text=""))

    def edit_call(self, use_id: str, arguments: str) -> None:
        self._edit(use_id, lambda asked: replace(asked, use=replace(asked.use, arguments=arguments)))

    def remove_call(self, use_id: str) -> None:
        """The call, and what is said about it."""
        self._edit(use_id, lambda asked: None)

    def _edit(self, use_id: str, edit: Callable[[CallEntry], CallEntry | None]) -> None:
        place, reply = self._store.replies[-1]
        edited = {asked.use.id: edit(asked) if asked.use.id == use_id else asked for asked in reply.calls}
        if use_id not in edited:
            raise KeyError(use_id)
        calls = tuple(asked for asked in edited.values() if asked is not None)
        uses = {asked.use.id: asked.use for asked in calls}
        parts = tuple(uses.get(part.id) if isinstance(part, ToolUse) else part for part in reply.parts)
        self._store.entries[place] = replace(reply, parts=tuple(part for part in parts if part), calls=calls)


def _tool_result(asked: CallEntry) -> ToolResult:
    use, result = asked.use, asked.result
    if result is None:
        return ToolResult(use.id, use.name, NOT_RECORDED, error=True)
    return ToolResult(use.id, use.name, result.text, not result.success, result.attachments)


def _append_parts(
    messages: list[Message], role: Literal["system", "user", "assistant"], parts: tuple[Part, ...]
) -> None:
    """One message for whatever one side says in a row."""
    if not parts:
        return
    if messages and messages[-1].role == role:
        messages[-1] = Message(role, (*messages[-1].parts, *parts))
    else:
        messages.append(Message(role, parts))
