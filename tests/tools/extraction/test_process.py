"""The limits that the extraction process sets itself."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from holdfast.tools.extraction.extractor import Extractor
from tests.runtime.support import run
from tests.tools.extraction.test_extractor import PAGE

pytestmark = pytest.mark.spec("B6d")


def test_the_process_limits_its_memory_and_writes_no_files() -> None:
    async def limits() -> str:
        extractor = Extractor()
        try:
            await extractor.ask(PAGE, b"<p>one", 60)
            return await asyncio.to_thread(Path(f"/proc/{extractor.pids[0]}/limits").read_text)
        finally:
            extractor.close()

    found = run(limits())
    for name, most in (("address space", 3 * 1024**3), ("file size", 0), ("processes", 0), ("core file size", 0)):
        assert re.search(rf"^Max {name} +{most} ", found, re.MULTILINE), found
