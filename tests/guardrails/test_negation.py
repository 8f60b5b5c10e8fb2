"""Which messages ask for a change and which only speak of one; what is pasted, and what only says yes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.guardrails.intent import EarlierContext, Kind, intent_of, is_assent
from tests.guardrails.test_intent import MESSY
from tests.quick import quickly
from tests.soak import some

EARLIER = EarlierContext(read="src/last.py", query="parse_line", folder="src/net")
LOOK, ASK, OTHER = Kind.LOOKUP, Kind.QUESTION, Kind.OTHER
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
        "Do not touch a.py but change b.py",
        "Don't touch a.py, instead update b.py",
        "Do not touch a.py, then please change b.py",
        "Never touch a.py, but you may edit b.py",
        "Have a look at a.py and update it, ok?",
        "Do me a favour and update the README, would you?",
        "Are you able to update README.md?",
        "Is it wrong, and if so could you change it?",
        "Why don't you add a test?",
        "Why don´t you add a test?",
        "Why not add a check",
        "If there is no README create one",
        "There is no test please write one",
        "What I need is to add a field",
        "When the tests pass update README.md",
        "When a user logs in update the field",
        "Check what fails & update it",
        "If you do not find it, create it",
        "If not, create it",
        "It does not work, change it",
        "Please:\n- update a.py\n- don't touch b.py",
        "Look at this - it is wrong - and\nupdate it",
        "Set the timeout to 30",
        "Can you bump the version?",
        "Turn off the cache",
        "It fails. Make it retry.",
        "Let users choose the color",
        "make the list sortable",
        f"{TRACE}\n\nupdate the parser",
    ],
)
def test_a_change_that_is_asked_for_is_known(prompt: str) -> None:
    assert intent_of(prompt, EARLIER).kind is Kind.CHANGE


@pytest.mark.spec("M4", "P6")
@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("Don't change anything, tell me where parse_line is used", LOOK),
        ("Don’t edit or delete parse_line", LOOK),
        ("Please do not write any files. What does app.py do?", LOOK),
        ("never overwrite anything", OTHER),
        ("explain it without any change to it", OTHER),
        ("It does not update", OTHER),
        ("Explain how parse_line works, but do not\nchange anything.", LOOK),
        ("Where in the code do we\nupdate it?", LOOK),
        ("Please do not:\n- change files\n- delete anything\n\nHello", OTHER),
        ("Please do not:\n\n1. change files.\n2. delete anything.\n\nHello", OTHER),
        ("Don't, under any circumstances, change it", OTHER),
        ("Do NOT — I repeat, NOT — edit it.", ASK),
        ("Do not: change it; delete it - or write it", OTHER),
        ("Do not read it and then change it", ASK),
        ("Don´t change anything", OTHER),
        ("Don`t change anything", OTHER),
        ("do _not_ change anything", OTHER),
        ("Do not, e.g. in a hurry, change it", ASK),
        ("Do not do any of the things that were said above and in any other way change it", ASK),
        ("You may look but under no circumstances whatsoever may you ever create it", ASK),
        ("I don't want you, yet, to modify it", OTHER),
        ("You are not allowed, as it is late, to modify it", OTHER),
        ("There is no need to update it", OTHER),
        ("No edit or update, please", OTHER),
        ("Change nothing", OTHER),
        ("make sure the tests pass", OTHER),
        ("set up the project", OTHER),
        ("let me know where the parser is", LOOK),
        ("turn by turn explanation of the parser", OTHER),
        ("make a short summary of the endpoints", OTHER),
        ("make test", OTHER),
        ("Make no changes, just explain it", OTHER),
        ("Don't set anything", OTHER),
        ("Nothing should change", OTHER),
        ("I would rather wait than read, rather than edit it", OTHER),
        ("What would you change?", OTHER),
        ("When do we update it", OTHER),
        ("When we update it it hangs", ASK),
        ("where do we create sessions in src/net?", LOOK),
        ("Where do we write the log?", LOOK),
        ("please tell me where we write the log", LOOK),
        ("How do I add a user?", ASK),
        ("why does it delete rows", ASK),
        ("What is the difference between create and update?", ASK),
        ("Do we update the cache?", ASK),
        ("Is there a way to add a user?", ASK),
        ("Should I edit a.py, replace x with y?", LOOK),
        (f"why does parse_line fail?\n{TRACE}", LOOK),
        (f"why does it fail?\n{TRACE}", ASK),
    ],
)
def test_a_change_that_is_denied_or_asked_about_leaves_the_question(prompt: str, kind: Kind) -> None:
    assert intent_of(prompt, EARLIER).kind is kind


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
    assert intent_of(f"Why?\n\n{trace}", EARLIER).kind is not Kind.CHANGE
    assert intent_of(f"{trace}\n\nupdate it", EARLIER).kind is Kind.CHANGE


@pytest.mark.spec("M4", "P6")
@given(text=MESSY)
def test_a_denied_change_asks_for_none_whatever_else_is_said_in_quotes(text: str) -> None:
    quoted = text.replace("`", "").replace("\n", " ")
    assert intent_of(f"Don't change `{quoted}x`.", EARLIER).kind is not Kind.CHANGE
    assert intent_of(f"Don't change `{quoted}x`. Update it.", EARLIER).kind is Kind.CHANGE


@pytest.mark.spec("M4", "P6")
@given(words=st.lists(st.sampled_from(MORE), min_size=2))
def test_more_words_than_one_are_never_taken_for_the_new_text(words: list[str]) -> None:
    assert intent_of(f"edit a.py replace foo with {' '.join(words)}", EARLIER).direct is None


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


RAISED = 'Why does it fail?\n\nTraceback (most recent call last):\n  File "src/app.py", line 3, in f\n    x()\n'


@pytest.mark.spec("M4", "P6")
@pytest.mark.parametrize(
    "error",
    [
        "IntegrityError: UNIQUE\n[SQL: UPDATE users SET name=?]\n(Background on this at: x)",
        "ValidationError: 1 validation error for Settings\ncreate\n  field required",
        "RuntimeError: cannot migrate\nPlease update your config\nor delete the file",
    ],
)
def test_an_error_of_several_lines_belongs_to_its_traceback_up_to_a_blank_line(error: str) -> None:
    assert intent_of(f"{RAISED}{error}", EARLIER).kind in (Kind.LOOKUP, Kind.QUESTION)
    assert intent_of(f"{RAISED}{error}\n\nPlease update it", EARLIER).kind is Kind.CHANGE


@pytest.mark.spec("M4", "P6")
@pytest.mark.parametrize("place", ["at src/app.py:12\nPlease: update it", "from src/app.py:12\n  change x to y\nHelp"])
def test_a_place_in_a_file_alone_is_no_traceback(place: str) -> None:
    assert intent_of(place, EARLIER).kind is Kind.CHANGE
    assert intent_of(f"Why?\nat src/lib.py:3\n{place}", EARLIER).kind is not Kind.CHANGE


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "unit", some(["don't change ", "not ", "no change, ", "but do ", "- not:\n", "could you ", "— "], 3)
)
def test_a_very_long_message_is_read_in_time(unit: str) -> None:
    with quickly():
        intent_of(f"{unit * 20_000}update:", EARLIER)
