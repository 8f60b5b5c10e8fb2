from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.chat.frontmatter.evaluation import BROKEN_CAP, DOCUMENT_CAP, NO_FRONTMATTER
from holdfast.chat.lua.host import LuaHost
from holdfast.contract.call import Caller
from holdfast.contract.enums import Verdict
from holdfast.contract.tool import Tool
from holdfast.rules.chain import ApprovalRequest
from holdfast.rules.from_config import standard_chain
from tests.chat.frontmatter.frontmatter_project import TOOLS, FrontmatterProject, lua_document, without_diagnostics

BY_NAME = {tool.name: tool for tool in TOOLS}
NO_SHELL = "approval.presets.'$strict'.deny = ['shell.exec']\napproval.auto_approve = ['$default', '$strict']"


def approval_request(tool: Tool, call_id: str = "c1", **args: Any) -> ApprovalRequest:
    return ApprovalRequest(
        tool=tool, args=args, call_id=call_id, name_used=tool.name, cwd="", caller=Caller(),
        risk=tool.risk, paths=(), root=None, session="",
    )  # fmt: skip


@pytest.mark.spec("A2")
def test_in_a_trusted_document_only_denials_of_the_configuration_apply(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path, NO_SHELL)
    document = without_diagnostics(lua_document('flemma.opt.tools.auto_approve = { "bash", "write" }', lua, project))
    assert project.verdicts(NO_FRONTMATTER, trusted=False) == "approve approve approve approve deny"
    assert project.verdicts(document, trusted=True) == "approve ask approve ask deny"


@pytest.mark.spec("A2")
def test_the_chain_of_a_trusted_document_is_config_then_frontmatter(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(lua_document('flemma.opt.tools.auto_approve = { "bash" }', lua, project))
    made = project.rules(document, trusted=True)
    assert made.policy is not None and made.policy.outer == project.load().config.approval
    chain = standard_chain(made.config.approval, document=made.policy)
    said = [step.source for step in chain.judge(approval_request(BY_NAME["shell.exec"], command="ls")).steps]
    assert said == ["urn:holdfast:approval:config", "urn:holdfast:approval:frontmatter"]
    assert chain.judge(approval_request(BY_NAME["file.read"])).decision.verdict is Verdict.ASK


@pytest.mark.spec("A2")
def test_an_untrusted_document_can_only_narrow(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(lua_document('flemma.opt.tools.auto_approve = { "bash", "write" }', lua, project))
    assert project.verdicts(document, trusted=False) == "approve ask approve ask ask"
    assert project.rules(document, trusted=False).policy is None


@pytest.mark.spec("A2", "A7")
def test_an_untrusted_removal_applies_at_once(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(lua_document('flemma.opt.tools.auto_approve:remove("write_file")', lua, project))
    assert project.verdicts(document, trusted=False) == "approve approve ask approve ask"


@pytest.mark.spec("A7")
def test_any_spelling_of_a_tool_name_restores_what_another_removed(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path, "approval.auto_approve = {remove = ['write']}")
    document = without_diagnostics(lua_document('flemma.opt.tools.auto_approve:append("file.write")', lua, project))
    assert project.verdicts(NO_FRONTMATTER, trusted=False, calls="write") == "ask"
    assert project.verdicts(document, trusted=True, calls="write") == "approve"
    assert project.verdicts(document, trusted=False, calls="write") == "ask"


@pytest.mark.spec("A5", "A2")
@pytest.mark.parametrize(
    ("answer", "verdict"),
    [("true", "approve"), ("nil", "approve"), ("false", "ask"), ('"deny"', "deny"), ("error('no')", "ask")],
)
def test_an_untrusted_function_can_revoke_what_the_configuration_approves(
    lua: LuaHost, tmp_path: Path, answer: str, verdict: str
) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(
        lua_document(f"flemma.opt.tools.auto_approve = function() return {answer} end", lua, project)
    )
    assert project.verdicts(document, trusted=False, calls="read") == verdict
    assert [cap.name for cap in project.rules(document, trusted=False).caps] == [DOCUMENT_CAP]


@pytest.mark.spec("A5")
def test_a_template_cannot_change_the_state_of_a_deciding_function(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    code = """
        allowed = { bash = false }
        flemma.opt.tools.auto_approve = function(tool) return allowed[tool] end
    """
    document = without_diagnostics(lua_document(code, lua, project))
    assert document.script is not None
    pieces = [{"kind": "code", "text": "", "code": "allowed.bash = true string.match = nil", "line": 1}]
    request: dict[str, Any] = {"pieces": pieces, "variables": {}, "frontmatter": document.script.code}
    request |= document.script.options
    assert lua.expand(request, lambda question: {})["ok"]
    assert project.verdicts(document, trusted=True, calls="bash") == "ask"


@pytest.mark.spec("A2", "D6")
def test_a_frontmatter_with_an_error_makes_every_call_ask(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    document = lua_document('flemma.opt.tools.auto_approve = { "$default", "raed" }', lua, project)
    assert document.failed
    assert [cap.name for cap in project.rules(document, trusted=True).caps] == [BROKEN_CAP]
    for trusted in (True, False):
        assert project.verdicts(document, trusted=trusted) == "ask ask ask ask ask"


@pytest.mark.spec("A8", "A5")
def test_a_function_that_returns_nil_does_not_let_the_sandbox_approve(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(lua_document("flemma.opt.tools.auto_approve = function() end", lua, project))
    assert not project.rules(document, trusted=True).config.approval.auto_approve_sandboxed
