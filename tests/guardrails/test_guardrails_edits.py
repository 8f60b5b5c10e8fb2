"""Requests for a change: the form of the edit, an answer without the edit, and an edit that failed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.guard import AcceptReply, PastReply, RetryReply, TurnHistory
from holdfast.config.config import GuardrailsConfig
from holdfast.contract.enums import Failure
from holdfast.contract.result import Result, fail
from holdfast.guardrails.guardrails import GuardRails
from holdfast.models.port import ProtocolChoice
from holdfast.models.protocol import CallWriter
from tests.agent.scripted_model import ScriptedModel
from tests.guardrails.turns import (
    TOOLS,
    acted,
    answer,
    denied,
    direct_round,
    found,
    looked_up,
    rails,
    read_by_runtime,
    read_file,
    rejected,
    round_of,
    sent,
    turn_of,
    use,
    without,
)
from tests.quick import quickly

CONTENT = "HOST = 1\nREAD_LIMIT = 10\nget(1)\nget(2)\n"
READ = read_by_runtime("a.py", read_file("a.py", CONTENT))
SET = "Set READ_LIMIT to 20 in a.py"


def form(note: str) -> tuple[str, dict[str, Any]]:
    """The call in a note."""
    (call,) = (line for line in note.splitlines() if line.startswith('["file.edit"'))
    name, args = json.loads(call)
    return name, args


def notes(turn: TurnHistory) -> tuple[str, ...]:
    return sent(rails().prepare(turn)).notes


@pytest.mark.spec("M4")
def test_the_form_of_the_edit_has_the_file_and_the_likely_line() -> None:
    (note,) = notes(turn_of(SET, READ))
    first, call, last = note.splitlines()
    assert first == f"[runtime:note] Now make the change: {SET}"
    assert json.loads(call) == ["file.edit", {"path": "a.py", "search": "OLD TEXT", "replace": "NEW TEXT"}]
    assert last == "OLD TEXT is probably this line: `READ_LIMIT = 10`"
    TOOLS["file.edit"].schema.validate(form(note)[1])
    assert sent(rails(without("edit_repair")).prepare(turn_of(SET, READ))).notes == ()


@pytest.mark.spec("M4")
@pytest.mark.parametrize("verb", ["Add", "Append", "Insert"])
def test_the_form_to_add_something_keeps_a_line_of_the_same_kind(verb: str) -> None:
    (note,) = notes(turn_of(f"{verb} a second host to a.py", READ))
    line = "HOST = 1"
    assert form(note) == ("file.edit", {"path": "a.py", "search": line, "replace": f"{line}\nNEW TEXT"})
    assert note.splitlines()[-1] == "Write what is to be added in place of NEW TEXT."


@pytest.mark.spec("M4")
def test_the_form_after_a_slip_has_the_likely_line_in_both_places() -> None:
    copied = use("file.edit", path="a.py", search="READ_LIMIT = 10", replace="NEW TEXT")
    (note,) = notes(turn_of(SET, READ, round_of((copied, denied()))))
    line = "READ_LIMIT = 10"
    assert form(note) == ("file.edit", {"path": "a.py", "search": line, "replace": line})
    assert note.splitlines()[-1] == "Change the text in `replace`."


@pytest.mark.spec("M4")
def test_a_line_that_is_not_certain_is_left_to_the_model() -> None:
    (note,) = notes(turn_of("Fix the calls of get in a.py", READ))
    assert form(note) == ("file.edit", {"path": "a.py", "search": "OLD TEXT", "replace": "NEW TEXT"})
    assert "is probably this line" not in note


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("content", "search"),
    [
        ("get(1)\nx = get(2)\n", "get"),
        ("get(1)\nget_all()\n", "OLD TEXT"),
        ("target(1)\nget(1)\n", "OLD TEXT"),
        ("other()\n", "OLD TEXT"),
    ],
)
def test_a_rename_replaces_every_place_only_where_no_longer_name_has_it(content: str, search: str) -> None:
    guard = rails(without("direct"))
    read = read_by_runtime("a.py", read_file("a.py", content))
    (note,) = sent(guard.prepare(turn_of("Rename `get` to `fetch` in a.py", read))).notes
    args = form(note)[1]
    assert args["search"] == search
    assert (args.get("mode"), args["replace"]) == (("all", "fetch") if search == "get" else (None, "NEW TEXT"))


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "rounds"),
    [
        (SET, [read_by_runtime("a.py", denied(Failure.DENIED_BY_POLICY))]),
        ("Change READ_LIMIT in a.py, but ask me before", [READ]),
        ("Create new.py like a.py", [READ, round_of((use("file.edit", path="a.py"), rejected()))]),
        ("Write a new module for the limits", [looked_up("limits", found({"a.py": ["limits"]}, query="limit")), READ]),
        (SET, [READ, round_of((use("shell.exec", command="x"), Result(True, "Done.")))]),
        ("How does a.py work?", [READ]),
        ("hello", [READ]),
    ],
)
def test_no_edit_is_proposed_where_none_may_be_meant_or_one_was_made(prompt: str, rounds: list[PastReply]) -> None:
    guard = rails(without("evidence", "own_answers"))
    turn = turn_of(prompt, *rounds)
    assert not any("OLD TEXT" in note or "NEW TEXT" in note for note in sent(guard.prepare(turn)).notes)
    assert guard.receive(turn, answer("So.")) == AcceptReply(answer("So."))


@pytest.mark.spec("M4")
def test_an_answer_in_place_of_a_change_is_sent_back_once_with_the_form() -> None:
    said = answer("You can set it to 20.")
    back = rails().receive(turn_of(SET, READ), said)
    assert isinstance(back, RetryReply) and back.rule == "edit_repair"
    first, call, last = back.note.splitlines()
    assert first == "[runtime:correction] Nothing was changed. To change the file, reply with this form:"
    assert json.loads(call) == ["file.edit", {"path": "a.py", "search": "OLD TEXT", "replace": "NEW TEXT"}]
    assert last == "OLD TEXT is probably this line: `READ_LIMIT = 10`"
    assert rails().receive(turn_of(SET, READ, retries={"edit_repair": 1}), said) == AcceptReply(said)
    assert rails(without("edit_repair")).receive(turn_of(SET, READ), said) == AcceptReply(said)
    some = [tool for name, tool in TOOLS.items() if name != "file.edit"]
    assert rails(tools=some).receive(turn_of(SET, READ), said) == AcceptReply(said)


@pytest.mark.spec("M4")
@pytest.mark.parametrize("result", [fail("No."), denied(), Result(True), None])
def test_an_answer_after_a_change_was_tried_is_kept(result: Result | None) -> None:
    tried = round_of((use("file.edit", path="a.py", search="x", replace="y"), result))
    assert rails().receive(turn_of(SET, READ, tried), answer("So.")) == AcceptReply(answer("So."))


def failed(search: str, **args: Any) -> PastReply:
    edit = use("file.edit", path="a.py", search=search, replace="new", **args)
    return round_of((edit, fail("Could not find the exact text in a.py.")))


@pytest.mark.spec("M4")
def test_an_edit_of_a_text_that_is_not_there_is_answered_with_the_closest_line() -> None:
    (note,) = notes(turn_of(SET, READ, failed("READ_LIMIT=10\nmore")))
    assert "The file has no such text. It has this line: `READ_LIMIT = 10`." in note
    assert form(note) == ("file.edit", {"path": "a.py", "search": "READ_LIMIT = 10", "replace": "new"})
    assert notes(turn_of(SET, READ, failed("§§§§"))) == ()


@pytest.mark.spec("M4")
def test_of_a_file_that_was_read_in_part_only_that_part_is_spoken_of() -> None:
    part = read_by_runtime("a.py", read_file("a.py", CONTENT, next_offset=5, limited_by="limit"))
    (note,) = notes(turn_of(SET, part, failed("READ_LIMIT=10")))
    assert "What was read of the file has no such text." in note


@pytest.mark.spec("M4")
def test_an_edit_of_a_text_that_is_there_twice_is_answered_with_the_form_for_all() -> None:
    (note,) = notes(turn_of(SET, READ, failed("get")))
    assert "The file has this text more than once, in the lines `get(1)`, `get(2)`." in note
    name, args = json.loads(note.splitlines()[-2])
    assert (name, args) == ("file.edit", {"path": "a.py", "search": "get", "replace": "new", "mode": "all"})


@pytest.mark.spec("M4")
def test_an_edit_that_the_message_spells_out_and_that_failed_is_repaired_from_what_is_read_then() -> None:
    prompt = "In a.py replace `READ_LIMIT=10` with `READ_LIMIT = 20`"
    edit = use("file.edit", "runtime-1", path="a.py", search="READ_LIMIT=10", replace="READ_LIMIT = 20")
    turn = turn_of(prompt, round_of((edit, fail("Could not find the exact text in a.py."))))
    assert acted(rails().prepare(turn)) == ("evidence", "file.read", {"path": "a.py"})
    (note,) = notes(turn_of(prompt, *turn.replies, READ))
    assert form(note)[1] == {"path": "a.py", "search": "READ_LIMIT = 10", "replace": "READ_LIMIT = 20"}


@pytest.mark.spec("M4")
def test_an_edit_that_failed_for_another_reason_is_not_explained() -> None:
    assert notes(turn_of(SET, READ, failed("HOST = 1"))) == ()
    assert notes(turn_of(SET, failed("HOST"), READ))[0].startswith(f"[runtime:note] Now make the change: {SET}\n")


@pytest.mark.spec("M4")
@given(search=st.text(), content=st.text(), path=st.sampled_from(["a.py", "b`c.py", "ü\x1b.py"]))
def test_no_edit_and_no_file_breaks_the_notes(search: str, content: str, path: str) -> None:
    read = direct_round("file.read", read_file(path, content), path=path)
    edit = use("file.edit", path=path, search=search, replace=content)
    notes(turn_of("Update it", read, round_of((edit, fail("No.")))))


@pytest.mark.spec("M4")
@pytest.mark.parametrize("line", ["x" * 1000, "READ_LIMIT = {}", "read limit of the file number {}"])
def test_a_failed_edit_of_a_file_of_many_lines_is_explained_in_time(line: str) -> None:
    content = "\n".join(line.format(number) for number in range(100_000 if len(line) < 100 else 1000))
    read = read_by_runtime("a.py", read_file("a.py", content))
    with quickly():
        notes(turn_of(SET, read, failed("READ_LIMIT=10" * 5000)))


class SpeakingModel(ScriptedModel):
    """A model that uses one protocol."""

    def __init__(self, choice: ProtocolChoice) -> None:
        super().__init__()
        self.choice = choice


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("protocol", "written"),
    [
        (
            "text",
            "[edit_file]\npath: a.py\n---search---\nOLD TEXT\n---replace---\nNEW TEXT\n[/edit_file]",
        ),
        (
            "constrained",
            '{"tool": "edit_file", "arguments": {"path": "a.py", "search": "OLD TEXT", "replace": "NEW TEXT"}}',
        ),
        ("native", 'file--edit with {"path":"a.py","search":"OLD TEXT","replace":"NEW TEXT"}'),
    ],
)
def test_the_form_is_written_in_the_models_own_protocol(protocol: Any, written: str) -> None:
    style = CallWriter(SpeakingModel(ProtocolChoice(protocol)))
    guard = GuardRails(GuardrailsConfig(), lambda: list(TOOLS.values()), style)
    wanted = f"\n{written}\nOLD TEXT is probably this line: `READ_LIMIT = 10`"
    assert sent(guard.prepare(turn_of(SET, READ))).notes == (f"[runtime:note] Now make the change: {SET}{wanted}",)
    back = guard.receive(turn_of(SET, READ), answer("So."))
    assert isinstance(back, RetryReply) and back.note.endswith(wanted)
