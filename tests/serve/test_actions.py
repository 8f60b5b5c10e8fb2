"""What a person can do: every answer is bound to what was shown, and recorded under who authenticated."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.contract.errors import GrantRefused, NotPending, StaleApproval, UnknownCall
from holdfast.serve.actions import Actions, CallRef, find_call
from holdfast.serve.projects import Projects
from holdfast.store.people import Person
from tests.serve.projects_on_disk import Disk, only

ANN = Person(name="ann", identity="token:ann", right="answer")


def shown(projects: Projects) -> CallRef:
    (project,) = projects
    pending = only(projects)
    return CallRef(project=project.key, call_id=pending.call.id, digest=pending.digest)


@pytest.mark.spec("E3")
def test_an_approved_call_runs_beside_the_answer(disk: Disk) -> None:
    async def check() -> None:
        projects = disk.serve()
        ref = shown(projects)
        outcome = await Actions(projects, ANN).approve(ref)
        assert (outcome.ok, outcome.message) == (True, "")
        (project,) = projects
        await asyncio.gather(*project._tasks)  # pyright: ignore[reportPrivateUsage]
        record = project.ledger.record(ref.call_id)
        assert record.state == "done"
        (given,) = record.answers
        assert (given.answer.by, given.answer.identity) == ("page:ann", "token:ann")
        await projects.close()

    disk.hold()
    asyncio.run(check())
    assert (disk.project() / "notes.txt").read_text() == "hello"


@pytest.mark.spec("E3")
def test_an_answer_to_what_was_not_shown_records_nothing(disk: Disk) -> None:
    async def check() -> None:
        projects = disk.serve()
        (project,) = projects
        ref = shown(projects)
        wrong = CallRef(project=ref.project, call_id=ref.call_id, digest="0" * 64)
        before = project.ledger.head()
        actions = Actions(projects, ANN)
        for answer in (
            actions.approve(wrong),
            actions.reject(wrong, ""),
            actions.respond(wrong, ""),
            actions.edit(wrong, {}),
        ):
            with pytest.raises(StaleApproval):
                await answer
        assert project.ledger.head() == before
        await projects.close()

    disk.hold()
    asyncio.run(check())


@pytest.mark.spec("E3")
def test_a_call_that_ended_says_how(disk: Disk) -> None:
    async def check() -> None:
        projects = disk.serve()
        (project,) = projects
        ref = shown(projects)
        actions = Actions(projects, ANN)
        await actions.reject(ref, "no")
        with pytest.raises(NotPending, match="it is rejected"):
            find_call(project, ref.call_id)
        (outcome,) = await actions.approve_all([ref])
        assert (outcome.ok, outcome.state) == (False, "rejected")
        with pytest.raises(UnknownCall):
            find_call(project, "none")
        await projects.close()

    disk.hold()
    asyncio.run(check())


@pytest.mark.spec("E3")
def test_a_pending_call_is_withdrawn_and_an_ended_one_cannot_be_stopped(disk: Disk) -> None:
    async def check() -> None:
        projects = disk.serve()
        ref = shown(projects)
        actions = Actions(projects, ANN)
        first = await actions.cancel(ref.project, ref.call_id)
        assert (first.ok, first.state) == (True, "cancelled")
        with pytest.raises(NotPending, match="has ended"):
            await actions.cancel(ref.project, ref.call_id)
        with pytest.raises(UnknownCall):
            await actions.cancel(ref.project, "none")
        with pytest.raises(GrantRefused):
            await actions.revoke(ref.project, "none")
        await projects.close()

    disk.hold()
    asyncio.run(check())
