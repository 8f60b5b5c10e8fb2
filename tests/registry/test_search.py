"""Searching many tools: what is found, in which order, and how long it takes."""

from __future__ import annotations

import re
from collections import Counter
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Tool
from holdfast.registry.search import K1, MAX_PARAMETER, MAX_PARAMETERS, MAX_TEXT, NAME_WEIGHT, B, ToolIndex
from tests.registry.many import many_tools, schema

pytestmark = pytest.mark.spec("R9")


def named(*names: str) -> list[Tool]:
    return [Tool(name=name) for name in names]


def found(tools: list[Tool], query: str, limit: int = 8) -> list[str]:
    return [tool.name for tool in ToolIndex(tools).search(query, limit)]


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("mcp:hub:createIssue", "create an issue"),
        ("mcp:hub:create_issue", "createIssue"),
        ("mcp:hub:createissue", "createIssue"),
        ("mcp:hub:list-issues", "issue"),
        ("mcp:hub:get_entry", "entries"),
        ("mcp:hub:find_address", "addresses"),
        ("mcp:hub:run_search", "searches"),
        ("mcp:hub:HTTPServer", "http server"),
        ("mcp:hub:OpenAIChat", "open ai"),
        ("mcp:GitHub:star", "github"),
        ("mcp:hub:s3_copy", "S3"),
        ("mcp:hub:oauth2", "oauth"),
        ("mcp:hub:page.of.tree", "tree"),
        ("mcp:hub:v2/move", "MOVE"),
    ],
)
def test_a_name_is_found_by_its_words_however_they_are_written(name: str, query: str) -> None:
    assert found([*named("other.thing", "mcp:second:other"), Tool(name=name)], query) == [name]


def test_words_that_say_nothing_find_nothing() -> None:
    tools = [Tool(name="a.b", description="What is done with the things that are in it.")]
    assert found(tools, "the with that is in") == []
    assert found(tools, "things") == ["a.b"]
    assert found(tools, " \n ") == []


def test_words_of_other_alphabets_are_found_whole_and_in_either_case() -> None:
    tools = [Tool(name="one", description="Größe einer Datei"), Tool(name="two", description="Удалить файл")]
    assert found(tools, "GRÖSSE") == ["one"]
    assert found(tools, "файл") == ["two"]


@pytest.mark.parametrize("query", ["mcp:hub:go", "MCP:Hub:Go", " mcp__hub__go ", "away"])
def test_a_tool_of_exactly_that_name_comes_first(query: str) -> None:
    wordy = [Tool(name=f"mcp:hub:go_{n}", description="mcp hub go away " * 9) for n in range(5)]
    meant = Tool(name="mcp:hub:go", aliases=("away",), description="x " * 200)
    assert found([*wordy, meant], query, 3)[0] == "mcp:hub:go"
    assert len(found([*wordy, meant], query, 3)) == 3


def test_a_name_counts_more_than_a_description_and_a_description_as_much_as_a_parameter() -> None:
    tools = [
        Tool(name="by.invoice", description="one two"),
        Tool(name="by.text", description="one invoice two"),
        Tool(name="by.parameter", description="one", input_schema=schema(invoice="two")),
        Tool(name="by.explained", description="one", input_schema=schema(two="invoice")),
        Tool(name="by.nothing", description="one two three"),
    ]
    assert found(tools, "invoice") == ["by.invoice", "by.explained", "by.parameter", "by.text"]


def test_rare_words_count_more_than_common_ones() -> None:
    common = [Tool(name=f"get.n{number}", description="get a thing") for number in range(20)]
    assert found([*common, Tool(name="sell.stock", description="sell a thing")], "get stock", 1) == ["sell.stock"]


def test_equals_come_by_name_whatever_order_they_were_given_in() -> None:
    tools = [Tool(name=f"mcp:s{number}:go", description="Go.") for number in (3, 1, 2)]
    assert found(tools, "go") == found(tools[::-1], "go") == ["mcp:s1:go", "mcp:s2:go", "mcp:s3:go"]
    assert found(tools, "go", 2) == ["mcp:s1:go", "mcp:s2:go"]


