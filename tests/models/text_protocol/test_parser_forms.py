"""Every form of a call, and its meaning."""

from __future__ import annotations

import pytest

from holdfast.contract.json import Args

from .parsing import calls, faults, only_call
from .strategies import WRITE


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        ("[read_file: src/a.py]", "file.read", {"path": "src/a.py"}),
        ("text [read_file:\t a b.py ] text", "file.read", {"path": "a b.py"}),
        ("[read_file:C:\\x:y]", "file.read", {"path": "C:\\x:y"}),
        ("`[read_file: a.py]`", "file.read", {"path": "a.py"}),
        ("[list_dir: src]", "file.list", {"path": "src"}),
        ("[list_dir: ]", "file.list", {"path": "."}),
        ("[list_dir:]", "file.list", {"path": "."}),
        ("[search_code: def main]", "code.search", {"query": "def main"}),
        ("[search_code: query: x]", "code.search", {"query": "query: x"}),
        ("[git_status]", "git.status", {}),
        ("[git_diff]", "git.diff", {}),
        ("[git_log]", "git.log", {}),
        ("[write_file: a.txt]", "file.write", {"path": "a.txt", "content": ""}),
        ("[write_file: path= a.txt]", "file.write", {"path": "a.txt", "content": ""}),
    ],
)
def test_a_bracket_is_a_call(text: str, name: str, args: Args) -> None:
    assert only_call(text) == (name, args)


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        "[read_file: ]",
        "[read_file:]",
        "[search_code: \t]",
        "[write_file: path=]",
        "[read_file]",
        "[list_dir]",
        "[Read_file: a]",
        "[ read_file: a]",
        "[git_status: a]",
        "[edit_file: a]",
        "[search_code]",
        "[search_code] and [/other]",
    ],
)
def test_an_incomplete_bracket_is_only_text(text: str) -> None:
    assert calls(text) == []
    assert faults(text) == []


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("[read_file: app/[id]/page.tsx]", ["app/[id]/page.tsx"]),
        ("[read_file: a[b[c]].py] [read_file: d]", ["a[b[c]].py", "d"]),
        ("[read_file: a]]", ["a"]),
        ("[read_file: a[b]\n", ["a[b"]),
        ("[read_file: a[b] and [read_file: c]\n", ["a[b", "c"]),
        ("[read_file: a[b] and [read_file: c[d]]\n", ["a[b", "c[d]"]),
        ("[read_file: a[b] [read_file: c[d] [read_file: e]\r\n[read_file: f]", ["a[b", "c[d", "e", "f"]),
        ("[read_file: [read_file: a]\n", ["[read_file: a"]),
    ],
)
def test_balanced_brackets_belong_to_the_argument(text: str, paths: list[str]) -> None:
    assert calls(text) == [("file.read", {"path": path}) for path in paths]
    assert faults(text) == []


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        "[search_code]\nneedle\n[/search_code]",
        "[search_code]needle[/search_code]",
        "[search_code]\n  query: needle  \nmore\n[/search_code]",
        "[search_code]\r\npattern=needle\r\n[/search_code]",
        "I use [search_code] now.\n\n[search_code]\nquery=needle\n[/search_code]",
        "[search_code] [search_code]\npattern: needle\n[/search_code]",
        "[search_code]\n\nneedle\n[/search_code]",
        "[search_code]\n \r\n\nquery: needle\n\nmore\n\n[/search_code]",
        "[search_code]\nquery:\nneedle\n[/search_code]",
    ],
)
def test_a_search_block_uses_its_first_non_blank_line(text: str) -> None:
    assert only_call(text) == ("code.search", {"query": "needle"})


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("[write_file]\npath: a\n---content---\nx\ny\n[/write_file]", "x\ny"),
        ("[write_file]\npath: a\n---content---\n\nx\n\n[/write_file]", "\nx\n"),
        ("[write_file]path: a\n---content---x[/write_file]", "x"),
        ("[write_file]\r\npath: a\r\n---content---\r\nx\r\ny\r\n[/write_file]", "x\r\ny"),
        ("[write_file]\npath: a\n---content---\r\nx\r\n\n[/write_file]", "x\r\n"),
        ("[write_file]\npath: a\n---content---\n[/write_file]", ""),
        ("[write_file]\npath: b\nnote: c\n path : a \n---content---\n  x  \n[/write_file]", "  x  "),
        ("[write_file]\npath: a\n---content---\n---content---\n[/write_file]", "---content---"),
        ("[write_file]\npath: a\n---content---\n```\n[git_status]\n[/write_file]", "```\n[git_status]"),
        ("Then [write_file]:\n[write_file]\npath: a\n---content---\nx\n[/write_file]", "x"),
        (
            WRITE.format("[write_file]\n  [write_file]\n[/write_file] \r\n[/write_file]").replace("w.py", "a"),
            "[write_file]\n  [write_file]\n[/write_file] \r\n[/write_file]",
        ),
        ("[write_file]\npath: a\n---content---\nsee [write_file] there\n[/write_file]", "see [write_file] there"),
        ("[write_file]\npath: a\n---content---\nsee [write_file]\n[/write_file]", "see [write_file]"),
        ("[write_file]\npath: a\n---content---\n[write_file] there\n[/write_file]", "[write_file] there"),
        ("[write_file]\npath: a\n---content--- \t\nx\n[/write_file]", "x"),
        ("[write_file]\npath: a\n---content---\t\r\n \nx\n[/write_file]", " \nx"),
        ("[write_file]\npath: a\n---content--- x\n[/write_file]", " x"),
        ("[write_file]\npath: a\n---content---\nx[/write_file] \n", "x"),
        ("[write_file]\npath: a\n---content---\nx\n \t[/write_file] and so on", "x\n \t"),
    ],
)
def test_a_file_is_written_byte_for_byte(text: str, content: str) -> None:
    assert only_call(text) == ("file.write", {"path": "a", "content": content})


