"""`holdfast approve`: approve a pending call, as it was shown or as `--digest` names it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Literal

import click

from holdfast.cli import console
from holdfast.cli.answers import (
    Always,
    by_option,
    deliver_answer,
    find_by_id,
    optional_id_argument,
    project_option,
    review_or_dismiss,
)
from holdfast.cli.approval_prompt import absolute_paths
from holdfast.cli.arguments import parse_object
from holdfast.cli.call_runner import show_result
from holdfast.cli.errors import PENDING, UsageProblem
from holdfast.cli.pending_view import record_shown, require_single_pending, review_all, was_shown
from holdfast.cli.project_context import Flags, read_ledger, whoami
from holdfast.cli.projects import ProjectScope, each_project, enter_project
from holdfast.cli.prompt import PromptDismissed
from holdfast.cli.root import with_flags, with_save
from holdfast.contract.call import Answer
from holdfast.contract.enums import State
from holdfast.contract.errors import NotPending
from holdfast.contract.widening import Widening
from holdfast.text.escape import escape_name
from holdfast.text.times import parse_duration


@click.command()
@optional_id_argument
@click.option("--all", "every", is_flag=True, help="Approve every pending call, after showing all of them.")
@click.option("--args", "new_args", metavar="JSON", help="Approve it with these arguments instead (- reads stdin).")
@click.option("--digest", metavar="DIGEST", help="Approve the call with this digest: 12 or more of its digits.")
@click.option("--always", type=click.Choice(["project", "user"]), help="Also allow this exact call from now on.")
@click.option("--for", "lifetime", metavar="DURATION", help="With --always: only for this long (8h, 30d).")
@click.option("--host", "hosts", metavar="HOST", multiple=True, help="Let this call reach a host by HTTP and HTTPS.")
@click.option("--network", is_flag=True, help="Let this call reach every host.")
@click.option("--read", metavar="PATH", multiple=True, help="Let this call read a path that the sandbox hides.")
@click.option("--write", metavar="PATH", multiple=True, help="Let this call change files in another folder.")
@click.option("--no-sandbox", "outside", is_flag=True, help="Run this call without a sandbox.")
@with_save
@project_option
@by_option
@with_flags
def approve(
    flags: Flags,
    call_id: str | None,
    every: bool,
    new_args: str | None,
    digest: str | None,
    always: Literal["project", "user"] | None,
    lifetime: str | None,
    save: str | None,
    project: ProjectScope,
    by: str | None,
    as_json: bool,
    **wider: Any,
) -> int:
    """Approve a pending call and run it.

    Without ID: the only pending call. ID may be shortened to the part before its
    dash if that is unique. You approve the call as it was last shown to you in
    full, or as --digest names it. If it has changed since, nothing is approved
    and the exit code is 4. On a terminal, a call you have not seen is shown first.
    A call of another project (--project all) runs under that project's rules.

    The call runs at once if its tool is available here and no other process waits
    to run it; the exit code is that of its result. A call of a document runs when
    the document advances: with `holdfast chat FILE`, or automatically where
    --watch is on. Until then the exit code is 4.

    --host, --network, --read, --write and --no-sandbox widen the sandbox for this
    call only. The call is shown with its new limits first; on a terminal you
    confirm again. To widen a command every time, write a rule with `network`,
    `read` or `write` (approval.commands).

    --always creates a grant, which also approves the other pending calls that it
    covers. `holdfast grants` lists and revokes grants.

    \b
    Example:
      holdfast approve 3f2a
      holdfast approve 3f2a --always project --for 8h
      holdfast approve 3f2a --host pypi.org
    """
    if every:
        about_one = (call_id, new_args, digest, always, lifetime)
        if any(given is not None for given in about_one) or any(wider.values()):
            raise UsageProblem("--all cannot be combined with options that are about one call.")
        codes = (_approve_all(flags, by, save, as_json=as_json) for _ in each_project(flags, project))
        return max(codes, default=PENDING)
    args = None if new_args is None else parse_object(new_args, "--args")
    widen = _widening(**wider)
    if widen and always is not None:
        raise UsageProblem(
            "--always cannot remember a wider sandbox. Write a rule with network, read or write (approval.commands)."
        )
    grant = _grant(always, lifetime)
    answer = Answer(kind="approve" if args is None else "edit", by=whoami(by), args=args, widen=widen or None)
    if project == "all":
        enter_project(flags, call_id, "approve")
    with read_ledger(flags, expire=True) as ledger:
        if call_id is None:
            pending = require_single_pending(ledger, "approve")
        else:
            pending = find_by_id(flags, ledger, call_id, "approve")
        state = ledger.path.parent
        unseen = not pending.definition_only and not was_shown(ledger, pending, digest)
    try:
        if unseen and not widen:
            asyncio.run(review_or_dismiss(pending))
            record_shown(state, [pending])
        result, now, shown = deliver_answer(flags, pending, answer, quiet=as_json or unseen, always=grant)
    except PromptDismissed:
        console.print_err(f"Call {escape_name(pending.call.id)} is still pending.")
        return PENDING
    seen = now is not None and now.digest == shown
    return show_result(result, now, as_json=as_json, state=state, seen=seen, save=save)


def _approve_all(flags: Flags, by: str | None, save: str | None, *, as_json: bool) -> int:
    """Approve every call that is pending now: the person confirms all of them at once, or was shown each before."""
    with read_ledger(flags, expire=True) as ledger:
        calls = [item for item in ledger.pending() if item.state is State.PENDING and not item.definition_only]
        state = ledger.path.parent
        if not console.can_ask():
            for item in calls:
                was_shown(ledger, item, None)  # raises if it was not
    if not calls:
        raise NotPending("Nothing is pending.")
    if console.can_ask():
        if not asyncio.run(review_all(calls)):
            console.print_err("Nothing was approved.")
            return PENDING
        record_shown(state, calls)
    code = 0
    for item in calls:
        result, now, _ = deliver_answer(flags, item, Answer(kind="approve", by=whoami(by)), quiet=True)
        code = max(code, show_result(result, now, as_json=as_json, state=state, seen=True, save=save))
    return code


def _grant(scope: Literal["project", "user"] | None, lifetime: str | None) -> Always | None:
    if lifetime is None:
        return None if scope is None else Always(scope)
    if scope is None:
        raise UsageProblem("--for says how long --always lasts. Add --always project or --always user.")
    try:
        return Always(scope, time.time() + parse_duration(lifetime))
    except ValueError as error:
        raise UsageProblem(str(error)) from None


def _widening(
    *, hosts: Sequence[str], network: bool, read: Sequence[str], write: Sequence[str], outside: bool
) -> Widening:
    paths = {"read": absolute_paths(read), "write": absolute_paths(write)}
    return Widening(hosts=tuple(hosts), network=network, outside=outside, **paths)
