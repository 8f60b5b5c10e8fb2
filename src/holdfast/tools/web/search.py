"""`web.search`: search the web with the configured engine."""

from __future__ import annotations

import time
from typing import Any, Final, cast

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Reach, Tool
from holdfast.net.gateway import RefusedHost
from holdfast.text.preview import with_label
from holdfast.tools.schemas import LABEL, STRING, array, builtin_tool, needs_extra, non_blank, nullable, strict_object
from holdfast.tools.web.search_engines import SearchHit, cleaned, engine_of
from holdfast.tools.web.service import Web, WebSettings

DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 50
MAX_QUERY: Final = 1000
DEFAULT_SECONDS: Final = 15.0
_MARGIN: Final = 0.1
_NO_ADDRESS: Final = "the engine searxng needs the address of an instance. Set web.search_url in your configuration."
_needs_packages: Final = needs_extra("web", "httpx2", "lxml", "trafilatura")


async def _propose(args: Args, ctx: Context) -> Proposal | Result:
    web, query = ctx.service(Web), cast(str, args["query"])
    try:
        engine = engine_of(web.settings)
    except HoldfastError as error:
        return fail(str(error))
    if engine is None:
        return fail(f"web.search cannot be used here: {_NO_ADDRESS}")
    decision = web.network.gateway(_name(ctx)).check(engine.url.host, engine.url.port)
    if isinstance(decision, RefusedHost):
        return fail(decision.reason)
    summary = f"search {engine.url.entry} for «{query}»"
    return Proposal(tool_name="web.search", summary=summary, risk=Risk.MEDIUM, payload=args, preview=summary)


def _name(ctx: Context) -> str:
    return f"web.search {ctx.call_id}"


async def _apply(args: Args, ctx: Context) -> Result:
    web, query = ctx.service(Web), cast(str, args["query"])
    limit = cast("int | None", args.get("limit")) or DEFAULT_LIMIT
    deadline = time.monotonic() + (DEFAULT_SECONDS if ctx.timeout is None else ctx.timeout) * (1 - _MARGIN)
    try:
        engine = engine_of(web.settings)
        if engine is None:
            return fail(f"web.search cannot be used here: {_NO_ADDRESS}")
        request = engine.request(query, limit, ctx.secret(engine.scopes[0]) if engine.scopes else None)
        ctx.progress(f"waiting for {engine.url.entry}…")
        fetched = await web.fetch(request, seconds=deadline - time.monotonic(), by=_name(ctx), page=False)
        hits = await engine.read(fetched.response, web.extractor, max(0.1, deadline - time.monotonic()))
    except HoldfastError as error:
        return fail(str(error))
    output = {"query": query, "engine": engine.name, "results": [_as_json(hit) for hit in cleaned(hits, limit)]}
    return ok(_text(output), structured=cast(Args, output))


def _as_json(hit: SearchHit) -> dict[str, str]:
    return {"title": hit.title, "url": hit.url, "snippet": hit.snippet, "engine": hit.engine}


def _text(output: dict[str, Any]) -> str:
    """Render the output."""
    results = cast("list[dict[str, str]]", output["results"])
    if not results:
        return f"{output['engine']} found nothing for {output['query']!r}."
    lines: list[str] = []
    for number, hit in enumerate(results, 1):
        by = f" ({hit['engine']})" if hit["engine"] != output["engine"] else ""
        lines += [f"{number}. {hit['title']}{by}", f"   {hit['url']}"]
        if hit["snippet"]:
            lines.append(f"   {hit['snippet']}")
    return "\n".join(lines)


def _preview(args: Args, width: int) -> str:
    return with_label(f'"{args.get("query", "")}"', args)


def _default_reach(args: Args) -> Reach:
    engine = engine_of(WebSettings())
    return Reach(() if engine is None else (engine.url.entry,))


WEB_SEARCH: Final = builtin_tool(
    name="web.search",
    description="Search the web. Returns titles, addresses and short descriptions; read a page with web.fetch.",
    input_schema=strict_object(
        query={**non_blank("Search query."), "maxLength": MAX_QUERY},
        limit=nullable("integer", "Number of results to return (default 10).", minimum=1, maximum=MAX_LIMIT),
        label=LABEL,
    ),
    output_schema=strict_object(
        query=STRING,
        engine=STRING,
        results=array(strict_object(title=STRING, url=STRING, snippet=STRING, engine=STRING)),
    ),
    propose=_propose,
    apply=_apply,
    timeout=DEFAULT_SECONDS,
    risk=Risk.MEDIUM,
    effects=frozenset({"network"}),
    reaches=_default_reach,
    sources=("web",),
    sinks=("web",),
    format_preview=_preview,
    groups=("web",),
    profiles=("messaging",),
    unavailable=_needs_packages,
)


def configured_search(settings: WebSettings) -> Tool:
    """Return `web.search` for the configured engine: the host it reaches, the secret it needs, what it lacks."""
    engine = engine_of(settings)
    hosts = () if engine is None else (engine.url.entry,)

    def reaches(args: Args) -> Reach:
        return Reach(hosts)

    if engine is None:
        return WEB_SEARCH.with_(reaches=reaches, unavailable=lambda: _needs_packages() or _NO_ADDRESS)
    return WEB_SEARCH.with_(reaches=reaches, required_secret_scopes=engine.scopes)
