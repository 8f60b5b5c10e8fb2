"""`holdfast ledger prune`."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli


@pytest.mark.spec("X15", "E1b")
def test_prune_removes_old_calls_and_the_rest_can_be_verified(cli: Cli, changed: str) -> None:
    looked = cli.run("ledger", "prune", "--older-than", "0", "--dry-run")
    assert looked.code == 0
    assert looked.out.startswith("Would remove 1 call (8 entries)")
    assert cli.run("changes", changed).code == 0
    assert cli.run("ledger", "prune", "--json").json["calls"] == 0
    done = cli.run("ledger", "prune", "--older-than", "0", "--json").json
    assert (done["calls"], done["entries"], done["dry_run"]) == (1, 8, False)
    verified = cli.run("ledger", "verify", "--anchor", done["head"], "--json").json
    assert (verified["ok"], verified["pruned"]) == (True, 8)
    gone = cli.run("undo", changed, "--yes")
    assert gone.code == 2
    assert "were pruned" in gone.sentence
    assert (cli.project / "a.txt").read_text() == "one\n2\n"
