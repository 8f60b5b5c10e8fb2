"""Short tool names, and the bodies of edit blocks."""

from __future__ import annotations

import pytest

from holdfast.models.text_protocol.syntax import TOOLS, short_name

from .parsing import only_call


@pytest.mark.spec("M3")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("body", "search"),
    [
        ("path: a\n---search---\nold\n---replace---\nnew\n", "old"),
        ("path: a ---search---old\n---replace---new", "old"),
        ("path: a\n---search---\n---replace---\nnew\n", ""),
        ("path: a\n---replace---\nnew\n", ""),
        ("path: a\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n", "old"),
        ("path: a\n<<<<<<<\nold\n=======\nnew\n>>>>>>>\n\n", "old"),
        ("path: a\n<<<<<<< SEARCH\nold\n=======\nnew\n", "old"),
        ("path: a\n<<<<<<<\nold\n\n=======\nnew\n>>>>>>>\n", "old"),
        ("path: a\n---search---\nold\n\n---replace---\nnew\n", "old"),
        ("path: a\n---search---\nold\n\n\n---replace---\nnew\n", "old\n"),
        ("path: a\nold content:\nold\n\nnew content:\nnew\n", "old"),
        ("path: a\n---old---\nold\n\n---new---\nnew\n", "old"),
        ("path: a\nold content:\nold\nnew content:\nnew\n", "old"),
        ("path: a\n  Old content: old\n  New content: new\n", "old"),
        ("path: a\n---old---\nold\n---new---\nnew\n", "old"),
        ("path: a\n---search--- \nold\n---replace---\t\nnew\n", "old"),
        ("path: a\n  ---search---\nold\n---replace---\nnew\n", "old"),
        ("path: a\nold content: \nold\nnew content:\t\nnew\n", "old"),
        ("path: a\n---old--- \nold\n---new---\t\nnew\n", "old"),
        ("path: a\n  --- the old text ---\nold\n--- the new one ---\nnew\n", "old"),
    ],
)
def test_an_edit_is_parsed_in_every_form(body: str, search: str, newline: str) -> None:
    text = f"[edit_file]\n{body}[/edit_file]".replace("\n", newline)
    wanted = {"path": "a", "search": search.replace("\n", newline), "replace": "new", "mode": "first"}
    assert only_call(text) == ("file.edit", wanted)


@pytest.mark.spec("M3")
@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("body", "new"),
    [
        ("---search---\nold\n---replace---\nnew\n  line", "new\n  line"),
        ("---search---\nold\n\n---replace---\nnew", "new"),
        ("<<<<<<< SEARCH\nold\n=======\nnew", "new"),
        ("<<<<<<< SEARCH\nold\n=======\nnew\n\nline\n>>>>>>> REPLACE", "new\n\nline"),
        ("old content:\nold\nnew content:\nnew", "new"),
        ("---old---\nold\n---new---\nnew", "new"),
    ],
)
def test_the_end_of_the_reply_closes_an_edit_with_both_texts(body: str, new: str, newline: str, end: str) -> None:
    text = f"[edit_file]\npath: a\n{body}{end}".replace("\n", newline)
    wanted = {"path": "a", "search": "old", "replace": new.replace("\n", newline), "mode": "first"}
    assert only_call(text) == ("file.edit", wanted)


@pytest.mark.spec("M3")
def test_the_texts_of_an_edit_lose_only_the_surrounding_newlines() -> None:
    text = "[edit_file]\npath: a\n---search---\n\n  x =\t1 \n\n---replace---\n\r\n é\n\n[/edit_file]"
    _, args = only_call(text)
    assert (args["search"], args["replace"]) == ("\n  x =\t1 ", "\r\n é\n")


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("body", "search"),
    [
        ("---search---\n<<<<<<<\nx\n=======\ny\n>>>>>>>\n---replace---\nx\n", "<<<<<<<\nx\n=======\ny\n>>>>>>>"),
        ("---search---\nold content:\n---replace---\nx\n", "old content:"),
        ("old content:\n<<<<<<< a\nx\n=======\ny\n>>>>>>> b\nnew content:\nx", "<<<<<<< a\nx\n=======\ny\n>>>>>>> b"),
        ("old content:\n---a---\nnew content:\nx", "---a---"),
        ("<<<<<<<\nold content:\n=======\nx\n>>>>>>>\n", "old content:"),
    ],
)
def test_the_first_delimiter_of_an_edit_determines_its_form(body: str, search: str) -> None:
    _, args = only_call(f"[edit_file]\npath: a\n{body}[/edit_file]")
    assert (args["search"], args["replace"]) == (search, "x")


@pytest.mark.spec("M3")
def test_every_short_name_maps_to_a_tool_and_back() -> None:
    assert len(TOOLS) == 8
    assert {short_name(tool): tool for tool in TOOLS.values()} == TOOLS
    assert short_name("shell.exec") == "shell.exec"