@pytest.mark.spec("M3")
def test_a_delimiter_in_a_name_is_part_of_the_name() -> None:
    _, args = only_call("[write_file]\npath: docs/---content---x.md\n---content---\nx\n[/write_file]")
    assert args == {"path": "docs/---content---x.md", "content": "x"}
    text = "[edit_file]\npath: a---search---b\n---search---\nx\n---replace---\ny\n[/edit_file]"
    assert only_call(text)[1]["path"] == "a---search---b"


@pytest.mark.spec("M3")
def test_blocks_in_the_texts_of_an_edit_keep_their_own_delimiters() -> None:
    example = "[edit_file]\npath: x\n---search---\n1\n---replace---\n2\n[/edit_file]"
    text = f"[edit_file]\npath: a\n---search---\n{example}\n---replace---\n{example}\n\n[/edit_file]"
    _, args = only_call(text)
    assert (args["search"], args["replace"]) == (example, example + "\n")


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "body",
    [
        '{"b": "[/call] ```", "c": [{}]}',
        '\n{"b": "[/call] ```",\n "c": [{}]}\n',
        '\n```json\n{"b": "[/call] ```", "c": [{}]}\n```\n',
        '\r\n````\r\n{"b": "\\u005b/call] ```", "c": [{}]}\r\n````\r\n',
    ],
)
def test_any_tool_is_called_with_an_object(body: str) -> None:
    assert only_call(f"[call: my.tool]{body}[/call]") == ("my.tool", {"b": "[/call] ```", "c": [{}]})


@pytest.mark.spec("M3")
@pytest.mark.parametrize("before", ["", "I look.\n", "```\n[git_log]\n```\n"])
@pytest.mark.parametrize("body", ['{"b": "[/call]"}', '\n{"b":\n "[/call]"}', '\n```json\n{"b": "[/call]"}\n```'])
@pytest.mark.parametrize("end", ["", "\n", " \r\n\n"])
def test_the_end_of_the_reply_closes_a_complete_object(before: str, body: str, end: str) -> None:
    assert only_call(f"{before}[call: my.tool]{body}{end}") == ("my.tool", {"b": "[/call]"})


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("written", "name"),
    [("a", "a"), ('"a"', "a"), ('"a\\u005d b"', "a] b"), ("read_file", "read_file"), ('"a', '"a'), ('""', "")],
)
def test_the_name_of_a_call_is_kept_as_written(written: str, name: str) -> None:
    assert only_call(f"[call: {written} ]{{}}[/call]") == (name, {})


@pytest.mark.spec("M3")
def test_ten_thousand_calls_are_parsed_in_order() -> None:
    text = "".join(f"[read_file: f{number}]\n[search_code]\nq{number}\n[/search_code]" for number in range(5000))
    assert faults(text) == []
    read = calls(text)
    assert read[::2] == [("file.read", {"path": f"f{number}"}) for number in range(5000)]
    assert read[1::2] == [("code.search", {"query": f"q{number}"}) for number in range(5000)]
