"""The story of a recorded call in words: who asked, what was decided and answered, and when it ran and ended.

The texts come from the call, its caller and the people who answered. Interfaces escape them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from holdfast.contract.call import Answer
from holdfast.contract.tool import Tool
from holdfast.rules.chain import source_name
from holdfast.store.queries import CallRecord
from holdfast.text.escape import clip
from holdfast.text.preview import preview
from holdfast.text.times import format_time


class StoryLine(Struct, frozen=True, kw_only=True):
    label: str
    text: str
    at: float | None = None
    """When it happened. A text that is only this time is its local form."""


def call_origin(record: CallRecord) -> Iterator[StoryLine]:
    """Yield what was called, its state now, and where it came from."""
    call = record.call
    yield StoryLine(label="tool", text=call.tool)
    yield StoryLine(label="state", text=record.state.replace("_", " "))
    yield StoryLine(
        label="caller", text=" ".join(word for word in (call.caller.interface, call.caller.agent or "") if word)
    )
    if call.caller.document is not None:
        yield StoryLine(label="document", text=call.caller.document)
    yield StoryLine(label="cwd", text=call.cwd)
    if call.parent is not None:
        yield StoryLine(label="parent", text=call.parent)


def call_story(record: CallRecord) -> Iterator[StoryLine]:
    """Yield what happened to the call: received, decisions, answers, start and end."""
    yield _moment("received", record.received_at)
    for decision in record.decisions:
        yield StoryLine(label="decided", text=f"{decision.verdict}: {decision.reason} ({source_name(decision.source)})")
    for given in record.answers:
        answer = given.answer
        message = f": {answer.message}" if answer.message else ""
        wide = f", and {answer.widen.description}" if answer.widen else ""
        text = f"{answer.kind} by {answerer(answer)} at {format_time(given.at)}{wide}{message}"
        yield StoryLine(label="answer", text=text, at=given.at)
    if record.began_at is not None:
        yield _moment("started", record.began_at)
    if record.ended_at is not None:
        yield _moment("ended", record.ended_at)


def _moment(label: str, at: float) -> StoryLine:
    return StoryLine(label=label, text=format_time(at), at=at)


def answerer(answer: Answer) -> str:
    """Return the name of who answered, with the identity that was authenticated if it is another."""
    same = answer.by.rpartition(":")[2] == answer.identity.partition(":")[2]
    return answer.by if same or not answer.identity else f"{answer.by} ({answer.identity})"


def record_preview(record: CallRecord, tool: Tool | None, width: int) -> str:
    """Return one line about the call: the tool's own preview, else the recorded one, else one made of the arguments."""
    if tool is None and record.preview:
        return clip(record.preview, width)
    return preview(record.call.name_used, record.call.args, width, None if tool is None else tool.format_preview)
