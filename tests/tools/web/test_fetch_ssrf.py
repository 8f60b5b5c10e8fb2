"""No SSRF case gets through `web.fetch`: every one is one refusal, and no canary is reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Result
from holdfast.contract.enums import State
from holdfast.tools.web.service import Web
from tests.net.public_site import Page, public_site
from tests.net.ssrf_cases import SsrfCase, cases_of
from tests.runtime.support import run
from tests.tools.web.site import FAST, fetch, shared_extractor, web_runtime

pytestmark = pytest.mark.spec("B6", "N2b")


def opened(cases: list[SsrfCase], folder: Path) -> tuple[dict[str, Result], list[str]]:
    """Fetch every case with one runtime; return the results by name, and the canaries that were reached."""

    async def work() -> tuple[dict[str, Result], list[str]]:
        async with public_site() as site, web_runtime(folder) as runtime:
            web = Web(site.network, FAST, extractor=shared_extractor())
            runtime.services.offer(Web, web)
            results: dict[str, Result] = {}
            for case in cases:
                url = case.prepare(site)
                results[case.name] = await fetch(runtime, url)
            return results, site.hits

    return run(work(), 300)


def test_every_case_is_refused_and_no_canary_is_reached(tmp_path: Path) -> None:
    cases = list(cases_of("url", "scheme", "redirect"))
    results, hits = opened(cases, tmp_path)
    assert len(results) == len(cases) >= 60
    assert hits == []
    assert {name: result.text for name, result in results.items() if result.success} == {}
    assert {result.state for result in results.values()} <= {State.FAILED, State.INVALID}
    assert all("\n" not in result.text and result.text.endswith(".") for result in results.values())


def test_a_refresh_is_reported_and_not_followed(tmp_path: Path) -> None:
    results, hits = opened(list(cases_of("refresh")), tmp_path)
    assert results and hits == [] and all(result.success for result in results.values())


def test_the_public_site_itself_is_fetched(tmp_path: Path) -> None:
    async def work() -> Result:
        async with public_site() as site, web_runtime(tmp_path) as runtime:
            runtime.services.offer(Web, Web(site.network, FAST, extractor=shared_extractor()))
            site.pages["/"] = Page("<p>hello from the site")
            return await fetch(runtime, site.url())

    assert "hello from the site" in run(work()).output
