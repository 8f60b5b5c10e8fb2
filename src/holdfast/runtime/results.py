"""Results: the ones the runtime makes itself, the conversion of what a tool returned, and the truncation of output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path, PurePath
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec.structs import replace

from holdfast.contract.call import Call, Decision, PendingCall, Proposal
from holdfast.contract.coercion import JsonSanitizer, is_json_value
from holdfast.contract.enums import Failure, State, Verdict
from holdfast.contract.errors import ArgumentsError, BadJson, CallError, HoldfastError, LedgerError, UnknownCall
from holdfast.contract.json import Args, Json, encode_json
from holdfast.contract.result import Attachment, Result
from holdfast.contract.tool import Tool
from holdfast.runtime.cancellation import RelayedError
from holdfast.text import truncate
from holdfast.text.attachments import describe

if TYPE_CHECKING:
    from holdfast.config.config import OutputConfig
    from holdfast.store.blobs import Spill
    from holdfast.store.ledger import Ledger

ABORTED: Final = "User aborted tool execution."
PLAN_MODE: Final = Decision(Verdict.DENY, "plan", "Plan mode: calls that would change something do not run.")
NEEDS_EXTERNAL_RESULT: Final = Decision(
    Verdict.ASK, "outside", "The tool has no code here, so its result must be given with `respond`."
)
PREVIEW_WIDTH: Final = 160


def failed(text: str, state: State, failure: Failure, call_id: str = "") -> Result:
    """The result of a call that the runtime ends without success."""
    return Result(False, error=text, state=state, failure=failure, call_id=call_id)


def refused_paths(error: HoldfastError) -> Result:
    return failed(str(error), State.INVALID, Failure.INVALID_ARGUMENTS)


def plan_mode_result(tool: Tool, call: Call, proposal: Proposal | None) -> Result:
    """The result, in plan mode, of a call that would change something: what it would do."""
    if proposal is None:
        from holdfast.text.preview import preview

        would = preview(call.name_used, call.args, PREVIEW_WIDTH, tool.format_preview)
    else:
        would = "\n".join(part for part in (proposal.summary, proposal.preview) if part)
    text = f"Plan mode: nothing was run or changed. It would do this:\n{would}"
    return failed(text, State.DENIED, Failure.PLANNED)


def awaiting_program(pending: PendingCall) -> str:
    """Say where an approved call runs that cannot run here."""
    call = pending.call
    if pending.waiter is None and call.caller.document is not None:
        document = quote(call.caller.document)
        return f"Call {call.id} is approved. It runs when its document is continued: holdfast chat {document}"
    when = "which waits for it" if pending.waiter is not None else "when that next starts"
    return f"Call {call.id} is approved. It runs in the program that has '{call.tool}', {when}."


def message_of(error: object, otherwise: str) -> str:
    """The text of an exception or of another value, or `otherwise` if it has none or its `__str__` raises."""
    try:
        return str(error) or otherwise
    except Exception:
        return otherwise


def exception_text(error: BaseException) -> str:
    """The text of an exception for the model: `KeyError: 'zz'`, or only the message of a holdfast error."""
    kind = type(error).__name__
    text = JsonSanitizer().text(message_of(error, ""))
    if isinstance(error, HoldfastError | RelayedError):
        return text or kind
    return f"{kind}: {text}" if text else kind


def internal_error(call: Call, error: Exception, *, unknown: bool) -> Result:
    """The result of a call that failed because of an exception in holdfast itself."""
    what = "whether it took effect is not known" if unknown else "it was not run"
    text = f"Internal error of holdfast in call {call.id} ({message_of(error, type(error).__name__)}); {what}."
    return failed(text, State.UNKNOWN if unknown else State.FAILED, Failure.INTERNAL, call.id)


def invalid_arguments_prefix(call: Call) -> str:
    """The start of the message about invalid arguments."""
    return f"Invalid arguments for '{call.name_used}': "


def invalid_arguments(call: Call, error: ArgumentsError) -> Result:
    failure = Failure.BAD_JSON if isinstance(error, BadJson) else Failure.INVALID_ARGUMENTS
    return failed(f"{invalid_arguments_prefix(call)}{error}", State.INVALID, failure, call.id)


def nested_too_deeply(name: str, limit: int) -> Result:
    text = f"Tool '{name}' was not called: calls are nested deeper than {limit}."
    return failed(text, State.DENIED, Failure.TOO_DEEP)


def missing_secret(name: str, scope: str) -> Result:
    text = f"Tool '{name}' needs the secret '{scope}', which this caller has not been granted."
    return failed(text, State.DENIED, Failure.SECRET_UNAVAILABLE)


def call_not_recorded(name: str, error: HoldfastError) -> Result:
    return failed(f"Tool '{name}' was not run: the call cannot be recorded. {error}", State.FAILED, Failure.LEDGER)


def result_not_recorded(name: str, error: LedgerError, *, mutates: bool) -> Result:
    """The result of a call that ran but could not be recorded: not recorded means not acknowledged."""
    what = "; the ledger will show its outcome as unknown" if mutates else ""
    text = f"Tool '{name}' ran, but its result could not be recorded{what}. {error}"
    return failed(text, State.UNKNOWN if mutates else State.FAILED, Failure.LEDGER)


def cancelled(call_id: str) -> Result:
    return failed(ABORTED, State.CANCELLED, Failure.CANCELLED, call_id)


def expired(pending: PendingCall, seconds: float) -> Result:
    """The result of a call that expired before it ran."""
    what = "its approval was not used" if pending.state is State.APPROVED else "nobody answered"
    limit = _format_duration(seconds)
    text = f"Tool '{pending.call.name_used}' was not run: {what} within {limit}. Ask again if it is needed."
    return failed(text, State.EXPIRED, Failure.EXPIRED, pending.call.id)


def _format_duration(seconds: float) -> str:
    for unit, size in (("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0)):
        if seconds >= size and seconds % size == 0:
            count = round(seconds / size)
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return f"{seconds:g} seconds"


def nobody_to_ask(tool: Tool, call: Call, decision: Decision) -> Result:
    name = call.name_used
    if tool.definition_only:
        text = f"Tool '{name}' needs a person or program to give its result, and nobody is there to do it."
    else:
        text = f"Tool '{name}' needs approval and nobody is there to ask. {decision.reason}"
    return failed(text, State.DENIED, Failure.NOBODY_TO_ASK)


def denied(call: Call, decision: Decision) -> Result:
    text = f"Tool '{call.name_used}' was denied: {decision.reason}"
    return failed(text, State.DENIED, Failure.DENIED_BY_POLICY)


def how_to_answer(pending: PendingCall, *, shared: bool) -> str:
    """How to answer a pending call: with a command if its ledger is on disk, else with a method of the runtime."""
    call_id = pending.call.id
    if pending.definition_only:
        return f"holdfast respond {call_id} TEXT" if shared else f"runtime.respond({call_id!r}, text)"
    return f"holdfast approve {call_id}" if shared else f"runtime.approve({call_id!r})"


def approvals_so_far(pending: PendingCall) -> str:
    """How many people have approved a call that needs several, and who must approve it next."""
    count = f"{len(pending.approved_by)} of {pending.approvals_needed} approvals"
    return f"{count}; another person must approve" if pending.approved_by else f"{count}; two people must approve"


def still_pending(pending: PendingCall, *, shared: bool, changed: str = "") -> Result:
    """The result of a call that is still pending; `changed` says what changed since it was approved."""
    call_id, how = pending.call.id, how_to_answer(pending, shared=shared)
    if changed:
        text = f"Call {call_id} has changed since it was approved ({changed}) and needs approval again: {how}"
    elif pending.definition_only:
        text = f"Call {call_id} waits for its result: {how}"
    elif pending.approvals_needed > 1:
        text = f"Call {call_id} has {approvals_so_far(pending)}: {how}"
    else:
        text = f"Call {call_id} waits for approval: {how}"
    failure = Failure.AWAITING_ANSWER if pending.definition_only else Failure.AWAITING_APPROVAL
    return failed(text, State.PENDING, Failure.STALE if changed else failure, call_id)


def unfinished(call_id: str, pending: PendingCall | None, *, shared: bool, runs: bool = False) -> Result:
    """The result of a call that has not ended yet, as far as this process knows."""
    if runs or (pending is not None and pending.state is State.RUNNING):
        text = f"Call {call_id} runs in another process and has not ended yet. Check it: holdfast ledger show {call_id}"
        return failed(text, State.RUNNING, Failure.AWAITING_PROGRAM, call_id)
    if pending is None:
        look = f" Check it: holdfast ledger show {call_id}" if shared else ""
        text = f"Call {call_id} has ended without a recorded result.{look}"
        return failed(text, State.UNKNOWN, Failure.OUTCOME_UNKNOWN, call_id)
    if pending.state is State.PENDING:
        return still_pending(pending, shared=shared)
    text = awaiting_program(pending)
    return failed(text, pending.state, Failure.AWAITING_PROGRAM, call_id)


def redacted_arguments(call: Call, proposal: Proposal | None) -> Result | None:
    """The refusal of a stored call whose arguments held a secret, else None.

    The ledger stores a label instead of the secret, and the call must not run with that label.
    """
    if b"[secret " not in encode_json([call.args, call.asked, proposal]):
        return None
    text = "The call was approved, but its arguments held a secret, which is not stored. Make the call again."
    return failed(text, State.FAILED, Failure.STALE)


STOPPED: Final = frozenset({State.TIMED_OUT, State.CANCELLED, State.UNKNOWN})


def to_result(value: Any, tool: Tool, call_id: str) -> Result:
    """Convert what a tool returned.

    A `Result` stays as it is, text is a success, other JSON is a success with structured content, and a dict that
    `parse_result_dict` accepts is the result it describes. Anything else is an error.
    """
    number = type(value) is int and abs(value) < 10**15
    plain_text = type(value) is str and value.isascii()
    if tool.output_validator is None and (number or plain_text or value is None):
        text = "" if value is None else str(value)
        return Result(True, text, structured=value if number else None, call_id=call_id)
    repairs = JsonSanitizer()
    try:
        if isinstance(value, Result):
            result = _repair(value, repairs)
            if not is_well_formed(result):
                return with_final_state(
                    _invalid_output(tool, "returned a Result with fields of the wrong type"), call_id
                )
        else:
            given = None if tool.output_validator is not None else parse_result_dict(value)
            result = _repair(given or _success(to_json(value), tool.output_validator is not None), repairs)
    except Exception as error:
        return with_final_state(_invalid_output(tool, f"returned {_describe_unusable(value, error)}"), call_id)
    result = check_output(tool, result)
    if notes := " ".join(repairs.notes):
        metadata = {**result.metadata, "repaired": notes}
        if result.success:
            result = replace(result, output=f"{result.output}\n\n[{notes}]", metadata=metadata)
        else:
            result = replace(result, error=f"{result.error or 'Unknown error'} [{notes}]", metadata=metadata)
    return with_final_state(result, call_id)


_SHAPES: Final = (
    (frozenset({"success"}), frozenset({"success", "output", "error"})),
    (frozenset({"content", "is_error"}), frozenset({"content", "is_error", "metadata"})),
)
"""Required and allowed keys of result dicts."""
_OWN_METADATA: Final = frozenset(
    {"spill", "spilled_bytes", "spilled_lines", "truncated", "repaired", "untrusted", "withheld"}
)
"""Metadata that only holdfast may set: it is removed from result dicts."""


def parse_result_dict(value: object) -> Result | None:
    """The result that a dict describes: exactly `{success, output?, error?}` or `{content, is_error, metadata?}`.

    None for any other value, which is ordinary data.
    """
    if not isinstance(value, dict):
        return None
    given = cast(dict[Any, Any], value)
    if not any(least <= given.keys() <= most for least, most in _SHAPES):
        return None
    success = given["success"] if "success" in given else _negated(given["is_error"])
    metadata: Any = {} if given.get("metadata") is None else given["metadata"]
    if not isinstance(success, bool) or not isinstance(metadata, dict):
        return None
    metadata = {name: value for name, value in cast(dict[Any, Any], metadata).items() if name not in _OWN_METADATA}
    body = _success(to_json(given.get("output", given.get("content"))))
    if success:
        return replace(body, metadata=cast(Args, metadata))
    error = given.get("error")
    if "content" in given:
        error, body = body.output, Result(False)
    elif error is not None and not isinstance(error, str):
        error = encode_json(to_json(error)).decode()
    return replace(body, success=False, error=error or "Unknown error", metadata=cast(Args, metadata))


def _negated(value: object) -> object:
    return not value if isinstance(value, bool) else value


def _success(plain: Json, typed: bool = False) -> Result:
    if plain is None or isinstance(plain, str):
        return Result(True, plain or "", structured=plain if typed else None)
    return Result(True, encode_json(JsonSanitizer().value(plain)).decode(), structured=plain)


def _repair(result: Result, repairs: JsonSanitizer) -> Result:
    """The result with everything in it converted to valid JSON: lone surrogates, NaN and the like are replaced."""
    if is_json_value([result.output, result.error, result.structured, result.metadata]):
        return result
    result = replace(
        result,
        output=repairs.value(result.output),
        error=repairs.value(result.error),
        structured=repairs.value(to_json(result.structured)),
        metadata=repairs.value(to_json(result.metadata)),
    )
    if not is_json_value([result.structured, result.metadata]):
        raise ValueError("nested too deeply, or a number with too many digits")
    return result


def _describe_unusable(value: object, error: Exception) -> str:
    """Say which part of a value cannot be converted to a result."""
    part = str(error) if isinstance(error, _Unconvertible) else type(value).__name__
    inside = "" if part == type(value).__name__ else f"{type(value).__name__} with "
    return f"{inside}{part}, which is not JSON. Return text, JSON, a dataclass, a pydantic model or a Result"


def with_final_state(result: Result, call_id: str) -> Result:
    """The result with the state that the runtime sets. A tool or middleware only decides about success and error."""
    failure = result.failure if result.failure is Failure.INVALID_OUTPUT else Failure.TOOL_ERROR
    if result.success:
        return replace(result, error=None, state=State.DONE, failure=None, call_id=call_id)
    error = result.error or "Unknown error"
    return replace(result, error=error, state=State.FAILED, failure=failure, call_id=call_id)


def check_proposal(proposal: Proposal, tool: Tool, call_id: str) -> Proposal | Result:
    """The proposal with every field checked, because it is shown, stored and read back; else the error."""
    if not is_json_value(proposal.payload):
        return with_final_state(_invalid_output(tool, "proposed a payload that is not JSON"), call_id)
    try:
        encode_json(proposal)
        return msgspec.convert(msgspec.to_builtins(proposal), Proposal)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        return with_final_state(_invalid_output(tool, f"made a proposal that cannot be used ({error})"), call_id)


def is_well_formed(result: Result) -> bool:
    """Whether every field has the right type. msgspec does not check structs that a tool constructs."""
    try:
        plain = msgspec.to_builtins(result, builtin_types=(bytes,))
        msgspec.convert(plain, Result, builtin_types=(bytes,))
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return False
    return type(result) is Result and is_json_value([result.structured, result.metadata])


class _Unconvertible(TypeError):
    """A value that cannot be converted to JSON; the message is the name of its type."""


def to_json(value: Any) -> Json:
    """Convert a value to JSON types: models, dataclasses, structs, enums, dates, paths, decimals, sets and tuples.

    Lone surrogates, NaN and infinity stay as they are.
    """
    return cast(Json, msgspec.to_builtins(value, str_keys=True, enc_hook=_encode))


def _encode(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(cast(Mapping[Any, Any], value))
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json")
    raise _Unconvertible(type(value).__name__)


def check_output(tool: Tool, result: Result) -> Result:
    """The result, or an error if it does not match the tool's output schema."""
    validator = tool.output_validator
    if validator is None or not result.success:
        return result
    content = result.structured
    if validator.untrusted and not validator.is_affordable(content):
        return _invalid_output(tool, "returned more than can be checked against its output schema", result)
    if validator.accepts(content):
        return result
    why = f"returned a value that does not match its output schema: {'; '.join(validator.violations(content))}"
    return _invalid_output(tool, why, result)


