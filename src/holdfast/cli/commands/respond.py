"""`holdfast respond`: give the result of a pending call in the tool's place."""

from __future__ import annotations

import asyncio

import click

from holdfast.cli import console
from holdfast.cli.answers import by_option, deliver_answer, find_by_id, project_option, report_accepted
from holdfast.cli.approval_prompt import ask_questions
from holdfast.cli.arguments import read_text
from holdfast.cli.errors import UsageProblem
from holdfast.cli.project_context import Flags, read_ledger, whoami
from holdfast.cli.projects import ProjectScope, enter_project
from holdfast.cli.root import complete_pending, with_flags
from holdfast.contract.call import Answer, PendingCall


@click.command()
@click.argument("call_id", metavar="ID", shell_complete=complete_pending)
@click.argument("text", required=False)
@click.option("--failed", is_flag=True, help="Return TEXT as an error.")
@project_option
@by_option
@with_flags
def respond(
    flags: Flags, call_id: str, text: str | None, failed: bool, project: ProjectScope, by: str | None, as_json: bool
) -> int:
    """Give the result of a pending call yourself.

    ID may be shortened to the part before its dash if that is unique. TEXT is the
    result; - reads it from standard input. Without TEXT, a terminal asks you each
    of the model's questions. The exit code is 0 if the answer was accepted.

    \b
    Example:
      holdfast respond 3f2a "The release is on Friday."
    """
    if project == "all":
        enter_project(flags, call_id, "respond")
    with read_ledger(flags, expire=True) as ledger:
        pending = find_by_id(flags, ledger, call_id, "respond")
    message = _ask(pending) if text is None else read_text(text)
    answer = Answer(kind="respond", by=whoami(by), message=message, success=not failed)
    result, *_ = deliver_answer(flags, pending, answer, quiet=as_json)
    return report_accepted(result, "Answered.", as_json=as_json)


def _ask(pending: PendingCall) -> str:
    if not console.can_ask():
        raise UsageProblem(
            f"No result given. Use `holdfast respond {pending.call.id} TEXT`, or - to read it from stdin."
        )
    text = asyncio.run(ask_questions(pending))
    if text is None:
        raise UsageProblem(f"No answer given. Call {pending.call.id} is still pending.")
    return text
