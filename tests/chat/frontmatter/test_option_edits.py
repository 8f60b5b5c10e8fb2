from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.chat.frontmatter.evaluation import Baseline
from holdfast.chat.frontmatter.evaluator import MAX_CODE, KeyLines, evaluate
from holdfast.chat.lua.host import LuaHost
from holdfast.config.config import Config, SandboxConfig
from tests.chat.frontmatter.frontmatter_project import (
    TOOLS,
    FrontmatterProject,
    config_of,
    lua_document,
    only_diagnostic,
    tools_of,
    without_diagnostics,
)
from tests.quick import quickly


@pytest.mark.spec("R8", "D6")
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('tools.auto_approve = { "raed" }', "tools.auto_approve: unknown value 'raed'. Did you mean 'read'?"),
        ('tools.auto_approve:append("$defualt")', "unknown value '$defualt'. Did you mean '$default'?"),
        ('tools = { "bsah" }', "flemma.opt.tools: unknown value 'bsah'. Did you mean 'bash'?"),
        ('tools:remove("calculater")', "unknown value 'calculater'. Did you mean 'calculator'?"),
        ('tools = { "group:gti" }', "unknown value 'group:gti'. Did you mean 'group:git'?"),
        ('tools = { "zzzzzzzzz" }', "unknown value 'zzzzzzzzz'. `holdfast tools` lists the names."),
        ('tools.presets = { ["$a"] = { deny = { "bsh" } } }', "presets.$a.deny: unknown value 'bsh'. Did you mean"),
        ("tools.presets = { mine = { deny = { } } }", "the name of a preset begins with `$`"),
        ('tools.presets = { ["$a"] = "x" }', "a preset is a table with the lists 'approve' and 'deny'."),
        ('thnking = "low"', "flemma.opt.thnking: unknown option 'thnking'. Did you mean 'thinking'?"),
        ('thinking = "medum"', "flemma.opt.thinking: expected one of minimal, low, medium"),
        ("antropic.thinking_budget = 1", "unknown option 'antropic'. Did you mean 'anthropic'?"),
        ("anthropic.thinking_budgt = 1", "unknown option 'thinking_budgt'. Did you mean 'thinking_budget'?"),
        ("anthropic = 3", "flemma.opt.anthropic: it takes no single value; set one of"),
        ("tools.aproove = { }", "unknown option 'aproove'. Did you mean 'approve'?"),
        ("tools = 3", "flemma.opt.tools: expected a list of names, got 3."),
        ('tools = { "read", 3 }', "expected a list of names, got 3 in it."),
        ("max_tokens = function() end", "only tools.auto_approve can be a function."),
        ("temperature = 7", "flemma.opt.temperature: expected"),
        ("tools.autopilot.max_turns = 0", "flemma.opt.tools.autopilot.max_turns: expected"),
        ("sandbox = 'yes'", "flemma.opt.sandbox: expected true or false"),
        ('tools.presets:append("x")', "it is not a list. Assign a value instead."),
        ('nonsense:append("x")', "unknown option 'nonsense'"),
        ("tools.auto_approve = flemma.opt.tools + 'read'", "it cannot be the list of another option"),
        ("thinking = flemma.opt.tools", "it cannot be the list of another option"),
        ("provider = 'openai'", "no model of 'openai' is set. Set flemma.opt.model too."),
    ],
)
def test_a_mistake_in_lua_is_reported_with_its_line_and_a_suggestion(lua: LuaHost, code: str, message: str) -> None:
    found = only_diagnostic(lua_document(f"\nflemma.opt.{code}", lua))
    assert found.severity == "error" and message in found.message
    assert found.line == (None if "provider" in code else 3)


@pytest.mark.spec("D6")
def test_errors_are_collected_and_valid_edits_still_apply(lua: LuaHost, tmp_path: Path) -> None:
    code = 'flemma.opt.thinking = "low"\nflemma.opt.tools = {"raed", "read"}\nflemma.opt.tempreature = 1'
    document = lua_document(code, lua)
    assert [item.line for item in document.diagnostics] == [3, 4]
    assert tools_of(document) == ["file.read"]
    assert config_of(document, FrontmatterProject(tmp_path), trusted=False).model.thinking == "low"


