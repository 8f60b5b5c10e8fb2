"""`sessions.list` and `sessions.delete` in a project: its ledger, its documents and what stays of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from holdfast import Runtime
from holdfast.chat.state_file import DocumentLock
from holdfast.contract.enums import Risk, State
from holdfast.contract.errors import SessionRefused
from holdfast.contract.result import Result
from holdfast.factory.runtime import build_runtime, chats_dir, load_project
from tests.agent.scripted_model import ScriptedModel, scripted_reply, use
from tests.attachment_strategies import PNG
from tests.factory.chat_project import ChatProject, make_pending, results
from tests.runtime.support import run, yes
from tests.tools.web.site import Reply, serving

SECRET = "what the conversation wrote"


def opened(chat_project: ChatProject) -> Runtime:
    project = load_project(chat_project.root, {"tools.profile": "full"})
    return build_runtime(project, asker=yes())


def called(chat_project: ChatProject, tool: str, args: dict[str, Any] | None = None) -> Result:
    async def session() -> Result:
        async with opened(chat_project) as runtime:
            return await runtime.call(tool, args or {})

    return run(session())


def sessions(chat_project: ChatProject) -> list[dict[str, Any]]:
    return cast("dict[str, Any]", called(chat_project, "sessions.list").structured)["sessions"]


def talk(chat_project: ChatProject) -> dict[str, Any]:
    """Have a conversation that writes a file; return its session."""
    chat_project.write("@You:\nGo.\n")
    written = use("a", "file.write", f'{{"path": "notes.txt", "content": "{SECRET}"}}')
    assert chat_project.advance(ScriptedModel(scripted_reply(written)))[0].kind == "done"
    age(chat_project)
    return next(session for session in sessions(chat_project) if session["document"])


def age(chat_project: ChatProject) -> None:
    for file in load_project(chat_project.root).state.rglob("blobs/*/*"):
        os.utime(file, (1e9, 1e9))


@pytest.mark.spec("B12b")
def test_a_conversation_is_listed_with_its_document_and_a_run_with_its_interface(chat_project: ChatProject) -> None:
    session = talk(chat_project)
    assert session["document"] == str(chat_project.document)
    assert (session["interface"], session["calls"], session["pending"]) == ("chat", 1, 0)
    listed = called(chat_project, "sessions.list", {"text": "talk.chat", "limit": 1, "since": "1h"})
    assert session["id"] in listed.output and str(chat_project.document) in listed.output
    older = called(chat_project, "sessions.list", {"limit": 1})
    assert "older ones" in older.output
    assert called(chat_project, "sessions.list", {"until": "2001-01-01"}).output == "No sessions."
    assert "Cannot read 'soon' as a time" in (called(chat_project, "sessions.list", {"since": "soon"}).error or "")


@pytest.mark.spec("B12c")
def test_a_deleted_conversation_is_gone_from_the_state_folder_and_its_document_stays(chat_project: ChatProject) -> None:
    session = talk(chat_project)
    text = chat_project.document.read_text()
    state = load_project(chat_project.root).state
    assert any(SECRET.encode() in file.read_bytes() for file in state.rglob("*") if file.is_file())
    assert any(chats_dir(load_project(chat_project.root)).glob("*.json"))
    done = called(chat_project, "sessions.delete", {"session": session["id"]})
    assert done.success and "Kept: the hash chain" in done.output and "can no longer be undone" in done.output
    assert not any(SECRET.encode() in file.read_bytes() for file in state.rglob("*") if file.is_file())
    assert not any(chats_dir(load_project(chat_project.root)).glob("*.json"))
    assert chat_project.document.read_text() == text and (chat_project.root / "notes.txt").read_text() == SECRET
    assert all(item["id"] != session["id"] for item in sessions(chat_project))
    assert chat_project.advance(ScriptedModel())[0].kind == "done"


@pytest.mark.spec("B12c", "T10h", "T10i")
def test_a_lost_attachment_is_restored_from_the_ledger_and_deleted_with_the_conversation(
    chat_project: ChatProject,
) -> None:
    (chat_project.root / "dot.png").write_bytes(PNG)
    chat_project.write("@You:\nShow me.\n")
    chat_project.advance(
        ScriptedModel(scripted_reply(use("a", "file.read", '{"path": "dot.png"}')), scripted_reply("Seen."))
    )
    folder = Path(f"{chat_project.document}.files")
    [file] = folder.iterdir()
    file.unlink()
    chat_project.write(chat_project.document.read_text() + "\n@You:\nAgain.\n")
    model = ScriptedModel(scripted_reply("Seen."))
    assert chat_project.advance(model)[0].kind == "done"
    assert [item.data for item in results(model)[0].attachments] == [PNG] and file.read_bytes() == PNG
    age(chat_project)
    [session] = [session for session in sessions(chat_project) if session["document"]]
    assert called(chat_project, "sessions.delete", {"session": session["id"]}).success
    assert not folder.exists() and not any(load_project(chat_project.root).state.rglob("blobs/*/*"))


@pytest.mark.spec("B12c")
def test_pages_that_a_deleted_session_fetched_are_gone_and_what_stays_is_named(chat_project: ChatProject) -> None:
    state = load_project(chat_project.root).state

    def kept(*words: str) -> set[str]:
        files = [file for file in state.rglob("*") if file.is_file()]
        return {file.name for file in files if any(word.encode() in file.read_bytes() for word in words)}

    async def fetched() -> str:
        async with serving({"/": Reply("<p>duckbill", headers={"Cache-Control": "max-age=600"})}) as site:
            private = {"tools.profile": "full", "network.private": [site.entry]}
            async with build_runtime(load_project(chat_project.root, private), asker=yes()) as runtime:
                done = await runtime.call("web.fetch", {"url": f"{site.url}/?q=PLATYPUSQUERY"})
                assert done.success, done.error
                return done.call_id

    call_id = run(fetched())
    age(chat_project)
    assert any(name.endswith(".response") for name in kept("PLATYPUSQUERY") & kept("duckbill"))
    done = called(chat_project, "sessions.delete", {"session": call_id.partition("-")[0]})
    assert done.success and "Removed: " in done.output and "cache of web pages" in done.output
    assert kept("PLATYPUSQUERY", "duckbill") == set()
    assert "network.jsonl" in kept(call_id) and "host names and call ids in the network log" in done.output
    assert "downloads of the browser in quarantine" in done.output


@pytest.mark.spec("B12c")
def test_a_deletion_that_was_interrupted_can_be_repeated(
    chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = talk(chat_project)

    def interrupted(*_: object, **__: object) -> NoReturn:
        raise SessionRefused("interrupted")

    for step in ("chat.state_file.AttachmentFiles.remove", "factory.sessions.delete_session"):
        assert any(chats_dir(load_project(chat_project.root)).glob("*.json")), "it names the attachments"
        with monkeypatch.context() as patch:
            patch.setattr(f"holdfast.{step}", interrupted)
            assert called(chat_project, "sessions.delete", {"session": session["id"]}).error == "interrupted"
        assert session["id"] in {item["id"] for item in sessions(chat_project)}
    assert called(chat_project, "sessions.delete", {"session": session["id"]}).success
    assert not any(chats_dir(load_project(chat_project.root)).glob("*.json"))


@pytest.mark.spec("B12c")
def test_the_preview_says_what_is_removed_what_is_kept_and_that_undo_is_gone(chat_project: ChatProject) -> None:
    talk(chat_project)

    async def pending() -> str:
        project = load_project(chat_project.root, {"tools.profile": "full"})
        async with build_runtime(project, nobody="pending") as runtime:
            result = await runtime.call("sessions.delete", {"session": str(chat_project.document)})
            assert result.state is State.PENDING and runtime.ledger is not None
            found = runtime.ledger.find_pending(result.call_id)
            assert found is not None and found.proposal is not None and found.proposal.risk is Risk.HIGH
            return found.proposal.preview

    preview = run(pending())
    for words in (
        "Removes the arguments, results",
        "Keeps the hash chain",
        "can no longer be undone",
        "stays as it is",
    ):
        assert words in preview


@pytest.mark.spec("B12c")
def test_a_session_with_a_pending_call_and_a_document_in_use_are_refused(chat_project: ChatProject) -> None:
    make_pending(chat_project)
    (session,) = [item for item in sessions(chat_project) if item["document"]]
    assert session["pending"] == 1
    refused = called(chat_project, "sessions.delete", {"session": session["id"]})
    assert "pending or running" in (refused.error or "")
    other = ChatProject(chat_project.root)
    other.document = chat_project.root / "other.chat"
    talked = talk(other)
    with DocumentLock(other.document, chats_dir(load_project(chat_project.root))).acquire():
        busy = called(chat_project, "sessions.delete", {"session": str(other.document)})
    assert "was not deleted" in (busy.error or "") and "in use" in (busy.error or "")
    assert talked["id"] in {item["id"] for item in sessions(chat_project)}
    assert "Did you mean" in (called(chat_project, "sessions.delete", {"session": talked["id"][:-1]}).error or "")


@pytest.mark.spec("B12c")
def test_a_conversation_cannot_delete_itself(chat_project: ChatProject) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"], "holdfast", "config.toml")
    config.parent.mkdir(parents=True)
    config.write_text('[tools]\nprofile = "full"\n[approval]\nauto_approve = ["$default", "sessions.delete"]\n')
    chat_project.write("@You:\nGo.\n")
    args = f'{{"session": "{chat_project.document}"}}'
    model = ScriptedModel(
        scripted_reply(use("a", "sessions.list", "{}")), scripted_reply(use("b", "sessions.delete", args))
    )
    chat_project.advance(model)
    assert "current session" in chat_project.document.read_text()


@pytest.mark.spec("B12b")
def test_without_a_ledger_there_are_no_sessions(chat_project: ChatProject) -> None:
    async def session() -> Result:
        project = load_project(chat_project.root, {"tools.profile": "full", "ledger.enabled": False})
        async with build_runtime(project, asker=yes()) as runtime:
            return await runtime.call("sessions.list", {})

    assert "ledger is disabled" in (run(session()).error or "")
