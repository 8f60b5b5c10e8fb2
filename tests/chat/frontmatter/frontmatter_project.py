"""Evaluated frontmatter, and the decisions of a runtime with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from holdfast import Runtime
from holdfast.agent.conversation import Diagnostic
from holdfast.chat.frontmatter.evaluation import (
    Baseline,
    DocumentRules,
    EvaluatedFrontmatter,
    chosen_tools,
    document_rules,
)
from holdfast.chat.frontmatter.evaluator import evaluate
from holdfast.chat.lua.host import LuaHost
from holdfast.config.config import Config
from holdfast.config.layers import LoadedConfig, load
from holdfast.contract.tool import Tool
from holdfast.runtime.runtime import Rules
from holdfast.tools import builtin_tools

TOOLS: tuple[Tool, ...] = tuple(builtin_tools())
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "calculator": ("calculator", {"expression": "1 + 1"}),
    "read": ("file.read", {"path": "a.txt"}),
    "write": ("file.write", {"path": "new.txt", "content": "x"}),
    "edit": ("file.edit", {"path": "a.txt", "search": "one", "replace": "two"}),
    "bash": ("shell.exec", {"command": "ls"}),
    "rm": ("shell.exec", {"command": "rm -rf build"}),
}


class FrontmatterProject:
    """A project with a user configuration."""

    def __init__(self, folder: Path, user: str = "") -> None:
        self.root = folder / "project"
        self.root.mkdir(exist_ok=True)
        (self.root / "a.txt").write_text("one\n")
        self._user = folder / "user.toml"
        # What a sandbox would approve is for other tests.
        self._user.write_text(f"sandbox.mode = 'off'\n{user}")

    def baseline(self) -> Baseline:
        return Baseline(config=self.load().config, tools=TOOLS)

    def load(self, document: EvaluatedFrontmatter | None = None, *, trusted: bool = False) -> LoadedConfig:
        return load(
            root=self.root,
            user_file=self._user,
            is_trusted=lambda path, digest: False,
            document=None if document is None else document.settings,
            document_trusted=trusted,
        )

    def rules(self, document: EvaluatedFrontmatter, *, trusted: bool) -> DocumentRules:
        return document_rules(document, self.load(document, trusted=trusted), trusted=trusted)

    def runtime(self, document: EvaluatedFrontmatter, *, trusted: bool) -> Runtime:
        made = self.rules(document, trusted=trusted)
        return Runtime(
            TOOLS,
            config=made.config,
            root=self.root,
            nobody="deny",
            rules=Rules(document=made.policy, caps=made.caps),
        )

    def verdicts(
        self, document: EvaluatedFrontmatter, *, trusted: bool, calls: str = "calculator read write edit bash"
    ) -> str:
        """The verdicts about these calls: `approve ask …`."""

        async def judge() -> list[str]:
            async with self.runtime(document, trusted=trusted) as runtime:
                decisions = [await runtime.judge(*CALLS[name]) for name in calls.split()]
            return [str(decision.verdict) if decision else "none" for decision in decisions]

        return " ".join(asyncio.run(judge()))


def lua_document(code: str, lua: LuaHost, project: FrontmatterProject | None = None) -> EvaluatedFrontmatter:
    base = Baseline(tools=TOOLS) if project is None else project.baseline()
    return evaluate("lua", code, base, lua)


def without_diagnostics(document: EvaluatedFrontmatter) -> EvaluatedFrontmatter:
    """The document, checked to have no diagnostics."""
    assert document.diagnostics == ()
    return document


def config_of(document: EvaluatedFrontmatter, project: FrontmatterProject, *, trusted: bool) -> Config:
    return project.rules(document, trusted=trusted).config


def tools_of(document: EvaluatedFrontmatter, *, trusted: bool = True) -> list[str] | None:
    chosen = chosen_tools(document, TOOLS, trusted=trusted)
    return None if chosen is None else sorted(chosen)


def only_diagnostic(document: EvaluatedFrontmatter) -> Diagnostic:
    """The only diagnostic."""
    [found] = document.diagnostics
    return found
