"""`docs/cli.md` is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.reference import reference

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.mark.spec("E1a")
def test_the_reference_is_current() -> None:
    wanted = reference()
    assert DOCS.read_text() == wanted, "run `python -m holdfast.cli.reference > docs/cli.md`"
