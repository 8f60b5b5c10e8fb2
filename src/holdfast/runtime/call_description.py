"""What every interface says about a pending call: who asks, what it touches, under which conditions it runs.

The texts come from the call, the tool and the caller. Interfaces escape them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import asdict

from holdfast.contract.call import Caller, PendingCall
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.contract.widening import Widening, merge_widenings
from holdfast.rules.decider import CHANGED
from holdfast.rules.shell.analysis import analyze
from holdfast.text.diff_lines import FileChange, file_changes
from holdfast.text.preview import display_path

_MAX_COMMAND: Final = 4000
"""Characters of a command in which programs are looked for."""
_CALLER_FIELDS: Final = ("interface", "agent", "provider", "skill", "session")

Fact = tuple[str, str]
"""A label and its text."""


class Touches(Struct, frozen=True, kw_only=True):
    """What a call uses or changes, as far as its proposal and its tool say."""

    changes: tuple[FileChange, ...] = ()
    """The files of its diff."""
    paths: tuple[str, ...] = ()
    """Paths that it uses, if it has no diff."""
    programs: tuple[str, ...] = ()
    """Programs that its command names, in order."""
    other_programs: bool = False
    """Whether its command may run programs that it does not name."""
    hosts: tuple[str, ...] = ()
    sends: bool = False
    """Whether it may change something at its hosts."""

    def __bool__(self) -> bool:
        return bool(self.changes or self.paths or self.programs or self.other_programs or self.hosts)


def caller_facts(caller: Caller, cwd: str | None = None) -> Iterator[Fact]:
    """Yield who asks, from the interface to the document, which is relative to `cwd` if it is below it."""
    for kind in _CALLER_FIELDS:
        if (name := getattr(caller, kind)) is not None:
            yield kind, name
    if caller.document is not None:
        yield "document", display_path(caller.document, cwd)


def is_definition(pending: PendingCall) -> bool:
    """Whether the call asks to accept a changed definition. Approving accepts all of it, and its preview is escaped
    already."""
    return pending.decision.source == CHANGED


def preview_text(pending: PendingCall) -> str:
    """The tool's preview of what would be done; empty without a proposal."""
    return "" if pending.proposal is None else pending.proposal.preview.rstrip("\n")


def preview_label(pending: PendingCall) -> str:
    """What the preview is: a diff, what runs, or any other preview."""
    proposal = pending.proposal
    if proposal is not None and proposal.preview_kind == "diff":
        return "diff"
    around = None if proposal is None else proposal.surroundings
    return "runs" if around is not None and around.sandbox else "preview"


def run_conditions(pending: PendingCall) -> Iterator[Fact]:
    """Yield how a command would run: where, sandbox, undo, lasts."""
    around = None if pending.proposal is None else pending.proposal.surroundings
    if around is not None:
        yield from ((label, words) for label, words in asdict(around).items() if words)


def intentions(pending: PendingCall) -> Iterator[Fact]:
    """Yield the label that the model gave, and the summary if the preview does not contain it."""
    proposal = pending.proposal
    if proposal is None or not proposal.preview:
        return
    label = pending.call.args.get("label")
    if isinstance(label, str) and label.strip():
        yield "label", label
    if proposal.summary and proposal.summary not in proposal.preview:
        yield "does", proposal.summary


def bound_facts(pending: PendingCall) -> Iterator[Fact]:
    """Yield the files and the preconditions that an approval is bound to."""
    for file in pending.files:
        yield "file", f"{file.path} = {file.digest}"
    for fact in () if pending.proposal is None else pending.proposal.preconditions:
        yield "needs", f"{fact.kind} {fact.subject} = {fact.value}"


def arguments_beside_preview(pending: PendingCall) -> Args:
    """The arguments that the preview does not show; those that are null are left out."""
    preview = preview_text(pending)
    return {name: value for name, value in pending.call.args.items() if value not in (preview, None)}


def widening_of(pending: PendingCall) -> Widening:
    """The access beyond the sandbox policy that the call has, by rules or by its approval."""
    return merge_widenings((pending.call.widening, pending.widened))


def stands_alone(pending: PendingCall) -> bool:
    """Whether the call must be reviewed by itself, because an approval does more than run it or is not the only one."""
    return bool(pending.secrets or pending.approvals_needed > 1 or is_definition(pending) or widening_of(pending))


def touches(pending: PendingCall, tool: Tool | None = None) -> Touches:
    """Return what the call uses or changes. Without the tool only the proposal and the arguments tell."""
    args, proposal = pending.call.args, pending.proposal
    changes: tuple[FileChange, ...] = ()
    if proposal is not None and proposal.preview_kind == "diff" and not is_definition(pending):
        changes = tuple(file_changes(proposal.preview))
    command = args.get("command")
    programs, others = _programs(command) if isinstance(command, str) else ((), False)
    hosts, sends = _hosts(args, tool)
    return Touches(
        changes=changes,
        paths=() if changes else _paths(args, tool),
        programs=programs,
        other_programs=others,
        hosts=tuple(dict.fromkeys((*hosts, *widening_of(pending).hosts))),
        sends=sends,
    )


@lru_cache(1024)
def _programs(command: str) -> tuple[tuple[str, ...], bool]:
    if len(command) > _MAX_COMMAND:
        return (), True
    found = analyze(command)
    names = [part.words[0] for part in found.parts if part.kind == "command" and part.words]
    hidden = bool(found.unreadable or found.too_complex) or any(
        part.kind == "opaque" or part.may_run_anything for part in found.parts
    )
    return tuple(dict.fromkeys(name for name in names if name is not None)), hidden or None in names


def _hosts(args: Args, tool: Tool | None) -> tuple[tuple[str, ...], bool]:
    if tool is not None and tool.reaches is not None:
        try:
            reach = tool.reaches(args)
        except Exception:
            return (), True
        return reach.hosts, reach.sends
    url = args.get("url")
    try:
        host = urlsplit(url).hostname if isinstance(url, str) else None
    except ValueError:
        host = None
    return (() if host is None else (host,)), False


def _paths(args: Args, tool: Tool | None) -> tuple[str, ...]:
    if tool is not None and tool.touches is not None:
        try:
            return tuple(tool.touches(args))
        except Exception:
            return ()
    return tuple(value for name in ("path", "file_path") if isinstance(value := args.get(name), str))
