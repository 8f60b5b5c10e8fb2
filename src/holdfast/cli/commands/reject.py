"""`holdfast reject`: reject a pending call, or end one whose record cannot be read."""

from __future__ import annotations

import click

from holdfast.cli.answers import (
    by_option,
    deliver_answer,
    find_id,
    optional_id_argument,
    project_option,
    report_accepted,
)
from holdfast.cli.errors import UsageProblem
from holdfast.cli.pending_view import find_pending, require_single_pending
from holdfast.cli.project_context import Flags, open_runtime, read_ledger, require_ledger, whoami
from holdfast.cli.projects import ProjectScope, each_project, enter_project
from holdfast.cli.root import with_flags
from holdfast.contract.call import Answer
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import NotPending
from holdfast.contract.result import Result


@click.command()
@optional_id_argument
@click.option("--all", "every", is_flag=True, help="Reject every pending call, after showing all of them.")
@click.option("-m", "--message", default="", metavar="TEXT", help="Tell the model this.")
@project_option
@by_option
@with_flags
def reject(
    flags: Flags, call_id: str | None, every: bool, message: str, project: ProjectScope, by: str | None, as_json: bool
) -> int:
    """Reject a pending call.

    Without ID: the only pending call. ID may be shortened to the part before its
    dash if that is unique. The exit code is 0 if the answer was accepted.

    \b
    Example:
      holdfast reject 3f2a -m "Use the staging database."
    """
    answer = Answer(kind="reject", by=whoami(by), message=message)
    if every:
        if call_id is not None:
            raise UsageProblem("--all cannot be combined with an ID.")
        for _ in each_project(flags, project):
            _reject_all(flags, answer, as_json=as_json)
        return 0
    if project == "all":
        enter_project(flags, call_id, "reject")
    with read_ledger(flags, expire=True) as ledger:
        if call_id is None:
            found = require_single_pending(ledger, "reject").call.id
        else:
            found = find_id(flags, ledger, call_id, "reject")
        pending = None if found in ledger.unreadable_pending() else find_pending(ledger, found)
    if pending is None:
        result = _end_unreadable(flags, found, answer)
    else:
        result = deliver_answer(flags, pending, answer, quiet=as_json)[0]
    return report_accepted(result, "Rejected.", as_json=as_json)


def _reject_all(flags: Flags, answer: Answer, *, as_json: bool) -> None:
    with read_ledger(flags, expire=True) as ledger:
        calls = [pending for pending in ledger.pending() if pending.state is State.PENDING]
    if not calls:
        raise NotPending("Nothing is pending.")
    for pending in calls:
        result, *_ = deliver_answer(flags, pending, answer, quiet=as_json)
        report_accepted(result, f"Rejected {pending.call.id}.", as_json=as_json)


def _end_unreadable(flags: Flags, call_id: str, answer: Answer) -> Result:
    """End a pending call that cannot be shown to anyone, because its record is damaged."""
    with open_runtime(flags, entry_points=False) as runtime:
        text = answer.message or f"Call {call_id} was ended by {answer.by}: its record could not be read."
        result = Result(False, error=text, state=State.REJECTED, failure=Failure.REJECTED, call_id=call_id)
        require_ledger(runtime).end_now(call_id, result, unless_running=True)
        return result
