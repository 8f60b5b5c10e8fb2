"""Tool names and their API names."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.contract.errors import InvalidName
from holdfast.contract.names import MAX_NAME, check_name, from_api_name, to_api_name

API_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

ends = st.sampled_from("aZ0_")
pieces = st.sampled_from(
    ["a", "B", "7", "_", "__", "___", "-", "--", "---", ".", ":", "/", "_-", "-_", ".:", "_x", "read"]
)


@st.composite
def short_names(draw: st.DrawFn) -> str:
    return draw(ends) + "".join(draw(st.lists(pieces, max_size=12))) + draw(ends)


@st.composite
def long_names(draw: st.DrawFn) -> str:
    name = f"mcp:{draw(short_names())}:{draw(st.text('ab_-.', min_size=110, max_size=130))}"
    return name[: MAX_NAME - 1] + draw(ends)


names = st.one_of(short_names(), long_names())


@pytest.mark.spec("R7")
@given(names)
def test_every_api_name_decodes_to_its_tool_name_or_has_a_digest(name: str) -> None:
    assert check_name(name) == name
    api_name = to_api_name(name)
    assert API_NAME.fullmatch(api_name)
    assert from_api_name(api_name) in (name, None)


@pytest.mark.spec("R7")
@given(st.lists(names, min_size=2, max_size=60, unique=True))
@example(["a:b", "a__b", "a.b", "a--b", "a_b", "a-b", "a/b"])
@example(["a_:b", "a:_b", "a___b"])
@example(["a-.b", "a.-b", "a---b"])
@example(["m:a-", "m:a.", "m:a--", "m:a/", "m:a_", "m:a"])
@example(["a" * 65, "a" * 66, "a" * 64 + "." + "a", "a" * 64])
@example(["mcp:server:" + "x" * 140 + tail for tail in "abc"])
def test_different_names_have_different_api_names(some: list[str]) -> None:
    assert len({to_api_name(name) for name in some}) == len(some)


@pytest.mark.spec("R7")
@given(names)
def test_an_api_name_used_as_a_tool_name_gets_another_api_name(name: str) -> None:
    api_name = to_api_name(name)
    if api_name != name and re.fullmatch(r"[A-Za-z0-9_].*[A-Za-z0-9_]|[A-Za-z0-9_]", api_name):
        assert to_api_name(api_name) != api_name


@pytest.mark.spec("R7")
@pytest.mark.parametrize(
    ("name", "api_name"),
    [
        ("file.read", "file--read"),
        ("mcp:server:tool", "mcp__server__tool"),
        ("read_file", "read_file"),
        ("calculator", "calculator"),
        ("get-weather", "get-weather"),
    ],
)
def test_ordinary_names_are_readable_and_decode(name: str, api_name: str) -> None:
    assert to_api_name(name) == api_name
    assert from_api_name(api_name) == name


@pytest.mark.spec("R7")
@pytest.mark.parametrize("name", ["mcp:s:" + "x" * 100, "a__b", "a--b", "mcp:s:a/b", "a_x" + "a" * 26])
def test_other_names_keep_a_readable_stem_and_do_not_decode(name: str) -> None:
    api_name = to_api_name(name)
    assert from_api_name(api_name) is None
    assert api_name[:1] == name[:1]
    assert API_NAME.fullmatch(api_name)


@pytest.mark.spec("R7")
@pytest.mark.parametrize("text", ["", "a" * 65, "a.b", "a b", "a\n", "é"])
def test_an_invalid_api_name_has_no_tool_name(text: str) -> None:
    assert from_api_name(text) is None


@pytest.mark.spec("R7")
@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "-a", "a-", "a:", "a b", "a\n", "é", "a" * 201, 7, None, b"a"])
def test_an_invalid_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidName):
        check_name(name)


@pytest.mark.spec("R7")
@pytest.mark.parametrize("tool", ["a-", "a.", "a/", "-", ".", "/", "..", "a--", "-a", "_", "x" * 128])
def test_any_mcp_name_is_accepted_after_a_colon(tool: str) -> None:
    name = check_name(f"mcp:server:{tool}")
    assert from_api_name(to_api_name(name)) in (name, None)


@pytest.mark.spec("R7")
@pytest.mark.parametrize("name", ["mcp:server:", "mcp:", ":a", "-a:b"])
def test_a_colon_needs_text_on_both_sides(name: str) -> None:
    with pytest.raises(InvalidName):
        check_name(name)


@pytest.mark.spec("R7")
def test_the_longest_name_is_accepted() -> None:
    assert check_name("a" * MAX_NAME)
