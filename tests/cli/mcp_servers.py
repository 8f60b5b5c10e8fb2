"""A project with MCP servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import sample_mcp_server
from tests.cli.command_line import Cli

CONFIG = """\
[mcp.servers.little]
command = {python}
args = ["-I", "sample_mcp_server.py"]
cwd = "$root"

[mcp.servers.broken]
command = "/bin/sh"
args = ["-c", "read line; exit 3"]
start_timeout = 50.0

[mcp.servers.sleeping]
command = "/bin/false"
enabled = false

[approval]
auto_approve = ["mcp:little:*"]
"""


@pytest.fixture
def serving(cli: Cli) -> Cli:
    """A project with a working server, a broken one and a disabled one."""
    source = Path(sample_mcp_server.__file__).read_text()
    (cli.project / "sample_mcp_server.py").write_text(source)
    cli.configure(CONFIG.format(python=json.dumps(sys.executable)))
    return cli


def asks(cli: Cli, method: str, **params: Any) -> None:
    """Set the question that the server's tool `ask` asks."""
    (cli.project / "question.json").write_text(json.dumps({"method": method, "params": params}))


def asks_form(cli: Cli, message: str, required: tuple[str, ...] = (), **fields: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    asks(cli, "elicitation/create", message=message, requestedSchema=schema)


def edit_server(cli: Cli, old: str, new: str) -> None:
    """Edit the source of the sample server, so that another one runs under the same name."""
    file = cli.project / "sample_mcp_server.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
