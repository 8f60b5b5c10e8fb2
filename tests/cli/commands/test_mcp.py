"""`holdfast mcp`: its subcommands, each in the module of its name."""

from __future__ import annotations

from importlib import import_module

import pytest

from holdfast.cli.commands.mcp import mcp


@pytest.mark.spec("E1a")
@pytest.mark.parametrize("name", mcp.commands)
def test_a_subcommand_is_in_the_module_of_its_name(name: str) -> None:
    assert getattr(import_module(f"holdfast.cli.mcp.{name}"), name) is mcp.commands[name]


@pytest.mark.spec("E1a")
def test_the_default_subcommand_is_the_first() -> None:
    assert mcp.name == "mcp" and next(iter(mcp.commands)) == "serve"
