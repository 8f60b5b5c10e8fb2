"""A project with files in which texts are expanded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.frontmatter.evaluation import NO_FRONTMATTER, Baseline, EvaluatedFrontmatter
from holdfast.chat.frontmatter.evaluator import evaluate
from holdfast.chat.lua.host import LuaHost
from holdfast.chat.templates.expansion import Expanded, ExpansionScope, FileAccess, expand
from holdfast.config.config import ChatConfig, Config, Reach, SandboxConfig
from holdfast.contract.message import Text

PNG = b"\x89PNG\r\n\x1a\n\0rest"


class TemplateProject:
    def __init__(self, folder: Path, lua: LuaHost) -> None:
        self.root = folder / "project"
        self.docs = self.root / "docs"
        self.docs.mkdir(parents=True)
        self.lua = lua

    def put(self, **files: str | bytes) -> None:
        """Write files into the document's folder; `__` in a name stands for a dot."""
        for name, content in files.items():
            path = self.docs / name.replace("__", ".")
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def expand(
        self,
        text: str,
        code: str = "",
        *,
        language: str = "lua",
        files: Reach = "project",
        line: int = 1,
        **sandbox: Any,
    ) -> Expanded:
        found: EvaluatedFrontmatter = evaluate(language, code, Baseline(), self.lua) if code else NO_FRONTMATTER
        assert found.diagnostics == ()
        document = self.docs / "t.chat"
        config = Config(sandbox=SandboxConfig(**sandbox), chat=ChatConfig(files=files))
        reach = FileAccess.of(config, document=document, root=self.root)
        return expand(text, ExpansionScope(files=reach, lua=self.lua, frontmatter=found, document=document, line=line))

    def text(self, text: str, code: str = "", **options: Any) -> str:
        """The expanded text, checked to have no diagnostics."""
        done = self.expand(text, code, **options)
        assert done.diagnostics == ()
        return expanded_text(done)


def expanded_text(done: Expanded) -> str:
    return "".join(part.text if isinstance(part, Text) else f"<{part.mime_type}>" for part in done.parts)


def only_diagnostic(done: Expanded) -> Diagnostic:
    [found] = done.diagnostics
    return found
