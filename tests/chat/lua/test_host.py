"""The Lua host: exact arguments for functions, invalid frames, CPU limits and restarts."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from holdfast.chat.frontmatter.evaluation import Baseline
from holdfast.chat.frontmatter.evaluator import evaluate
from holdfast.chat.lua.host import LuaError, LuaHost, LuaWorker, Script
from holdfast.contract.tool import Tool
from tests.chat.frontmatter.frontmatter_project import (
    FrontmatterProject,
    lua_document,
    only_diagnostic,
    without_diagnostics,
)

ROOT = Path(__file__).parents[3]
DEEP = b"[" * 100_000
NOTHING: dict[str, Any] = {"values": {}, "readable": {}}
CAREFUL = Script(
    """
    flemma.opt.tools.auto_approve = function(tool, args, ctx)
        for _, path in ipairs(args.paths or {}) do
            if path:find("^/etc") then return "deny" end
        end
        return args.count == nil or args.count < 10
    end
    """,
    NOTHING,
)


def deep(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.spec("A5")
@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"paths": ["ok", None, "/etc/shadow"]}, "a list in its arguments holds null"),
        ({"more": {"paths": [["ok", None]]}}, "a list in its arguments holds null"),
        ({"count": 10**300}, "too large for Lua"),
        ({"count": -(10**400)}, "too large for Lua"),
        ({"count": 2**63 + 1}, "too large for Lua"),
        ({"count": float("inf")}, "not finite"),
        ({"counts": [float("nan")]}, "not finite"),
        ({"paths": ["\ud800"]}, "not UTF-8"),
        ({"\udcff": "x"}, "not UTF-8"),
        ({"paths": deep(100_000)}, "nested too deeply"),
    ],
    ids=["null", "null within", "large", "very large", "not exact", "infinite", "nan", "half", "bytes", "deep"],
)
def test_a_function_is_not_called_with_arguments_that_lua_cannot_represent(
    lua: LuaHost, args: dict[str, Any], why: str
) -> None:
    with pytest.raises(LuaError, match=why):
        lua.call(CAREFUL, 1, "x", args, {})


@pytest.mark.spec("A5")
@pytest.mark.parametrize(
    ("args", "answer"),
    [
        ({"paths": ["ok", "fine"], "count": 3}, True),
        ({"paths": ["ok", "/etc/shadow"]}, "deny"),
        ({"paths": None, "count": None}, True),
        ({"count": 2**63}, False),
        ({"count": 1e308}, False),
        ({"count": -(2**63)}, True),
    ],
)
def test_a_function_is_called_with_representable_arguments(lua: LuaHost, args: dict[str, Any], answer: object) -> None:
    assert lua.call(CAREFUL, 1, "x", args, {}) == answer


@pytest.mark.spec("A5")
def test_a_call_with_unrepresentable_arguments_needs_approval_also_in_a_trusted_document(
    lua: LuaHost, tmp_path: Path
) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(
        lua_document("flemma.opt.tools.auto_approve = function() return true end", lua, project)
    )

    async def execute(args: Any) -> str:
        return ""

    schema = {"type": "object", "properties": {"paths": {"type": "array"}}}
    tool = Tool(name="many", execute=execute, input_schema=schema)

    async def judge(args: dict[str, Any]) -> tuple[str, str]:
        async with project.runtime(document, trusted=True) as runtime:
            runtime.register(tool)
            decision = await runtime.judge("many", args)
        assert decision is not None
        return str(decision.verdict), decision.reason

    assert asyncio.run(judge({"paths": ["a"]}))[0] == "approve"
    verdict, reason = asyncio.run(judge({"paths": ["a", None]}))
    assert verdict == "ask" and reason.endswith("where Lua would see the list end, so the call needs approval.")


@pytest.mark.spec("D6", "D8")
@pytest.mark.parametrize(
    ("language", "code", "problem"),
    [
        ("toml", "[vars]\na = 1\nb = nan", "vars.b"),
        ("toml", "[vars]\na = 1\nb = [{ c = -inf }]", "vars.b"),
        ("toml", f"[vars]\na = 1\nb = {10**400}", "vars.b"),
        ("json", f'{{\n"a": 1,\n"b": [{10**400}]}}', "b"),
    ],
)
def test_a_variable_that_lua_cannot_represent_is_an_error(lua: LuaHost, language: str, code: str, problem: str) -> None:
    found = only_diagnostic(evaluate(language, code, Baseline(), lua))
    assert (found.severity, found.line) == ("error", 4)
    assert found.message == f"{problem}: it contains a number that Lua cannot represent. Use a finite number, or text."


@pytest.mark.spec("D8")
def test_large_integers_among_the_variables_become_floats(lua: LuaHost) -> None:
    pieces = [{"kind": "expression", "text": "x", "code": "string.format('%.0f %s', n, x)", "line": 1}]
    request = {"pieces": pieces, "variables": {"n": 2**70, "x": "y", "list": [2**64]}}
    assert lua.expand(request, dict)["parts"] == [f"{2**70} y"]
    with pytest.raises(LuaError, match="nested too deeply"):
        lua.expand({"pieces": pieces, "variables": {"x": deep(100_000)}}, dict)


@pytest.mark.spec("D6")
@pytest.mark.parametrize("frame", [b"=[]", b"=1", b"={", b"", b"=\xff", b"?7", b"=" + DEEP, b"?" + DEEP], ids=range(8))
def test_an_invalid_frame_is_an_error_and_kills_the_worker(monkeypatch: pytest.MonkeyPatch, frame: bytes) -> None:
    with LuaHost() as host:
        without_diagnostics(lua_document("x = 1", host))
        pid = host.pid
        assert pid is not None

        def receive(self: LuaWorker, deadline: float) -> bytes:
            return frame

        monkeypatch.setattr(LuaWorker, "receive", receive)
        assert "Make it simpler" in only_diagnostic(lua_document("x = 1", host)).message
        monkeypatch.undo()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        without_diagnostics(lua_document("x = 1", host))


@pytest.mark.spec("D6")
def test_a_forged_line_number_with_too_many_digits_stays_text(lua: LuaHost) -> None:
    found = only_diagnostic(lua_document(f"error('frontmatter:{'9' * 5000}: x', 0)", lua))
    assert found.message.startswith("The Lua frontmatter failed: frontmatter:999")


LOOPING = """
from holdfast.chat.lua.host import LuaHost, LuaLimits, Script

