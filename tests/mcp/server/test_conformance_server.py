"""The public conformance suite against the MCP interface, in both generations of the protocol."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.store.ledger import Ledger
from tests.mcp.server.fixtures.running import TOKEN, served
from tests.peers import ROOT, conformance, environment
from tests.soak import some

BEARER = ROOT / "tests" / "peers" / "bearer.mjs"
REQUIRED = {"2025-11-25": 30, "2026-07-28": 37}
"""How many scenarios a revision requires of a server: a suite that lists fewer is not the one we mean."""


EVERYWHERE = {"test_simple_text", "test_error_handling", "fixture_read", "fixture_prompt", "fixture_complete"}
"""Some of what both revisions use."""


class Server(NamedTuple):
    address: str
    folder: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("fixtures")
    with served(folder) as address:
        yield Server(address, folder)


def run(folder: Path, *arguments: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    node, *script = conformance()
    command = [node, "--import", BEARER.as_uri(), *script, *arguments]
    env = environment(folder, HOLDFAST_TOKEN=token)
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=100, check=False)


def listed(folder: Path, revision: str) -> tuple[list[str], list[str]]:
    """The scenarios that are required of a server, and those that run beside them and belong to no extension."""
    text = run(folder, "list", "--requirements", revision).stdout
    required = re.search(r"^Server scenarios.*?:\n((?: +- \S+\n)+)", text, re.MULTILINE)
    assert required is not None, text
    beside = re.findall(r"^  (?:pending|added-after-release) \(\d+\):\n((?:    - .*\n)+)", text, re.MULTILINE)
    names = [name for block in beside for name in re.findall(r"- (\S+) \[server\]", block)]
    return re.findall(r"- (\S+)", required[1]), names


def outcomes(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What was checked, by scenario, from the files the suite wrote."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in folder.glob("server-*/checks.json"):
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name.removeprefix("server-"))
        found[name] += json.loads(path.read_text())
    return found


def having(checks: list[dict[str, Any]], *statuses: str) -> list[str]:
    return [f"{item['id']}: {item.get('errorMessage')}" for item in checks if item["status"] in statuses]


def recorded(folder: Path, since: float) -> set[str]:
    """The tools whose calls are in the ledger with a decision, like those of any other interface."""
    with Ledger.open(folder / "ledger.db", read_only=True) as ledger:
        assert ledger.verify().ok
        calls = [record for record in ledger.calls(10_000) if record.received_at >= since]
    assert all(record.decisions and record.call.caller.interface == "mcp" for record in calls)
    return {record.call.tool for record in calls}


@pytest.mark.spec("K3a")
@pytest.mark.parametrize("revision", some(sorted(REQUIRED, reverse=True), 1))
def test_every_scenario_a_revision_requires_of_a_server_passes(revision: str, server: Server, tmp_path: Path) -> None:
    required, beside = listed(tmp_path, revision)
    results = tmp_path / "results"
    began = time.time()
    done = run(tmp_path, "server", "--url", server.address, "--requirements", revision, "--output-dir", str(results))
    checked = outcomes(results)
    failed = {name: having(checked[name], "FAILURE", "WARNING", "SKIPPED") for name in required}
    assert {name: why for name, why in failed.items() if why} == {}, done.stdout[-4000:]
    assert len(required) == REQUIRED[revision]
    assert [name for name in required if not having(checked[name], "SUCCESS")] == []
    assert {name: why for name in beside if (why := having(checked[name], "FAILURE"))} == {}
    assert len(beside) >= 3
    assert done.returncode == 0, done.stdout[-4000:]
    assert recorded(server.folder, began) >= EVERYWHERE


@pytest.mark.spec("K3a")
def test_the_suite_gets_nowhere_without_the_token(server: Server, tmp_path: Path) -> None:
    scenario = ("--scenario", "tools-list", "--output-dir", str(tmp_path))
    done = run(tmp_path, "server", "--url", server.address, *scenario, token="another")
    assert done.returncode == 1
    assert "Authorization: Bearer TOKEN" in json.dumps(outcomes(tmp_path)["tools-list"])
