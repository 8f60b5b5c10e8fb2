"""The supervisor process and its workers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.sandbox.launch import Launch
from holdfast.sandbox.supervisor.client import (
    Supervisor,
)
from tests.sandbox.supervisor.supervised_commands import PATH, run, shell_launch, start


@pytest.mark.spec("B4")
def test_a_huge_request_arrives_complete(supervisor: Supervisor, tmp_path: Path) -> None:
    words = tuple("x" * 100_000 for _ in range(15))
    launch = Launch(argv=("/bin/bash", "-c", "echo $#; echo ${#9}", *words), cwd="/", env=PATH)
    assert run(supervisor, launch, tmp_path)[1] == "14\n100000\n"


@pytest.mark.spec("B4")
def test_workers_are_reused_and_commands_run_concurrently(supervisor: Supervisor, tmp_path: Path) -> None:
    async def main() -> list[str]:
        for _ in range(3):
            jobs = [start(supervisor, shell_launch("echo $PPID"), tmp_path / str(number)) for number in range(3)]
            for job in jobs:
                assert (await asyncio.wait_for(job.wait(), 30)).code == 0
        return [(tmp_path / str(number)).read_text() for number in range(3)]

    assert len(set(asyncio.run(main()))) == 3
    before = {(tmp_path / str(number)).read_text() for number in range(3)}
    _, again = run(supervisor, shell_launch("echo $PPID"), tmp_path)
    assert again in before
