"""`minio.sync` against real servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.enums import Risk, State
from holdfast.contract.event import Progress
from holdfast.tools.storage import sync
from tests.runtime.support import run
from tests.soak import rounds
from tests.tools.extraction.pdfs import pdf
from tests.tools.storage.servers import SECRET_KEY, S3Server, serving
from tests.tools.storage.storage_runtime import SECRET_VARIABLE, StorageRuntime


@pytest.fixture
def made(server: S3Server, tmp_path: Path) -> StorageRuntime:
    return StorageRuntime(tmp_path, server, server.bucket())


@pytest.fixture
def one(minio: S3Server, tmp_path: Path) -> tuple[StorageRuntime, S3Server, str]:
    bucket = minio.bucket()
    return StorageRuntime(tmp_path, minio, bucket), minio, bucket


def counts(facts: dict[str, Any]) -> tuple[int, int, int, int]:
    """Ingested, unchanged, skipped and remaining objects."""
    names = ("ingested_count", "unchanged_count", "skipped_count", "remaining_count")
    first, second, third, fourth = (facts[name] for name in names)
    return first, second, third, fourth


@pytest.mark.spec("B9i")
def test_texts_below_a_prefix_go_to_nested_namespaces(made: StorageRuntime, server: S3Server) -> None:
    bucket = str(made.settings.bucket)
    server.put(bucket, "docs/a.md", "Text of a.")
    server.put(bucket, "docs/deep/er/b.txt", "Text of b.")
    server.put(bucket, "docs/c.pdf", pdf("Text of c"))
    server.put(bucket, "docs/Ünïcode ключ.txt", "Text of u.")
    server.put(bucket, "docs/pic.png", b"\x89PNG\r\n\x1a\n\0")
    server.put(bucket, "docs/lies.txt", b"\x89PNG\r\n\x1a\n\0")
    server.put(bucket, "docs/empty.txt", b"")
    server.put(bucket, "other/d.md", "Not below the prefix.")
    facts = made.facts("minio.sync", prefix="docs/")
    assert counts(facts) == (4, 0, 3, 0)
    assert {each["object_key"]: each["reason"] for each in facts["skipped"]} == {
        "docs/pic.png": "its extension .png is not one of a text (use force to read it anyway)",
        "docs/lies.txt": "its content is image/png",
        "docs/empty.txt": "it is empty",
    }
    base = f"global/knowledge/{bucket}/docs"
    assert made.contents(f"{base}/a.md") == ["Text of a."]
    assert made.contents(f"{base}/deep/er/b.txt") == ["Text of b."]
    assert "Text of c" in made.contents(f"{base}/c.pdf")[0]
    unicode = next(each["namespace"] for each in facts["ingested"] if "ключ" in each["object_key"])
    assert made.contents(unicode) == ["Text of u."]
    assert sorted(made.namespaces()) == sorted(each["namespace"] for each in facts["ingested"])


@pytest.mark.spec("B9j")
def test_only_what_changed_is_read_again(made: StorageRuntime, server: S3Server) -> None:
    bucket = str(made.settings.bucket)
    for name in ("a", "b", "c"):
        server.put(bucket, f"{name}.txt", f"first {name}")
    server.put(bucket, "x.txt", b"\0\0")
    assert counts(made.facts("minio.sync", prefix="")) == (3, 0, 1, 0)
    asked = len(made.seen)
    again = made.facts("minio.sync", prefix="")
    assert counts(again) == (0, 3, 1, 0)
    assert again["skipped"][0]["reason"] == "its content is binary data with NUL bytes (as before)"
    assert len(made.seen) == asked + 1  # the names of objects are told to nobody without an approval
    server.delete(bucket, "x.txt")
    assert counts(made.facts("minio.sync", prefix="")) == (0, 3, 0, 0)
    assert len(made.seen) == asked + 1  # nothing to do and nothing to name is nothing to approve
    server.put(bucket, "x.txt", b"\0\0")
    server.put(bucket, "b.txt", "second b")
    server.delete(bucket, "c.txt")
    facts = made.facts("minio.sync", prefix="")
    assert counts(facts) == (1, 1, 1, 0)
    assert facts["ingested"][0]["forgotten"] == 1
    assert facts["vanished"] == ["c.txt"]
    base = f"global/knowledge/{bucket}"
    assert made.contents(f"{base}/b.txt") == ["second b"]
    assert made.contents(f"{base}/c.txt") == ["first c"]  # said, not deleted


@pytest.mark.spec("B9j")
def test_append_keeps_the_earlier_state_of_an_object(one: tuple[StorageRuntime, S3Server, str]) -> None:
    made, server, bucket = one
    server.put(bucket, "a.txt", "first")
    made.facts("minio.sync", prefix="", mode="append", namespace_base="n")
    server.put(bucket, "a.txt", "second")
    made.facts("minio.sync", prefix="", mode="append", namespace_base="n")
    assert made.contents(f"n/{bucket}/a.txt") == ["first", "second"]
    proposal = made.seen[-1].proposal
    assert proposal is not None and proposal.risk is Risk.MEDIUM


@pytest.mark.spec("B9j")
def test_force_reads_what_was_skipped_once(one: tuple[StorageRuntime, S3Server, str]) -> None:
    made, server, bucket = one
    server.put(bucket, "a.bin", b"caf\xe9")
    assert counts(made.facts("minio.sync", prefix="")) == (0, 0, 1, 0)
    assert counts(made.facts("minio.sync", prefix="", force=True)) == (1, 0, 0, 0)
    assert counts(made.facts("minio.sync", prefix="", force=True)) == (0, 1, 0, 0)


@pytest.mark.spec("B9j")
def test_a_run_stops_at_max_objects_and_the_next_one_continues(made: StorageRuntime, server: S3Server) -> None:
    bucket = str(made.settings.bucket)
    for number in range(7):
        server.put(bucket, f"{number}.txt", f"text {number}")
    first = made.facts("minio.sync", prefix="", max_objects=3)
    assert (counts(first), first["ending"]) == ((3, 0, 0, 4), "limit")
    assert "Later:      4 more than max_objects" in made.preview()
    assert counts(made.facts("minio.sync", prefix="", max_objects=3)) == (3, 3, 0, 1)
    last = made.facts("minio.sync", prefix="", max_objects=3)
    assert (counts(last), last["ending"]) == ((1, 6, 0, 0), "complete")
    assert len(made.namespaces()) == 7


@pytest.mark.spec("B9i")
def test_the_preview_says_how_much_is_read_from_where_to_where(one: tuple[StorageRuntime, S3Server, str]) -> None:
    made, server, bucket = one
    server.put(bucket, "p/a.txt", "12345")
    server.put(bucket, "p/b.exe", "x")
    made.facts("minio.sync", prefix="p/", namespace_base="n/m")
    shown = made.preview()
    assert f"Source:     {bucket}/p/ at {server.url}\nReads:      1 object, 5B\n" in shown
    assert f"p/a.txt (5B) → n/m/{bucket}/p/a.txt" in shown
    assert "p/b.exe: its extension .exe is not one of a text" in shown
    proposal = made.seen[-1].proposal
    assert proposal is not None and proposal.risk is Risk.HIGH and proposal.preconditions[0].kind == "objects"


@pytest.mark.spec("B9i")
def test_an_object_that_changes_after_the_approval_is_skipped_and_comes_next_time(
    one: tuple[StorageRuntime, S3Server, str],
) -> None:
    made, server, bucket = one
    server.put(bucket, "a.txt", "shown")
    server.put(bucket, "b.txt", "stays")
    server.put(bucket, "c.txt", "goes")

    def changing(message: str, *_: Any) -> None:
        if message.startswith("reading a.txt"):
            server.put(bucket, "a.txt", "changed")
            server.delete(bucket, "c.txt")

    made.runtime.events.listen(lambda event: changing(event.message) if isinstance(event, Progress) else None)
    facts = made.facts("minio.sync", prefix="", namespace_base="n")
    reasons = {each["object_key"]: each["reason"] for each in facts["skipped"]}
    assert reasons == {"a.txt": "it changed since this was proposed", "c.txt": "it vanished since this was proposed"}
    assert counts(facts) == (1, 0, 2, 1)
    assert counts(made.facts("minio.sync", prefix="", namespace_base="n"))[0] == 1
    assert made.contents(f"n/{bucket}/a.txt") == ["changed"]


@pytest.mark.spec("B9j")
def test_a_cancelled_run_keeps_what_it_did_and_the_next_one_continues(
    one: tuple[StorageRuntime, S3Server, str],
) -> None:
    made, server, bucket = one
    for number in range(5):
        server.put(bucket, f"{number}.txt", f"text {number}")

    async def cancelled() -> Any:
        def on_event(event: object) -> None:
            if isinstance(event, Progress) and event.message == "reading 3.txt":
                made.runtime.cancel(event.call_id)

        made.runtime.events.listen(on_event)
        return await made.runtime.call("minio.sync", {"prefix": ""})

    result = run(cancelled())
    assert result.state is State.UNKNOWN  # as every mutation that is stopped
    done = len(made.namespaces())
    assert 3 <= done < 5
    assert counts(made.facts("minio.sync", prefix=""))[:2] == (5 - done, done)


@pytest.mark.spec("B9j")
def test_a_server_that_dies_in_mid_sync_leaves_what_is_done(tmp_path: Path) -> None:
    with serving("juicefs", tmp_path / "server") as server:
        bucket = server.bucket()
        made = StorageRuntime(tmp_path, server, bucket, timeout=10.0)
        for number in range(5):
            server.put(bucket, f"{number}.txt", f"text {number}")

        def on_event(event: object) -> None:
            if isinstance(event, Progress) and event.message == "reading 2.txt":
                server.process.kill()
                server.process.wait(60)

        made.runtime.events.listen(on_event)
        result = made.call("minio.sync", prefix="")
    assert not result.success
    assert (result.error or "").startswith(f"The sync stopped: {server.entry}")
    assert isinstance(result.structured, dict)
    assert (result.structured["ingested_count"], result.structured["remaining_count"]) == (2, 3)
    assert "3 objects remain: call it again to continue." in result.output
    assert len(made.namespaces()) == 2


KILLED = """
import sys
from pathlib import Path
from tests.tools.storage.storage_runtime import StorageRuntime
folder, url, bucket = sys.argv[1:]
made = StorageRuntime(Path(folder), None, bucket, endpoint=url)
print("ready", flush=True)
made.call("minio.sync", prefix="", namespace_base="n", max_objects=1000)
print("done", flush=True)
"""


@pytest.mark.timeout(rounds(300, 3600))
@pytest.mark.spec("B9j")
def test_a_killed_sync_is_completed_by_the_next_one_without_duplicates(minio: S3Server, tmp_path: Path) -> None:
    """Every round changes the objects, and kills a sync of them at another moment."""
    bucket, objects = minio.bucket(), rounds(12, 60)
    made = StorageRuntime(tmp_path, minio, bucket)
    environment = {**os.environ, SECRET_VARIABLE: SECRET_KEY, "PYTHONPATH": str(Path(__file__).parents[3])}
    for number in range(rounds(2, 40)):
        for key in range(objects):
            minio.put(bucket, f"{key}.txt", f"round {number} text {key}\n\n" + f"{number}-{key} " * 1500)
        before = etags(made)
        argv = [sys.executable, "-c", KILLED, str(tmp_path), minio.url, bucket]
        worker = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment)
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        wait_for_objects(made, before, number % objects + 1, worker)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait(60)
        worker.stdout.close()
        made.facts("minio.sync", prefix="", namespace_base="n", max_objects=1000)
        for key in range(objects):
            contents = made.contents(f"n/{bucket}/{key}.txt")
            assert contents[0].startswith(f"round {number} text {key}\n")
            assert all(f"{number}-{key} " in part for part in contents), contents
            assert len(contents) == len(set(contents)) >= 2


def etags(made: StorageRuntime) -> dict[str, str]:
    """The ETags of the objects whose text is completely in the memory."""
    records = made.storage.records.below(made.settings.address().url.origin, str(made.settings.bucket), "")
    return {record.key: record.etag for record in records if record.state == "ingested"}


def wait_for_objects(
    made: StorageRuntime, before: dict[str, str], wanted: int, worker: subprocess.Popen[bytes]
) -> None:
    """Wait until the worker has ingested that many objects, or has ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and worker.poll() is None:
        if sum(before.get(key) != etag for key, etag in etags(made).items()) >= wanted:
            return
        time.sleep(0.002)


