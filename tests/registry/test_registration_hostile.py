"""Hostile definitions are refused at registration or harmless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.errors import InvalidArguments, InvalidName, InvalidSchema
from holdfast.contract.tool import Tool
from holdfast.registry.registry import Registry
from tests.quick import quickly


def with_schema(schema: Any) -> Tool:
    registry = Registry()
    registry.register({"name": "hostile", "input_schema": schema})
    found = registry.get("hostile")
    assert found is not None
    return found


def fits(tool: Tool, args: Any) -> bool:
    with quickly():
        try:
            tool.schema.validate(args)
        except InvalidArguments:
            return False
    return True


@pytest.mark.spec("S5", "R1")
def test_a_catastrophic_regex_pattern_is_fast() -> None:
    tool = with_schema({"type": "object", "properties": {"q": {"type": "string", "pattern": "^(a+)+$"}}})
    assert fits(tool, {"q": "a" * 34})
    assert not fits(tool, {"q": "a" * 34 + "!"})
    assert not fits(tool, {"q": "a" * 100_000 + "!"})


@pytest.mark.spec("S5", "R1")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"q": {"pattern": "([a-z"}}},
        {"type": "no-such-type"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"properties": {"q": {"$dynamicRef": "https://example.com/x#y"}}},
        {"$ref": "#/$defs/missing"},
        {"description": "x" * (10 * 1024 * 1024)},
        {"properties": {"q": {"const": float("nan")}}, "type": 7},
        "not an object",
        [1],
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_at_registration(schema: Any) -> None:
    registry = Registry()
    with pytest.raises(InvalidSchema):
        registry.register([{"name": "fine"}, {"name": "hostile", "input_schema": schema}])
    assert registry.list() == ()


@pytest.mark.spec("S5", "R1")
def test_a_reference_to_a_file_reads_nothing(tmp_path: Path) -> None:
    target = tmp_path / "schema.json"
    target.write_text("{}")
    with pytest.raises(InvalidSchema):
        with_schema({"properties": {"q": {"$ref": target.as_uri()}}})


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"type": "object", "properties": {"child": {"$ref": "#"}}},
    ],
)
def test_cyclic_references_neither_hang_nor_crash(schema: Any) -> None:
    try:
        tool = with_schema(schema)
    except InvalidSchema:
        return
    nested: dict[str, Any] = {}
    for _ in range(50):
        nested = {"child": nested}
    fits(tool, nested)


@pytest.mark.spec("S5")
def test_a_very_wide_schema_is_validated_fast_with_a_short_error() -> None:
    tool = with_schema({"type": "object", "oneOf": [{"required": [f"k{number}"]} for number in range(10_000)]})
    assert fits(tool, {"k9999": 1})
    assert not fits(tool, {"k1": 1, "k2": 1})
    assert not fits(tool, {"other": 1})
    assert len("".join(tool.schema.violations({"other": 1}))) < 2000


@pytest.mark.spec("S1", "S4")
@pytest.mark.parametrize(
    ("args", "accepted"),
    [
        ({"n": 1}, {"n": 1}),
        ({"n": "1"}, {"n": 1}),
        ({"n": True}, None),
        ({"n": 1.5}, None),
        ({"n": 1, "extra": 1}, None),
        ({"N": 1}, None),
        ({}, None),
        ([], None),
        (None, None),
        ("{}", None),
        ({"n": float("nan")}, None),
    ],
)
def test_arguments_are_coerced_the_same_way_for_every_source(args: Any, accepted: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    tool = with_schema(schema)
    if accepted is None:
        assert not fits(tool, args)
    else:
        assert tool.schema.validate(args) == accepted


@pytest.mark.spec("R7")
@pytest.mark.parametrize("name", ["", "x" * 300, "a]\nb", "a b", "../etc", "a.", "é", "a\x00", "<script>", "a*"])
def test_a_name_outside_the_grammar_is_refused(name: str) -> None:
    registry = Registry()
    with pytest.raises(InvalidName):
        registry.register(name, {}) if name else registry.register({"name": name})
    with pytest.raises(InvalidName):
        registry.register({"name": "fine", "aliases": [name]})
    assert registry.list() == ()


@pytest.mark.spec("R7")
def test_dots_and_underscores_do_not_collide_in_api_names() -> None:
    registry = Registry()
    registry.register([{"name": name} for name in ("file.read", "file_read", "file:read", "file-read")])
    api_names = {tool.api_name: tool.name for tool in registry.list()}
    assert len(api_names) == 4
    for api_name, name in api_names.items():
        found = registry.find(api_name)
        assert found is not None and found.name == name
