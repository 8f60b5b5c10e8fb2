"""The text of a notification: the question, bounded, escaped and without secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.enums import Risk
from holdfast.notify.message import MAX_QUESTION, MAX_QUESTIONS, safe_link, trial_message
from holdfast.store.redact import Redactor
from holdfast.text.escape import CHARS_PER_COLUMN, text_width
from tests.notify.support import PROJECT, message_of, pending_call

pytestmark = pytest.mark.spec("E7n")
SECRET = "hunter2-correct-horse"
TOKEN = "ghp_" + "a1B2" * 9


def test_one_call_is_announced_with_its_question() -> None:
    message = message_of(pending_call(), link="http://127.0.0.1:1/calls/c1")
    assert message.title == "holdfast: 1 call is pending"
    assert message.lines == ("shell.exec asks: rm -rf build (high risk), in web by coder",)
    assert message.link == "http://127.0.0.1:1/calls/c1"
    assert message.urgent


def test_a_call_without_a_proposal_or_an_agent_names_no_risk_and_its_interface() -> None:
    message = message_of(pending_call(risk=None, agent=None))
    assert message.lines == ("shell.exec asks: rm -rf build, in web by cli",)
    assert not message.urgent


def test_a_call_without_arguments_asks_to_run() -> None:
    message = message_of(pending_call(tool="deploy", text="deploy", risk=Risk.LOW))
    assert message.lines == ("deploy asks to run (low risk), in web by coder",)


def test_several_calls_are_counted_and_grouped_by_tool() -> None:
    calls = [
        pending_call("a", "file.write", command="notes.txt", risk=Risk.MEDIUM),
        *(pending_call(f"s{number}", command=f"make step{number}") for number in range(4)),
        *(
            pending_call(f"w{number}", "file.write", command=f"{number}.txt", risk=Risk.MEDIUM)
            for number in range(1, 3)
        ),
    ]
    message = message_of(*calls, link="http://127.0.0.1:1/x")
    assert message.title == "holdfast: 7 calls are pending"
    assert message.lines[0] == "4 × shell.exec, 3 × file.write"
    assert [line.partition(" ")[0] for line in message.lines[1:-1]] == ["shell.exec"] * 4 + ["file.write"]
    assert message.lines[-1] == "and 2 more"
    assert len(message.questions) == 7


def test_calls_of_many_tools_are_summed_up() -> None:
    message = message_of(*(pending_call(f"c{number}", f"tool{number}") for number in range(9)))
    assert message.lines[0] == "tool0, tool1, tool2, tool3, tool4 and 4 other tools"
    assert len(message.lines) == MAX_QUESTIONS + 2


@given(st.text(), st.text(min_size=1), st.text())
def test_no_text_of_a_call_brings_control_characters_or_exceeds_its_limit(text: str, tool: str, agent: str) -> None:
    message = message_of(pending_call(tool=tool, text=f"{tool}: {text}", agent=agent), pending_call("c2"))
    for line in (message.title, *message.lines):
        assert line.isprintable()
    (first, _) = message.questions
    assert text_width(first.summary) <= MAX_QUESTION
    assert len(first.summary) <= MAX_QUESTION * CHARS_PER_COLUMN


def test_a_known_secret_is_redacted() -> None:
    redactor = Redactor()
    redactor.add("db", SECRET)
    call = pending_call(command=f"psql --password {SECRET}", agent=SECRET)
    message = message_of(call, redactor=redactor)
    assert SECRET not in str(message)
    assert "[secret db]" in message.lines[0]


def test_something_that_looks_like_a_token_is_redacted_although_it_is_not_known() -> None:
    message = message_of(pending_call(command=f"curl -H {TOKEN}"))
    assert TOKEN not in str(message) and "[secret github_token]" in message.lines[0]


@pytest.mark.parametrize("kept", range(6, 30))
def test_the_beginning_of_a_secret_at_the_cut_of_a_preview_is_redacted(kept: int) -> None:
    redactor = Redactor()
    redactor.add("db", SECRET)
    known = pending_call(text=f"shell.exec: psql --password {SECRET[:kept]}…")
    shaped = pending_call("c2", text=f"shell.exec: curl -H 'x:{TOKEN[:kept]}…")
    message = message_of(known, shaped, redactor=redactor)
    assert SECRET[:6] not in str(message)
    assert "ghp_" not in str(message)


def test_arguments_beyond_the_preview_are_not_in_the_message() -> None:
    call = pending_call(command=SECRET, text="login: user=ada")
    assert SECRET not in str(message_of(call))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("http://127.0.0.1:8080/calls/a1", "http://127.0.0.1:8080/calls/a1"),
        ("https://page.example/calls/a1?token=abc#token=abc", "https://page.example/calls/a1"),
        ("https://ada:pass@page.example/", "https://page.example/"),
        ("http://[::1]:80/x", "http://[::1]:80/x"),
        ("javascript:alert(1)", ""),
        ("https://page.example/\x1b]0;x\x07", ""),
        ("https://page.example:99999/", ""),
        ("https://page.example/" + "a" * 1000, ""),
        ("", ""),
    ],
)
def test_a_link_carries_no_token(given: str, wanted: str) -> None:
    assert safe_link(given) == wanted


@given(st.text())
def test_a_link_is_an_address_or_nothing(text: str) -> None:
    found = safe_link(f"http://host/{text}")
    assert found == "" or (found.isascii() and found.isprintable() and "?" not in found and "#" not in found)


def test_the_test_message_has_no_calls() -> None:
    assert trial_message().questions == () and trial_message().event == "test"


def test_the_project_is_named_by_its_last_folder() -> None:
    assert PROJECT not in str(message_of(pending_call()).lines)
