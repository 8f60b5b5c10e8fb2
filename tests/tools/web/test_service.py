"""What the web tools share: robots.txt, the rate per host, redirects between hosts, the user agent."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Result
from holdfast.tools.web.service import RateLimit, WebSettings
from tests.runtime.support import run
from tests.tools.web.site import FAST, Page, Reply, Site, facts, fetch, serving, web_runtime

pytestmark = pytest.mark.spec("B6c")


def fetched(
    pages: dict[str, Page], tmp_path: Path, *paths: str, settings: WebSettings = FAST, **args: Any
) -> tuple[list[Result], Site]:
    async def work() -> tuple[list[Result], Site]:
        async with serving(pages) as site, web_runtime(tmp_path, site, settings=settings) as runtime:
            return [await fetch(runtime, site.url + path, **args) for path in paths], site

    return run(work())


ROBOTS: dict[str, Page] = {
    "/robots.txt": Reply("User-agent: *\nDisallow: /\n\nUser-agent: holdfast\nDisallow: /private\n", "text/plain"),
    "/private/a": Reply("secret", "text/plain"),
    "/open": Reply("welcome", "text/plain"),
}


def test_a_page_that_robots_txt_excludes_is_not_requested(tmp_path: Path) -> None:
    [refused, allowed], site = fetched(ROBOTS, tmp_path, "/private/a", "/open")
    assert not refused.success and "robots.txt excludes this page" in refused.text and "web.robots" in refused.text
    assert allowed.success and not site.asked("/private/a") and len(site.asked("/robots.txt")) == 1


@pytest.mark.parametrize("path", ["/x/../private/a", "/x/%2e%2E/private/a", "/%2e/private/a"])
def test_dot_segments_do_not_lead_around_robots_txt(tmp_path: Path, path: str) -> None:
    [refused], site = fetched(ROBOTS, tmp_path, path)
    assert "/private/a was not fetched" in refused.text and "excludes this page" in refused.text
    assert [seen.path for seen in site.seen] == ["/robots.txt"]


def test_robots_txt_applies_to_page_reads_only_and_can_be_ignored(tmp_path: Path) -> None:
    [sent], _ = fetched(ROBOTS, tmp_path, "/private/a", method="POST")
    [ignored], site = fetched(ROBOTS, tmp_path / "b", "/private/a", settings=replace(FAST, robots=False))
    assert sent.success and ignored.success and not site.asked("/robots.txt")


@pytest.mark.parametrize(("status", "allowed"), [(404, True), (403, True), (500, False), (503, False)])
def test_a_missing_robots_txt_allows_and_a_failing_server_does_not(tmp_path: Path, status: int, allowed: bool) -> None:
    pages: dict[str, Page] = {"/robots.txt": Reply("x", status=status), "/a": Reply("text", "text/plain")}
    [result], _ = fetched(pages, tmp_path, "/a")
    assert result.success is allowed


def test_a_robots_txt_that_redirects_to_another_host_counts_as_missing(tmp_path: Path) -> None:
    pages: dict[str, Page] = {
        "/robots.txt": Reply(status=301, headers={"Location": "https://elsewhere.example/robots.txt"}),
        "/a": Reply("text", "text/plain"),
    }
    [result], _ = fetched(pages, tmp_path, "/a")
    assert result.success and facts(result)["content"] == "text"


def test_a_hostile_robots_txt_costs_one_result(tmp_path: Path) -> None:
    rules = "User-agent: *\nDisallow: /" + "*a" * 30 + "$\n" + "Disallow: /x\n" * 1000
    pages: dict[str, Page] = {"/robots.txt": Reply(rules, "text/plain"), "/" + "a" * 60 + "b": Reply("x", "text/plain")}
    [result], _ = fetched(pages, tmp_path, "/" + "a" * 60 + "b")
    assert result.success or "robots.txt" in result.text


def test_a_redirect_is_checked_against_robots_txt_too(tmp_path: Path) -> None:
    pages = {**ROBOTS, "/open": Reply(status=302, headers={"Location": "/private/a"})}
    [refused], site = fetched(pages, tmp_path, "/open")
    assert "excludes this page" in refused.text and not site.asked("/private/a")


def test_a_redirect_to_another_host_needs_its_own_call_unless_the_host_is_listed(tmp_path: Path) -> None:
    async def work(listed: bool) -> tuple[Result, Site]:
        async with serving({"/": Reply("there", "text/plain")}) as there, serving() as here:
            here.pages["/"] = Reply(status=301, headers={"Location": f"{there.url}/"})
            hosts = (there.entry,) if listed else ()
            async with web_runtime(tmp_path / str(listed), here, there, hosts=hosts) as runtime:
                return await fetch(runtime, here.url), there

    refused, there = run(work(listed=False))
    assert not refused.success and "redirects to another host" in refused.text and not there.seen
    assert facts(refused)["location"] == f"{there.url}/"
    followed, there = run(work(listed=True))
    assert facts(followed)["final_url"] == f"{there.url}/" and facts(followed)["content"] == "there"
    assert [hop["status"] for hop in facts(followed)["redirects"]] == [301]


def test_a_change_that_was_answered_with_a_redirect_elsewhere_says_that_it_was_sent(tmp_path: Path) -> None:
    pages: dict[str, Page] = {"/": Reply(status=303, headers={"Location": "https://elsewhere.example/"})}
    [result], _ = fetched(pages, tmp_path, "/", method="POST")
    assert "redirects to another host" in result.text
    assert result.text.endswith("The POST request itself was sent and answered with status 303.")


@pytest.mark.parametrize(
    ("status", "method", "target", "arrives"),
    [
        (307, "POST", "http://listed.test", None),
        (308, "DELETE", "http://listed.test", None),
        (302, "PUT", "http://listed.test", None),
        (307, "POST", "http://www.site.test", None),
        (307, "POST", "http://site.test", "POST"),
        (303, "POST", "http://listed.test", "GET"),
        (302, "POST", "http://www.site.test", "GET"),
    ],
)
def test_a_redirect_repeats_a_change_only_at_the_origin_that_was_approved(
    tmp_path: Path, status: int, method: str, target: str, arrives: str | None
) -> None:
    async def loopback(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async def work() -> tuple[Result, Site]:
        async with serving({"/there": Reply("done", "text/plain")}) as site:
            site.pages["/"] = Reply(status=status, headers={"Location": f"{target}:{site.port}/there"})
            hosts = (f"listed.test:{site.port}",)
            async with web_runtime(tmp_path, site, hosts=hosts, resolver=loopback) as runtime:
                return await fetch(runtime, f"http://site.test:{site.port}/", method=method), site

    result, site = run(work())
    assert [seen.method for seen in site.asked("/there")] == ([] if arrives is None else [arrives])
    assert result.success is (arrives is not None)
    if arrives is None:
        assert f"asks to repeat the {method} request at another origin: {target}:{site.port}/there." in result.text
        assert result.text.endswith(f"The {method} request itself was sent and answered with status {status}.")


def test_the_rate_limit_delays_after_a_burst_and_refuses_what_would_wait_too_long() -> None:
    now = [100.0]
    limit = RateLimit(2.0, 3, clock=lambda: now[0])
    assert [limit.reserve("a", 10) for _ in range(5)] == [0, 0, 0, 0.5, 1.0]
    assert limit.reserve("b", 10) == 0
    assert limit.reserve("a", 1.2) is None
    assert limit.reserve("a", 1.5) == 1.5, "a refusal takes no turn"
    now[0] += 60
    assert limit.reserve("a", 0) == 0


def test_a_host_that_is_asked_too_often_answers_later_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def at_once(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("holdfast.tools.web.service.asyncio", SimpleNamespace(sleep=at_once))
    settings = WebSettings(rate=0.01, burst=1, robots=False)
    pages: dict[str, Page] = {"/": Reply("x", "text/plain")}
    [first, second], _ = fetched(pages, tmp_path, "/", "/", settings=settings, timeout=600_000)
    assert first.success and second.success and "because of web.rate" in second.output
    assert len(waits) == 1 and 0 < waits[0] <= 100
    [first, second], site = fetched(pages, tmp_path / "b", "/", "/", settings=replace(settings, rate=0.001))
    assert not second.success and "(web.rate)" in second.text and len(site.asked("/")) == 1


def test_the_user_agent_is_the_configured_one(tmp_path: Path) -> None:
    _, site = fetched({}, tmp_path, "/", settings=replace(FAST, user_agent="me/1 (mail@example.org)"))
    assert {seen.headers["user-agent"] for seen in site.seen} == {"me/1 (mail@example.org)"}