@pytest.mark.spec("R8")
def test_a_name_that_a_later_line_removes_is_checked_too(lua: LuaHost) -> None:
    code = 'flemma.opt.tools.auto_approve = { "raed" }\nflemma.opt.tools.auto_approve = function() end'
    assert only_diagnostic(lua_document(code, lua)).line == 2


@pytest.mark.spec("R8")
def test_a_tool_that_is_not_for_this_caller_is_never_suggested(lua: LuaHost) -> None:
    visible = tuple(tool for tool in TOOLS if tool.name != "shell.exec")
    base = Baseline(tools=visible, hidden=frozenset({"shell.exec", "bash", "shell"}))
    typo = evaluate("lua", 'flemma.opt.tools = { "bsah" }', base, lua)
    assert "bash" not in only_diagnostic(typo).message
    hidden = evaluate("lua", 'flemma.opt.tools = { "bash", "read" }\nflemma.opt.tools:remove("shell")', base, lua)
    assert (
        only_diagnostic(hidden).severity == "warning"
        and "'bash' is not available here" in only_diagnostic(hidden).message
    )
    assert hidden.tool_edits == (("set", ("file.read",)), ("remove", ()))
    without_diagnostics(evaluate("lua", 'flemma.opt.tools.auto_approve = { "bash", "web.fetch" }', base, lua))


@pytest.mark.spec("A7")
@pytest.mark.parametrize("user", ["", "approval.auto_approve = 'my.policy:approve'"])
def test_a_list_edit_fails_while_a_function_is_set(lua: LuaHost, tmp_path: Path, user: str) -> None:
    project = FrontmatterProject(tmp_path, user)
    first = "" if user else "flemma.opt.tools.auto_approve = function() end\n"
    document = lua_document(f'{first}flemma.opt.tools.auto_approve:append("bash")', lua, project)
    assert "it is a function, not a list. Assign a whole list." in only_diagnostic(document).message
    whole = without_diagnostics(lua_document(f'{first}flemma.opt.tools.auto_approve = {{ "bash" }}', lua, project))
    assert whole.approve is None
    assert config_of(whole, project, trusted=True).approval.auto_approve == ("shell.exec",)


@pytest.mark.spec("D6")
def test_options_can_be_read_back_and_cleared(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path, "model.thinking = 'low'")
    code = """
        assert(flemma.opt.thinking == "low" and flemma.opt.max_tokens == "50%")
        flemma.opt.thinking = false
        assert(flemma.opt.thinking == false)
        flemma.opt.thinking = "max"
        assert(flemma.opt.thinking == "max" and flemma.opt.tools.max_concurrent == 8)
        flemma.opt.thinking = nil
        flemma.opt.tools = { "read" } flemma.opt.tools = nil
        local list = flemma.opt.tools.auto_approve
        list:append("bash"):remove("write")
        local other = list + "read"
        other:append("find")
    """
    document = without_diagnostics(lua_document(code, lua, project))
    assert document.tool_edits == () and config_of(document, project, trusted=True).model.thinking == "low"
    kept = {"set": ["$default", "shell.exec"], "remove": ["file.write"]}
    assert document.settings == {"approval": {"auto_approve": kept}}, "what is made of a list does not change it"


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    ("outer", "code", "name"),
    [
        ("operator", "flemma.opt.model = 'claude'", "claude"),
        ("anthropic:a", "flemma.opt.model = 'b'", "anthropic:b"),
        ("anthropic:a", "flemma.opt.model = 'openai:b'", "openai:b"),
        ("anthropic:a", "flemma.opt.model = 'operator'", "operator"),
        ("ollama:a", "flemma.opt.model = 'llama3:8b'", "ollama:llama3:8b"),
        ("operator", "flemma.opt.model, flemma.opt.provider = 'llama3:8b', 'ollama'", "ollama:llama3:8b"),
        ("anthropic:a", "flemma.opt.provider = 'anthropic'", "anthropic:a"),
    ],
)
def test_model_and_provider_make_one_name(lua: LuaHost, tmp_path: Path, outer: str, code: str, name: str) -> None:
    project = FrontmatterProject(tmp_path, f"model.name = '{outer}'")
    assert config_of(without_diagnostics(lua_document(code, lua, project)), project, trusted=True).model.name == name
    assert config_of(without_diagnostics(lua_document(code, lua, project)), project, trusted=False).model.name == outer


