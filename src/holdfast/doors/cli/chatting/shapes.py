"""What `holdfast chat --json` writes: events as they happen, the last of them the outcome; and a document's status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

from holdfast.agent.events import CallSettled
from holdfast.contract.event import Finished
from holdfast.doors.cli.shapes import Shape, held_shape, result_shape

if TYPE_CHECKING:
    from holdfast.agent.conversation import Slot
    from holdfast.agent.events import AgentEvent, Outcome
    from holdfast.assemble.chat import Chat
    from holdfast.chat.cursor import Position
    from holdfast.contract.event import Event
    from holdfast.runtime.runtime import Runtime


def event_shape(event: AgentEvent | Event) -> Shape:
    """Any event but the last one."""
    shape: Shape = to_builtins(event)
    if isinstance(event, (CallSettled, Finished)):
        shape["result"] = result_shape(event.result)
    return shape


def outcome_shape(outcome: Outcome, chat: Chat, settled: str | None) -> Shape:
    """`settled` is the id of the call that got its result last, unless a reply has followed."""
    return {
        "event": "outcome",
        "kind": outcome.kind,
        "message": outcome.message,
        "exit_code": outcome.exit_code,
        "path": str(chat.path),
        "slots": [slot_shape(slot, chat.runtime) for slot in outcome.slots],
        "cursor": position_shape(_cursor(chat, settled)),
        "usage": to_builtins(outcome.usage),
    }


def position_shape(position: Position | None) -> Shape | None:
    return None if position is None else {"line": position.line, "column": position.column}


def _cursor(chat: Chat, settled: str | None) -> Position | None:
    """The first block that waits; else, where a call was settled, what `chat.cursor_after_result` says."""
    from holdfast.chat.cursor import Position, after_result, first_pending
    from holdfast.chat.turns import starts

    document = chat.conversation.document
    waiting = first_pending(document)
    if waiting is not None or settled is None:
        return waiting
    stay = Position(0, 0)
    mode = chat.runtime.config.chat.cursor_after_result
    found = after_result(document, len(starts(document)) - 1, settled, mode, stay)
    return None if found == stay else found


def slot_shape(slot: Slot, runtime: Runtime) -> Shape:
    """A call without a result; `pending` is what a person is asked to approve."""
    held = None if slot.open is None else runtime.pending.ledger.held(slot.open.call_id)
    return {
        "id": slot.use.id,
        "tool": slot.use.name,
        "arguments": slot.use.arguments,
        "status": slot.status,
        "text": slot.text,
        "line": slot.line,
        "call_id": None if slot.open is None else slot.open.call_id,
        "preview": preview_of(slot, runtime),
        "pending": None if held is None else held_shape(held),
    }


def preview_of(slot: Slot, runtime: Runtime, width: int = 160) -> str:
    """One line: what a person was shown where the call is held, otherwise what its arguments say."""
    held = None if slot.open is None else runtime.pending.ledger.held(slot.open.call_id)
    return call_preview(slot.use.name, slot.use.arguments, runtime, width) if held is None else held.preview


def call_preview(name: str, arguments: str, runtime: Runtime, width: int = 160) -> str:
    from holdfast.contract.errors import HoldfastError
    from holdfast.contract.values import parse_json
    from holdfast.text.preview import preview
    from holdfast.text.visible import clip, visible

    tool = runtime.registry.find(name)
    try:
        args = parse_json(arguments)
    except HoldfastError:
        args = None
    if not isinstance(args, dict):
        return clip(visible(f"{name}: {arguments}"), width)
    return preview(name, args, width, None if tool is None else tool.format_preview)
