"""`holdfast mcp logout`."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli

pytestmark = pytest.mark.spec("E1a", "K1")


def test_logout_without_a_login_says_so(cli: Cli) -> None:
    cli.configure('[mcp.servers.far]\nurl = "https://far.test/mcp"\n')
    done = cli.run("mcp", "logout", "far")
    assert (done.code, done.err) == (0, "There is no login for 'far'.\n")
    told = cli.run("mcp", "logout", "far", "--json").json
    assert told == {"server": "far", "logged_in": False, "reason": "there was no login"}


def test_only_a_server_with_a_url_has_a_login(cli: Cli) -> None:
    cli.configure('[mcp.servers.near]\ncommand = "near"\n')
    done = cli.run("mcp", "logout", "near")
    assert done.code == 2 and "Only servers with a url have logins" in done.sentence
