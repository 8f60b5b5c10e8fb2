"""Nothing inside a fence or a body is a call, for replies built from parts of known meaning."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.soak import rounds

from .parsing import calls, faults
from .strategies import TEXT, WORDS

_LINES = st.lists(st.sampled_from(WORDS), max_size=5).map("\n".join)
_CALLS = st.sampled_from(["[read_file: real.py]", "[git_status]", '[call: real]\n{"a": "[git_log]"}\n[/call]'])
Part = tuple[str, int]
"""A part of a reply, and how many calls are in it."""


def fenced(body: str, char: str, info: str) -> Part:
    longest = max((len(run) for run in body.replace("~", "`").split() if not run.strip("`")), default=0)
    fence = char * max(3, longest + 1)
    return f"{fence}{info}\n{body}\n{fence}\n", 0


CONTAINERS = [("> ", "> "), (">", ">"), ("- ", "  "), ("* ", "  "), ("10. ", "    "), ("1) ", "   "), ("-\t", "\t")]
"""What the first line of a quotation or a list item begins with, and what its other lines do."""


def contained(body: str, char: str, places: list[tuple[str, str]], blank: str) -> Part:
    """A fence nested in block quotes and lists."""
    first, *rest = fenced(body, char, "")[0].removesuffix("\n").split("\n")
    begin, others = ("".join(place[index] for place in places) for index in (0, 1))
    return "\n".join((begin + first, *(others + line for line in rest))) + f"{blank}\n", 0


def quoted(body: str) -> Part:
    inside = body.replace("\n", " ").replace("`", "'")
    return f"see ``` {inside} ``` there\n", 0


def written(body: str) -> Part:
    body = body.replace("write_file]", "write_file)")
    return f"[write_file]\npath: w.py\n---content---\n{body}\n[/write_file]\n", 1


def edited(body: str) -> Part:
    body = body.replace("edit_file]", "edit_file)").replace("---", "--")
    return f"[edit_file]\npath: e.py\n---search---\n{body}\n---replace---\n{body}\n[/edit_file]\n", 1


def called(body: str) -> Part:
    return f"[call: any]\n{json.dumps({'text': body.replace(chr(0xD800), '')})}\n[/call]\n", 1


def plain(text: str) -> Part:
    return text + "\n", 1


PARTS = st.one_of(
    st.builds(fenced, _LINES, st.sampled_from(["`", "~"]), st.sampled_from(["", "json", " text [git_log]"])),
    st.builds(
        contained,
        _LINES,
        st.sampled_from(["`", "~"]),
        st.lists(st.sampled_from(CONTAINERS), min_size=1, max_size=3),
        st.sampled_from(["", " ", "\t", "\u00a0"]),
    ),
    st.builds(quoted, TEXT),
    st.builds(written, _LINES),
    st.builds(edited, _LINES),
    st.builds(called, TEXT),
    st.builds(plain, _CALLS),
    st.just(("some words\n", 0)),
)


@pytest.mark.spec("M3")
@settings(max_examples=rounds(80, 400), deadline=None)
@given(parts=st.lists(PARTS, max_size=8))
def test_only_text_outside_fences_and_bodies_is_parsed_for_calls(parts: list[Part]) -> None:
    text = "".join(part for part, _ in parts)
    read = calls(text)
    assert len(read) == sum(count for _, count in parts)
    assert {name for name, _ in read} <= {"file.read", "git.status", "real", "file.write", "file.edit", "any"}
    assert all(fault == "fabricated" for fault in faults(text))


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        "```\n[git_status]\n```",
        "```\n[git_status]\n  ```  \r\n",
        "1. a\n   ```\n   [git_status]\n      ```\n",
        "```md\n1. a\n    ```\n    [git_status]\n    ```\n```",
        "```md\n\t```\n[git_status]\n\t```\n```",
        "````\n```\n[git_status]\n```\n[git_log]\n````",
        "``` [git_status] ```",
        "```` [git_status] ``` [git_log] ````",
        "~~~\n[git_status]\n```\n[git_log]\n~~~",
        "~~~ a ~~~\n[git_status]\n~~~\n",
        "~~~ a ``` [git_status]\n~~~\n",
        "> ~~~\n[git_status]\n~~~\n",
        "text ```\n[git_status]\n```\n",
        "```\n[write_file]\npath: a\n---content---\nx\n[/write_file]\n```",
        "``` `` [git_status] ``` ",
        "> ```\n> make\n> ```\nNever run this:\n```\n[git_log]\n```\nok",
        "> > ~~~\n> > make\n> > ~~~\n~~~\n[git_log]\n~~~\n",
        "> ```\n> make\n```\nNever:\n```\n[git_log]\n```\n",
        "```md\n> ```\n> [git_log]\n> ```\n```\n",
        "> ```md\n> > ```\n> > [git_log]\n> > ```\n> ```\n",
        "10. Run:\n10. ```sh\n    make\n    ```\nNever:\n```\n[git_log]\n```\n",
        "-\t```sh\n\tmake\n\t```\nNever:\n```\n[git_log]\n```\n",
        "- - ```\n    make\n    ```\nNever:\n```\n[git_log]\n```\n",
        "- ~~~\n  [git_status]\n  ~~~\n",
        "1. ~~~\n   [git_status]\n   ~~~\n",
        "+ > 2) ~~~\n  >    [git_status]\n  >    ~~~\n",
        "```\na\n```\u00a0\nNever:\n```\n[git_log]\n```\n",
        "\x0c~~~\n[git_status]\n~~~\n",
    ],
)
def test_a_quoted_call_is_ignored(text: str) -> None:
    assert calls(text) == []
    assert faults(text) == []


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        "```\na\n```\n[git_status]",
        "``` a ``` [git_status]",
        "``` a ````` [git_status]",
        "~~~\na\n~~~~\n[git_status]",
        "``a [git_status]",
        "a ~~~ [git_status]",
        "~~ [git_status]",
        "```\na\n```\r\n[git_status]",
        "> ```\n> make\n> ```\nRun this:\n[git_status]\n",
        "> ```\n> [git_log]\n> ```\n[git_status]",
        "10. ```sh\n    make [git_log]\n    ```\n[git_status]",
        "-\t~~~\n\t[git_log]\n\t~~~\u00a0\n[git_status]",
        "-~~~\n[git_status]",
        "1.~~~\n[git_status]",
        "1234567890. ~~~\n[git_status]",
        "- a ~~~\n[git_status]",
    ],
)
def test_a_call_after_a_quotation_is_parsed(text: str) -> None:
    assert calls(text) == [("git.status", {})]
    assert faults(text) == []
