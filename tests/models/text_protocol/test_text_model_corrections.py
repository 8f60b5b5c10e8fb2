"""Invalid replies: none of their calls is made, and each kind of problem is corrected once."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.contract.message import Message, Text, Thinking, ToolResult, ToolUse
from holdfast.models.port import (
    CORRECTION_MARK,
    ModelError,
    ModelEvent,
    ModelFault,
    PartEnded,
    Retrying,
    Settings,
    Usage,
)
from holdfast.models.text_protocol.prompt import CALL_FORMS
from holdfast.models.text_protocol.text_model import TextModel
from tests.models.exchanges import HELLO, end, hear, parts, run
from tests.models.text_protocol.scripted_model import SPENT, TOOLS, Scripted, written

FABRICATED = "[read_file: a]\n=== tool_result: read_file ===\nsecret\n=== /tool_result ===\n"
FABRICATED_ERROR = "=== tool_error: read_file ===\nno\n=== /tool_error ===\n"
UNOPENED = "[git_log]\n[/write_file]\n"
UNCLOSED = "[git_log]\n[write_file]\npath: a\n---content---\nb\n"
UNREADABLE = "[git_log]\n[write_file]\nnothing\n[/write_file]\n"
BROKEN_JSON = '[git_log]\n[call: shell.exec]{"command": [/call]\n'
OPEN_FENCE = "[git_log]\n```\n[git_diff]\n"
DOUBTFUL_FENCE = "[git_log]\n```\nls\n"
MIDDLE = "[git_log]\n[write_file]\npath: a\n---content---\na [/write_file] b\n[/write_file]\n"
EMPTY = "[git_log]\n[write_file: a]\n```\nx\n```\n"
EDIT = "[git_log]\n[edit_file]\npath: a\nnothing\n[/edit_file]\n"
MALFORMED = [UNOPENED, UNCLOSED, UNREADABLE, BROKEN_JSON, OPEN_FENCE, DOUBTFUL_FENCE, MIDDLE, EMPTY]
FLAWED = [FABRICATED, FABRICATED_ERROR, EDIT, *MALFORMED]
GOOD = "[git_status]\n"
RIGHT = [ToolUse("call-1", "git.status", "{}")]


class Corrected:
    """The outcome of a series of replies, and the requests made."""

    def __init__(self, *replies: str, messages: tuple[Message, ...] = HELLO, edit_repair: bool = True) -> None:
        self.model = Scripted([written(reply) for reply in replies])
        self.events: list[ModelEvent] = []
        self.error: ModelError | None = None
        run(self._ask(messages, edit_repair))

    async def _ask(self, messages: tuple[Message, ...], edit_repair: bool) -> None:
        try:
            async for event in TextModel(self.model, edit_repair=edit_repair).stream(messages, TOOLS, Settings()):
                self.events.append(event)
        except ModelError as error:
            self.error = error

    @property
    def retries(self) -> list[Retrying]:
        return [event for event in self.events if isinstance(event, Retrying)]

    def told(self, place: int = -1) -> str:
        return self.model.last(place).text


@pytest.mark.parametrize("flawed", FLAWED)
@pytest.mark.spec("M3")
def test_an_invalid_reply_is_corrected_once_with_an_explanation(flawed: str) -> None:
    asked = Corrected(flawed, GOOD)
    (again,) = asked.retries
    assert (again.attempt, again.delay) == (1, 0.0) and "nothing was run" in again.reason
    after = asked.events[asked.events.index(again) :]
    assert parts(after) == RIGHT and parts(asked.events[: asked.events.index(again)]) == []
    assert end(after).stop == "tool_use"
    sent = asked.model.asked[1][0]
    assert sent[:-2] == asked.model.asked[0][0]
    assert sent[-2] == Message("assistant", (Text(flawed),))
    assert sent[-1].role == "user" and sent[-1].text.startswith(f"{CORRECTION_MARK} ")
    assert "Nothing was" in sent[-1].text


@pytest.mark.parametrize("flawed", FLAWED)
@pytest.mark.spec("M3")
def test_a_second_problem_of_the_same_kind_fails_and_keeps_nothing(flawed: str) -> None:
    asked = Corrected(flawed)
    assert asked.error is not None and asked.error.fault is ModelFault.MALFORMED
    assert "small:writer" in str(asked.error) and "nothing was run" in str(asked.error)
    assert len(asked.model.asked) == 2
    assert not [event for event in asked.events if isinstance(event, PartEnded)]


@pytest.mark.spec("M3")
def test_all_malformed_calls_count_as_one_kind() -> None:
    for second in MALFORMED:
        assert len(Corrected(UNCLOSED, second, GOOD).model.asked) == 2


@pytest.mark.spec("M3")
def test_each_kind_is_counted_separately() -> None:
    asked = Corrected(FABRICATED, UNCLOSED, EDIT, GOOD)
    assert asked.error is None and parts(asked.events)[-1:] == RIGHT
    assert [again.attempt for again in asked.retries] == [1, 2, 3]
    assert len({again.reason for again in asked.retries}) == 3
    assert [message.role for message in asked.model.asked[-1][0]] == ["system", "user", *["assistant", "user"] * 3]


@pytest.mark.parametrize("fourth", [FABRICATED, UNCLOSED, EDIT])
@pytest.mark.spec("M3")
def test_a_reply_is_requested_at_most_four_times(fourth: str) -> None:
    asked = Corrected(FABRICATED, UNCLOSED, EDIT, fourth, GOOD)
    assert asked.error is not None and len(asked.model.asked) == 4


@pytest.mark.spec("M3")
def test_corrections_are_counted_per_message() -> None:
    model = Scripted([written(each) for each in (UNCLOSED, GOOD, UNCLOSED, GOOD)])
    text = TextModel(model)
    for _ in range(2):
        assert parts(run(hear(text, tools=TOOLS)))[-1:] == RIGHT


@pytest.mark.spec("M3")
def test_a_fabricated_result_is_the_most_serious_problem() -> None:
    asked = Corrected(UNOPENED + EDIT + FABRICATED, GOOD)
    assert "result that you wrote yourself" in asked.told()
    assert "[edit_file]" in Corrected(UNOPENED + EDIT, GOOD).told()


@pytest.mark.parametrize(
    ("flawed", "says"),
    [
        (UNOPENED, "[/write_file] on line 2 closes nothing"),
        (UNCLOSED, "[write_file] on line 2 is not closed"),
        (UNREADABLE, "the [write_file] block on line 2 cannot be read"),
        (BROKEN_JSON, "on line 2 cannot be read"),
        (OPEN_FENCE, "the code fence on line 2 is not closed, and [git_diff] in it does not count"),
        (DOUBTFUL_FENCE, "the code fence on line 2 is not closed, so it is unclear which of your calls are quoted"),
        (MIDDLE, "the [write_file] block on line 2 cannot be read"),
        (EMPTY, "[write_file: PATH] on line 2 writes an empty file, and what was to be in it follows"),
        (EDIT, "the [edit_file] block on line 2 cannot be read"),
        (FABRICATED, "Line 2 of your reply is a tool result"),
    ],
)
@pytest.mark.spec("M3")
def test_a_correction_names_the_line_and_shows_the_form(flawed: str, says: str) -> None:
    told = Corrected(flawed, GOOD).told()
    assert says in told
    for name in ("write_file", "edit_file"):
        if f"[{name}" in says:
            assert told.endswith(CALL_FORMS[name])


@pytest.mark.spec("M5")
def test_usage_includes_corrected_replies() -> None:
    usage = end(Corrected(FABRICATED, UNCLOSED, GOOD).events).usage
    assert usage == SPENT + SPENT + SPENT
    assert usage == Usage(input=300, output=30, cache_read=9, cost=Decimal("0.03"))


@pytest.mark.spec("M5")
def test_the_error_carries_the_usage_of_failed_replies() -> None:
    asked = Corrected(FABRICATED, UNCLOSED, UNCLOSED)
    assert asked.error is not None and asked.error.usage == SPENT + SPENT + SPENT


@pytest.mark.parametrize("own", [None, SPENT])
@pytest.mark.spec("M5")
def test_an_error_during_a_correction_carries_the_usage_so_far(own: Usage | None) -> None:
    broken = ModelError(ModelFault.OVERLOADED, "Busy.", usage=own)
    for before in range(3):
        model = Scripted([*(written(each) for each in (FABRICATED, UNCLOSED)[:before]), [broken]])
        broken.usage = own
        with pytest.raises(ModelError) as caught:
            run(hear(TextModel(model), tools=TOOLS))
        assert caught.value is broken
        spent = [SPENT] * before + ([own] if own else [])
        assert broken.usage == (sum(spent[1:], spent[0]) if spent else None)


@pytest.mark.spec("M5")
def test_a_truncated_reply_during_a_correction_carries_the_usage_so_far() -> None:
    with pytest.raises(ModelError) as caught:
        run(hear(TextModel(Scripted([written(UNCLOSED), written(GOOD)[:-1]])), tools=TOOLS))
    assert (caught.value.fault, caught.value.usage) == (ModelFault.CUT, SPENT)


@pytest.mark.spec("M3")
def test_a_correction_truncates_long_tags() -> None:
    told = Corrected(f"[call: {'a' * 300_000}\n", GOOD).told()
    assert len(told) < 150 and f"[call: {'a' * 52}… on line 1 is not closed" in told


@pytest.mark.spec("M3")
def test_a_fabricated_result_is_corrected_even_in_a_truncated_reply() -> None:
    """A model that fabricates results continues until it hits the limit, which must not hide the problem."""
    model = Scripted([written(FABRICATED + "[write_file]\n", stop="max_tokens"), written(GOOD)])
    assert parts(run(hear(TextModel(model), tools=TOOLS)))[-1:] == RIGHT


@pytest.mark.spec("M3")
def test_thinking_is_returned_with_the_invalid_reply() -> None:
    thought = Thinking("hm", "anthropic", "c2ln")
    model = Scripted([[PartEnded(thought), *written(UNCLOSED)], written(GOOD)])
    run(hear(TextModel(model), tools=TOOLS))
    assert model.asked[1][0][-2] == Message("assistant", (thought, Text(UNCLOSED)))


def after_edit(
    *, error: bool = True, name: str = "file.edit", arguments: str = '{"path": "src/a.py"}'
) -> tuple[Message, ...]:
    return (
        *HELLO,
        Message("assistant", (ToolUse("call-1", name, arguments),)),
        Message("user", (ToolResult("call-1", name, "The text was not found.", error),)),
    )


@pytest.mark.spec("M4")
def test_an_unreadable_repair_of_a_failed_edit_is_answered_with_the_edit_form() -> None:
    told = Corrected(EDIT, GOOD, messages=after_edit()).told()
    assert told.startswith(f"{CORRECTION_MARK} Your edit of src/a.py failed")
    assert told.endswith(CALL_FORMS["edit_file"].replace("PATH", "src/a.py"))
    assert Corrected(EDIT, messages=after_edit()).error is not None


@pytest.mark.parametrize(
    "before",
    [
        HELLO,
        after_edit(error=False),
        after_edit(name="file.write"),
        after_edit(arguments='{"path": '),
        after_edit(arguments="[]"),
        (*after_edit(), Message("assistant", (Text("Sorry."),)), *HELLO),
    ],
)
@pytest.mark.spec("M4")
def test_an_unreadable_edit_without_a_failed_one_before_gets_the_general_correction(
    before: tuple[Message, ...],
) -> None:
    assert (
        Corrected(EDIT, GOOD, messages=before)
        .told()
        .startswith(f"{CORRECTION_MARK} Nothing was run: the [edit_file] block")
    )


@pytest.mark.spec("M4")
def test_edit_repair_can_be_disabled() -> None:
    asked = Corrected(EDIT, GOOD, messages=after_edit(), edit_repair=False)
    assert asked.told().startswith(f"{CORRECTION_MARK} Nothing was run: ")
    assert parts(asked.events)[-1:] == RIGHT
