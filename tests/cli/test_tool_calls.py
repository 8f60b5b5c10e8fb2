"""Calls of commands that wrap tools: a pending call is shown, and a refusal says what would allow the call."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.tool_calls import ToolCalls, run_calls
from holdfast.config.config import Config, ToolsConfig
from holdfast.contract.result import Result
from tests.runtime.support import recorder, runtime_in


def shown(folder: Path, capsys: pytest.CaptureFixture[str], **options: object) -> tuple[int, str]:
    note, seen = recorder()
    runtime = runtime_in(folder, note, **options)

    async def work(calls: ToolCalls) -> int:
        result: Result = await calls.make("note", text="hello")
        return calls.show(result, "note")

    code = run_calls(ToolCalls(runtime, as_json=False), work)
    assert not seen
    return code, capsys.readouterr().err


@pytest.mark.spec("E1a")
def test_a_call_that_needs_approval_is_left_pending_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, err = shown(tmp_path, capsys, nobody="pending")
    assert code == 4 and "hello" in err and "holdfast approve" in err


@pytest.mark.spec("E1a")
def test_a_refused_call_names_the_rule_that_refuses_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, err = shown(tmp_path, capsys, config=Config(tools=ToolsConfig(deny=("note",))))
    assert code == 3 and "is not allowed by tool policy" in err and "deny" in err
