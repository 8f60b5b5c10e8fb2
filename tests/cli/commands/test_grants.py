"""`holdfast grants`, and `holdfast approve --always`."""

from __future__ import annotations

import time

import pytest

from tests.cli.command_line import Cli

WRITE = ("file.write", "path=notes.txt", "content=hello")


@pytest.mark.spec("A12", "E1a")
def test_always_makes_a_narrow_rule_that_is_listed_and_revoked(asking: Cli) -> None:
    asking.run("approve", asking.make_pending(*WRITE), "--always", "project")
    (grant,) = asking.run("grants", "--json").lines
    assert (grant["tool"], grant["scope"], grant["by"]) == ("file.write", "project", "cli:tester")
    assert "notes.txt" in asking.run("grants").out
    (asking.project / "notes.txt").unlink()
    assert asking.run("call", *WRITE).code == 0
    assert asking.run("call", "file.write", "path=other.txt", "content=hello").code == 4
    (asking.project / "notes.txt").unlink()
    assert asking.run("grants", "revoke", grant["id"][:6]).code == 0
    assert asking.run("call", *WRITE).code == 4
    assert asking.run("grants").out == "There are no grants here.\n"


@pytest.mark.spec("A12")
def test_always_is_refused_where_a_limit_asks_every_time(asking: Cli) -> None:
    asking.configure('[confirmation]\nactions = { "file.write" = "confirm" }\n')
    call_id = asking.make_pending(*WRITE)
    done = asking.run("approve", call_id, "--always", "user")
    assert done.code == 2
    assert "needs approval every time" in done.err
    assert asking.run("pending", "--json").lines[0]["state"] == "pending"
    assert asking.run("grants").out == "There are no grants here.\n"


@pytest.mark.spec("A12a")
def test_grants_show_the_sandbox_they_were_given_under_and_hold_only_there(asking: Cli) -> None:
    asking.configure('[approval]\nauto_approve = ["$readonly"]\n')
    asking.run("approve", asking.make_pending("shell.exec", "command=touch made.txt"), "--always", "project")
    assert "contained by bubblewrap with network off, or stricter" in asking.run("grants").out
    (grant,) = asking.run("grants", "--json").lines
    assert grant["rule"]["given_under"]["backend"] == "bubblewrap"
    assert asking.run("call", "shell.exec", "command=touch made.txt").code == 0
    for looser in ("sandbox.mode=off", "sandbox.network=on"):
        assert asking.run("--set", looser, "call", "shell.exec", "command=touch made.txt").code == 4, looser


@pytest.mark.spec("A12")
def test_a_grant_for_all_projects_applies_in_another_project(careful: Cli) -> None:
    other = careful.project.parent / "other"
    (other / ".git").mkdir(parents=True)
    careful.run("approve", careful.make_pending("shell.exec", "command=touch made.txt"), "--always", "user")
    assert careful.run("call", "shell.exec", "command=touch made.txt", "timeout:=60000", cwd=other).code == 0
    assert (other / "made.txt").exists()
    assert careful.run("call", "--json", "shell.exec", "command=touch other.txt", cwd=other).code == 4


@pytest.mark.spec("E7c")
def test_always_also_approves_the_pending_calls_it_covers_and_names_them(asking: Cli) -> None:
    first, second = asking.make_pending(*WRITE), asking.make_pending(*WRITE)
    other = asking.make_pending("file.write", "path=other.txt", "content=hello")
    done = asking.run("approve", first, "--always", "project")
    assert done.code == 0
    assert f"The grant also approves call {second}" in " ".join(done.err.split())
    assert [pending["call_id"] for pending in asking.run("pending", "--json").lines] == [other]
    (grant,) = asking.run("grants", "--json").lines
    (record,) = asking.run("ledger", "show", second, "--json").lines
    assert [answer["message"] for answer in record["answers"]] == [f"covered by grant {grant['id']}"]


@pytest.mark.spec("E7c")
def test_always_can_be_limited_in_time(asking: Cli) -> None:
    now = time.time()
    done = asking.run("approve", asking.make_pending(*WRITE), "--always", "project", "--for", "8h")
    assert done.code == 0 and ", until " in " ".join(done.err.split())
    (grant,) = asking.run("grants", "--json").lines
    assert now + 8 * 3600 <= grant["expires"] <= time.time() + 8 * 3600
    assert time.strftime("%Y-%m-%d", time.localtime(grant["expires"])) in asking.run("grants").out


@pytest.mark.parametrize("given", [("--for", "8h"), ("--always", "project", "--for", "soon")])
def test_a_lifetime_needs_a_grant_and_a_duration(asking: Cli, given: tuple[str, ...]) -> None:
    call_id = asking.make_pending(*WRITE)
    assert asking.run("approve", call_id, *given).code == 2
    assert asking.run("pending", "--json").lines[0]["state"] == "pending"
