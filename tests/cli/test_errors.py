"""Errors: one sentence with the next step, an exit code, and no traceback."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from tests.cli.command_line import Cli

USAGE: dict[tuple[str, ...], str] = {
    ("nothing",): "There is no command 'nothing'",
    ("aprove", "x"): "Did you mean 'approve'?",
    ("call",): "holdfast call --help",
    ("call", "--wrong"): "No such option '--wrong'",
    ("call", "calculator", "word"): "key=value",
    ("call", "calculator", "a=1", "a=2"): "given twice",
    ("call", "calculator", "expression:=nope"): "not valid JSON",
    ("call", "calculator", "expression=@missing.txt"): "Cannot read missing.txt",
    ("tools", "calculater"): "Did you mean 'calculator'?",
    ("policy", "explain", "calculater"): "Did you mean 'calculator'?",
    ("policy", "explain", "calculator", "expresion=1"): "expression is missing",
    ("approve", "zzz"): "No call has the id 'zzz'",
    ("approve", ""): "The id is empty",
    ("approve", "zzz", "--always", "once"): "holdfast approve --help",
    ("approve", "zzz", "--args", "[1]"): "must be a JSON object",
    ("grants", "revoke", "zzz"): "`holdfast grants` lists them",
    ("ledger", "show", "zzz"): "No call has the id 'zzz'",
    ("ledger", "--limit", "0"): "holdfast ledger list --help",
    ("trust",): "Create one with `holdfast init`.",
    ("trust", "other.toml"): "is not the configuration of this project",
    ("trust", "revoke"): "is not trusted",
    ("--set", "tools.profile", "tools"): "OPTION=VALUE",
    ("--set", "tools.profil=x", "tools"): "Did you mean 'profile'?",
    ("-C", "/nowhere/at/all", "tools"): "does not exist",
    ("completion", "tcsh"): "holdfast completion --help",
}


@pytest.mark.spec("E1a")
@pytest.mark.parametrize("words", USAGE, ids=" ".join)
def test_a_usage_error_is_one_sentence_and_exit_code_2(cli: Cli, words: tuple[str, ...]) -> None:
    done = cli.run(*words)
    assert done.code == 2
    assert done.out == ""
    assert USAGE[words] in done.sentence
    in_json = cli.run(*words, "--json")
    error = in_json.json["error"]
    assert in_json.code == error["exit_code"] == 2
    assert set(error) == {"kind", "message", "exit_code"}
    assert USAGE[words] in error["message"]


INVALID: dict[str, tuple[str, str]] = {
    "unknown tool": ("nosuch", "{}"),
    "not JSON": ("calculator", "{bad"),
    "a list": ("calculator", "[1]"),
    "duplicate keys": ("calculator", '{"expression": "1", "expression": "2"}'),
    "not a number": ("calculator", '{"expression": NaN}'),
    "too deep": ("calculator", '{"expression": ' + "[" * 10_000 + "]" * 10_000 + "}"),
    "half a surrogate": ("calculator", '{"expression": "\\ud800"}'),
    "wrong type": ("calculator", '{"expression": [1]}'),
}


@pytest.mark.spec("S5", "E1a")
@pytest.mark.parametrize("case", INVALID)
def test_invalid_arguments_are_recorded_as_an_invalid_call(cli: Cli, case: str) -> None:
    tool, args = INVALID[case]
    done = cli.run("call", tool, "-", stdin=args)
    assert (done.code, done.out) == (2, "")
    assert done.sentence.startswith("Error: ")
    assert len(done.sentence) < 600
    assert cli.run("ledger", "--json").lines[0]["state"] == "invalid"


@pytest.mark.spec("S5", "E1a")
def test_a_hundred_megabytes_on_standard_input_are_refused_by_their_size(cli: Cli) -> None:
    done = cli.run("call", "calculator", "-", stdin=b'{"expression": "' + b"1" * 100_000_000 + b'"}')
    assert done.code == 2
    assert "exceeds" in done.sentence


@pytest.mark.spec("E1a")
def test_bytes_that_are_not_text_are_refused(cli: Cli) -> None:
    (cli.project / "raw").write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in cli.run("call", "calculator", "expression=@raw").sentence
    done = cli.run("call", "calculator", os.fsdecode(b"expression=\xff"))
    assert done.code == 2
    assert "surrogate" in done.sentence


@pytest.mark.spec("E1a")
def test_a_broken_configuration_stops_every_command_that_needs_it(cli: Cli) -> None:
    (cli.project / "holdfast.toml").write_text("[tools\n")
    for command in (("call", "calculator", "expression=1"), ("tools",), ("policy",), ("pending",), ("config", "check")):
        done = cli.run(*command)
        assert done.code == 2, command
        assert "holdfast.toml is not valid TOML" in done.sentence
    doctor = cli.run("doctor", "--json")
    assert doctor.code == 1
    assert {line["status"] for line in doctor.lines if line["name"] == "config"} == {"bad"}


@pytest.mark.spec("E1a")
def test_a_file_that_is_not_a_ledger_is_named_and_left_alone(cli: Cli) -> None:
    ledger = cli.ledger_file
    ledger.parent.mkdir(parents=True)
    ledger.write_bytes(b"this is not a database" * 100)
    for command in (("call", "calculator", "expression=1"), ("ledger",), ("pending",)):
        done = cli.run(*command)
        assert (done.code, done.out) == (1, ""), command
        assert str(ledger) in done.sentence
    assert ledger.read_bytes() == b"this is not a database" * 100


@pytest.mark.spec("E1a")
def test_a_changed_ledger_does_not_verify(cli: Cli) -> None:
    cli.run("call", "calculator", "expression=1")
    head = cli.run("ledger", "verify", "--json").json["head"]
    assert cli.run("ledger", "verify", "--anchor", head).code == 0
    assert cli.run("ledger", "verify", "--anchor", "0" * 63 + "1").code == 1
    with sqlite3.connect(cli.ledger_file) as connection:
        connection.execute("DROP TRIGGER entries_are_never_changed")
        connection.execute("UPDATE entries SET body = replace(body, 'calculator', 'calculatur')")
    connection.close()
    done = cli.run("ledger", "verify")
    assert done.code == 1
    assert "changed or damaged" in done.sentence
    assert cli.run("ledger", "verify", "--json").json["ok"] is False
    assert cli.run("--set", "sandbox.mode=off", "doctor").code == 1


@pytest.mark.spec("E1a", "X10")
def test_a_damaged_entry_affects_no_other_call(careful: Cli) -> None:
    for number in (1, 2, 3):
        careful.run("call", "--pending", "shell.exec", f"command=ls > x{number}")
    first, second, third = (item["call_id"] for item in careful.run("pending", "--json").lines)
    with sqlite3.connect(careful.ledger_file) as connection:
        connection.execute("DROP TRIGGER entries_are_never_changed")
        connection.execute("UPDATE entries SET at = 'x' WHERE call = ?", (first,))
        connection.execute("UPDATE entries SET body = ? WHERE call = ?", ("[" * 50_000, second))
        connection.execute("UPDATE open_calls SET state = 'bogus' WHERE call = ?", (first,))
    connection.close()
    listed = careful.run("ledger", "--json")
    assert [item["call_id"] for item in listed.lines] == [third]
    assert first in listed.err and second in listed.err
    assert len(careful.run("ledger", "export").lines) == 3
    doctor = careful.run("--set", "sandbox.mode=off", "doctor").out
    for call_id in (first, second):
        assert f"pending call {call_id} cannot be read. Fix: end it with `holdfast reject {call_id}`" in doctor
        assert careful.run("reject", call_id).code == 0
    assert [item["call_id"] for item in careful.run("pending", "--json").lines] == [third]
    assert "cannot be read" not in careful.run("--set", "sandbox.mode=off", "doctor").out


@pytest.mark.spec("E1a")
def test_a_state_folder_that_came_with_the_project_is_refused(cli: Cli) -> None:
    (cli.project / "state" / "holdfast").mkdir(parents=True)
    (cli.project / "state" / "holdfast" / "user.db").touch()
    done = cli.run("call", "calculator", "expression=1", env={"XDG_STATE_HOME": str(cli.project / "state")})
    assert done.code == 2
    assert "was not created on this machine" in done.sentence


@pytest.mark.spec("E1a")
def test_an_internal_error_is_one_sentence_and_debug_shows_the_traceback(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad_tools.py").write_text("raise RuntimeError('a fault of the module')\n")
    cli.env["PYTHONPATH"] = str(tmp_path)
    cli.configure('[tools]\nmodules = ["bad_tools"]\n')
    done = cli.run("tools")
    assert done.code in (1, 2)
    assert "a fault of the module" in done.sentence
    error = json.loads(cli.run("tools", "--json").out)["error"]
    assert "a fault of the module" in error["message"]
