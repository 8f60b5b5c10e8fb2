"""A dry run returns the decision of the call, records nothing and fetches no secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Deny, Proposal, Risk, Runtime, Tool, Verdict
from holdfast.config.config import SandboxConfig, SecretSource
from holdfast.contract.call import Caller
from holdfast.tools import builtin_tools
from tests.runtime.support import recorder, run, runtime_in


def _project(folder: Path, **options: Any) -> Runtime:
    runtime = runtime_in(folder, *builtin_tools(), **options)
    (folder / "project" / "notes.txt").write_text("one\n")
    (folder / "project" / "secret.txt").write_text("hidden\n")
    return runtime


@pytest.mark.spec("A22")
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("file.read", {"path": "/etc/passwd"}),
        ("file.read", {"path": "../outside.txt"}),
        ("file.read", {"path": "missing.txt"}),
        ("file.read", {"path": "secret.txt"}),
        ("file.list", {"path": "/etc"}),
        ("file.find", {"pattern": "*.py", "path": "/etc"}),
        ("code.search", {"query": "root", "path": "/etc"}),
        ("file.write", {"path": "../x.txt", "content": "x"}),
    ],
)
def test_a_path_the_tool_refuses_is_denied_with_the_same_reason_as_the_call(
    tmp_path: Path, tool: str, args: dict[str, Any]
) -> None:
    denied = SandboxConfig(read_deny=(str(tmp_path / "project" / "secret.txt"),))
    runtime = _project(tmp_path, config=Config(sandbox=denied))
    told = run(runtime.judge(tool, args))
    explained = run(runtime.explain(tool, args))
    met = run(runtime.call(tool, args))
    assert not met.success
    assert (told.verdict, told.reason) == (Verdict.DENY, met.error)
    assert explained.decision == told


@pytest.mark.spec("A22")
def test_a_call_that_would_run_is_approved_and_nothing_is_recorded(tmp_path: Path) -> None:
    runtime = _project(tmp_path)
    events = runtime.subscribe()
    assert run(runtime.judge("file.read", {"path": "notes.txt"})).verdict is Verdict.APPROVE
    assert run(runtime.judge("file.write", {"path": "new.txt", "content": "x"})).verdict is Verdict.APPROVE
    assert not (tmp_path / "project" / "new.txt").exists()
    assert runtime.ledger is not None and runtime.ledger.calls() == []
    assert events.take() == []


@pytest.mark.spec("A22")
def test_middleware_runs_in_a_dry_run(tmp_path: Path) -> None:
    note, _ = recorder()
    runtime = runtime_in(tmp_path, note)
    runtime.middleware_for("note", before=lambda args, ctx: Deny("not today") if args["text"] == "x" else None)
    told = run(runtime.judge("note", {"text": "x"}))
    assert (told.verdict, told.source, told.reason) == (Verdict.DENY, "before", "not today")
    assert run(runtime.judge("note", {"text": "y"})).verdict is Verdict.ASK


@pytest.mark.spec("A22")
def test_secret_scopes_are_checked_without_fetching_their_values(tmp_path: Path) -> None:
    fetched = tmp_path / "fetched"
    script = tmp_path / "fetch"
    script.write_text(f"#!/bin/sh\ntouch {fetched}\necho value\n")
    script.chmod(0o755)

    def propose(args: Any, ctx: Any) -> Proposal:
        assert ctx.dry_run
        return Proposal(tool_name="send", summary=ctx.secret("mail"), risk=Risk.LOW, payload={})

    send = Tool(name="send", propose=propose, apply=lambda payload, ctx: "sent", required_secret_scopes=("mail",))
    config = Config(secrets={"mail": SecretSource(command=(str(script),))})
    runtime = runtime_in(tmp_path, send, config=config)
    assert run(runtime.judge("send", {})).verdict is Verdict.ASK
    told = run(runtime.judge("send", {}, caller=Caller()))
    assert (told.verdict, told.source) == (Verdict.DENY, "secrets")
    assert not fetched.exists()


@pytest.mark.spec("A22")
def test_a_tool_cannot_make_calls_or_elicit_in_a_dry_run(tmp_path: Path) -> None:
    note, seen = recorder()

    async def propose(args: Any, ctx: Any) -> Any:
        await ctx.call("note", {"text": "x"})
        raise AssertionError("a nested call was made")

    outer = Tool(name="outer", propose=propose, apply=lambda payload, ctx: "done")
    runtime = runtime_in(tmp_path, note, outer)
    told = run(runtime.judge("outer", {}))
    assert told.verdict is Verdict.DENY and "dry run" in told.reason
    assert seen == []


@pytest.mark.spec("A10", "A22")
def test_explain_names_the_stage_that_ends_the_call(tmp_path: Path) -> None:
    runtime = _project(tmp_path)
    told = run(runtime.explain("file.read", {"path": 7}))
    (decided,) = [step for step in told.steps if step.decided]
    assert (decided.stage, decided.answer) == ("validate", "deny")
    told = run(runtime.explain("file.read", {"path": "/etc/passwd"}))
    (decided,) = [step for step in told.steps if step.decided]
    assert decided.stage == "run" and "/etc/passwd" in decided.reason
