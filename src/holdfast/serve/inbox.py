"""The inbox: the pending calls of all projects as rows, grouped by shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from threading import Lock
from typing import Final
from urllib.parse import quote, urlencode

from markupsafe import Markup
from msgspec import Struct

from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.contract.json import Args, Json
from holdfast.rules.shapes import Group, group_by_shape
from holdfast.runtime.call_description import preview_text, stands_alone
from holdfast.serve.diff_view import diff_html
from holdfast.serve.projects import Projects, ServedProject
from holdfast.serve.proposal_view import (
    arguments_html,
    caller_html,
    masked_call,
    proposal_html,
    risk_html,
    touches_html,
    value_html,
)
from holdfast.serve.text_view import fold_html
from holdfast.store.process_identity import is_alive
from holdfast.store.redact import Redactor
from holdfast.text.pretty_json import pretty_json

FEWEST: Final = 3
"""Calls of the same shape that are shown as one group."""
MOST: Final = 20
"""Calls in a group: more cannot be looked through before one answer approves them all."""
MAX_ROWS: Final = 40
"""Rows of all groups that are shown whole. The other groups are shown whole on demand: a row can be long."""
MAX_GROUPED: Final = 16_000
"""Characters of a call in a group, whose rows show it whole. A larger call is a row, which shows it on demand."""
MAX_CACHED: Final = 8_000_000
"""Characters of all cached rows."""
_ROW_CHARS: Final = 500
"""About what a cached row takes beside its texts."""
_VALUE_CHARS: Final = 8
"""About what a value of the arguments takes beside its text."""
_TOKENS: Final = Redactor()


class RowParts(Struct, frozen=True, kw_only=True):
    """What the row of a call shows for as long as its digest is the same, with secrets masked.

    Arguments and proposals are not part of it, since they can be large.
    """

    tool: str
    agent: str | None
    preview: str
    approved_by: tuple[str, ...]
    risk: Markup
    caller: Markup
    touches: Markup

    @classmethod
    def of(cls, pending: PendingCall, redactor: Redactor) -> RowParts:
        shown = masked_call(pending, redactor)
        return cls(
            tool=shown.call.tool,
            agent=shown.call.caller.agent,
            preview=shown.preview,
            approved_by=shown.approved_by,
            risk=risk_html(None if shown.proposal is None else shown.proposal.risk),
            caller=caller_html(shown),
            touches=touches_html(shown),
        )

    @property
    def chars(self) -> int:
        texts = (self.tool, self.agent or "", self.preview, *self.approved_by, self.risk, self.caller, self.touches)
        return _ROW_CHARS + sum(map(len, texts))


class RowCache:
    """Keeps the parts of rows: a page lists the same calls again and again. Threads may share it."""

    def __init__(self, max_chars: int = MAX_CACHED) -> None:
        self._max_chars = max_chars
        self._parts: dict[tuple[object, ...], RowParts] = {}
        self._lock = Lock()
        self.chars = 0
        """The size of all that is kept."""

    def parts(self, project: ServedProject, pending: PendingCall) -> RowParts:
        redactor = redactor_of(project)
        call = pending.call
        version = (call.id, call.caller, pending.digest, pending.state, pending.held_at, pending.approved_by)
        key = (project.key, redactor, len(redactor.forms), version)
        with self._lock:
            found = self._parts.get(key)
        if found is None:
            found = RowParts.of(pending, redactor)
            self._keep(key, found)
        return found

    def _keep(self, key: tuple[object, ...], parts: RowParts) -> None:
        """Keep the parts in place of the oldest."""
        with self._lock:
            if key in self._parts or parts.chars > self._max_chars:
                return
            self._parts[key] = parts
            self.chars += parts.chars
            while self.chars > self._max_chars:
                self.chars -= self._parts.pop(next(iter(self._parts))).chars


_ROWS: Final = RowCache()


class CallView(Struct, frozen=True, kw_only=True, dict=True):
    """A pending call as the page shows it, with secrets masked."""

    project: ServedProject
    held: PendingCall
    """As it is in the ledger, with its secrets: not to be shown."""
    parts: RowParts
    waits: str
    """What waits for the answer: `a program`, `its document`, `nobody` or `a program that has ended`."""
    expires_at: float | None

    @classmethod
    def of(cls, project: ServedProject, pending: PendingCall) -> CallView:
        lifetime = project.expiry.lifetime_of(pending)
        expires = None if lifetime is None else pending.held_at + lifetime
        parts = _ROWS.parts(project, pending)
        return cls(project=project, held=pending, parts=parts, waits=_waits(pending), expires_at=expires)

    @cached_property
    def pending(self) -> PendingCall:
        """The whole call with secrets masked. A row shows only its parts, because masking a large call takes time."""
        return masked_call(self.held, redactor_of(self.project))

    @property
    def call_id(self) -> str:
        return self.held.call.id

    @property
    def digest(self) -> str:
        return self.held.digest

    @property
    def held_at(self) -> float:
        return self.held.held_at

    @property
    def approvals_needed(self) -> int:
        return self.held.approvals_needed

    @property
    def element(self) -> str:
        """The id of its element in the page."""
        return f"c-{self.project.key}-{self.call_id}"

    @property
    def address(self) -> str:
        return call_address(self.project.key, self.call_id)

    @property
    def is_pending(self) -> bool:
        return self.held.state is State.PENDING

    @property
    def risk(self) -> str | None:
        return None if self.held.proposal is None else self.held.proposal.risk

    @property
    def proposal(self) -> Markup:
        return proposal_html(self.pending, redactor=redactor_of(self.project))

    @property
    def arguments(self) -> str:
        """The arguments as JSON, to be edited."""
        return pretty_json(self.pending.call.args)


def redactor_of(project: ServedProject) -> Redactor:
    """What masks secrets in a project's calls: by value while its runtime is open, and always by form."""
    return project.redactor or _TOKENS


