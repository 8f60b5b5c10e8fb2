"""Tool selection per document."""

from __future__ import annotations

import pytest

from holdfast.contract.errors import ToolError, UnknownTool
from holdfast.contract.tool import Tool
from holdfast.registry.selection import Edit, select

TOOLS = (
    Tool(name="calculator", groups=("maths",)),
    Tool(name="calculator_async", groups=("maths",), enabled=False),
    Tool(name="file.read", aliases=("read",), groups=("fs",)),
    Tool(name="file.write", aliases=("write",), groups=("fs",)),
    Tool(name="shell.exec", aliases=("bash",)),
)
DEFAULTS = ["calculator", "file.read", "file.write", "shell.exec"]
GROUPS = {"fs", "cron"}


CASES: list[tuple[list[Edit], list[str]]] = [
    ([], DEFAULTS),
    ([("set", ["bash", "read"])], ["shell.exec", "file.read"]),
    ([("set", [])], []),
    ([("remove", ["calculator"])], ["file.read", "file.write", "shell.exec"]),
    ([("append", ["calculator_async"])], [*DEFAULTS, "calculator_async"]),
    ([("append", ["calculator"])], ["file.read", "file.write", "shell.exec", "calculator"]),
    ([("prepend", ["bash"])], ["shell.exec", "calculator", "file.read", "file.write"]),
    ([("^", ["calculator_async"])], ["calculator_async", *DEFAULTS]),
    ([("+", ["calculator_async"]), ("-", ["write", "read"])], ["calculator", "shell.exec", "calculator_async"]),
    ([("set", ["read"]), ("+", ["read"]), ("append", ["bash", "bash"])], ["file.read", "shell.exec"]),
    ([("remove", ["calculator_async"])], DEFAULTS),
    ([("set", ["file--read"])], ["file.read"]),
    ([("set", ["group:fs"])], ["file.read", "file.write"]),
    ([("set", ["group:maths"])], ["calculator"]),
    ([("set", ["group:cron"])], []),
    ([("-", ["file.*"])], ["calculator", "shell.exec"]),
    ([("+", ["calculator_async"]), ("-", ["calc*"])], ["file.read", "file.write", "shell.exec"]),
    ([("set", ["calc*"])], ["calculator"]),
    ([("set", ["file.?ead"])], ["file.read"]),
    ([("-", ["file.[rw]*"])], ["calculator", "shell.exec"]),
    ([("set", ["nothing.?"])], []),
    ([("remove", ["read"]), ("set", ["read"])], ["file.read"]),
]


@pytest.mark.spec("R8")
@pytest.mark.parametrize(("edits", "chosen"), CASES)
def test_a_document_edits_the_default_list(edits: list[Edit], chosen: list[str]) -> None:
    assert select(TOOLS, edits, groups=GROUPS) == chosen


@pytest.mark.spec("R8")
def test_each_evaluation_starts_from_the_defaults() -> None:
    select(TOOLS, [("set", ["read"])])
    select(TOOLS, [("remove", ["bash"])])
    assert select(TOOLS, []) == DEFAULTS


@pytest.mark.spec("R6", "R8")
@pytest.mark.parametrize("operation", ["set", "append", "prepend", "remove", "+", "-"])
def test_a_misspelt_name_is_an_error_with_a_suggestion(operation: str) -> None:
    with pytest.raises(UnknownTool, match=r"There is no tool 'raed'\. Did you mean 'read'\?"):
        select(TOOLS, [(operation, ["raed"])])


@pytest.mark.spec("R6", "P2")
def test_a_misspelt_group_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(UnknownTool, match="Did you mean 'group:maths'"):
        select(TOOLS, [("set", ["group:math"])], groups=GROUPS)


@pytest.mark.spec("R6")
def test_invisible_tools_are_neither_found_nor_suggested() -> None:
    visible = TOOLS[:2]
    with pytest.raises(UnknownTool) as caught:
        select(visible, [("append", ["bash"])])
    assert str(caught.value) == "There is no tool 'bash'. Use one of the tools that are listed."


@pytest.mark.spec("R8")
def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ToolError, match="'multiply' is not a list operation"):
        select(TOOLS, [("multiply", ["read"])])
