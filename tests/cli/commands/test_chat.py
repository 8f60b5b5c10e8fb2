"""`holdfast chat`: its subcommands, each in the module of its name."""

from __future__ import annotations

from importlib import import_module

import pytest

from holdfast.cli.commands.chat import chat


@pytest.mark.spec("E1a")
@pytest.mark.parametrize("name", chat.commands)
def test_a_subcommand_is_in_the_module_of_its_name(name: str) -> None:
    assert getattr(import_module(f"holdfast.cli.chat.{name}"), name) is chat.commands[name]


@pytest.mark.spec("E1a")
def test_the_default_subcommand_is_the_first() -> None:
    assert chat.name == "chat" and next(iter(chat.commands)) == "advance"
