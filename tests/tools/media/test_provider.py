"""A provider that does a tool's work is approved per host. `test_analyze` and `test_transcribe` test the two phases."""

from __future__ import annotations

import pytest

from holdfast.contract.tool import Reach
from holdfast.tools.media.provider import RemoteEngine


@pytest.mark.spec("B11i")
def test_an_engine_reaches_its_host_and_only_reads_there() -> None:
    assert RemoteEngine(name="acme:eye", host="models.example:8443").reach == Reach(
        ("models.example:8443",), sends=False
    )
