"""The watch: whichever process changes a ledger, those who wait are woken."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.serve.watch import LedgerWatch
from tests.serve.projects_on_disk import Disk


@pytest.mark.spec("E3d")
def test_a_change_by_another_connection_wakes_those_who_wait(disk: Disk) -> None:
    async def check() -> None:
        projects = disk.serve()
        watch = LedgerWatch(projects)
        watch.poll()
        seen = watch.count
        watch.poll()
        assert watch.count == seen, "nothing has changed"
        waiting = asyncio.create_task(watch.wait(seen, 60))
        await asyncio.to_thread(disk.hold)
        watch.poll()
        assert await waiting == seen + 1
        assert await watch.wait(seen, 60) == seen + 1, "a change before the wait counts"
        assert await watch.wait(seen + 1, 0) == seen + 1
        await projects.close()

    disk.hold()
    asyncio.run(check())


@pytest.mark.spec("E3")
def test_it_expires_calls_and_finds_projects(disk: Disk) -> None:
    async def check() -> None:
        projects = disk.serve(every=True)
        watch = LedgerWatch(projects)
        running = asyncio.create_task(watch.run())
        await asyncio.to_thread(disk.hold, "new")
        watched = watch.count
        async with asyncio.timeout(60):
            while not list(projects):
                watched = await watch.wait(watched, 60)
        running.cancel()
        await projects.close()

    asyncio.run(check())
