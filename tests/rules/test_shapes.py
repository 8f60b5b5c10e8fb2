"""Shapes: which pending calls a person can review together, and what differs between them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.contract.call import PendingCall, Proposal, RunConditions
from holdfast.contract.enums import Risk
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.rules.shapes import group_by_shape, shape_of
from tests.soak import rounds
from tests.store.calls import make_pending

pytestmark = pytest.mark.spec("E7d")


def _shape(args: Args, *, tool: Tool | None = None, name: str = "file.write") -> str:
    pending = make_pending(args=args, tool=name)
    return shape_of(pending if tool is None else replace(pending, definition_digest=tool.digest), tool)


def _command(text: str) -> str:
    return _shape({"command": text}, name="shell.exec")


def test_calls_that_differ_only_in_values_have_the_same_shape() -> None:
    one: Args = {"path": "a.txt", "lines": [1, 2], "options": {"mode": "fast", "depth": 3}}
    other: Args = {"path": "b/c.txt", "lines": [7], "options": {"mode": "slow", "depth": 4}}
    assert _shape(one) == _shape(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": [1]}),
        ({"a": True}, {"a": False}),
        ({"a": None}, {"a": "x"}),
        ({"a": True}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 1}}),
        ({"a": [{"b": 1}]}, {"a": [{"c": 1}]}),
        ({"a": []}, {"a": [1]}),
        ({"a": ["x"]}, {"a": ["x", True]}),
    ],
)
def test_other_names_types_and_booleans_make_another_shape(one: Args, other: Args) -> None:
    assert _shape(one) != _shape(other)


def test_tool_definition_risk_folder_and_sandbox_are_part_of_the_shape() -> None:
    pending = make_pending()
    low = Proposal(tool_name="file.write", summary="s", risk=Risk.LOW, payload={})
    variants = [
        pending,
        replace(pending, call=replace(pending.call, tool="file.append")),
        replace(pending, definition_digest="e" * 64),
        replace(pending, call=replace(pending.call, cwd="/elsewhere")),
        replace(pending, proposal=low),
        replace(pending, proposal=replace(low, risk=Risk.HIGH)),
        replace(pending, proposal=replace(low, surroundings=RunConditions(sandbox="contained by bubblewrap"))),
        replace(pending, proposal=replace(low, surroundings=RunConditions(sandbox="none"))),
        replace(pending, definition_only=True),
    ]
    assert len({shape_of(variant) for variant in variants}) == len(variants)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("git add a.py", "git add src/b.py"),
        ("git commit -m 'Fix the parser'", "git commit -m 'Fix the lexer'"),
        ("rm -rf build", "rm -rf dist"),
        ("head -5 a.txt", "head -20 README"),
        ("cat a.txt | grep one > out", "cat b.txt | grep two > other"),
        ("pytest tests/a.py", "pytest tests/b.py"),
        ("cd src && npm test", "cd lib && npm test"),
    ],
)
def test_commands_with_other_operands_have_the_same_shape(one: str, other: str) -> None:
    assert _command(one) == _command(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("git status", "git push"),
        ("git -C a status", "git -C a push"),
        ("npm test", "rm -rf x"),
        ("rm x", "rm -rf x"),
        ("cat a", "cat a; rm a"),
        ("cat a", "cat a > b"),
        ("cat a > b", "cat a >> b"),
        ("echo a", "echo $(rm a)"),
        ("ls a", "xargs rm < a"),
        ("bash -c 'ls a'", "bash -c 'rm a'"),
        ("python3 -c 'print(1)'", "python3 -c 'import os'"),
        ("A=1 make", "B=1 make"),
        ("tar xf a", "tar cf a"),
        ("/bin/ls", "./ls"),
        ("echo 'unclosed", "echo 'other"),
    ],
)
def test_commands_that_run_something_else_have_another_shape(one: str, other: str) -> None:
    assert _command(one) != _command(other)


def test_values_of_an_enum_count_exactly_and_other_text_does_not() -> None:
    schema: Any = {
        "type": "object",
        "properties": {
            "action": {"enum": ["start", "stop"]},
            "level": {"anyOf": [{"$ref": "#/$defs/level"}, {"type": "null"}]},
            "name": {"type": "string"},
        },
        "$defs": {"level": {"enum": ["low", "high"]}},
    }
    tool = Tool(name="service", input_schema=schema)

    def shape(action: str, level: str | None, name: str) -> str:
        return _shape({"action": action, "level": level, "name": name}, tool=tool, name="service")

    assert shape("start", "low", "web") == shape("start", "low", "mail")
    assert len({shape("start", "low", "a"), shape("stop", "low", "a"), shape("start", "high", "a")}) == 3
    changed = shape_of(make_pending(args={"action": "start"}, tool="service"), tool)
    assert changed == _shape({"action": "other"}, name="service"), "a schema of another definition says nothing"


def test_groups_are_in_the_order_of_their_oldest_call_and_say_what_differs() -> None:
    given = [
        make_pending("a", args={"path": "a.txt", "options": {"mode": "x", "deep": {"n": 1}}}),
        make_pending("b", args={"command": "make"}, tool="shell.exec"),
        make_pending("c", args={"path": "a.txt", "options": {"mode": "y", "deep": {"n": 2}}}),
        make_pending("d", args={"path": "a.txt", "options": {"mode": "z", "deep": {"n": 2}}}),
    ]
    first, second = group_by_shape(given)
    assert [pending.call.id for pending in first.calls] == ["a", "c", "d"]
    assert [pending.call.id for pending in second.calls] == ["b"]
    assert [(item.path, item.values) for item in first.differing] == [
        (("options", "mode"), ("x", "y", "z")),
        (("options", "deep", "n"), (1, 2, 2)),
    ]
    assert [item.label for item in first.differing] == ["options.mode", "options.deep.n"]
    assert second.differing == ()


@pytest.mark.parametrize("field", ["interface", "agent", "provider", "skill", "session", "document"])
def test_calls_of_other_callers_are_in_other_groups(field: str) -> None:
    def made(name: str) -> PendingCall:
        pending = make_pending()
        return replace(pending, call=replace(pending.call, caller=replace(pending.call.caller, **{field: name})))

    one, other, again = made("one"), made("other"), made("one")
    assert [group.calls for group in group_by_shape([one, other, again])] == [(one, again), (other,)]


def test_a_list_that_differs_is_shown_whole() -> None:
    (group,) = group_by_shape([make_pending(args={"a": [1, 2]}), make_pending(args={"a": [1, 3, 4]})])
    assert [(item.path, item.values) for item in group.differing] == [(("a",), ([1, 2], [1, 3, 4]))]


def test_a_name_with_a_dot_is_not_taken_for_a_path() -> None:
    def args(value: str) -> Args:
        return {"a": {"b": "same"}, "a.b": value, 'c"': {"d": value}}

    (group,) = group_by_shape([make_pending(args=args("v1")), make_pending(args=args("v2"))])
    assert [item.path for item in group.differing] == [("a.b",), ('c"', "d")]
    assert [item.label for item in group.differing] == ['"a.b"', '"c\\"".d']


def test_calls_with_other_names_beyond_those_compared_differ_as_a_whole() -> None:
    def args(last: str) -> Args:
        return {**{f"n{number:03}": number for number in range(80)}, last: 1}

    (group,) = group_by_shape([make_pending(args=args("y")), make_pending(args=args("z"))])
    assert [(item.path, item.label) for item in group.differing] == [((), "all arguments")]


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": [value]}
    return value


HOSTILE: list[Args] = [
    {"command": "(" * 5000},
    {"command": "a;" * 2000},
    {"command": "$(" * 1000 + "x" + ")" * 1000},
    {"text": "x" * 1_000_000},
    {f"name{number}": number for number in range(20_000)},
    {"list": [{"a": number} for number in range(20_000)]},
    {"deep": _nested(100)},
    {"command": 5, "args": [None, {"x": []}]},
    {"command": ["a", None, {"b": 1}]},
]


@pytest.mark.parametrize("args", HOSTILE, ids=range(len(HOSTILE)))
def test_huge_and_hostile_arguments_take_little_time(args: Args) -> None:
    began = time.process_time()
    calls = [make_pending(args=args) for _ in range(20)]
    (group,) = group_by_shape(calls)
    assert group.differing == ()
    assert time.process_time() - began < 20, "each takes a fraction of a second at most"


def test_a_thousand_calls_are_grouped_quickly() -> None:
    calls: list[PendingCall] = []
    for number in range(1000):
        args: Args = {"command": f"git add src/file{number}.py && npm run build -- --out=dist{number}"}
        calls.append(make_pending(args=args, tool="shell.exec"))
    began = time.process_time()
    (group,) = group_by_shape(calls)
    assert [item.path for item in group.differing] == [("command",)]
    assert time.process_time() - began < 20


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
_ARGS = st.dictionaries(st.text(max_size=3) | st.just("command"), _JSON, max_size=4)


@settings(max_examples=rounds(100, 2_000), deadline=None)
@given(_ARGS)
def test_a_shape_is_stable_and_ignores_the_order_of_names(args: Args) -> None:
    assert _shape(args) == _shape(dict(reversed(args.items())))


@settings(max_examples=rounds(100, 2_000), deadline=None)
@given(st.lists(_ARGS, min_size=1, max_size=5))
def test_every_call_is_in_one_group_and_every_difference_has_a_value_for_each(given_args: list[Args]) -> None:
    calls = [make_pending(f"c{number}", args=args) for number, args in enumerate(given_args)]
    groups = group_by_shape(calls)
    assert sorted(pending.call.id for group in groups for pending in group.calls) == [one.call.id for one in calls]
    for group in groups:
        same = all(pending.call.args == group.calls[0].call.args for pending in group.calls)
        assert bool(group.differing) != same
        assert all(len(item.values) == len(group.calls) for item in group.differing)
