"""`Tool` and `define`: validation, digest and derived properties."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Risk, Tool, define
from holdfast.contract.errors import ToolError
from holdfast.contract.tool import Reach


@pytest.mark.spec("T1")
def test_a_tool_needs_both_phases_or_neither() -> None:
    async def propose(args: Any, ctx: Any) -> Any: ...

    with pytest.raises(ToolError, match="both"):
        Tool(name="half", propose=propose)
    with pytest.raises(ToolError, match="remove one of them"):
        Tool(name="two", propose=propose, apply=propose, execute=propose)


@pytest.mark.spec("T3")
def test_a_given_schema_is_kept_unchanged() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string", "x-vendor": 1}}, "$comment": "kept"}
    made = Tool(name="foreign", input_schema=schema)
    assert made.input_schema is schema


@pytest.mark.spec("T1", "T12")
def test_an_invalid_definition_names_the_valid_choices() -> None:
    with pytest.raises(ToolError, match=r"has no field 'exceute'\. Did you mean 'execute'\?"):
        define(name="x", exceute=print)
    with pytest.raises(ToolError, match="The `execute` of tool 'x' must be a function, not str"):
        define({"name": "x", "execute": "module.function"})
    with pytest.raises(ToolError, match=r"Did you mean 'coding'\?"):
        define(name="x", profiles=["codng"])


def test_the_digest_covers_the_definition_and_not_the_code() -> None:
    tool = Tool(name="note", description="Take a note.", execute=print)
    assert tool.digest == tool.with_(execute=repr).digest
    changes: list[dict[str, Any]] = [
        {"description": "Take two."}, {"risk": Risk.HIGH}, {"effects": ()}, {"source": "mcp:hub"},
        {"input_schema": {"type": "object"}}, {"output_schema": {"type": "object"}},
    ]  # fmt: skip
    digests = {tool.digest, *(tool.with_(**change).digest for change in changes)}
    assert len(digests) == len(changes) + 1


@pytest.mark.parametrize(
    ("effects", "pure", "mutates"),
    [(None, False, True), ((), True, False), (("fs.read",), False, False), (("fs.read", "network"), False, True)],
)
def test_unknown_effects_count_as_a_mutation(effects: Any, pure: bool, mutates: bool) -> None:
    tool = Tool(name="note", effects=effects)
    assert (tool.pure, tool.mutates) == (pure, mutates)


@pytest.mark.parametrize(
    ("effects", "sends", "mutates"),
    [
        (("network",), False, False), (("network",), True, True), (("fs.read", "network"), False, False),
        (("network", "external"), False, True), (None, False, True),
    ],
)  # fmt: skip
@pytest.mark.spec("B6b")
def test_a_request_that_only_reads_changes_nothing(effects: Any, sends: bool, mutates: bool) -> None:
    tool = Tool(name="note", effects=effects, reaches=lambda args: Reach(("a.example",), sends))
    assert tool.mutates_with({}) is mutates
    assert tool.with_(reaches=None).mutates_with({}) is True


def test_a_tool_is_in_its_declared_groups_and_in_those_it_is_named_after() -> None:
    tool = Tool(name="k8s.pods", aliases=("mcp:hub:pods",), groups=("cluster",))
    assert all(map(tool.in_group, ("k8s", "mcp", "mcp:hub", "cluster")))
    assert not any(map(tool.in_group, ("k8", "pods", "k8s.pods")))


def test_camel_case_field_names_are_accepted() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = define({"name": "note", "inputSchema": schema, "requiredSecretScopes": ["github"]})
    assert (tool.input_schema, tool.required_secret_scopes) == (schema, ("github",))
