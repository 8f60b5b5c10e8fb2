"""A runtime with the memory tools and a memory of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import Config, Runtime
from holdfast.contract.call import Caller
from holdfast.contract.memory import Memory
from holdfast.contract.result import Result
from holdfast.runtime.memory import RuntimeMemory
from holdfast.tools import memory as tools
from tests.runtime.support import run, yes
from tests.store.memory.support import WordEmbedder

TOOLS = (tools.MEMORY_READ, tools.MEMORY_LIST, tools.MEMORY_SEARCH, tools.MEMORY_WRITE, tools.MEMORY_FORGET)


class MemoryRuntime:
    """Makes calls of memory tools, which a person approves."""

    def __init__(
        self,
        folder: Path,
        embedder: Callable[[], Any] | None = WordEmbedder,
        config: dict[str, Any] | None = None,
        *,
        project: str = "project",
        asks: bool = True,
    ) -> None:
        self.config = Config.from_dict(config or {})
        self.own = folder / project / "memory.db"
        self.runtime = Runtime(tools=TOOLS, config=self.config, asker=yes() if asks else None)
        self.memory = RuntimeMemory(
            self.config.memory, self.config.tools, own=self.own, shared=folder / "shared.db", embedder=embedder
        )
        self.runtime.services.offer(Memory, self.memory)

    def call(self, tool: str, caller: Caller | None = None, **args: Any) -> Result:
        return run(self.runtime.call(f"memory.{tool}", args, caller=caller))

    def write(self, content: str, namespace: str = "notes", caller: Caller | None = None, **args: Any) -> str:
        """Write an item and return its id."""
        return self.read("write", caller, namespace=namespace, content=content, **args)["id"]

    def read(self, tool: str, caller: Caller | None = None, **args: Any) -> Any:
        result = self.call(tool, caller, **args)
        assert result.success, result.error
        return result.structured

    def found(self, query: str, caller: Caller | None = None, **args: Any) -> list[str]:
        return [hit["content"] for hit in self.read("search", caller, query=query, **args)["hits"]]
