"""The HTTP cache: what is stored, when it is fresh, how it is revalidated, and that it stays small."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.net.client import HttpRequest, HttpResponse, Redirect
from holdfast.net.urls import parse_url
from holdfast.tools.web.cache import ResponseCache, is_fresh, is_storable, refreshed, validators
from tests.runtime.support import run
from tests.tools.web.site import Reply, Seen, Site, facts, fetch, serving, web_runtime

pytestmark = pytest.mark.spec("B6c")

URL = parse_url("https://example.com/a")
GET = HttpRequest(url=URL)


def response(headers: dict[str, str] | None = None, *, body: bytes = b"body", at: float = 1000.0) -> HttpResponse:
    pairs = tuple((headers or {}).items())
    return HttpResponse(url=URL, status=200, headers=pairs, body=body, cut=False, redirects=(), fetched_at=at)


@pytest.mark.parametrize(
    ("headers", "storable"),
    [
        ({}, True),
        ({"cache-control": "private, max-age=5"}, True),
        ({"cache-control": "max-age=5, No-Store"}, False),
        ({"vary": "Accept-Encoding, Cookie"}, True),
        ({"vary": "*"}, False),
    ],
)
def test_what_may_be_stored(headers: dict[str, str], storable: bool) -> None:
    assert is_storable(response(headers)) is storable
    assert not is_storable(replace(response(headers), status=404))


@pytest.mark.parametrize(
    ("headers", "lifetime"),
    [
        ({}, 0),
        ({"cache-control": "max-age=60"}, 60),
        ({"cache-control": 'max-age="60", private'}, 60),
        ({"cache-control": "max-age=60", "age": "20"}, 40),
        ({"cache-control": "max-age=60, no-cache"}, 0),
        ({"cache-control": "max-age=sixty"}, 0),
        ({"cache-control": "s-maxage=60"}, 0),
        ({"expires": "Thu, 01 Jan 1970 00:17:40 GMT", "date": "Thu, 01 Jan 1970 00:16:40 GMT"}, 60),
        ({"expires": "0"}, 0),
    ],
)
def test_how_long_a_response_is_fresh(headers: dict[str, str], lifetime: int) -> None:
    stored = response(headers)
    assert [is_fresh(stored, 1000.0 + lifetime + late) for late in (-1, 0)] == [lifetime > 0, False]


def test_a_temporary_redirect_is_followed_again_each_time() -> None:
    stored = response({"cache-control": "max-age=60"})
    assert is_fresh(replace(stored, redirects=(Redirect("https://x/", 301),)), 1001.0)
    assert not is_fresh(replace(stored, redirects=(Redirect("https://x/", 302),)), 1001.0)


def test_a_confirmation_renews_the_dates_and_keeps_the_rest() -> None:
    stored = response({"etag": '"1"', "cache-control": "max-age=1", "content-type": "text/x"})
    assert validators(stored) == (("If-None-Match", '"1"'),)
    renewed = refreshed(stored, replace(response({"cache-control": "max-age=9"}, at=2000.0), status=304))
    assert (renewed.body, renewed.fetched_at, renewed.header("content-type")) == (b"body", 2000.0, "text/x")
    assert is_fresh(renewed, 2008.0)


def test_only_a_plain_get_is_stored_on_disk(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "web", max_bytes=10_000, max_age=100)
    requests = [
        GET,
        replace(GET, headers=(("Authorization", "x"),)),
        replace(GET, method="POST", body=b"x"),
        replace(GET, method="HEAD"),
    ]
    for request in requests:
        run(cache.keep(request, response()))
        assert cache.copy(request, 1001.0) == response()
    assert [cache.stored(request, 1001.0) is not None for request in requests] == [True, False, False, False]
    [file] = (tmp_path / "web").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert cache.stored(GET, 1101.0) is None, "an entry expires"


def test_what_may_no_longer_be_stored_is_removed(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path, max_bytes=10_000, max_age=100)
    run(cache.keep(GET, response()))
    run(cache.keep(GET, response({"cache-control": "no-store"})))
    assert cache.stored(GET, 1001.0) is None and not list(tmp_path.iterdir())


def test_a_damaged_entry_is_removed_and_fetched_again(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path, max_bytes=10_000, max_age=100)
    run(cache.keep(GET, response()))
    [file] = tmp_path.iterdir()
    file.write_bytes(b"\xff not json\nbody")
    file.chmod(0o600)
    assert ResponseCache(tmp_path, max_bytes=10_000, max_age=100).copy(GET, 1001.0) is None
    assert not list(tmp_path.iterdir())


def test_the_cache_stays_below_its_size_and_drops_the_oldest(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path, max_bytes=10_000, max_age=10**10)
    for number in range(20):
        request = HttpRequest(url=parse_url(f"https://example.com/{number}"))
        run(cache.keep(request, response(body=b"x" * 1000)))
        newest = max(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (number, number))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 10_000
    fresh = ResponseCache(tmp_path, max_bytes=10_000, max_age=10**10)
    assert fresh.stored(HttpRequest(url=parse_url("https://example.com/19")), 1001.0) is not None
    assert fresh.stored(HttpRequest(url=parse_url("https://example.com/0")), 1001.0) is None


def test_a_full_disk_costs_the_cache_and_not_the_result(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = ResponseCache(blocked / "web", max_bytes=10_000, max_age=100)
    run(cache.keep(GET, response()))
    assert cache.copy(GET, 1001.0) == response()


@pytest.mark.parametrize("tag", ['"v1"', '"é"'])
def test_a_fresh_page_is_not_requested_again_and_a_stale_one_is_revalidated(tmp_path: Path, tag: str) -> None:
    def tagged(seen: Seen) -> Reply:
        if seen.headers.get("if-none-match") == tag:
            return Reply(status=304, headers={"ETag": tag})
        return Reply("tagged", "text/plain", headers={"ETag": tag})

    async def work() -> tuple[list[str], list[str], Site]:
        pages = {"/fresh": Reply("f", "text/plain", headers={"Cache-Control": "max-age=600"}), "/tagged": tagged}
        async with serving({**pages}) as site:
            async with web_runtime(tmp_path / "r", site, folder_of_cache=tmp_path / "web") as runtime:
                paths = ("/fresh", "/fresh", "/tagged", "/tagged")
                told = [facts(await fetch(runtime, site.url + path)) for path in paths]
            return [each["cached"] for each in told], [each["content"] for each in told], site

    cached, contents, site = run(work())
    assert cached == ["no", "fresh", "no", "revalidated"] and contents == ["f", "f", "tagged", "tagged"]
    assert len(site.asked("/fresh")) == 1 and len(site.asked("/tagged")) == 2
