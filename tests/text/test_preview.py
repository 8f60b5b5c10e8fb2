"""One-line previews of calls, and formatted arguments."""

from __future__ import annotations

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.text.escape import text_width
from holdfast.text.preview import arguments_preview, format_arguments, preview, with_label

from .strategies import ANY_TEXT

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=8,
)
ARGS = st.dictionaries(ANY_TEXT, VALUES, max_size=5)


@pytest.mark.spec("O1")
def test_scalars_come_first_then_containers_each_sorted() -> None:
    args = {"z": "last", "m": {"b": 1, "a": 2}, "n": 3, "flag": True, "none": None, "list": [1, 2], "a": "x"}
    assert preview("find", args, 200) == ('find: a="x", flag=true, n=3, none=null, z="last", list=[2 items], m={a, b}')


@pytest.mark.spec("O1")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\nb", '"a↵b"'),
        ('say "hi"', r'"say \"hi\""'),
        (1.5, "1.5"),
        (-7, "-7"),
        (False, "false"),
        (None, "null"),
        ([], "[0 items]"),
        ([1], "[1 item]"),
        ([1, 2, 3], "[3 items]"),
        ({}, "{}"),
        ({"a": 1}, "{a}"),
        ({"b": 1, "a": 1}, "{a, b}"),
        ({"d": 1, "c": 1, "b": 1, "a": 1}, "{a, b, +2 more}"),
        (object(), "<object>"),
        ("\u202e", '"‹\\u{202e}›"'),
    ],
)
def test_each_type_of_value_has_its_format(value: object, shown: str) -> None:
    assert preview("t", {"k": value}) == f"t: k={shown}"


@pytest.mark.spec("O1")
def test_a_number_with_too_many_digits_is_described() -> None:
    assert preview("t", {"n": 10**5000}) == "t: n=<a number of 16,610 bits>"


@pytest.mark.spec("O1")
def test_without_arguments_the_preview_is_the_name() -> None:
    assert preview("now", {}) == "now"


@pytest.mark.spec("O1")
def test_a_value_cannot_look_like_further_arguments() -> None:
    assert preview("t", {"a": '", force=true, b="'}) == r't: a="\", force=true, b=\""'
    assert preview("t", {"a": "\\", "b": ', force=true, c="'}) == r't: a="\\", b=", force=true, c=\""'
    assert preview("t", {"a": "C:\\dir\\file"}) == r't: a="C:\dir\file"'
    assert preview("t", {"x=1, y": 2}) == 't: "x=1, y"=2'
    assert preview("t", {"m": {"a}, n={b": 1}}) == 't: m={"a}, n={b"}'


@pytest.mark.spec("O1")
@given(ANY_TEXT, ARGS, st.integers(0, 100))
def test_a_generic_preview_is_one_line_within_the_width(name: str, args: dict[str, object], width: int) -> None:
    shown = preview(name, args, width)
    assert text_width(shown) <= width
    assert shown.isprintable()


@pytest.mark.spec("O1")
def test_a_wide_preview_ends_with_an_ellipsis() -> None:
    assert preview("write", {"content": "x" * 10_000_000}, 20) == 'write: content="xxx…'


@pytest.mark.spec("O1")
def test_padding_cannot_hide_the_rest() -> None:
    shown = preview("bash", {"command": "ls" + "\xa0" * 5000 + "; rm -rf ~"}, 80)
    assert shown == 'bash: command="ls‹\\xa0×5000›; rm -rf ~"'


@pytest.mark.spec("O3")
def test_format_preview_gets_the_width_left_after_the_name() -> None:
    seen: list[int] = []

    def format_preview(args: Args, width: int) -> str:
        seen.append(width)
        return f"$ {args['command']}"

    tool = Tool(name="shell.exec", format_preview=format_preview)
    assert preview("bash", {"command": "make\ntest"}, 40, tool.format_preview) == "bash: $ make↵test"
    assert seen == [40 - len("bash: ")]


@pytest.mark.spec("O3")
def test_the_result_of_format_preview_is_escaped_and_clipped() -> None:
    def format_preview(args: Args, width: int) -> str:
        return "\x1b[2J" + "y" * 1000

    assert preview("t", {}, 20, format_preview) == "t: ‹\\x1b›[2Jyyyyyyy…"


