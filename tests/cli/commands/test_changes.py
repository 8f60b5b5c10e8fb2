"""`holdfast changes`."""

from __future__ import annotations

import re

import pytest

from tests.cli.command_line import Cli


@pytest.mark.spec("X11", "E1b")
def test_changes_lists_calls_and_shows_what_one_changed(cli: Cli, changed: str) -> None:
    listed = cli.run("changes")
    assert listed.code == 0
    assert changed in listed.out and "3 paths" in listed.out
    shown = cli.run("changes", changed[:5], "--diff")
    assert shown.code == 0
    rows = [re.split("  +", line) for line in shown.out.splitlines()[1:4]]
    assert rows == [
        ["modified", "as the call left it", "a.txt"],
        ["deleted", "as the call left it", "b.txt"],
        ["created", "as the call left it", "new.txt"],
    ]
    assert "│ -two\n│ +2\n" in shown.out
    assert "│ +++ /dev/null\n│ @@ -1 +0,0 @@\n│ -bee\n" in shown.out
    (cli.project / "a.txt").write_text("mine\n")
    later = cli.run("changes", changed, "--diff", "--json").lines
    assert (later[0]["undo"], later[0]["why"]) == ("refused", "it has changed since")
    assert "has changed since" in later[0]["diff"]