def call_address(project: str, call_id: str) -> str:
    return f"/calls/{project}/{quote(call_id, safe='')}"


def _waits(pending: PendingCall) -> str:
    if pending.waiter is not None:
        return "a program" if is_alive(pending.waiter) else "a program that has ended"
    return "nobody" if pending.call.caller.document is None else "its document"


class GroupView(Struct, frozen=True, kw_only=True):
    """Three or more calls of one caller with the same shape: what they share, and what differs as a table."""

    views: Sequence[CallView]
    names: Sequence[str] = ()
    """The places in the arguments that differ."""
    columns: Sequence[str] = ()
    """The arguments with a difference, which every row has; empty if the calls do not have the same arguments."""
    rows: Sequence[GroupRow] = ()
    """Empty if the group is only counted."""
    common: Markup = Markup("")
    """The arguments that are the same in all calls."""

    @property
    def address(self) -> str:
        """The inbox with this group shown whole."""
        return f"/?{urlencode({'group': self.first.call_id})}#{self.element}"

    @property
    def first(self) -> CallView:
        return self.views[0]

    @property
    def element(self) -> str:
        return f"g-{self.first.element}"


class GroupRow(Struct, frozen=True, kw_only=True):
    """One call of a group."""

    view: CallView
    differing: Sequence[tuple[str, Markup]]
    """The arguments with a difference and their values, whole."""
    proposal: Markup | None
    """What it would do, if the arguments do not show it: a diff, or a preview that says more."""


