"""A field that is added to `Result` is redacted, stored, shown and sent without further code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast

ADDED = """
    notes: Annotated[str, Doc("what a tool wants to say beside its output")] = ""
    facts: Annotated[Json, Doc("what else a tool knows")] = None

    @property
    def text("""
SECRET = "correct-horse-battery"
PROGRAM = f'''
import asyncio, json, sys
from pathlib import Path
from holdfast import Result, Runtime, tool
from holdfast.json_output import result_output
from holdfast.cli.reference import objects
from holdfast.mcp.server.wire import to_wire
from holdfast.store.ledger import Ledger
from msgspec import to_builtins
import msgspec

@tool(effects=())
def talk() -> Result:
    return Result(success=True, output="said", notes="{SECRET} noted", facts={{"{SECRET}": ["{SECRET}", 3]}})

async def main():
    ledger = Ledger.open(Path(sys.argv[1]) / "ledger.db")
    ledger.redactor.add("password", "{SECRET}")
    async with Runtime(tools=[talk], ledger=ledger, asker=lambda pending: True) as runtime:
        result = await runtime.call("talk", {{}})
        stored = ledger.call(result.call_id).result
        entries = [line.decode() for line in ledger.export()]
        print(msgspec.json.encode({{
            "result": result, "stored": stored, "entries": entries, "shown": result_output(result),
            "sent": to_wire(result, modern=True), "documented": objects()["result"], "problem": ledger.verify().problem,
        }}).decode())

asyncio.run(main())
'''


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Where the two fields appear, in a copy of holdfast whose `Result` has them."""
    folder = tmp_path_factory.mktemp("with-fields")
    package = folder / "holdfast"
    shutil.copytree(Path(holdfast.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    source = package / "contract" / "result.py"
    head, found, tail = source.read_text().partition("\n    @property\n    def text(")
    assert found, "the end of the fields has moved"
    source.write_text(f"{head}{ADDED}{tail}")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, folder],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


CLEAN = {"[secret password]": ["[secret password]", 3]}


def test_a_new_result_field_is_redacted_for_the_caller(seen: dict[str, Any]) -> None:
    assert (seen["result"]["notes"], seen["result"]["facts"]) == ("[secret password] noted", CLEAN)


def test_a_new_result_field_is_stored_without_secrets_and_read_back(seen: dict[str, Any]) -> None:
    assert (seen["stored"]["notes"], seen["stored"]["facts"]) == ("[secret password] noted", CLEAN)
    assert any("[secret password] noted" in entry for entry in seen["entries"])
    assert not any(SECRET in entry for entry in seen["entries"])
    assert seen["problem"] is None


def test_a_new_result_field_is_shown_and_documented(seen: dict[str, Any]) -> None:
    assert (seen["shown"]["notes"], seen["shown"]["facts"]) == ("[secret password] noted", CLEAN)
    assert seen["documented"]["notes"] == "what a tool wants to say beside its output"


def test_a_new_result_field_is_sent_to_mcp_clients(seen: dict[str, Any]) -> None:
    meta = seen["sent"]["_meta"]
    assert (meta["holdfast/notes"], meta["holdfast/facts"]) == ("[secret password] noted", CLEAN)
