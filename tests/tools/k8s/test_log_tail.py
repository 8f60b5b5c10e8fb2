"""The tail of a log: the same lines however the log is divided into blocks, in constant memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.k8s.log_tail import LogTail
from tests.soak import rounds

pytestmark = pytest.mark.spec("B10d")


def fed(blocks: list[bytes], lines: int = 1000, size: int = 1_000_000, line: int = 100) -> LogTail:
    tail = LogTail(lines, size, max_line=line)
    for block in blocks:
        tail.feed(block)
    tail.end()
    return tail


@given(st.lists(st.binary(max_size=30) | st.just(b"\n") | st.just(b"line\n"), max_size=20))
def test_blocks_do_not_matter(blocks: list[bytes]) -> None:
    whole = b"".join(blocks)
    at_once, in_parts = fed([whole]), fed(blocks)
    assert at_once.kept == in_parts.kept
    assert in_parts.bytes == len(whole)
    assert in_parts.lines == whole.count(b"\n") + (not whole.endswith(b"\n") and whole != b"")


@given(st.lists(st.binary(max_size=200)), st.integers(1, 5), st.integers(10, 400))
def test_neither_more_lines_nor_more_bytes_are_kept_than_allowed(blocks: list[bytes], lines: int, size: int) -> None:
    tail = fed(blocks, lines, size, 60)
    assert len(tail.kept) <= lines
    assert len(tail.kept) <= 1 or sum(len(line.encode()) + 1 for line in tail.kept) <= size
    assert tail.dropped == tail.lines - len(tail.kept)


def test_the_last_lines_are_kept() -> None:
    tail = fed([b"".join(b"line %d\n" % number for number in range(50))], lines=3)
    assert tail.kept == ["line 47", "line 48", "line 49"]
    assert (tail.lines, tail.dropped) == (50, 47)


def test_a_long_line_is_cut_and_says_so() -> None:
    tail = fed([b"x" * 60, b"x" * 60, b"\nnext\n"])
    assert tail.kept == [f"{'x' * 100}… [20 more bytes]", "next"]
    assert tail.long_lines == 1


def test_invalid_bytes_become_replacement_characters_and_colours_go() -> None:
    assert fed([b"a\xff\xfeb\r\n\x1b[31;1mred\x1b[0m \x1b[2J\n"]).kept == ["a��b", "red \x1b[2J"]


def test_memory_does_not_grow_with_the_log() -> None:
    tail = LogTail(100, 40_000)
    block = (b"y" * 99 + b"\n") * 1000
    long = b"z" * 1_000_000
    tracemalloc.start()
    try:
        for _ in range(rounds(20, 1000)):
            tail.feed(block)
            tail.feed(long)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
    assert tail.bytes == rounds(20, 1000) * (len(block) + len(long))