def test_only_what_is_left_by_the_mask_is_found_by_words_or_by_name() -> None:
    tools = named("mcp:a:go", "mcp:b:go", "mcp:c:go")
    index = ToolIndex(tools)
    mask = index.mask([tools[0], tools[2], Tool(name="never.seen")])
    assert [tool.name for tool in index.search("go", 8, mask)] == ["mcp:a:go", "mcp:c:go"]
    assert [tool.name for tool in index.search("mcp:b:go", 8, mask)] == ["mcp:a:go", "mcp:c:go"]
    assert index.search("go", 8, index.mask([])) == []
    assert ToolIndex([]).search("go", 8) == []


def test_what_somebody_writes_without_end_is_not_read_to_its_end() -> None:
    parameters = {f"p{number}": "x" * MAX_PARAMETER + " deep" for number in range(MAX_PARAMETERS)}
    tools = [Tool(name="flood", description="a " * MAX_TEXT + "late", input_schema=schema(**parameters, last="beyond"))]
    assert found(tools, "flood") == ["flood"]
    assert [word for word in ("late", "deep", "last", "beyond") if found(tools, word)] == []
    assert found(tools, "x " * MAX_TEXT + "flood") == []


def test_odd_schemas_are_indexed_as_far_as_they_say_something() -> None:
    odd = {"type": "object", "properties": {"yes": True, "told": {"description": "kept"}, "numb": {"type": "integer"}}}
    tools = [Tool(name="odd.one", input_schema=odd), Tool(name="bare", input_schema={})]
    assert [found(tools, word) for word in ("yes", "kept", "numb", "bare")] == [["odd.one"]] * 3 + [["bare"]]


WORDS = st.sampled_from(["red", "green", "blue", "round", "square", "small"])
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)


@given(st.lists(st.tuples(WORDS, TEXTS, TEXTS), min_size=1, max_size=12), st.lists(WORDS, min_size=1, max_size=4))
def test_the_order_is_that_of_bm25_worked_out_by_hand(given: list[tuple[str, str, str]], query: list[str]) -> None:
    tools = [
        Tool(name=f"n{number:02}.{name}", description=said, input_schema=schema(p=explained) if explained else {})
        for number, (name, said, explained) in enumerate(given)
    ]
    texts = [
        Counter([*[name] * NAME_WEIGHT, *said.split(), *explained.split()]) for name, said, explained in given
    ]
    # Beside its words a name has `n` and a number, and a parameter its own name.
    lengths = [text.total() + 3 * NAME_WEIGHT + bool(given[place][2]) for place, text in enumerate(texts)]
    average = sum(lengths) / len(lengths)
    scores = dict.fromkeys(range(len(tools)), 0.0)
    for word in set(query):
        having = sum(word in text for text in texts)
        for place, text in enumerate(texts):
            norm = K1 * (1 - B + B * lengths[place] / average)
            rarity = log(1 + (len(tools) - having + 0.5) / (having + 0.5))
            scores[place] += rarity * text[word] * (K1 + 1) / (text[word] + norm)
    places = [int(re.findall(r"\d\d", tool.name)[0]) for tool in ToolIndex(tools).search(" ".join(query), 12)]
    assert set(places) == {place for place, score in scores.items() if score > 0}
    # Equal scores may differ in their last digit by the order they were added up in.
    assert [round(scores[place], 9) for place in places] == sorted((round(scores[p], 9) for p in places), reverse=True)


@given(st.text(max_size=80), st.integers(1, 5), st.lists(st.text(max_size=40), max_size=5), st.integers(0, 31))
def test_any_text_can_be_indexed_and_asked_for(query: str, limit: int, texts: list[str], left: int) -> None:
    tools = [Tool(name=f"t{place}", description=text) for place, text in enumerate(texts)]
    index = ToolIndex(tools)
    allowed = [tool for place, tool in enumerate(tools) if left >> place & 1]
    got = index.search(query, limit, index.mask(allowed))
    assert len(got) <= limit and len(got) == len(set(got)) and set(got) <= set(allowed)
    assert got == index.search(query, limit, index.mask(allowed))


def test_among_ten_thousand_tools_the_wanted_ones_come_first() -> None:
    tools = many_tools(10_000)
    index = ToolIndex(tools)
    mask = index.mask(tools)
    for query in ("archive the channel", "limit of results a page has", "id"):
        assert len(index.search(query, 8, mask)) == 8
    assert index.search("mcp:jira:get_issue", 8, mask)[0].name == "mcp:jira:get_issue"
    assert index.search("create issue github", 8, mask)[0].name == "mcp:github:create_issue"
