"""What the history says about one call: who authenticated, its connections, and the command that makes it again."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.contract.call import Answer, Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.result import ok
from holdfast.net.network_log import NETWORK_LOG, NetworkEntry, NetworkLog
from holdfast.serve import call_history
from holdfast.serve.call_history import read_call, read_changes, reproduce_command
from holdfast.serve.projects import ServedProject
from tests.serve.daemon_client import made_call, make_project
from tests.store.calls import make_pending

DECISION = Decision(Verdict.APPROVE, "urn:holdfast:approval:config", "approved")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[ServedProject]:
    served = ServedProject(make_project(tmp_path, monkeypatch), {})
    yield served
    served.ledger.close()


def change(project: ServedProject, call_id: str, names: list[str]) -> None:
    """Record a call that created these files."""
    call = made_call(project.project, "file.write", {}, call_id)
    project.ledger.begin_now(call, definition_digest="", mutates=True, decision=DECISION)
    for name in names:
        path = project.folder / name
        project.ledger.before_image(call_id, path, None)
        path.write_text("new\n")
        project.ledger.after_image(call_id, path, b"new\n")
    project.ledger.end_now(call_id, ok("written"))


def test_the_connections_of_a_call_are_those_that_the_log_names_after_it(project: ServedProject) -> None:
    for number in ("made-1", "made-11"):
        call = made_call(project.project, "web.fetch", {}, number)
        project.ledger.record_call_now(call, DECISION, ok("page"))
    log = NetworkLog(project.project.state / NETWORK_LOG)
    for by in ("web.fetch made-1", "web.fetch made-11", "a model"):
        log.record(NetworkEntry(at=1.0, by=by, host="example.org", port=443, outcome="allowed"))
    assert [entry.by for entry in read_call(project, "made-1").connections] == ["web.fetch made-1"]


async def _answered(project: ServedProject, answer: Answer) -> None:
    pending = make_pending("made-1")
    await project.ledger.add_pending(pending)
    project.ledger.answer("made-1", answer, digest=pending.digest)


def test_an_answer_says_who_authenticated(project: ServedProject) -> None:
    asyncio.run(_answered(project, Answer(kind="approve", by="page:ann", identity="token:ann", message="fine")))
    lines = {line.label: (line.text, note) for line, note in read_call(project, "made-1").story}
    text, note = lines["answer"]
    assert text == "approve by page:ann: fine"
    assert note.startswith("authenticated as token:ann, in the account ")


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=30), max_size=3))
def test_the_command_gives_the_shell_the_same_arguments(args: dict[str, Any]) -> None:
    class Folder:
        folder = Path("/a folder/it's")

    call = replace(CALL, args=args)
    *start, text = shlex.split(reproduce_command(call, Folder))  # type: ignore[arg-type]
    assert start == ["holdfast", "-C", "/a folder/it's", "call", "file.write"]
    assert json.loads(text) == args


def test_changes_are_listed_whole_and_say_which_diffs_are_left_out(
    project: ServedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(project, "made-1", ["a", "b", "c", "d"])
    monkeypatch.setattr(call_history, "_MAX_DIFFS", 2)
    monkeypatch.setattr(call_history, "_MAX_PATHS", 3)
    found = read_changes(project, "made-1", back=True)
    assert [path.name for path in found.paths] == ["a", "b", "c"]
    assert (found.more, found.without_diff) == (1, 1)
    assert (found.problem, found.partial_only) == ("", False)
    (project.folder / "a").write_text("changed\n")
    assert read_changes(project, "made-1", back=True).partial_only


def test_a_name_that_is_no_utf_8_is_shown_escaped(project: ServedProject) -> None:
    change(project, "made-1", ["caf\udce9"])
    assert read_changes(project, "made-1", back=False).paths[0].name == "caf\\xe9"


CALL = replace(make_pending("made-1").call, tool="file.write")
