"""Pending calls on the terminal: how one is shown, which one an id means, and whether this user was shown it."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from holdfast.cli import console
from holdfast.cli.errors import Cancelled, UsageProblem
from holdfast.cli.layout import Quote, field_lines, label_line, quote, quoted_field_lines, wrap_sentence
from holdfast.cli.prompt import PromptDismissed, confirm, page
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError, NotPending, StaleApproval
from holdfast.contract.json import Args, parse_json
from holdfast.json_output import waits_for
from holdfast.rules.chain import reason_with_source
from holdfast.runtime.approvals import describe_changes
from holdfast.runtime.call_description import (
    arguments_beside_preview,
    bound_facts,
    caller_facts,
    intentions,
    is_definition,
    preview_label,
    preview_text,
    run_conditions,
)
from holdfast.runtime.results import approvals_so_far
from holdfast.store.ledger import Ledger
from holdfast.store.shown_calls import ShownCalls
from holdfast.text.escape import escape, escape_name, escape_once
from holdfast.text.preview import display_path, format_arguments
from holdfast.text.quote import EscapeLine
from holdfast.text.times import age

_MAX_DIFF: Final = 40
"""Lines of a diff in the short view."""
_MAX_LISTED: Final = 12
"""Lines of each call in a list."""
_MAX_SAID: Final = 8
"""Lines of a label, a reason or a name."""
_AROUND: Final = 16
"""Lines of the screen that the rest of the short view takes up."""
SHORT_DIGEST: Final = 12
"""Hexadecimal digits of a digest that are shown, and the fewest that `--digest` accepts."""
_RISK_COLOURS: Final = {"low": "green", "medium": "yellow", "high": "red"}
_DIFF_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}
_TITLES: Final = {
    "approval": "May {} run?",
    "result": "{} needs a result.",
    "program": "{} is approved and runs in the program that called it.",
}


class _Lines(NamedTuple):
    lines: list[str]
    whole: bool


def print_pending(pending: PendingCall, stream: TextIO, *, listed: bool = False, whole: bool = False) -> bool:
    """Print a pending call on `stream`; return whether everything it would do was shown.

    `listed` prints a few lines, `whole` everything an approval is bound to, and neither the short view.
    """
    view = PendingView(pending, stream)
    for line in view.listed() if listed else view.whole() if whole else view.short():
        console.print_line(line, stream)
    return whole or (view.list_is_whole if listed else view.short_is_whole)


class PendingView:
    """The lines about one pending call, safe to print on `stream`, in several lengths.

    Our own text precedes the untrusted text of the call, except in the details, which follow a view.
    """

    def __init__(self, pending: PendingCall, stream: TextIO | None = None, *, risk: str | None = None) -> None:
        self._pending = pending
        self._stream = sys.stderr if stream is None else stream
        self._risk = risk if pending.proposal is None else pending.proposal.risk

    def listed(self) -> list[str]:
        """A few lines, for a list."""
        return self._listed.lines

    @property
    def list_is_whole(self) -> bool:
        return self._listed.whole

    def short(self) -> list[str]:
        """What a person has to see before answering; only the middle of a long diff is hidden."""
        return self._short.lines

    @property
    def short_is_whole(self) -> bool:
        return self._short.whole

    def uncut(self) -> list[str]:
        """The short view with nothing hidden."""
        return self._shown(self._title(), None).lines

    def whole(self) -> list[str]:
        """Everything about the call."""
        return [*self._title(), *self._head(None), *self._bound_to(), *self._content()]

    @cached_property
    def _listed(self) -> _Lines:
        call, needed = self._pending.call, waits_for(self._pending)
        first = f"{escape_name(call.id)}  {escape_name(call.tool)} waits for {needed}, {age(self._pending.held_at)}"
        return self._shown(wrap_sentence(first, self._stream, "bold"), _MAX_LISTED)

    @cached_property
    def _short(self) -> _Lines:
        return self._shown(self._title(), self._room if self._is_diff else None)

    def details(self) -> list[str]:
        """Everything an approval is bound to, with nothing hidden, starting with the arguments."""
        preview = [] if self._preview in self._pending.call.args.values() else self._preview_lines(None).lines
        return [*self._arguments(None).lines, *preview, *self._bound_to()]

    def _content(self) -> list[str]:
        if not self._preview:
            return self._arguments(None).lines
        left = arguments_beside_preview(self._pending)
        shown = self._quoted_arguments(left, None).lines if left or not self._pending.call.args else []
        return [*shown, *self._preview_lines(None).lines]

    def _bound_to(self) -> list[str]:
        pending, call = self._pending, self._pending.call
        lines = [
            *self._own("call", escape_name(call.id)),
            *self._own("tool", f"{escape_name(call.tool)} (definition {escape_name(pending.definition_digest)})"),
            *self._field("cwd", call.cwd),
            *self._own("digest", escape_name(pending.digest)),
        ]
        for label, text in bound_facts(pending):
            lines += self._field(label, text)
        return lines

    def _shown(self, title: Iterator[str], limit: int | None) -> _Lines:
        lines = [*title, *self._head(_MAX_SAID), *self._own("digest", self._digest)]
        if not self._preview:
            arguments = self._arguments(limit)
            return _Lines([*lines, *arguments.lines], whole=not arguments.hidden)
        preview = self._preview_lines(limit)
        proposal = self._pending.proposal
        cut = proposal is not None and proposal.preview_cut
        if self._is_definition or (cut and limit is None):
            arguments = self._arguments(limit)
            whole = not arguments.hidden and not preview.hidden
            return _Lines([*lines, *arguments.lines, *preview.lines], whole=whole)
        return _Lines([*lines, *preview.lines], whole=not cut and not preview.hidden)

    def _title(self) -> Iterator[str]:
        call = self._pending.call
        other = f" (called as {escape_name(call.name_used)})" if call.name_used not in (call.tool, "") else ""
        title = _TITLES[waits_for(self._pending)].format(escape_name(call.tool))
        return wrap_sentence(title + other, self._stream, "bold")

    def _head(self, limit: int | None) -> Iterator[str]:
        """The facts that holdfast knows, and the label and summary of the call, which are cut: they do not run."""
        pending = self._pending
        yield from self._field("asks", ", ".join(self._caller_words()), limit)
        if not pending.definition_only:
            yield from self._field("why", reason_with_source(pending.decision), limit)
        if pending.approvals_needed > 1 and pending.state is State.PENDING:
            names = f" (approved by {', '.join(pending.approved_by)})" if pending.approved_by else ""
            yield from self._field("people", f"{approvals_so_far(pending)}{names}", limit)
        if self._risk is not None:
            yield from self._own("risk", escape_name(self._risk), _RISK_COLOURS.get(self._risk, "yellow"))
        for label, words in run_conditions(pending):
            yield from self._field(label, words)
        for label, words in intentions(pending):
            yield from self._field(label, words, limit)

    def _caller_words(self) -> Iterator[str]:
        for kind, name in caller_facts(self._pending.call.caller, str(Path.cwd())):
            yield name if kind == "interface" else f"{kind} {name}"

    @property
    def _is_diff(self) -> bool:
        """Whether the preview is a diff that may be cut. A changed definition may not: approving accepts all of it."""
        proposal = self._pending.proposal
        return proposal is not None and proposal.preview_kind == "diff" and not self._is_definition

    @property
    def _room(self) -> int:
        """Lines of a diff that fit on the screen with the rest of the view."""
        if not self._stream.isatty():
            return _MAX_DIFF
        return max(_MAX_LISTED, min(_MAX_DIFF, console.screen_height(self._stream) - _AROUND))

    @property
    def _is_definition(self) -> bool:
        return is_definition(self._pending)

    @property
    def _preview(self) -> str:
        return preview_text(self._pending)

    def _preview_lines(self, limit: int | None) -> Quote:
        """The tool's preview of what would be done."""
        label = preview_label(self._pending)
        show: EscapeLine | None = escape_once if self._is_definition else None  # it is escaped already
        style = diff_style if label == "diff" else None
        return self._labelled(label, quote(self._preview, self._stream, limit, style=style, show=show, more=self._more))

    def _arguments(self, limit: int | None) -> Quote:
        return self._quoted_arguments(self._pending.call.args, limit)

    def _quoted_arguments(self, args: Args, limit: int | None) -> Quote:
        return self._labelled("with", quote(format_arguments(args), self._stream, limit, more=self._more))

    def _labelled(self, label: str, shown: Quote) -> Quote:
        """Put a label before the untrusted text, since other untrusted text may stand above it."""
        return Quote([label_line(label, self._stream), *shown.lines], shown.hidden)

    @property
    def _digest(self) -> str:
        return escape_name(self._pending.digest[:SHORT_DIGEST])

    @property
    def _more(self) -> str:
        return f"`holdfast pending {escape_name(self._pending.call.id)}` shows all"

    def _own(self, label: str, text: str, *styles: str) -> Iterator[str]:
        return field_lines(label, text, self._stream, *styles)

    def _field(self, label: str, text: str, limit: int | None = None) -> Iterator[str]:
        return quoted_field_lines(label, text, self._stream, limit)


