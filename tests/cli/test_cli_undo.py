"""`holdfast changes`, `holdfast undo` and `holdfast ledger prune` as a person and a script use them."""

from __future__ import annotations

import os
import re

import pytest

from tests.cli.changing import change_files, make_folder
from tests.cli.command import Cli
from tests.cli.terminal import Terminal


@pytest.fixture
def changed(cli: Cli) -> str:
    (cli.project / "a.txt").write_text("one\ntwo\n")
    (cli.project / "b.txt").write_text("bee\n")
    return change_files(cli, {"a.txt": "one\n2\n", "b.txt": None, "new.txt": "new\n"})


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


@pytest.mark.spec("X11", "E1b")
def test_undo_needs_a_yes_and_then_puts_everything_back(cli: Cli, changed: str) -> None:
    asked = cli.run("undo", changed)
    assert asked.code == 2
    assert "│ -2\n│ +two" in asked.err
    assert f"holdfast undo --yes {changed}" in asked.err
    assert (cli.project / "new.txt").exists()
    done = cli.run("undo", "--yes")
    assert done.code == 0
    assert done.out.startswith(f"Put back 3 paths that call {changed} had changed. It is call ")
    assert (cli.project / "a.txt").read_text() == "one\ntwo\n"
    assert (cli.project / "b.txt").read_text() == "bee\n"
    assert not (cli.project / "new.txt").exists()
    again = cli.run("undo", changed, "--yes")
    assert again.code == 1
    assert "was undone already" in again.err
    assert cli.run("undo", "--yes").code == 1
    assert "undone" in cli.run("changes").out
    assert cli.run("ledger", "verify").code == 0


@pytest.mark.spec("X11")
def test_undo_refuses_where_a_file_has_changed_since(cli: Cli, changed: str) -> None:
    (cli.project / "a.txt").write_text("mine\n")
    refused = cli.run("undo", changed, "--yes", "--json")
    assert refused.code == 1
    assert refused.json["error"]["kind"] == "undo_refused"
    assert "a.txt cannot be, because it has changed since" in refused.json["error"]["message"]
    assert (cli.project / "new.txt").exists()
    part = cli.run("undo", changed, "--yes", "--partial", "--json")
    assert part.code == 0
    assert [item["undo"] for item in part.json["changes"]] == ["refused", "put_back", "put_back"]
    assert (cli.project / "a.txt").read_text() == "mine\n"
    assert not (cli.project / "new.txt").exists()


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 3)])
@pytest.mark.spec("X11")
def test_a_person_at_a_terminal_is_shown_the_diff_and_asked(cli: Cli, changed: str, typed: str, code: int) -> None:
    with Terminal(cli, "undo", changed) as person:
        person.expect("modified a.txt")
        person.expect("-2")
        person.expect("Put this back? [y/N]")
        person.type(typed)
        assert person.finish() == code
    assert (cli.project / "b.txt").exists() is (code == 0)


@pytest.mark.spec("X11")
def test_a_file_name_or_content_cannot_act_on_the_terminal(cli: Cli) -> None:
    call_id = change_files(cli, {"x\x1b[7m.txt": "turned \x1b[7m\n"})
    with Terminal(cli, "changes", call_id, "--diff") as person:
        assert person.finish() == 0
        assert "\x1b[7m" not in person.raw


@pytest.mark.spec("X11")
def test_calls_that_are_not_there_or_changed_nothing_are_named(cli: Cli) -> None:
    assert cli.run("changes").out == "No call has changed a file here that was recorded.\n"
    assert cli.run("undo", "--yes").code == 1
    unknown = cli.run("undo", "nope", "--yes")
    assert unknown.code == 2
    assert "No call has the id 'nope'" in unknown.sentence
    plain = cli.run("call", "calculator", "expression=1", "--json").json["call_id"]
    assert cli.run("changes", plain).out == f"Call {plain} changed no files that were recorded.\n"
    assert cli.run("undo", plain, "--yes").code == 1


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


