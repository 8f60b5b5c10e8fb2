"""`output.read`: the first page of an output. tests/runtime/test_output.py tests it in a runtime."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from holdfast.contract.context import Context
from holdfast.text import truncate
from holdfast.tools.output_read import first_page
from tests.tools.files.fake_context import FakeContext


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return cast(Context, FakeContext(tmp_path))


@pytest.mark.spec("X7")
def test_a_short_text_is_one_page_with_its_line_numbers(ctx: Context) -> None:
    page = first_page("a\nb", 5, ctx)
    assert (page.content, page.lines, page.cut, page.range) == ("a\nb", 2, False, "lines 5-6")


@pytest.mark.spec("X7")
def test_a_line_longer_than_a_page_is_cut_and_its_size_given(ctx: Context) -> None:
    page = first_page("x" * (2 * truncate.MAX_BYTES) + "\nnext", 3, ctx)
    assert page.content == "x" * truncate.MAX_BYTES
    assert (page.lines, page.cut) == (1, True)
    assert page.range.startswith("the first ") and page.range.endswith(" of line 3 (100.0KB long)")
