"""`holdfast undo`, on a terminal and in a script."""

from __future__ import annotations

import os

import pytest

from tests.cli.command_line import Cli
from tests.cli.file_changes import change_files, make_folder
from tests.cli.terminal import Terminal


@pytest.mark.spec("X11", "E1b")
def test_undo_needs_confirmation_and_puts_everything_back(cli: Cli, changed: str) -> None:
    asked = cli.run("undo", changed)
    assert asked.code == 2
    assert "│ -2\n│ +two" in asked.err
    assert f"holdfast undo --yes {changed}" in asked.err
    assert (cli.project / "new.txt").exists()
    done = cli.run("undo", "--yes")
    assert done.code == 0
    assert done.out.startswith(f"Put back 3 paths that call {changed} had changed. The undo is call ")
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
def test_unknown_calls_and_calls_without_changes_are_named(cli: Cli) -> None:
    assert cli.run("changes").out == "No file changes are recorded here.\n"
    assert cli.run("undo", "--yes").code == 1
    unknown = cli.run("undo", "nope", "--yes")
    assert unknown.code == 2
    assert "No call has the id 'nope'" in unknown.sentence
    plain = cli.run("call", "calculator", "expression=1", "--json").json["call_id"]
    assert cli.run("changes", plain).out == f"No file changes are recorded for call {plain}.\n"
    assert cli.run("undo", plain, "--yes").code == 1


@pytest.mark.spec("X11")
def test_declining_an_undo_is_not_an_error(cli: Cli, changed: str) -> None:
    with Terminal(cli, "undo", changed) as person:
        person.expect("Put this back? [y/N]")
        person.type("n")
        assert person.finish() == 3
    assert person.text.endswith("Nothing was put back.\n")
    assert "Error" not in person.text


@pytest.mark.spec("X11")
def test_partial_is_only_suggested_if_something_can_be_put_back(cli: Cli, changed: str) -> None:
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
    assert "\n  … and 10 more\nTotal: 59 to put back, 1 that cannot be put back.\n" in seen


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
def test_names_that_are_not_utf_8_are_escaped_in_json(cli: Cli) -> None:
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
