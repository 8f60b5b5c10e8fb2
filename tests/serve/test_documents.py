"""Documents are shown with their pending calls, advanced in the background, and no other file can be opened."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from holdfast.chat.state_file import DocumentLock
from holdfast.factory.runtime import chats_dir
from holdfast.serve.documents import MAX_BYTES, document_address
from tests.serve.daemon_client import DaemonClient, run, until

pytestmark = pytest.mark.spec("E3")

ASKING = '[model]\nname = "operator"\n[sandbox]\nmode = "off"\n[approval]\nauto_approve = []\n'
TEXT = """@You:
Make it.

@Assistant:
Here.

**Tool Use:** `shell.exec` (`c1`)

```json
{"command": "touch made"}
```
"""
HOSTILE = "@You:\n<script>alert(1)</script> \x1b[31m\n\n@Assistant:\n<img src=x onerror=alert(1)>\n"


def root_of(client: DaemonClient) -> Path:
    assert client.project.root is not None
    return client.project.root


def write(client: DaemonClient, text: str = TEXT, name: str = "plan.chat") -> str:
    """Write a document and return the address of its page."""
    path = root_of(client) / name
    path.write_text(text)
    return document_address(client.key, path)


async def advance(client: DaemonClient, name: str = "plan.chat", status: int = 303) -> str:
    reply = await client.post(f"/documents/{client.key}/advance", status, path=name)
    return reply.headers.get("location", reply.text)


@pytest.mark.spec("E3t")
@pytest.mark.spec("A13")
def test_a_document_is_advanced_answered_in_place_and_advanced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(client: DaemonClient) -> None:
        address = write(client)
        assert "No document is known here yet." in await client.page("/documents")
        page = await client.page(address)
        assert "new calls are judged" in page
        assert await advance(client) == address

        async def is_pending() -> bool:
            return "data-digest" in await client.page(address)

        await until(is_pending)
        assert "1 pending" in await client.page("/documents")
        with client.ledger() as ledger:
            (pending,) = ledger.pending()
        page = await client.page(address)
        assert f'data-call="{pending.call.id}"' in page
        assert f'action="/calls/{client.key}/{pending.call.id}/approve"' in page
        assert "touch made" in page
        async with client.other("view") as viewer:
            seen = await viewer.page(address)
            assert "<form" not in seen.partition("<main")[2].partition("</main>")[0]
            await viewer.post(f"/documents/{client.key}/advance", 403, path="plan.chat")
        await client.approve(pending.call.id)
        await advance(client)

        async def has_run() -> bool:
            return (root_of(client) / "made").exists() and "Last time" in await client.page(address)

        await until(has_run)
        assert "data-digest" not in await client.page(address)

    run(body, tmp_path, monkeypatch, ASKING)


def test_a_document_in_use_is_not_advanced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        address = write(client)
        with DocumentLock(root_of(client) / "plan.chat", chats_dir(client.project)).acquire():
            assert "It is being advanced here." in await client.page(address)
            assert "is in use by process" in await advance(client, status=409)

    run(body, tmp_path, monkeypatch, ASKING)


def test_a_failure_of_the_model_is_said_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        address = write(client, '```toml\n[model]\nname = "<none>:x"\n```\n' + TEXT)
        await advance(client)

        async def is_said() -> bool:
            return "Last time" in await client.page(address)

        await until(is_said)
        assert "<none>" not in await client.page(address)

    run(body, tmp_path, monkeypatch, ASKING)


@pytest.mark.spec("E3t")
def test_only_documents_of_the_project_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        root = root_of(client)
        write(client)
        (root / "notes.txt").write_text("plain")
        outside = tmp_path / "outside.chat"
        outside.write_text(TEXT)
        (root / "link.chat").symlink_to(outside)
        (root / "folder").symlink_to(tmp_path)
        (root / "inside.chat").symlink_to(root / "plan.chat")
        (root / "dir.chat").mkdir()
        for name in (
            "notes.txt",
            str(outside),
            "../outside.chat",
            "link.chat",
            "folder/outside.chat",
            "dir.chat",
            "none.chat",
            "/etc/passwd",
            "plan.chat\0",
            "plan.chat\n",
            "",
            ".",
        ):
            await client.get(f"/documents/{client.key}?path={quote(name)}", 404)
            await advance(client, name, 404)
        await client.get(f"/documents/{client.key}?path=inside.chat")
        await client.get(f"/documents/{client.key}?path=./plan.chat")
        await client.get("/documents/ffff?path=plan.chat", 404)

    run(body, tmp_path, monkeypatch, ASKING)


def test_a_document_outside_is_opened_if_the_project_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        outside = tmp_path / "outside.chat"
        outside.write_text(TEXT)
        await client.call("shell.exec", {"command": "ls"}, document=str(outside))
        assert "outside.chat" in await client.page("/documents")
        await client.get(document_address(client.key, outside))

    run(body, tmp_path, monkeypatch, ASKING)


def test_nothing_in_a_document_becomes_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        address = write(client, HOSTILE, "<b>.chat")
        page = await client.page(address)
        for part in ("<script>alert", "<img src", "\x1b", "<b>"):
            assert part not in page
        large = write(client, "@You:\n" + "x" * MAX_BYTES, "large.chat")
        assert "larger than 4 MB" in await client.page(large)

    run(body, tmp_path, monkeypatch, ASKING)


def test_nobody_opens_a_document_without_logging_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        address = write(client)
        async with client.other() as stranger:
            for path in ("/documents", address):
                assert (await stranger.get(path, 303)).headers["location"].startswith("/login")
            assert await advance(stranger) == "/login"

    run(body, tmp_path, monkeypatch, ASKING)
