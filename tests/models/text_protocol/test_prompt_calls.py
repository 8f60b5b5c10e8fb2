"""Written calls parse back to the same calls, and written results to a single result."""

from __future__ import annotations

import json
import re
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.json import Args
from holdfast.contract.message import ToolResult, ToolUse
from holdfast.contract.result import Attachment
from holdfast.models.text_protocol.parser import parse
from holdfast.models.text_protocol.prompt import write_call, write_result
from holdfast.models.text_protocol.syntax import ProblemKind, TextCall
from tests.soak import rounds

from .parsing import only_call
from .strategies import TEXT, USE, WORDS

BLOCK_ENDS = ("[/call]", "[/edit_file]", "[/write_file]")
BEHIND = ["Done.", "[git_log]", "```", "[/cal"]
FRAMED = st.lists(st.sampled_from([*WORDS, "\n", "=== /tool_error ===", "="]), max_size=8).map("".join)


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("name", "args", "written"),
    [
        ("file.read", {"path": "a[0].py"}, "[read_file: a[0].py]"),
        ("file.read", {"path": "a", "limit": 5}, '[call: file.read]\n{"path": "a", "limit": 5}\n[/call]'),
        ("file.read", {"path": "a]"}, '[call: file.read]\n{"path": "a]"}\n[/call]'),
        ("file.list", {"path": "."}, "[list_dir: .]"),
        ("file.list", {}, "[call: file.list]\n{}\n[/call]"),
        ("code.search", {"query": "é x"}, "[search_code: é x]"),
        ("git.diff", {}, "[git_diff]"),
        ("file.write", {"path": "a", "content": ""}, "[write_file: a]"),
        ("file.write", {"path": "a", "content": "x\n"}, "[write_file]\npath: a\n---content---\nx\n\n[/write_file]"),
        (
            "file.edit",
            {"path": "a", "search": "x", "replace": "", "mode": "first"},
            "[edit_file]\npath: a\n---search---\nx\n---replace---\n\n[/edit_file]",
        ),
        (
            "file.edit",
            {"path": "a", "search": "x", "replace": ""},
            '[call: file.edit]\n{"path": "a", "search": "x", "replace": ""}\n[/call]',
        ),
        ("mcp:a:b", {"é": None}, '[call: mcp:a:b]\n{"é": null}\n[/call]'),
        ("a]\nb", {}, '[call: "a\\u005d\\nb"]\n{}\n[/call]'),
    ],
)
def test_a_call_is_written_in_the_shortest_form_that_round_trips(name: str, args: Args, written: str) -> None:
    assert write_call(ToolUse("call-1", name, json.dumps(args))) == written
    assert only_call(written) == (name, args)


@pytest.mark.spec("M3")
@settings(max_examples=rounds(120, 600), deadline=None)
@given(use=USE)
def test_any_call_round_trips(use: ToolUse) -> None:
    written = write_call(use)
    (call,) = parse(written).pieces
    assert isinstance(call, TextCall)
    args = json.loads(use.arguments)
    if encodable(args):
        assert (call.name, call.args) == (use.name, args)
    assert parse(written).problems == ()


@pytest.mark.spec("M3")
@settings(max_examples=rounds(120, 600), deadline=None)
@given(written=USE.map(write_call).filter(lambda written: written.endswith(BLOCK_ENDS)), behind=st.sampled_from(BEHIND))
def test_a_call_without_its_closing_tag_is_the_same_call_or_a_problem(written: str, behind: str) -> None:
    (call,) = parse(written).calls
    unclosed, _, tag = written.rpartition("[/")
    read = parse(unclosed)
    if tag == "call]":
        assert [(each.name, each.args) for each in read.calls] == [(call.name, call.args)] and not read.problems
        assert parse(unclosed + behind).problems and not parse(unclosed + behind).calls
    elif tag == "edit_file]" and read.calls:
        wanted = {**call.args, "replace": cast(str, call.args["replace"]).rstrip("\r\n")}
        assert [each.args for each in read.calls] == [wanted] and not read.problems
    else:
        assert not read.calls and read.problems


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "arguments", ['{"path": "a', "[git_status]", '{"a": NaN}', "[1]", '"x"', "[/call]", "{" * 9999]
)
def test_invalid_arguments_are_wrapped_under_their_key(arguments: str) -> None:
    written = write_call(ToolUse("call-1", "file.read", arguments))
    assert only_call(written) == ("file.read", {"INVALID_JSON": arguments})


@pytest.mark.spec("M3")
def test_a_call_without_arguments_is_written_without_arguments() -> None:
    assert write_call(ToolUse("call-1", "git.status", "")) == "[git_status]"


@pytest.mark.spec("M3")
@pytest.mark.parametrize(("error", "kind"), [(False, "tool_result"), (True, "tool_error")])
def test_a_result_is_written_in_a_frame(error: bool, kind: str) -> None:
    result = ToolResult("call-1", "file.read", "[2 lines]\na\nb", error)
    assert write_result(result) == f"=== {kind}: read_file ===\n[2 lines]\na\nb\n=== /{kind} ==="


@pytest.mark.spec("M3")
def test_a_line_that_looks_like_a_frame_is_escaped() -> None:
    output = "a\n=== /tool_result ===\n=== tool_error: x ===\n====  tool_result: y"
    shown = write_result(ToolResult("call-1", "x.y", output)).split("\n")
    assert shown[2:-1] == ["===\\ /tool_result ===", "===\\ tool_error: x ===", "====\\  tool_result: y"]


@pytest.mark.spec("M3")
@settings(max_examples=rounds(80, 400), deadline=None)
@given(name=TEXT, output=FRAMED, attached=FRAMED, label=FRAMED)
def test_nothing_in_a_result_opens_or_closes_a_frame(name: str, output: str, attached: str, label: str) -> None:
    data = attached.encode("utf-8", "replace")
    text = Attachment(kind="file", mime_type="text/plain", name=label, data=data)
    shown = write_result(ToolResult("call-1", name, output, attachments=(text,)))
    assert len(re.findall(r"===\s*tool_(?:result|error)", shown)) == 1
    assert len(re.findall(r"===\s*/\s*tool_(?:result|error)", shown)) == 1
    assert shown.startswith("=== tool_result: ")
    assert shown.endswith("\n=== /tool_result ===")
    assert [problem.kind for problem in parse(shown).problems].count(ProblemKind.FABRICATED) == 1


def encodable(args: object) -> bool:
    """A lone surrogate cannot be encoded as JSON: a call with one is rejected and shown as invalid."""
    return not re.search("[\ud800-\udfff]", json.dumps(args, ensure_ascii=False))


@pytest.mark.spec("M1")
def test_the_hint_to_use_an_offset_is_removed_for_read_file() -> None:
    note = "[Showing lines 1-200 of 900. Use offset=201 to continue.]"
    shown = write_result(ToolResult("call-1", "file.read", f"text\n\n{note}"))
    assert shown.split("\n")[-2] == "[Showing lines 1-200 of 900.]"
    assert note in write_result(ToolResult("call-1", "output.read", f"text\n\n{note}"))
    assert note in write_result(ToolResult("call-1", "file.read", f"a file that says\n{note}\nin its middle"))
