"""Results: text for the model, exit code, and the exception that stays in the process."""

from __future__ import annotations

import msgspec

from holdfast import State, fail, ok
from holdfast.contract.enums import Failure
from holdfast.contract.result import Result, with_exception


def test_the_text_is_the_output_or_the_error_with_partial_output() -> None:
    assert ok("done").text == "done"
    assert fail("It broke.").text == "It broke."
    assert fail("It broke.", output="half").text == "It broke.\n\nPartial output:\nhalf"
    assert Result(False).text == "Unknown error"


def test_fail_is_a_tool_error_with_exit_code_1() -> None:
    failed = fail("It broke.")
    assert (failed.state, failed.failure, failed.exit_code) == (State.FAILED, Failure.TOOL_ERROR, 1)
    assert ok().exit_code == 0


def test_the_exception_is_neither_compared_nor_encoded_nor_copied() -> None:
    error = ValueError("x")
    result = with_exception(fail("It broke."), error)
    assert result.exception is error
    assert result == fail("It broke.")
    assert msgspec.json.encode(result) == msgspec.json.encode(fail("It broke."))
    assert msgspec.structs.replace(result, output="x").exception is None
