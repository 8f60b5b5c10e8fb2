"""The served projects: found by their ledgers, with a runtime by the rules that are on disk now."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.config.roots import state_dir
from holdfast.contract.errors import CallError, ConfigError, UnknownCall
from holdfast.serve.projects import Projects
from holdfast.store.ledger import Ledger
from tests.serve.projects_on_disk import ASKING, Disk


def names(projects: Projects) -> list[str]:
    return sorted(project.name for project in projects)


@pytest.mark.spec("E3")
def test_every_project_with_a_ledger_is_served_and_new_ones_are_found(disk: Disk) -> None:
    disk.hold("one")
    projects = disk.serve(every=True)
    assert names(projects) == ["one"]
    disk.hold("two")
    projects.refresh()
    assert names(projects) == ["one", "two"]
    asyncio.run(projects.close())


@pytest.mark.spec("E3")
def test_a_ledger_that_names_no_project_yet_is_looked_at_again_when_it_changes(disk: Disk) -> None:
    disk.hold("one")
    ledger = state_dir(disk.project("two")) / "ledger.db"
    Ledger.open(ledger).close()  # as a program does before its first call
    projects = disk.serve(every=True)
    assert names(projects) == ["one"]
    assert list(projects.problems.values()) == ["no call in it names a folder that exists"]
    disk.hold("two")
    projects.refresh()
    assert names(projects) == ["one", "two"]
    asyncio.run(projects.close())


@pytest.mark.spec("E3")
def test_a_project_with_broken_rules_is_a_problem_until_they_are_repaired(disk: Disk) -> None:
    disk.hold("one")
    (disk.project("one") / "holdfast.toml").write_text("[approval\n")
    projects = disk.serve(every=True)
    assert names(projects) == []
    assert len(projects.problems) == 1
    (disk.project("one") / "holdfast.toml").unlink()
    disk.hold("one")
    projects.refresh()
    assert names(projects) == ["one"]
    assert projects.problems == {}
    asyncio.run(projects.close())


@pytest.mark.spec("E3")
def test_a_project_must_be_known_and_named_if_there_are_several(disk: Disk) -> None:
    disk.hold("one")
    disk.hold("two")
    projects = disk.serve(every=True)
    with pytest.raises(UnknownCall):
        projects.get("0" * 16)
    with pytest.raises(CallError, match="2 are served"):
        projects.named("")
    one = next(project for project in projects if project.name == "one")
    assert projects.named(one.key) is one
    asyncio.run(projects.close())


@pytest.mark.spec("E3")
def test_a_disabled_ledger_cannot_be_served(disk: Disk) -> None:
    disk.configure("[ledger]\nenabled = false\n")
    with pytest.raises(ConfigError, match="disabled"):
        disk.serve()


@pytest.mark.spec("E3")
def test_the_runtime_is_rebuilt_when_the_rules_change_and_only_then(disk: Disk) -> None:
    async def check() -> None:
        projects = disk.serve()
        (project,) = projects
        opened: list[object] = []
        project.on_runtime(opened.append)
        first = await project.runtime()
        assert await project.runtime() is first
        disk.configure(ASKING + '[tools]\ndeny = ["file.write"]\n')
        second = await project.runtime()
        assert second is not first
        assert opened == [first, second]
        assert "file.write" not in [tool.name for tool in second.visible()]
        disk.configure("[approval\n")
        with pytest.raises(ConfigError):
            await project.runtime()
        await projects.close()

    asyncio.run(check())


@pytest.mark.spec("E3")
def test_a_call_goes_on_by_the_rules_it_began_with(disk: Disk) -> None:
    async def check() -> None:
        projects = disk.serve()
        (project,) = projects
        begun, release = asyncio.Event(), asyncio.Event()

        async def slow() -> str:
            """Wait."""
            begun.set()
            await release.wait()
            return "end"

        first = await project.runtime()
        first.register(slow)
        task = project.start(first.call("slow", {}))
        await begun.wait()
        disk.configure('[approval]\nauto_approve = ["slow"]\n[output]\nmax_bytes = 5000\n')
        assert await project.runtime() is not first
        release.set()
        assert (await task).output == "end"
        await projects.close()

    disk.configure('[approval]\nauto_approve = ["slow"]\n')
    asyncio.run(check())
