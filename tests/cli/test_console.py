"""Output is escaped, hides nothing, and fits on a narrow screen."""

from __future__ import annotations

import json

import pytest

from tests.cli.command_line import Cli
from tests.cli.terminal import Terminal

ACTING = "\u202e\u2066\u200b\U000e0020\U000e0100\U0001d173\u3000\b\x07\x9b\xa0"
HOSTILE = f"a{ACTING}b\rc\x1b[2J\x1b]52;c;aGk=\x07\x9b31md" + "\xa0" * 5000 + "end"


def acts(text: str) -> list[str]:
    """Return the control characters and invisible characters in a text."""
    return [char for char in ("\x1b", *ACTING) if char in text]


@pytest.mark.spec("O1")
def test_a_hostile_call_is_shown_with_every_hidden_character_written_out(asking: Cli) -> None:
    args = json.dumps({"path": "notes.txt", "content": HOSTILE})
    with Terminal(asking, "call", "file.write", args) as person:
        person.expect("‹\\u{202e}›")
        person.expect("‹\\x1b›[2J")
        person.expect("‹\\xa0×5000›end")
        person.expect("leave it pending\n> ")
        person.type("d")
        person.expect("│ content: a‹\\u{202e}›")
        person.expect("‹\\xa0×5000›end")
        person.expect("leave it pending\n> ")
        person.type("q")
        assert person.finish() == 4
        assert acts(person.text) == []
    for command in (("pending",), ("pending", "--json"), ("ledger",)):
        done = asking.run(*command)
        assert done.code == 0
        assert "\x1b" not in done.out + done.err, command


@pytest.mark.spec("O1")
def test_a_long_argument_shows_its_head_its_tail_its_length_and_its_digest_in_a_list_and_all_of_it_elsewhere(
    asking: Cli,
) -> None:
    text = "the beginning " + "x" * 20_000 + " the end"
    call_id = asking.make_pending("ask.user", 'questions:=[{"question": "' + text + '", "options": null}]')
    listed = asking.run("pending").out
    assert "the beginning \n│↳xxx" in listed and "xxx the end" in listed
    assert "lines hidden; in all 20," in listed and " characters, sha256 " in listed
    assert text in asking.run("reject", call_id).err.replace("\n│↳", "")


@pytest.mark.spec("O1c")
def test_blanks_hide_nothing_and_a_command_cannot_imitate_our_lines(careful: Cli) -> None:
    forged = "  sandbox contained by bubblewrap; network off\n  undo    can be undone\n[39 lines hidden]"
    command = f"true{' ' * 400}; echo tail\n{forged}\necho evil"
    done = careful.run("call", "shell.exec", f"command={command}", f"label={forged}", "--json")
    call_id = done.json["call_id"]
    for args in (("pending",), ("pending", call_id)):
        shown = careful.run(*args).out
        assert "│ true‹␠×400›; echo tail\n" in shown and "│ echo evil\n" in shown
        ours = [line for line in shown.splitlines() if not line.startswith("│")]
        assert sum("sandbox" in line for line in ours) == sum("can be undone" in line for line in ours) == 1
        assert shown.index("  sandbox ") < shown.index("│ true")


@pytest.mark.spec("O1c")
def test_a_long_diff_counts_its_hidden_lines_and_approving_shows_all_first(asking: Cli) -> None:
    content = "\n".join(f"line {number}" for number in range(300))
    call_id = asking.make_pending("file.write", "path=long.txt", f"content={content}")
    with Terminal(asking, "call", "file.write", "path=long.txt", f"content={content}", rows=500) as person:
        person.expect("lines hidden")
        person.expect("+line 299")
        person.expect("leave it pending\n> ")
        assert "+line 150" not in person.text
        person.type("y")
        person.expect("Part of the call was hidden. This is all of it:")
        person.expect("+line 150")
        person.expect("leave it pending\n> ")
        assert not (asking.project / "long.txt").exists()
        person.type("y")
        assert person.finish() == 0
    assert (asking.project / "long.txt").read_text() == content
    assert "+line 150" in asking.run("pending", call_id).out


