"""Copies of attachments for a person: pruned with old calls, and removed with their session."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from holdfast.contract.result import Attachment
from holdfast.store.ledger import Ledger
from holdfast.store.retention import prune
from holdfast.store.saved_attachments import remove_copies, remove_old, save_private

ITEM = Attachment(kind="file", mime_type="text/plain", data=b"words", name="b.txt")


@pytest.mark.spec("T10m")
def test_old_copies_are_removed_and_counted(tmp_path: Path) -> None:
    old, new = save_private(tmp_path, ITEM), save_private(tmp_path, Attachment(kind="file", mime_type="", data=b"x"))
    own = tmp_path / "attachments" / "mine-too.txt"
    own.write_text("not ours")
    for path in (old, own):
        os.utime(path, (1.0, 1.0))
    limit = time.time() - 3600
    assert remove_old(tmp_path, limit, dry_run=True) == (1, 5) and old.exists()
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        report = prune(ledger, older_than=limit, max_bytes=None, by="test")
    assert (report.blobs, report.freed) == (1, 5)
    assert (old.exists(), new.exists(), own.exists()) == (False, True, True)


def test_the_copies_of_a_content_are_removed_by_its_digest(tmp_path: Path) -> None:
    path = save_private(tmp_path, ITEM)
    assert remove_copies(tmp_path, ["0" * 64]) == (0, 0)
    assert remove_copies(tmp_path, [ITEM.digest]) == (1, 5) and not path.exists()


@pytest.mark.spec("T10m")
def test_a_copy_that_another_process_has_removed_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [Attachment(kind="file", mime_type="text/plain", data=b"%d" % number) for number in range(4)]
    paths = [save_private(tmp_path, item) for item in items]
    unlink, raced = Path.unlink, list[Path]()

    def race(path: Path, missing_ok: bool = False) -> None:
        if not raced:
            raced.append(path)
            unlink(path)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", race)
    assert remove_copies(tmp_path, [item.digest for item in items]) == (3, 3)
    assert raced and not any(path.exists() for path in paths)


def test_a_ledger_in_memory_removes_no_files_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = save_private(tmp_path, ITEM)
    os.utime(path, (1.0, 1.0))
    with Ledger.in_memory() as ledger:
        prune(ledger, older_than=time.time(), max_bytes=None, by="test")
    assert path.exists()