def diff_style(line: str, number: int) -> tuple[str, ...]:
    """Return the styles of a line of a diff; the first two lines name the files."""
    if number < 2 and line.startswith(("+++ ", "--- ")):
        return ("bold",)
    colour = _DIFF_COLOURS.get(line[:1])
    return () if colour is None else (colour,)


def tool_use_lines(tool: str, arguments: str, stream: TextIO) -> Iterator[str]:
    """Yield a few lines about a call as the model wrote it."""
    try:
        args = parse_json(arguments)
    except HoldfastError:
        args = None
    text = format_arguments(args) if isinstance(args, dict) else arguments
    yield from quoted_field_lines("tool", tool, stream)
    yield label_line("with", stream)
    yield from quote(text, stream, _MAX_LISTED, more="see the document for all of it", brief=True).lines


_DIGEST: Final = re.compile(rf"[0-9a-f]{{{SHORT_DIGEST},64}}")
_NAMED: Final = 5


def find_pending(ledger: Ledger, given: str) -> PendingCall:
    """Return the pending call with this id; otherwise raise an error that says how the call ended."""
    call_id = ledger.find(given)
    pending = ledger.find_pending(call_id)
    if pending is not None and pending.state in (State.PENDING, State.APPROVED):
        return pending
    state = ledger.call(call_id).state.replace("_", " ")
    raise NotPending(
        f"Call {call_id} is not pending: it is {state}. `holdfast ledger show {call_id}` shows its history."
    )