@pytest.mark.spec("O3")
@pytest.mark.parametrize("returned", [None, 3, b"bytes", "", "  \n", ValueError("no")])
def test_a_failing_or_blank_format_preview_falls_back_to_the_generic_preview(returned: object) -> None:
    def format_preview(args: Args, width: int) -> object:
        if isinstance(returned, Exception):
            raise returned
        return returned

    assert preview("t", {"a": 1, "label": None}, 80, format_preview) == "t: a=1"
    assert preview("t", {"label": None}, 80, format_preview) == "t"


@pytest.mark.spec("O3")
def test_format_preview_cannot_change_the_arguments() -> None:
    def format_preview(args: Args, width: int) -> str:
        cast(list[object], args["paths"]).append("/etc")
        args["force"] = True
        return "fine"

    args: dict[str, object] = {"paths": ["a"]}
    preview("t", args, 80, format_preview)
    assert args == {"paths": ["a"]}


@pytest.mark.spec("O1")
def test_a_label_is_appended_to_the_body() -> None:
    assert with_label("$ make", {"label": "building"}) == "$ make  # building"
    assert with_label("$ make", {"label": " "}) == "$ make"
    assert with_label("$ make", {"label": None}) == "$ make"
    assert with_label("$ make", {}) == "$ make"


@pytest.mark.spec("O1")
def test_ten_thousand_arguments_are_not_all_rendered() -> None:
    args = {f"key{number:05}": "v" for number in range(10_000)}
    assert arguments_preview(args, 30) == 'key00000="v", key00001="v", k…'


@pytest.mark.spec("O1")
@pytest.mark.parametrize("count", [9, 400, 100_000])
def test_long_runs_of_spaces_are_counted_and_do_not_hide_the_rest(count: int) -> None:
    text = f"x{' ' * count}tail"
    assert preview("t", {"a": text}, 60) == f't: a="x‹␠×{count}›tail"'
    assert preview("t", {}, 60, lambda args, width: text) == f"t: x‹␠×{count}›tail"
    assert f"×{count}›xxx" in preview("t", {"a": " " * count + "x" * 900}, 24)


@pytest.mark.spec("O1")
def test_formatted_arguments_are_complete_and_no_value_looks_like_another_argument() -> None:
    args: Args = {"long": "y" * 300, "many": "a\npath: b", "path": "/etc", "od: d\n": [1, {"x": None}], "n": None}
    assert format_arguments(args).split("\n") == [
        "path: /etc",
        '"od: d\\n": [1, {"x": null}]',
        "n: null",
        f"long: {'y' * 300}",
        "many:",
        "  a",
        "  path: b",
    ]
    assert format_arguments({}) == "(no arguments)"
    assert format_arguments({"half": ["\ud800"]}) == 'half: ["\ud800"]'


@pytest.mark.spec("O1")
@pytest.mark.parametrize("value", [None, True, False, 5, -1.5, 0, 1e300, float("nan"), [], {}, [1, "x"], {"a": None}])
def test_a_string_that_reads_as_another_value_is_quoted(value: object) -> None:
    spelled = json.dumps(value)
    assert format_arguments({"x": value}) == f"x: {spelled}"
    assert format_arguments({"x": spelled}) == f"x: {json.dumps(spelled)}"
    assert format_arguments({"x": f" {spelled} "}) == f"x: {json.dumps(f' {spelled} ')}"


@pytest.mark.spec("O1")
@pytest.mark.parametrize(
    ("text", "shown"), [("", '""'), (" ", '" "'), ("\n", r'"\n"'), ("\t\n ", r'"\t\n "'), ('"x"', r'"\"x\""')]
)
def test_a_blank_or_quoted_string_is_quoted(text: str, shown: str) -> None:
    assert format_arguments({"x": text}) == f"x: {shown}"


@pytest.mark.spec("O1")
@pytest.mark.parametrize("text", ["[draft] x", "nullable", "5 apples", "Truth", '{"a": 1', "a b", '"a" "b"', "[[" * 9])
def test_an_unambiguous_string_is_not_quoted(text: str) -> None:
    assert format_arguments({"x": text}) == f"x: {text}"


@pytest.mark.spec("O1")
def test_a_string_too_deep_or_too_long_to_parse_is_quoted() -> None:
    for text in ("[" * 100_000, "9" * 10_000):
        assert format_arguments({"x": text}) == f'x: "{text}"'


@pytest.mark.spec("O1")
@given(VALUES, VALUES)
def test_different_values_are_formatted_differently(one: object, other: object) -> None:
    if json.dumps(one) != json.dumps(other):
        assert format_arguments({"x": one}) != format_arguments({"x": other})
    assert format_arguments({"x": json.dumps(one)}) != format_arguments({"x": one})
