"""Pages of a text file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.files.pages import LineReader, OffsetBeyondEnd, PageLimits


@given(st.binary(max_size=400), st.integers(1, 5), st.integers(200, 400))
@pytest.mark.spec("B1")
def test_concatenated_pages_are_the_file(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cap: int, room: int
) -> None:
    path = tmp_path_factory.mktemp("pages") / "a"
    path.write_bytes(data)
    with path.open("rb") as file:
        lines = LineReader(file.fileno(), len(data), lambda: False)
        offset: int | None = 1
        content, total, cut = "", None, False
        while offset is not None:
            page = lines.page(offset, None, PageLimits(1000, room, cap))
            if page.limited_by == "line":
                cut = True
                content += data.split(b"\n")[offset - 1].decode(errors="replace")
                content += "\n" if page.next_offset else ""
            content += page.content
            assert page.lines <= cap
            offset, total = page.next_offset, page.total_lines
        with pytest.raises(OffsetBeyondEnd) as past:
            lines.page((total or 0) + 2, None, PageLimits(1000, room, cap))
    expected = data.decode(errors="replace")
    assert content == (expected.removesuffix("\n") if cut and not content.endswith("\n") else expected)
    assert total == past.value.total_lines == expected.count("\n") + (not expected.endswith("\n") and expected != "")
