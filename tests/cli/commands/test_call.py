"""`holdfast call`: arguments, results, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.command_line import Cli
from tests.cli.terminal import Terminal

MODULE = """
import time
from holdfast import Result, tool

@tool(effects=())
def shout(text: str, times: int = 1, loud: bool = True) -> str:
    return (text.upper() if loud else text) * times

@tool(effects=())
def break_down() -> str:
    raise RuntimeError("out of order")

@tool(effects=(), timeout=0.05)
async def dawdle() -> str:
    import asyncio
    await asyncio.sleep(30)
    return "done"

@tool(effects=())
def half() -> Result:
    return Result(False, output="the first half", error="the second half is missing")

@tool(effects=())
def noise() -> str:
    return "a\\x1b[2Jb\\u202ec\\x9b31md"

definitions = [shout, break_down, dawdle, half, noise]
"""


@pytest.fixture
def tools(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "my_tools.py").write_text(MODULE)
    cli.env["PYTHONPATH"] = str(tmp_path)
    cli.configure('[tools]\nmodules = ["my_tools"]\nprofile = "full"\n')
    return cli


@pytest.mark.spec("E1a")
def test_words_a_json_object_and_standard_input_all_give_arguments(cli: Cli) -> None:
    assert cli.run("call", "calculator", "expression=6*7").out == "42\n"
    assert cli.run("call", "calculator", '{"expression": "6*7"}').out == "42\n"
    assert cli.run("call", "calculator", "-", stdin='{"expression": "6*7"}').out == "42\n"


@pytest.mark.spec("E1a")
def test_a_word_is_text_where_the_tool_wants_text_and_json_elsewhere(tools: Cli) -> None:
    assert tools.run("call", "calculator", "expression=7").out == "7\n"
    assert tools.run("call", "shout", "text=12", "times=2", "loud=false").out == "1212\n"
    assert tools.run("call", "shout", 'text:="a=b"').out == "A=B\n"
    assert tools.run("call", "shout", "text=null").out == "NULL\n"


@pytest.mark.spec("E1a")
def test_an_argument_can_be_the_content_of_a_file_or_of_standard_input(tools: Cli) -> None:
    (tools.project / "words.txt").write_text("from a file")
    (tools.project / "times.json").write_text("2")
    assert tools.run("call", "shout", "text=@words.txt", "times:=@times.json").out == "FROM A FILEFROM A FILE\n"
    assert tools.run("call", "shout", "text=@-", stdin="piped").out == "PIPED\n"


@pytest.mark.spec("E1a")
def test_every_end_of_a_call_has_its_exit_code(tools: Cli) -> None:
    tools.configure(
        '[tools]\nmodules = ["my_tools"]\nprofile = "full"\ndeny = ["system.info"]\n[approval]\nauto_approve = []\n'
    )
    ends = {
        ("calculator", "expression=1"): (0, "done"),
        ("break_down",): (1, "failed"),
        ("calculator", "nothing=1"): (2, "invalid"),
        ("system.info",): (3, "denied"),
        ("file.write", "path=a", "content=b"): (4, "pending"),
        ("dawdle",): (5, "timed_out"),
    }
    for words, (code, state) in ends.items():
        done = tools.run("call", "--json", *words)
        assert (done.code, done.json["state"], done.json["exit_code"]) == (code, state, code), words


@pytest.mark.spec("E1a")
def test_the_result_goes_to_standard_output_and_the_error_to_standard_error(tools: Cli) -> None:
    done = tools.run("call", "half")
    assert (done.code, done.out) == (1, "the first half\n")
    assert done.sentence == "Error: the second half is missing"


@pytest.mark.spec("E1a")
def test_a_tool_of_the_users_module_that_raises_gives_a_sentence_and_no_traceback(tools: Cli) -> None:
    done = tools.run("call", "break_down")
    assert done.code == 1
    assert "out of order" in done.sentence
    assert "Traceback" not in done.err


@pytest.mark.spec("O1", "E1f")
def test_the_output_of_a_tool_is_escaped_on_a_pipe_and_in_json_and_raw_when_asked_for(tools: Cli) -> None:
    assert tools.run("call", "noise").out == "a‹\\x1b›[2Jb‹\\u{202e}›c‹\\x9b›31md\n"
    written = tools.run("call", "--json", "noise").out
    assert not {"\x1b", "\u202e", "\x9b"} & set(written)
    assert json.loads(written)["output"] == "a\x1b[2Jb\u202ec\x9b31md"
    assert tools.run("call", "--raw", "noise").out == "a\x1b[2Jb\u202ec\x9b31md"
    assert tools.run("call", "--raw", "--json", "noise").code == 2


@pytest.mark.spec("A13a", "E1f")
def test_headless_denies_a_call_that_needs_approval_and_leaves_nothing_pending(asking: Cli) -> None:
    write = ("file.write", "path=notes.txt", "content=hello")
    done = asking.run("call", "--headless", *write)
    assert done.code == 3
    assert "needs approval and nobody is there to ask" in done.sentence
    assert asking.run("pending", "--json").lines == []
    (recorded,) = asking.run("ledger", "--json").lines
    assert (recorded["state"], recorded["decided_by"]) == ("denied", "nobody")
    with Terminal(asking, "call", "--headless", *write) as person:
        assert person.finish() == 3
    assert asking.run("call", "--headless", "calculator", "expression=1+1").out == "2\n"
    assert not (asking.project / "notes.txt").exists()
    both = asking.run("call", "--headless", "--pending", *write)
    assert both.code == 2 and "Use one of them." in both.sentence


@pytest.mark.spec("A15a", "A13a")
def test_without_a_terminal_a_call_that_needs_approval_is_left_pending(asking: Cli) -> None:
    done = asking.run("call", "file.write", "path=notes.txt", "content=hello")
    assert done.code == 4
    assert done.out == ""
    assert "file.write waits for approval" in done.err and "│ +hello\n" in done.err
    assert "No rule covers this call" in done.err
    call_id = done.err.strip().rpartition(" ")[2]
    assert f"holdfast approve {call_id}" in done.err
    assert not (asking.project / "notes.txt").exists()
    waiting = asking.run("pending", "--json").lines
    assert [item["call_id"] for item in waiting] == [call_id]


@pytest.mark.spec("A15a")
def test_with_the_ledger_disabled_a_call_that_needs_approval_is_denied(asking: Cli) -> None:
    asking.configure('[approval]\nauto_approve = ["$readonly"]\n[ledger]\nenabled = false\n')
    done = asking.run("call", "file.write", "path=notes.txt", "content=hello")
    assert done.code == 3
    assert "nobody is there to ask" in done.sentence


@pytest.mark.spec("E1a")
def test_an_option_can_be_set_for_one_run_and_a_directory_chosen(cli: Cli, tmp_path: Path) -> None:
    options = ("-C", str(cli.project), "--set", 'tools.deny=["calculator"]')
    done = cli.run(*options, "call", "calculator", "expression=1", cwd=tmp_path)
    assert done.code == 3
    assert "not allowed by tool policy" in done.sentence


@pytest.mark.spec("E1a")
def test_a_refused_call_says_what_to_configure(cli: Cli) -> None:
    refused = cli.run("call", "sessions.list")
    assert refused.code == 3 and refused.sentence.endswith("add it to tools.allow.")
    options = ("--set", 'tools.allow=["web.search"]', "--set", "web.search=brave")
    assert "[secrets.brave]" in cli.run(*options, "call", "web.search", "query=x").sentence


@pytest.mark.spec("E1a")
def test_a_broken_pipe_is_not_an_error(cli: Cli) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run_into(cli, writer, "config", "schema")
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.spec("E1a")
def test_a_full_disk_behind_standard_output_is_reported(cli: Cli) -> None:
    with Path("/dev/full").open("w") as full:
        done = run_into(cli, full.fileno(), "tools")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


def run_into(cli: Cli, stdout: int, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        cli.command(*args),
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
        cwd=cli.project,
        env=cli.env,
        timeout=60,
        text=True,
    )


@pytest.mark.spec("B4")
def test_a_process_that_would_end_with_the_command_is_not_started(cli: Cli) -> None:
    refused = cli.run("call", "process.start", "command=sleep 60")
    assert refused.code == 1
    assert refused.sentence.endswith("would end with this command, which makes only one call. Use detached=true.")
    assert "Started" not in refused.out
    cli.make_pending("process.start", "command=sleep 60", "detached=true")
