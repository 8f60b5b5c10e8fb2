"""`web.fetch`: modes, paging into a kept copy, kinds of content, faults, and what an approval shows."""

from __future__ import annotations

import asyncio
import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from holdfast import Result, Runtime
from holdfast.contract.enums import State, Verdict
from holdfast.contract.event import Started
from holdfast.net.network_log import NetworkLog, read_log
from holdfast.text.preview import preview
from holdfast.tools.web.fetch import WEB_FETCH
from holdfast.tools.web.service import WebSettings
from tests.runtime.support import run, until_pending
from tests.tools.extraction.pdfs import encrypted_pdf, pdf
from tests.tools.web.site import FAST, Page, Reply, Site, Writer, facts, fetch, serving, web_runtime

pytestmark = pytest.mark.spec("B6b")

PARAGRAPH = "The quick brown fox number {} jumps over the lazy dog, and then it rests for a while in the shade."
ARTICLE = (
    "<html><head><title> Foxes &amp; dogs </title></head><body><nav><a href='/home'>Home</a> <a href='/about'>About</a>"
    "</nav><article><h1>About foxes</h1>"
    + "".join(f"<p>{PARAGRAPH.format(number)}</p>" for number in range(12))
    + "<p>See <a href='next.html#part'>the next page</a>, <a href='next.html'>again</a>, and <a href='mailto:a@b.c'>"
    "write</a>.</p></article><footer>Imprint and privacy</footer><script>var x = 1;</script></body></html>"
)


def fetched(pages: dict[str, Page], tmp_path: Path, path: str = "/", **args: Any) -> tuple[Result, Site]:
    async def work() -> tuple[Result, Site]:
        async with serving(pages) as site, web_runtime(tmp_path, site) as runtime:
            return await fetch(runtime, site.url + path, **args), site

    return run(work())


def test_a_page_is_read_as_markdown_with_everything_about_its_origin(tmp_path: Path) -> None:
    result, site = fetched({"/": Reply(ARTICLE)}, tmp_path)
    told = facts(result)
    assert result.success and "# About foxes" in told["content"] and PARAGRAPH.format(3) in told["content"]
    assert "Imprint" not in told["content"] and "var x" not in told["content"]
    assert (told["status"], told["title"], told["mode"], told["cached"]) == (200, "Foxes & dogs", "readable", "no")
    assert told["url"] == told["final_url"] == f"{site.url}/" and told["redirects"] == []
    assert told["content_type"] == "text/html; charset=utf-8" and len(told["sha256"]) == 64
    assert told["content"] in result.output and "Title: Foxes & dogs" in result.output
    assert result.metadata["untrusted"] == ["web"]


def test_the_other_modes_give_all_text_the_source_the_links_and_passages(tmp_path: Path) -> None:
    async def work() -> dict[str, Any]:
        async with serving({"/a/": Reply(ARTICLE)}) as site, web_runtime(tmp_path, site) as runtime:
            modes = ("text", "raw", "links", "find")
            found = {
                mode: facts(await fetch(runtime, f"{site.url}/a/", mode=mode, find="fox  NUMBER 7")) for mode in modes
            }
            at = int(found["find"]["content"].partition("[offset ")[2].partition("]")[0])
            there = facts(await fetch(runtime, f"{site.url}/a/", mode="text", offset=at, limit=12))
            return found | {"there": there, "site": site.url}

    found = run(work())
    assert "Imprint and privacy" in found["text"]["content"] and "var x" not in found["text"]["content"]
    assert found["raw"]["content"] == ARTICLE
    links = found["links"]["content"].splitlines()
    assert links == [
        f"- Home <{found['site']}/home>",
        f"- About <{found['site']}/about>",
        f"- the next page <{found['site']}/a/next.html>",
    ]
    assert "jumps over" in found["find"]["content"] and "'fox  NUMBER 7' was found once." in found["find"]["notes"]
    assert found["there"]["content"] == "fox number 7", "offsets of passages are those of the mode text"


def test_a_text_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    result, _ = fetched({"/": Reply(ARTICLE)}, tmp_path, find="unicorn")
    assert facts(result)["mode"] == "find" and "'unicorn' was not found on the page." in result.output


