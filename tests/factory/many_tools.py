"""A module for `tools.modules` with more tools than fit into one request."""

from __future__ import annotations

from holdfast import Tool
from tests.registry.many_tools import many_tools


def definitions() -> list[Tool]:
    return many_tools(150)
