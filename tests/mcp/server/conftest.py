"""The command line of a user of its own, for the tests that serve MCP with the real command."""

from __future__ import annotations

from tests.cli.conftest import asking, cli

__all__ = ["asking", "cli"]
