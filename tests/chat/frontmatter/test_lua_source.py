"""Frontmatter in Lua: a function as a resolver of the approval chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.chat.lua.host import LuaHost, LuaLimits
from holdfast.contract.call import Caller, Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.tool import Tool
from holdfast.rules.chain import ApprovalRequest, ResolveContext
from tests.chat.frontmatter.frontmatter_project import TOOLS, FrontmatterProject, lua_document, without_diagnostics

BY_NAME = {tool.name: tool for tool in TOOLS}


def approval_request(tool: Tool, call_id: str = "c1", **args: Any) -> ApprovalRequest:
    return ApprovalRequest(
        tool=tool, args=args, call_id=call_id, name_used=tool.name, cwd="", caller=Caller(),
        risk=tool.risk, paths=(), root=None, session="",
    )  # fmt: skip


@pytest.mark.spec("A5", "A2")
@pytest.mark.parametrize(
    ("answer", "trusted", "untrusted"),
    [
        ("true", "approve", "ask"),
        ("false", "ask", "ask"),
        ('"deny"', "deny", "deny"),
        ("nil", "ask", "ask"),
        ('"approve"', "approve", "ask"),
        ('"require_approval"', "ask", "ask"),
        ('"yes"', "ask", "ask"),
        ("{}", "ask", "ask"),
        ("error('no')", "ask", "ask"),
    ],
)
def test_a_function_decides_about_shell_commands(
    lua: LuaHost, tmp_path: Path, answer: str, trusted: str, untrusted: str
) -> None:
    place = FrontmatterProject(tmp_path)
    document = without_diagnostics(
        lua_document(f"flemma.opt.tools.auto_approve = function() return {answer} end", lua, place)
    )
    assert place.verdicts(document, trusted=True, calls="bash") == trusted
    assert place.verdicts(document, trusted=False, calls="bash") == untrusted


@pytest.mark.spec("A5")
def test_a_function_receives_flemmas_tool_name_the_arguments_and_the_call_id(lua: LuaHost) -> None:
    code = """
        flemma.opt.tools.auto_approve = function(tool, input, ctx)
          error(table.concat({ tool, input.path, input.deep.list[2], ctx.tool_id, ctx.call_id, ctx.bufnr }, " "))
        end
    """
    approve = without_diagnostics(lua_document(code, lua)).approve
    assert approve is not None
    asked = approval_request(BY_NAME["file.read"], "call-7", path="ä.txt", deep={"list": [1, 2**70]}, none=None)
    answer = approve("file.read", asked.args, ResolveContext(asked, 3))
    assert isinstance(answer, Decision) and answer.verdict is Verdict.ASK
    assert "read ä.txt 1.1805916207174e+21 call-7 call-7 3" in answer.reason and "(line 4)" in answer.reason


@pytest.mark.spec("A5", "D6")
def test_an_endless_function_asks_and_can_be_called_again(tmp_path: Path) -> None:
    place = FrontmatterProject(tmp_path)
    code = """
        local calls = 0
        flemma.opt.tools.auto_approve = function(tool, input)
          if tool == "bash" then while true do pcall(error) end end
          return true
        end
    """
    with LuaHost(LuaLimits(call=0.2)) as host:
        document = without_diagnostics(lua_document(code, host, place))
        before = host.pid
        assert place.verdicts(document, trusted=True, calls="read bash read") == "approve ask approve"
        assert host.pid != before
