"""The reference server `server-filesystem` as a contained process: it works where it may and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Result, Runtime
from holdfast.config.config import ApprovalConfig, McpConfig, McpServer, SandboxConfig, ToolsConfig
from holdfast.contract.enums import Failure, Risk, State
from holdfast.mcp.client.bridge import Bridge
from holdfast.runtime.workspace import Workspace
from holdfast.store.ledger import Ledger
from holdfast.store.pins import ToolPins
from tests.peers import filesystem
from tests.runtime.support import run


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setattr("holdfast.mcp.client.server_process.GRACE", 0.2)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("Remember the milk.\n")
    return folder


class Files:
    """The tools of the server, and the runtime they are called through."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def __call__(self, tool: str, **args: Any) -> Result:
        return await self.runtime.call(f"mcp:files:{tool}", args)


@asynccontextmanager
async def serving(
    project: Path, *, approve: tuple[str, ...] = ("mcp:files:*",), **options: Any
) -> AsyncGenerator[Files]:
    node, *script = filesystem()
    server = McpServer(command=node, args=(*script, str(project)), **options)
    config = Config(
        mcp=McpConfig(servers={"files": server}),
        tools=ToolsConfig(profile="full"),
        approval=ApprovalConfig(auto_approve=approve),
        sandbox=SandboxConfig(mode="required"),
    )
    state = project.with_name("holdfast-state")
    with Ledger.open(state / "ledger.db") as ledger:
        runtime = Runtime(config=config, ledger=ledger, workspace=Workspace(root=project, state=state))
        pins = ToolPins(state / "user.db")
        bridge = Bridge(runtime, config.mcp.servers, pins=pins, state=state)
        bridge.attach()
        try:
            async with runtime:
                await runtime.pipeline.wait_for_sources()
                (status,) = bridge.status()
                assert status.state == "ready", status.reason
                yield Files(runtime)
        finally:
            pins.close()


@pytest.mark.spec("K1")
def test_it_reads_and_writes_in_the_folder_it_may_write_to(project: Path) -> None:
    async def go() -> None:
        async with serving(project, writable=("$root",)) as files:
            read = await files("read_text_file", path=str(project / "notes.txt"))
            assert read.output == "Remember the milk.\n"
            assert read.structured == {"content": "Remember the milk.\n"}
            listed = await files("list_directory", path=str(project))
            assert "[FILE] notes.txt" in listed.output
            written = await files("write_file", path=str(project / "new.txt"), content="Written.\n")
            assert written.state is State.DONE, written
            assert (project / "new.txt").read_text() == "Written.\n"
            edits = [{"oldText": "milk", "newText": "bread"}]
            edited = await files("edit_file", path=str(project / "notes.txt"), edits=edits)
            assert "+Remember the bread." in edited.output
            assert (project / "notes.txt").read_text() == "Remember the bread.\n"

    run(go(), 60)


@pytest.mark.spec("K1", "T10b")
def test_an_image_is_read_as_an_image(project: Path) -> None:
    (project / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n and more")

    async def go() -> None:
        async with serving(project) as files:
            (image,) = (await files("read_media_file", path=str(project / "dot.png"))).attachments
            assert (image.kind, image.mime_type, image.data) == (
                "image",
                "image/png",
                b"\x89PNG\r\n\x1a\n and more",
            )

    run(go(), 60)


@pytest.mark.spec("K1")
def test_outside_of_its_folder_it_reaches_nothing(project: Path) -> None:
    other = project.with_name("other")
    other.mkdir()
    (other / "private.txt").write_text("Not for you.")
    (project / "link").symlink_to(other)

    async def go() -> None:
        async with serving(project, writable=("$root",)) as files:
            for path in (other / "private.txt", project / ".." / "other" / "private.txt"):
                read = await files("read_text_file", path=str(path))
                assert read.state is State.FAILED
                assert "Access denied" in (read.error or "")
            led = await files("read_text_file", path=str(project / "link" / "private.txt"))
            assert led.state is State.FAILED
            assert "Not for you" not in led.text
            written = await files("write_file", path=str(other / "new.txt"), content="Written.\n")
            assert written.state is State.FAILED
            assert not (other / "new.txt").exists()

    run(go(), 60)


@pytest.mark.spec("K1")
def test_the_sandbox_keeps_it_from_writing_whatever_it_allows_itself(project: Path) -> None:
    async def go() -> None:
        async with serving(project) as files:
            written = await files("write_file", path=str(project / "new.txt"), content="Written.\n")
            assert written.state is State.FAILED
            assert "EROFS" in (written.error or "") or "EACCES" in (written.error or "")
            assert not (project / "new.txt").exists()
            assert (await files("read_text_file", path=str(project / "notes.txt"))).state is State.DONE

    run(go(), 60)


@pytest.mark.spec("K1")
def test_its_own_word_that_a_tool_only_reads_approves_nothing(project: Path) -> None:
    async def go() -> None:
        async with serving(project, approve=("$readonly",), writable=("$root",)) as files:
            tool = files.runtime.registry.get("mcp:files:read_text_file")
            assert tool is not None
            assert tool.effects is None
            read = await files("read_text_file", path=str(project / "notes.txt"))
            assert read.failure is Failure.NOBODY_TO_ASK
            writing = files.runtime.registry.get("mcp:files:write_file")
            assert writing is not None
            assert writing.risk is Risk.HIGH

    run(go(), 60)
