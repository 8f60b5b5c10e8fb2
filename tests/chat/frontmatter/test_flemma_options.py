from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.chat.lua.host import LuaHost
from tests.chat.frontmatter import flemma_snippets as seed
from tests.chat.frontmatter.frontmatter_project import (
    FrontmatterProject,
    config_of,
    lua_document,
    tools_of,
    without_diagnostics,
)

DEFAULT = ["$default"]


@pytest.mark.spec("D6", "A6", "A7")
@pytest.mark.parametrize(
    ("line", "verdicts"),
    [
        ('{ "$readonly" }', "approve approve ask ask ask"),
        ('{ "calculator", "read" }', "approve approve ask ask ask"),
        ('{ "$default", "bash" }', "approve approve approve approve approve"),
        ("{}", "approve ask ask ask ask"),
    ],
)
def test_a_flemma_list_approves_exactly_the_tools_it_names(
    lua: LuaHost, tmp_path: Path, line: str, verdicts: str
) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(lua_document(f"flemma.opt.tools.auto_approve = {line}", lua, project))
    assert project.verdicts(document, trusted=True) == verdicts


@pytest.mark.spec("D6", "A5")
def test_flemmas_approval_snippet_ends_with_its_function(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(lua_document(seed.APPROVAL, lua, project))
    assert document.approve is not None and document.settings == {}
    assert project.verdicts(document, trusted=True) == "approve ask ask ask ask"


@pytest.mark.spec("D6", "A7")
@pytest.mark.parametrize(
    ("lines", "verdicts"),
    [
        (seed.LIST_OPERATIONS.splitlines()[:3], "approve approve ask approve ask"),
        (seed.LIST_OPERATIONS.splitlines()[3:6], "approve approve approve approve approve"),
        (seed.LIST_OPERATIONS.splitlines()[6:], "approve approve ask approve approve"),
        (seed.LIST_OPERATIONS.splitlines(), "approve approve ask approve approve"),
    ],
    ids=["remove", "append", "operators", "all"],
)
def test_flemmas_list_operations_change_the_policy(
    lua: LuaHost, tmp_path: Path, lines: list[str], verdicts: str
) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(lua_document("\n".join(lines), lua, project))
    assert project.verdicts(document, trusted=True) == verdicts


@pytest.mark.spec("A7")
def test_a_tool_removed_from_a_preset_leaves_the_preset_in_the_list(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(lua_document("\n".join(seed.LIST_OPERATIONS.splitlines()[:3]), lua, project))
    approval = config_of(document, project, trusted=True).approval
    assert approval.auto_approve == ("$default",) and approval.excluded == ("file.write",)


@pytest.mark.spec("D6", "A5")
def test_flemmas_policy_function_approves_denies_and_asks(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(lua_document(seed.POLICY, lua, project))
    calls = "calculator read write edit bash rm"
    assert project.verdicts(document, trusted=True, calls=calls) == "approve ask ask ask ask deny"


@pytest.mark.spec("D6", "A6")
def test_flemmas_presets_are_merged_and_deny_wins(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(lua_document(seed.PRESETS, lua, project))
    assert project.verdicts(document, trusted=True) == "approve approve approve approve deny"
    assert project.verdicts(document, trusted=False) == "approve ask ask ask deny", "a deny counts at once"


@pytest.mark.spec("R8", "D6")
@pytest.mark.parametrize(
    ("line", "tools"),
    [
        (seed.TOOLS.splitlines()[0], ["file.read", "shell.exec"]),
        (seed.TOOLS, ["calculator_async", "file.read", "shell.exec"]),
        ("flemma.opt.tools = {}", []),
    ],
    ids=["set", "all", "none"],
)
def test_flemmas_tool_list_chooses_the_tools_of_the_document(lua: LuaHost, line: str, tools: list[str]) -> None:
    assert tools_of(without_diagnostics(lua_document(line, lua))) == tools


@pytest.mark.spec("R8")
def test_every_edit_of_the_tools_starts_from_all_enabled_tools(lua: LuaHost) -> None:
    everything = tools_of(without_diagnostics(lua_document('flemma.opt.tools:append("read")', lua)))
    assert everything is not None and "calculator_async" not in everything
    removed = tools_of(without_diagnostics(lua_document(seed.TOOLS.splitlines()[1], lua)))
    assert removed == [name for name in everything if name != "calculator"]
    added = tools_of(without_diagnostics(lua_document(seed.TOOLS.splitlines()[2], lua)))
    assert added == sorted([*everything, "calculator_async"])
    assert tools_of(without_diagnostics(lua_document("x = 1", lua))) is None


@pytest.mark.spec("R8")
def test_patterns_groups_and_prepending_work_on_the_tools(lua: LuaHost) -> None:
    code = 'flemma.opt.tools = {"group:git"} flemma.opt.tools = flemma.opt.tools ^ "file.w*" - "git.log"'
    assert tools_of(without_diagnostics(lua_document(code, lua))) == ["file.write", "git.diff", "git.status"]


@pytest.mark.spec("R8", "A2")
def test_only_a_trusted_document_enables_a_tool(lua: LuaHost) -> None:
    document = without_diagnostics(lua_document(seed.TOOLS, lua))
    assert tools_of(document, trusted=False) == ["file.read", "shell.exec"]


@pytest.mark.spec("D7", "D6")
@pytest.mark.parametrize("trusted", [True, False])
def test_flemmas_parameters_reach_the_configuration(lua: LuaHost, tmp_path: Path, trusted: bool) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(lua_document(seed.PARAMETERS, lua, project))
    model = config_of(document, project, trusted=trusted).model
    assert (model.thinking, model.cache_retention, model.max_tokens, model.temperature) == ("medium", "long", 8000, 0.3)
    assert model.providers["anthropic"].thinking_budget == 20_000
    assert model.providers["openai"].reasoning == "high"
    assert model.providers["vertex"].thinking_budget == 4096


@pytest.mark.spec("D6", "R8")
def test_tools_is_a_list_and_a_table_of_options_at_once(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    code = """
        holdfast.opt.tools = {
          "bash", "read",
          approve = { "bash" }, require_approval = false, auto_approve_sandboxed = false,
          autopilot = { enabled = true, max_turns = 7 }, max_concurrent = 2, default_timeout = 5,
          cursor_after_result = "stay",
        }
        flemma.opt.sandbox = false
        flemma.opt.model, flemma.opt.provider = "claude-x", "anthropic"
        flemma.opt.timeout = 60
        flemma.opt.files = "anywhere"
    """
    document = without_diagnostics(lua_document(code, lua, project))
    config = config_of(document, project, trusted=True)
    assert [config_of(document, project, trusted=trusted).chat.files for trusted in (True, False)] == [
        "anywhere", "project",
    ]  # fmt: skip
    assert tools_of(document) == ["file.read", "shell.exec"]
    assert config.approval.auto_approve == ("shell.exec",)
    assert not config.approval.require_approval and not config.approval.auto_approve_sandboxed
    assert (config.chat.autopilot, config.chat.max_turns, config.chat.cursor_after_result) == (True, 7, "stay")
    assert (config.tools.max_concurrent, config.tools.default_timeout) == (2, 5)
    assert (config.model.name, config.model.timeout, config.sandbox.mode) == ("anthropic:claude-x", 60, "off")
