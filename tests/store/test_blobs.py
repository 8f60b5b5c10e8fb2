"""Content-addressed blobs and stored outputs."""

from __future__ import annotations

import os
import stat
import tracemalloc
from pathlib import Path

import pytest

from holdfast.contract.errors import LedgerCorrupt, LedgerUnavailable
from holdfast.store.blobs import Blobs
from holdfast.store.redact import Redactor

SECRET = "hunter2-hunter2"


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    redactor = Redactor()
    redactor.add("DB_PASSWORD", SECRET)
    return Blobs(tmp_path / "state" / "blobs", redactor)


def files_in(blobs: Blobs) -> list[Path]:
    return [file for file in blobs.folder.rglob("*") if file.is_file()]


@pytest.mark.spec("X10")
def test_the_same_content_is_stored_once_atomically_and_private(blobs: Blobs) -> None:
    content = bytes(range(256)) * 100
    reference = blobs.put(content)
    assert blobs.put(content) == reference
    assert blobs.read(reference) == content
    (file,) = files_in(blobs)
    assert file.name == reference
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(blobs.folder.stat().st_mode) == 0o700


@pytest.mark.spec("X10")
def test_content_changed_on_disk_is_not_returned(blobs: Blobs) -> None:
    reference = blobs.put(b"before")
    blobs.path(reference).write_bytes(b"after")
    with pytest.raises(LedgerCorrupt, match="has been changed"):
        blobs.read(reference)


@pytest.mark.spec("X10")
@pytest.mark.parametrize("reference", ["../../../etc/passwd", "", "A" * 64, "0" * 63, "0" * 64 + "\n", "0" * 65])
def test_an_invalid_reference_is_refused(blobs: Blobs, reference: str) -> None:
    with pytest.raises(LedgerUnavailable, match="is not a content reference"):
        blobs.read(reference)
    with pytest.raises(LedgerUnavailable, match="is not a content reference"):
        blobs.read_lines(reference, 1, 1)


@pytest.mark.spec("X10")
def test_missing_content_is_an_error(blobs: Blobs) -> None:
    with pytest.raises(LedgerUnavailable, match="no longer stored"):
        blobs.read("0" * 64)
    with pytest.raises(LedgerUnavailable, match="no longer stored"):
        blobs.read_lines("0" * 64, 1, 1)


@pytest.mark.spec("X7")
def test_an_output_is_stored_up_to_the_limit_and_reports_the_dropped_bytes(blobs: Blobs) -> None:
    kept = blobs.spill("a" * 10 + "é" * 10, 15)
    assert (kept.size, kept.dropped) == (14, 16)
    assert blobs.read(kept.reference).decode() == "a" * 10 + "éé"
    whole = blobs.spill("one\ntwo\n", 1000)
    assert (whole.size, whole.dropped, whole.lines) == (8, 0, 3)
    nothing = blobs.spill("abc", 0)
    assert (nothing.size, nothing.dropped) == (0, 3)


@pytest.mark.spec("X7", "P7")
def test_an_output_in_chunks_is_stored_like_a_whole_one_and_redacted(blobs: Blobs) -> None:
    text = f"é start {SECRET} middle \u20ac\n{SECRET}"
    raw = text.encode() + b"\xff\xfe end\n"
    with blobs.spill_writer(10_000) as writer:
        for at in range(len(raw)):
            writer.write(raw[at : at + 1])
        pieces = writer.close()
    assert pieces == blobs.spill(raw, 10_000)
    expected = text.replace(SECRET, "[secret DB_PASSWORD]").encode() + b"\xff\xfe end\n"
    assert blobs.read(pieces.reference) == expected


@pytest.mark.spec("X7")
def test_an_abandoned_output_leaves_no_file(blobs: Blobs) -> None:
    def give_up() -> None:
        with blobs.spill_writer(100) as writer:
            writer.write("half of it")
            raise KeyError

    with pytest.raises(KeyError):
        give_up()
    assert files_in(blobs) == []


@pytest.mark.spec("X7", "X14")
@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        *((1, 2, "one\ntwo"), (2, 1, "two"), (3, 5, "\nfour\n"), (4, 1, "four")),
        *((5, 1, ""), (9, 3, ""), (0, 1, "one"), (2, 0, "")),
    ],
)
def test_lines_are_read_back_by_number(blobs: Blobs, offset: int, limit: int, expected: str) -> None:
    kept = blobs.spill("one\ntwo\n\nfour\n", 1000)
    assert blobs.read_lines(kept.reference, offset, limit) == (expected, 5)


@pytest.mark.spec("X7", "X14")
def test_lines_that_span_blocks_are_read_back_unbroken(blobs: Blobs) -> None:
    lines = [f"{number} " + "x" * (number % 300) for number in range(3000)]
    kept = blobs.spill("\n".join(lines), 10**7)
    for offset in (1, 400, 1500, 2990):
        text, total = blobs.read_lines(kept.reference, offset, 20)
        assert total == 3000
        assert text.split("\n") == lines[offset - 1 : offset + 19]


@pytest.mark.spec("X7", "X8")
def test_a_huge_output_is_written_and_read_in_constant_memory(blobs: Blobs) -> None:
    piece = b"y" * 65_536
    tracemalloc.start()
    with blobs.spill_writer(20_000_000) as writer:
        for _ in range(400):
            writer.write(piece)
        kept = writer.close()
    text, total = blobs.read_lines(kept.reference, 1, 2000, 50_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (kept.size, kept.dropped) == (20_000_000, 400 * 65_536 - 20_000_000)
    assert (len(text), total) == (50_000, 1)
    assert peak < 3_000_000


@pytest.mark.spec("B12c")
def test_contents_are_discarded_unless_used_or_just_claimed_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = Blobs(tmp_path, Redactor())
    gone, used, claimed = (blobs.put(text) for text in (b"gone", b"used", b"claimed"))
    for reference in (gone, used, claimed):
        os.utime(blobs.path(reference), (1e9, 1e9))
    waited: list[float] = []
    monkeypatch.setattr("holdfast.store.blobs.time.sleep", waited.append)

    def still_used() -> set[str]:
        blobs.touch(claimed)
        return {used}

    assert blobs.discard({gone, used, claimed, "0" * 64}, still_used) == (1, 4)
    assert [blobs.has(reference) for reference in (gone, used, claimed)] == [False, True, True]
    assert waited == []
    young = blobs.put(b"young")
    assert blobs.discard({young}, lambda: ()) == (1, 5)
    assert len(waited) == 1 and 0 < waited[0] <= 6
