from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.chat.frontmatter.evaluation import BROKEN_CAP, DOCUMENT_CAP, NO_FRONTMATTER
from holdfast.chat.lua.host import LuaHost, LuaLimits
from holdfast.contract.call import Caller, Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.tool import Tool
from holdfast.rules.chain import ApprovalRequest, ResolveContext
from holdfast.rules.from_config import standard_chain
from tests.chat.frontmatter.support import TOOLS, Place, clean, lua_document

BY_NAME = {tool.name: tool for tool in TOOLS}
NO_SHELL = "approval.presets.'$strict'.deny = ['shell.exec']\napproval.auto_approve = ['$default', '$strict']"


def approval_request(tool: Tool, call_id: str = "c1", **args: Any) -> ApprovalRequest:
    return ApprovalRequest(
        tool=tool, args=args, call_id=call_id, name_used=tool.name, cwd="", caller=Caller(),
        risk=tool.risk, paths=(), root=None, session="",
    )  # fmt: skip


@pytest.mark.spec("A2")
def test_in_a_trusted_document_the_configuration_answers_only_its_denials(lua: LuaHost, tmp_path: Path) -> None:
    place = Place(tmp_path, NO_SHELL)
    document = clean(lua_document('flemma.opt.tools.auto_approve = { "bash", "write" }', lua, place))
    assert place.verdicts(NO_FRONTMATTER, trusted=False) == "approve approve approve approve deny"
    assert place.verdicts(document, trusted=True) == "approve ask approve ask deny"


@pytest.mark.spec("A2")
def test_the_chain_of_a_trusted_document_is_config_then_frontmatter(lua: LuaHost, tmp_path: Path) -> None:
    place = Place(tmp_path)
    document = clean(lua_document('flemma.opt.tools.auto_approve = { "bash" }', lua, place))
    made = place.ruling(document, trusted=True)
    assert made.policy is not None and made.policy.outer == place.load().config.approval
    chain = standard_chain(made.config.approval, document=made.policy)
    said = [step.source for step in chain.judge(approval_request(BY_NAME["shell.exec"], command="ls")).steps]
    assert said == ["urn:holdfast:approval:config", "urn:holdfast:approval:frontmatter"]
    assert chain.judge(approval_request(BY_NAME["file.read"])).decision.verdict is Verdict.ASK


@pytest.mark.spec("A2")
def test_an_untrusted_document_can_only_narrow(lua: LuaHost, tmp_path: Path) -> None:
    place = Place(tmp_path)
    document = clean(lua_document('flemma.opt.tools.auto_approve = { "bash", "write" }', lua, place))
    assert place.verdicts(document, trusted=False) == "approve ask approve ask ask"
    assert place.ruling(document, trusted=False).policy is None


@pytest.mark.spec("A2", "A7")
def test_an_untrusted_removal_counts_at_once(lua: LuaHost, tmp_path: Path) -> None:
    place = Place(tmp_path)
    document = clean(lua_document('flemma.opt.tools.auto_approve:remove("write_file")', lua, place))
    assert place.verdicts(document, trusted=False) == "approve approve ask approve ask"


@pytest.mark.spec("A7")
def test_one_spelling_of_a_tool_brings_back_what_another_took_away(lua: LuaHost, tmp_path: Path) -> None:
    place = Place(tmp_path, "approval.auto_approve = {remove = ['write']}")
    document = clean(lua_document('flemma.opt.tools.auto_approve:append("file.write")', lua, place))
    assert place.verdicts(NO_FRONTMATTER, trusted=False, calls="write") == "ask"
    assert place.verdicts(document, trusted=True, calls="write") == "approve"
    assert place.verdicts(document, trusted=False, calls="write") == "ask"


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
def test_what_a_function_answers_about_the_shell(
    lua: LuaHost, tmp_path: Path, answer: str, trusted: str, untrusted: str
) -> None:
    place = Place(tmp_path)
    document = clean(lua_document(f"flemma.opt.tools.auto_approve = function() return {answer} end", lua, place))
    assert place.verdicts(document, trusted=True, calls="bash") == trusted
    assert place.verdicts(document, trusted=False, calls="bash") == untrusted


