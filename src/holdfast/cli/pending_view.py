"""A pending call as a person sees it before answering, which one is meant, and whether this user was shown it."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from msgspec.structs import asdict

from holdfast.cli import console
from holdfast.cli.errors import Cancelled, UsageProblem
from holdfast.cli.json_output import waits_for
from holdfast.cli.prompt import Leave, confirmed, page
from holdfast.cli.wrap import Quote, label_line, own_field, quote, quoted_field, sentence
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError, NotPending, StaleApproval
from holdfast.contract.json import parse_json
from holdfast.rules.chain import why
from holdfast.rules.decider import CHANGED
from holdfast.runtime.approvals import what_changed
from holdfast.store.ledger import Ledger
from holdfast.store.trust import Shown
from holdfast.text.escape import escape, escape_name
from holdfast.text.preview import arguments_text, display_path
from holdfast.text.quote import Show

_MAX_DIFF: Final = 40
"""Lines of a diff that are shown until all of it is asked for."""
_MAX_LISTED: Final = 12
"""Lines of each call in a list."""
_MAX_SAID: Final = 8
"""Lines of a label, a reason or a name."""
_AROUND: Final = 16
"""Lines of a screen that are not the diff."""
SHORT_DIGEST: Final = 12
"""Hexadecimal digits of a digest that people are shown, and the fewest they may give."""
_RISK_COLOURS: Final = {"low": "green", "medium": "yellow", "high": "red"}
_DIFF_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}
_WAITS: Final = {
    "approval": "May {} run?",
    "result": "{} waits for its result.",
    "program": "{} is approved and waits for the program that runs it.",
}


class _Shown(NamedTuple):
    lines: list[str]
    whole: bool


def show_held(held: PendingCall, stream: TextIO, *, listed: bool = False, whole: bool = False) -> bool:
    """Print a pending call on `stream`, without a pause; whether all that it would do was shown.

    `listed`: in a few lines. `whole`: with everything an approval is bound to. Otherwise what a person has to see.
    """
    view = HeldView(held, stream)
    for line in view.listed() if listed else view.whole() if whole else view.short():
        console.put_line(line, stream)
    return whole or (view.list_is_whole if listed else view.short_is_whole)


class HeldView:
    """Lines about one pending call, safe to print on `stream`. Words of ours stand before the call, except in the
    details, which follow it."""

    def __init__(self, held: PendingCall, stream: TextIO | None = None, *, risk: str | None = None) -> None:
        self._held = held
        self._stream = sys.stderr if stream is None else stream
        self._risk = risk if held.proposal is None else held.proposal.risk

    def listed(self) -> list[str]:
        """A few lines, for a list."""
        return self._listed.lines

    @property
    def list_is_whole(self) -> bool:
        return self._listed.whole

    def short(self) -> list[str]:
        """What a person has to see in any case. Only the middle of a diff is left out of it."""
        return self._short.lines

    @property
    def short_is_whole(self) -> bool:
        return self._short.whole

    def uncut(self) -> list[str]:
        """The same with nothing left out."""
        return self._shown(self._title(), None).lines

    def whole(self) -> list[str]:
        """All there is to know."""
        return [*self._title(), *self._head(None), *self._bound_to(), *self._content()]

    @cached_property
    def _listed(self) -> _Shown:
        call, waits = self._held.call, waits_for(self._held)
        first = f"{escape_name(call.id)}  {escape_name(call.tool)} waits for {waits}, {age(self._held.held_at)}"
        return self._shown(sentence(first, self._stream, "bold"), _MAX_LISTED)

    @cached_property
    def _short(self) -> _Shown:
        return self._shown(self._title(), self._room if self._is_diff else None)

    def details(self) -> list[str]:
        """Everything an approval is bound to, nothing cut; what a person asks for first, the arguments, first."""
        preview = [] if self._preview in self._held.call.args.values() else self._would(None).lines
        return [*self._arguments(None).lines, *preview, *self._bound_to()]

    def _content(self) -> list[str]:
        if not self._preview:
            return self._arguments(None).lines
        return [*self._arguments(None, but=self._preview).lines, *self._would(None).lines]

    def _bound_to(self) -> list[str]:
        held, call = self._held, self._held.call
        lines = [
            *self._own("call", escape_name(call.id)),
            *self._own("tool", f"{escape_name(call.tool)} (definition {escape_name(held.definition_digest)})"),
            *self._field("cwd", call.cwd),
            *self._own("digest", escape_name(held.digest)),
        ]
        for file in held.files:
            lines += self._field("file", f"{file.path} = {file.digest}")
        proposal = held.proposal
        for fact in () if proposal is None else proposal.preconditions:
            lines += self._field("needs", f"{fact.kind} {fact.subject} = {fact.value}")
        return lines

    def _shown(self, title: Iterator[str], limit: int | None) -> _Shown:
        lines = [*title, *self._head(_MAX_SAID), *self._own("digest", self._digest)]
        if not self._preview:
            arguments = self._arguments(limit)
            return _Shown([*lines, *arguments.lines], whole=not arguments.hidden)
        would = self._would(limit)
        proposal = self._held.proposal
        cut = proposal is not None and proposal.preview_cut
        if self._is_definition or (cut and limit is None):
            arguments = self._arguments(limit)
            whole = not arguments.hidden and not would.hidden
            return _Shown([*lines, *arguments.lines, *would.lines], whole=whole)
        return _Shown([*lines, *would.lines], whole=not cut and not would.hidden)

    def _title(self) -> Iterator[str]:
        call = self._held.call
        other = f" (asked for as {escape_name(call.name_used)})" if call.name_used not in (call.tool, "") else ""
        title = _WAITS[waits_for(self._held)].format(escape_name(call.tool))
        return sentence(title + other, self._stream, "bold")

    def _head(self, limit: int | None) -> Iterator[str]:
        """What holdfast knows, and the words that others give for the call, which are cut: they are not what runs."""
        held = self._held
        yield from self._field("asks", ", ".join(self._caller_words()), limit)
        if not held.definition_only:
            yield from self._field("why", why(held.decision), limit)
        if self._risk is not None:
            yield from self._own("risk", escape_name(self._risk), _RISK_COLOURS.get(self._risk, "yellow"))
        proposal = held.proposal
        around = None if proposal is None else proposal.surroundings
        if around is not None:
            for label, words in asdict(around).items():
                yield from self._field(label, words) if words else ()
        if proposal is None or not proposal.preview:
            return
        label = held.call.args.get("label")
        if isinstance(label, str) and label.strip():
            yield from self._field("label", label, limit)
        if proposal.summary and proposal.summary not in proposal.preview:
            yield from self._field("does", proposal.summary, limit)

    def _caller_words(self) -> Iterator[str]:
        caller = self._held.call.caller
        yield caller.interface
        for kind in ("agent", "provider", "skill", "session"):
            if (name := getattr(caller, kind)) is not None:
                yield f"{kind} {name}"
        if caller.document is not None:
            yield f"document {display_path(caller.document, str(Path.cwd()))}"

    @property
    def _is_diff(self) -> bool:
        """Whether it may be cut. The difference of a definition never is: a yes to it is a yes to all of it."""
        proposal = self._held.proposal
        return proposal is not None and proposal.preview_kind == "diff" and not self._is_definition

    @property
    def _room(self) -> int:
        """Lines of a diff that fit on the screen with what stands above and below."""
        if not self._stream.isatty():
            return _MAX_DIFF
        return max(_MAX_LISTED, min(_MAX_DIFF, console.screen_height(self._stream) - _AROUND))

    @property
    def _is_definition(self) -> bool:
        return self._held.decision.source == CHANGED

    @property
    def _preview(self) -> str:
        proposal = self._held.proposal
        return "" if proposal is None else proposal.preview.rstrip("\n")

    def _would(self, limit: int | None) -> Quote:
        """What would be done, in the words of the tool."""
        proposal = self._held.proposal
        assert proposal is not None
        is_diff, around = proposal.preview_kind == "diff", proposal.surroundings
        label = "diff" if is_diff else "runs" if around is not None and around.sandbox else "preview"
        show: Show | None = console.shown if self._is_definition else None  # made visible where it was made
        style = diff_style if is_diff else None
        return self._labelled(label, quote(self._preview, self._stream, limit, style=style, show=show, more=self._more))

    def _arguments(self, limit: int | None, *, but: str | None = None) -> Quote:
        """The arguments, without one that is shown already; nothing where none is left."""
        args = self._held.call.args
        left = {name: value for name, value in args.items() if value != but}
        if args and not left:
            return Quote([], 0)
        return self._labelled("with", quote(arguments_text(left), self._stream, limit, more=self._more))

    def _labelled(self, label: str, shown: Quote) -> Quote:
        """A label stands before every text of others, since another may stand above it."""
        return Quote([label_line(label, self._stream), *shown.lines], shown.hidden)

    @property
    def _digest(self) -> str:
        return escape_name(self._held.digest[:SHORT_DIGEST])

    @property
    def _more(self) -> str:
        return f"`holdfast pending {escape_name(self._held.call.id)}` shows all"

    def _own(self, label: str, text: str, *styles: str) -> Iterator[str]:
        return own_field(label, text, self._stream, *styles)

    def _field(self, label: str, text: str, limit: int | None = None) -> Iterator[str]:
        return quoted_field(label, text, self._stream, limit)


def age(since: float, now: float | None = None) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(0, int((time.time() if now is None else now) - since))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def diff_style(line: str, place: int) -> tuple[str, ...]:
    """How a line of a diff is painted; the first two name the files."""
    if place < 2 and line.startswith(("+++ ", "--- ")):
        return ("bold",)
    colour = _DIFF_COLOURS.get(line[:1])
    return () if colour is None else (colour,)


def given_lines(tool: str, arguments: str, stream: TextIO) -> Iterator[str]:
    """A call as a model gave it, in a few lines."""
    try:
        args = parse_json(arguments)
    except HoldfastError:
        args = None
    text = arguments_text(args) if isinstance(args, dict) else arguments
    yield from quoted_field("tool", tool, stream)
    yield label_line("with", stream)
    yield from quote(text, stream, _MAX_LISTED, more="the document has all", brief=True).lines


_DIGEST: Final = re.compile(rf"[0-9a-f]{{{SHORT_DIGEST},64}}")
_NAMED: Final = 5


def find_held(ledger: Ledger, given: str) -> PendingCall:
    """The waiting call that is meant; otherwise an error that says what there is instead."""
    call_id = ledger.find(given)
    held = ledger.held(call_id)
    if held is not None and held.state in (State.PENDING, State.APPROVED):
        return held
    state = ledger.call(call_id).state.replace("_", " ")
    raise NotPending(
        f"Call {call_id} is {state}: it does not wait for an answer; `holdfast ledger show {call_id}` has its story."
    )


def origin(held: PendingCall) -> str:
    """Where a call comes from, as a person knows it: the document, the agent, or the program."""
    caller = held.call.caller
    if caller.document is not None:
        return f"document {display_path(caller.document, str(Path.cwd()))}"
    if caller.agent is not None:
        return f"agent {caller.agent} ({caller.interface})"
    running = "" if held.waiter is None else f", process {held.waiter.pid}"
    names = {"cli": "command line", "python": "Python program"}
    return f"{names.get(caller.interface, caller.interface)}{running}"


def grouped(calls: Sequence[PendingCall]) -> list[list[PendingCall]]:
    """Calls with the same origin that an approval could not tell apart, oldest first."""
    groups: dict[tuple[str, str], list[PendingCall]] = {}
    for held in calls:
        groups.setdefault((origin(held), held.digest), []).append(held)
    return list(groups.values())


def only_held(ledger: Ledger, command: str) -> PendingCall:
    """The one call that is pending; otherwise an error that names those that are."""
    waiting = [held for held in ledger.pending() if held.state is State.PENDING]
    if len(waiting) == 1:
        return waiting[0]
    if not waiting:
        raise NotPending("Nothing is pending.")
    ids = ", ".join(held.call.id for held in waiting[:_NAMED])
    more = f" and {len(waiting) - _NAMED:,} more" if len(waiting) > _NAMED else ""
    raise UsageProblem(f"{len(waiting):,} calls are pending: {ids}{more}. Use `holdfast {command} ID`, or --all.")


def note_shown(state: Path | None, calls: Sequence[PendingCall]) -> None:
    """This user has just been shown all of these calls: `holdfast approve ID` is an approval of what they are now."""
    if state is not None and state.exists():
        shown = Shown(state)
        for held in calls:
            shown.record(held)


def was_shown(ledger: Ledger, held: PendingCall, digest: str | None) -> bool:
    """Whether the person knows this call as it is: they named its digest, or were shown it. If not, they can be asked.

    Raises where nobody can know what they would agree to.
    """
    if digest is not None:
        if not _DIGEST.fullmatch(digest):
            raise UsageProblem(f"A digest has at least {SHORT_DIGEST} hexadecimal digits; `holdfast pending` shows it.")
        if not held.digest.startswith(digest):
            raise _changed(ledger, held, digest)
        return True
    shown = Shown(ledger.path.parent).digest(held.call.id)
    if shown == held.digest:
        return True
    if shown is not None:
        raise _changed(ledger, held, shown)
    if not console.can_ask():
        raise UsageProblem(
            f"You were not shown call {held.call.id} yet: look at it with `holdfast pending {held.call.id}`, "
            "or name what you approve with --digest."
        )
    return False


def note_unreadable(calls: Sequence[str]) -> None:
    """What cannot be listed, because its record is damaged, is at least named."""
    if calls:
        shown = ", ".join(escape(call_id) for call_id in calls[:_NAMED])
        more = f" and {len(calls) - _NAMED:,} more" if len(calls) > _NAMED else ""
        console.note(f"Not shown, because it cannot be read: call {shown}{more}; `holdfast doctor` says what to do.")


def _changed(ledger: Ledger, held: PendingCall, digest: str) -> StaleApproval:
    call_id = held.call.id
    before = ledger.shown_as(call_id, digest)
    if before is None:
        return StaleApproval(f"Call {call_id} never had that digest; look at it with `holdfast pending {call_id}`.")
    return StaleApproval(
        f"Call {call_id} is not what you were shown: {what_changed(before, held)} changed since; "
        f"look at it again with `holdfast pending {call_id}`."
    )


async def review(held: PendingCall) -> bool:
    """Show all of a call, a screenful at a time, and ask whether to approve it."""
    return await _reviewed(HeldView(held).whole(), "Approve this? [y/N] ")


async def review_all(calls: Sequence[PendingCall]) -> bool:
    """The same for several calls, which are approved together or not at all."""
    lines = [line for held in calls for line in (*HeldView(held).whole(), "")]
    what = "this" if len(calls) == 1 else f"all {len(calls):,}"
    return await _reviewed(lines, f"Approve {what}? [y/N] ")


async def _reviewed(lines: Sequence[str], question: str) -> bool:
    try:
        await page(lines)
        return await confirmed(question)
    except Leave:
        return False
    except asyncio.CancelledError:
        console.note()
        raise Cancelled from None
