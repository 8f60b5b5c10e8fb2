"""Grants: narrow, scoped, listed, revoked, and never for a command tool as a whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import PendingCall, Result, Runtime, State, Tool
from holdfast.contract.errors import GrantRefused
from holdfast.rules.grants import narrow_grant
from tests.runtime.support import recorder, run, runtime_in


def _held(runtime: Runtime, name: str, args: dict[str, Any]) -> PendingCall:
    result = run(runtime.call(name, args))
    assert result.state is State.PENDING, result
    return next(pending for pending in runtime.pending.list() if pending.call.id == result.call_id)


@pytest.mark.spec("A12")
def test_a_grant_covers_exactly_the_call_it_was_given_for(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    run(runtime.allow(_held(runtime, "note", {"text": "daily"}), "project", by="ann"))
    assert run(runtime.call("note", {"text": "daily"})).state is State.DONE
    assert run(runtime.call("note", {"text": "other"})).state is State.PENDING
    changed = runtime_in(tmp_path, note.with_(description="Something else."), nobody="pending")
    assert run(changed.call("note", {"text": "daily"})).state is State.PENDING
    assert seen == [{"text": "daily"}]


@pytest.mark.spec("A12")
def test_a_grant_for_once_is_used_once_even_in_a_race(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    run(runtime.allow(_held(runtime, "note", {"text": "x"}), "once", by="ann"))

    async def main() -> list[Result]:
        return await asyncio.gather(*(runtime.call("note", {"text": "x"}) for _ in range(10)))

    states = [result.state for result in run(main())]
    assert states.count(State.DONE) == 1
    assert states.count(State.PENDING) == 9
    assert len(seen) == 1


@pytest.mark.spec("A12")
def test_a_grant_ends_with_its_scope(tmp_path: Path) -> None:
    note, _ = recorder()
    first = runtime_in(tmp_path, note, nobody="pending")
    run(first.allow(_held(first, "note", {"text": "session"}), "session", by="ann"))
    run(first.allow(_held(first, "note", {"text": "project"}), "project", by="ann"))
    assert run(first.call("note", {"text": "session"})).state is State.DONE
    second = runtime_in(tmp_path, note, nobody="pending")
    assert run(second.call("note", {"text": "session"})).state is State.PENDING
    assert run(second.call("note", {"text": "project"})).state is State.DONE


@pytest.mark.spec("A12")
def test_grants_are_listed_and_revoked(tmp_path: Path) -> None:
    note, _ = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    grant = run(runtime.allow(_held(runtime, "note", {"text": "x"}), "project", by="ann"))
    assert runtime.ledger is not None
    assert [(item.id, item.by, item.scope) for item in runtime.ledger.grants.list()] == [(grant.id, "ann", "project")]
    assert runtime.ledger.grants.revoke(grant.id, by="bob")
    assert run(runtime.call("note", {"text": "x"})).state is State.PENDING
    assert runtime.ledger.verify().ok


@pytest.mark.parametrize("command", ["python -c 1", "bash -c x", "sudo ls", "env x", "/usr/bin/python3 x", "git push"])
@pytest.mark.spec("A12")
def test_a_tool_that_runs_commands_is_never_granted_as_a_whole(tmp_path: Path, command: str) -> None:
    async def execute(args: Any) -> str:
        return "ran"

    shell = Tool(name="shell", execute=execute, effects=frozenset({"process"}))
    unknown = Tool(name="unknown", execute=execute)
    runtime = runtime_in(tmp_path, shell, unknown, nobody="pending")
    for name in ("shell", "unknown"):
        pending = _held(runtime, name, {"command": command})
        for width in ("tool", "folder"):
            with pytest.raises(GrantRefused, match="Allow exactly this"):
                run(runtime.allow(pending, "project", width=width))
        run(runtime.allow(pending, "project"))
        assert run(runtime.call(name, {"command": command})).state is State.DONE
        assert run(runtime.call(name, {"command": f"{command} more"})).state is State.PENDING


@pytest.mark.spec("A12", "A18")
def test_a_grant_does_not_override_a_cap_and_is_refused_if_a_cap_always_asks(tmp_path: Path) -> None:
    async def execute(args: Any) -> str:
        return "written"

    writer = Tool(
        name="writer", execute=execute, effects=frozenset({"fs.write"}), touches=lambda args: [str(args["path"])]
    )
    runtime = runtime_in(tmp_path, writer, nobody="pending")
    pending = _held(runtime, "writer", {"path": ".git/config"})
    with pytest.raises(GrantRefused, match="needs approval every time"):
        run(runtime.allow(pending, "project"))
    assert runtime.approvals.grants is not None
    runtime.approvals.grants.add(
        narrow_grant(runtime.approvals.approval_request(writer, pending.call, None), "project", "ann")
    )
    result = run(runtime.call("writer", {"path": ".git/config"}))
    assert result.state is State.PENDING
