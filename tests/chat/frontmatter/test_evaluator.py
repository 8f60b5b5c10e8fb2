from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.chat.frontmatter.evaluation import Baseline, EvaluatedFrontmatter, digest_of_frontmatter
from holdfast.chat.frontmatter.evaluator import evaluate
from holdfast.chat.lua.host import LuaHost
from holdfast.config.merge import NameList
from holdfast.contract.json import encode_json
from tests.chat.frontmatter.frontmatter_project import (
    TOOLS,
    FrontmatterProject,
    config_of,
    only_diagnostic,
    tools_of,
    without_diagnostics,
)
from tests.soak import rounds

NO_LUA = LuaHost()
"""Never started: only Lua needs it."""
BASE = Baseline(tools=TOOLS)
EXAMPLE = """\
{"flemma":{"tools":{"auto_approve":{"$append":"bash","$remove":"write"},"autopilot":false},
           "parameters":{"thinking":"low"}},"who":"QA"}"""


def json_document(value: object, base: Baseline = BASE) -> EvaluatedFrontmatter:
    code = value if isinstance(value, str) else encode_json(value).decode()
    return evaluate("json", code, base, NO_LUA)


def toml_document(code: str, base: Baseline = BASE) -> EvaluatedFrontmatter:
    return evaluate("toml", code, base, NO_LUA)


@pytest.mark.spec("D6", "A7")
def test_the_operators_change_lists_and_the_other_keys_are_variables(tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(json_document(EXAMPLE, project.baseline()))
    assert project.verdicts(document, trusted=True) == "approve approve ask approve approve"
    config = config_of(document, project, trusted=True)
    assert not config.chat.autopilot and config.model.thinking == "low"
    assert document.variables == {"who": "QA"} and NO_LUA.pid is None


@pytest.mark.spec("D6", "R8")
def test_operators_and_nested_options_combine_and_null_is_ignored() -> None:
    tools: dict[str, Any] = {"$set": ["read", None], "$append": "bash", "approve": ["$readonly"], "autopilot": None}
    document = without_diagnostics(json_document({"flemma": {"tools": tools}, "list": [1, None, 2], "none": None}))
    assert tools_of(document) == ["file.read", "shell.exec"]
    assert document.settings == {"approval": {"auto_approve": {"set": ["$readonly"]}}}
    assert document.variables == {"list": [1, 2]}


_names = st.lists(st.sampled_from(["read", "bash", "write", "calculator", "$readonly", "$default"]), max_size=3)
_steps = st.dictionaries(st.sampled_from(["set", "append", "prepend", "remove"]), _names, min_size=1)


@pytest.mark.spec("A7", "D6")
@settings(max_examples=60, deadline=None)
@given(steps=_steps)
def test_operators_equal_the_same_edits_of_a_list(steps: dict[str, list[str]]) -> None:
    canonical = {"read": "file.read", "bash": "shell.exec", "write": "file.write"}
    expected = NameList(("$default",))
    for name in ("set", "append", "prepend", "remove"):
        if name in steps:
            expected = getattr(expected, name)([canonical.get(item, item) for item in steps[name]])
    in_json = without_diagnostics(
        json_document({"flemma": {"tools": {"auto_approve": {f"${key}": steps[key] for key in steps}}}})
    )
    listed = ", ".join(f"{key} = {encode_json(names).decode()}" for key, names in steps.items())
    in_toml = without_diagnostics(toml_document(f"[approval.auto_approve]\n{listed.replace('], ', ']' + chr(10))}"))
    given = in_json.settings["approval"]["auto_approve"]
    assert given["set"] == list(expected.items) and given.get("remove", []) == list(expected.excluded)
    assert in_toml.settings == in_json.settings


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"a": 1, "a": 2}', 'Detected duplicate key "a"'),
        ('{"a": }', "expected value"),
        ("[" * 300, "nested more than 200 levels"),
        ('{"flemma": []}', "'flemma' must be an object, got array."),
        ('{"flemma": {"tools": {"$frob": 1}}}', "'$frob' is not an operator. Use $set, $append, $prepend, $remove."),
        ('{"flemma": {"thinking": {"$append": "x"}}}', "flemma.thinking: it is not a list"),
        ('{"flemma": {"thinking": ["low"]}}', "flemma.thinking: expected"),
        ('{"flemma": {"tools": {"$append": ["raed"]}}}', "unknown value 'raed'. Did you mean 'read'?"),
        ('{"flemma": {"tools": {"$append": 7}}}', "flemma.tools: expected a list of names, got 7."),
        ('{"flemma": {"sandbx": true}}', "unknown option 'sandbx'. Did you mean 'sandbox'?"),
        ('{"holdfast": 5}', "'holdfast' must be an object, got number."),
        ('{"holdfast": {"tols": {}}}', "tols is not an option. Did you mean 'tools'?"),
        ('{"holdfast": {"document": 5}}', "holdfast.document: expected a table with 'tools'."),
        ('{"holdfast": {"model": {"thinking": "low"}}, "flemma": {"thinking": "high"}}', "model.thinking is set twice"),
    ],
)
def test_a_mistake_in_json_is_one_error(value: str, message: str) -> None:
    found = only_diagnostic(json_document(value))
    assert found.severity == "error" and message in found.message