def _invalid_output(tool: Tool, why: str, result: Result | None = None) -> Result:
    made = failed(f"Tool '{tool.name}' {why}.", State.FAILED, Failure.INVALID_OUTPUT)
    return made if result is None else replace(made, output=result.output)


_NOTICE_LINES: Final = 40
_NOTICE_BYTES: Final = 8192
"""Allowance for the notice that a tool adds to an output it has truncated itself."""


class LedgerCallStorage:
    """Implements `StorageTools` for one call."""

    __slots__ = ("_call_id", "_ledger")

    def __init__(self, call_id: str, ledger: Ledger | None) -> None:
        self._call_id = call_id
        self._ledger = ledger

    def before_image(self, path: Path, content: bytes | None, mode: int | None = None) -> None:
        if self._ledger is not None:
            self._ledger.before_image(self._call_id, path, content, mode)

    def after_image(self, path: Path, content: bytes | None, mode: int | None = None) -> None:
        if self._ledger is not None:
            self._ledger.after_image(self._call_id, path, content, mode)

    def read_spill(self, call_id: str, offset: int, limit: int) -> tuple[str, int]:
        if self._ledger is None:
            raise CallError("This runtime has no ledger, so no output was stored.")
        result = self._ledger.result(call_id)
        if result is None:
            raise UnknownCall(f"No call '{call_id}' has ended; `holdfast ledger` lists the calls.")
        reference = result.metadata.get("spill")
        if not isinstance(reference, str):
            raise CallError(f"The output of '{call_id}' was not truncated, so there is no more of it.")
        text, total = self._ledger.blobs.read_lines(reference, offset, limit)
        # Lines are counted as in the truncation notice, which the model has seen.
        lines = result.metadata.get("spilled_lines")
        if not isinstance(lines, int) or lines >= total:
            return text, total
        return "\n".join(text.split("\n", lines - offset + 1)[: max(0, lines - offset + 1)]), lines


