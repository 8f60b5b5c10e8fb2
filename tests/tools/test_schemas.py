"""The schemas of built-in tools."""

from __future__ import annotations

import pytest

from holdfast.contract.tool import Tool
from holdfast.tools import builtin_tools
from holdfast.tools.schemas import needs_extra


@pytest.mark.parametrize("builtin", builtin_tools(), ids=lambda item: item.name)
@pytest.mark.spec("S6", "T11", "B1")
def test_every_builtin_is_strict_labelled_and_has_an_output_schema(builtin: Tool) -> None:
    assert builtin.strict
    assert builtin.strict_problems() == []
    assert builtin.output_schema is not None
    assert builtin.format_preview is not None
    assert builtin.source == "builtin"
    assert "label" in builtin.input_schema["properties"]


@pytest.mark.spec("B6a")
def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    assert needs_extra("web", "json", "asyncio")() is None
    wanted = "it needs no_such_package. Install it: pip install 'holdfast[web]'"
    assert needs_extra("web", "json", "no_such_package")() == wanted
