"""Measure finding a tool among 10 000: `python finding.py [--quick]` prints one JSON object."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from documents import again
from environments import HERE, Contender, clean_environ, prepare
from measure import Effort, race

from holdfast import Caller, Config, Runtime, Tool
from holdfast.config.config import ToolsConfig
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.registry.tool_index import ToolIndex
from holdfast.tools.tool_search import TOOL_SEARCH_TOOL

COUNT = 10_000
PEERS = Contender(name="bm25", install=["rank_bm25==0.2.2", "bm25s==0.3.16"])
SERVERS = (
    *("github", "gitlab", "slack", "jira", "notion", "linear", "stripe", "postgres", "s3", "datadog"),
    *(f"srv{number}" for number in range(12)),
)
VERBS = tuple(
    "get list create update delete search read write send move copy rename archive restore merge close open "  # noqa: SIM905
    "assign comment label".split()
)
NOUNS = tuple(
    "issue pull_request repository branch commit file folder document page event calendar message channel user team "  # noqa: SIM905
    "project task board card comment label invoice customer order product payment refund table row query".split()
)
WORDS = tuple(
    "the a of to in for and with by id name value optional returns given existing new matching user workspace must be "  # noqa: SIM905
    "when set filter results page limit number string format date time owner state type field list content body".split()
)
PARAMETERS = ("id", "name", "limit", "page", "query", "owner", "repo", "path", "title", "body", "state", "labels")
QUERIES = {
    "words": "create issue github",
    "sentence": "refund a payment of a customer in stripe",
    "common": "id",
    "worst": "id name value user workspace filter results page limit",
    "name": "mcp:github:get_issue_0",
}


def tool(chance: random.Random, number: int) -> Tool:
    """About as long as the tools of public servers: a sentence or two, and four parameters that are explained."""
    rest, server = divmod(number, len(SERVERS))
    rest, verb = divmod(rest, len(VERBS))
    noun = NOUNS[rest % len(NOUNS)]
    said = f"{VERBS[verb].capitalize()} {noun.replace('_', ' ')} in {SERVERS[server]}. {_prose(chance, 12)}"
    properties = {name: {"type": "string", "description": _prose(chance, 6)} for name in chance.sample(PARAMETERS, 4)}
    return Tool(
        name=f"mcp:{SERVERS[server]}:{VERBS[verb]}_{noun}_{number}",
        description=said,
        input_schema={"type": "object", "properties": properties},
        source="mcp:bench",
    )


def _prose(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(WORDS, k=count)) + "."


def ours(tools: list[Tool], *, quick: bool) -> dict[str, float]:
    index = ToolIndex(tools)
    mask = index.mask(tools)
    assert index.search(QUERIES["name"], 8, mask)[0].name == QUERIES["name"]
    subjects = {name: again(lambda query=query: index.search(query, 8, mask)) for name, query in QUERIES.items()}
    best = asyncio.run(race(subjects, Effort(5 if quick else 40, 0.05)))
    best |= asyncio.run(race({"build": again(lambda: ToolIndex(tools))}, Effort(3 if quick else 10, 0.1)))
    return best | asyncio.run(_called(tools, quick=quick))


async def _called(tools: list[Tool], *, quick: bool) -> dict[str, float]:
    config = Config(tools=ToolsConfig(profile="full"))
    async with Runtime([TOOL_SEARCH_TOOL, tools], config=config, caller=Caller(interface="bench")) as runtime:

        async def run(count: int) -> None:
            for _ in range(count):
                result = await runtime.call(TOOL_SEARCH, {"query": QUERIES["words"], "limit": None, "label": None})
                assert result.success, result.error

        return await race({"call": run}, Effort(5 if quick else 40, 0.05))


def peers(tools: list[Tool], *, quick: bool) -> dict[str, float]:
    """The same texts and the same queries, in an environment of their own."""
    prepare(PEERS)
    given: dict[str, Any] = {"texts": [_text(tool) for tool in tools], "queries": QUERIES, "quick": quick}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.json"
        path.write_text(json.dumps(given))
        command = [str(PEERS.python), str(HERE / "finding_peers.py"), str(path)]
        done = subprocess.run(command, env=clean_environ(), stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _text(tool: Tool) -> str:
    properties: dict[str, Any] = tool.input_schema["properties"]
    parameters = (f"{name} {schema['description']}" for name, schema in properties.items())
    return " ".join((tool.name.replace(":", " ").replace("_", " "), tool.description, *parameters))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    quick: bool = parser.parse_args().quick
    chance = random.Random(7)
    tools = [tool(chance, number) for number in range(COUNT)]
    taken = {f"ours.{name}": seconds for name, seconds in ours(tools, quick=quick).items()}
    print(json.dumps({"times": taken | peers(tools, quick=quick)}))


if __name__ == "__main__":
    main()
