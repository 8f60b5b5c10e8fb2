"""`holdfast mcp login`."""

from __future__ import annotations

import json

import pytest

from holdfast.cli.reference import objects
from tests.cli.command_line import Cli
from tests.cli.mcp_servers import serving
from tests.cli.terminal import Terminal

__all__ = ["serving"]


@pytest.mark.spec("K1")
def test_login_needs_a_server_with_a_url_and_a_terminal(serving: Cli) -> None:
    serving.configure('[mcp.servers.far]\nurl = "https://mcp.example/"\n\n[mcp.servers.near]\ncommand = "x"\n')
    assert "Only servers with a url have logins" in serving.run("mcp", "login", "near").sentence
    assert "A login needs a terminal" in serving.run("mcp", "login", "far").sentence
    done = serving.run("mcp", "logout", "far")
    assert (done.code, done.err) == (0, "There is no login for 'far'.\n")


@pytest.mark.spec("K1")
def test_a_login_to_a_server_that_does_not_answer_says_so(serving: Cli) -> None:
    serving.configure('[mcp.servers.far]\nurl = "http://127.0.0.1:9/mcp"\nstart_timeout = 20.0\n')
    with Terminal(serving, "mcp", "login", "far", "--json", columns=400) as person:
        assert person.finish() == 1
        told = json.loads(person.text[person.text.index("{") :])
    assert set(told) == set(objects()["login"])
    assert (told["logged_in"], bool(told["reason"])) == (False, True)
