"""`docs/api.md` lists every public name, exactly as the source declares it."""

from __future__ import annotations

import pytest

from scripts.api_reference import missing, reference
from tests.docs.programs import ROOT


@pytest.mark.spec("T2")
def test_every_public_name_is_in_the_reference() -> None:
    assert missing() == set()


def test_the_reference_agrees_with_the_source() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    assert page == reference(), "out of date: python -m scripts.api_reference > docs/api.md"
