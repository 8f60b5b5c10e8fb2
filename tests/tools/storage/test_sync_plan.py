"""What a sync makes of the lists of hostile and failing servers."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.support import run
from tests.tools.storage.storage_runtime import StorageRuntime
from tests.tools.web.site import Reply, Seen
from tests.tools.web.site import serving as scripted


def listing(*keys: str, token: str | None = None) -> str:
    objects = "".join(f'<Contents><Key>{key}</Key><ETag>"e"</ETag><Size>3</Size></Contents>' for key in keys)
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return f"<ListBucketResult>{objects}{more}</ListBucketResult>"


async def sync_scripted(tmp_path: Path, pages: dict[str, Any]) -> tuple[Any, Any]:
    async with scripted(pages) as site:
        made = StorageRuntime(tmp_path, None, "bucket-x", endpoint=site.url, timeout=5.0)
        return await made.runtime.call("minio.sync", {"prefix": "p/"}), site


@pytest.mark.spec("B9i")
def test_keys_that_a_server_invents_are_skipped_with_the_reason(tmp_path: Path) -> None:
    keys = ("p/../../etc/passwd.txt", "elsewhere.txt", "p/ok.txt", "p/ok.txt", "p/" + "k" * 1100 + ".txt")
    pages: dict[str, Any] = {
        "/bucket-x": Reply(listing(*keys), "application/xml"),
        "/bucket-x/p/ok.txt": Reply("abc", "text/plain", headers={"etag": '"e"'}),
    }
    result, site = run(sync_scripted(tmp_path, pages))
    assert result.success, result.text
    facts = result.structured
    assert [each["object_key"] for each in facts["ingested"]] == ["p/ok.txt"]
    reasons = [each["reason"] for each in facts["skipped"]]
    assert reasons == [
        "its key has a segment '.' or '..', which clients and servers resolve differently",
        "its key has 1,106 bytes; at most 1,024 are allowed",
    ]
    assert not site.asked("/etc/passwd.txt")


@pytest.mark.spec("B9i")
@pytest.mark.parametrize("etag", ["", "a\r\nX-Evil: 1", "\u20ac", "x" * 201, "a b"])
def test_an_etag_that_no_header_can_carry_is_none(tmp_path: Path, etag: str) -> None:
    page = listing("p/a.txt").replace('"e"', etag)
    result, site = run(sync_scripted(tmp_path, {"/bucket-x": Reply(page, "application/xml")}))
    assert result.success, result.text
    assert result.structured["skipped"][0]["reason"].startswith("the server names no ETag for it")
    assert not site.asked("/bucket-x/p/a.txt")


@pytest.mark.spec("B9i")
def test_a_prefix_that_no_request_can_carry_is_refused(tmp_path: Path) -> None:
    made = StorageRuntime(tmp_path, None, "bucket-x", endpoint="http://127.0.0.1:1")
    assert made.error("minio.sync", prefix="x" * 1025) == "The prefix has 1,025 bytes; at most 1,024 are allowed."
    assert not made.call("minio.sync", prefix="a\ud800").success


@pytest.mark.spec("B9i")
def test_a_list_without_end_is_bounded(tmp_path: Path) -> None:
    """The same token for ever, and a new one for ever. There is one list before and one after the approval."""
    repeated = Reply(listing("p/a.exe", token="same"), "application/xml")
    result, site = run(sync_scripted(tmp_path / "1", {"/bucket-x": repeated}))
    assert result.success and len(site.asked("/bucket-x")) == 2 * 2
    numbers = count()

    def new_token(_: Seen) -> Reply:
        return Reply(listing("p/a.exe", token=str(next(numbers))), "application/xml")

    result, site = run(sync_scripted(tmp_path / "2", {"/bucket-x": new_token}))
    assert result.success and len(site.asked("/bucket-x")) == 2 * 201
    assert result.structured["notes"] == [
        "The list of the server does not end, so that objects may be missing. Use a longer prefix."
    ]


@pytest.mark.spec("B9i")
@pytest.mark.parametrize(
    "body",
    [
        '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><ListBucketResult>&b;</ListBucketResult>',
        "<ListBucketResult>" + "<a>" * 1000,
        "not xml",
        "<Other/>",
        "<ListBucketResult><Contents><Key>p/a</Key><Size>-5</Size></Contents></ListBucketResult>",
        "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%ff</Key></Contents></ListBucketResult>",
    ],
)
def test_a_list_that_is_no_list_is_one_sentence(tmp_path: Path, body: str) -> None:
    result, _ = run(sync_scripted(tmp_path, {"/bucket-x": Reply(body, "application/xml")}))
    assert not result.success
    assert "sent a list of objects that cannot be read." in (result.error or "")


@pytest.mark.spec("B9d")
def test_a_server_that_never_answers_costs_the_time_limit(tmp_path: Path) -> None:
    async def silent(_: asyncio.StreamWriter) -> None:
        await asyncio.sleep(600)

    async def sync_it() -> tuple[Any, str]:
        async with scripted({"/bucket-x": lambda _: Reply(raw=b"", then=silent)}) as site:
            made = StorageRuntime(tmp_path, None, "bucket-x", endpoint=site.url, timeout=0.5)
            return await made.runtime.call("minio.sync", {"prefix": ""}), site.url.removeprefix("http://")

    result, entry = run(sync_it())
    assert not result.success
    assert result.error == f"{entry} did not answer within 0.5 seconds (minio.timeout)."


@pytest.mark.spec("B9d")
def test_a_read_is_repeated_after_a_fault_of_the_server(tmp_path: Path) -> None:
    answers = [Reply("", status=503), Reply("", status=500), Reply(listing(), "application/xml")]
    seen: list[Seen] = []

    def page(request: Seen) -> Reply:
        seen.append(request)
        return answers.pop(0)

    result, _ = run(sync_scripted(tmp_path, {"/bucket-x": page}))
    assert result.success, result.text
    assert len(seen) == 3
