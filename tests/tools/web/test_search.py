"""`web.search`: one tool over every engine, against loopback servers that speak their formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Config, Result
from holdfast.config.config import SecretSource, ToolsConfig
from holdfast.contract.call import Proposal
from holdfast.contract.enums import State
from holdfast.net.network import Network
from holdfast.text.preview import preview
from holdfast.tools.web.search import WEB_SEARCH, configured_search
from holdfast.tools.web.service import Engine, Web, WebSettings
from tests.runtime.support import run, runtime_in, yes
from tests.tools.web.search_answers import BRAVE, DUCKDUCKGO, DUCKDUCKGO_CHALLENGE, SEARXNG
from tests.tools.web.site import FAST, Page, Reply, Seen, Site, facts, serving, shared_extractor

pytestmark = pytest.mark.spec("B6e")


def brave(seen: Seen) -> Reply:
    if seen.headers.get("x-subscription-token") != "the-key":
        return Reply(json.dumps({"type": "ErrorResponse", "error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}}), status=422)
    return Reply(json.dumps(BRAVE), "application/json")


ALLOWED = Config(tools=ToolsConfig(allow=("web.search",)))
PAGES: dict[str, Page] = {
    "/html/": Reply(DUCKDUCKGO),
    "/search": Reply(json.dumps(SEARXNG), "application/json"),
    "/res/v1/web/search": brave,
}


def searched(
    tmp_path: Path, engine: Engine, args: dict[str, Any], pages: dict[str, Page] | None = None, key: str = "the-key"
) -> tuple[Result, Site]:
    async def work() -> tuple[Result, Site]:
        async with serving(PAGES if pages is None else pages) as site:
            settings = replace(FAST, search=engine, search_url=site.url)
            tool = configured_search(settings)
            secrets = {"brave": SecretSource(command=("/bin/echo", key))}
            config = Config(tools=ToolsConfig(allow=("web.search",)), secrets=secrets)
            runtime = runtime_in(tmp_path, tool, config=config)
            runtime.attach(yes())
            web = Web(Network(private=(site.entry,)), settings, extractor=shared_extractor())
            runtime.services.offer(Web, web)
            async with runtime:
                return await runtime.call("web.search", args), site

    return run(work())


@pytest.mark.parametrize(
    ("engine", "first", "path"),
    [
        ("duckduckgo", "https://www.python.org/", "/html/"),
        ("searxng", "https://docs.searxng.org/", "/search"),
        ("brave", "https://brave.com/", "/res/v1/web/search"),
    ],
)
def test_every_engine_gives_the_same_shape(tmp_path: Path, engine: Engine, first: str, path: str) -> None:
    result, site = searched(tmp_path, engine, {"query": "python & co"})
    told = facts(result)
    assert result.success and told["results"][0]["url"] == first and told["query"] == "python & co"
    assert f"1. {told['results'][0]['title']}" in result.output and f"   {first}" in result.output
    assert "q=python+%26+co" in site.asked(path)[0].target and not site.asked("/robots.txt")
    assert result.metadata["untrusted"] == ["web"]


def test_the_limit_bounds_the_results(tmp_path: Path) -> None:
    result, _ = searched(tmp_path, "duckduckgo", {"query": "python", "limit": 1})
    assert len(facts(result)["results"]) == 1


def test_the_key_is_redacted_wherever_it_shows_up(tmp_path: Path) -> None:
    leaky = {"web": {"results": [{"title": "the-key", "url": "https://x.example/", "description": "the-key"}]}}
    pages: dict[str, Page] = {"/res/v1/web/search": Reply(json.dumps(leaky), "application/json")}
    result, _ = searched(tmp_path, "brave", {"query": "x"}, pages)
    assert result.success and "the-key" not in result.text


@pytest.mark.parametrize(
    ("engine", "pages", "key", "words"),
    [
        ("brave", None, "wrong", "refuses the key"),
        ("duckduckgo", {"/html/": Reply(DUCKDUCKGO_CHALLENGE, status=202)}, "", "asks for a human"),
        ("searxng", {"/search": Reply("no", status=403)}, "", "refuses the format json"),
        ("searxng", {"/search": Reply(status=302, headers={"Location": "https://evil.example/"})}, "", "another host"),
    ],
)
def test_a_refusal_is_one_failed_result(
    tmp_path: Path, engine: Engine, pages: dict[str, Page] | None, key: str, words: str
) -> None:
    result, _ = searched(tmp_path, engine, {"query": "x"}, pages, key or "the-key")
    assert result.state is State.FAILED and words in result.text


def test_a_query_of_ten_megabytes_is_refused_at_once(tmp_path: Path) -> None:
    result, site = searched(tmp_path, "searxng", {"query": "x" * 10_000_000})
    assert result.state is State.INVALID and not site.seen and len(result.text) < 400


def test_the_tool_names_its_host_and_what_it_needs() -> None:
    configured = configured_search(WebSettings(search="brave"))
    assert configured.reaches is not None and configured.reaches({}).hosts == ("api.search.brave.com",)
    assert configured.required_secret_scopes == ("brave",) and not configured.reaches({}).sends
    assert WEB_SEARCH.reaches is not None and WEB_SEARCH.reaches({}).hosts == ("html.duckduckgo.com",)
    missing = configured_search(WebSettings(search="searxng"))
    assert missing.unavailable is not None and "web.search_url" in (missing.unavailable() or "")


def test_an_approval_says_where_the_query_goes(tmp_path: Path) -> None:
    async def work() -> Proposal | None:
        runtime = runtime_in(tmp_path, configured_search(FAST), config=ALLOWED, nobody="pending")
        runtime.services.offer(Web, Web(Network(), FAST, extractor=shared_extractor()))
        async with runtime:
            result = await runtime.call("web.search", {"query": "sqlite"})
            assert result.state is State.PENDING
            (pending,) = runtime.pending.list()
            return pending.proposal

    proposal = run(work())
    assert proposal is not None and proposal.preview == "search html.duckduckgo.com for «sqlite»"


def test_a_private_instance_is_refused_before_anyone_is_asked(tmp_path: Path) -> None:
    async def work() -> Result:
        settings = replace(FAST, search="searxng", search_url="http://localhost:8888")
        runtime = runtime_in(tmp_path, configured_search(settings), config=ALLOWED, nobody="pending")
        runtime.services.offer(Web, Web(Network(), settings, extractor=shared_extractor()))
        async with runtime:
            return await runtime.call("web.search", {"query": "sqlite"})

    result = run(work())
    assert result.state is State.FAILED and '"localhost:8888" to network.private' in result.text


def test_the_preview_shows_the_query() -> None:
    assert preview("web.search", {"query": "a b", "limit": 3}, 80, WEB_SEARCH.format_preview) == 'web.search: "a b"'
