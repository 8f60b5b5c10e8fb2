"""`holdfast mcp forget`."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli
from tests.cli.mcp_servers import serving
from tests.cli.terminal import Terminal

__all__ = ["serving"]


@pytest.mark.spec("K2", "E1a")
def test_forget_removes_the_pinned_definitions_after_confirmation(serving: Cli) -> None:
    assert serving.run("mcp", "servers", "little").code == 0
    (serving.project / "description.txt").write_text("Say it twice.")
    refused = serving.run("mcp", "forget", "little")
    assert refused.code == 2
    assert "were not forgotten. Add --yes" in refused.sentence
    with Terminal(serving, "mcp", "forget", "little", columns=200) as person:
        person.expect("will be accepted without review.")
        person.expect("Forget the definitions of 'little'? [y/N] ")
        person.type("")
        person.expect("Nothing was forgotten.")
        assert person.finish() == 3
    assert serving.run("mcp", "servers", "little", "--json").json["changed"] == 1
    with Terminal(serving, "mcp", "forget", "little", columns=200) as person:
        person.expect("? [y/N] ")
        person.type("y")
        assert person.finish() == 0
    assert serving.run("mcp", "servers", "little", "--json").json["changed"] == 0, "a first sight again"
    done = serving.run("mcp", "forget", "broken", "--yes", "--json")
    assert done.json == {"server": "broken", "forgotten": False}
