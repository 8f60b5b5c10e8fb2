"""Start-up: a command imports only what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.command_line import Cli

_THEN_TELL = "; sys.stderr.write('\\n' + ' '.join(sys.modules))"
_VERSION = "import sys; sys.argv = ['holdfast', '--version']; from holdfast.__main__ import main; main()"
_RUN = "import sys; from holdfast.cli.app import run; run(sys.argv[1:])"


def imported(cli: Cli, code: str, *args: str) -> set[str]:
    """Return the modules that are loaded after the code ran."""
    done = subprocess.run(
        [sys.executable, "-c", code + _THEN_TELL, *args],
        capture_output=True, check=True, cwd=cli.project, env=cli.env, timeout=60, text=True,
    )  # fmt: skip
    return set(done.stderr.rpartition("\n")[2].split())


@pytest.mark.spec("E1a")
def test_version_imports_only_the_package(cli: Cli) -> None:
    modules = imported(cli, _VERSION)
    assert {name for name in modules if name.startswith("holdfast")} == {"holdfast", "holdfast.__main__"}
    assert not modules & {"click", "asyncio", "msgspec", "jiter", "jsonschema_rs", "sqlite3", "typing", "inspect"}


@pytest.mark.spec("E1a")
def test_a_call_of_a_built_in_tool_imports_neither_click_nor_package_metadata(cli: Cli) -> None:
    modules = imported(cli, _RUN, "call", "calculator", "expression=1+1")
    assert "holdfast.runtime.runtime" in modules
    heavy = {"click", "rich", "pydantic", "griffe", "importlib.metadata", "anyio", "opentelemetry", "tomllib"}
    assert not modules & heavy


@pytest.mark.spec("E1a")
def test_a_command_loads_only_its_own_module(cli: Cli) -> None:
    modules = imported(cli, _RUN, "pending")
    loaded = {name for name in modules if name.startswith("holdfast.cli.commands.")}
    assert loaded == {"holdfast.cli.commands.pending"}
    assert "rich" not in modules
