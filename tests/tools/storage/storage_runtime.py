"""A runtime with the storage tools, a memory of its own, and a person who approves every call."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from holdfast import Config, PendingCall, Result
from holdfast.contract.memory import Memory
from holdfast.net.network import Network
from holdfast.net.network_log import NetworkLog
from holdfast.runtime.memory import RuntimeMemory
from holdfast.tools.extraction.extractor import Extractor
from holdfast.tools.memory import MEMORY_FORGET, MEMORY_LIST, MEMORY_READ, MEMORY_SEARCH, MEMORY_WRITE
from holdfast.tools.storage.ingest import MINIO_INGEST
from holdfast.tools.storage.service import Storage, StorageSettings, configured_storage
from holdfast.tools.storage.share import MINIO_SHARE
from holdfast.tools.storage.sync import MINIO_SYNC
from tests.runtime.support import run, runtime_in, yes
from tests.tools.storage.servers import ACCESS_KEY, S3Server

SECRET_VARIABLE = "HOLDFAST_TEST_STORAGE_SECRET"
MEMORY_TOOLS = (MEMORY_READ, MEMORY_LIST, MEMORY_SEARCH, MEMORY_WRITE, MEMORY_FORGET)


@cache
def shared_extractor() -> Extractor:
    """One pool of extraction processes for all tests of a process; it ends with that process."""
    return Extractor()


class StorageRuntime:
    """Calls of storage tools on one bucket of a server."""

    def __init__(
        self,
        folder: Path,
        server: S3Server | None,
        bucket: str | None = None,
        *,
        asks: bool = True,
        config: dict[str, Any] | None = None,
        extractor: Extractor | None = None,
        **settings: Any,
    ) -> None:
        self.folder = folder
        self.project = folder / "project"
        given: dict[str, Any] = {
            "endpoint": None if server is None else server.url,
            "bucket": bucket,
            "access_key": ACCESS_KEY,
            "timeout": 60.0,
        }
        self.settings = StorageSettings(**{**given, **settings})
        secrets = {self.settings.secret: {"env": SECRET_VARIABLE}}
        self.config = Config.from_dict(
            {"tools": {"profile": "full"}, "memory": {"embedder": "none"}, "secrets": secrets, **(config or {})}
        )
        tools = [configured_storage(tool, self.settings) for tool in (MINIO_SHARE, MINIO_INGEST, MINIO_SYNC)]
        self.runtime = runtime_in(folder, *tools, *MEMORY_TOOLS, config=self.config, nobody="pending")
        self.seen: list[PendingCall] = []
        if asks:
            self.runtime.attach(self._approve)
        self.log = NetworkLog(folder / "state" / "network.log")
        self.network = Network(log=self.log)
        self.memory = RuntimeMemory(
            self.config.memory, self.config.tools, own=folder / "memory.db", shared=folder / "shared.db"
        )
        self.storage = Storage(
            self.network, self.settings, folder=folder / "state", extractor=extractor or shared_extractor()
        )
        self.runtime.services.offer(Memory, self.memory)
        self.runtime.services.offer(Storage, self.storage)

    async def _approve(self, pending: PendingCall) -> Any:
        self.seen.append(pending)
        return await yes()(pending)

    def write(self, path: str, content: bytes | str) -> None:
        target = self.project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)

    def call(self, tool: str, **args: Any) -> Result:
        return run(self.runtime.call(tool, args), 240)

    def facts(self, tool: str, **args: Any) -> dict[str, Any]:
        """Make a call that must succeed; return its structured output."""
        result = self.call(tool, **args)
        assert result.success, result.text
        assert isinstance(result.structured, dict)
        return dict(result.structured)

    def error(self, tool: str, **args: Any) -> str:
        """Make a call that must fail; return the error."""
        result = self.call(tool, **args)
        assert not result.success, result.text
        return result.error or ""

    def preview(self) -> str:
        """The preview of the last call that was approved."""
        proposal = self.seen[-1].proposal
        assert proposal is not None
        return proposal.preview

    def contents(self, namespace: str) -> list[str]:
        """The contents of the items of a namespace, oldest first, without the line that names the object."""
        items = self.facts("memory.read", namespace=namespace, limit=200)["items"]
        return [item["content"].partition(":\n\n")[2] for item in reversed(items)]

    def namespaces(self) -> list[str]:
        return [each["namespace"] for each in self.facts("memory.list")["namespaces"]]