def test_pages_of_a_text_join_to_the_whole_and_come_from_one_copy(tmp_path: Path) -> None:
    served: list[str] = []

    def changing(seen: object) -> Reply:
        served.append(f"version {len(served)}\n" + "\n".join(f"line {number}" for number in range(500)))
        return Reply(served[-1], "text/plain", headers={"Cache-Control": "no-store"})

    async def work() -> list[dict[str, Any]]:
        async with serving({"/": changing}) as site, web_runtime(tmp_path, site) as runtime:
            parts = [facts(await fetch(runtime, site.url, limit=900))]
            while (offset := parts[-1]["next_offset"]) is not None:
                result = await fetch(runtime, site.url, offset=offset, limit=900)
                assert f"Characters {offset}-" in result.output
                parts.append(facts(result))
            return parts

    parts = run(work())
    assert len(served) == 1 and "".join(part["content"] for part in parts) == served[0]
    assert {part["cached"] for part in parts[1:]} == {"kept"}
    assert {part["total_chars"] for part in parts} == {len(served[0])} and len({part["sha256"] for part in parts}) == 1


def test_a_copy_on_disk_is_continued_by_another_process(tmp_path: Path) -> None:
    async def work() -> tuple[Site, dict[str, Any]]:
        async with serving({"/": Reply("ab" * 1000, "text/plain")}) as site:
            async with web_runtime(tmp_path / "one", site, folder_of_cache=tmp_path / "cache") as runtime:
                await fetch(runtime, site.url, limit=10)
            async with web_runtime(tmp_path / "two", site, folder_of_cache=tmp_path / "cache") as runtime:
                return site, facts(await fetch(runtime, site.url, offset=10, limit=10))

    site, told = run(work())
    assert len(site.asked("/")) == 1 and told["cached"] == "kept"


def test_a_lost_copy_and_an_offset_beyond_the_end_are_said_so(tmp_path: Path) -> None:
    result, _ = fetched({"/": Reply("abcdef", "text/plain")}, tmp_path, offset=2)
    assert facts(result)["content"] == "cdef" and "no longer kept" in result.output
    result, _ = fetched({"/": Reply("abcdef", "text/plain")}, tmp_path / "b", offset=20)
    assert result.error == "Offset 20 is beyond the end: the text has 6 characters."


def test_a_long_page_never_exceeds_the_limits_of_an_output(tmp_path: Path) -> None:
    text = "\n".join("ä" * 30 for _ in range(4000))
    result, _ = fetched({"/": Reply(text, "text/plain; charset=utf-8")}, tmp_path, limit=100_000)
    assert len(result.output.encode()) <= 51_200 and result.output.count("\n") < 2000
    assert facts(result)["next_offset"] == len(facts(result)["content"])


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply('{"a": [1, {"b": "ü"}]}', "application/json"), '"b": "ü"\n'),
        (Reply('{"a": ', "application/json"), "It is not valid JSON."),
        (Reply("[" * 100_000, "application/json"), "It is not valid JSON."),
        (Reply("plain ü", "text/plain; charset=utf-8"), "plain ü"),
        (Reply("grün".encode("latin-1"), "text/plain; charset=iso-8859-1"), "grün"),
        (Reply("grün".encode("utf-16"), "text/plain"), "grün"),
        (Reply("<p>grün und blau".encode("cp1252"), "text/html; charset=utf-8"), "were replaced by \ufffd"),
        (Reply("<meta charset=windows-1251><p>Привет".encode("cp1251"), "text/html"), "Привет"),
        (Reply("text", "text/plain; charset=rot13"), "text"),
        (Reply("text", "text/plain; charset=no-such-charset"), "text"),
        (Reply(b"\xff\xfe\xfd\x00\x01" * 9, "text/html"), "200 OK"),
        (Reply("<!doctype html><title>T</title><p>Sniffed page", None), "Sniffed page"),
        (Reply("<html><body></body></html>"), "The page has no text."),
        (Reply("<meta http-equiv=refresh content='0; url=http://169.254.169.254/'><p>x"), "that was not followed"),
        (Reply("<rss><channel><title>News</title><item><title>One</title><link>http://a/1</link>"
               "<description>&lt;b&gt;Bold&lt;/b&gt; words</description></item></channel></rss>",
               "application/rss+xml"), "- One <http://a/1>\n  Bold words"),
        (Reply("<feed xmlns='http://www.w3.org/2005/Atom'><title>F</title><entry><title>Two</title>"
               "<link href='http://a/2'/><updated>2026-01-01</updated></entry></feed>", "text/xml"),
         "- Two <http://a/2>\n  2026-01-01"),
        (Reply("<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><rss><channel><item>"
               "<title>a&e;b</title></item></channel></rss>", "text/xml"), "- a"),
        (Reply(pdf("Hello from a PDF"), "application/pdf"), "[Page 1 of 1]\nHello from a PDF"),
        (Reply(pdf("Sniffed PDF"), "text/html"), "Sniffed PDF"),
        (Reply(b"%PDF-1.7 broken", "application/pdf"), "cannot be read: it is damaged or not a PDF"),
        (Reply(encrypted_pdf(), "application/pdf"), "cannot be read: it is protected with a password"),
        (Reply(b"PK\x03\x04\0\0\0", "application/zip"), "application/zip, 7B, which has no text. Use mode=raw"),
        (Reply(b"", "text/html"), "200 OK, text/html, 0B"),
    ],
)  # fmt: skip
def test_each_kind_of_content_becomes_text_or_a_clear_sentence(tmp_path: Path, reply: Reply, words: str) -> None:
    result, _ = fetched({"/": reply}, tmp_path)
    assert result.success and words in result.output


