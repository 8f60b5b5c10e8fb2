"""Properties of a tool's schema."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Tool
from holdfast.contract.tool_finder import schema_properties


@pytest.mark.parametrize(
    ("schema", "names"),
    [({"properties": {"a": {}, "b": {}}}, ["a", "b"]), ({}, []), ({"type": "object"}, [])],
)
def test_the_properties_are_those_at_the_top_of_the_schema(schema: dict[str, Any], names: list[str]) -> None:
    assert list(schema_properties(Tool(name="note", input_schema=schema))) == names
