"""A program that kills processes while they write a document, and checks what they leave behind.

Each process replays the same turns, so that all possible states of the document are known.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.agent.conversation import LedgerCall, SetResult, SetStatus, Status
from holdfast.chat.conversation import DocumentConversation
from holdfast.contract.message import Text, ToolResult, ToolUse
from holdfast.contract.result import Attachment, ok

TURNS = 4


def replay(folder: Path, done: Callable[[DocumentConversation], None]) -> None:
    path = folder / "a.chat"
    path.write_text("@You:\nPlease.\n")
    conversation = DocumentConversation(path, state=folder / "state")
    done(conversation)
    for number in range(TURNS):
        conversation.messages()
        conversation.add_reply([Text("word " * 500), ToolUse("a1", "x", f'{{"n": {number}}}')])
        done(conversation)
        [slot] = conversation.slots()
        conversation.remember(slot, LedgerCall(call_id=f"x-{number}", digest="d"))
        conversation.change([SetStatus(slot, Status.PENDING)])
        done(conversation)
        [slot] = conversation.slots()
        image = Attachment(kind="image", mime_type="image/png", data=bytes(9000), name="a.png")
        conversation.change([SetResult(slot, ok("line\n" * 2000, attachments=(image,)))])
        done(conversation)
        conversation.forget([f"x-{number}"])


def one_kill(folder: Path, states: list[bytes], chance: random.Random) -> int:
    """The index of the state that was left; fails if it is unknown or unusable."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        replay(folder, lambda _: _tell(writing))
        os._exit(0)
    os.close(writing)
    for _ in range(chance.randrange(1, len(states))):
        os.read(reading, 1)
    end = time.perf_counter() + chance.random() * 0.004
    while time.perf_counter() < end:
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    left = DocumentConversation(folder / "a.chat", state=folder / "state")
    with left.lock():
        remembered, slots = left.remembered(), left.slots()
    assert all(slot.status is None or slot.call in remembered for slot in slots), "a placeholder nobody remembers"
    results = [part for message in left.messages() for part in message.parts if isinstance(part, ToolResult)]
    assert all(item.data for result in results for item in result.attachments), "a link without its file"
    return states.index((folder / "a.chat").read_bytes())


def _tell(descriptor: int) -> None:
    os.write(descriptor, b".")


def main(folder: Path, kills: int) -> None:
    states: list[bytes] = []
    (folder / "all").mkdir()
    replay(folder / "all", lambda conversation: states.append(conversation.path.read_bytes()))
    chance = random.Random(4)
    found: list[int] = []
    for number in range(kills):
        here = folder / str(number)
        here.mkdir()
        found.append(one_kill(here, states, chance))
    sys.stdout.write(f"{len(found)} {len(set(found))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
