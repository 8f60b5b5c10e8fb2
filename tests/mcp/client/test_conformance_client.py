"""The public conformance suite against the client bridge: every scenario a revision requires, each on its own wire."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.mcp.client.conformance_client import act
from tests.peers import conformance, environment
from tests.soak import some

INTERFACE = Path(__file__).with_name("conformance_relay.py")
AT_ONCE = 4
SECONDS = 110
REQUIRED = {"2025-11-25": 18, "2026-07-28": 32}
"""How many scenarios each revision requires; it is frozen."""
_LINE = re.compile(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed(?:, (\d+) warnings)?$", re.M)


@pytest.mark.spec("K1")
@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.parametrize("revision", some(sorted(REQUIRED, reverse=True), 1))
def test_every_client_scenario_the_revision_requires_passes(revision: str, tmp_path: Path) -> None:
    status, report, told = asyncio.run(_run(revision, tmp_path))
    results = {name: tuple(int(count or 0) for count in counts) for name, *counts in _LINE.findall(report)}
    optional = set(re.findall(r"^  [✓✗] (\S+) \(", report, re.M))
    required = {name: counts for name, counts in results.items() if name not in optional}
    assert len(required) == REQUIRED[revision], report
    bad = [name for name, (passed, failed, warned) in required.items() if not passed or failed or warned]
    assert not bad, f"{report}\n{told}"
    assert status == 0, report
    assert results["json-schema-2020-12-preservation"][1:] == (0, 0), report


async def _run(revision: str, folder: Path) -> tuple[int, str, str]:
    async with asyncio.timeout(SECONDS), _interface() as socket:
        command = f"{sys.executable} -I -S {INTERFACE} {socket}"
        suite = await asyncio.create_subprocess_exec(
            *conformance(), "client", "--requirements", revision, "--command", command,
            "--timeout", f"{SECONDS * 1000}", "--verbose", "--output-dir", str(folder / "results"),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=folder, env=environment(folder),
        )  # fmt: skip
        try:
            report, _ = await suite.communicate()
        finally:
            if suite.returncode is None:
                suite.kill()
                await suite.wait()
    said = sorted((folder / "results").rglob("stdout.txt"))
    told = "\n".join(f"{path.parent.name}: {path.read_text()}" for path in said)
    return suite.returncode or 0, report.decode(), told


@asynccontextmanager
async def _interface() -> AsyncGenerator[str]:
    """Where the programs the suite starts bring their scenarios; a few are worked on at once."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(await reader.readline())
        try:
            async with limit:
                writer.write("\n".join(await act(asked["url"], asked["context"])).encode())
        except Exception as error:
            writer.write(repr(error).encode())
        writer.close()
        await writer.wait_closed()

    with tempfile.TemporaryDirectory(prefix="hf") as short:  # the path of a socket must be short
        server = await asyncio.start_unix_server(serve, f"{short}/s")
        try:
            yield f"{short}/s"
        finally:
            server.close()
