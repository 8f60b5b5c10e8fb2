"""The results of calls that end before or beside their tool, in their own words."""

from __future__ import annotations

from typing import Final

from holdfast.contract.call import Call, Decision, HeldCall, Proposal
from holdfast.contract.errors import ArgumentsError, BadJson, HoldfastError, LedgerError
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.vocabulary import Failure, State, Verdict

ABORTED: Final = "User aborted tool execution."
PLANNING: Final = Decision(Verdict.DENY, "plan", "This session only plans: what would change something is not run.")
_PREVIEW_WIDTH: Final = 160


def refused_paths(error: HoldfastError) -> Result:
    return Result(False, error=str(error), state=State.INVALID, failure=Failure.INVALID_ARGUMENTS)


def planned(tool: Tool, call: Call, proposal: Proposal | None) -> Result:
    """What a session that only plans is told instead of the result of a change."""
    if proposal is None:
        from holdfast.text.preview import preview

        would = preview(call.name_used, call.args, _PREVIEW_WIDTH, tool.format_preview)
    else:
        would = "\n".join(part for part in (proposal.summary, proposal.preview) if part)
    text = f"Plan mode: nothing was run or changed. It would do this:\n{would}"
    return Result(False, error=text, state=State.DENIED, failure=Failure.PLANNED)


def awaiting_program(held: HeldCall) -> str:
    """Where an approved call runs that does not run here."""
    call = held.call
    if held.waiter is None and call.caller.document is not None:
        from shlex import quote

        document = quote(call.caller.document)
        return f"Call {call.id} is approved; it runs when its document goes on: holdfast chat {document}"
    when = "which waits for it" if held.waiter is not None else "when that next starts"
    return f"Call {call.id} is approved; it runs in the program that knows '{call.tool}', {when}."


def words_of(error: object, otherwise: str) -> str:
    """What an exception or a hook says; some say nothing, and some cannot even be asked."""
    try:
        return str(error) or otherwise
    except Exception:
        return otherwise


def broken(call: Call, error: Exception, *, unknown: bool) -> Result:
    """A fault of our own: the call still ends, and says what is not known."""
    what = "whether it took effect is not known" if unknown else "it was not run"
    return Result(
        False,
        error=f"holdfast failed at call {call.id} ({words_of(error, type(error).__name__)}); {what}.",
        state=State.UNKNOWN if unknown else State.FAILED,
        failure=Failure.INTERNAL,
        call_id=call.id,
    )


def invalid(call: Call, error: ArgumentsError) -> Result:
    failure = Failure.BAD_JSON if isinstance(error, BadJson) else Failure.INVALID_ARGUMENTS
    text = f"Invalid arguments for '{call.name_used}': {error}"
    return Result(False, "", text, None, {}, (), State.INVALID, failure, call.id)


def too_deep(name: str, limit: int) -> Result:
    text = f"Tool '{name}' was not called: calls are nested deeper than {limit}."
    return Result(False, error=text, state=State.DENIED, failure=Failure.TOO_DEEP)


def no_secret(name: str, scope: str) -> Result:
    return Result(
        False,
        error=f"Tool '{name}' needs the secret '{scope}', which this caller has not been granted.",
        state=State.DENIED,
        failure=Failure.SECRET_UNAVAILABLE,
    )


def unrecorded(name: str, error: HoldfastError) -> Result:
    return Result(
        False,
        error=f"Tool '{name}' was not run: the call cannot be recorded. {error}",
        state=State.FAILED,
        failure=Failure.LEDGER,
    )


def result_lost(name: str, error: LedgerError, *, mutates: bool) -> Result:
    """Not recorded means not acknowledged: the caller must not build on it."""
    what = "; the ledger will call it unknown" if mutates else ""
    return Result(
        False,
        error=f"Tool '{name}' ran, but its result could not be recorded{what}. {error}",
        state=State.UNKNOWN if mutates else State.FAILED,
        failure=Failure.LEDGER,
    )
