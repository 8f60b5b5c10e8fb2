"""What a card says around a proposal: earlier decisions, the words in the document, and the calls around it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.contract.call import PendingCall
from holdfast.serve.call_context import words_around
from tests.serve.daemon_client import DaemonClient, digest_in, run
from tests.store.calls import make_pending

pytestmark = pytest.mark.spec("E3")

ASKING = "[approval]\nauto_approve = []\n"
TEXT = """@You:
Tidy the folder.

@Assistant:
I will remove the old files.

**Tool Use:** `shell.exec` (`c1`)

```json
{"command": "rm old"}
```

@You:
Something else.
"""


def test_a_card_counts_what_was_decided_about_the_same_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        async def card(command: str) -> tuple[str, str]:
            made = await client.call("shell.exec", {"command": command})
            address = f"/calls/{client.key}/{made.call_id}"
            return address, await client.page(f"{address}/card")

        first, page = await card("make one")
        assert "Nothing like it was decided before." in page
        await client.post(f"{first}/reject", digest=digest_in(page))
        second, page = await card("make one")
        assert "1 × rejected, last by page:" in page
        await client.post(f"{second}/respond", digest=digest_in(page), output="done")
        _, page = await card("make one")
        assert "1 × rejected" in page
        assert "1 × answered in the tool&#39;s place" in page
        _, page = await card("git push")
        assert "Nothing like it was decided before." in page

    run(body, tmp_path, monkeypatch, ASKING)


def _of_document(path: Path, given_id: str) -> PendingCall:
    pending = make_pending(args={"command": "rm old"}, tool="shell.exec")
    caller = replace(pending.call.caller, document=str(path))
    return replace(pending, call=replace(pending.call, caller=caller, given_id=given_id))


def test_the_words_before_a_call_of_a_document_are_found(tmp_path: Path) -> None:
    path = tmp_path / "plan.chat"
    path.write_text(TEXT)
    assert words_around(_of_document(path, "c1")) == [
        ("You said", "Tidy the folder."),
        ("The model said", "I will remove the old files."),
    ]
    assert words_around(_of_document(path, "other")) == []
    assert words_around(_of_document(tmp_path / "gone.chat", "c1")) == []
    assert words_around(make_pending(args={"command": "rm old"}, tool="shell.exec")) == []
