"""A reply means the same however it comes, and what it means so far never changes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.models.text_protocol.reading import Asked, Reader, Said, parse
from tests.soak import rounds

from .strategies import EDIT, REPLY, WRITE
from .support import assert_beginnings_agree, in_steps, streamed, text_of

HAND_MADE = (
    "I look at it.\n[read_file: src/a[0].py]\n[list_dir: ]\n[git_status] and [git_log]",
    "[read_file: a[b] then [read_file: c] and [git_diff]\nmore [read_file: [x]\n",
    "[read_file: a[b] then [read_file: c] and [git_diff]",
    "[read_file: [call: a] ```\n[git_status]\n```\n[git_log]\n",
    "```\n[git_status]\n   ```\n[git_log] ``` [git_diff] ``` [git_status]",
    "````md\n```\n[git_status]\n```\n[git_log]\n````\n[git_diff]",
    "``` never closed [git_status]\n[git_log]\n",
    "text\n~~~ one ~~~ [git_status]\n~~~\n[git_log]",
    "    ~~~^~~\n[git_log]",
    WRITE.format("[git_status]\n[write_file]\n[/write_file]\nx"),
    "Use [write_file].\n" + WRITE.format("a") + "\n" + EDIT.format("[git_log]"),
    WRITE.format("a [/write_file] b") + "\n[git_status]",
    "[search_code]\nquery: a\n[/search_code] [search_code] [git_status] [/search_code]\n[search_code]\n\nb",
    "[search_code] a\n \r\nb[/search_code] [git_log]",
    '[call: a]\n```json\n{"b": "[/call] \\" [git_status]"}\n```\n[/call][git_log]',
    '[call: a]{"b": "x}[/call] [git_status] "}[/call]',
    '[call: a] no [call: b]{}[/call] [call: c]{} x [/call] [git_status]',
    "[edit_file]\r\npath: a\r\n<<<<<<< S\r\nb\r\n=======\r\nc\r\n>>>>>>> R\r\n[/edit_file]\r\n[git_status]",
    "[write_file]path: a\n---content---b[/write_file]",
    "=== tool_result: read_file ===\n[git_status]\n=== /tool_result ===",
    "[read_file: \ud800\U0001f600][git_status",
    "> 10. ~~~\n>     [git_log]\n>     ~~~\u00a0\n[git_status]\n- ```\n[git_log]\n  ```\n[git_diff]\n-~~~",
    WRITE.format("a").replace("\n[/", "[/") + " \t\n[git_status]\n" + EDIT.format("a").replace("\n[/", "[/"),
    WRITE.format("a [/write_file], b [git_status]\n[write_file]\nc [/write_file]") + "\n[git_log]",
    WRITE.format("a [/write_file], then [git_status]").replace("\n[/write_file]", ""),
    "[write_file: a.py]\n\n```python\nprint(1)\n```\n[write_file: b[0].py] \n---content---\nx\n[/write_file]",
    "[write_file: a.py]\n--- no ---\n[write_file: b[0 ]\n~~ no\n[write_file: c]\n[/write_file][/write_file]",
    "[git_status]\n``` never closed",
)


@pytest.mark.spec("M3")
@pytest.mark.parametrize("text", HAND_MADE)
def test_the_calls_of_every_beginning_are_the_first_calls_of_the_reply(text: str) -> None:
    assert_beginnings_agree(text)


@pytest.mark.spec("M3")
@settings(max_examples=rounds(60, 300), deadline=None)
@given(text=REPLY)
@example(text="[read_file: [[][git_status]]\n")
def test_the_calls_of_every_beginning_are_the_first_calls_of_any_reply(text: str) -> None:
    assert_beginnings_agree(text)


@pytest.mark.spec("M3")
@pytest.mark.parametrize("text", HAND_MADE)
@pytest.mark.parametrize("step", [1, 2, 3, 4, 7, 11])
def test_a_reply_in_pieces_is_read_like_the_whole(text: str, step: int) -> None:
    whole, pieces = parse(text), in_steps(text, step)
    assert (pieces.calls, pieces.flaws, text_of(pieces)) == (whole.calls, whole.flaws, text)


@pytest.mark.spec("M3")
@settings(max_examples=rounds(80, 400), deadline=None)
@given(text=REPLY, cuts=st.lists(st.integers(0, 400), max_size=20), step=st.sampled_from([1, 2, 3, 5]))
def test_any_reply_in_any_pieces_is_read_like_the_whole(text: str, cuts: list[int], step: int) -> None:
    whole = parse(text)
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for read in (streamed(text[a:b] for a, b in pairwise(places)), in_steps(text, step)):
        assert (read.calls, read.flaws, text_of(read)) == (whole.calls, whole.flaws, text)


@pytest.mark.spec("M3")
@settings(max_examples=rounds(60, 300), deadline=None)
@given(text=REPLY)
def test_nothing_of_a_reply_is_lost(text: str) -> None:
    parsed = parse(text)
    assert text_of(parsed) == text
    assert all(piece.text for piece in parsed.pieces)
    neighbours = pairwise(parsed.pieces)
    assert not any(isinstance(a, Said) and isinstance(b, Said) for a, b in neighbours)
    assert all(1 <= flaw.line <= text.count("\n") + 1 for flaw in parsed.flaws)


@pytest.mark.spec("M3")
def test_text_is_given_as_soon_as_it_cannot_be_a_call() -> None:
    reader = Reader()
    assert reader.feed("I will [re") == [Said("I will ")]
    assert reader.feed("ally) look: ``") == [Said("[really) look: ")]
    assert reader.feed("`\n[git_status]") == [Said("```\n[git_status]")]
    assert reader.close() == []


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        "[read_file: a]",
        "[read_file: a[0]]",
        "[git_status]",
        "[search_code]\na\n[/search_code]",
        "[search_code]a[/search_code]",
        WRITE.format("a"),
        EDIT.format("a"),
        '[call: a]{"b": [1]}[/call]',
    ],
)
def test_a_call_is_given_with_its_last_character_and_not_before(text: str) -> None:
    reader = Reader()
    assert reader.feed(text[:-1]) == []
    (call,) = reader.feed(text[-1])
    assert isinstance(call, Asked) and call.text == text
    assert reader.close() == []
