"""`holdfast chat run`: one call of a document, alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast.doors.cli.chatting.driving import Driver, Wishes
from holdfast.doors.cli.chatting.finding import find_call
from holdfast.doors.cli.chatting.interrupting import interrupts
from holdfast.doors.cli.place import Flags, show_warnings


def run_one(flags: Flags, prefix: str, file: str | None, *, as_json: bool) -> int:
    path, slot = find_call(prefix, file, flags)
    show_warnings()
    return asyncio.run(_run(path, slot.use.id, Wishes(flags=flags, as_json=as_json)))


async def _run(path: Path, use_id: str, wishes: Wishes) -> int:
    with interrupts() as interrupt:
        return (await Driver(path, wishes, interrupt).run_one(use_id)).exit_code
