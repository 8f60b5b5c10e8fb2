"""Calls written into the text of a reply are found in every form, and nothing else is taken for a call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Tool
from holdfast.contract.json import Args
from holdfast.contract.message import ToolUse
from holdfast.models import written_calls
from holdfast.models.text_protocol.prompt import write_call
from holdfast.models.written_calls import WrittenCalls, find_calls
from tests.models.text_protocol.scripted_model import SHORT_FORM_TOOLS
from tests.models.text_protocol.strategies import REPLY
from tests.models.text_protocol.test_parser_complexity import HOSTILE, Counter
from tests.soak import rounds, some

SHELL = Tool(
    name="shell.exec",
    aliases=("bash", "run"),
    argument_aliases={"cmd": "command"},
    input_schema={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
NOTE = Tool(
    name="mcp:notes:add",
    input_schema={"type": "object", "properties": {"name": {}, "input": {}, "text": {}}, "required": ["name"]},
)
TOOLS = (*SHORT_FORM_TOOLS, SHELL, NOTE)
READ = {"path": "src/a.py"}
CALL = '{"name": "file.read", "arguments": {"path": "src/a.py"}}'


def found(text: str) -> list[tuple[str, Args]]:
    return [(call.name, call.args) for call in find_calls(text, TOOLS).calls]


def is_answer(read: WrittenCalls, text: str) -> bool:
    return read == WrittenCalls((), text, trailing=False, fabricated=False, unreadable=False)


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"[{CALL}]",
        f"\n  {CALL}\n",
        f"```\n{CALL}\n```",
        f"```json\r\n[{CALL}]\r\n```\r\n",
        f"````tool_call\n{CALL}\n````",
        f"```json\n{CALL}",
        f"```{CALL}```",
        f"```xml\n<tool_call>{CALL}</tool_call>\n```",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"<tool_call>{CALL}\n<|im_end|>",
        f"<tool_call>[{CALL}]</tool_call>",
        '<function=file.read>{"path": "src/a.py"}</function>',
        '<function=read_file>\n{"path": "src/a.py"}\n',
        '<tool_call>\n<function=file--read>{"path": "src/a.py"}</function>\n</tool_call>',
        f"<|python_tag|>{CALL}<|eom_id|>",
        f"[TOOL_CALLS] [{CALL}]</s>",
        f"[TOOL_CALLS]{CALL}",
        "[read_file: src/a.py]",
        '[call: file.read]\n{"path": "src/a.py"}\n[/call]',
        '[call: read_file]{"path": "src/a.py"}',
        f'{{"tool_calls": [{CALL}]}}',
        f'{{"function_call": {CALL}}}',
        '{"name": "file.read", "path": "src/a.py"}',
        '{"path": "src/a.py", "tool": "read_file"}',
        '{"name": "file--read", "arguments": "{\\"path\\": \\"src/a.py\\"}"}',
        '{"tool": "file.read", "args": {"path": "src/a.py"}, "reason": "to see it"}',
        '{"tool_name": "read_file", "parameters": {"path": "src/a.py"}}',
        '{"function": "file.read", "input": {"path": "src/a.py"}}',
        '{"params": {"path": "src/a.py"}, "name": "file.read", "id": "call_1", "type": "tool_use"}',
        '{"type": "function", "function": {"name": "file.read", "arguments": "{\\"path\\": \\"src/a.py\\"}"}}',
        '{"function": {"name": "file.read", "parameters": {"path": "src/a.py"}}}',
    ],
)
@pytest.mark.parametrize("before", ["", "I look at it.\n", "An example:\n```\n[git_log]\n```\n"])
def test_a_call_is_found_in_every_form(text: str, before: str) -> None:
    read = find_calls(before + text, TOOLS)
    assert [(call.name, call.args) for call in read.calls] == [("file.read", READ)]
    assert not read.trailing and not read.unreadable and not read.fabricated
    assert read.before.strip() == before.strip()


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        f"{CALL}\n{{}}",
        f"{CALL}\nThat reads it.",
        f"```json\n{CALL}\n```\nThat reads it.",
        f"<tool_call>{CALL}</tool_call> reads it.",
        "[read_file: src/a.py]\nThat reads it.",
        f"[read_file: src/a.py]\n{CALL}",
    ],
)
def test_text_after_the_last_call_is_reported(text: str) -> None:
    read = find_calls(text, TOOLS)
    assert [(call.name, call.args) for call in read.calls] == [("file.read", READ)]
    assert read.trailing


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        '{a}\n{b}',
        '{a}{b}',
        '[{a}, {b}]',
        '```json\n{a}\n{b}\n```',
        '```\n{a}\n```\nand\n```\n{b}\n```',
        '<tool_call>{a}</tool_call><tool_call>{b}</tool_call>',
        '<tool_call>{a}\n<tool_call>{b}',
        '<tool_call>\n{a}\n{b}\n</tool_call>',
        '<|python_tag|>{a}; {b}',
        '{a}\nThen:\n{b}',
        '{a}\n[call: bash]{"command": "ls"}[/call]',
        '[read_file: src/a.py]\n[call: run]{"command": "ls"}',
    ],
)  # fmt: skip
def test_several_calls_are_found_in_order(text: str) -> None:
    other = '{"name": "bash", "arguments": {"command": "ls"}}'
    text = text.replace("{a}", CALL).replace("{b}", other)
    read = find_calls(text, TOOLS)
    assert [(call.name, call.args) for call in read.calls] == [("file.read", READ), ("shell.exec", {"command": "ls"})]
    assert not read.trailing and not read.unreadable


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        "Plain text.",
        '{"name": "holdfast", "version": "1.0"}',
        '{"name": "unknown.tool", "arguments": {}}',
        '{"name": "shell.exec"}',
        '{"name": "shell.exec", "description": "Run it.", "parameters": {"type": "object", "properties": {}}}',
        '{"name": "shell.exec", "parameters": {"type": "object", "properties": {"command": {}}}}',
        '{"name": "file.read", "path": "a", "size": 5}',
        '{"name": ["file.read"]}',
        '[{"name": "file.read"}, {"name": "git.log"}]',
        "[1, 2]\n[]\n{}",
        "```json\n{'a': 1}\n```",
        f"You can write `{CALL}`.",
        f"You can write {CALL} for that",
        f"You can write ```{CALL}``` for that",
        f"You can write `<tool_call>{CALL}</tool_call>`",
        f"You can write <tool_call>{CALL}</tool_call>",
        f"The answer is {CALL}",
        f"> {CALL}",
        f"> ```json\n> {CALL}\n> ```",
        f"```python\n{CALL}\n```",
        f"~~~\n{CALL}\n~~~",
        f"```\nA call:\n{CALL}\n```",
        f"````\n```json\n{CALL}\n```\n````",
        "```\n[read_file: a.py]\n```",
        "Use [read_file: a.py] or `[git_log]`.",
        "`[read_file: a.py]`",
        "The tag is <tool_call> here.",
        "<tool_call> is a tag, and <function=x> too.",
        '```\n<tool_call>{"name": "example", "arguments": {}}</tool_call>\n```',
        "[call: nothing.known]\n{}\n[/call]",
    ],
)
def test_an_answer_stays_an_answer(text: str) -> None:
    assert is_answer(find_calls(text, TOOLS), text)


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        "{'name': 'file.read', 'arguments': {'path': 'a'}}",
        '{"name": "file.read", "arguments": {"path": "a",}}',
        '{"name": "file.read", "arguments": {"path": "a"}',
        '{"name": "file.read", "arguments": {"path": "a", "path": "b"}}',
        '{"name": "file.read", "arguments": {"path": NaN}}',
        '{"name": "file.read", "arguments": "path a"}',
        '{"name": "file.read", "arguments": ["a"]}',
        '{"name": "file.read", "tool": "shell.exec", "arguments": {}}',
        '{"type": "function", "function": {"name": "file.read", "arguments": {,}}}',
        "```json\n{'name': 'file.read', 'arguments': {'path': 'a'}}\n```",
        "<tool_call>\n{'name': 'file.read'}\n</tool_call>",
        '<tool_call>{"name": "unknown", "arguments": {}}</tool_call>',
        '<tool_call>file.read(path="a")</tool_call>',
        "<function=file.read>\n<parameter=path>\na\n</parameter>\n</function>",
        "<function=unknown>{}</function>",
        f"<tool_call>{CALL}\nThat reads it.",
        '[{"name": "git.log", "arguments": {}}, {"name": "unknown", "arguments": {}}]',
        "[write_file]\npath: a\n---content---\nb",
        '[call: bash]\n{"command": }\n[/call]',
        '{"name": "file.read", "arguments": {"path": "\ud800"}}',
        '{"name": "file.read", "arguments": ' + '{"a":' * 300 + "1" + "}" * 301,
    ],
)
def test_a_call_that_cannot_be_read_is_reported_and_not_guessed(text: str) -> None:
    read = find_calls(text, TOOLS)
    assert read.unreadable and read.calls == ()


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("written", "name", "args"),
    [
        ({"name": "git_status"}, "git.status", {}),
        ({"name": "git.status", "arguments": None}, "git.status", {}),
        ({"name": "git.status", "arguments": ""}, "git.status", {}),
        ({"name": "bash", "cmd": "ls"}, "shell.exec", {"cmd": "ls"}),
        ({"tool": "mcp:notes:add", "name": "a", "text": "b"}, "mcp:notes:add", {"name": "a", "text": "b"}),
        ({"tool": "mcp__notes__add", "name": "a", "input": "b"}, "mcp:notes:add", {"name": "a", "input": "b"}),
        ({"tool": "mcp:notes:add", "input": {"x": 1}}, "mcp:notes:add", {"input": {"x": 1}}),
        ({"tool": "mcp:notes:add", "input": {"name": "x"}}, "mcp:notes:add", {"name": "x"}),
        ({"name": "bash", "arguments": {"nonsense": 1}}, "shell.exec", {"nonsense": 1}),
    ],
)
def test_names_and_arguments_are_read_by_the_tools_schema(written: Args, name: str, args: Args) -> None:
    assert found(json.dumps(written)) == [(name, args)]


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{CALL}</tool_call>\n<tool_response>\nA = 1\n</tool_response>",
        f"{CALL}\n=== tool_result: file.read ===\nA = 1",
        "=== tool_error: x",
        "[read_file: a.py]\n=== tool_result: read_file ===",
        f"[TOOL_CALLS] [{CALL}]\n[TOOL_RESULTS] []",
        f"{CALL}<|tool_response|>A = 1",
        "```\n<tool_result>\n1\n</tool_result>\n```",
    ],
)
def test_an_invented_result_is_reported(text: str) -> None:
    assert find_calls(text, TOOLS).fabricated


@pytest.mark.spec("M3")
@pytest.mark.parametrize("content", ["<tool_response>\n", "=== tool_result: a ===", "</tool_call>", "```\n"])
def test_the_arguments_of_a_call_are_not_searched(content: str) -> None:
    args = {"path": "a", "content": f"\n{content}\n{CALL}\n[read_file: b]\n"}
    for text in _forms("file.write", args).values():
        read = find_calls(text, TOOLS)
        assert [(call.name, call.args) for call in read.calls] == [("file.write", args)]
        assert not read.fabricated and not read.trailing and not read.unreadable


@pytest.mark.spec("M3")
def test_a_tool_that_is_not_given_is_not_called() -> None:
    for text in (CALL, "[read_file: a]", '[call: file.read]{"path": "a"}[/call]', f"```json\n{CALL}\n```"):
        assert is_answer(find_calls(text, ()), text)
        assert is_answer(find_calls(text, (SHELL,)), text)


def _forms(name: str, args: dict[str, Any]) -> dict[str, str]:
    """A call in every written form."""
    plain, indented = json.dumps(args), json.dumps({"name": name, "arguments": args}, indent=2, ensure_ascii=False)
    call = json.dumps({"name": name, "arguments": args})
    return {
        "bare": call,
        "indented": indented,
        "array": f"[{call}]",
        "fence": f"```json\n{indented}\n```",
        "tag": f"<tool_call>\n{call}\n</tool_call>",
        "open tag": f"<tool_call>\n{call}",
        "function": f"<function={name}>{plain}</function>",
        "python tag": f"<|python_tag|>{call}",
        "mistral": f"[TOOL_CALLS] [{call}]",
        "string": json.dumps({"tool": name, "parameters": plain}),
        "nested": json.dumps({"type": "function", "function": {"name": name, "arguments": args}}),
        "brackets": write_call(ToolUse("call-1", name, plain)),
    }


_VALUE = st.one_of(st.none(), st.integers(-9, 9), st.text(st.characters(exclude_categories=["Cs"]), max_size=9), REPLY)
_ARGS = st.dictionaries(st.sampled_from(["path", "command", "a b", "type", "name", "é"]), _VALUE, max_size=3)
_PROSE = st.text(st.sampled_from("abc .,'()\n"), max_size=30).map(lambda text: f"{text}\n" if text.strip() else "")


@pytest.mark.spec("M3")
@settings(max_examples=rounds(40, 500), deadline=None)
@given(before=_PROSE, behind=_PROSE, args=_ARGS, name=st.sampled_from([tool.name for tool in TOOLS]), data=st.data())
def test_every_form_round_trips_between_prose(
    before: str, behind: str, args: dict[str, Any], name: str, data: st.DataObject
) -> None:
    if any("\ud800" in str(value) for value in args.values()):
        return
    form, text = data.draw(st.sampled_from(sorted(_forms(name, args).items())))
    read = find_calls(f"{before}{text}\n{behind}", TOOLS)
    if form == "open tag" and behind:
        assert read.unreadable and not read.calls
        return
    assert [(call.name, call.args) for call in read.calls] == [(name, args)]
    assert read.before == before
    assert read.trailing == bool(behind) and not read.unreadable and not read.fabricated


@pytest.mark.spec("M3")
@settings(max_examples=rounds(50, 1000), deadline=None)
@given(
    text=st.one_of(REPLY, st.text(max_size=60)),
    before=st.sampled_from(["", CALL, "```\n", "<tool_call>", "[{", '{"name": "']),
)
def test_any_text_is_read(text: str, before: str) -> None:
    read = find_calls(before + text, TOOLS)
    assert (before + text).startswith(read.before)
    assert find_calls(before + text, ()).calls == ()


_WORDS = (
    '{"name": "', '"arguments": {', "}", "]", "[{", "```json\n", "```", "<tool_call>", "</tool_call>", "\n", '"', ",",
    "<function=", ">", "[TOOL_CALLS]", "[call: a]", "[/call]", "'", "x", ": ", "<|python_tag|>",
)  # fmt: skip
_JUNK = st.lists(st.sampled_from(_WORDS), max_size=30).map("".join)


@pytest.mark.spec("M3")
@settings(max_examples=rounds(50, 1000), deadline=None)
@given(text=_JUNK)
def test_text_that_names_no_tool_has_no_calls(text: str) -> None:
    assert find_calls(text, TOOLS).calls == ()


_SCANNED = re.compile(r"(?:[\s,;]|<\|\w*+\|>|</s>|<end_of_turn>)*+")


class _Counter(Counter):
    """A failed match at a position scans only separators and end tokens, and a bounded number of other characters."""

    def match(self, text: str, at: int = 0, end: int | None = None) -> re.Match[str] | None:
        scanned = _SCANNED.match(text, at)
        return self._seen(text, at, self._pattern.match(text, at), missed=scanned.end() if scanned else at)

    def fullmatch(self, text: str, at: int, end: int) -> re.Match[str] | None:
        return self._seen(text, at, self._pattern.fullmatch(text, at, end), missed=end)

    def _seen(self, text: str, at: int, found: re.Match[str] | None, missed: int | None = None) -> re.Match[str] | None:
        # The scan alternates between the text and the bodies of its fences: neither is concatenated anew.
        Counter._last = text
        return super()._seen(text, at, found, missed)


_MORE_HOSTILE: dict[str, Callable[[int], str]] = {
    "braces and quotes": lambda n: '{"' * (n // 2),
    "lines of braces": lambda n: '{"\n' * (n // 3),
    "lines of brackets": lambda n: "[{\n" * (n // 3),
    "names": lambda n: '{"name": "file.read",\n' * (n // 22),
    "quoted names": lambda n: "{'name': 'file.read', \\\"\n" * (n // 25),
    "calls": lambda n: f"{CALL}\n" * (n // len(CALL)),
    "calls on a line": lambda n: CALL * (n // len(CALL)),
    "tags": lambda n: "<tool_call>" * (n // 11),
    "tags on lines": lambda n: "<tool_call>{\n" * (n // 13),
    "blanks after tags": lambda n: "<tool_call>" + " \n" * (n // 2),
    "functions": lambda n: "<function=file.read>\n" * (n // 21),
    "names of functions": lambda n: "<function=" * (n // 10),
    "fences of calls": lambda n: f"```json\n{CALL}\n```\n" * (n // (len(CALL) + 13)),
    "end tokens": lambda n: CALL + "</s>" * (n // 4),
    "results": lambda n: "<tool_response>\n" * (n // 16),
    "quotation marks": lambda n: ">" * n,
    "separators": lambda n: CALL + ",; " * (n // 3),
}


@pytest.mark.spec("M3")
@pytest.mark.parametrize("kind", some([*HOSTILE, *_MORE_HOSTILE], 25))
def test_hostile_text_is_read_in_linear_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size = rounds(100_000, 1_000_000)
    text = {**HOSTILE, **_MORE_HOSTILE}[kind](size)
    for name, value in list(vars(written_calls).items()):
        if isinstance(value, re.Pattern):
            monkeypatch.setattr(written_calls, name, _Counter(cast(re.Pattern[str], value)))
    Counter.work = 0
    find_calls(text, TOOLS)
    assert Counter.work < 12 * len(text)


@pytest.mark.spec("M3")
def test_a_megabyte_of_braces_is_not_a_call() -> None:
    for text in ("{" * 1_000_000, "[" * 1_000_000, '{"a":' * 200_000, CALL[:-1] + "[" * 1_000_000):
        assert find_calls(text, TOOLS).calls == ()
