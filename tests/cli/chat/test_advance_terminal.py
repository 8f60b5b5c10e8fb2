"""`holdfast chat FILE` with a person at the terminal."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME, answer, start, write_calls
from tests.cli.terminal import Terminal

PROMPT = "leave it pending\n> "


@pytest.mark.spec("E1c", "O1b", "O2")
def test_a_person_sees_the_reply_the_diff_and_the_result_and_is_asked_between(asking: Cli) -> None:
    document = start(asking, 'write "hello" to a.txt, then calculate 6 * 7')
    with Terminal(asking, "chat", NAME) as person:
        person.expect("I will write `a.txt`")
        person.expect(f"{NAME}:")
        person.expect("May file.write run?")
        person.expect("+hello")
        assert "\x1b[32m+hello" in person.raw
        person.expect(PROMPT)
        assert not (asking.project / "a.txt").exists()
        person.type("y")
        person.expect("✓ file.write: a.txt")
        person.expect("✓ calculator")
        person.expect("42")
        assert person.finish() == 0
    assert (asking.project / "a.txt").read_text() == "hello"
    assert "status=" not in document.read_text()


@pytest.mark.spec("E1c")
def test_no_with_a_message_and_a_result_by_hand_are_written_into_the_document(cli: Cli) -> None:
    document = start(cli, "run `rm a`")
    with Terminal(cli, "chat", NAME) as person:
        person.expect(PROMPT)
        person.type("m")
        person.expect("Message to the model: ")
        person.type("not today")
        person.expect("✗ shell.exec")
        assert person.finish() == 0
    assert "not today" in document.read_text()
    with Terminal(cli, "chat", NAME, "-m", "run `rm b`") as person:
        person.expect(PROMPT)
        person.type("r")
        person.expect("Result: ")
        person.type("I did it by hand")
        assert person.finish() == 0
    assert "\n```\nI did it by hand\n```" in document.read_text()


@pytest.mark.spec("E1c")
def test_edited_arguments_run_and_the_model_is_told(asking: Cli) -> None:
    document = start(asking, 'write "hello" to a.txt')
    with Terminal(asking, "chat", NAME, EDITOR="sed -i s/hello/edited/") as person:
        person.expect(PROMPT)
        person.type("e")
        person.expect("+edited")
        person.expect(PROMPT)
        person.type("y")
        assert person.finish() == 0
    assert (asking.project / "a.txt").read_text() == "edited"
    assert "The arguments were changed" in document.read_text()


@pytest.mark.spec("A13b")
def test_a_call_that_changes_while_the_prompt_is_open_is_shown_again(asking: Cli) -> None:
    start(asking, 'write "hello" to a.txt')
    with Terminal(asking, "chat", NAME) as person:
        person.expect(PROMPT)
        (asking.project / "a.txt").write_text("mine")
        person.type("y")
        person.expect("The call changed since it was shown: the file a.txt. Review it again.")
        person.expect("-mine")
        person.expect(PROMPT)
        person.type("q")
        assert person.finish() == 4
    assert (asking.project / "a.txt").read_text() == "mine"
    with Terminal(asking, "chat", NAME) as person:
        person.expect("-mine")
        person.expect(PROMPT)
        person.type("y")
        assert person.finish() == 0
    assert (asking.project / "a.txt").read_text() == "hello"


@pytest.mark.spec("A13b", "A15b")
def test_quitting_leaves_the_call_pending_and_earlier_answers_are_carried_out(cli: Cli) -> None:
    document = write_calls(cli, "echo 1 > one", "echo 2 > two", "echo 3 > three")
    with Terminal(cli, "chat", NAME) as person:
        person.expect("echo 1 > one")
        person.expect(PROMPT)
        person.type("y")
        person.expect("echo 2 > two")
        person.expect(PROMPT)
        person.type("q")
        assert person.finish() == 4
        assert "holdfast approve" in person.text
    made = [name for name in ("one", "two", "three") if (cli.project / name).exists()]
    assert made == ["one"] and document.read_text().count("status=pending") == 2
    with Terminal(cli, "chat", NAME) as person:
        person.expect(PROMPT)
        person.press(b"\x04")
        assert person.finish() == 4


@pytest.mark.spec("A13b")
def test_an_answer_in_the_editor_or_at_another_interface_ends_the_prompt(cli: Cli) -> None:
    document = start(cli, "run `touch made.txt`")
    with Terminal(cli, "chat", NAME) as person:
        person.expect(PROMPT)
        answer(document, "approved")
        person.expect("✓ shell.exec")
        assert person.finish() == 0
    assert (cli.project / "made.txt").exists()
    with Terminal(cli, "chat", NAME, "-m", "run `touch more.txt`") as person:
        person.expect(PROMPT)
        call_id = cli.run("pending", "--json").lines[0]["call_id"]
        approved = cli.run("approve", call_id)
        assert approved.code == 4 and f"Run it with `holdfast chat {NAME}`" in approved.err
        person.expect("answered elsewhere")
        assert person.finish() == 0
    assert (cli.project / "more.txt").exists()


@pytest.mark.spec("E1c")
def test_ctrl_c_at_a_prompt_leaves_the_call_pending(cli: Cli) -> None:
    document = start(cli, "run `touch made.txt`")
    with Terminal(cli, "chat", NAME) as person:
        person.expect(PROMPT)
        person.press(b"\x03")
        person.expect(f"Open call at {NAME}:")
        assert person.finish() == 130
        assert "Traceback" not in person.text
    assert "status=pending" in document.read_text()
    (pending,) = cli.run("pending", "--json").lines
    assert f"holdfast approve {pending['call_id']}" in " ".join(person.text.split())


@pytest.mark.spec("E1c")
def test_an_unknown_key_is_answered_once_with_a_hint(cli: Cli) -> None:
    start(cli, "run `touch made.txt`")
    with Terminal(cli, "chat", NAME) as person:
        person.expect(PROMPT)
        for key in (b"\n", b"x", b"z"):
            person.press(key)
        person.expect("Press one of the keys above. > ")
        person.press(b"q")
        assert person.finish() == 4
    assert person.text.count("Press one of the keys above.") == 1


@pytest.mark.spec("E1c")
def test_sentences_are_wrapped_between_words_and_commands_are_not(cli: Cli) -> None:
    start(cli, "run `echo a-command-that-is-longer-than-the-terminal-is-wide`")
    (cli.project / NAME).write_text("stray\n" + (cli.project / NAME).read_text())
    with Terminal(cli, "chat", NAME, columns=40) as person:
        person.expect(PROMPT)
        person.type("q")
        assert person.finish() == 4
    lines = person.text.split("\n")
    why = lines.index("  why")
    assert lines[why + 1].startswith("│ `echo a-command-that-is-longer-than-") and lines[why + 2].startswith("│↳")
    note = next(number for number, line in enumerate(lines) if line.startswith("Note: "))
    assert lines[note + 1].startswith("    ") and max(map(len, lines[note : note + 3])) < 40
    assert "│ echo a-command-that-is-longer-than-the-terminal-is-wide" in person.text.replace("\n│↳", "")
    command = f"`holdfast approve {cli.run('pending', '--json').json['call_id']}`"
    assert any(command in line for line in lines)


@pytest.mark.spec("E1c")
def test_ctrl_c_stops_a_running_call_and_its_result_is_written(cli: Cli) -> None:
    cli.configure('[approval]\nauto_approve = ["$default", "shell.exec"]\n')
    document = start(cli, "run `sleep 60`")
    with Terminal(cli, "chat", NAME) as person:
        person.expect("… shell.exec: $ sleep 60")
        person.press(b"\x03")
        person.expect("Press Ctrl-C again to quit at once.")
        assert person.finish() == 130
        assert "Traceback" not in person.text
    assert "(error)" in document.read_text() and "status=" not in document.read_text()
    assert cli.run("ledger", "--json").lines[0]["state"] == "cancelled"


@pytest.mark.spec("E1c")
def test_a_reply_is_escaped_on_the_terminal(asking: Cli) -> None:
    (asking.project / "evil.txt").write_text("\x1b]0;title\x07\x1b[2Jgone\u202e\n")
    start(asking, "read evil.txt")
    asking.run("chat", NAME, "-m", "calculate 1")
    with Terminal(asking, "chat", NAME, "-m", "read evil.txt") as person:
        assert person.finish() == 0
    assert "‹\\x1b›" in person.text
    assert not re.findall(r"\x1b(?!\[[0-9;]*[mK])", person.raw)


@pytest.mark.spec("E1c")
@pytest.mark.parametrize("no_colour", ["", "1"])
def test_a_narrow_terminal_is_enough(asking: Cli, no_colour: str) -> None:
    (asking.project / "wide.txt").write_text("wide " * 60 + "\n" + "表" * 100 + "\n" + "line\n" * 30)
    start(asking, 'read wide.txt, then write "hello" to a.txt')
    with Terminal(asking, "chat", NAME, columns=40, NO_COLOR=no_colour) as person:
        person.expect("[39 lines hidden; see the document\n    for all of it]")
        person.expect(PROMPT)
        assert ("\x1b[32m" in person.raw) is not bool(no_colour)
        person.type("d")
        person.expect("digest")
        person.expect(PROMPT)
        person.type("y")
        assert person.finish() == 0
    results = [line for line in person.text.split("\n") if line.startswith(("│ wide", "│↳wide"))]
    assert len(results) == 5 and all(len(line) <= 40 for line in results)
    write_calls(asking, "z" * 99)
    with Terminal(asking, "chat", "status", NAME, columns=40, NO_COLOR=no_colour) as person:
        assert person.finish() == 0
        assert "zzz" in person.text
        assert max(map(len, person.text.split("\n"))) <= 40


def _last_event(person: Terminal) -> dict[str, object]:
    lines = [line for line in person.text.split("\n") if line.startswith("{")]
    return json.loads(lines[-1])


@pytest.mark.spec("E1c")
def test_ctrl_c_at_a_prompt_ends_with_an_outcome_in_json(cli: Cli) -> None:
    document = start(cli, "run `touch made.txt`")
    with Terminal(cli, "chat", NAME, "--json", columns=5000) as person:
        person.expect(PROMPT)
        person.press(b"\x03")
        assert person.finish() == 130
        last = _last_event(person)
    assert (last["event"], last["kind"], last["exit_code"]) == ("outcome", "cancelled", 130)
    document.write_text(f'```toml\n[approval]\nauto_approve = ["shell.exec"]\n```\n\n{document.read_text()}')
    with Terminal(cli, "chat", NAME, "--json", "-m", "more", columns=5000) as person:
        person.expect("Trust this frontmatter?")
        person.press(b"\x03")
        assert person.finish() == 130
        last = _last_event(person)
    assert (last["event"], last["kind"], last["exit_code"]) == ("outcome", "cancelled", 130)
    assert "more" not in document.read_text() and not (cli.project / "made.txt").exists()


@pytest.mark.spec("E7e")
def test_a_call_for_two_people_stays_pending_after_the_persons_yes_and_is_not_asked_about_again(asking: Cli) -> None:
    asking.configure('[approval]\nauto_approve = []\ntwo_people = "medium"\n')
    document = start(asking, 'write "hello" to a.txt')
    with Terminal(asking, "chat", NAME, columns=120) as person:
        person.expect("0 of 2 approvals; two people must approve")
        person.expect(PROMPT)
        person.type("y")
        person.expect("1 of 2 approvals; another person must approve")
        assert person.finish() == 4
        assert person.text.count(PROMPT) == 1
    with Terminal(asking, "chat", NAME, columns=120) as person:
        assert person.finish() == 4
        assert PROMPT not in person.text and "1 of 2 approvals" in person.text
    assert "status=pending" in document.read_text() and not (asking.project / "a.txt").exists()
