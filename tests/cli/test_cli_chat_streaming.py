"""A reply in a pipe: all of what is kept, and nothing of what is not."""

from __future__ import annotations

import pytest

from holdfast.cli.chat.view import TextStream


@pytest.mark.spec("E1c")
def test_a_pipe_gets_words_when_it_is_certain_that_they_stay(capsys: pytest.CaptureFixture[str]) -> None:
    words = TextStream()
    words.write("It is in ")
    words.end()
    assert capsys.readouterr().out == ""
    words.write("draft.py.")
    words.keep()
    assert capsys.readouterr().out == "It is in \ndraft.py.\n"


@pytest.mark.spec("E1c")
def test_a_pipe_never_gets_what_was_dropped_however_often_it_was_interrupted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = TextStream()
    words.write("It is in draft.py.")
    words.end()
    words.write("No, ")
    words.drop()
    words.write("Final.")
    words.keep()
    assert capsys.readouterr().out == "Final.\n"


@pytest.mark.spec("E1c")
def test_words_on_both_sides_of_a_call_are_on_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = TextStream()
    words.write("First.")
    words.break_line()
    words.break_line()
    words.write("Then.")
    words.keep()
    assert capsys.readouterr().out == "First.\nThen.\n"