@pytest.mark.spec("A5", "A2")
@pytest.mark.parametrize(
    ("answer", "verdict"),
    [("true", "approve"), ("nil", "approve"), ("false", "ask"), ('"deny"', "deny"), ("error('no')", "ask")],
)
def test_an_untrusted_function_takes_away_what_the_configuration_gives(
    lua: LuaHost, tmp_path: Path, answer: str, verdict: str
) -> None:
    place = Place(tmp_path)
    document = clean(lua_document(f"flemma.opt.tools.auto_approve = function() return {answer} end", lua, place))
    assert place.verdicts(document, trusted=False, calls="read") == verdict
    assert [cap.name for cap in place.ruling(document, trusted=False).caps] == [DOCUMENT_CAP]


@pytest.mark.spec("A5")
def test_a_function_is_told_the_seed_name_the_arguments_and_the_call(lua: LuaHost) -> None:
    code = """
        flemma.opt.tools.auto_approve = function(tool, input, ctx)
          error(table.concat({ tool, input.path, input.deep.list[2], ctx.tool_id, ctx.call_id, ctx.bufnr }, " "))
        end
    """
    approve = clean(lua_document(code, lua)).approve
    assert approve is not None
    asked = approval_request(BY_NAME["file.read"], "call-7", path="ä.txt", deep={"list": [1, 2**70]}, none=None)
    answer = approve("file.read", asked.args, ResolveContext(asked, 3))
    assert isinstance(answer, Decision) and answer.verdict is Verdict.ASK
    assert "read ä.txt 1.1805916207174e+21 call-7 call-7 3" in answer.reason and "(line 4)" in answer.reason


@pytest.mark.spec("A5", "D6")
def test_a_function_that_never_ends_asks_and_can_be_called_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    code = """
        local calls = 0
        flemma.opt.tools.auto_approve = function(tool, input)
          if tool == "bash" then while true do pcall(error) end end
          return true
        end
    """
    with LuaHost(LuaLimits(call=0.2)) as host:
        document = clean(lua_document(code, host, place))
        before = host.pid
        assert place.verdicts(document, trusted=True, calls="read bash read") == "approve ask approve"
        assert host.pid != before


@pytest.mark.spec("A5")
def test_a_template_cannot_reach_what_a_function_decides_by(lua: LuaHost, tmp_path: Path) -> None:
    place = Place(tmp_path)
    code = """
        allowed = { bash = false }
        flemma.opt.tools.auto_approve = function(tool) return allowed[tool] end
    """
    document = clean(lua_document(code, lua, place))
    assert document.script is not None
    pieces = [{"kind": "code", "text": "", "code": "allowed.bash = true string.match = nil", "line": 1}]
    request: dict[str, Any] = {"pieces": pieces, "variables": {}, "frontmatter": document.script.code}
    request |= document.script.options
    assert lua.expand(request, lambda question: {})["ok"]
    assert place.verdicts(document, trusted=True, calls="bash") == "ask"


@pytest.mark.spec("A2", "D6")
def test_a_frontmatter_with_a_mistake_leaves_nothing_to_run_by_itself(lua: LuaHost, tmp_path: Path) -> None:
    place = Place(tmp_path)
    document = lua_document('flemma.opt.tools.auto_approve = { "$default", "raed" }', lua, place)
    assert document.failed
    assert [cap.name for cap in place.ruling(document, trusted=True).caps] == [BROKEN_CAP]
    for trusted in (True, False):
        assert place.verdicts(document, trusted=trusted) == "ask ask ask ask ask"


@pytest.mark.spec("A8", "A5")
def test_a_function_that_returns_nothing_does_not_let_the_sandbox_approve(lua: LuaHost, tmp_path: Path) -> None:
    place = Place(tmp_path)
    document = clean(lua_document("flemma.opt.tools.auto_approve = function() end", lua, place))
    assert not place.ruling(document, trusted=True).config.approval.auto_approve_sandboxed
