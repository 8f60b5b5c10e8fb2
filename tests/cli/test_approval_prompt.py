"""The approval prompt of `holdfast call` on a terminal."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli
from tests.cli.terminal import Terminal

WRITE = ("call", "file.write", "path=notes.txt", "content=hello")
PROMPT = "leave it pending\n> "


@pytest.mark.spec("A15a", "A14", "E1a")
def test_a_call_is_shown_with_the_reason_and_approved(asking: Cli) -> None:
    with Terminal(asking, *WRITE) as person:
        person.expect("May file.write run?")
        person.expect("why     No rule covers this call, so it needs your approval.\n")
        person.expect("medium")
        person.expect("create notes.txt")
        person.expect("│ +hello")
        person.expect(PROMPT)
        assert not (asking.project / "notes.txt").exists()
        person.type("y")
        assert person.finish() == 0
        assert "Successfully wrote 5 bytes" in person.text
    assert (asking.project / "notes.txt").read_text() == "hello"


@pytest.mark.spec("A14")
def test_rejecting_with_and_without_a_message_ends_the_call(asking: Cli) -> None:
    with Terminal(asking, *WRITE) as person:
        person.expect(PROMPT)
        person.type("n")
        assert person.finish() == 3
    with Terminal(asking, *WRITE) as person:
        person.expect(PROMPT)
        person.type("m")
        person.expect("Message to the model:")
        person.type("use the other folder")
        assert person.finish() == 3
        assert "Error: use the other folder" in person.text
    assert not (asking.project / "notes.txt").exists()


@pytest.mark.spec("A14")
def test_edited_arguments_are_shown_again_before_they_are_approved(asking: Cli) -> None:
    with Terminal(asking, *WRITE, PATH="/nowhere") as person:
        person.expect(PROMPT)
        person.type("e")
        person.expect("one line of JSON: ")
        person.type('{"path": 5}')
        person.expect("content is missing; path is 5 but must be string")
        person.expect(PROMPT)
        person.type("e")
        person.expect("one line of JSON: ")
        person.type('{"path": "other.txt", "content": "edited"}')
        person.expect("create other.txt")
        person.expect("+edited")
        person.expect(PROMPT)
        assert not (asking.project / "other.txt").exists()
        person.type("y")
        assert person.finish() == 0
    assert (asking.project / "other.txt").read_text() == "edited"
    assert not (asking.project / "notes.txt").exists()


@pytest.mark.spec("A14")
def test_arguments_are_edited_in_the_persons_editor_if_there_is_one(asking: Cli) -> None:
    with Terminal(asking, *WRITE, EDITOR="sed -i s/hello/edited/") as person:
        person.expect(PROMPT)
        person.type("e")
        person.expect("+edited")
        person.expect(PROMPT)
        person.type("y")
        assert person.finish() == 0
    assert (asking.project / "notes.txt").read_text() == "edited"


@pytest.mark.spec("A12")
def test_always_shows_the_narrow_grant_before_it_is_created(asking: Cli) -> None:
    with Terminal(asking, *WRITE, columns=120) as person:
        person.expect(PROMPT)
        person.press(b"a")
        person.expect('│ 1. file.write with content="hello", path="notes.txt", in this project')
        person.expect("[n] back\n> ")
        person.press(b"n")
        person.expect(PROMPT)
        assert asking.run("grants", "--json").out == ""
        person.press(b"a")
        person.expect("[n] back\n> ")
        person.press(b"1")
        person.expect("holdfast grants revoke")
        assert person.finish() == 0
    (asking.project / "notes.txt").unlink()
    assert asking.run(*WRITE).code == 0


@pytest.mark.spec("A14")
def test_the_person_can_respond_in_the_tools_place(asking: Cli) -> None:
    with Terminal(asking, *WRITE) as person:
        person.expect(PROMPT)
        person.type("r")
        person.expect("Result: ")
        person.type("I did it by hand")
        assert person.finish() == 0
        assert person.text.rstrip().endswith("I did it by hand")
    assert not (asking.project / "notes.txt").exists()


@pytest.mark.spec("A13a", "A15a")
def test_quitting_or_end_of_input_leaves_the_call_pending(asking: Cli) -> None:
    with Terminal(asking, *WRITE) as person:
        person.expect(PROMPT)
        person.type("q")
        assert person.finish() == 4
        assert "holdfast approve" in person.text
    with Terminal(asking, *WRITE) as person:
        person.expect(PROMPT)
        person.press(b"\x04")
        assert person.finish() == 4
    waiting = asking.run("pending", "--json").lines
    assert len(waiting) == 2
    assert asking.run("approve", waiting[0]["call_id"]).code == 0
    assert (asking.project / "notes.txt").read_text() == "hello"


@pytest.mark.spec("A15a")
def test_ctrl_c_cancels_the_call(asking: Cli) -> None:
    with Terminal(asking, *WRITE) as person:
        person.expect(PROMPT)
        person.press(b"\x03")
        assert person.finish() == 130
        assert person.text.endswith("> \nCancelled. Nothing ran.\n")
    assert asking.run("pending").out == "Nothing is pending.\n"
    assert asking.run("ledger", "--json").lines[0]["state"] == "cancelled"


@pytest.mark.spec("A13a")
def test_an_answer_from_another_process_ends_the_prompt(asking: Cli) -> None:
    with Terminal(asking, *WRITE) as person:
        person.expect(PROMPT)
        call_id = asking.run("pending", "--json").lines[0]["call_id"]
        done = asking.run("approve", call_id)
        assert done.code == 4
        assert "is waiting for it and runs it" in done.err
        assert person.finish() == 0
        assert "answered elsewhere" in person.text
    assert (asking.project / "notes.txt").read_text() == "hello"


@pytest.mark.spec("A13a")
def test_a_call_that_changes_while_the_prompt_is_open_is_shown_again(asking: Cli) -> None:
    with Terminal(asking, *WRITE) as person:
        person.expect(PROMPT)
        (asking.project / "notes.txt").write_text("mine")
        person.type("y")
        person.expect("The call changed since it was shown: the file notes.txt. Review it again.")
        person.expect("-mine")
        person.expect(PROMPT)
        assert (asking.project / "notes.txt").read_text() == "mine"
        person.type("y")
        assert person.finish() == 0
    assert (asking.project / "notes.txt").read_text() == "hello"


@pytest.mark.spec("A15a")
def test_type_ahead_does_not_answer_the_prompt(asking: Cli) -> None:
    with Terminal(asking, *WRITE) as person:
        person.type("y")
        person.expect(PROMPT)
        person.type("q")
        assert person.finish() == 4
    assert not (asking.project / "notes.txt").exists()


@pytest.mark.spec("A15a")
def test_on_a_terminal_a_call_can_be_left_pending_on_purpose(asking: Cli) -> None:
    with Terminal(asking, *WRITE, "--pending") as person:
        assert person.finish() == 4
        assert PROMPT not in person.text


@pytest.mark.spec("A14", "E1a")
def test_questions_of_a_model_are_asked_one_by_one(asking: Cli) -> None:
    first = '{"question": "Which \\u001b[2Jcolour?", "options": ["red", "blue"]}'
    second = '{"question": "Why?", "options": null}'
    with Terminal(asking, "call", "ask.user", f"questions:=[{first}, {second}]") as person:
        person.expect("Which ‹\\x1b›[2Jcolour?")
        person.expect("2. blue")
        person.expect("a number, or text): ")
        person.type("2")
        person.expect("Why?")
        person.expect("Your answer: ")
        person.type("it is calm")
        assert person.finish() == 0
        assert person.text.rstrip().endswith("blue\n\nWhy?\nit is calm")
    call_id = asking.make_pending("ask.user", 'questions:=[{"question": "Where?", "options": null}]')
    with Terminal(asking, "respond", call_id) as person:
        person.expect("Where?")
        person.type("here")
        assert person.finish() == 0
    assert asking.run("ledger", "show", call_id, "--json").json["result"]["output"] == "here"


@pytest.mark.spec("E1a")
def test_trust_is_asked_for_with_what_it_would_loosen(cli: Cli) -> None:
    (cli.project / "holdfast.toml").write_text('[tools]\nprofile = "full"\n')
    with Terminal(cli, "trust") as person:
        person.expect('now    profile = "coding"')
        person.expect('then   profile = "full"')
        person.expect("[y/N]")
        person.type("n")
        assert person.finish() == 2
    assert cli.run("trust", "list").out == "No file is trusted.\n"
    with Terminal(cli, "trust") as person:
        person.expect("[y/N]")
        person.type("y")
        assert person.finish() == 0
    assert cli.run("policy", "--json").json["tools"]["profile"] == "full"


@pytest.mark.spec("E1b")
def test_progress_is_shown_and_removed(cli: Cli) -> None:
    asked = ("policy", "fuzz", "$shell-readonly", "--count", "60")
    with Terminal(cli, *asked) as person:
        assert person.finish() == 0
    *told, left = person.raw.split("\r\x1b[K")
    assert "judging mutants: 0 of 60…" in told
    assert any(words.startswith("running approved mutants: 0 of ") for words in told)
    assert "60 mutants, " in left
    quiet = cli.run(*asked)
    assert (quiet.code, quiet.err) == (0, "")


@pytest.mark.spec("A14")
def test_without_a_configured_editor_vi_opens_the_arguments(asking: Cli) -> None:
    tools = asking.project.parent / "tools"
    tools.mkdir()
    (tools / "vi").write_text('#!/bin/sh\n/bin/sed -i s/hello/edited/ "$1"\n')
    (tools / "vi").chmod(0o755)
    with Terminal(asking, *WRITE, PATH=str(tools)) as person:
        person.expect(PROMPT)
        person.press(b"e")
        person.expect("+edited")
        person.expect(PROMPT)
        person.press(b"n")
        assert person.finish() == 3
    assert "The call changed since" not in person.text


@pytest.mark.spec("A14")
def test_details_begin_with_the_arguments(asking: Cli) -> None:
    with Terminal(asking, *WRITE) as person:
        person.expect(PROMPT)
        person.press(b"d")
        person.expect("d\n  with\n│ path: notes.txt\n")
        person.expect("digest")
        person.expect(PROMPT)
        person.press(b"q")
        assert person.finish() == 4
    assert "urn:" not in person.text


@pytest.mark.spec("A12")
def test_always_is_not_offered_where_it_cannot_work(asking: Cli) -> None:
    with Terminal(asking, "call", "file.write", "path=.git/x", "content=hello") as person:
        person.expect(PROMPT)
        person.press(b"q")
        assert person.finish() == 4
    assert "[a]" not in person.text and "[y] yes" in person.text


@pytest.mark.spec("A19", "A14")
def test_a_person_widens_the_sandbox_for_one_call_and_sees_its_new_limits(cli: Cli) -> None:
    other = cli.project.parent / "other"
    other.mkdir()
    with Terminal(cli, "call", "shell.exec", f"command=echo hello > {other}/file") as person:
        person.expect("network off")
        person.expect(PROMPT)
        person.press(b"w")
        person.expect("Allow access to:")
        person.type("read")
        person.expect("Cannot read 'read'.")
        person.expect(PROMPT)
        person.press(b"w")
        person.expect("Allow access to:")
        person.type("write ../other, example.com")
        person.expect("network only example.com; also changes")
        person.expect("what it sends cannot")
        person.expect(PROMPT)
        assert not (other / "file").exists()
        assert "[a]" not in person.text.rpartition("what it sends cannot")[2]
        person.press(b"y")
        assert person.finish() == 0
    assert (other / "file").read_text() == "hello\n"


@pytest.mark.spec("A19", "A14")
def test_a_call_with_a_wider_sandbox_can_still_be_rejected(cli: Cli) -> None:
    with Terminal(cli, "call", "shell.exec", "command=true") as person:
        person.expect(PROMPT)
        person.press(b"w")
        person.expect("Allow access to:")
        person.type("network")
        person.expect("network on")
        person.expect(PROMPT)
        person.press(b"n")
        assert person.finish() == 3


@pytest.mark.spec("A13a")
def test_all_pending_calls_are_shown_before_one_yes_approves_them(asking: Cli) -> None:
    for name in "ab":
        asking.make_pending("file.write", f"path={name}", f"content=hello {name}")
    with Terminal(asking, "approve", "--all", rows=200) as person:
        person.expect("+hello a")
        person.expect("+hello b")
        person.expect("Approve all 2? [y/N] ")
        assert not (asking.project / "a").exists()
        person.press(b"y")
        assert person.finish() == 0
    assert (asking.project / "a").exists() and (asking.project / "b").exists()


@pytest.mark.spec("E7e")
def test_the_first_of_two_approvals_leaves_the_call_pending_and_is_not_asked_for_again(asking: Cli) -> None:
    asking.configure('[approval]\nauto_approve = []\ntwo_people = "low"\n')
    with Terminal(asking, *WRITE, columns=120) as person:
        person.expect("0 of 2 approvals; two people must approve")
        person.expect(PROMPT)
        person.type("y")
        person.expect("1 of 2 approvals; another person must approve")
        assert person.finish() == 4
    (pending,) = asking.run("pending", "--json").lines
    assert pending["approvals_needed"] == 2 and len(pending["approved_by"]) == 1
    refused = asking.run("approve", pending["call_id"], "--by", "another")
    assert refused.code == 2 and "have already approved call" in refused.err
    assert "1 of 2 approvals" in asking.run("pending").out
    assert not (asking.project / "notes.txt").exists()
    assert asking.run("reject", pending["call_id"]).code == 0
    assert asking.run("pending").out == "Nothing is pending.\n"