def origin(pending: PendingCall) -> str:
    """Return where a call comes from: the document, the agent, or the program."""
    caller = pending.call.caller
    if caller.document is not None:
        return f"document {display_path(caller.document, str(Path.cwd()))}"
    if caller.agent is not None:
        return f"agent {caller.agent} ({caller.interface})"
    running = "" if pending.waiter is None else f", process {pending.waiter.pid}"
    names = {"cli": "command line", "python": "Python program"}
    return f"{names.get(caller.interface, caller.interface)}{running}"


def group_identical(calls: Sequence[PendingCall]) -> list[list[PendingCall]]:
    """Group the calls that have the same origin and the same digest, oldest first."""
    groups: dict[tuple[str, str], list[PendingCall]] = {}
    for pending in calls:
        groups.setdefault((origin(pending), pending.digest), []).append(pending)
    return list(groups.values())


def require_single_pending(ledger: Ledger, command: str) -> PendingCall:
    """Return the only pending call; otherwise raise an error that names the pending ones."""
    calls = [pending for pending in ledger.pending() if pending.state is State.PENDING]
    if len(calls) == 1:
        return calls[0]
    if not calls:
        raise NotPending("Nothing is pending.")
    ids = ", ".join(pending.call.id for pending in calls[:_NAMED])
    more = f" and {len(calls) - _NAMED:,} more" if len(calls) > _NAMED else ""
    raise UsageProblem(f"{len(calls):,} calls are pending: {ids}{more}. Use `holdfast {command} ID`, or --all.")


def record_shown(state: Path | None, calls: Sequence[PendingCall]) -> None:
    """Record that this user was shown all of these calls: `holdfast approve ID` approves them as they are now."""
    if state is not None and state.exists():
        shown = ShownCalls(state)
        for pending in calls:
            shown.record(pending)


def was_shown(ledger: Ledger, pending: PendingCall, digest: str | None) -> bool:
    """Return whether the person named the call's digest or was shown it as it is now.

    Otherwise return False if they can be asked, and raise if they cannot, or if the call changed since.
    """
    if digest is not None:
        if not _DIGEST.fullmatch(digest):
            raise UsageProblem(
                f"--digest needs at least {SHORT_DIGEST} hexadecimal digits. `holdfast pending` shows them."
            )
        if not pending.digest.startswith(digest):
            raise _changed(ledger, pending, digest)
        return True
    shown = ShownCalls(ledger.path.parent).digest(pending.call.id)
    if shown == pending.digest:
        return True
    if shown is not None:
        raise _changed(ledger, pending, shown)
    if not console.can_ask():
        raise UsageProblem(
            f"You have not seen call {pending.call.id} yet. Review it with `holdfast pending {pending.call.id}`, "
            "or name it with --digest."
        )
    return False


def print_unreadable(calls: Sequence[str]) -> None:
    """Name the calls that cannot be listed because their record is damaged."""
    if calls:
        shown = ", ".join(escape(call_id) for call_id in calls[:_NAMED])
        more = f" and {len(calls) - _NAMED:,} more" if len(calls) > _NAMED else ""
        console.print_err(
            f"Not listed, because the record cannot be read: call {shown}{more}. `holdfast doctor` says what to do."
        )


def _changed(ledger: Ledger, pending: PendingCall, digest: str) -> StaleApproval:
    call_id = pending.call.id
    before = ledger.pending_version(call_id, digest)
    if before is None:
        return StaleApproval(f"Call {call_id} never had that digest. Review it with `holdfast pending {call_id}`.")
    return StaleApproval(
        f"Call {call_id} changed since you saw it: {describe_changes(before, pending)}. "
        f"Review it again with `holdfast pending {call_id}`."
    )


async def review(pending: PendingCall) -> bool:
    """Show all of a call, a screenful at a time, and return whether the person approves it."""
    return await _show_and_confirm(PendingView(pending).whole(), "Approve this? [y/N] ")


async def review_all(calls: Sequence[PendingCall]) -> bool:
    """Show several calls and return whether the person approves all of them; there is no partial approval."""
    lines = [line for pending in calls for line in (*PendingView(pending).whole(), "")]
    what = "this" if len(calls) == 1 else f"all {len(calls):,}"
    return await _show_and_confirm(lines, f"Approve {what}? [y/N] ")


async def _show_and_confirm(lines: Sequence[str], question: str) -> bool:
    try:
        await page(lines)
        return await confirm(question)
    except PromptDismissed:
        return False
    except asyncio.CancelledError:
        console.print_err()
        raise Cancelled from None
