"""`holdfast cron`: changes are calls with approval and records; the list and the runs need no daemon."""

from __future__ import annotations

import time

import pytest

from holdfast.store.ledger import Ledger
from tests.cli.command_line import Cli

pytestmark = pytest.mark.spec("B14j", "E1a")
ALLOW = '[tools]\nprofile = "full"\n[approval]\nauto_approve = ["$default", "cron.*"]\n'


@pytest.fixture
def scheduling(cli: Cli) -> Cli:
    cli.configure(ALLOW)
    return cli


def added(cli: Cli, *words: str) -> str:
    done = cli.run("cron", "add", *words, "--zone", "UTC", "--json")
    assert done.code == 0, done
    return done.json["structured"]["id"]


def make_due(cli: Cli, late: float = 0) -> None:
    """Let every schedule be due in this minute, or `late` seconds ago."""
    minute = time.time() // 60 * 60 - late
    with Ledger.open(cli.ledger_file) as ledger:
        ledger.run(lambda tx: tx.execute("UPDATE schedules SET next_at = ?", (minute,)))


def test_a_schedule_is_added_listed_and_removed(scheduling: Cli) -> None:
    assert scheduling.run("cron").out == "There are no schedules here.\n"
    name = added(scheduling, "0 3 * * MON-FRI", "file.read", "path=notes.txt")
    header, row = scheduling.run("cron", "list").out.splitlines()
    assert header.split() == ["id", "when", "next", "what", "by", "last"]
    assert row.startswith(f"{name}  0 3 * * MON-FRI UTC") and 'file.read path="notes.txt"' in row
    assert "cli:" in row and row.endswith("no run yet")
    listed = scheduling.run("cron", "--json").json
    assert (listed["id"], listed["tool"], listed["caller"]["interface"]) == (name, "file.read", "cron")
    assert listed["args"]["path"] == "notes.txt" and listed["running"] is False
    assert scheduling.run("cron", "remove", name).out == f"Removed schedule {name}.\n"
    assert scheduling.run("cron", "remove", name).code == 1
    assert scheduling.run("cron").out == "There are no schedules here.\n"
    kinds = [entry["kind"] for entry in scheduling.run("ledger", "export").lines]
    assert kinds.count("scheduled") == kinds.count("unscheduled") == 1
    assert scheduling.run("ledger", "verify").code == 0


def test_adding_needs_approval_like_any_other_call(cli: Cli) -> None:
    cli.configure('[tools]\nallow = ["cron.*"]\n')
    done = cli.run("cron", "add", "@daily", "git.status")
    assert done.code == 4 and "At 00:00 every day" in done.err and "holdfast approve" in done.err
    assert cli.run("cron").out == "There are no schedules here.\n"
    assert cli.run("approve", cli.run("pending", "--json").json["call_id"]).code == 0
    assert "git.status" in cli.run("cron").out


def test_a_refusal_says_what_would_allow_it(cli: Cli) -> None:
    done = cli.run("cron", "add", "@daily", "git.status")
    assert done.code == 3 and "not allowed by tool policy" in done.sentence and "coding" in done.sentence


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["@daily"], 2, "Give a tool or --document"),
        (["@daily", "git.status", "--document", "a.chat"], 2, "Give a tool or --document"),
        (["soon", "git.status"], 1, "Cannot read 'soon' as a schedule"),
        (["@daily", "git.statsu"], 1, "Did you mean 'git.status'?"),
        (["@daily", "file.read", "path"], 2, "Cannot read 'path' as an argument"),
        (["@daily", "file.read", "nope=1"], 1, "The arguments of 'file.read' are not valid"),
        (["@daily", "--document", "missing.chat"], 1, "There is no document"),
    ],
)
def test_what_cannot_be_scheduled_is_said(scheduling: Cli, words: list[str], code: int, said: str) -> None:
    done = scheduling.run("cron", "add", *words)
    assert done.code == code and said in done.sentence, done


def test_what_is_due_runs_once_without_the_daemon(scheduling: Cli) -> None:
    assert scheduling.run("cron", "run").sentence == "Nothing is due."
    name = added(scheduling, "* * * * *", "system.info")
    pending = added(scheduling, "* * * * *", "shell.exec", "command=touch made")
    make_due(scheduling)
    ran = {each["id"]: each for each in scheduling.run("cron", "run", "--json").lines}
    assert ran[name]["last_state"] == "done"
    assert ran[pending]["last_state"] == "pending"
    assert scheduling.run("pending", "--json").json["call_id"] == ran[pending]["last_call"]
    assert scheduling.run("approve", ran[pending]["last_call"]).code == 0
    assert (scheduling.project / "made").exists()
    assert {each["last_state"] for each in scheduling.run("cron", "--json").lines} == {"done"}


def test_missed_runs_are_said_and_not_made_up_for(scheduling: Cli) -> None:
    added(scheduling, "*/5 * * * *", "git.status")
    make_due(scheduling, late=(time.time() // 60 * 60) % 300 + 1500)
    done = scheduling.run("cron", "run")
    assert "Missed " in done.err and "no daemon was running" in done.err
    assert "missed" in scheduling.run("cron").out


def test_a_document_is_advanced_with_its_message(scheduling: Cli) -> None:
    (scheduling.project / "talk.chat").write_text('```toml\nmodel.name = "operator"\n```\n\n@You:\n')
    name = added(scheduling, "* * * * *", "--document", "talk.chat", "-m", "2 + 2")
    make_due(scheduling)
    done = scheduling.run("cron", "run")
    assert done.out.startswith(f"{name}: "), done
    text = (scheduling.project / "talk.chat").read_text()
    assert "2 + 2" in text and "@Assistant:" in text


def test_options_on_the_command_line_apply_to_scheduled_documents(scheduling: Cli) -> None:
    (scheduling.project / "talk.chat").write_text("@You:\n")
    added(scheduling, "* * * * *", "--document", "talk.chat", "-m", "2 + 2")
    make_due(scheduling)
    done = scheduling.run("--set", "model.name=elsewhere:some", "cron", "run", "--json")
    assert "elsewhere" in done.json["last_message"], done
    assert "@Assistant:" not in (scheduling.project / "talk.chat").read_text()


def test_ids_of_schedules_are_completed(scheduling: Cli) -> None:
    name = added(scheduling, "@daily", "git.status")
    words = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": f"holdfast cron remove {name[:2]}", "COMP_CWORD": "3"}
    assert name in scheduling.run(env=words).out
