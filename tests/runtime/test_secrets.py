"""Secrets: granted, fetched when used, and redacted everywhere."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from holdfast import Caller, Config, Runtime, State, Tool
from holdfast.config.config import SecretSource
from holdfast.contract.enums import Failure
from holdfast.contract.event import Output
from holdfast.runtime.workspace import Workspace
from tests.runtime.support import open_ledger, recorder, run, runtime_in

VALUE = 'hunter2-"quoted"-värde'


def _runtime(folder: Path, execute: Any, scopes: tuple[str, ...] = ("api",), **source: Any) -> Runtime:
    config = Config(secrets={"api": SecretSource(**(source or {"env": "HOLDFAST_TEST_API"}))})
    uses = Tool(name="uses", execute=execute, effects=frozenset(), required_secret_scopes=scopes)
    return Runtime(tools=[uses], config=config, ledger=open_ledger(folder))


async def _leaky(args: Any, ctx: Any) -> dict[str, str]:
    value = ctx.secret("api")
    ctx.stream(value[:7])
    ctx.stream(value[7:])
    return {"plain": value, "encoded": base64.b64encode(value.encode()).decode(), "safe": "public"}


@pytest.mark.spec("P7")
def test_a_value_never_appears_in_results_events_or_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_API", VALUE)
    runtime = _runtime(tmp_path, _leaky)

    async def main() -> tuple[Any, list[Any]]:
        with runtime.subscribe() as events:
            return await runtime.call("uses"), events.take()

    result, events = run(main())
    assert result.success
    assert result.structured["safe"] == "public"
    assert result.structured["plain"] == "[secret api]"
    streamed = "".join(event.text for event in events if isinstance(event, Output))
    raw = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for form in (VALUE, VALUE.replace('"', '\\"'), base64.b64encode(VALUE.encode()).decode()):
        assert form not in repr(result)
        assert form not in streamed
        assert form.encode() not in raw
    assert b"[secret api]" in raw


@pytest.mark.spec("P7")
def test_a_scope_the_caller_was_not_granted_refuses_the_call(tmp_path: Path) -> None:
    runtime = _runtime(tmp_path, _leaky)
    result = run(runtime.call("uses", caller=Caller(scopes=frozenset({"other"}))))
    assert (result.state, result.failure) == (State.DENIED, Failure.SECRET_UNAVAILABLE)
    assert "needs the secret 'api'" in (result.error or "")


@pytest.mark.spec("P7")
def test_a_tool_gets_only_the_secrets_it_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_API", VALUE)
    result = run(_runtime(tmp_path, _leaky, scopes=()).call("uses"))
    assert "did not declare the secret 'api'" in (result.error or "")


@pytest.mark.spec("P7")
def test_a_secret_comes_from_a_command_when_it_is_used(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    script = f"echo x >> {counter}; echo from-a-command"

    async def execute(args: Any, ctx: Any) -> int:
        return len(ctx.secret("api"))

    runtime = _runtime(tmp_path / "state", execute, command=("sh", "-c", script))
    assert not counter.exists()
    assert run(runtime.call("uses")).structured == len("from-a-command")
    assert counter.read_text() == "x\n"


@pytest.mark.spec("P7")
def test_a_secret_without_a_value_or_source_is_an_error_that_names_the_fix(tmp_path: Path) -> None:
    missing = run(_runtime(tmp_path / "a", _leaky, env="HOLDFAST_TEST_NOT_SET").call("uses"))
    assert "has no value" in (missing.error or "")
    failing = run(_runtime(tmp_path / "b", _leaky, command=("false",)).call("uses"))
    assert "command for the secret 'api' failed" in (failing.error or "")


@pytest.mark.spec("P7", "A12")
def test_a_pending_call_with_a_redacted_argument_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_API", VALUE)
    seen: list[Any] = []

    async def execute(args: Any, ctx: Any) -> str:
        ctx.secret("api")
        seen.append(args)
        return "ok"

    def runtime() -> Runtime:
        config = Config(secrets={"api": SecretSource(env="HOLDFAST_TEST_API")})
        uses = Tool(name="uses", execute=execute, effects=frozenset({"external"}), required_secret_scopes=("api",))
        return Runtime(
            tools=[uses],
            config=config,
            ledger=open_ledger(tmp_path),
            nobody="pending",
            workspace=Workspace(cwd=str(tmp_path)),
        )

    first = runtime()
    first.secrets.get("api")
    pending = run(first.call("uses", {"token": VALUE}))
    again = runtime()
    result = run(again.approve(pending.call_id))
    assert (result.state, result.failure) == (State.FAILED, Failure.STALE)
    assert "held a secret" in (result.error or "")
    assert again.pending.list() == []
    assert seen == []


@pytest.mark.spec("P7")
def test_a_preview_is_redacted_before_it_is_truncated(tmp_path: Path) -> None:
    secret = "hunter2hunter2" * 4
    note, _ = recorder()

    async def work() -> str:
        async with runtime_in(tmp_path, note, nobody="pending") as runtime:
            runtime.redactor.add("api", secret)
            await runtime.call("note", {"text": "x" * 120 + secret})
            return runtime.pending.list()[0].preview

    assert "hunter2" not in run(work())
