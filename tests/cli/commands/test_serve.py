"""`holdfast serve`: the people, the links, and how a daemon starts and ends."""

from __future__ import annotations

import os
import signal

import pytest

from tests.cli.command_line import Cli
from tests.serve.served import PATIENCE, daemon


@pytest.mark.spec("E3")
def test_it_says_where_it_serves_and_ends_with_ctrl_c_or_sigterm(cli: Cli) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with daemon(cli) as running:
            assert running.url.startswith("http://127.0.0.1:")
            assert running.link.startswith(f"{running.url}/login#")
            os.kill(running.process.pid, number)
            assert running.process.wait(PATIENCE) == 0
            assert "Traceback" not in running.log()


@pytest.mark.spec("E3b")
def test_people_are_added_listed_and_removed(cli: Cli) -> None:
    assert cli.run("serve", "people").out.startswith("Nobody has a token.")
    added = cli.run("serve", "people", "add", "ann")
    assert added.out.startswith("hf_") and added.out.count("\n") == 1
    assert "shown only now" in added.err
    cli.run("serve", "people", "add", "bob", "--view")
    listed = cli.run("serve", "people", "--json").lines
    assert [(person["name"], person["right"], person["token"]) for person in listed] == [
        ("ann", "answer", None),
        ("bob", "view", None),
    ]
    assert "ann" in cli.run("serve", "people").out
    assert cli.run("serve", "people", "remove", "ann").code == 0
    again = cli.run("serve", "people", "remove", "ann")
    assert (again.code, "There is no person 'ann'" in again.sentence) == (2, True)


@pytest.mark.spec("E3b")
def test_a_name_that_is_taken_or_no_name_is_one_sentence(cli: Cli) -> None:
    cli.run("serve", "people", "add", "ann")
    assert "already" in cli.run("serve", "people", "add", "ann").sentence
    assert "is no name" in cli.run("serve", "people", "add", "a b").sentence


@pytest.mark.spec("E3b")
def test_a_link_carries_its_code_in_the_fragment(cli: Cli) -> None:
    link = cli.run("serve", "link", "--port", "4700").out.strip()
    assert link.startswith("http://127.0.0.1:4700/login#")
    assert cli.run("serve", "link", "--url", "https://box.example/").out.startswith("https://box.example/login#")
    assert "There is no person" in cli.run("serve", "link", "--as", "ann").sentence
