"""What a tool returned, made into a `Result`: text for the model, typed content beside it."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Final, cast

import msgspec

from holdfast.contract.call import Proposal
from holdfast.contract.plain import is_plain
from holdfast.contract.result import Attachment, Result
from holdfast.contract.tool import Tool
from holdfast.contract.values import Json, encode_json, parse_json
from holdfast.contract.vocabulary import Failure, State

_PRINTABLE: Final = 10**15
_ATTACHED: Final = ("image", "audio", "file")
STOPPED: Final = frozenset({State.TIMED_OUT, State.CANCELLED, State.UNKNOWN})


def to_result(value: Any, tool: Tool, call_id: str) -> Result:
    """A `Result` as it is, text as success, anything JSON can carry as success with structure; junk is an error."""
    kind = cast(type[Any], type(value))
    if tool.output_validator is None and (kind is str or (kind is int and -_PRINTABLE < value < _PRINTABLE)):
        structured = None if kind is str else value
        return Result(True, str(value), None, structured, {}, (), State.DONE, None, call_id)
    if isinstance(value, Result):
        if not is_well_formed(value):
            return owned(_invalid(tool, "returned a Result with fields of the wrong type"), call_id)
        return owned(checked(tool, value), call_id)
    if value is None and tool.output_validator is None:
        return Result(True, call_id=call_id)
    try:
        plain = to_json(value)
        text = plain if isinstance(plain, str) else encode_json(plain).decode()
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        why = f"returned {kind.__name__}, which is not text, JSON or a Result"
        return owned(_invalid(tool, why), call_id)
    result = Result(True, text, None, plain)
    return owned(checked(tool, result), call_id)


def owned(result: Result, call_id: str) -> Result:
    """A tool or hook says whether it succeeded; which state the call is in, and why, is not its to say."""
    success = result.success
    failure = result.failure if result.failure is Failure.INVALID_OUTPUT else Failure.TOOL_ERROR
    return Result(
        success,
        result.output,
        None if success else result.error or "Unknown error",
        result.structured,
        result.metadata,
        result.attachments,
        State.DONE if success else State.FAILED,
        None if success else failure,
        call_id,
    )


def checked_proposal(proposal: Proposal, tool: Tool, call_id: str) -> Proposal | Result:
    """The proposal if every part of it is what it must be: it will be shown, stored, and come back from JSON."""
    if not is_plain(proposal.payload):
        return owned(_invalid(tool, "proposed a payload that JSON cannot carry"), call_id)
    try:
        encode_json(proposal)
        return msgspec.convert(msgspec.to_builtins(proposal), Proposal)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        return owned(_invalid(tool, f"made a proposal that cannot be used ({error})"), call_id)


def is_well_formed(result: Result) -> bool:
    fields: tuple[Any, ...] = (result.success, result.output, result.error, result.attachments, result.metadata)
    success, output, error, attachments, metadata = fields
    return (
        isinstance(success, bool)
        and isinstance(output, str)
        and (error is None or isinstance(error, str))
        and isinstance(attachments, tuple)
        and all(map(_is_attachment, cast(tuple[Any, ...], attachments)))
        and isinstance(metadata, dict)
        and is_plain([result.structured, metadata])
    )


def _is_attachment(item: Any) -> bool:
    if not isinstance(item, Attachment) or not isinstance(cast(Any, item.data), bytes):
        return False
    texts: tuple[Any, ...] = (item.mime_type, item.name or "", item.uri or "")
    return item.kind in _ATTACHED and all(isinstance(text, str) for text in texts)


def to_json(value: Any) -> Json:
    """Plain JSON of a value: models, dataclasses, structs, enums, dates, sets and tuples included."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return cast(Json, value.model_dump(mode="json"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else value
    plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_encode)
    return parse_json(encode_json(plain), limit=sys.maxsize) if _has_odd_number(plain) else cast(Json, plain)


def _encode(value: Any) -> Any:
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(type(value).__name__)


def _has_odd_number(value: Any) -> bool:
    """NaN and infinity become null, as the encoder writes them."""
    if isinstance(value, float):
        return value != value or value in (float("inf"), float("-inf"))
    if isinstance(value, dict):
        return any(_has_odd_number(item) for item in cast(dict[str, Any], value).values())
    return isinstance(value, list) and any(_has_odd_number(item) for item in cast(list[Any], value))


def checked(tool: Tool, result: Result) -> Result:
    """The result, or that its tool's output schema refuses it."""
    validator = tool.output_validator
    if validator is None or not result.success:
        return result
    content = result.structured
    if validator.foreign and not validator.affords(content):
        return _invalid(tool, "returned more than can be checked against its output schema", result)
    if validator.accepts(content):
        return result
    return _invalid(
        tool, f"returned something its output schema refuses: {'; '.join(validator.violations(content))}", result
    )


def _invalid(tool: Tool, why: str, result: Result | None = None) -> Result:
    return Result(
        False,
        result.output if result else "",
        f"Tool '{tool.name}' {why}.",
        state=State.FAILED,
        failure=Failure.INVALID_OUTPUT,
    )
