"""`holdfast respond`."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli

QUESTION = ("ask.user", 'questions:=[{"question": "Which?", "options": null}]')


@pytest.mark.spec("A14")
def test_a_call_can_be_answered_in_the_tools_place(asking: Cli) -> None:
    call_id = asking.make_pending(*QUESTION)
    yes = asking.run("approve", call_id)
    assert yes.code == 2
    assert "waits for its result" in yes.err
    assert asking.run("respond", call_id).code == 2, "no text and no terminal"
    assert asking.run("respond", call_id, "-", stdin="the blue one\n").code == 0
    assert asking.run("ledger", "show", call_id, "--json").json["result"]["output"] == "the blue one"


@pytest.mark.spec("A14")
def test_an_answer_can_be_a_failure(asking: Cli) -> None:
    call_id = asking.make_pending(*QUESTION)
    assert asking.run("respond", call_id, "--failed", "I do not know").code == 0
    result = asking.run("ledger", "show", call_id, "--json").json["result"]
    assert (result["success"], result["error"]["message"]) == (False, "I do not know")
