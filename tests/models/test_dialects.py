"""There is a dialect for each wire API."""

from __future__ import annotations

from typing import get_args

import pytest

from holdfast.config.config import ModelApi
from holdfast.models.dialects import DIALECTS


@pytest.mark.spec("M1")
def test_every_api_that_can_be_configured_has_a_dialect() -> None:
    assert set(DIALECTS) == set(get_args(ModelApi))
