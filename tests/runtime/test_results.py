"""The values a tool may return, and the results they become."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import nan
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from holdfast import Result, Runtime, State, Tool, tool
from holdfast.contract.enums import Failure
from tests.runtime.support import run, runtime_in


def returned(value: Any, **fields: Any) -> Result:
    """The result of a call whose tool returns this."""

    async def execute(args: Any) -> Any:
        return value

    return run(Runtime(tools=[Tool(name="give", execute=execute, effects=frozenset(), **fields)]).call("give"))


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    ("value", "success", "output", "error"),
    [
        ({"success": True, "output": "done"}, True, "done", None),
        ({"success": True, "output": {"n": 1}}, True, '{"n":1}', None),
        ({"success": True}, True, "", None),
        ({"success": False, "error": "no such host"}, False, "", "no such host"),
        ({"success": False, "output": "half", "error": "broke off"}, False, "half", "broke off"),
        ({"success": False}, False, "", "Unknown error"),
        ({"content": "hello", "is_error": False}, True, "hello", None),
        ({"content": "no such host", "is_error": True}, False, "", "no such host"),
    ],
)
def test_a_result_dict_is_read_as_a_result(value: Any, success: bool, output: str, error: str | None) -> None:
    result = returned(value)
    assert (result.success, result.output, result.error) == (success, output, error)
    assert result.state is (State.DONE if success else State.FAILED)
    assert result.failure is (None if success else Failure.TOOL_ERROR)


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    "value",
    [
        {"success": False, "error": "x", "retries": 3},
        {"success": "no"},
        {"content": "text"},
        {"content": "x", "is_error": None},
        {"output": "x"},
        {},
    ],
)
def test_any_other_dict_is_data(value: dict[str, Any]) -> None:
    result = returned(value)
    assert result.success and result.structured == value


@pytest.mark.spec("T4")
def test_an_output_schema_takes_precedence_over_result_dicts_and_metadata_is_kept() -> None:
    value = {"success": False, "error": "just data"}
    result = returned(value, output_schema={"type": "object"})
    assert result.success and result.structured == value
    assert returned({"content": "x", "is_error": False, "metadata": {"took": 3}}).metadata == {"took": 3}
    forged = {"content": "x", "is_error": False, "metadata": {"spill": "0" * 64, "truncated": True, "took": 3}}
    assert returned(forged).metadata == {"took": 3}, "what holdfast kept and cut is not the data's to say"


class Order(BaseModel):
    item: str
    file: Path


@dataclass
class Report:
    at: datetime
    price: Decimal
    folder: Path
    orders: list[Order]


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Measured:
    span: tuple[int, str]
    mean: float


REPORT = Report(datetime(2026, 1, 2, tzinfo=UTC), Decimal("0.50"), Path("a/b"), [Order(item="x", file=Path("c"))])
PLAIN = {
    "at": "2026-01-02T00:00:00Z", "price": "0.50", "folder": "a/b", "orders": [{"item": "x", "file": "c"}],
}  # fmt: skip


@pytest.mark.spec("T12")
@pytest.mark.parametrize(
    ("value", "output", "structured"),
    [
        (Path("a/b"), "a/b", None),
        (date(2026, 1, 2), "2026-01-02", None),
        (Decimal("0.50"), "0.50", None),
        ([Path("a"), Decimal(1)], '["a","1"]', ["a", "1"]),
        ((1, "a"), '[1,"a"]', [1, "a"]),
        ({"at": [(1, 2), Point(3, 4)]}, '{"at":[[1,2],[3,4]]}', {"at": [[1, 2], [3, 4]]}),
        (MappingProxyType({"a": (1,)}), '{"a":[1]}', {"a": [1]}),
        (Order(item="x", file=Path("c")), '{"item":"x","file":"c"}', {"item": "x", "file": "c"}),
        (Result(True, "see", structured={"path": Path("a")}), "see", {"path": "a"}),  # pyright: ignore
    ],
)
def test_the_usual_python_values_are_converted(value: Any, output: str, structured: Any) -> None:
    result = returned(value)
    assert (result.success, result.output, result.structured) == (True, output, structured)


@pytest.mark.spec("T12", "T9")
def test_a_dataclass_may_hold_tuples_and_nan() -> None:
    @tool(effects=())
    def measure() -> Measured:
        return Measured((1, "a"), nan)

    result = run(Runtime(tools=[measure]).call("measure"))
    assert (result.success, result.structured) == (True, {"span": [1, "a"], "mean": None})
    assert result.metadata["repaired"] == "NaN or infinity was replaced by null."


@pytest.mark.spec("T12", "T9")
def test_such_a_dataclass_matches_its_own_output_schema() -> None:
    @tool(effects=())
    def report() -> Report:
        return REPORT

    @tool(effects=())
    def order(file: Path) -> Order:
        return Order(item="x", file=file / "y")

    assert report.output_schema is not None
    assert report.output_schema["properties"]["folder"]["type"] == "string"
    runtime = Runtime(tools=[report, order])
    assert run(runtime.call("report")).structured == PLAIN
    assert run(runtime.call("order", {"file": "c"})).structured == {"item": "x", "file": "c/y"}


@pytest.mark.spec("T4", "T12")
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (threading.Lock(), "returned lock, which is not JSON. Return text, JSON, a dataclass"),
        ({"a": [object()]}, "returned dict with object, which is not JSON"),
        (Result(True, structured=object()), "returned Result with object, which is not JSON"),  # pyright: ignore
    ],
)
def test_a_value_that_is_not_json_is_an_error_that_names_it(value: Any, words: str) -> None:
    result = returned(value)
    assert (result.state, result.failure) == (State.FAILED, Failure.INVALID_OUTPUT)
    assert words in (result.error or "")


UNICODE = "Text that is not valid Unicode was replaced by \ufffd."
NUMBERS = "NaN or infinity was replaced by null."


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    ("value", "output", "structured", "note"),
    [
        ("half \ud800", "half \ufffd", None, UNICODE),
        ("a whole pair \ud83d\ude00", "a whole pair \U0001f600", None, UNICODE),
        ({"\udcff": "\udcff"}, '{"\ufffd":"\ufffd"}', {"\ufffd": "\ufffd"}, UNICODE),
        ({"mean": float("nan")}, '{"mean":null}', {"mean": None}, NUMBERS),
        (Result(True, "x", structured=[float("inf")]), "x", [None], NUMBERS),
        (Path("caf\udce9"), "caf\ufffd", None, UNICODE),
    ],
)
def test_lone_surrogates_and_nan_are_replaced_and_the_result_says_so(
    tmp_path: Path, value: Any, output: str, structured: Any, note: str
) -> None:
    @tool(effects=())
    def give() -> Any:
        return value

    runtime = runtime_in(tmp_path, give)
    result = run(runtime.call("give"))
    assert (result.success, result.structured) == (True, structured)
    assert result.output == f"{output}\n\n[{note}]"
    assert result.metadata == {"repaired": note}
    assert runtime.ledger is not None
    assert runtime.ledger.result(result.call_id) == result


@pytest.mark.spec("T4")
def test_invalid_text_in_an_error_is_replaced() -> None:
    result = returned({"success": False, "error": "half \ud800"})
    assert result.error == f"half \ufffd [{UNICODE}]"