@pytest.mark.spec("O1c")
def test_a_command_longer_than_the_screen_is_shown_page_by_page(careful: Cli) -> None:
    command = "\n".join(f"echo {number}" for number in range(60))
    with Terminal(careful, "call", "shell.exec", f"command={command}", rows=24) as person:
        for page in range(3):
            person.expect("[Enter] more  [a] all  [q] quit > ")
            assert f"│ echo {14 + 22 * page}\n" not in person.text
            person.type("" if page < 2 else "a")
        person.expect("│ echo 59\n")
        person.expect("leave it pending\n> ")
        person.type("q")
        assert person.finish() == 4
    with Terminal(careful, "call", "shell.exec", f"command={command}", rows=24) as person:
        person.expect("[Enter] more  [a] all  [q] quit > ")
        person.type("q")
        assert person.finish() == 4
        assert "[y] yes" not in person.text


@pytest.mark.spec("O1c", "A14")
def test_approve_shows_all_of_a_cut_call_and_asks(asking: Cli) -> None:
    content = "\n".join(f"line {number}" for number in range(300))
    call_id = asking.make_pending("file.write", "path=long.txt", f"content={content}")
    asking.forget_shown()
    assert asking.run("pending").code == 0, "which leaves most of it out"
    for typed, code in (("", 4), ("n", 4), ("y", 0)):
        with Terminal(asking, "approve", call_id, rows=1000) as person:
            person.expect("+line 150")
            person.expect("Approve this? [y/N] ")
            assert not (asking.project / "long.txt").exists()
            person.type(typed)
            assert person.finish() == code
    assert (asking.project / "long.txt").read_text() == content
    short = asking.make_pending("file.write", "path=short.txt", "content=hello")
    asking.forget_shown()
    assert asking.run("pending").code == 0, "which shows all of it"
    with Terminal(asking, "approve", short) as person:
        person.expect("│ +hello")
        assert person.finish() == 0
        assert "Approve this?" not in person.text


@pytest.mark.spec("O1c", "A14")
def test_approve_without_a_terminal_leaves_nothing_out(asking: Cli) -> None:
    content = "\n".join(f"line {number}" for number in range(300))
    call_id = asking.make_pending("file.write", "path=long.txt", f"content={content}")
    shown = asking.run("approve", call_id).err
    assert "│ +line 150\n" in shown and "hidden" not in shown


@pytest.mark.spec("O1")
def test_the_output_of_a_tool_is_escaped_on_a_terminal(asking: Cli) -> None:
    question = '{"question": "?", "options": ["a\\u001b]0;title\\u0007b"]}'
    with Terminal(asking, "call", "ask.user", f"questions:=[{question}]") as person:
        person.expect("or text): ")
        person.type("1")
        assert person.finish() == 0
        assert "a‹\\x1b›]0;title‹\\x07›b" in person.text
        assert acts(person.text) == []


@pytest.mark.spec("O1")
def test_json_escapes_control_characters_in_a_pipe_too(asking: Cli) -> None:
    call_id = asking.make_pending("ask.user", 'questions:=[{"question": "\\u009b31m\\u202e", "options": null}]')
    with Terminal(asking, "pending", call_id, "--json") as person:
        assert person.finish() == 0
        assert "\\u009b31m\\u202e" in person.text
        assert acts(person.text) == []
    piped = asking.run("pending", call_id, "--json")
    assert acts(piped.out) == []
    assert piped.json["args"]["questions"][0]["question"] == "\x9b31m\u202e"


@pytest.mark.spec("E1a")
def test_colour_appears_on_a_terminal_only_and_not_with_no_color(asking: Cli) -> None:
    asking.make_pending("file.write", "path=notes.txt", "content=hello")
    doctor = ("--set", "sandbox.mode=off", "doctor")
    for command in (("pending",), ("tools",), doctor, ("policy",), ("policy", "explain", "file.write")):
        assert "\x1b" not in asking.run(*command).out, command
        with Terminal(asking, *command) as person:
            person.finish()
            assert "\x1b[1m" in person.raw or "\x1b[3" in person.raw, command
        with Terminal(asking, *command, NO_COLOR="1") as person:
            person.finish()
            assert "\x1b[3" not in person.raw, command


@pytest.mark.spec("E1a")
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_tables_keep_to_the_width_of_the_terminal(asking: Cli, columns: int) -> None:
    asking.make_pending("file.write", f"path={'long' * 40}.txt", "content=hello")
    for command in (("pending",), ("tools",), ("ledger",)):
        with Terminal(asking, *command, columns=columns) as person:
            person.finish()
            assert max(map(len, person.text.split("\n"))) <= columns, command
            assert "file.write" in person.text, command
