"""`holdfast approve`: one process leaves a call pending and ends, others approve it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import Cli

WRITE = ("file.write", "path=notes.txt", "content=hello")
MODULE = """
from holdfast import tool

@tool
def launch(what: str) -> str:
    return what

definitions = [launch]
"""


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
    assert asking.run("pending").out == "Nothing is pending.\n"


@pytest.mark.spec("A13a")
def test_a_prefix_of_an_id_is_enough_if_it_is_unique(asking: Cli) -> None:
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
    assert "is not pending" in again.sentence
    assert not (asking.project / "notes.txt").exists()


@pytest.mark.spec("A13a")
def test_a_call_that_changed_since_it_was_shown_stays_pending(asking: Cli) -> None:
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
def test_invalid_new_arguments_leave_the_call_pending(asking: Cli) -> None:
    call_id = asking.make_pending(*WRITE)
    done = asking.run("approve", call_id, "--args", '{"path": 5, "content": "x"}', "--json")
    assert done.code == 2
    assert done.json["error"]["kind"] == "invalid_arguments"
    assert [item["call_id"] for item in asking.run("pending", "--json").lines] == [call_id]


@pytest.mark.spec("A13a")
def test_a_tool_this_command_does_not_know_is_left_to_its_program(asking: Cli, tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(MODULE)
    asking.env["PYTHONPATH"] = str(tmp_path)
    asking.configure('[tools]\nmodules = ["my_tools"]\nprofile = "full"\n')
    call_id = asking.make_pending("launch", "what=rocket")
    asking.configure("")
    done = asking.run("approve", call_id)
    assert done.code == 4
    assert "runs in the program that has 'launch'" in done.err
    assert asking.run("pending", "--json").lines[0]["waits_for"] == "program"
    asking.configure('[tools]\nmodules = ["my_tools"]\nprofile = "full"\n')
    asking.run("call", "calculator", "expression=1")
    assert asking.run("ledger", "show", call_id, "--json").json["state"] == "done"


@pytest.mark.spec("A13a")
def test_an_unknown_id_gives_no_traceback(asking: Cli) -> None:
    for command in ("approve", "reject"):
        done = asking.run(command, "nobody")
        assert done.code == 2
        assert "No call has the id 'nobody'" in done.sentence


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
    assert unseen.code == 2 and "You have not seen call" in unseen.err and not (asking.project / "a").exists()
    asking.run("reject", ids[0])
    asking.run("pending")
    assert asking.run("approve", "--all").code == 0
    assert [(asking.project / name).exists() for name in "abc"] == [False, True, True]
    asking.make_pending("file.write", "path=d", "content=x")
    asking.make_pending("file.write", "path=e", "content=x")
    assert asking.run("reject", "--all").code == 0
    assert asking.run("pending").out == "Nothing is pending.\n"
