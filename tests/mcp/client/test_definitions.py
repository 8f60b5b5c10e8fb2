"""What a server says of its tools, as tools: it can make them stricter and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.config import McpServer
from holdfast.contract.enums import Failure, Risk, State
from holdfast.contract.errors import ToolError
from holdfast.contract.names import from_api_name, to_api_name
from holdfast.contract.result import Result
from holdfast.mcp.client.definitions import MAX_DESCRIPTION, is_wanted, tool_from
from holdfast.registry.registry import Registry
from holdfast.runtime.results import to_result

EMPTY: dict[str, Any] = {"type": "object"}
names = st.text("abzABZ019_-./", min_size=1, max_size=128)


def _tool(**said: Any) -> Any:
    return tool_from("srv", {"name": "t", "inputSchema": EMPTY, **said}, timeout=60)


@pytest.mark.spec("K1", "R7")
@given(names)
def test_every_name_that_mcp_allows_is_a_tool_that_is_found_by_both_its_names(name: str) -> None:
    registry = Registry()
    tool = _tool(name=name)
    registry.register(tool)
    assert tool.name == f"mcp:srv:{name}"
    assert registry.get(tool.name) is tool
    assert registry.get_by_api_name(tool.api_name) is tool
    assert from_api_name(to_api_name(tool.name)) in (tool.name, None)


@pytest.mark.spec("R7")
@given(st.lists(names, min_size=2, max_size=40, unique=True))
def test_two_tools_of_a_server_never_share_an_api_name(some: list[str]) -> None:
    assert len({_tool(name=name).api_name for name in some}) == len(some)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("name", ["", "a b", "a\nb", "é", "a:b", "x" * 129, None, 7, "a]"])
def test_a_name_that_mcp_does_not_allow_is_refused(name: Any) -> None:
    with pytest.raises(ToolError, match="outside what MCP allows"):
        _tool(name=name)


@pytest.mark.spec("K1")
@given(
    st.dictionaries(
        st.sampled_from(["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title"]),
        st.one_of(st.booleans(), st.none(), st.text(max_size=5)),
    )
)
def test_annotations_can_only_tighten(annotations: Any) -> None:
    tool = _tool(annotations=annotations)
    assert tool.effects is None
    assert tool.mutates
    assert tool.risk is (Risk.HIGH if annotations.get("destructiveHint") is True else Risk.MEDIUM)
    assert tool.sources == tool.sinks == ("mcp",)
    assert tool.capabilities == frozenset()


@pytest.mark.spec("K1")
def test_the_title_stands_in_for_a_description_that_is_missing() -> None:
    assert _tool(title="Title", description="Words").description == "Words"
    assert _tool(title="Title", description=None).description == "Title"
    assert _tool().description == ""


@pytest.mark.spec("K1")
def test_a_description_without_an_end_is_cut_and_says_so() -> None:
    description = _tool(description="x" * 100_000).description
    assert len(description) < MAX_DESCRIPTION + 100
    assert "84,000 more characters" in description


@pytest.mark.spec("K1", "T9")
def test_schemas_are_passed_through() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}
    tool = _tool(inputSchema=schema, outputSchema={"type": "object"})
    assert (tool.input_schema, tool.output_schema, tool.timeout) == (schema, {"type": "object"}, 60)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("schema", [None, 7, [], {"type": "nonsense"}, {"$ref": "https://far.example/"}])
def test_a_schema_that_cannot_be_used_is_refused(schema: Any) -> None:
    with pytest.raises(ToolError):
        _tool(inputSchema=schema)


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("name", "include", "exclude", "wanted"),
    [
        ("read", ("*",), (), True),
        ("read", ("read", "write"), (), True),
        ("Read", ("read",), (), False),
        ("read_all", ("read*",), ("*_all",), False),
        ("read", (), (), False),
    ],
)
def test_patterns_say_which_tools_are_wanted(name: str, include: Any, exclude: Any, wanted: bool) -> None:
    assert is_wanted(name, McpServer(command="x", include=include, exclude=exclude)) is wanted


@pytest.mark.spec("K1", "T9")
def test_a_result_that_would_take_too_long_to_check_fails_and_says_so() -> None:
    heavy = {"type": "object", "properties": {"a": {"items": {"allOf": [{"type": "integer"}] * 10_000}}}}
    tool = _tool(outputSchema=heavy)
    small, large = (Result(True, "text", structured={"a": list(range(count))}) for count in (3, 200_000))
    assert to_result(small, tool, "c").state is State.DONE
    result = to_result(large, tool, "c")
    assert (result.state, result.failure) == (State.FAILED, Failure.INVALID_OUTPUT)
    assert result.error == "Tool 'mcp:srv:t' returned more than can be checked against its output schema."