@pytest.mark.spec("B9j")
def test_a_run_stops_at_the_time_limit_and_says_what_remains(
    one: tuple[StorageRuntime, S3Server, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, server, bucket = one
    server.put(bucket, "a.txt", "text")
    monkeypatch.setattr(sync, "MARGIN", 1.0)
    facts = made.facts("minio.sync", prefix="")
    assert (counts(facts), facts["ending"]) == ((0, 0, 0, 1), "time")
    assert made.namespaces() == []


@pytest.mark.timeout(rounds(300, 3600))
@pytest.mark.spec("B9j")
def test_many_objects_are_synced_in_runs_and_each_once(minio: S3Server, tmp_path: Path) -> None:
    bucket, total, step = minio.bucket(), rounds(50, 10_000), rounds(20, 1000)
    made = StorageRuntime(tmp_path, minio, bucket)

    def put(number: int) -> None:
        minio.put(bucket, f"d{number % 7}/{number}.txt", f"text {number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(total)))
    runs, ingested = 0, 0
    while True:
        facts = made.facts("minio.sync", prefix="", max_objects=step)
        runs, ingested = runs + 1, ingested + facts["ingested_count"]
        if not facts["remaining_count"]:
            break
    assert (ingested, runs) == (total, -(-total // step))
    assert len(made.namespaces()) == total
    assert counts(made.facts("minio.sync", prefix="", max_objects=step)) == (0, total, 0, 0)