def withhold_content(result: Result) -> Result:
    """The result as the ledger stores it if the call read a file that may hold secrets: without its content."""
    text = "[not stored: the call read a file that may hold secrets (sandbox.read_deny); call it again to see it]"
    notice = {"output": text} if result.success else {"error": text}
    return replace(result, **{"output": "", "structured": None, "metadata": {}, "attachments": (), **notice})


def truncate_output(result: Result, tool: Tool, limits: OutputConfig, call_id: str, ledger: Ledger | None) -> Result:
    """Truncate an output that is too long, with a notice, and store the whole (up to `max_spill` bytes)."""
    text = result.output
    if result.metadata.get("truncated") is True and _nearly_fits(text, limits):
        return _cut_bytes(result, limits)
    cut = (truncate.head if tool.keeps == "head" else truncate.tail)(text, limits.max_lines, limits.max_bytes)
    if not cut.truncated:
        return _cut_bytes(result, limits)
    metadata = dict(result.metadata)
    where = None
    kept = _spill(text, limits, ledger)
    if kept is not None:
        metadata |= {"spill": kept.reference, "spilled_bytes": kept.size, "spilled_lines": cut.total_lines}
        where = f"output.read call={call_id}" + (f", first {truncate.format_size(kept.size)}" if kept.dropped else "")
    elif ledger is not None:
        where = "could not be kept"
    shown = truncate.with_notice(cut, tool.keeps, where, limits.max_bytes)
    structured = None if isinstance(result.structured, str) else result.structured
    return _cut_bytes(replace(result, output=shown, structured=structured, metadata=metadata), limits)


