"""`minio.share` against real servers."""

from __future__ import annotations

import asyncio
import http.client
import re
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast import Answer, PendingCall
from holdfast.contract.enums import Risk, State
from holdfast.contract.event import Progress
from holdfast.tools.storage import share
from holdfast.tools.storage.memory_items import Stopped
from holdfast.tools.storage.s3_client import StorageFailed
from holdfast.tools.storage.share import parse_duration, shown_duration
from tests.cli.command_line import Cli
from tests.runtime.support import run, yes
from tests.tools.storage.servers import ACCESS_KEY, SECRET_KEY, S3Server, serving
from tests.tools.storage.storage_runtime import SECRET_VARIABLE, StorageRuntime
from tests.tools.web.site import Reply, Seen
from tests.tools.web.site import serving as scripted


def fetch(url: str) -> tuple[int, dict[str, str], bytes]:
    """Read a link as a stranger does."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.fixture
def made(server: S3Server, tmp_path: Path) -> StorageRuntime:
    return StorageRuntime(tmp_path, server, server.bucket())


# ---------------------------------------------------------------------- what it does


@pytest.mark.spec("B9b")
def test_a_file_is_uploaded_and_anyone_with_the_link_can_read_it(made: StorageRuntime) -> None:
    made.write("docs/a b ü.txt", "hello")
    facts = made.facts("minio.share", path="docs/a b ü.txt", expires="10m")
    status, headers, body = fetch(facts["url"])
    assert (status, body, headers["content-type"]) == (200, b"hello", "text/plain; charset=utf-8")
    assert facts["object_key"] == "shared/2cf24dba5fb0a30e/a b ü.txt"
    assert "X-Amz-Expires=600" in facts["url"]
    assert "asked about each time" in made.seen[-1].decision.reason


@pytest.mark.spec("B9b")
def test_the_preview_says_to_whom_where_what_and_for_how_long(made: StorageRuntime) -> None:
    made.write("a.txt", "hello")
    made.facts("minio.share", path="a.txt", object_key="x/y.bin", content_type="application/x-y", expires=7200)
    shown = made.preview()
    bucket, server = made.settings.bucket, made.settings.endpoint
    digest = sha256(b"hello").hexdigest()
    assert "Anyone who has the link can read the file, for 2 hours after the upload." in shown
    for fact in ("a.txt (5B)", digest, "application/x-y", f"{server}\n", f"{bucket}\n", "x/y.bin"):
        assert fact in shown
    assert "Replaces" not in shown
    proposal = made.seen[-1].proposal
    assert proposal is not None and proposal.risk is Risk.MEDIUM
    assert [(each.kind, each.value) for each in proposal.preconditions] == [("file", digest), ("object", "absent")]


@pytest.mark.spec("B9b")
def test_a_link_cannot_be_changed_and_expires(made: StorageRuntime) -> None:
    made.write("a.txt", "one")
    made.write("b.txt", "two")
    first = made.facts("minio.share", path="a.txt", object_key="first.txt")["url"]
    made.facts("minio.share", path="b.txt", object_key="second.txt")
    assert fetch(first)[0] == 200
    assert fetch(first.replace("first.txt", "second.txt"))[0] == 403
    assert fetch(first.replace("X-Amz-Expires=3600", "X-Amz-Expires=3601"))[0] == 403
    short = made.facts("minio.share", path="a.txt", object_key="short.txt", expires=1)["url"]
    deadline = time.monotonic() + 60
    while fetch(short)[0] != 403 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert fetch(short)[0] == 403


@pytest.mark.spec("B9b")
@pytest.mark.parametrize(
    "key",
    ["a b+c%20d", "über/ключ/鍵.txt", "tab\tand\x01control", "=?&#;:@'\"()*!~$,", "x" * 200 + "/" + "y" * 200, "~.-_"],
)
def test_keys_of_any_characters_are_written_and_read(made: StorageRuntime, server: S3Server, key: str) -> None:
    made.write("a.txt", "text of a key")
    result = made.call("minio.share", path="a.txt", object_key=key)
    if "\x01" in key and not result.success:  # MinIO refuses control characters, in a sentence
        assert "answered 400" in (result.error or ""), result.error
        return
    assert result.success, result.text
    assert isinstance(result.structured, dict)
    assert fetch(str(result.structured["url"]))[2] == b"text of a key"
    assert server.keys(str(result.structured["bucket"])) == [key]
    assert "\t" not in result.text and "\x01" not in result.text and "\x01" not in made.preview()


@pytest.mark.spec("B9b")
def test_a_key_of_1024_bytes_is_sent_and_a_longer_one_is_not(made: StorageRuntime) -> None:
    made.write("a.txt", "x")
    longest = "/".join(["k" * 100] * 10) + "/" + "k" * 14
    assert len(longest) == 1024
    facts = made.facts("minio.share", path="a.txt", object_key=longest)
    assert fetch(facts["url"])[2] == b"x"
    assert "has 1,025 bytes; at most 1,024" in made.error("minio.share", path="a.txt", object_key=f"{longest}k")


@pytest.mark.spec("B9b")
@pytest.mark.parametrize("key", ["../x", "a/../b", "a/./b", "..", "/a", "a//b"])
def test_a_key_that_servers_would_resolve_is_refused_before_anything_is_sent(
    minio: S3Server, tmp_path: Path, key: str
) -> None:
    made = StorageRuntime(tmp_path, minio, minio.bucket())
    made.write("a.txt", "x")
    assert "The object key" in made.error("minio.share", path="a.txt", object_key=key)
    assert minio.keys(str(made.settings.bucket)) == []
    assert made.seen == []


@pytest.mark.spec("B9b")
def test_long_content_types_and_odd_names_are_shared(minio: S3Server, tmp_path: Path) -> None:
    made = StorageRuntime(tmp_path, minio, minio.bucket())
    made.write("a.pptx", "x")
    slides = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    assert made.facts("minio.share", path="a.pptx", content_type=slides)["content_type"] == slides
    made.write("a\n[approved].txt", "x")
    told = made.call("minio.share", path="a\n[approved].txt", object_key="k").output
    assert told.startswith("Uploaded a") and "\n[approved]" not in told


@pytest.mark.spec("B9b")
def test_an_empty_file_can_be_shared(made: StorageRuntime) -> None:
    made.write("empty.txt", "")
    assert fetch(made.facts("minio.share", path="empty.txt")["url"])[::2] == (200, b"")


@pytest.mark.spec("B9b")
def test_a_large_file_is_streamed_with_progress(made: StorageRuntime) -> None:
    content = bytes(range(256)) * (9 * 4096 + 3)
    made.write("big.bin", content)

    events: list[object] = []
    made.runtime.events.listen(events.append)
    facts = made.facts("minio.share", path="big.bin")
    told = [event.done for event in events if isinstance(event, Progress)]
    assert told[-1] == len(content)
    assert len(told) >= 9
    assert fetch(facts["url"])[2] == content


@pytest.mark.spec("B9b", "B9n")
def test_the_command_shares_a_file_after_the_approval_of_a_person(minio: S3Server, tmp_path: Path) -> None:
    cli = Cli.in_folder(tmp_path)
    cli.env[SECRET_VARIABLE] = SECRET_KEY
    server = f'[minio]\nendpoint = "{minio.url}"\nbucket = "{minio.bucket()}"\naccess_key = "{ACCESS_KEY}"\n'
    cli.configure(f'{server}[secrets.minio]\nenv = "{SECRET_VARIABLE}"\n[tools]\nallow = ["group:minio"]\n')
    (cli.project / "a.txt").write_text("hello")
    asked = cli.run("call", "--pending", "--json", "minio.share", "path=a.txt")
    assert asked.code == 4, asked
    done = cli.run("approve", "--json", asked.json["call_id"])
    assert done.code == 0, done
    assert fetch(done.json["structured"]["url"])[::2] == (200, b"hello")


# ---------------------------------------------------------------------- what was shown is what is sent


@pytest.mark.spec("B9c")
def test_replacing_an_object_is_said_and_is_a_high_risk(made: StorageRuntime, server: S3Server) -> None:
    bucket = str(made.settings.bucket)
    server.put(bucket, "taken.txt", "the old text")
    made.write("a.txt", "the new text")
    facts = made.facts("minio.share", path="a.txt", object_key="taken.txt")
    assert facts["replaced"] is True
    assert "Replaces:      the object of 12B with ETag" in made.preview()
    proposal = made.seen[-1].proposal
    assert proposal is not None and proposal.risk is Risk.HIGH
    assert server.get(bucket, "taken.txt") == b"the new text"


def answering(made: StorageRuntime, meanwhile: Callable[[], None]) -> None:
    """Attach a person who approves after something has happened, and rejects what is shown then."""

    async def asker(pending: PendingCall) -> Any:
        made.seen.append(pending)
        if len(made.seen) > 1:
            return Answer(kind="reject", by="ann")
        await asyncio.to_thread(meanwhile)
        return await yes()(pending)

    made.runtime.attach(asker)


@pytest.mark.spec("B9c")
def test_a_file_that_changes_while_the_person_decides_is_not_uploaded(minio: S3Server, tmp_path: Path) -> None:
    made = StorageRuntime(tmp_path, minio, minio.bucket(), asks=False)
    made.write("a.txt", "shown")
    answering(made, lambda: made.write("a.txt", "other"))
    result = made.call("minio.share", path="a.txt")
    assert not result.success
    assert sha256(b"other").hexdigest() in made.preview()
    assert minio.keys(str(made.settings.bucket)) == []


@pytest.mark.spec("B9c")
def test_an_object_that_appears_while_the_person_decides_is_not_replaced(minio: S3Server, tmp_path: Path) -> None:
    bucket = minio.bucket()
    made = StorageRuntime(tmp_path, minio, bucket, asks=False)
    made.write("a.txt", "ours")
    answering(made, lambda: minio.put(bucket, "k.txt", "theirs"))
    assert not made.call("minio.share", path="a.txt", object_key="k.txt").success
    assert "Replaces" in made.preview()
    assert minio.get(bucket, "k.txt") == b"theirs"


@pytest.mark.spec("B9c")
def test_a_file_that_changes_during_the_upload_is_uploaded_as_it_was_shown(
    made: StorageRuntime, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.write("a.bin", b"a" * (3 * 1024 * 1024))
    original = share._blocks  # pyright: ignore[reportPrivateUsage]

    async def changing(*args: Any) -> Any:
        made.write("a.bin", b"b" * (3 * 1024 * 1024))
        async for block in original(*args):
            assert b"b" not in block  # not even a block of the other content leaves the machine
            yield block

    monkeypatch.setattr(share, "_blocks", changing)
    made.facts("minio.share", path="a.bin", object_key="k")
    assert server.get(str(made.settings.bucket), "k") == b"a" * (3 * 1024 * 1024)


@pytest.mark.spec("B9c")
def test_a_digest_that_is_stopped_is_none(tmp_path: Path) -> None:
    """Half a digest would say that the file has changed."""
    (tmp_path / "a").write_bytes(b"x")
    with (tmp_path / "a").open("rb") as opened, pytest.raises(Stopped):
        share._digest(opened.fileno(), 1, lambda: True, None)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.spec("B9c")
def test_only_readable_files_of_the_project_can_be_shared(minio: S3Server, tmp_path: Path) -> None:
    bucket = minio.bucket()
    made = StorageRuntime(tmp_path, minio, bucket)
    (tmp_path / "outside.txt").write_text("private")
    made.write("a/b.txt", "x")
    (made.project / "link.txt").symlink_to(tmp_path / "outside.txt")
    for path, told in (
        ("../outside.txt", "outside"),
        ("link.txt", "outside"),
        ("a", "is a folder, not a regular file."),
        ("missing.txt", "File not found: missing.txt"),
    ):
        assert told in made.error("minio.share", path=path)
    assert minio.keys(bucket) == []


@pytest.mark.spec("B9c")
def test_a_file_that_may_contain_secrets_is_asked_about_with_a_warning(minio: S3Server, tmp_path: Path) -> None:
    made = StorageRuntime(tmp_path, minio, minio.bucket())
    made.write(".env", "TOKEN=1")
    made.call("minio.share", path=".env")
    assert "may contain secrets" in made.preview()
    proposal = made.seen[-1].proposal
    assert proposal is not None and proposal.risk is Risk.HIGH
    assert made.seen[-1].secrets


@pytest.mark.spec("B9c")
def test_a_file_above_the_limit_is_refused(minio: S3Server, tmp_path: Path) -> None:
    made = StorageRuntime(tmp_path, minio, minio.bucket(), max_upload_bytes=10)
    made.write("a.txt", "x" * 11)
    assert "11B; at most 10B are uploaded (minio.max_upload_bytes)" in made.error("minio.share", path="a.txt")


# ---------------------------------------------------------------------- faults


@pytest.mark.spec("B9d")
def test_wrong_keys_and_a_wrong_bucket_are_one_sentence_each(
    made: StorageRuntime, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.write("a.txt", "x")
    elsewhere = StorageRuntime(tmp_path / "1", server, made.settings.bucket, buckets=("no-such-bucket",))
    elsewhere.write("a.txt", "x")
    told = elsewhere.error("minio.share", path="a.txt", bucket="no-such-bucket")
    assert "has no bucket no-such-bucket" in told
    stranger = StorageRuntime(tmp_path / "2", server, made.settings.bucket, access_key="stranger")
    stranger.write("a.txt", "x")
    assert re.search("does not accept the keys|denies access", stranger.error("minio.share", path="a.txt"))
    monkeypatch.setenv("HOLDFAST_TEST_STORAGE_SECRET", "another-secret-key-000")
    told = made.error("minio.share", path="a.txt")
    assert re.search("does not accept the keys|denies access", told)
    assert "another-secret" not in told


@pytest.mark.spec("B9d")
def test_a_server_that_is_killed_in_mid_upload_leaves_an_unknown_outcome(tmp_path: Path) -> None:
    with serving("juicefs", tmp_path / "server") as server:
        made = StorageRuntime(tmp_path, server, server.bucket())
        made.write("big.bin", b"x" * (64 * 1024 * 1024))

        async def share_it() -> Any:
            with made.runtime.subscribe() as events:
                call = asyncio.ensure_future(made.runtime.call("minio.share", {"path": "big.bin"}))
                async for event in events:
                    if isinstance(event, Progress) and event.done and event.done >= 2 * 1024 * 1024:
                        server.process.kill()
                        break
                return await call

        result = run(share_it(), 120)
    assert result.state is State.UNKNOWN
    assert "was written is not known" in (result.error or "")


@pytest.mark.spec("B9d")
def test_a_server_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    with serving("juicefs", tmp_path / "server") as server:
        made = StorageRuntime(tmp_path, server, "some-bucket")
    made.write("a.txt", "x")
    assert made.error("minio.share", path="a.txt") == f"{server.entry} cannot be reached: it refused the connection."


@pytest.mark.spec("B9d")
@pytest.mark.parametrize("status", [202, 206, 503, 507, 520])
def test_an_upload_is_never_repeated(tmp_path: Path, status: int) -> None:
    """A server that fails after it took the object: the object may be there, so that another PUT could harm."""

    def failing(seen: Seen) -> Reply:
        return Reply("", status=status if seen.method == "PUT" else 404)

    async def share_it() -> tuple[Any, list[str]]:
        async with scripted({"/bucket-x/k": failing, "/bucket-x": Reply(EMPTY_LIST, "application/xml")}) as site:
            made = StorageRuntime(tmp_path, None, "bucket-x", endpoint=site.url)
            made.write("a.txt", "x")
            result = await made.runtime.call("minio.share", {"path": "a.txt", "object_key": "k"})
            return result, [seen.method for seen in site.asked("/bucket-x/k")]

    result, methods = run(share_it())
    assert result.state is State.UNKNOWN
    assert methods.count("PUT") == 1


@pytest.mark.spec("B9d")
def test_a_question_that_is_not_answered_after_the_approval_leaves_no_unknown_outcome(tmp_path: Path) -> None:
    """Nothing was written before it, so nothing can have been."""
    questions: list[str] = []

    async def silent(_: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    def page(seen: Seen) -> Reply:
        questions.append(seen.method)
        return Reply(raw=b"", then=silent) if len(questions) > 2 else Reply("", status=404)

    async def share_it() -> tuple[Any, str]:
        async with scripted({"/bucket-x/k": page, "/bucket-x": Reply(EMPTY_LIST, "application/xml")}) as site:
            made = StorageRuntime(tmp_path, None, "bucket-x", endpoint=site.url, timeout=0.5)
            made.write("a.txt", "x")
            result = await made.runtime.call("minio.share", {"path": "a.txt", "object_key": "k"})
            return result, site.url.removeprefix("http://")

    result, entry = run(share_it())
    assert questions == ["HEAD"] * 3
    assert result.state is State.FAILED
    assert result.error == f"Nothing was uploaded. {entry} did not answer within 0.5 seconds (minio.timeout)."


EMPTY_LIST = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


# ---------------------------------------------------------------------- durations


@pytest.mark.spec("B9b")
@pytest.mark.parametrize(
    ("given", "seconds"),
    [(None, 3600), (90, 90), ("90", 90), ("90s", 90), ("2m", 120), ("1H", 3600), ("7d", 604_800), ("1w", 604_800)],
)
def test_an_expiry_is_seconds_or_a_time(given: str | int | None, seconds: int) -> None:
    assert parse_duration(given, 604_800) == seconds


@pytest.mark.spec("B9b")
@pytest.mark.parametrize("given", [0, "0", "8d", "604801", "-5", "1.5h", "1 year", "", "1h30m", "9" * 30, "١h"])
def test_an_expiry_beyond_seven_days_or_without_meaning_is_refused(given: str | int) -> None:
    with pytest.raises(StorageFailed, match="is not a valid expiry"):
        parse_duration(given, 604_800)


@pytest.mark.spec("B9b")
def test_a_duration_is_shown_in_its_largest_whole_unit() -> None:
    assert [shown_duration(each) for each in (1, 90, 3600, 5400, 86_400, 604_800)] == [
        "1 second", "90 seconds", "1 hour", "90 minutes", "1 day", "7 days"
    ]  # fmt: skip