def png(width: int, height: int) -> bytes:
    """A valid PNG with these dimensions and no pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_an_image_is_attached_with_its_size(tmp_path: Path) -> None:
    result, _ = fetched({"/a.png": Reply(png(3, 4), "image/png")}, tmp_path, "/a.png")
    [image] = result.attachments
    assert (image.kind, image.mime_type, image.name, image.data) == ("image", "image/png", "a.png", png(3, 4))
    assert "image/png, 58B, 3 × 4 pixels; it is attached." in result.output or "3 × 4 pixels" in result.output


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (png(60_000, 60_000), "60000 × 60000 pixels, which is too large to be attached"),
        (b"\x89PNG\r\n\x1a\n broken", "the image is damaged"),
        (png(3, 4) + b"\0" * 6_000_000, "can be attached"),
    ],
)
def test_an_image_that_is_too_large_or_damaged_is_not_attached(tmp_path: Path, body: bytes, words: str) -> None:
    result, _ = fetched({"/": Reply(body, "image/png")}, tmp_path)
    assert result.success and words in result.output and not result.attachments


def test_other_binary_content_is_attached_on_request(tmp_path: Path) -> None:
    result, _ = fetched({"/a.zip": Reply(b"PK\x03\x04\0", "application/zip")}, tmp_path, "/a.zip", mode="raw")
    assert [(item.kind, item.mime_type) for item in result.attachments] == [("file", "application/zip")]


def test_a_body_above_the_limit_is_cut_and_said_so(tmp_path: Path) -> None:
    async def work() -> Result:
        async with serving({"/": Reply("abc " * 1000, "text/plain")}) as site:
            settings = WebSettings(rate=1000.0, burst=1000, max_bytes=100)
            async with web_runtime(tmp_path, site, settings=settings) as runtime:
                return await fetch(runtime, site.url)

    result = run(work())
    assert facts(result)["bytes"] == 100 and "only its first 100B were read" in result.output


def test_an_error_status_is_a_failure_with_the_readable_body(tmp_path: Path) -> None:
    result, _ = fetched({"/": Reply("<p>" + "No such page here. " * 2000, status=410)}, tmp_path)
    assert not result.success and result.error is not None and result.error.endswith("answered 410 Gone.")
    assert "No such page here." in result.output and len(result.output) < 6000


def test_head_shows_the_headers_and_reads_no_body(tmp_path: Path) -> None:
    result, site = fetched({"/": Reply("body", headers={"X-Thing": "here"})}, tmp_path, method="HEAD")
    assert site.asked("/")[0].method == "HEAD" and "x-thing: here" in result.output and facts(result)["bytes"] == 0


@pytest.mark.parametrize("headers", [{"X-One": "1", "Accept": "text/x"}, [{"name": "X-One", "value": "1"}]])
def test_headers_are_an_object_or_a_list(tmp_path: Path, headers: Any) -> None:
    result, site = fetched({"/": Reply("ok", "text/plain")}, tmp_path, method="POST", headers=headers, body="data")
    seen = site.asked("/")[0]
    assert result.success and (seen.headers["x-one"], seen.body, seen.method) == ("1", b"data", "POST")


def test_a_header_value_is_sent_as_latin_1_and_without_spaces_around_it(tmp_path: Path) -> None:
    result, site = fetched({"/": Reply("ok", "text/plain")}, tmp_path, headers={"X-Name": " José\t"})
    assert result.success and site.asked("/")[0].headers["x-name"] == "José"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"url": "file:///etc/passwd"}, "file: is not supported"),
        ({"url": "https://user:pw@example.com/"}, "user name or password"),
        ({"url": "http://127.0.0.1:1/"}, "127.0.0.1 is this machine"),
        ({"url": "http://[::ffff:169.254.169.254]/"}, "metadata"),
        ({"url": "https://example.com/", "headers": {"Host": "evil"}}, "is set by the client"),
        ({"url": "https://example.com/", "headers": {"X-A": "b\r\nX-B: c"}}, "cannot carry"),
        ({"url": "https://example.com/", "body": "x"}, "A GET request has no body"),
        ({"url": "https://example.com/", "mode": "find"}, "needs the text to look for"),
    ],
)
def test_a_request_that_cannot_be_sent_is_refused_before_anyone_is_asked(
    tmp_path: Path, args: dict[str, Any], words: str
) -> None:
    async def work() -> Result:
        async with web_runtime(tmp_path, answers=False) as runtime:
            return await runtime.call("web.fetch", args)

    result = run(work())
    assert result.state is State.FAILED and words in result.text


def test_what_is_refused_by_name_is_in_the_network_log(tmp_path: Path) -> None:
    log = NetworkLog(tmp_path / "network.jsonl")
    away: dict[str, Page] = {
        f"/{host}": Reply(status=302, headers={"Location": f"http://{host}/secret"})
        for host in ("169.254.169.254", "other.example")
    }

    async def work() -> None:
        async with serving(away) as site, web_runtime(tmp_path / "project", site, log=log) as runtime:
            assert not (await fetch(runtime, "http://localhost:8123/")).success
            for path in away:
                assert "redirects to another host" in str((await fetch(runtime, site.url + path)).error)

    run(work())
    refused = [entry for entry in read_log(log.path) if entry is not None and entry.outcome == "refused"]
    assert [(entry.host, entry.port) for entry in refused] == [
        ("localhost", 8123),
        ("169.254.169.254", 80),
        ("other.example", 80),
    ]
    assert all(entry.by.startswith("web.fetch ") and entry.reason for entry in refused)


def test_a_request_of_ten_megabytes_is_refused_at_once(tmp_path: Path) -> None:
    result, _ = fetched({}, tmp_path, "/" + "a" * 10_000_000)
    assert result.state is State.INVALID and len(result.text) < 400


def test_an_approval_shows_the_whole_request(tmp_path: Path) -> None:
    async def work() -> Any:
        async with web_runtime(tmp_path, private=("example.com",)) as runtime:
            args = {"url": "https://example.com/a", "method": "PUT", "body": "line 1\nline 2", "headers": {"X-A": "b"}}
            return await runtime.judge("web.fetch", args)

    decision = run(work())
    assert decision.verdict is Verdict.ASK


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({"url": "https://Example.com"}, "web.fetch: GET https://example.com/"),
        ({"url": "https://example.com/x/%2e./private"}, "web.fetch: GET https://example.com/private"),
        ({"url": "https://аpple.com/x", "method": "POST", "body": "ab"},
         "web.fetch: POST https://xn--pple-43d.com/x  (2B)"),
        ({"url": "https://example.com/?q=1", "find": "cat", "label": "why"},
         "web.fetch: GET https://example.com/?q=1  find 'cat'  # why"),
    ],
)  # fmt: skip
def test_the_preview_names_method_and_host_in_punycode(args: dict[str, Any], shown: str) -> None:
    assert preview("web.fetch", args, 80, WEB_FETCH.format_preview) == shown


def test_the_preview_of_a_long_address_keeps_host_and_end() -> None:
    shown = preview("web.fetch", {"url": "https://example.com/" + "a" * 5000 + "END"}, 90, WEB_FETCH.format_preview)
    assert shown.startswith("web.fetch: GET https://example.com/aaa") and shown.endswith("END") and "hidden" in shown


async def _stall(writer: Writer) -> None:
    await asyncio.Event().wait()


SLOW = Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", then=_stall)


def test_a_slow_page_fails_in_time_and_a_slow_change_is_unknown(tmp_path: Path) -> None:
    slow, _ = fetched({"/": SLOW}, tmp_path, timeout=4_000)
    assert slow.state is State.FAILED and "sent only 0 bytes" in slow.text
    sent, _ = fetched({"/": SLOW}, tmp_path / "b", timeout=4_000, method="POST")
    assert sent.state is State.UNKNOWN and "Whether the POST request took effect is not known." in sent.text


@pytest.mark.parametrize(
    "reply", [Reply("x", headers={"Content-Encoding": "br"}), Reply(status=307, headers={"Location": "/"})]
)
def test_a_change_that_was_sent_is_unknown_if_its_answer_cannot_be_used(tmp_path: Path, reply: Reply) -> None:
    sent, _ = fetched({"/": reply}, tmp_path, method="DELETE")
    assert sent.state is State.UNKNOWN and "Whether the DELETE request took effect is not known." in sent.text
    read, _ = fetched({"/": reply}, tmp_path / "b")
    assert read.state is State.FAILED


def test_a_read_that_is_cancelled_changed_nothing(tmp_path: Path) -> None:
    async def work(method: str) -> Result:
        async with serving({"/": SLOW}) as site, web_runtime(tmp_path / method, site) as runtime:
            with runtime.subscribe() as events:
                task = asyncio.create_task(fetch(runtime, site.url, method=method, timeout=50_000))
                async for event in events:
                    if isinstance(event, Started):
                        assert runtime.cancel(event.call_id)
                        break
                return await task

    assert run(work("GET")).state is State.CANCELLED
    assert run(work("POST")).state is State.UNKNOWN


def test_hostile_html_costs_one_result(tmp_path: Path) -> None:
    deep = b"<div>" * 100_000 + b"deep text" + b"</div>" * 100_000
    wide = gzip.compress(b"<a href=x>" + b"<b>x</b>" * 100_000)
    pages: dict[str, Page] = {"/deep": Reply(deep), "/wide": Reply(wide, headers={"Content-Encoding": "gzip"})}

    async def work() -> list[Result]:
        async with serving(pages) as site, web_runtime(tmp_path, site) as runtime:
            return [await fetch(runtime, site.url + path, mode=mode, timeout=60_000)
                    for path in pages for mode in ("text", "links")]  # fmt: skip

    assert all(result.success for result in run(work()))


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_every_call_names_the_host_it_reaches(method: str) -> None:
    assert WEB_FETCH.reaches is not None
    reach = WEB_FETCH.reaches({"url": "https://Bücher.example:8443/a", "method": method})
    assert (reach.hosts, reach.sends) == (("xn--bcher-kva.example:8443",), method == "POST")
    assert WEB_FETCH.reaches({}).hosts == () and WEB_FETCH.reaches({"url": "nonsense"}).hosts == ()


def test_nothing_runs_without_an_answer(tmp_path: Path) -> None:
    async def work() -> tuple[Site, str]:
        async with serving({"/": Reply("x")}) as site:
            runtime: Runtime = web_runtime(tmp_path, site, answers=False)
            async with runtime:
                pending, task = await until_pending(runtime, fetch(runtime, site.url))
                task.cancel()
                return site, pending.summary

    site, summary = run(work())
    assert not site.seen and summary == f"GET {site.url}/"


def test_the_settings_of_tests_differ_only_in_the_rate() -> None:
    assert FAST.robots and FAST.max_bytes == WebSettings().max_bytes
