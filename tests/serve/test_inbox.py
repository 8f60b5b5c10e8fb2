"""The rows of the inbox: who asks, what waits, when it expires, and what filters keep."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.serve.inbox import CallView, Choices, Filters, call_address, pending_views
from holdfast.store.process_identity import this_process
from tests.serve.projects_on_disk import Disk, only


@pytest.mark.spec("E3")
def test_a_row_says_who_asks_and_what_waits(disk: Disk) -> None:
    disk.hold()
    projects = disk.serve()
    (project,) = projects
    pending = only(projects)
    view = CallView.of(project, pending)
    assert (view.waits, view.risk, view.parts.caller.striptags()) == ("nobody", "medium", "cli")
    assert view.expires_at is not None and view.expires_at > pending.held_at
    waiting = replace(pending, waiter=this_process())
    assert CallView.of(project, waiting).waits == "a program"
    dead = replace(pending, waiter=replace(this_process(), pid=2**30))
    assert CallView.of(project, dead).waits == "a program that has ended"
    caller = replace(pending.call.caller, document=str(Path(project.folder) / "a.chat"), agent="coder")
    of_document = CallView.of(project, replace(pending, call=replace(pending.call, caller=caller)))
    assert of_document.waits == "its document"
    assert of_document.parts.caller.striptags() == "cli ▸ agent coder ▸ document a.chat"
    asyncio.run(projects.close())


@pytest.mark.spec("E3")
def test_filters_keep_what_they_name(disk: Disk) -> None:
    disk.hold(path="one.txt")
    disk.hold(path="two.txt")
    projects = disk.serve()
    views = pending_views(projects)
    assert [len(pending_views(projects, kept.keeps)) for kept in (
        Filters(), Filters(text="ONE.txt"), Filters(tool="file.write"), Filters(tool="shell.exec"),
        Filters(risk="medium"), Filters(risk="high"), Filters(agent="none"), Filters(project="none"),
    )] == [2, 1, 2, 0, 2, 0, 0, 0]  # fmt: skip
    choices = Choices.of(views)
    assert (choices.tools, choices.agents, len(choices.projects)) == (["file.write"], [], 1)
    asyncio.run(projects.close())


@pytest.mark.spec("E3c")
def test_the_address_of_a_call_cannot_leave_its_place() -> None:
    assert call_address("k", "a/../b?c#d") == "/calls/k/a%2F..%2Fb%3Fc%23d"
