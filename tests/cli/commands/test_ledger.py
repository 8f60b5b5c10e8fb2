"""`holdfast ledger list` and `export`: filters and output."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta

import pytest
from msgspec.structs import replace

from holdfast.contract.call import Caller
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.store.ledger import Ledger
from holdfast.store.process_identity import os_user
from tests.cli.command_line import Cli
from tests.store.calls import APPROVED, make_call

pytestmark = pytest.mark.spec("E1d")


@pytest.fixture
def past(cli: Cli) -> Cli:
    """One call today, two yesterday (one of a document), one last week."""
    today = datetime.combine(date.today(), time())  # noqa: DTZ011 - local, as a person means it
    calls: tuple[tuple[str, str, Args, float], ...] = (
        ("week", "calculator", {"expression": "1+1"}, -7),
        ("push", "shell.exec", {"command": "git push"}, -1),
        ("doc", "file.write", {"path": "a.txt", "content": "hello"}, -0.5),
        ("today", "calculator", {"expression": "2+2"}, 0),
    )
    with pytest.MonkeyPatch.context() as patch, Ledger.open(cli.ledger_file) as ledger:
        for call_id, tool, args, days in calls:
            at = (today + timedelta(days=days, seconds=1)).timestamp()
            patch.setattr("time.time", lambda at=at: at)
            call = make_call(call_id, tool=tool, args=args)
            if call_id == "doc":
                call = replace(call, caller=Caller(interface="chat", document=str(cli.project / "fix.chat")))
            ledger.record_call_now(call, APPROVED, Result(True, "Everything up-to-date"))
    return cli


def ids(cli: Cli, *words: str) -> list[str]:
    return [line["call_id"] for line in cli.run("ledger", *words, "--json").lines]


def test_it_finds_yesterday_a_text_a_document_and_a_kind_of_tool(past: Cli) -> None:
    (past.project / "fix.chat").touch()
    for words, found in {
        ("--since", "yesterday"): ["today", "doc", "push"],
        ("--since", "yesterday", "--until", "yesterday"): ["doc", "push"],
        ("--until", "2 days ago"): ["week"],
        ("--grep", "PUSH"): ["push"],
        ("--grep", "up.to.date", "--tool", "calc*"): ["today", "week"],
        ("--document", "./fix.chat"): ["doc"],
        ("--by", "config", "--state", "done", "-n", "2"): ["today", "doc"],
        ("--by", "ada"): [],
    }.items():
        assert ids(past, *words) == found, words


def test_the_table_says_who_decided_and_what_each_tool_says_of_its_call(past: Cli) -> None:
    done = past.run("ledger", "-n", "3")
    head, *rows = done.out.splitlines()
    assert head.split() == ["id", "when", "state", "decided", "by", "call"]
    assert [row.partition("  done   ")[2].split(maxsplit=1) for row in rows] == [
        ["config", "calculator: 2+2"], ["config", "file.write: a.txt  (5B)"], ["config", "shell.exec: $ git push"],
    ]  # fmt: skip
    assert done.err == "More calls match. Use `-n 30` to list up to 30.\n"


def test_the_export_takes_the_same_filters(past: Cli) -> None:
    exported = past.run("ledger", "export", "--since", "yesterday", "--grep", "git").lines
    assert [entry["call"] for entry in exported] == ["push"]
    assert exported[0]["body"]["call"]["args"] == {"command": "git push"}
    assert len(past.run("ledger", "export").lines) == 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--since", "soon"), "Cannot read 'soon' as a time. Use yesterday, 2h, 14:30, "),
        (("--grep", "a("), "Cannot read 'a(' as a regular expression"),
        (("--since", "today", "--until", "yesterday"), "--until is not after --since"),
    ],
)
def test_a_filter_that_cannot_be_read_is_an_error_that_shows_how_to_write_it(
    cli: Cli, words: tuple[str, ...], sentence: str
) -> None:
    done = cli.run("ledger", *words)
    assert done.code == 2
    assert sentence in done.sentence


def test_where_nothing_matches_a_misspelt_tool_is_pointed_out(past: Cli) -> None:
    assert past.run("ledger", "--grep", "nowhere").out == "No call matches.\n"
    assert past.run("ledger", "--tool", "calculater").out == "No call matches. Did you mean --tool calculator?\n"


def test_a_person_who_answered_is_named_and_found(asking: Cli) -> None:
    call_id = asking.make_pending("file.write", "path=a.txt", "content=b")
    waiting = asking.run("ledger").out
    assert asking.run("approve", call_id, "--by", "ada").code == 0
    assert "ada" in asking.run("ledger").out and "ada" not in waiting
    (found,) = asking.run("ledger", "--by", "ada", "--json").lines
    assert (found["call_id"], found["decided_by"]) == (call_id, "cli:ada")
    assert found["preview"] == "file.write: a.txt  (1B)"
    assert json.loads(asking.run("ledger", "export", "--by", "nobody").out or "null") is None


@pytest.mark.spec("E7b")
def test_a_typed_name_is_shown_with_the_account_that_answered(asking: Cli) -> None:
    call_id = asking.make_pending("file.write", "path=a.txt", "content=b")
    asking.run("approve", call_id, "--by", "the president")
    shown = " ".join(asking.run("ledger", "show", call_id).out.split())
    assert f"approve by cli:the president (os:{os_user()}) at" in shown
    (found,) = asking.run("ledger", "--by", f"os:{os_user()}", "--json").lines
    assert [answer["identity"] for answer in found["answers"]] == [f"os:{os_user()}"]


@pytest.mark.spec("E1a")
def test_the_ledger_is_listed_newest_first_and_filtered(cli: Cli) -> None:
    for number in range(3):
        cli.run("call", "calculator", f"expression={number}")
    cli.run("call", "system.info")
    assert [call["tool"] for call in cli.run("ledger", "-n", "2", "--json").lines] == ["system.info", "calculator"]
    done = cli.run("ledger", "list", "--tool", "calculator", "--state", "done", "--json").lines
    assert [call["args"]["expression"] for call in done] == ["2", "1", "0"]
    text = cli.run("ledger", "show", done[0]["call_id"]).out
    assert "  tool     calculator\n" in text and '│ expression: "2"\n' in text
    assert "approve: The tool declares that it has no effects." in text
