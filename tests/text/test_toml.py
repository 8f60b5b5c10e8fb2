"""Formatted TOML parses to the same values."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.toml import toml_key, toml_lines, toml_value

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.spec("E1e")
@given(name=TEXTS, value=VALUES)
def test_formatted_toml_parses_to_the_same_value(name: str, value: Any) -> None:
    line = f"{toml_key(name)} = {toml_value(value)}"
    assert "\n" not in line
    assert tomllib.loads(line) == {name: value}


@pytest.mark.spec("E1e")
def test_formatted_toml_looks_handwritten() -> None:
    rule = {"rule": "git push", "verdict": "ask", "options": ["--force"], "why": None}
    assert toml_value(rule) == '{ rule = "git push", verdict = "ask", options = ["--force"] }'
    assert toml_lines("approval", "commands", [rule, {"rule": "ls", "verdict": "deny"}]) == [
        "[[approval.commands]]", 'rule = "git push"', 'verdict = "ask"', 'options = ["--force"]',
        "", "[[approval.commands]]", 'rule = "ls"', 'verdict = "deny"',
    ]  # fmt: skip
    assert toml_lines("approval", "commands", []) == ["commands = []"]
    assert toml_value({}) == "{}"
    assert toml_key("$mine") == '"$mine"'
