"""Every parameter of the runtime's public methods and every field of the public structs, each given wrong values.

The cases come from the signatures, so a new parameter or field is covered automatically.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Answer, Caller, HoldfastError, Result, Runtime, Tool
from holdfast.contract.enums import Failure
from holdfast.store.ledger import Ledger
from tests.runtime.support import recorder, run, runtime_in
from tests.runtime.test_input_checks import BAD


class Hostility(Exception):
    """Raised by a hostile object that the program passed in; it may propagate if nothing has happened yet."""


class Hostile:
    """An object whose `repr`, comparison and `len` raise."""

    def _fail(self, *_: object) -> Any:
        raise Hostility

    __str__ = __repr__ = __len__ = __iter__ = __bool__ = __eq__ = __hash__ = _fail  # pyright: ignore


def _nested(depth: int = 5000) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


WRONG: dict[str, Any] = {
    **BAD,
    "ten megabytes": "x" * 100_000,  # `test_input_checks` tries the full size
    "None": None,
    "infinity": float("inf"),
    "not a number": float("nan"),
    "deeply nested": _nested(),
    "a class": int,
    "a function": lambda: 1,
    "hostile": Hostile(),
    "a dict with a key that is no text": {("a",): 1},
}


def _methods() -> Iterator[tuple[str, str]]:
    """Every public method of the runtime with each of its parameters."""
    for name, method in inspect.getmembers(Runtime, inspect.isfunction):
        if not name.startswith("_"):
            for parameter in list(inspect.signature(method).parameters)[1:]:
                yield name, parameter


def _fields() -> Iterator[tuple[str, str]]:
    """Every public struct that a program can pass in, with each of its fields."""
    for name in holdfast.__all__:
        kind = getattr(holdfast, name)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and name not in ("Config", "Call"):
            for field in msgspec.structs.fields(kind):
                yield name, field.name


METHODS, FIELDS = list(_methods()), list(_fields())


def _giving(value: Any) -> Any:
    def give(*_: object) -> Any:
        return value

    return give


async def _used(runtime: Runtime, method: str, given: dict[str, Any]) -> object:
    """Call the method with valid arguments, except for the given ones."""
    new = runtime.pipeline.new_call_id()
    pending = await runtime.call("note", {"text": new}, request=f"r-{new}")
    pending_call = runtime.pending.get(pending.call_id)
    assert pending_call is not None
    usual: dict[str, Any] = {
        "call": {"name": "note", "args": {"text": "x"}},
        "call_many": {"requests": [("note", {"text": "x"})]},
        "judge": {"name": "note", "args": {"text": "x"}},
        "explain": {"name": "note", "args": {"text": "x"}},
        "answer": {"call_id": pending.call_id, "answer": Answer(kind="reject", by="ann")},
        "approve": {"call_id": pending.call_id},
        "reject": {"call_id": pending.call_id},
        "respond": {"call_id": pending.call_id, "output": "x"},
        "resolve": {"request_id": pending_call.call.request, "call_id": pending.call_id, "result": "x"},
        "allow": {"pending": pending_call, "scope": "session"},
        "approve_covered": {"grant": None, "by": "ann"},
        "cancel": {"call_id": pending.call_id},
        "undo": {"call_id": pending.call_id},
        "register": {"what": Tool(name="other", execute=_giving("x"))},
        "middleware_for": {"tool": "nothing"},
        "tool_list": {"format": "mcp"},
        "on_close": {"close": lambda: None},
        "attach": {},
    }.get(method, {})
    bound = inspect.signature(getattr(runtime, method))
    values = {**usual, **given}
    first = [name for name, item in bound.parameters.items() if item.kind is item.POSITIONAL_ONLY and name in values]
    positional = [values.pop(name) for name in first]
    outcome = getattr(runtime, method)(*positional, **values)
    if inspect.isawaitable(outcome):
        outcome = await outcome
    if method == "attach":
        with outcome:
            return await runtime.call("note", {"text": "asked"})
    if method == "middleware_for":
        outcome.remove()
    return outcome


async def _handed_in(runtime: Runtime, kind: str, field: str, wrong: Any) -> object:
    """Pass a struct with a wrong field to every method that accepts one."""
    made: Any = getattr(holdfast, kind)
    usual: dict[str, dict[str, Any]] = {
        "Answer": {"kind": "reject", "by": "ann"},
        "Attachment": {"kind": "file", "mime_type": "text/plain"},
        "Caller": {},
        "Deny": {"reason": "test"},
        "Decision": {"verdict": holdfast.Verdict.ASK, "source": "test", "reason": "test"},
        "Precondition": {"kind": "file", "subject": "a", "value": "b"},
        "Proposal": {"tool_name": "two", "summary": "s", "risk": holdfast.Risk.LOW, "payload": {}},
        "Request": {"tool": "note", "args": {"text": "x"}},
        "Result": {"success": True},
        "PendingCall": {},
        "Widening": {},
    }
    if kind == "PendingCall":
        pending = await runtime.call("note", {"text": runtime.pipeline.new_call_id()})
        pending_call = runtime.pending.get(pending.call_id)
        assert pending_call is not None
        return await runtime.allow(msgspec.structs.replace(pending_call, **{field: wrong}), "session")
    value = made(**{**usual[kind], field: wrong})
    match kind:
        case "Answer":
            pending = await runtime.call("note", {"text": "x"})
            return await runtime.answer(pending.call_id, value)
        case "Widening":
            pending = await runtime.call("note", {"text": "x"})
            return await runtime.answer(pending.call_id, Answer(kind="approve", by="ann", widen=value))
        case "Caller":
            return await runtime.call("note", {"text": "x"}, caller=value)
        case "Request":
            return await runtime.call_many([value])
        case "Result":
            return await _returned(runtime, value)
        case "Attachment":
            return await _returned(runtime, Result(True, attachments=(value,)))
        case "Decision":
            odd = runtime.approvals.chain.register("odd", _giving(value), priority=200)
            try:
                return await runtime.call("note", {"text": "x"})
            finally:
                odd.remove()
        case "Deny":
            hook = runtime.middleware_for("note", before=_giving(value))
            try:
                return await runtime.call("note", {"text": "x"})
            finally:
                hook.remove()
        case _:
            proposal = (
                value
                if kind == "Proposal"
                else holdfast.Proposal(
                    tool_name="two", summary="s", risk=holdfast.Risk.LOW, payload={}, preconditions=(value,)
                )
            )
            two = Tool(name="two", propose=_giving(proposal), apply=_giving("done"))
            runtime.register(two, replace=True)
            return await runtime.call("two")


async def _returned(runtime: Runtime, result: Result) -> Result:
    runtime.register(Tool(name="gives", execute=_giving(result), effects=frozenset()), replace=True)
    return await runtime.call("gives")


def _try_all(tmp_path: Path, act: Callable[[Runtime, Any], Any]) -> None:
    """Try every wrong value; then open the project again, verify its ledger, and run a call."""
    note, _ = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")

    async def each() -> None:
        for name, wrong in WRONG.items():
            try:
                async with asyncio.timeout(30):
                    outcome = await act(runtime, wrong)
            except (HoldfastError, TypeError, ValueError, OverflowError, RecursionError, Hostility):
                continue  # refused
            if isinstance(outcome, Result):
                assert outcome.failure is not Failure.INTERNAL, (name, outcome.error)

    run(each(), 300)
    assert runtime.ledger is not None
    path = runtime.ledger.path
    runtime.ledger.close()
    with Ledger.open(path) as again:
        found = again.verify()
        assert found.ok, found.problem
        unreadable: list[str] = []
        again.calls(10_000, unreadable=unreadable)
        assert unreadable == []
        again.pending()
        again.grants.list(every=True)

        async def still_works() -> None:
            async with Runtime([note], ledger=again, root=tmp_path, asker=lambda pending: True) as reopened:
                assert (await reopened.call("note", {"text": "an honest call"})).success

        run(still_works(), 60)


@pytest.mark.spec("X10")
@pytest.mark.parametrize(("method", "parameter"), METHODS, ids=str)
def test_no_wrong_argument_makes_the_project_unusable(tmp_path: Path, method: str, parameter: str) -> None:
    _try_all(tmp_path, lambda runtime, wrong: _used(runtime, method, {parameter: wrong}))


@pytest.mark.spec("X10")
@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=str)
def test_no_wrong_field_makes_the_project_unusable(tmp_path: Path, kind: str, field: str) -> None:
    _try_all(tmp_path, lambda runtime, wrong: _handed_in(runtime, kind, field, wrong))


def test_the_cases_cover_the_whole_runtime() -> None:
    assert {"call", "call_many", "answer", "approve", "allow", "attach", "resolve"} <= {name for name, _ in METHODS}
    assert {"Answer", "Caller", "Result", "Proposal", "Attachment"} <= {name for name, _ in FIELDS}
    assert ("Caller", "session") in FIELDS
    assert isinstance(Caller(), msgspec.Struct)
