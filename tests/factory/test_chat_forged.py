"""Approvals forged in a document of any name: by file tools and commands of other conversations and projects."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.events import Outcome
from holdfast.contract.enums import State
from holdfast.contract.result import Result
from holdfast.factory.chat import open_chat
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.fs.own_paths import is_registered_document, registered_documents
from holdfast.fs.protected_paths import protected_reason
from holdfast.store.folder_writers import WriterRegistration
from tests.agent.scripted import Scripted, said, use
from tests.factory.places import Place, again, approve, asking, hold
from tests.runtime.support import run

FORGE = '{"path": "%s", "search": "status=pending", "replace": "status=approved"}'


@pytest.fixture
def talk(place: Place) -> Place:
    """A conversation in a file with an ordinary name, with a call that waits."""
    place.document = place.root / "b.txt"
    hold(place)
    return place


def other(root: Path, tool: str, arguments: str, flags: dict[str, Any] | None = None) -> Outcome:
    """What another conversation comes to that asks for this call; nobody is there to approve anything."""
    path = root / "other.chat"
    path.write_text("@You:\nGo.\n")

    async def session() -> Outcome:
        async with open_chat(path, flags=flags, model=Scripted(said(use("x", tool, arguments)))) as chat:
            return await chat.loop.advance()

    return run(session())


def approved_call(root: Path, tool: str, args: dict[str, Any], **flags: Any) -> Result:
    """A call of another conversation that a person approves, without seeing what it is about."""

    async def session() -> Result:
        async with build_runtime(load_project(root, flags), nobody="pending") as runtime:
            result = await runtime.call(tool, args)
            return await runtime.approve(result.call_id or "") if result.state is State.PENDING else result

    return run(session())


def still_waits(place: Place) -> None:
    assert "status=approved" in place.document.read_text()
    outcome, warned, _ = again(place)
    assert outcome.kind == "pending" and any("holdfast approve" in line for line in warned), warned
    assert not (place.root / "Makefile").exists()


@pytest.mark.spec("U2", "N9")
@pytest.mark.parametrize("name", ["b.txt", "B.TXT", "hard.txt", "./b.txt", "sub/../b.txt"])
def test_an_edit_of_a_file_with_pending_calls_is_asked_about_whatever_it_is_called(talk: Place, name: str) -> None:
    os.link(talk.document, talk.root / "hard.txt")
    (talk.root / "sub").mkdir()
    assert protected_reason(Path(name), root=talk.root) is not None
    if name in ("b.txt", "hard.txt"):
        assert other(talk.root, "file.edit", FORGE % name).kind == "pending"
    assert "status=approved" not in talk.document.read_text()
    assert protected_reason(Path("c.txt"), root=talk.root) is None


@pytest.mark.spec("U2")
@pytest.mark.parametrize("undo", ["auto", "copy", "off"])
@pytest.mark.parametrize(
    "script",
    [
        "sed -i s/status=pending/status=approved/ b.txt",
        "sed s/status=pending/status=approved/ b.txt > c && mv -f c b.txt",
        "sed s/status=pending/status=approved/ b.txt > c && cat c > hard.txt",
        "rm -f b.txt; mv c.txt b.txt",
        "mv b.txt c.txt",
    ],
)
def test_a_contained_command_cannot_change_it(talk: Place, script: str, undo: str) -> None:
    before = talk.document.read_text()
    os.link(talk.document, talk.root / "hard.txt")
    (talk.root / "c.txt").write_text(before.replace("status=pending", "status=approved"))
    flags = {"approval.require_approval": False, "sandbox.undo": undo}
    other(talk.root, "shell.exec", json.dumps({"command": f"{script}; true"}), flags)
    assert talk.document.read_text() == before


@pytest.mark.spec("U2")
def test_an_approval_typed_by_a_recorded_call_does_not_count(talk: Place) -> None:
    args = {"path": "b.txt", "search": "=pending", "replace": "=approved"}
    assert approved_call(talk.root, "file.edit", args).success
    still_waits(talk)


@pytest.mark.spec("U2")
def test_an_approval_that_undo_brought_back_does_not_count(talk: Place) -> None:
    forged = approved_call(talk.root, "file.edit", {"path": "b.txt", "search": "=pending", "replace": "=approved"})

    async def undone() -> None:
        async with build_runtime(load_project(talk.root)) as runtime:
            first = runtime.commands.undo(forged.call_id or "", by="ann", partial=False, interface="cli")
            assert "status=pending" in talk.document.read_text()
            assert runtime.commands.undo(first.call_id or "", by="ann", partial=False, interface="cli").success

    run(undone())
    still_waits(talk)


@pytest.mark.spec("U2")
def test_a_change_of_another_file_leaves_a_persons_approval_alone(talk: Place) -> None:
    assert approved_call(talk.root, "file.write", {"path": "c.txt", "content": "x"}).success
    approve(talk)
    assert again(talk)[0].kind == "done"
    assert (talk.root / "Makefile").exists()


@pytest.mark.spec("U2")
def test_an_approval_typed_by_a_command_that_still_runs_does_not_count(talk: Place) -> None:
    async def session() -> None:
        async with build_runtime(load_project(talk.root, {"approval.require_approval": False})) as runtime:
            ledger = runtime.pending.ledger
            (held,) = ledger.pending()
            call = replace(held.call, id="other-1", tool="shell.exec", name_used="shell.exec", request=None)
            ledger.begin_now(call, definition_digest="", mutates=True, decision=held.decision)
            assert "other-1" in set(ledger.active_since(held.held_at + 10**6))

    run(session())
    approve(talk)
    still_waits(talk)


@pytest.mark.spec("U2", "N9")
@pytest.mark.parametrize("how", ["file.edit", "shell.exec", "recorded"])
def test_a_project_around_the_project_of_a_document_cannot_forge_in_it(place: Place, how: str) -> None:
    inner = Place(place.root / "inner")
    inner.root.mkdir()
    (inner.root / "holdfast.toml").touch()
    inner.document = inner.root / "b.txt"
    hold(inner)
    if how == "file.edit":
        assert other(place.root, how, FORGE % "inner/b.txt").kind == "pending"
    elif how == "shell.exec":
        flags = {"approval.require_approval": False}
        other(place.root, how, '{"command": "sed -i s/=pending/=approved/ inner/b.txt; true"}', flags)
    else:
        args = {"path": "inner/b.txt", "search": "=pending", "replace": "=approved"}
        assert approved_call(place.root, "file.edit", args).success
        still_waits(inner)
    assert ("status=approved" in inner.document.read_text()) is False or how == "recorded"
    approve(inner)
    if how == "shell.exec":
        still_waits(inner)


@pytest.mark.spec("U2")
def test_calls_of_a_project_elsewhere_do_not_matter(talk: Place, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "holdfast.toml").touch()
    flags = {"approval.require_approval": False}
    other(elsewhere, "shell.exec", '{"command": "true"}', flags)
    approve(talk)
    assert again(talk)[0].kind == "done"


@pytest.mark.spec("U2")
@pytest.mark.parametrize("moved", ["renamed", "copied", "to another folder", "behind a link"])
def test_no_approval_moves_with_a_document(talk: Place, moved: str) -> None:
    approve(talk)
    new = talk.root / "c.txt"
    if moved == "copied":
        new.write_text(talk.document.read_text())
    elif moved == "to another folder":
        new = talk.root / "sub" / "b.txt"
        new.parent.mkdir()
        talk.document.rename(new)
    elif moved == "behind a link":
        (talk.root / "d.txt").write_text(talk.document.read_text())
        new.symlink_to("d.txt")
    else:
        talk.document.rename(new)
    talk.document = new
    outcome, warned, _ = again(talk)
    assert outcome.kind == "pending" and warned
    assert not (talk.root / "Makefile").exists()


@pytest.mark.spec("U2")
def test_an_older_version_of_the_document_runs_nothing_again(talk: Place) -> None:
    def git(*args: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *args], cwd=talk.root, check=True, timeout=30, capture_output=True)

    git("init", "-q")
    approve(talk)
    git("add", "b.txt")
    git("commit", "-qm", "approved")
    assert again(talk)[0].kind == "done"
    with talk.document.open("a") as file:
        file.write("More.\n")
    assert talk.drive(Scripted(said("Fine.")))[0].kind == "done"
    (talk.root / "Makefile").unlink()
    git("checkout", "-q", "HEAD", "--", "b.txt")
    assert again(talk)[0].kind == "pending"
    assert not (talk.root / "Makefile").exists()


@pytest.mark.spec("U2")
@pytest.mark.parametrize("lives", ["while it is typed", "until it is typed"])
def test_an_approval_does_not_count_if_a_server_that_may_write_there_lived_since(talk: Place, lives: str) -> None:
    noted = WriterRegistration([talk.root])
    if lives == "until it is typed":
        noted()
    approve(talk)
    still_waits(talk)
    noted()


@pytest.mark.spec("U2")
def test_a_server_that_ended_before_or_writes_elsewhere_does_not_matter(place: Place, tmp_path: Path) -> None:
    WriterRegistration([place.root])()
    lives_elsewhere = WriterRegistration([tmp_path / "elsewhere"])
    place.document = place.root / "b.txt"
    hold(place, asking())
    approve(place)
    assert again(place)[0].kind == "done"
    lives_elsewhere()


@pytest.mark.spec("N9")
def test_what_is_remembered_of_a_document_protects_it_before_it_is_written(talk: Place) -> None:
    assert is_registered_document(str(talk.document))
    assert list(registered_documents()) == [str(talk.document)]
    talk.document.unlink()
    assert protected_reason(talk.document, root=talk.root) is not None