@pytest.mark.spec("D6")
def test_mistakes_in_json_carry_the_line_of_the_document() -> None:
    document = json_document('{\n"flemma": {\n"thnking": "low",\n"tools": {"$append": "raed"}}}')
    assert [item.line for item in document.diagnostics] == [4, 5]
    found = only_diagnostic(json_document('{\n"a": 1,\n"b": x}'))
    assert (found.line, found.column) == (4, 6)


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    ("code", "kind"), [("[]", "array"), ('"x"', "string"), ("3", "number"), ("true", "boolean"), ("null", "null")]
)
def test_frontmatter_that_is_not_an_object_is_a_warning(code: str, kind: str) -> None:
    document = json_document(code)
    found = only_diagnostic(document)
    assert (found.severity, found.message) == ("warning", f"Frontmatter must be an object, got {kind}")
    assert not document.failed and document.settings == {}


@pytest.mark.spec("D6", "R8", "D7")
def test_toml_uses_the_layout_of_the_configuration(tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    code = """
        [approval]
        auto_approve = { append = ["bash"], remove = "write" }
        max_risk = "high"
        [document]
        tools = { remove = ["calculator", "group:git"] }
        [model]
        thinking = "low"
        providers.anthropic.thinking_budget = 20000
        [vars]
        who = "QA"
        day = 2024-05-01
    """
    document = without_diagnostics(toml_document(code, project.baseline()))
    assert document.variables == {"who": "QA", "day": "2024-05-01"}
    assert project.verdicts(document, trusted=True) == "approve approve ask approve approve"
    chosen = tools_of(document)
    assert chosen is not None and "calculator" not in chosen and "git.log" not in chosen and "file.read" in chosen
    model = config_of(document, project, trusted=False).model
    assert model.thinking == "low" and model.providers["anthropic"].thinking_budget == 20_000


@pytest.mark.spec("D6")
def test_json_has_the_layout_of_the_configuration_under_the_holdfast_key() -> None:
    own = {"document": {"tools": ["read"]}, "approval": {"presets": {"$mine": {"approve": ["bash"]}}}}
    document = without_diagnostics(json_document({"holdfast": own, "flemma": {"tools": {"approve": ["$mine"]}}}))
    assert tools_of(document) == ["file.read"]
    assert document.settings["approval"]["presets"] == {"$mine": {"approve": ["shell.exec"]}}


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    ("code", "message", "line"),
    [
        ("x = = 1", "The frontmatter is not valid TOML: Invalid value.", 2),
        ("a = 1\na = 2\nb = 3", "Cannot overwrite a value", 3),
        ("\n[modl]\nx = 1", "modl is not an option. Did you mean 'model'?", 3),
        ("[model]\nthinking = 'medum'", "expected one of minimal, low", 3),
        ("[approval]\nauto_approve = ['raed']", "unknown value 'raed'. Did you mean 'read'?", 3),
        ("[approval]\nauto_approve = {frob = 'x'}", "'frob' is not a list operation", 3),
        ("[approval.presets.'$x']\ndeny = ['bsh']", "unknown value 'bsh'. Did you mean 'bash'?", 2),
        ("[document]\ntool = []", "document.tool is not an option. Use tools.", 3),
        ("vars = 3", "vars: expected a table of variables.", 2),
        ("x = '\udcff'", "The frontmatter is not UTF-8 text. Save it as UTF-8.", None),
        ("x = " + "[" * 5000, "TOML", None),
    ],
)
def test_a_mistake_in_toml_is_one_error_with_its_line(code: str, message: str, line: int | None) -> None:
    found = only_diagnostic(toml_document(code))
    assert found.severity == "error" and (message in found.message or "nested too deeply" in found.message)
    assert line is None or found.line == line


@pytest.mark.spec("A5a", "A2")
def test_a_python_function_is_accepted_only_from_user_configuration(tmp_path: Path) -> None:
    project = FrontmatterProject(tmp_path)
    document = without_diagnostics(toml_document("approval.auto_approve = 'their.policy:approve'", project.baseline()))
    loaded = project.load(document, trusted=True)
    assert loaded.config.approval == loaded.outer.approval
    assert any("only from user-level config" in notice for notice in loaded.notices)


@pytest.mark.spec("D6")
def test_the_digest_belongs_to_exactly_this_language_and_code() -> None:
    seen = {digest_of_frontmatter(*pair) for pair in (("lua", "x"), ("lua", "x "), ("json", "x"), ("lu", "a\nx"))}
    assert len(seen) == 4
    assert toml_document("a = 1").digest == digest_of_frontmatter("toml", "a = 1")


@pytest.mark.spec("D6")
@settings(max_examples=rounds(40, 150), deadline=None)
@given(code=st.text(max_size=200), language=st.sampled_from(["json", "toml"]))
def test_any_text_is_evaluated_without_an_exception(code: str, language: str) -> None:
    document = evaluate(language, code, BASE, NO_LUA)
    assert all(item.message for item in document.diagnostics)


_leaf = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5),
    st.sampled_from(["low", "read", "$default", "raed"]),
)  # fmt: skip
_keys = st.sampled_from(
    ["tools", "auto_approve", "presets", "$x", "$set", "$append", "$remove", "approve", "deny", "autopilot", "sandbox",
     "parameters", "thinking", "anthropic", "model", "provider", "enabled", "policy", "document", "approval", "chat"]
)  # fmt: skip
_tree = st.recursive(_leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4))


@pytest.mark.spec("D6", "A2")
@settings(max_examples=rounds(40, 150), deadline=None)
@given(flemma=st.dictionaries(_keys, _tree, max_size=4), own=st.dictionaries(_keys, _tree, max_size=3))
def test_any_frontmatter_is_either_an_error_or_a_layer_that_loads(flemma: Any, own: Any) -> None:
    document = json_document({"flemma": flemma, "holdfast": own})
    if not document.failed:
        with tempfile.TemporaryDirectory() as folder:
            for trusted in (True, False):
                FrontmatterProject(Path(folder)).load(document, trusted=trusted)
