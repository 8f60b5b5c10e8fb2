"""`holdfast reject`."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli

WRITE = ("file.write", "path=notes.txt", "content=hello")


@pytest.mark.spec("A14")
def test_a_rejection_carries_its_message_to_the_caller(asking: Cli) -> None:
    call_id = asking.make_pending(*WRITE)
    assert asking.run("reject", call_id, "-m", "not in this folder").code == 0
    record = asking.run("ledger", "show", call_id, "--json").json
    assert record["state"] == "rejected"
    assert record["result"]["error"]["message"] == "not in this folder"
