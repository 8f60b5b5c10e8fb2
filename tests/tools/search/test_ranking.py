"""Reading and ranking the lines of matching files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.search import plain_scan, ranking
from holdfast.tools.search.ranking import MAX_FILES_READ, MatchedLine, read_hits
from holdfast.tools.search.scope import Query, SearchScope
from tests.tools.search.project_trees import write_tree


@pytest.mark.spec("B2")
@given(
    lines=st.lists(st.text("ab needl\u00e9", max_size=30), max_size=30),
    block=st.integers(1, 40),
    longest=st.integers(40, 60),
)
def test_reading_in_blocks_gives_the_same_lines(lines: list[str], block: int, longest: int) -> None:
    text = "\n".join(lines)
    wanted = [MatchedLine(number, line) for number, line in enumerate(text.split("\n"), 1) if "needle" in line]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile() as file:
        patch.setattr(plain_scan, "BLOCK_SIZE", block)
        patch.setattr(plain_scan, "MAX_LINE", longest)
        file.write(text.encode())
        file.seek(0)
        hits = ranking.matching_lines(file.fileno(), Query("needle"), None)
        assert list(hits) == wanted


@pytest.mark.spec("B2")
def test_a_file_truncated_while_it_is_read_causes_no_crash(tmp_path: Path) -> None:
    big = tmp_path / "big.py"
    big.write_bytes(b"x\n" * (3 << 20) + b"needle\n")
    with big.open("rb") as file:
        hits = ranking.matching_lines(file.fileno(), Query("x"), None)
        assert next(hits).number == 1
        os.truncate(big, 0)
        assert sum(1 for _ in hits) < 3 << 20


@pytest.mark.spec("B2")
def test_a_file_that_vanished_is_skipped(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"a.py": "needle\n"})
    scope = SearchScope(root=root, below="", is_file=False)
    looked = read_hits([("gone.py", 1), ("a.py", 1), ("a.py/b", 2)], Query("needle"), scope, per_file=3)
    assert [file.path for file in looked] == ["a.py"]
    assert MAX_FILES_READ >= 50
