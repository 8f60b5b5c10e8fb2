"""What the history shows about one call: its story, its changes with their diffs, its connections and nested calls."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import islice
from json import dumps
from typing import Final

from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import Call
from holdfast.contract.enums import State
from holdfast.contract.errors import UndoRefused
from holdfast.json_output import json_path
from holdfast.net.network_log import NETWORK_LOG, NetworkEntry, read_log
from holdfast.runtime.call_story import StoryLine, answerer, call_origin, call_story
from holdfast.runtime.undo.restore import TOOL as UNDO
from holdfast.runtime.undo.restore import (
    UndoPlan,
    check_plan,
    describe_calls,
    describe_counts,
    describe_state,
    diff_of,
    display_name,
    plan_digest,
)
from holdfast.serve.diff_view import diff_html
from holdfast.serve.history_query import HistoryRow, history_address
from holdfast.serve.inbox import call_address
from holdfast.serve.media import media_address
from holdfast.serve.projects import ServedProject
from holdfast.serve.proposal_view import arguments_html
from holdfast.serve.result_view import result_html
from holdfast.store.queries import CallRecord

_MAX_DIFFS: Final = 50
_MAX_DIFF_CHARS: Final = 400_000
"""Of all diffs on one page together; the paths of the others are listed without theirs."""
_MAX_PATHS: Final = 1000
_MAX_NESTED: Final = 200
_MAX_CONNECTIONS: Final = 200


class PathView(Struct, frozen=True, kw_only=True):
    """A path that a call changed, and what undo does to it."""

    name: str
    kind: str
    action: str
    now: str
    diff: Markup | None
    """None if there is no room for it on the page."""


class UndoView(Struct, frozen=True, kw_only=True):
    """The changes of a call as the page shows them."""

    plan: UndoPlan
    paths: list[PathView]
    digest: str
    words: str
    counts: str
    problem: str
    """Why it cannot be undone at all; empty if it can."""
    partial_only: bool
    """Whether only a part can be put back."""

    @property
    def more(self) -> int:
        """How many paths are not listed."""
        return len(self.plan.items) - len(self.paths)

    @property
    def without_diff(self) -> int:
        return sum(path.diff is None for path in self.paths)


def read_changes(project: ServedProject, call_id: str, *, back: bool) -> UndoView:
    """Plan the undo of a call, with the diff of what it did or, with `back`, of what undo does. Blocks."""
    plan = project.undo().plan(call_id)
    return UndoView(
        plan=plan,
        paths=_paths(project, plan, back=back),
        digest=plan_digest(plan),
        words=describe_calls(plan).rstrip(","),
        counts=describe_counts(plan),
        problem=_refusal(plan, partial=True),
        partial_only=bool(_refusal(plan, partial=False)),
    )


def _refusal(plan: UndoPlan, *, partial: bool) -> str:
    try:
        check_plan(plan, partial=partial)
    except UndoRefused as error:
        return str(error)
    return ""


def _paths(project: ServedProject, plan: UndoPlan, *, back: bool) -> list[PathView]:
    found: list[PathView] = []
    room = _MAX_DIFF_CHARS
    for number, item in enumerate(plan.items[:_MAX_PATHS]):
        name = json_path(display_name(item, project.folder))
        text = None
        if number < _MAX_DIFFS and room > 0 and (not back or item.action == "put_back"):
            text = diff_of(item, project.ledger.blobs, name, back=back)
            room -= len(text)
        empty = Markup("") if back and item.action != "put_back" else None
        found.append(
            PathView(
                name=name,
                kind=item.change.kind,
                action=item.action,
                now=json_path(describe_state(item)),
                diff=empty if text is None or room < 0 else diff_html(text) if text else Markup(""),
            )
        )
    return found


class CallPage(Struct, frozen=True, kw_only=True):
    """Everything that the page of one call shows."""

    project: ServedProject
    record: CallRecord
    origin: list[StoryLine]
    story: list[tuple[StoryLine, str]]
    """Each line with who authenticated, if it is an answer."""
    arguments: Markup
    original: Markup | None
    result: Markup | None
    changes: UndoView | None
    connections: list[NetworkEntry]
    nested: list[HistoryRow]
    command: str

    @property
    def address(self) -> str:
        return history_address(self.project.key, self.record.call.id)

    @property
    def is_open(self) -> bool:
        """Whether it waits for an answer or for a process that runs it."""
        return self.record.state in (State.PENDING, State.APPROVED)

    @property
    def card_address(self) -> str:
        return call_address(self.project.key, self.record.call.id)


def read_call(project: ServedProject, call_id: str) -> CallPage:
    """Read everything about one call. Blocks."""
    ledger = project.ledger
    record = ledger.call(call_id)
    result = record.result
    original = record.call.original or (record.original_args if isinstance(record.original_args, dict) else None)
    return CallPage(
        project=project,
        record=record,
        origin=list(call_origin(record)),
        story=list(_story(record)),
        arguments=arguments_html(record.call.args, redactor=ledger.redactor),
        original=None if original is None else arguments_html(original, redactor=ledger.redactor),
        result=None
        if result is None
        else result_html(
            result, media_url=lambda item: media_address(project.key, call_id, result.attachments.index(item))
        ),
        changes=_changes(project, call_id),
        connections=_connections(project, record),
        nested=[HistoryRow(project=project, record=found) for found in ledger.nested_calls(call_id, _MAX_NESTED)],
        command=reproduce_command(record.call, project),
    )


def _story(record: CallRecord) -> Iterator[tuple[StoryLine, str]]:
    answers = iter(record.answers)
    for line in call_story(record):
        if line.label != "answer":
            yield line, ""
            continue
        answer = next(answers).answer
        account = f", in the account {answer.user}" if answer.user and not answer.identity.startswith("os:") else ""
        text = f"{answer.kind} by {answerer(answer)}" + (f": {answer.message}" if answer.message else "")
        wide = f", and {answer.widen.description}" if answer.widen else ""
        yield replace(line, text=text + wide), f"authenticated as {answer.identity or 'unknown'}{account}"


def _changes(project: ServedProject, call_id: str) -> UndoView | None:
    try:
        found = read_changes(project, call_id, back=False)
    except UndoRefused:  # it still runs
        return None
    return found if found.plan.items else None


def _connections(project: ServedProject, record: CallRecord) -> list[NetworkEntry]:
    """The connections that the network log has for a call: it names the call after the tool."""
    wanted = f" {record.call.id}"
    found = (entry for entry in read_log(project.project.state / NETWORK_LOG) if entry is not None)
    return list(islice((entry for entry in found if entry.by.endswith(wanted)), _MAX_CONNECTIONS))


def reproduce_command(call: Call, project: ServedProject) -> str:
    """The command that makes the same call again, quoted for a POSIX shell."""
    if call.tool == UNDO:
        words = ["undo", str(call.args.get("call", ""))]
    else:
        args = call.original or call.args
        plain = dumps(args, ensure_ascii=False)
        # Characters that the page would show as escapes could not be copied; JSON has its own escapes for them.
        words = ["call", call.tool, plain if plain.isprintable() else dumps(args)]
    return shlex.join(["holdfast", "-C", str(project.folder), *words])
