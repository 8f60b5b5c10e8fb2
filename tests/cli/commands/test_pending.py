"""`holdfast pending`: how pending calls are listed."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli

WRITE = ("file.write", "path=notes.txt", "content=hello")


@pytest.mark.spec("E1b")
def test_a_pending_call_is_shown_once(asking: Cli) -> None:
    call_id = asking.make_pending("file.write", "path=a.txt", "content=hello")
    shown = asking.run("pending", call_id).out
    assert shown.count("+hello") == 1
    assert shown.count("+++ ") == 1
    assert call_id in shown


@pytest.mark.spec("A21")
def test_an_expired_call_is_not_listed_and_cannot_be_approved(asking: Cli) -> None:
    call_id = asking.make_pending(*WRITE)
    soon = ("--set", "pending.ttl=0.000001")
    assert asking.run(*soon, "pending").out == "Nothing is pending.\n"
    late = asking.run("approve", call_id)
    assert late.code == 2
    assert "expired" in late.sentence
    record = asking.run("ledger", "show", call_id, "--json").json
    assert (record["state"], record["result"]["success"]) == ("expired", False)
    assert not (asking.project / "notes.txt").exists()


@pytest.mark.spec("A13a", "E1a")
def test_pending_calls_are_listed_by_origin_with_the_same_ones_together(asking: Cli) -> None:
    first, second, third = (
        asking.make_pending(*WRITE),
        asking.make_pending(*WRITE),
        asking.make_pending("file.write", "path=b", "content=b"),
    )
    shown = asking.run("pending").out
    assert shown.count("From command line:") == 1
    assert shown.count("+hello") == 1 and f"  same    {second} (identical; each needs its own answer)\n" in shown
    assert all(call_id in shown for call_id in (first, second, third))
    other = asking.project.parent / "other"
    (other / ".git").mkdir(parents=True)
    assert asking.run("pending", cwd=other).out == "Nothing is pending.\n"
    everywhere = asking.run("pending", "--project", "all", cwd=other)
    assert third in everywhere.out and str(asking.project) in everywhere.out.replace("\n│↳", "")


@pytest.mark.spec("E7d")
def test_three_calls_of_the_same_shape_are_listed_as_one_group(asking: Cli) -> None:
    ids = [asking.make_pending("file.write", f"path={name}.txt", "content=hello") for name in ("a", "b", "c")]
    other = asking.make_pending("shell.exec", "command=touch x")
    shown = asking.run("pending").out
    assert "3 calls of file.write with the same shape wait for approval" in shown
    assert f"  ids     {', '.join(ids)}\n" in shown and "  differ  path\n" in shown
    assert other in shown and "+hello" not in shown
    flat = asking.run("pending", "--flat").out
    assert flat.count("+hello") == 3 and "same shape" not in flat
    assert [pending["call_id"] for pending in asking.run("pending", "--json").lines] == [*ids, other]


@pytest.mark.spec("E7d")
def test_calls_that_need_two_people_are_listed_each(asking: Cli) -> None:
    asking.configure('[approval]\nauto_approve = []\ntwo_people = "low"\n')
    ids = [asking.make_pending("file.write", f"path={name}.txt", "content=hello") for name in ("a", "b", "c")]
    shown = asking.run("pending").out
    assert "same shape" not in shown and shown.count("+hello") == 3 and all(call_id in shown for call_id in ids)


@pytest.mark.spec("E7d", "A12")
def test_a_call_in_a_group_was_not_shown_and_cannot_be_approved_unseen(asking: Cli) -> None:
    ids = [asking.make_pending("file.write", f"path={name}.txt", "content=hello") for name in ("a", "b", "c")]
    asking.forget_shown()
    asking.run("pending")
    refused = asking.run("approve", ids[0])
    assert refused.code != 0 and not (asking.project / "a.txt").exists()