host = LuaHost(LuaLimits(frontmatter=300))
host.evaluate(Script("x = 1", {"values": {}, "readable": {}}))
print(host.pid, flush=True)
host.evaluate(Script("while true do end", {"values": {}, "readable": {}}))
"""


@pytest.mark.spec("D6")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_an_endless_loop_ends_with_the_parent_process() -> None:
    with subprocess.Popen([sys.executable, "-c", LOOPING], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        watched = os.pidfd_open(child)
        try:
            parent.kill()
            parent.wait()
            assert select.select([watched], [], [], 5)[0]
        finally:
            os.close(watched)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


@pytest.mark.spec("D6")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_one_request_may_use_ten_seconds_of_cpu_time() -> None:
    with LuaHost() as host:
        without_diagnostics(lua_document("x = 1", host))
        limits = Path(f"/proc/{host.pid}/limits").read_text()
    [soft] = [int(line.split()[-3]) for line in limits.splitlines() if "Max cpu time" in line]
    assert 10 <= soft <= 15


@pytest.mark.spec("D6")
@pytest.mark.skipif(sys.platform != "linux", reason="waits for a process that is not waited for")
def test_a_worker_that_exited_between_two_requests_is_replaced() -> None:
    """On Linux the parent-death signal also fires when the starting thread ends."""
    with LuaHost() as host:
        thread = Thread(target=lambda: host.evaluate(CAREFUL))
        thread.start()
        thread.join()
        first = host.pid
        assert first is not None
        watched = os.pidfd_open(first)
        assert select.select([watched], [], [], 20)[0]
        os.close(watched)
        assert host.call(CAREFUL, 1, "x", {"count": 3}, {}) is True
        assert host.pid not in (None, first)
