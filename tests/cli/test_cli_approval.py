"""One process leaves a call pending and ends; others approve it, change it, reject it, answer it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Cli

WRITE = ("file.write", "path=notes.txt", "content=hello")
MODULE = """
from holdfast import tool

@tool
def launch(what: str) -> str:
    return what

definitions = [launch]
"""
QUESTION = ("ask.user", 'questions:=[{"question": "Which?", "options": null}]')


@pytest.mark.spec("A13a")
def test_another_process_approves_and_the_call_runs_there_at_once(asking: Cli) -> None:
    call_id = asking.make_pending(*WRITE)
    done = asking.run("approve", call_id)
    assert done.code == 0
    assert "notes.txt" in done.out
    assert "+hello" in done.err, "what is approved is shown"
    assert (asking.project / "notes.txt").read_text() == "hello"
    record = asking.run("ledger", "show", call_id, "--json").json
    assert record["state"] == "done"
    assert record["answers"][0]["by"] == "cli:tester"
    assert record["result"]["success"] is True
    assert asking.run("pending").out == "Nothing is waiting.\n"


@pytest.mark.spec("A13a")
def test_the_beginning_of_an_id_is_enough_if_only_one_call_has_it(asking: Cli) -> None:
    first, second = asking.make_pending(*WRITE), asking.make_pending(*WRITE)
    shared = next(n for n in range(1, 9) if first[:n] != second[:n])
    assert asking.run("reject", first[:shared]).code == 0
    assert [item["call_id"] for item in asking.run("pending", "--json").lines] == [second]


@pytest.mark.spec("A13a")
def test_an_approval_is_used_once(asking: Cli) -> None:
    call_id = asking.make_pending(*WRITE)
    assert asking.run("approve", call_id).code == 0
    (asking.project / "notes.txt").unlink()
    again = asking.run("approve", call_id)
    assert again.code == 2
    assert "does not wait" in again.sentence
    assert not (asking.project / "notes.txt").exists()


@pytest.mark.spec("A13a")
def test_what_changed_since_it_was_shown_is_not_run_but_waits_again(asking: Cli) -> None:
    call_id = asking.make_pending(*WRITE)
    (asking.project / "notes.txt").write_text("someone else's")
    done = asking.run("approve", call_id)
    assert done.code == 4
    assert "has changed" in done.err
    assert (asking.project / "notes.txt").read_text() == "someone else's"
    assert "-someone else's" in asking.run("pending", call_id).out
    assert asking.run("approve", call_id).code == 0
    assert (asking.project / "notes.txt").read_text() == "hello"


@pytest.mark.spec("A14")
def test_changed_arguments_are_shown_and_are_what_runs(asking: Cli) -> None:
    call_id = asking.make_pending(*WRITE)
    done = asking.run("approve", call_id, "--args", '{"path": "other.txt", "content": "changed"}')
    assert done.code == 0
    assert "+changed" in done.err
    assert (asking.project / "other.txt").read_text() == "changed"
    assert not (asking.project / "notes.txt").exists()
    assert [given["kind"] for given in asking.run("ledger", "show", call_id, "--json").json["answers"]] == [
        "edit",
        "approve",
    ]


@pytest.mark.spec("A14")
def test_changed_arguments_that_do_not_fit_leave_the_call_waiting(asking: Cli) -> None:
    call_id = asking.make_pending(*WRITE)
    done = asking.run("approve", call_id, "--args", '{"path": 5, "content": "x"}', "--json")
    assert done.code == 2
    assert done.json["error"]["kind"] == "invalid_arguments"
    assert [item["call_id"] for item in asking.run("pending", "--json").lines] == [call_id]


@pytest.mark.spec("A14")
def test_a_rejection_carries_its_message_to_the_caller(asking: Cli) -> None:
    call_id = asking.make_pending(*WRITE)
    assert asking.run("reject", call_id, "-m", "not in this folder").code == 0
    record = asking.run("ledger", "show", call_id, "--json").json
    assert record["state"] == "rejected"
    assert record["result"]["error"]["message"] == "not in this folder"


@pytest.mark.spec("A14")
def test_a_call_can_be_answered_in_the_tools_place(asking: Cli) -> None:
    call_id = asking.make_pending(*QUESTION)
    yes = asking.run("approve", call_id)
    assert yes.code == 2
    assert "waits for its result" in yes.err
    assert asking.run("respond", call_id).code == 2, "no text and no terminal"
    assert asking.run("respond", call_id, "-", stdin="the blue one\n").code == 0
    assert asking.run("ledger", "show", call_id, "--json").json["result"]["output"] == "the blue one"


@pytest.mark.spec("A14")
def test_an_answer_can_be_a_failure(asking: Cli) -> None:
    call_id = asking.make_pending(*QUESTION)
    assert asking.run("respond", call_id, "--failed", "I do not know").code == 0
    result = asking.run("ledger", "show", call_id, "--json").json["result"]
    assert (result["success"], result["error"]["message"]) == (False, "I do not know")


@pytest.mark.spec("A13a")
def test_a_tool_this_command_does_not_know_is_left_to_its_program(asking: Cli, tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(MODULE)
    asking.env["PYTHONPATH"] = str(tmp_path)
    asking.configure('[tools]\nmodules = ["my_tools"]\nprofile = "full"\n')
    call_id = asking.make_pending("launch", "what=rocket")
    asking.configure("")
    done = asking.run("approve", call_id)
    assert done.code == 4
    assert "runs in the program that knows 'launch'" in done.err
    assert asking.run("pending", "--json").lines[0]["waits_for"] == "program"
    asking.configure('[tools]\nmodules = ["my_tools"]\nprofile = "full"\n')
    asking.run("call", "calculator", "expression=1")
    assert asking.run("ledger", "show", call_id, "--json").json["state"] == "done"


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
    assert asking.run("grants").out == "Nothing is always allowed here.\n"


@pytest.mark.spec("A12")
def test_always_is_refused_where_a_limit_asks_every_time(asking: Cli) -> None:
    asking.configure('[confirmation]\nactions = { "file.write" = "confirm" }\n')
    call_id = asking.make_pending(*WRITE)
    done = asking.run("approve", call_id, "--always", "user")
    assert done.code == 2
    assert "asked about every time" in done.err
    assert asking.run("pending", "--json").lines[0]["state"] == "pending"
    assert asking.run("grants").out == "Nothing is always allowed here.\n"


@pytest.mark.spec("A13a")
def test_a_call_nobody_has_asked_for_is_no_traceback(asking: Cli) -> None:
    for command in ("approve", "reject"):
        done = asking.run(command, "nobody")
        assert done.code == 2
        assert "No call has the id 'nobody'" in done.sentence


@pytest.mark.spec("E1b")
def test_what_a_waiting_call_would_do_is_shown_once(asking: Cli) -> None:
    call_id = asking.make_pending("file.write", "path=a.txt", "content=hello")
    shown = asking.run("pending", call_id).out
    assert shown.count("+hello") == 1
    assert shown.count("+++ ") == 1
    assert call_id in shown


@pytest.mark.spec("A12b")
def test_a_script_that_changed_after_it_was_shown_is_not_run_and_is_named(asking: Cli) -> None:
    asking.configure('[approval]\nauto_approve = ["$readonly"]\n')
    (asking.project / "build.sh").write_text("touch good.txt\n")
    call_id = asking.make_pending("shell.exec", "command=sh build.sh")
    assert "build.sh = sha256:" in asking.run("pending", call_id).out
    (asking.project / "build.sh").write_text("touch evil.txt\n")
    done = asking.run("approve", call_id)
    assert done.code == 4
    assert "the content of build.sh" in done.err
    assert not (asking.project / "evil.txt").exists()
    assert asking.run("approve", call_id).code == 0, "it was shown as what it is now"
    assert (asking.project / "evil.txt").exists()


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


@pytest.mark.spec("A21")
def test_a_call_that_waited_too_long_is_not_listed_and_cannot_be_approved(asking: Cli) -> None:
    call_id = asking.make_pending(*WRITE)
    soon = ("--set", "pending.ttl=0.000001")
    assert asking.run(*soon, "pending").out == "Nothing is waiting.\n"
    late = asking.run("approve", call_id)
    assert late.code == 2
    assert "expired" in late.sentence
    record = asking.run("ledger", "show", call_id, "--json").json
    assert (record["state"], record["result"]["success"]) == ("expired", False)
    assert not (asking.project / "notes.txt").exists()


@pytest.mark.spec("A12")
def test_what_is_allowed_in_all_projects_is_allowed_in_another_one(careful: Cli) -> None:
    other = careful.project.parent / "other"
    (other / ".git").mkdir(parents=True)
    careful.run("approve", careful.make_pending("shell.exec", "command=touch made.txt"), "--always", "user")
    assert careful.run("call", "shell.exec", "command=touch made.txt", "timeout:=60000", cwd=other).code == 0
    assert (other / "made.txt").exists()
    assert careful.run("call", "--json", "shell.exec", "command=touch other.txt", cwd=other).code == 4


@pytest.mark.spec("A13a", "E1a")
def test_pending_calls_are_listed_by_origin_with_the_same_ones_together(asking: Cli) -> None:
    first, second, third = (
        asking.make_pending(*WRITE),
        asking.make_pending(*WRITE),
        asking.make_pending("file.write", "path=b", "content=b"),
    )
    shown = asking.run("pending").out
    assert shown.count("From command line:") == 1
    assert shown.count("+hello") == 1 and f"  same    {second}\n" in shown
    assert all(call_id in shown for call_id in (first, second, third))
    other = asking.project.parent / "other"
    (other / ".git").mkdir(parents=True)
    assert asking.run("pending", cwd=other).out == "Nothing is waiting.\n"
    everywhere = asking.run("pending", "--project", "all", cwd=other)
    assert third in everywhere.out and str(asking.project) in everywhere.out.replace("\n│↳", "")


@pytest.mark.spec("A13a", "A23")
def test_a_call_of_another_project_is_answered_under_the_rules_of_that_project(asking: Cli) -> None:
    other = asking.project.parent / "other"
    (other / ".git").mkdir(parents=True)
    first, second, third = (asking.make_pending("file.write", f"path={name}", "content=x") for name in "abc")
    unknown = asking.run("approve", first, cwd=other)
    assert unknown.code == 2 and f"holdfast approve {first} --project all" in unknown.err
    assert "3 calls are pending" in asking.run("approve", "--project", "all", cwd=other).err
    assert asking.run("approve", first, "--project", "all", cwd=other).code == 0
    assert (asking.project / "a").exists() and not (other / "a").exists()
    assert asking.run("reject", second, "--project", "all", cwd=other).code == 0
    assert asking.run("approve", "--project", "all", cwd=other).code == 0
    assert (asking.project / "c").exists() and not (asking.project / "b").exists()
    gone = asking.run("approve", third, "--project", "all", cwd=other)
    assert gone.code == 2 and f"No call '{third}' is pending" in gone.err
    fourth = asking.make_pending("file.write", "path=d", "content=x")
    (asking.project / "holdfast.toml").write_text('[tools]\ndeny = ["file.write"]\n')
    assert asking.run("approve", fourth, "--project", "all", cwd=other).code == 3
    (asking.project / "holdfast.toml").unlink()
    asking.make_pending("file.write", "path=e", "content=x")
    assert asking.run("approve", "--all", "--project", "all", cwd=other).err.startswith("In /")
    assert (asking.project / "e").exists() and not (asking.project / "d").exists()


@pytest.mark.spec("A13a", "A23")
def test_an_answer_needs_no_id_where_one_call_is_pending_and_all_where_all_were_shown(asking: Cli) -> None:
    assert "Nothing is pending." in asking.run("approve").err
    asking.make_pending(*WRITE)
    assert asking.run("approve").code == 0
    ids = [asking.make_pending("file.write", f"path={name}", "content=x") for name in "abc"]
    several = asking.run("reject")
    assert several.code == 2 and all(call_id in several.err for call_id in ids)
    asking.forget_shown()
    unseen = asking.run("approve", "--all")
    assert unseen.code == 2 and "not shown" in unseen.err and not (asking.project / "a").exists()
    asking.run("reject", ids[0])
    asking.run("pending")
    assert asking.run("approve", "--all").code == 0
    assert [(asking.project / name).exists() for name in "abc"] == [False, True, True]
    asking.make_pending("file.write", "path=d", "content=x")
    asking.make_pending("file.write", "path=e", "content=x")
    assert asking.run("reject", "--all").code == 0
    assert asking.run("pending").out == "Nothing is waiting.\n"
