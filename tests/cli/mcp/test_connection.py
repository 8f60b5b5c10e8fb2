"""Selecting configured MCP servers, and the missing SDK."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli
from tests.cli.mcp_servers import serving

__all__ = ["serving"]


@pytest.mark.spec("K1", "E1a")
def test_one_server_can_be_asked_for_alone_and_an_unknown_one_is_named(serving: Cli) -> None:
    done = serving.run("mcp", "servers", "little", "--json")
    assert done.code == 0
    assert done.json["state"] == "ready"
    assert done.json["tools"] == 2
    assert done.json["title"] == "little"
    unknown = serving.run("mcp", "servers", "litle")
    assert unknown.code == 2
    assert unknown.sentence == "Error: There is no MCP server 'litle'. Did you mean 'little'?"


@pytest.mark.spec("K1", "E1a")
def test_without_the_sdk_it_says_what_to_install(serving: Cli) -> None:
    site = serving.project.parent / "site"
    site.mkdir()
    hidden = "u.find_spec = lambda name, *more: None if name == 'mcp' else find(name, *more)"
    (site / "sitecustomize.py").write_text(f"import importlib.util as u\nfind = u.find_spec\n{hidden}\n")
    env = {"PYTHONPATH": str(site)}
    wanted = "pip install 'holdfast[mcp]'"
    assert wanted in serving.run("mcp", "servers", env=env).sentence
    assert wanted in serving.run("mcp", env=env).sentence
    done = serving.run("--set", "sandbox.mode=off", "doctor", "--json", env=env)
    (found,) = [line for line in done.lines if line["name"] == "mcp"]
    assert found["status"] == "bad" and wanted in found["fix"]
    assert serving.run("call", "calculator", "expression=1+1", env=env).code == 0
