"""No input of a program makes the ledger unreadable: it is converted, or refused with a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Answer, Attachment, Caller, Decision, Deny, HoldfastError, Result, Runtime, State, Tool, Verdict
from holdfast.contract.call import Call
from holdfast.contract.enums import Failure
from holdfast.contract.errors import CallError, LedgerUnavailable, StaleApproval
from holdfast.runtime.runtime import Request
from holdfast.store.entries import CallEnded
from holdfast.store.ledger import Ledger
from tests.runtime.support import recorder, run, runtime_in, until_pending

BAD: dict[str, Any] = {
    "an int": 5,
    "a great int": 10**5000,
    "a float": 1.5,
    "a bool": True,
    "bytes": b"x",
    "a list": ["a"],
    "a dict": {"a": 1},
    "a set": {"a"},
    "an object": object(),
    "half a surrogate pair": "a\ud800b",
    "a byte that is not UTF-8": "a\udcffb",
    "NUL": "a\0b",
    "nothing": "",
    "ten megabytes": "x" * 10_000_000,
}
CALLER_FIELDS = ("interface", "agent", "provider", "skill", "session", "document", "scopes", "autonomy", "only")
Act = Callable[[Runtime, Any], Awaitable[Any]]


async def _pending(runtime: Runtime) -> str:
    return (await runtime.call("note", {"text": "x"})).call_id


def _calling(field: str) -> Act:
    async def act(runtime: Runtime, bad: Any) -> Result:
        return await runtime.call("note", {"text": "x"}, **{field: bad})

    return act


def _called_by(field: str) -> Act:
    async def act(runtime: Runtime, bad: Any) -> Result:
        return await runtime.call("note", {"text": "x"}, caller=Caller(**{field: bad}))

    return act


async def _name(runtime: Runtime, bad: Any) -> Result:
    return await runtime.call(bad, {"text": "x"})


async def _argument(runtime: Runtime, bad: Any) -> Result:
    return await runtime.call("note", {"text": bad})


async def _batch(runtime: Runtime, bad: Any) -> Result:
    return (await runtime.call_many([Request("note", {"text": "x"}, given_id=bad)], request=bad))[0]


async def _by(runtime: Runtime, bad: Any) -> Result:
    return await runtime.approve(await _pending(runtime), by=bad)


async def _digest(runtime: Runtime, bad: Any) -> Result:
    return await runtime.approve(await _pending(runtime), digest=bad)


async def _edited(runtime: Runtime, bad: Any) -> Result:
    return await runtime.approve(await _pending(runtime), args=bad)


async def _edited_text(runtime: Runtime, bad: Any) -> Result:
    return await runtime.approve(await _pending(runtime), args={"text": bad})


async def _message(runtime: Runtime, bad: Any) -> Result:
    return await runtime.reject(await _pending(runtime), bad)


async def _output(runtime: Runtime, bad: Any) -> Result:
    return await runtime.respond(await _pending(runtime), bad)


async def _kind(runtime: Runtime, bad: Any) -> Result:
    return await runtime.answer(await _pending(runtime), Answer(kind=bad, by="ann"))


async def _answered_id(runtime: Runtime, bad: Any) -> Result:
    return await runtime.approve(bad)


async def _resolved(runtime: Runtime, bad: Any) -> Result:
    return await runtime.resolve(bad, bad, bad)


async def _result_id(runtime: Runtime, bad: Any) -> Result | None:
    return runtime.pending.result(bad)


async def _cancelled_id(runtime: Runtime, bad: Any) -> bool:
    return runtime.cancel(bad)


async def _undone_id(runtime: Runtime, bad: Any) -> Result:
    return await runtime.undo(bad, by=bad)


async def _allowed_by(runtime: Runtime, bad: Any) -> None:
    await _pending(runtime)
    grant = await runtime.allow(runtime.pending.list()[-1], "project", by=bad)
    assert runtime.ledger is not None
    assert runtime.ledger.grants.revoke(grant.id, by="test")


async def _asker(runtime: Runtime, bad: Any) -> Result:
    async def asker(pending: Any) -> Any:
        return Answer(kind="reject", by=bad, message=bad)

    with runtime.attach(asker):
        return await runtime.call("note", {"text": "x"})


async def _asker_answer(runtime: Runtime, bad: Any) -> Result:
    async def asker(pending: Any) -> Any:
        return bad

    with runtime.attach(asker):
        return await runtime.call("note", {"text": "x"})


async def _denied(runtime: Runtime, bad: Any) -> Result:
    hook = runtime.middleware_for("note", before=lambda args, ctx: Deny(bad))
    result = await runtime.call("note", {"text": "x"})
    hook.remove()
    return result


async def _reason(runtime: Runtime, bad: Any) -> Result:
    odd = runtime.approvals.chain.register("odd", lambda name, args, ctx: Decision(Verdict.ASK, bad, bad), priority=200)
    result = await runtime.call("note", {"text": "x"})
    odd.remove()
    return result


async def _attachment(runtime: Runtime, bad: Any) -> Result:
    for field in ("kind", "mime_type", "data", "name", "uri"):
        given: dict[str, Any] = {"kind": "file", "mime_type": "text/plain", field: bad}
        result = Result(True, attachments=(Attachment(**given),))
        runtime.register(Tool(name="attach", execute=_giving(result), effects=frozenset()), replace=True)
        await runtime.call("attach")
    return Result(True)


def _giving(result: Result) -> Callable[[Any], Result]:
    return lambda args: result


ACTS: dict[str, Act] = {
    **{f"call {field}": _calling(field) for field in ("request", "given_id", "cwd", "call_id")},
    **{f"caller {field}": _called_by(field) for field in CALLER_FIELDS},
    **{act.__name__.strip("_"): act for act in (
        _name, _argument, _batch, _by, _digest, _edited, _edited_text, _message, _output, _kind, _answered_id,
        _resolved, _result_id, _cancelled_id, _undone_id, _allowed_by, _asker, _asker_answer, _denied, _reason,
        _attachment,
    )},
}  # fmt: skip


def _is_readable(ledger: Ledger) -> None:
    ledger.pending()
    ledger.calls(100)
    list(ledger.export())
    ledger.grants.list(every=True)
    found = ledger.verify()
    assert found.ok, found.problem


@pytest.mark.spec("X10")
@pytest.mark.parametrize("what", ACTS)
def test_no_input_makes_the_ledger_unreadable(tmp_path: Path, what: str) -> None:
    note, _ = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")

    async def session(kind: str) -> None:
        before = await runtime.call("note", {"text": "an honest call"})
        try:
            outcome = await ACTS[what](runtime, BAD[kind])
        except HoldfastError:
            outcome = None  # refused with a message
        if isinstance(outcome, Result):
            assert outcome.failure is not Failure.INTERNAL, (kind, outcome.error)
        assert (await runtime.approve(before.call_id)).success, "other calls are not affected"

    for kind in BAD:
        run(session(kind))
    assert runtime.ledger is not None
    _is_readable(runtime.ledger)
    with Ledger.open(runtime.ledger.path, read_only=True) as again:
        _is_readable(again)


@pytest.mark.spec("X10")
def test_integers_are_converted_to_text(tmp_path: Path) -> None:
    note, _ = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    run(runtime.call("note", {"text": "x"}, request=7, given_id=8, caller=Caller(session=9, agent=10)))  # pyright: ignore[reportArgumentType]
    (pending,) = runtime_in(tmp_path).pending.list()
    caller = pending.call.caller
    assert (pending.call.request, pending.call.given_id, caller.session, caller.agent) == ("7", "8", "9", "10")


@pytest.mark.spec("X10")
def test_a_refused_call_has_an_id_and_a_result(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note)
    given = runtime.pipeline.new_call_id()
    result = run(runtime.call("note", {"text": "x"}, call_id=given, request=b"x"))  # pyright: ignore[reportArgumentType]
    assert (result.state, result.call_id) == (State.INVALID, given)
    assert result.error == "The request of a call must be text, not bytes."
    assert seen == []
    assert runtime.ledger is not None
    assert runtime.ledger.call(given).state is State.INVALID


def _nested(depth: int) -> Any:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def _cyclic() -> Any:
    value: list[Any] = []
    value += [value, {"again": value}]
    return value


NOT_JSON: dict[str, Any] = {
    "a key with half a surrogate pair": {"\ud800": 1},
    "text with half a surrogate pair": ["\ud800"],
    "a key that is None": {None: 1},
    "a key that is a number": {1: 2},
    "a key that is a bool": {True: 1},
    "a cyclic list": _cyclic(),
    "300 levels": _nested(300),
    "100,000 levels": _nested(100_000),
    "nan": [float("nan")],
    "infinity": {"x": float("-inf")},
    "bytes": [b"x"],
    "a set": [{"x"}],
    "an object": [object()],
}


@pytest.mark.spec("X10")
@pytest.mark.parametrize("what", NOT_JSON)
def test_an_edit_that_is_not_json_is_refused_and_the_call_stays_pending(tmp_path: Path, what: str) -> None:
    tool = Tool(name="open", execute=_giving(Result(True)), effects=frozenset({"external"}))
    runtime = runtime_in(tmp_path, tool, nobody="pending")
    bad = NOT_JSON[what]
    given: list[Any] = [{"x": bad}, {"y": [{}], "x": {"z": bad}}, *([bad] if isinstance(bad, dict) else [])]

    async def session() -> None:
        pending = await runtime.call("open", {"x": 1})
        for args in given:
            with pytest.raises(CallError, match="The new arguments cannot be used: "):
                await runtime.approve(pending.call_id, args=args)
            with pytest.raises(CallError):
                await runtime.lifecycle.edit(runtime.pending.list()[0], args, by="ann")
        assert [item.call.args for item in runtime.pending.list()] == [{"x": 1}]
        refused = await runtime.call("open", {"x": bad})
        assert refused.state is State.INVALID
        assert (await runtime.approve(pending.call_id)).success

    run(session())


@pytest.mark.spec("X10")
def test_a_used_call_id_is_refused_without_a_traceback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    other = runtime_in(tmp_path, note, nobody="pending")

    async def session() -> None:
        first = await runtime.call("note", {"text": "first"}, call_id="mine")
        assert (first.state, first.call_id) == (State.PENDING, "mine")
        both = [runtime.call("note", {"text": "second"}, call_id=given) for given in ("mine", "new", "new")]
        for again in (both[0], both[2], other.call("note", {"text": "third"}, call_id="mine")):
            refused = await again
            assert (refused.state, refused.failure) == (State.INVALID, Failure.INVALID_ARGUMENTS)
            assert refused.call_id not in ("mine", "new")
            assert "is already used by another call" in (refused.error or "")
        assert (await both[1]).state is State.PENDING
        assert (await runtime.approve("mine")).success

    run(session())
    assert [args["text"] for args in seen] == ["first"]
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.spec("X10")
@pytest.mark.parametrize(
    "given",
    ["$(id)", "a;id", "`rm`", "\u2800", "a" + "\u0301" * 100, "a b", "", "é", "x" * 201, "a/b", "a'b", '"', "-rf",
     "--yes", "~", "*", "a\n", "a\\", "#", "!!", "{a,b}", "<x", "٣"],
)  # fmt: skip
def test_a_call_id_with_shell_characters_is_refused_with_the_rule(tmp_path: Path, given: str) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note)
    refused = run(runtime.call("note", {"text": "x"}, call_id=given))
    assert refused.state is State.INVALID and refused.call_id != given and seen == []
    assert "1 to 200 characters of A-Z, a-z, 0-9 and . _ : -" in (refused.error or "")


@pytest.mark.spec("X10")
@pytest.mark.parametrize("given", ["a", "toolu_01A.b:c-d", "x" * 200, "7", "call_abc-1"])
def test_a_valid_call_id_is_used(tmp_path: Path, given: str) -> None:
    note, _ = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    assert run(runtime.call("note", {"text": "x"}, call_id=given)).call_id == given


@pytest.mark.spec("X10")
def test_a_runtime_with_an_invalid_caller_is_refused() -> None:
    with pytest.raises(HoldfastError, match="agent of a caller"):
        Runtime(caller=Caller(agent="x" * 100_000))


@pytest.mark.spec("A12")
def test_an_empty_digest_is_not_the_same_as_none(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    pending = run(runtime.call("note", {"text": "x"}))
    with pytest.raises(StaleApproval):
        run(runtime.approve(pending.call_id, digest=""))
    assert seen == []


@pytest.mark.spec("X10")
def test_a_value_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.db") as ledger:
        call = Call("c1", "note", "note", {}, Caller(session=5), "/", request="r")  # pyright: ignore[reportArgumentType]
        with pytest.raises(LedgerUnavailable, match="could not be read back"):
            ledger.record_call_now(call, Decision(Verdict.APPROVE, "x", "y"), Result(True))
        with pytest.raises(LedgerUnavailable):
            ledger.encode_body(CallEnded(Result(True, state="odd")))  # pyright: ignore[reportArgumentType]
        assert ledger.calls() == []
        assert ledger.verify().entries == 0


@pytest.mark.spec("X10")
def test_a_folder_with_a_name_that_is_not_utf8_can_be_used(tmp_path: Path) -> None:
    odd = tmp_path / "odd\udcff"
    odd.mkdir()
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note, nobody="wait")

    async def session() -> Result:
        pending, task = await until_pending(runtime, runtime.call("note", {"text": "x"}, cwd=str(odd)))
        await runtime.lifecycle.answer(pending.call.id, Answer(kind="approve", by="ann"))
        return await task

    assert run(session()).success
    assert len(seen) == 1