@pytest.mark.spec("D6")
def test_sandbox_options_are_set(lua: LuaHost, tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    code = 'flemma.opt.sandbox = { enabled = true, policy = { network = true, rw_paths = { "urn:flemma:cwd" } } }'
    sandbox = config_of(without_diagnostics(lua_document(code, lua, project)), project, trusted=True).sandbox
    assert (sandbox.mode, sandbox.network, sandbox.writable) == ("auto", "on", ("urn:flemma:cwd",))
    held = config_of(without_diagnostics(lua_document(code, lua, project)), project, trusted=False).sandbox
    assert (held.mode, held.network, held.writable) == ("auto", "off", ())
    required = without_diagnostics(lua_document('flemma.opt.sandbox = { backend = "required" }', lua, project))
    assert config_of(required, project, trusted=False).sandbox.mode == "required"


@pytest.mark.spec("D6")
def test_enabling_the_sandbox_does_not_weaken_required_mode(lua: LuaHost) -> None:
    base = Baseline(config=Config(sandbox=SandboxConfig(mode="required")))
    assert without_diagnostics(evaluate("lua", "flemma.opt.sandbox = true", base, lua)).settings == {}


@pytest.mark.spec("D6")
@pytest.mark.parametrize("language", ["yaml", "python", ""])
def test_an_unknown_language_is_an_error(lua: LuaHost, language: str) -> None:
    found = only_diagnostic(evaluate(language, "x", Baseline(), lua))
    assert (found.severity, found.message, found.line) == (
        "error", f"Unsupported frontmatter language: {language}", 1,
    )  # fmt: skip


@pytest.mark.spec("D6")
@pytest.mark.parametrize("language", ["lua", "JSON", "Toml"])
def test_a_frontmatter_that_is_too_long_is_not_read(lua: LuaHost, language: str) -> None:
    assert "larger than" in only_diagnostic(evaluate(language, " " * (MAX_CODE + 1), Baseline(), lua)).message


MANY = 40_000


def many(line: str, between: str = "\n") -> str:
    return between.join(line.format(number) for number in range(MANY))


LONG = {
    "operators": ("json", '{"flemma": {"tools": {' + many('"$op{}": 1', ",\n") + "}}}"),
    "own options": ("toml", "[document]\n" + many("option{} = 1")),
    "own options in JSON": ("json", '{"holdfast": {"document": {' + many('"option{}": 1', ",\n") + "}}}"),
    "variables": ("toml", "[vars]\n" + many("variable{} = nan")),
}


@pytest.mark.spec("D6")
@pytest.mark.parametrize(("language", "code"), LONG.values(), ids=LONG)
def test_thousands_of_mistakes_take_bounded_time_and_a_hundred_are_reported(
    lua: LuaHost, language: str, code: str
) -> None:
    with quickly():
        document = evaluate(language, code, Baseline(tools=TOOLS), lua)
    *told, last = document.diagnostics
    assert document.failed and len(told) == 100
    assert last.message == "39,900 more problems in the frontmatter. Correct the others first."
    assert [one.line for one in told] == sorted(one.line or 0 for one in told) and told[0].line is not None


@pytest.mark.spec("D6")
def test_a_mistake_is_located_at_the_first_line_with_its_key() -> None:
    lines = KeyLines('{\n "a": "b c",\n"$d":\n{"a": 1}}\n[e.f]\n\'g h\' = 2')
    found = {word: lines.of(word) for word in ("a", "b c", "$d", "e", "f", "g h", "c", "")}
    assert found == {"a": 2, "b c": 2, "$d": 3, "e": 5, "f": 5, "g h": 6, "c": None, "": None}