@pytest.mark.spec("X11")
def test_a_person_who_says_no_has_made_no_mistake(cli: Cli, changed: str) -> None:
    with Terminal(cli, "undo", changed) as person:
        person.expect("Put this back? [y/N]")
        person.type("n")
        assert person.finish() == 3
    assert person.text.endswith("Nothing was put back.\n")
    assert "Error" not in person.text


@pytest.mark.spec("X11")
def test_a_rest_is_only_offered_where_there_is_one(cli: Cli, changed: str) -> None:
    (cli.project / "a.txt").write_text("mine\n")
    assert f"holdfast undo --partial {changed}" in cli.run("undo", changed, "--yes").err
    (cli.project / "b.txt").write_text("mine\n")
    (cli.project / "new.txt").write_text("mine\n")
    for option in ((), ("--partial",)):
        refused = cli.run("undo", changed, "--yes", *option)
        assert refused.code == 1
        assert f"Every path call {changed} changed has been changed since, so nothing was put back." in refused.err
        assert "holdfast undo --partial" not in refused.err


@pytest.mark.spec("X11")
def test_of_many_paths_the_first_are_shown_and_all_are_counted(cli: Cli) -> None:
    call_id = change_files(cli, {f"f{number:03}": "x\n" for number in range(60)})
    (cli.project / "f059").write_text("mine\n")
    seen = cli.run("undo", call_id, "--partial").err
    assert "created  f049" in seen
    assert "f050" not in seen
    assert "\n  … and 10 more\nIn all: 59 to put back, 1 that cannot be.\n" in seen


@pytest.mark.spec("X11")
def test_a_folder_is_said_to_be_removed_or_made(cli: Cli) -> None:
    (cli.project / "old").mkdir()
    cli.configure('[sandbox]\nmode = "off"\nundo = "copy"\n')
    call_id = cli.make_pending("shell.exec", "command=rmdir old; mkdir new")
    assert cli.run("approve", call_id).code == 0
    seen = cli.run("undo", call_id).err
    assert "[new: a folder, will be removed]" in seen
    assert "[old: a folder, will be made]" in seen
    assert "-directory" not in seen
    told = cli.run("changes", call_id, "--diff").out
    assert "[new: a folder, made]" in told
    assert "[old: a folder, removed]" in told


@pytest.mark.spec("X11", "E1b")
def test_names_that_are_not_utf_8_are_written_out_in_json(cli: Cli) -> None:
    name = os.fsdecode(b"caf\xe9")
    (cli.project / name).mkdir()
    call_id = change_files(cli, {f"{name}/a.txt": "new\n", "b.txt": "new\n"})
    listed = cli.run("changes", call_id, "--diff", "--json")
    assert (listed.code, listed.err) == (0, "")
    assert listed.lines[1]["path"].endswith("/caf\\xe9/a.txt")
    (cli.project / name / "a.txt").write_text("mine\n")
    refused = cli.run("undo", call_id, "--yes", "--json")
    assert (refused.code, refused.err) == (1, "")
    assert "caf\\xe9/a.txt cannot be" in refused.json["error"]["message"]
    done = cli.run("undo", call_id, "--yes", "--partial", "--json")
    assert (done.code, done.err) == (0, "")
    assert not (cli.project / "b.txt").exists()


@pytest.mark.spec("X11", "E1b")
def test_why_a_folder_stays_is_json_whatever_its_files_are_called(cli: Cli) -> None:
    call_id = make_folder(cli, "made")
    (cli.project / "made" / os.fsdecode(b"\xff")).write_text("mine\n")
    shown = cli.run("changes", call_id, "--json")
    assert shown.lines[0]["why"] == "it holds \\xff, which stays"


@pytest.mark.spec("X11", "O1")
def test_a_newline_in_a_name_does_not_make_a_second_line_of_an_error(cli: Cli) -> None:
    call_id = change_files(cli, {"a\nError: all is well": "new\n", "b.txt": "new\n"})
    (cli.project / "a\nError: all is well").write_text("mine\n")
    refused = cli.run("undo", call_id, "--yes")
    assert "\n│ Error: all is well cannot be" in refused.err, "the rest of a message is behind the gutter"
    assert refused.err.count("\nError: ") == 1
