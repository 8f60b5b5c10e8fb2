"""No SSRF case gets through the gateway: with an HTTP client, as a proxy, and by its host alone."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from urllib.parse import urlsplit

import httpx2
import pytest

from holdfast.contract.errors import NetworkRefused
from holdfast.net.gateway import Gateway
from holdfast.net.http import GatewayTransport
from holdfast.net.proxy import ProxyServer
from tests.net.public_site import Page, PublicSite, public_site
from tests.net.ssrf_cases import SSRF_CASES, SsrfCase, cases_of
from tests.runtime.support import run

pytestmark = pytest.mark.spec("N2b", "B6")


def named(case: SsrfCase) -> str:
    return case.name


def client(gateway: Gateway) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=GatewayTransport(gateway, verify=False), trust_env=False, follow_redirects=True, max_redirects=10
    )


async def proxied(proxy: ProxyServer, request: str) -> bytes:
    token = b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.server.rpartition(":")[2]))
    writer.write(f"{request} HTTP/1.1\r\nProxy-Authorization: Basic {token}\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return answer


def test_there_are_enough_cases_and_each_has_its_own_name() -> None:
    assert len({case.name for case in SSRF_CASES}) == len(SSRF_CASES) >= 75
    assert len(cases_of("url", "scheme", "redirect")) >= 60


def test_the_public_site_is_reached_and_the_canary_counts_who_reaches_it() -> None:
    async def main() -> tuple[str, str, bytes, list[str]]:
        async with public_site() as site:
            site.pages["/"] = Page("hello")
            async with client(site.network.gateway("test")) as http:
                direct = (await http.get(site.url())).text
            async with ProxyServer(site.network.gateway("test")) as proxy:
                through = await proxied(proxy, f"GET {site.url()}")
            async with client(site.network.gateway_to_origin("test", f"http://127.0.0.1:{site.port}")) as http:
                canary = (await http.get(f"http://127.0.0.1:{site.port}/")).text
            return direct, canary, through, site.hits

    direct, canary, through, hits = run(main())
    assert direct == "hello"
    assert through.endswith(b"hello")
    assert canary == "CANARY"
    assert len(hits) == 1


@pytest.mark.parametrize("case", cases_of("url", "scheme", "redirect"), ids=named)
def test_an_http_client_is_refused(case: SsrfCase) -> None:
    async def main() -> PublicSite:
        async with public_site() as site:
            url = case.prepare(site)
            async with client(site.network.gateway("test")) as http:
                if "backslash" in case.name and "instead" not in case.name:
                    # This client reads the backslash as part of a user name or path, so it asks the site.
                    assert (await http.get(url)).status_code == 404
                else:
                    with pytest.raises((httpx2.HTTPError, httpx2.InvalidURL)):
                        await http.get(url)
            return site

    assert run(main()).hits == []


@pytest.mark.parametrize("case", cases_of("url", "scheme"), ids=named)
def test_a_client_of_the_proxy_is_refused(case: SsrfCase) -> None:
    async def main() -> PublicSite:
        async with public_site() as site, ProxyServer(site.network.gateway("test")) as proxy:
            url = case.prepare(site)
            place = url.partition("://")[2].partition("/")[0]
            for request in (f"GET {url}", f"CONNECT {place}"):
                answer = await proxied(proxy, request)
                assert answer.split(b" ")[1] in (b"400", b"403", b"502"), (request, answer)
            return site

    assert run(main()).hits == []


@pytest.mark.parametrize("case", cases_of("url"), ids=named)
def test_the_host_of_a_url_is_refused(case: SsrfCase) -> None:
    async def main() -> PublicSite:
        async with public_site() as site:
            url = case.prepare(site)
            try:
                hosts = {urlsplit(url).hostname or "", urlsplit(url).netloc, url.partition("://")[2].partition(":")[0]}
            except ValueError:
                hosts = {url}
            gateway = site.network.gateway("test")
            for host in hosts - {"site.test"}:
                with pytest.raises((NetworkRefused, OSError)):
                    await gateway.connect(host, site.port)
            return site

    assert run(main()).hits == []