def grouped(views: Iterable[CallView], chosen: str = "") -> list[CallView | GroupView]:
    """Put calls of one caller with the same shape together, `MOST` at most, each group where its oldest call is.

    The oldest groups, and the one with the call `chosen`, are shown whole.
    """
    items: list[CallView | GroupView] = []
    by_project: dict[str, dict[str, CallView]] = {}
    for view in views:
        if view.held.definition_only or stands_alone(view.held) or _is_large(view.held):
            items.append(view)
        else:
            by_project.setdefault(view.project.key, {})[view.call_id] = view
    groups: list[list[CallView]] = []
    for by_call in by_project.values():
        for group in group_by_shape(view.held for view in by_call.values()):
            members = [by_call[pending.call.id] for pending in group.calls]
            if len(members) >= FEWEST:
                parts = -(-len(members) // MOST)
                ends = [part * len(members) // parts for part in range(parts + 1)]
                groups += [members[start:end] for start, end in pairwise(ends)]
            else:
                items += members
    groups.sort(key=lambda members: (all(view.call_id != chosen for view in members), members[0].held_at))
    rows = 0
    for members in groups:
        rows += len(members)
        items.append(_group(members) if rows <= MAX_ROWS else GroupView(views=members))
    return sorted(items, key=lambda item: (item if isinstance(item, CallView) else item.first).held_at)


def _is_large(pending: PendingCall) -> bool:
    """Whether the arguments and the preview have too many characters for a group."""
    chars = len(preview_text(pending))
    rest: list[tuple[Json, int]] = [(pending.call.args, 0)]
    while rest and chars <= MAX_GROUPED:
        value, depth = rest.pop()
        chars += _VALUE_CHARS + 2 * depth  # a nested value is indented
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, dict):
            chars += sum(map(len, value))
            rest.extend((inner, depth + 1) for inner in value.values())
        elif isinstance(value, list):
            rest.extend((inner, depth + 1) for inner in value)
    return chars > MAX_GROUPED


def _group(views: Sequence[CallView]) -> GroupView:
    """Show each call's differing arguments whole: a difference inside an argument must not hide the rest of it."""
    differing = Group(shape="", calls=tuple(view.pending for view in views)).differing
    redactor = redactor_of(views[0].project)
    given = views[0].pending.call.args
    # An empty path means that the calls do not even have the same names, so nothing is shared.
    whole = any(not each.path for each in differing)
    tops = {each.path[0] for each in differing if each.path}
    rows: list[GroupRow] = []
    for view in views:
        args = view.pending.call.args
        values: Args = args if whole else {name: args[name] for name in given if name in tops}
        shown = [(name, value_html(name, value, redactor=redactor)) for name, value in values.items()]
        proposal = None if _shown_by(view.pending, values) else _preview(view)
        rows.append(GroupRow(view=view, differing=shown, proposal=proposal))
    shared: Args = {} if whole else {n: value for n, value in given.items() if n not in tops and value is not None}
    return GroupView(
        views=views,
        names=[each.label for each in differing],
        columns=[] if whole else [name for name in given if name in tops],
        rows=rows,
        common=arguments_html(shared, redactor=redactor) if shared else Markup(""),
    )


def _preview(view: CallView) -> Markup:
    """The diff of a call that only changes files; the whole proposal of any other."""
    proposal = view.pending.proposal
    if proposal is None or proposal.preview_kind != "diff" or proposal.preview_cut:
        return view.proposal
    return fold_html("Diff", proposal.preview, diff_html(preview_text(view.pending)))


def _shown_by(pending: PendingCall, values: Args) -> bool:
    """Whether the preview of a call is one of these values, so that the value shows it."""
    preview = preview_text(pending)
    texts = [value for value in values.values() if isinstance(value, str)]
    return not preview or preview in texts or _added_text(pending) in texts


def _added_text(pending: PendingCall) -> str | None:
    """The content of a new file, if that is all that a call writes."""
    proposal = pending.proposal
    if proposal is None or proposal.preview_kind != "diff" or proposal.preview_cut:
        return None
    old, _, _, *lines = [*proposal.preview.removesuffix("\n").split("\n"), "", ""]
    added = lines[:-2]
    if old != "--- /dev/null" or not all(line.startswith("+") for line in added):
        return None
    return "".join(f"{line[1:]}\n" for line in added)


class Filters(Struct, frozen=True, kw_only=True):
    """What the inbox is narrowed to; an empty field narrows nothing."""

    project: str = ""
    agent: str = ""
    tool: str = ""
    risk: str = ""
    text: str = ""

    def keeps(self, view: CallView) -> bool:
        return (
            self.project in ("", view.project.key)
            and self.agent in ("", view.parts.agent)
            and self.tool in ("", view.parts.tool)
            and self.risk in ("", view.risk)
            and self.text.lower() in view.parts.preview.lower()
        )


def pending_views(projects: Projects, keep: Callable[[CallView], bool] = lambda _: True) -> list[CallView]:
    """The calls that wait for an answer, oldest first."""
    found = [
        CallView.of(project, pending)
        for project in projects
        for pending in project.ledger.pending()
        if pending.state is State.PENDING
    ]
    return sorted(filter(keep, found), key=lambda view: view.held_at)


class Choices(Struct, frozen=True, kw_only=True):
    """What the filters can be set to."""

    projects: list[tuple[str, str]]
    agents: list[str]
    tools: list[str]

    @classmethod
    def of(cls, views: Iterable[CallView]) -> Choices:
        kept = list(views)
        return cls(
            projects=sorted({(view.project.key, view.project.name) for view in kept}, key=lambda pair: pair[1]),
            agents=sorted({name for view in kept if (name := view.parts.agent) is not None}),
            tools=sorted({view.parts.tool for view in kept}),
        )
