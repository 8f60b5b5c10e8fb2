"""The built-in tools. They import `contract`, `text`, `fs` and `net`, and reach everything else through their
context."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from holdfast.contract.tool import Tool

MODULES: Final = (
    "ask_user", "browser.actions", "browser.navigation", "browser.page_text", "calculator", "cron", "files.edit",
    "files.file_list", "files.read", "files.write", "git.commands", "google.gcal", "google.gdocs", "google.gdrive",
    "google.gmail", "google.gtasks", "k8s.deployments", "k8s.logs", "k8s.pods", "media.analyze", "media.send",
    "media.transcribe", "memory", "output_read", "processes", "search.search", "sessions", "shell", "skill_load",
    "storage.ingest", "storage.share", "storage.sync", "system_info", "tool_search", "web.fetch", "web.search",
)  # fmt: skip
"""The modules with built-ins. A tool is a constant of its module and declares everything about itself."""


def builtin_tools() -> list[Tool]:
    """Return every built-in, including those that need a project root."""
    modules = (import_module(f"{__name__}.{name}") for name in MODULES)
    return [value for module in modules for value in vars(module).values() if isinstance(value, Tool)]
