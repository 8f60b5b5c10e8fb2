"""No SSRF case gets through the browser: addresses, redirects, rebinding, refreshes, and whatever pages load."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import pytest

from holdfast import Result, Runtime
from holdfast.tools.browser.browsers import ChromiumBrowsers
from holdfast.tools.browser.chromium import find_chromium
from holdfast.tools.browser.service import BrowserSettings
from tests.net.public_site import PublicSite, public_site
from tests.net.ssrf_cases import Kind, SsrfCase, cases_of
from tests.runtime.support import run
from tests.soak import rounds, some
from tests.tools.browser.browsing import Browsing, Site, needs_chromium

pytestmark = [needs_chromium, pytest.mark.spec("B7d", "N2")]


async def try_case(case: SsrfCase, site: PublicSite, runtime: Runtime) -> tuple[Result, str]:
    """Open the URL of a case, do what a person would, and return the result and what the page shows afterwards."""
    url = case.prepare(site)
    opened = await runtime.call("browser.navigate", {"url": url})
    if not opened.success and case.kind in ("url", "scheme"):
        return opened, opened.text  # the page is still the one before
    if opened.success and case.action == "click":
        await runtime.call("browser.click", {"name": "go"})
    if opened.success and case.kind in ("page", "refresh"):
        await runtime.call("browser.wait", {"seconds": 0.3})
    return opened, (await runtime.call("browser.text", {"mode": "text"})).text


def test_every_case_is_refused_and_nothing_reaches_the_canaries(tmp_path: Path) -> None:
    # A page takes a second or two, so `make test` tries only some of each kind: all of them go through `web.fetch`
    # there, and both ask the same gateway.
    kinds: tuple[Kind, ...] = get_args(Kind)
    chosen = [case for kind in kinds for case in some(cases_of(kind), 6)]
    assert len(chosen) >= rounds(20, 60)

    async def main() -> tuple[list[str], list[str]]:
        wrong: list[str] = []
        async with public_site() as site:
            settings = BrowserSettings(executable=find_chromium(), action_timeout=30.0, navigation_timeout=60.0)
            browsers = ChromiumBrowsers(site.network, settings, tmp_path / "quarantine")
            try:
                async with Browsing(Site(site.port), browsers, tmp_path).runtime() as runtime:
                    for case in chosen:
                        opened, text = await try_case(case, site, runtime)
                        refused = case.kind in ("url", "scheme", "redirect")
                        if opened.success == refused or "CANARY" in text or site.hits:
                            wrong.append(f"{case.name}: {opened.text[:200]!r} {site.hits}")
                            site.hits.clear()
            finally:
                await asyncio.to_thread(browsers.close)
            return wrong, site.hits

    wrong, hits = run(main(), 500)
    assert wrong == []
    assert hits == []
