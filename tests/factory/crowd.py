"""A module of tools, as `tools.modules` names one: more than a model is sent."""

from __future__ import annotations

from holdfast import Tool
from tests.registry.many_tools import many_tools


def definitions() -> list[Tool]:
    return many_tools(150)
