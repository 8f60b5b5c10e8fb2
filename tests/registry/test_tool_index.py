"""Tool search: matches and their ranking."""

from __future__ import annotations

from collections import Counter
from math import log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Tool
from holdfast.registry.tool_index import K1, MAX_PARAMETER, MAX_PARAMETERS, MAX_TEXT, NAME_WEIGHT, B, ToolIndex
from tests.registry.many_tools import many_tools, schema

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
def test_a_name_is_found_by_its_words_in_any_notation(name: str, query: str) -> None:
    assert found([*named("other.thing", "mcp:second:other"), Tool(name=name)], query) == [name]


def test_stop_words_find_nothing() -> None:
    tools = [Tool(name="a.b", description="What is done with the things that are in it.")]
    assert found(tools, "the with that is in") == []
    assert found(tools, "things") == ["a.b"]
    assert found(tools, " \n ") == []


def test_words_of_other_alphabets_are_found_whole_and_regardless_of_case() -> None:
    tools = [Tool(name="one", description="Größe einer Datei"), Tool(name="two", description="Удалить файл")]
    assert found(tools, "GRÖSSE") == ["one"]
    assert found(tools, "файл") == ["two"]


def test_the_exact_spelling_comes_before_another_case_and_masked_tools_are_skipped() -> None:
    tools = [*named("mcp:hub:GO", "mcp:hub:go", "mcp:hub:Go"), Tool(name="z", aliases=("mcp:hub:gO",))]
    index = ToolIndex(tools)
    assert index.search("mcp:hub:go", 4)[0].name == "mcp:hub:go"
    assert index.search("mcp:hub:gO", 4)[0].name == "z"
    for hidden in range(4):
        left = [tool for place, tool in enumerate(tools) if place != hidden]
        mask = index.mask(left)
        assert [index.search(spelling, 1, mask) for tool in left for spelling in tool.names[-1:]] == [
            [tool] for tool in left
        ]
        got = index.search(tools[hidden].names[-1], 3, mask)
        assert len(got) == 3 and set(got) == set(left)


@pytest.mark.parametrize("query", ["mcp:hub:go", "MCP:Hub:Go", " mcp__hub__go ", "away"])
def test_an_exact_name_comes_first(query: str) -> None:
    wordy = [Tool(name=f"mcp:hub:go_{n}", description="mcp hub go away " * 9) for n in range(5)]
    meant = Tool(name="mcp:hub:go", aliases=("away",), description="x " * 200)
    assert found([*wordy, meant], query, 3)[0] == "mcp:hub:go"
    assert len(found([*wordy, meant], query, 3)) == 3


def test_a_name_weighs_more_than_a_description_or_a_parameter() -> None:
    tools = [
        Tool(name="by.invoice", description="one two"),
        Tool(name="by.text", description="one invoice two"),
        Tool(name="by.parameter", description="one", input_schema=schema(invoice="two")),
        Tool(name="by.explained", description="one", input_schema=schema(two="invoice")),
        Tool(name="by.nothing", description="one two three"),
    ]
    assert found(tools, "invoice") == ["by.invoice", "by.explained", "by.parameter", "by.text"]


def test_rare_words_weigh_more_than_common_ones() -> None:
    common = [Tool(name=f"get.n{number}", description="get a thing") for number in range(20)]
    assert found([*common, Tool(name="sell.stock", description="sell a thing")], "get stock", 1) == ["sell.stock"]


def test_equal_scores_are_sorted_by_name() -> None:
    tools = [Tool(name=f"mcp:s{number}:go", description="Go.") for number in (3, 1, 2)]
    assert found(tools, "go") == found(tools[::-1], "go") == ["mcp:s1:go", "mcp:s2:go", "mcp:s3:go"]
    assert found(tools, "go", 2) == ["mcp:s1:go", "mcp:s2:go"]


def test_masked_tools_are_not_found() -> None:
    tools = named("mcp:a:go", "mcp:b:go", "mcp:c:go")
    index = ToolIndex(tools)
    mask = index.mask([tools[0], tools[2], Tool(name="never.seen")])
    assert [tool.name for tool in index.search("go", 8, mask)] == ["mcp:a:go", "mcp:c:go"]
    assert [tool.name for tool in index.search("mcp:b:go", 8, mask)] == ["mcp:a:go", "mcp:c:go"]
    assert index.search("go", 8, index.mask([])) == []
    assert ToolIndex([]).search("go", 8) == []


def test_only_the_start_of_a_long_text_is_indexed() -> None:
    parameters = {f"p{number}": "x" * MAX_PARAMETER + " deep" for number in range(MAX_PARAMETERS)}
    tools = [Tool(name="flood", description="a " * MAX_TEXT + "late", input_schema=schema(**parameters, last="beyond"))]
    assert found(tools, "flood") == ["flood"]
    assert [word for word in ("late", "deep", "last", "beyond") if found(tools, word)] == []
    assert found(tools, "x " * MAX_TEXT + "flood") == []


def test_unusual_schemas_are_indexed_as_far_as_possible() -> None:
    odd = {"type": "object", "properties": {"yes": True, "told": {"description": "kept"}, "numb": {"type": "integer"}}}
    tools = [Tool(name="odd.one", input_schema=odd), Tool(name="bare", input_schema={})]
    assert [found(tools, word) for word in ("yes", "kept", "numb", "bare")] == [["odd.one"]] * 3 + [["bare"]]


WORDS = st.sampled_from(["red", "green", "blue", "round", "square", "small"])
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)


