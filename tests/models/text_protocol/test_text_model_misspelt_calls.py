"""A call with a known name in a form that no call has: it is sent back with the right form, and is never an answer."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import Tool
from holdfast.contract.message import Text, ToolUse
from holdfast.models.port import CORRECTION_MARK, ModelFault, Retrying
from holdfast.models.text_protocol.prompt import CALL_FORMS, NO_TOOLS
from holdfast.models.text_protocol.text_model import TextModel, misspelt_call
from tests.models.exchanges import end, hear, parts, run
from tests.models.test_native import after_retries, failing
from tests.models.text_protocol.scripted_model import SPENT, TOOLS, Scripted, written
from tests.quick import quickly
from tests.soak import rounds

from .strategies import REPLY, TEXT

EDIT_FORM = CALL_FORMS["edit_file"].replace("PATH", "src/a.py")
RIGHT = "[edit_file]\npath: src/a.py\n---search---\nold\n---replace---\nnew\n[/edit_file]\n"
MISSPELT = {
    "[edit_file: src/a.py]": EDIT_FORM,
    "[edit_file:src/a.py]": EDIT_FORM,
    "[edit_file:]": CALL_FORMS["edit_file"],
    "[git_status: src/a.py]": "[git_status]",
    "[git_diff: HEAD~1]": "[git_diff]",
    "[git_log: 5]": "[git_log]",
    "[read_file]": "[read_file: PATH]",
    "[list_dir]": "[list_dir: PATH]",
    "[call]": CALL_FORMS["call"],
}


@pytest.mark.spec("M3")
@pytest.mark.parametrize(("line", "form"), MISSPELT.items())
@pytest.mark.parametrize("around", ["{}", "I change it.\n\n{}\nDone.", "\t{}  ", "```\nx\n```\n{}", "{}\n```\nx\n```"])
def test_the_form_to_write_is_shown_with_the_path(line: str, form: str, around: str) -> None:
    assert misspelt_call(around.format(line)) == f"{line} is no call. Write it exactly like this:\n{form}"


@pytest.mark.spec("M3")
def test_the_first_of_several_is_corrected() -> None:
    assert misspelt_call("[call]\n[read_file]").startswith("[call] is no call.")


@pytest.mark.spec("M3")
def test_a_long_line_is_shortened_but_not_its_path() -> None:
    path = "a" * 100
    told = misspelt_call(f"[edit_file: {path}]")
    assert told.startswith(f"[edit_file: {'a' * 47}… is no call.")
    assert told.endswith(CALL_FORMS["edit_file"].replace("PATH", path))


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "There was a sea.",
        "Use [edit_file: a.py] to change it.",
        "- [read_file]",
        "`[call]`",
        "> [git_log: 5]",
        "```\n[edit_file: a.py]\n```",
        "~~~text\n[read_file]\n[call]\n~~~",
        "[search_code]",
        "[write_file]",
        "[edit_files: a.py]",
        "[read_file()]",
        "[edit_file: a[0].py]",
        "[edit_file: a.py",
        "edit_file: a.py]",
        "[Edit_File: a.py]",
    ],
)
def test_other_lines_and_what_is_quoted_in_fences_are_text(text: str) -> None:
    assert misspelt_call(text) == ""


@pytest.mark.spec("M3")
@settings(max_examples=rounds(150, 800), deadline=None)
@given(text=st.one_of(st.text(), TEXT, REPLY))
@example(text="[edit_file: a\x0bb]\u2028[call]")
@example(text="[read_file]\x1c```\n[call]")
def test_only_a_line_that_is_a_known_name_in_brackets_is_ever_corrected(text: str) -> None:
    told = misspelt_call(text)
    lines = [line.strip(" \t") for line in text.splitlines()]
    names = ("[edit_file:", "[git_status:", "[git_diff:", "[git_log:", "[read_file]", "[list_dir]", "[call]")
    suspect = [line for line in lines if line.startswith(names) and line.endswith("]")]
    assert told == "" or any(told.startswith(line[:59]) for line in suspect)
    assert suspect or told == ""


@pytest.mark.spec("M3")
@settings(max_examples=rounds(60, 300), deadline=None)
@given(
    lines=st.lists(st.sampled_from(["It is so.", "", "See [edit_file: a.py].", "  x = [call()]", "- [ ] read_file"]))
)
def test_a_reply_without_such_a_line_is_untouched(lines: list[str]) -> None:
    text = "\n".join(["So.", *lines])
    inner = Scripted([written(text)])
    events = run(hear(TextModel(inner), tools=TOOLS))
    assert parts(events) == [Text(text)] and end(events).stop == "end" and len(inner.asked) == 1
    assert not any(isinstance(event, Retrying) for event in events)


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        "[edit_file:" * 40_000,
        "[edit_file: " + "a" * 400_000,
        "[edit_file: " + " " * 400_000 + "x",
        " " * 400_000 + "[edit_file",
        " \t" * 200_000,
        ("[edit_file: " + "\t" * 400 + "\n") * 1000,
        "[read_file] x\n" * 30_000,
        "[git_log: [\n" * 40_000,
        "```\n" * 100_001 + "[call",
        "".join(f"{'`' * size}x\n" for size in range(600, 3, -1)),
        "\n" * 400_000,
    ],
    ids=range(11),
)
def test_hostile_replies_take_linear_time(text: str) -> None:
    with quickly():
        assert misspelt_call(text) == ""


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("tools", "told"),
    [(TOOLS, f"[edit_file: src/a.py] is no call. Write it exactly like this:\n{EDIT_FORM}"), ((), NO_TOOLS)],
)
def test_a_misspelt_call_is_sent_back_once_and_is_never_an_answer(tools: tuple[Tool, ...], told: str) -> None:
    wrong = "I change it.\n[edit_file: src/a.py]"
    inner = Scripted([written(wrong), written(RIGHT)])
    events = run(hear(TextModel(inner), tools=tools))
    (again,) = [event for event in events if isinstance(event, Retrying)]
    assert again.reason == (
        "The model wrote a tool call in a form that cannot be read; nothing was run, and the model was asked to "
        "correct it."
    )
    (use,) = parts(after_retries(events))
    assert isinstance(use, ToolUse) and use.name == "file.edit" and end(events).usage == SPENT + SPENT
    assert inner.asked[1][0][-2].text == wrong
    assert inner.last().text == f"{CORRECTION_MARK} Nothing was run: {told}"
    error, heard = failing(TextModel(Scripted([written(wrong)])))
    assert (error.fault, error.usage, parts(heard)) == (ModelFault.MALFORMED, SPENT + SPENT, [])


@pytest.mark.spec("M3")
def test_a_misspelt_call_counts_as_a_malformed_one() -> None:
    error, _ = failing(TextModel(Scripted([written("[git_log]\n[/write_file]\n"), written("[call]"), written("So.")])))
    assert error.fault is ModelFault.MALFORMED


@pytest.mark.spec("M3")
def test_next_to_a_call_and_in_a_truncated_reply_it_is_text() -> None:
    events = run(hear(TextModel(Scripted([written("[git_log]\n[read_file]\n")])), tools=TOOLS))
    assert any(isinstance(part, ToolUse) for part in parts(events))
    events = run(hear(TextModel(Scripted([written("[call]", stop="max_tokens")])), tools=TOOLS))
    assert parts(events) == [Text("[call]")] and end(events).stop == "max_tokens"