_NAMED_ATTACHMENTS: Final = 8


def limit_attachments(result: Result, limits: OutputConfig) -> Result:
    """The result with at most the configured number and bytes of attachments, and a sentence about the others."""
    kept: list[Attachment] = []
    left_out: list[Attachment] = []
    room = limits.max_attachment_bytes
    for item in result.attachments:
        if len(kept) >= limits.max_attachments or len(item.data) > room:
            left_out.append(item)
            continue
        room -= len(item.data)
        # Only bytes have a digest: a tool must not name content that is stored for another call.
        known = {} if item.data else {"digest": "", "size": 0}
        kept.append(replace(item, path=None, **known) if known or item.path is not None else item)
    if left_out:
        named = ", ".join(map(describe, left_out[:_NAMED_ATTACHMENTS]))
        more = len(left_out) - _NAMED_ATTACHMENTS
        others = f" and {more:,} more" if more > 0 else ""
        text = (
            f"[Not attached: {named}{others}. A result has at most {limits.max_attachments} attachments and "
            f"{truncate.format_size(limits.max_attachment_bytes)} in total.]"
        )
        said = result.output if result.success else result.error or ""
        joined = f"{said}\n\n{text}" if said else text
        result = replace(result, output=joined) if result.success else replace(result, error=joined)
    return replace(result, attachments=tuple(kept))


def _nearly_fits(text: str, limits: OutputConfig) -> bool:
    """Whether an output that the tool truncated itself is within the limits, its notice not counted."""
    lines, size = limits.max_lines + _NOTICE_LINES, limits.max_bytes + _NOTICE_BYTES
    return text.count("\n") < lines and truncate.byte_size(text) <= size


def _spill(text: str, limits: OutputConfig, ledger: Ledger | None) -> Spill | None:
    """Store the whole output; None if that fails, because the result must not be lost with it."""
    if ledger is None:
        return None
    try:
        return ledger.blobs.spill(text, limits.max_spill)
    except LedgerError:
        return None


def _cut_bytes(result: Result, limits: OutputConfig) -> Result:
    if limits.max_output_bytes is None or len(result.output) * 4 <= limits.max_output_bytes:
        return result
    return replace(result, output=truncate.truncate_bytes(result.output, limits.max_output_bytes))