def plain_bm25(texts: list[Counter[str]], lengths: list[int], query: list[str]) -> dict[int, float]:
    """A textbook implementation of BM25."""
    average = sum(lengths) / len(lengths)
    scores = dict.fromkeys(range(len(texts)), 0.0)
    for word in dict.fromkeys(query):
        having = sum(word in text for text in texts)
        rarity = log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for place, text in enumerate(texts):
            norm = K1 * (1 - B + B * lengths[place] / average)
            scores[place] += rarity * text[word] * (K1 + 1) / (text[word] + norm)
    return scores


def assert_ranked(tools: list[Tool], texts: list[Counter[str]], lengths: list[int], query: list[str]) -> None:
    scores = plain_bm25(texts, lengths, query)
    places = [tools.index(tool) for tool in ToolIndex(tools).search(" ".join(query), len(tools))]
    assert set(places) == {place for place, score in scores.items() if score > 0}
    # Equal scores may differ in the last digit, because they are summed in another order.
    assert [round(scores[place], 9) for place in places] == sorted((round(scores[p], 9) for p in places), reverse=True)


@given(st.lists(st.tuples(WORDS, TEXTS, TEXTS), min_size=1, max_size=12), st.lists(WORDS, min_size=1, max_size=4))
def test_the_order_matches_bm25_calculated_by_hand(given: list[tuple[str, str, str]], query: list[str]) -> None:
    tools = [
        Tool(name=f"n{number:02}.{name}", description=said, input_schema=schema(p=explained) if explained else {})
        for number, (name, said, explained) in enumerate(given)
    ]
    texts = [Counter([*[name] * NAME_WEIGHT, *said.split(), *explained.split()]) for name, said, explained in given]
    # Besides its words, a name contains a number, and a parameter its own name.
    lengths = [text.total() + NAME_WEIGHT + bool(given[place][2]) for place, text in enumerate(texts)]
    assert_ranked(tools, texts, lengths, query)


def test_hundreds_of_tools_are_ranked_like_a_reference_bm25() -> None:
    chance = Random(5)
    vocabulary = [f"{a}{b}" for a in ("bo", "ca", "du", "fe", "gi") for b in ("lan", "mer", "nok", "pit", "rud", "tav")]
    weights = [1 / (rank + 1) for rank in range(len(vocabulary))]
    tools: list[Tool] = []
    texts: list[Counter[str]] = []
    for number in range(600):
        name, *said = chance.choices(vocabulary, weights, k=chance.randint(5, 40))
        tools.append(Tool(name=f"{name}.x{number}", description=" ".join(said)))
        texts.append(Counter([*[name] * NAME_WEIGHT, *said]))
    lengths = [text.total() + NAME_WEIGHT for text in texts]
    for count in (1, 2, 3, 6):
        assert_ranked(tools, texts, lengths, chance.sample(vocabulary, count))
    assert_ranked(tools, texts, lengths, vocabulary[:8])


def crowd(servers: int) -> list[Tool]:
    """The same twenty tools from every server, each with a long description that uses the same few words."""
    return [
        Tool(
            name=f"mcp:srv{server}:{verb}_{noun}",
            description=f"{verb} one {noun} by its name; get a name, get a page, get what was set. " * 3,
            input_schema=schema(user="The user who asks: user or user name.", page="The page to get."),
        )
        for server in range(servers)
        for verb in ("get", "list", "create", "update", "delete")
        for noun in ("user", "file", "page", "task")
    ]


@pytest.fixture(scope="module")
def crowded() -> ToolIndex:
    return ToolIndex(crowd(500))


@pytest.mark.parametrize("query", ["get user", "user get", "get the name of a user of the page", "create task"])
def test_words_that_all_tools_share_still_rank_the_right_tool_first(crowded: ToolIndex, query: str) -> None:
    verb, noun = ("create", "task") if "task" in query else ("get", "user")
    got = crowded.search(query, 8)
    assert [tool.name.split(":")[2] for tool in got] == [f"{verb}_{noun}"] * 8


def test_a_query_over_the_word_limit_still_ranks_the_right_tool_first() -> None:
    words = [f"common{letter}" for letter in "abcdefgh"]
    tools = [Tool(name=f"t{n}.x", description=" ".join(words[: 7 if n % 50 else 8])) for n in range(8_000)]
    tools += [Tool(name="t0.wanted", description=" ".join([*words, *words]))]
    assert found(tools, " ".join(words), 1) == ["t0.wanted"]


@given(st.text(max_size=80), st.integers(1, 5), st.lists(st.text(max_size=40), max_size=5), st.integers(0, 31))
def test_any_text_can_be_indexed_and_searched(query: str, limit: int, texts: list[str], left: int) -> None:
    tools = [Tool(name=f"t{place}", description=text) for place, text in enumerate(texts)]
    index = ToolIndex(tools)
    allowed = [tool for place, tool in enumerate(tools) if left >> place & 1]
    got = index.search(query, limit, index.mask(allowed))
    assert len(got) <= limit and len(got) == len(set(got)) and set(got) <= set(allowed)
    assert got == index.search(query, limit, index.mask(allowed))


def test_the_right_tools_come_first_among_ten_thousand() -> None:
    tools = many_tools(10_000)
    index = ToolIndex(tools)
    mask = index.mask(tools)
    for query in ("archive the channel", "limit of results a page has", "id"):
        assert len(index.search(query, 8, mask)) == 8
    assert index.search("mcp:jira:get_issue", 8, mask)[0].name == "mcp:jira:get_issue"
    assert index.search("create issue github", 8, mask)[0].name == "mcp:github:create_issue"
