"""Writers of folders, such as MCP servers that could write to a document, across processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import time

import pytest

from holdfast.store.folder_writers import WriterRegistration, may_have_written


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.spec("U2")
def test_a_writer_counts_while_it_lives_and_afterwards_for_earlier_times(tmp_path: Path) -> None:
    inside, outside, before = tmp_path / "a" / "x.md", tmp_path / "b" / "x.md", time()
    noted = WriterRegistration([tmp_path / "a"])
    assert may_have_written(inside, None) and not may_have_written(outside, None)
    noted()
    assert [may_have_written(inside, since) for since in (None, before, time() + 1)] == [False, True, False]
    WriterRegistration([tmp_path / "a"])()
    assert len(list((tmp_path / "state" / "holdfast" / "writers").iterdir())) == 1


@pytest.mark.spec("U2")
def test_a_killed_writer_counts_until_its_end_is_noticed(tmp_path: Path) -> None:
    script = "import os, sys; from pathlib import Path; from holdfast.store.folder_writers import WriterRegistration\n"
    script += "WriterRegistration([Path(sys.argv[1])]); os._exit(0)"
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60)
    assert not may_have_written(tmp_path / "x.md", None)
    WriterRegistration([tmp_path / "elsewhere"])
    assert may_have_written(tmp_path / "x.md", 0.0)
    assert not may_have_written(tmp_path / "x.md", time() + 1)


@pytest.mark.spec("U2")
def test_an_unreadable_record_is_ignored(tmp_path: Path) -> None:
    noted = WriterRegistration([tmp_path])
    (tmp_path / "state" / "holdfast" / "writers" / "0damaged").write_bytes(b"{")
    assert may_have_written(tmp_path / "x.md", None)
    noted()
    assert not may_have_written(tmp_path / "x.md", None)
