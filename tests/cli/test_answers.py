"""Answers: an id names exactly one call, and an approval is bound to the call that was shown."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys

import pytest

from tests.cli.command_line import TIMEOUT, Cli
from tests.cli.documents import NAME, write_calls
from tests.cli.terminal import Terminal

MAKE_PENDING = """
import asyncio, json, sys, holdfast
async def main():
    async with holdfast.open_runtime(nobody="pending") as runtime:
        for call_id, path in json.loads(sys.argv[1]).items():
            result = await runtime.call("file.write", {"path": path, "content": call_id}, call_id=call_id)
            assert result.state == "pending", result
asyncio.run(main())
"""
EDIT = """
import asyncio, holdfast
async def main():
    async with holdfast.open_runtime() as runtime:
        (held,) = runtime.pending.list()
        await runtime.lifecycle.edit(held, {"path": "notes.txt", "content": "evil"}, by="someone")
asyncio.run(main())
"""
LONG = "\n".join(map(str, range(100)))
WRITE = ("file.write", "path=notes.txt", "content=hello")


def make_pending(cli: Cli, **calls: str) -> None:
    """Make pending calls with these ids, each of which would write one file, and forget that they were shown."""
    named = json.dumps({name.replace("_", "-"): path for name, path in calls.items()})
    argv = [sys.executable, "-c", MAKE_PENDING, named]
    subprocess.run(argv, cwd=cli.project, env=cli.env, check=True, timeout=TIMEOUT)


def made(cli: Cli) -> list[str]:
    return sorted(path.name for path in cli.project.iterdir() if path.suffix == ".txt")


def digest_of(cli: Cli, call_id: str) -> str:
    """Forget that this user was shown the call."""
    connection = sqlite3.connect(cli.ledger_file)
    (digest,) = connection.execute("SELECT digest FROM open_calls WHERE call = ?", (call_id,)).fetchone()
    connection.close()
    return digest


@pytest.mark.spec("A23a")
def test_the_id_of_an_ended_call_is_not_a_prefix_of_another_call(asking: Cli) -> None:
    make_pending(asking, abcdefgh_1="one.txt", abcdefgh_11="eleven.txt")
    asking.run("pending", "--json")
    assert asking.run("approve", "abcdefgh-1").code == 0
    for command in (("approve",), ("reject",), ("respond", "-")):
        again = asking.run(command[0], "abcdefgh-1", *command[1:])
        assert again.code == 2
        assert "abcdefgh-1 is not pending: it is done." in again.sentence
    assert made(asking) == ["one.txt"]
    assert [item["call_id"] for item in asking.run("pending", "--json").lines] == ["abcdefgh-11"]


@pytest.mark.spec("A23a")
def test_a_number_is_never_completed_and_nothing_else_is_guessed(asking: Cli) -> None:
    """`tests/store/test_queries.py` tests more spellings."""
    make_pending(asking, abcdefgh_11="eleven.txt")
    asking.run("pending", "--json")
    for command in ("approve", "reject", "pending", "ledger show", "undo", "changes"):
        for given in ("abcdefgh-1", "abcdefgh-") if command == "approve" else ("abcdefgh-1",):
            done = asking.run(*command.split(), given)
            assert done.code == 2, (command, done)
            assert len(done.err.splitlines()) == 1
    assert made(asking) == []
    assert len(asking.run("pending", "--json").lines) == 1


@pytest.mark.spec("A23a")
def test_the_random_part_of_an_id_may_be_shortened_if_it_is_unique_in_the_ledger(asking: Cli) -> None:
    make_pending(asking, abcdefgh_1="one.txt", abcdefgh_2="two.txt", bcdefghi_11="eleven.txt")
    asking.run("pending", "--json")
    several = asking.run("approve", "abcd")
    assert several.code == 2
    assert "abcdefgh-1, abcdefgh-2" in several.sentence
    assert asking.run("approve", "abcd-2").code == 0
    assert made(asking) == ["two.txt"]
    ended = asking.run("approve", "abcd")
    assert ended.code == 2, "the call that has ended is still one that could be meant"
    assert asking.run("approve", "bcde").code == 0
    assert made(asking) == ["eleven.txt", "two.txt"]


@pytest.mark.spec("A23a")
def test_ids_chosen_by_a_program_are_never_completed(asking: Cli) -> None:
    make_pending(asking, deploy_everything="one.txt")
    asking.run("pending", "--json")
    assert asking.run("approve", "deploy").code == 2
    assert asking.run("ledger", "show", "deploy-every").code == 2
    assert made(asking) == []
    assert asking.run("approve", "deploy-everything").code == 0


@pytest.mark.spec("A23")
def test_without_a_terminal_a_call_that_was_not_shown_is_not_approved(asking: Cli) -> None:
    make_pending(asking, abcdefgh_1="one.txt")
    blind = asking.run("approve", "abcdefgh-1")
    assert blind.code == 2
    assert "holdfast pending abcdefgh-1" in blind.sentence and "--digest" in blind.sentence
    assert made(asking) == []
    assert asking.run("approve", "abcdefgh-1", "--digest", digest_of(asking, "abcdefgh-1")[:12]).code == 0
    assert made(asking) == ["one.txt"]


@pytest.mark.spec("A23")
def test_a_wrong_short_or_malformed_digest_approves_nothing(asking: Cli) -> None:
    make_pending(asking, abcdefgh_1="one.txt")
    right = digest_of(asking, "abcdefgh-1")
    other = "0" * 12 if not right.startswith("0") else "1" * 12
    for given in (right[:11], "", "zzzzzzzzzzzz", f"{right}0", f"{right[:12]}*", other):
        code = 4 if given == other else 2
        done = asking.run("approve", "abcdefgh-1", "--digest", given)
        assert (done.code, len(done.err.splitlines())) == (code, 1), (given, done)
    assert made(asking) == []


@pytest.mark.spec("A23")
@pytest.mark.parametrize("words", [["abcdefgh-1"], ["--json"], ["abcdefgh-1", "--json"]], ids=" ".join)
def test_every_command_that_shows_a_call_in_full_records_it_as_shown(asking: Cli, words: list[str]) -> None:
    make_pending(asking, abcdefgh_1="one.txt")
    shown = asking.run("pending", *words)
    assert digest_of(asking, "abcdefgh-1")[:12] in shown.out
    assert asking.run("approve", "abcdefgh-1").code == 0
    assert made(asking) == ["one.txt"]


@pytest.mark.spec("A23")
def test_a_list_that_shows_only_the_beginning_of_a_call_does_not_count(asking: Cli) -> None:
    call_id = asking.make_pending("file.write", "path=one.txt", f"content={LONG}")
    asking.forget_shown()
    listed = asking.run("pending")
    assert digest_of(asking, call_id)[:12] in listed.out
    assert asking.run("approve", call_id).code == 2, "the middle of the content is not in the list"
    assert made(asking) == []
    short = asking.make_pending("file.write", "path=two.txt", "content=hello")
    asking.forget_shown()
    asking.run("pending")
    assert asking.run("approve", short).code == 0, "all of it is"
    assert made(asking) == ["two.txt"]


@pytest.mark.spec("A23")
def test_a_call_left_pending_prints_its_digest_and_counts_as_shown_unless_it_was_cut(asking: Cli) -> None:
    parked = asking.run("call", *WRITE)
    (item,) = asking.run("ledger", "--json").lines
    assert digest_of(asking, item["call_id"])[:12] in parked.err
    assert asking.run("approve", item["call_id"]).code == 0
    long = asking.run("call", "file.write", "path=long.txt", "content=" + "line\n" * 100)
    assert "hidden" in long.err
    waiting = asking.run("ledger", "--json").lines[0]["call_id"]
    assert asking.run("approve", waiting).code == 2
    assert "long.txt" not in made(asking)


@pytest.mark.spec("A23")
def test_a_call_that_changed_since_it_was_shown_is_not_approved_and_the_change_is_named(asking: Cli) -> None:
    call_id = asking.make_pending(*WRITE)
    (asking.project / "notes.txt").write_text("someone else's")
    assert asking.run("approve", call_id).code == 4, "it is pending again as what it is now"
    edited = ("--args", '{"path": "notes.txt", "content": "edited"}')
    assert asking.run("approve", call_id, *edited, "--digest", "0" * 64).code == 4
    first = asking.run("pending", call_id, "--json").json["digest"]
    subprocess.run([sys.executable, "-c", EDIT], cwd=asking.project, env=asking.env, check=True, timeout=TIMEOUT)
    refused = asking.run("approve", call_id)
    assert refused.code == 4
    assert "its arguments (content)" in refused.sentence
    assert f"holdfast pending {call_id}" in refused.sentence
    assert asking.run("approve", call_id, "--digest", first).code == 4
    assert (asking.project / "notes.txt").read_text() == "someone else's"
    assert "evil" in asking.run("pending", call_id).out
    assert asking.run("approve", call_id).code == 0
    assert (asking.project / "notes.txt").read_text() == "evil"


@pytest.mark.spec("A23")
def test_a_call_shown_to_one_user_was_not_shown_to_another(asking: Cli) -> None:
    make_pending(asking, abcdefgh_1="one.txt")
    asking.run("pending", "--json")
    folder = asking.ledger_file.parent / "shown"
    (own,) = folder.iterdir()
    assert own.name == str(os.getuid())
    assert own.stat().st_mode & 0o777 == 0o700
    own.rename(folder / "54321")
    assert asking.run("approve", "abcdefgh-1").code == 2
    assert made(asking) == []


@pytest.mark.spec("A23")
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"0" * 100, b"0" * 64 + b"\nabcdefgh-1\n"])
def test_a_damaged_record_of_shown_calls_is_ignored(asking: Cli, content: bytes) -> None:
    make_pending(asking, abcdefgh_1="one.txt")
    asking.run("pending", "--json")
    (kept,) = (path for path in (asking.ledger_file.parent / "shown").rglob("*") if path.is_file())
    kept.write_bytes(content)
    assert asking.run("approve", "abcdefgh-1").code in (2, 4)
    assert made(asking) == []


@pytest.mark.spec("A23")
def test_on_a_terminal_a_call_never_shown_is_shown_whole_and_then_asked_about(asking: Cli) -> None:
    make_pending(asking, abcdefgh_1="one.txt", abcdefgh_2="two.txt")
    with Terminal(asking, "approve", "abcdefgh-1") as person:
        person.expect(digest_of(asking, "abcdefgh-1"))
        person.expect("+abcdefgh-1")
        person.expect("Approve this? [y/N] ")
        person.type("")
        person.expect("is still pending")
        assert person.finish() == 4
    assert made(asking) == []
    with Terminal(asking, "approve", "abcdefgh-2") as person:
        person.expect("Approve this? [y/N] ")
        person.type("y")
        assert person.finish() == 0
    assert made(asking) == ["two.txt"]


@pytest.mark.spec("A23")
def test_on_a_terminal_a_call_that_was_shown_is_approved_at_once(asking: Cli) -> None:
    make_pending(asking, abcdefgh_1="one.txt")
    with Terminal(asking, "pending", "abcdefgh-1") as person:
        person.expect("+abcdefgh-1")
        assert person.finish() == 0
    with Terminal(asking, "approve", "abcdefgh-1") as person:
        assert person.finish() == 0
    assert made(asking) == ["one.txt"]


@pytest.mark.spec("A23a")
def test_ids_in_a_document_are_not_completed_and_a_second_run_does_nothing(cli: Cli) -> None:
    """Models choose these ids: naming `c1` twice must not run `c11`."""
    document = write_calls(cli, "touch one.txt", "touch two.txt")
    document.write_text(document.read_text().replace("(`c2`)", "(`c11`)"))
    assert cli.run("chat", NAME).code == 4
    assert cli.run("chat", "run", "c1", NAME).code == 0
    assert made(cli) == ["one.txt"]
    for words in (("c1", NAME), ("c1",), ("c",), ("c1", NAME, "--json")):
        assert cli.run("chat", "run", *words).code == 2, words
    assert made(cli) == ["one.txt"]
    assert cli.run("chat", "run", "c11", NAME).code == 0


@pytest.mark.spec("A23a")
def test_an_id_that_another_document_used_needs_the_file(cli: Cli) -> None:
    for name in ("a.chat", "b.chat"):
        write_calls(cli, f"touch {name}.txt", name=name)
        assert cli.run("chat", name).code == 4
    assert cli.run("chat", "run", "c1", "a.chat").code == 0
    again = cli.run("chat", "run", "c1")
    assert again.code == 2
    assert "b.chat" in again.sentence
    assert made(cli) == ["a.chat.txt"]
    assert cli.run("chat", "run", "c1", "b.chat").code == 0


@pytest.mark.spec("A23a")
def test_an_id_of_an_earlier_reply_does_not_approve_a_call(cli: Cli) -> None:
    document = write_calls(cli, "touch one.txt")
    assert cli.run("chat", NAME).code == 4
    assert cli.run("chat", "run", "c1", NAME).code == 0
    second = write_calls(cli, "touch two.txt", name="second.chat").read_text()
    document.write_text(document.read_text().rstrip() + "\n\nmore\n\n" + second.partition("hello\n\n")[2])
    waiting = cli.run("chat", NAME, "--json")
    assert waiting.code == 4
    refused = cli.run("chat", "run", "c1", NAME)
    call_id = cli.run("pending", "--json").json["call_id"]
    assert refused.code == 2
    assert call_id in refused.sentence
    assert made(cli) == ["one.txt"]
    assert cli.run("chat", "run", call_id, NAME).code == 0
    assert made(cli) == ["one.txt", "two.txt"]


@pytest.mark.spec("A23a")
def test_a_model_cannot_name_a_call_like_another_call_of_the_ledger(cli: Cli) -> None:
    """An id that means one call in the document and another in the ledger means neither."""
    document = write_calls(cli, "touch one.txt", "touch two.txt")
    assert cli.run("chat", NAME).code == 4
    pending = {item["args"]["command"]: item["call_id"] for item in cli.run("pending", "--json").lines}
    text = document.read_text().replace("(`c2`)", f"(`{pending['touch one.txt']}`)")
    document.write_text(text)
    assert cli.run("chat", NAME).code == 4
    refused = cli.run("chat", "run", pending["touch one.txt"], NAME)
    assert refused.code == 2
    assert made(cli) == []


@pytest.mark.spec("A23")
def test_chat_run_does_not_run_a_pending_call_that_was_never_shown(cli: Cli) -> None:
    write_calls(cli, "touch one.txt")
    assert cli.run("chat", NAME).code == 4
    cli.forget_shown()
    blind = cli.run("chat", "run", "c1", NAME)
    assert blind.code == 2
    assert "--digest" in blind.sentence
    assert made(cli) == []
    call_id = cli.run("ledger", "--json").lines[0]["call_id"]
    assert cli.run("chat", "run", "c1", NAME, "--digest", digest_of(cli, call_id)[:12]).code == 0
    assert made(cli) == ["one.txt"]


@pytest.mark.spec("X10")
def test_a_pending_call_that_cannot_be_read_is_named_and_can_be_rejected(asking: Cli) -> None:
    make_pending(asking, abcdefgh_1="one.txt", abcdefgh_2="two.txt")
    connection = sqlite3.connect(asking.ledger_file, isolation_level=None)
    connection.execute("DROP TRIGGER entries_are_never_changed")
    connection.execute("UPDATE entries SET body = '{' WHERE call = 'abcdefgh-1'")
    connection.close()
    listed = asking.run("pending", "--json")
    assert (listed.code, [item["call_id"] for item in listed.lines]) == (0, ["abcdefgh-2"])
    assert "abcdefgh-1" in listed.err and "holdfast doctor" in listed.err
    assert asking.run("approve", "abcdefgh-2").code == 0
    for command in (("ledger",), ("ledger", "show", "abcdefgh-2"), ("grants",), ("changes",), ("chat", "status"),
                    ("call", "calculator", "expression=1"), ("undo", "--yes"), ("ledger", "export")):  # fmt: skip
        done = asking.run(*command)
        assert done.code == 0, (command, done)
    verified = asking.run("ledger", "verify", "--json")
    assert (verified.code, verified.json["first_bad"]) == (1, 1)
    assert asking.run("approve", "abcdefgh-1").code == 1
    said = asking.run("--set", "sandbox.mode=off", "doctor").out
    assert "end it with `holdfast reject abcdefgh-1`" in said
    assert asking.run("reject", "abcdefgh-1").code == 0
    assert asking.run("pending").err == ""
    assert made(asking) == []


@pytest.mark.spec("A19", "A23")
def test_approve_widens_one_call_and_shows_its_new_limits_first(cli: Cli) -> None:
    other = cli.project.parent / "other"
    other.mkdir()
    cli.run("call", "shell.exec", f"command=echo hello > {other}/file")
    (pending,) = cli.run("pending", "--json").lines
    assert pending["surroundings"]["sandbox"] == "contained by bubblewrap; network off"
    refused = cli.run("approve", pending["call_id"], "--write", str(other), "--always", "project")
    assert refused.code == 2 and "rule with network, read or write" in refused.sentence
    done = cli.run("approve", pending["call_id"], "--write", "../other", "--host", "example.com")
    assert done.code == 0, done.err
    unfolded = done.err.replace("\n│↳", "").replace("\n│ ", " ")
    assert f"contained by bubblewrap; network only example.com; also changes {other}\n" in unfolded
    assert "undo    changes to files can be undone; what it sends cannot\n" in unfolded
    assert (other / "file").read_text() == "hello\n"
    shown = cli.run("ledger", "show", pending["call_id"], "--json").json
    assert shown["widening"] == {"hosts": ["example.com"], "write": [str(other)]}
