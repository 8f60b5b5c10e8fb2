"""Which messages ask for a change and which only speak of one; what is pasted, and what only says yes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.guard.asking import Earlier, Mode, read_message
from holdfast.agent.guard.phrases import is_assent
from holdfast.agent.surfaces import ANSWER_ONLY, MUTATION_ENABLED, RETRIEVAL_FIRST, Surface
from tests.agent.guard.test_asking import MESSY

EARLIER = Earlier(read="src/last.py", query="parse_line", folder="src/net")
LOOK, ANSWER = RETRIEVAL_FIRST, ANSWER_ONLY
GENERAL, USAGE, CREATE = Mode.GENERAL, Mode.USAGE, Mode.CREATE
MORE = ["foo", "bar()", "x=1", "unless", "but", "and", "not", "-", "(ask", ",", "no", "it", "when"]
TRACE = """Traceback (most recent call last):
  File "src/rows.py", line 2, in write
    create(update)
KeyError: delete

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "src/rows.py", line 4, in add
ValueError: write"""


@pytest.mark.spec("M4", "P6")
@pytest.mark.parametrize(
    "prompt",
    [
        "When the file is missing, create it",
        "If it does not exist, create it",
        "Don't forget to update the docs",
        "Do not touch the tests. Update the parser.",
        "Where is it? Then update it",
        "Can you change the title?",
        "Could you add a flag?",
        "Would you please update the docs?",
        "Can't you add a flag?",
        "If parsing fails, could you add a hint?",
        "Can you change how parse_line works?",
        "find where foo is called and replace it",
        f"{TRACE}\n\nupdate the parser",
    ],
)
def test_a_change_that_is_asked_for_is_known(prompt: str) -> None:
    assert read_message(prompt, EARLIER).surface == MUTATION_ENABLED


@pytest.mark.spec("M4", "P6")
@pytest.mark.parametrize(
    ("prompt", "surface", "mode"),
    [
        ("Don't change anything, tell me where parse_line is used", LOOK, USAGE),
        ("Don’t edit or delete parse_line", LOOK, GENERAL),
        ("Please do not write any files. What does app.py do?", LOOK, GENERAL),
        ("never overwrite anything", ANSWER, None),
        ("explain it without any change to it", ANSWER, None),
        ("It does not update", ANSWER, None),
        ("where do we create sessions in src/net?", LOOK, CREATE),
        ("Where do we write the log?", LOOK, GENERAL),
        ("please tell me where we write the log", LOOK, GENERAL),
        ("How do I add a user?", ANSWER, None),
        ("why does it delete rows", ANSWER, None),
        ("What is the difference between create and update?", ANSWER, None),
        ("Do we update the cache?", ANSWER, None),
        ("Is there a way to add a user?", ANSWER, None),
        ("Should I edit a.py, replace x with y?", LOOK, GENERAL),
        (f"why does parse_line fail?\n{TRACE}", LOOK, GENERAL),
        (f"why does it fail?\n{TRACE}", LOOK, None),
    ],
)
def test_a_change_that_is_denied_or_asked_about_leaves_the_question(
    prompt: str, surface: Surface, mode: Mode | None
) -> None:
    read = read_message(prompt, EARLIER)
    assert (read.surface.name, read.mode if read.investigates else None) == (surface.name, mode)


@pytest.mark.spec("M4", "P6")
@pytest.mark.parametrize(
    "trace",
    [
        TRACE,
        "KeyError: update\n    at write (src/a.js:3:4)\n    at Object.<anonymous> (src/b.js:1:1)",
        "java.lang.IllegalStateException: update\n    at com.example.Write.add(Write.java:12)",
        'File "src/a.py", line 3, in write\n    update',
    ],
)
def test_a_pasted_traceback_never_asks_for_a_change(trace: str) -> None:
    assert read_message(f"Why?\n\n{trace}", EARLIER).surface != MUTATION_ENABLED
    assert read_message(f"{trace}\n\nupdate it", EARLIER).surface == MUTATION_ENABLED


@pytest.mark.spec("M4", "P6")
@given(text=MESSY)
def test_a_denied_change_asks_for_none_whatever_else_is_said_in_quotes(text: str) -> None:
    quoted = text.replace("`", "").replace("\n", " ")
    assert read_message(f"Don't change `{quoted}x`.", EARLIER).surface != MUTATION_ENABLED
    assert read_message(f"Don't change `{quoted}x`. Update it.", EARLIER).surface == MUTATION_ENABLED


@pytest.mark.spec("M4", "P6")
@given(words=st.lists(st.sampled_from(MORE), min_size=2))
def test_more_words_than_one_are_never_taken_for_the_new_text(words: list[str]) -> None:
    assert read_message(f"edit a.py replace foo with {' '.join(words)}", EARLIER).direct is None


@pytest.mark.spec("M4", "P6")
@pytest.mark.parametrize(
    "text", ["yes", "Yes please!", "go ahead", "ok do it", "sure", "Yes, go ahead.", "OK.", "please do", "continue"]
)
def test_a_bare_assent_is_one(text: str) -> None:
    assert is_assent(text)


@pytest.mark.spec("M4", "P6")
@pytest.mark.parametrize(
    "text", ["", "no", "thanks", "thank you!", "yes?", "yes, but not in a.py", "ok, where is it?", "do it in a.py"]
)
def test_what_says_more_or_less_than_yes_is_no_assent(text: str) -> None:
    assert not is_assent(text)
