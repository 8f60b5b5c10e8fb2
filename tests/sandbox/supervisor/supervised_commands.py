"""Shell commands run by a supervisor."""

from __future__ import annotations

import asyncio
import os
import resource
from pathlib import Path
from typing import Any

from holdfast.sandbox.launch import Launch
from holdfast.sandbox.supervisor.client import (
    ExitStatus,
    SupervisedCommand,
    Supervisor,
)

PATH = {"PATH": "/usr/bin:/bin"}
CONFINED: dict[str, Any] = {"rlimits": ((resource.RLIMIT_NOFILE, 256),)}


def shell_launch(script: str, **changes: Any) -> Launch:
    fields: dict[str, Any] = {"argv": ("/bin/bash", "-c", script), "cwd": "/", "env": PATH, **changes}
    return Launch(**fields)


def start(supervisor: Supervisor, launch: Launch, output: Path, passed: tuple[int, ...] = ()) -> SupervisedCommand:
    stdin = os.open(os.devnull, os.O_RDONLY)
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        return supervisor.run(launch, stdin, written, written, passed_fds=passed)
    finally:
        os.close(stdin)
        os.close(written)


def run(supervisor: Supervisor, launch: Launch, folder: Path, passed: tuple[int, ...] = ()) -> tuple[ExitStatus, str]:
    output = folder / "output"

    async def main() -> ExitStatus:
        return await asyncio.wait_for(start(supervisor, launch, output, passed).wait(), 30)

    return asyncio.run(main()), output.read_text()
