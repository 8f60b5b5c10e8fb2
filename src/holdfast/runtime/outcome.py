"""What a tool returned, made into a `Result`: text for the model, typed content beside it."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Final, cast

import msgspec

from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.values import Json, encode_json, parse_json
from holdfast.contract.vocabulary import Failure, State

STOPPED: Final = frozenset({State.TIMED_OUT, State.CANCELLED, State.UNKNOWN})


def to_result(value: Any, tool: Tool, call_id: str) -> Result:
    """A `Result` as it is, text as success, anything JSON can carry as success with structure; junk is an error."""
    kind = cast(type[Any], type(value))
    if tool.output_validator is None and (kind is str or kind is int):
        structured = None if kind is str else value
        return Result(True, str(value), None, structured, {}, (), State.DONE, None, call_id)
    if isinstance(value, Result):
        checked = _checked(tool, value) if tool.output_validator is not None and value.success else value
        return owned(checked, call_id)
    if value is None and tool.output_validator is None:
        return Result(True, call_id=call_id)
    try:
        plain = to_json(value)
        text = plain if isinstance(plain, str) else encode_json(plain).decode()
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        why = f"returned {kind.__name__}, which is not text, JSON or a Result"
        return owned(_invalid(tool, why), call_id)
    result = Result(True, text, None, plain)
    return owned(result if tool.output_validator is None else _checked(tool, result), call_id)


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


def _checked(tool: Tool, result: Result) -> Result:
    validator = tool.output_validator
    assert validator is not None
    content = result.structured
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
