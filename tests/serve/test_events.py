"""Server-sent events: ids are ledger numbers, a reader resumes exactly, and nothing is queued for a slow one."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.call import Answer, Call, Caller, Decision, PendingCall
from holdfast.contract.enums import State, Verdict
from holdfast.contract.errors import CallError
from holdfast.contract.json import parse_json
from holdfast.factory.runtime import load_project
from holdfast.serve.api import describe
from holdfast.serve.events import format_position, heads, parse_position, stream
from holdfast.serve.projects import Projects
from holdfast.serve.watch import LedgerWatch
from tests.serve.served import WRITE, Daemon
from tests.soak import rounds

Event = tuple[str, str, Any]


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Projects]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "project" / ".git").mkdir(parents=True)
    found = Projects(load_project(tmp_path / "project"), every=False, flags={})
    found.refresh()
    yield found
    asyncio.run(found.close())


def hold(projects: Projects, call_id: str) -> PendingCall:
    (project,) = projects
    call = Call(id=call_id, tool="demo", name_used="demo", args={}, caller=Caller(), cwd=str(project.folder))
    pending = PendingCall(
        call=call,
        state=State.PENDING,
        digest=f"digest-{call_id}",
        definition_digest="d",
        decision=Decision(Verdict.ASK, "test", ""),
        preview=f"demo: {call_id}",
        held_at=1.0,
    )
    asyncio.run(project.ledger.add_pending(pending))
    return pending


def reject(projects: Projects, call_id: str) -> None:
    (project,) = projects
    project.ledger.answer(call_id, Answer(kind="reject", by="ann"), digest=f"digest-{call_id}")


def read(projects: Projects, position: dict[str, int], allowed: Any = lambda: True) -> list[Event]:
    """The events that are there now."""

    async def collect() -> list[bytes]:
        watch = LedgerWatch(projects)
        return [part async for part in stream(projects, watch, position, describe, allowed, brief=True)]

    return [parse(part) for part in asyncio.run(collect()) if part.startswith(b"event:")]


def parse(part: bytes) -> Event:
    fields = dict(line.split(": ", 1) for line in part.decode().strip().split("\n"))
    return fields["event"], fields["id"], parse_json(fields["data"])


@pytest.mark.spec("E3d")
def test_an_event_has_the_number_of_the_last_ledger_entry_as_its_id(projects: Projects) -> None:
    (project,) = projects
    hold(projects, "a")
    (event,) = read(projects, {project.key: 0})
    number = project.ledger.record("a").entries[-1]
    assert event[:2] == ("calls", str(number))
    assert event[2]["calls"] == [{"project": project.key, "call_id": "a", "state": "pending", "digest": "digest-a"}]
    assert event[2]["pending"] == 1
    assert parse_position(event[1], projects) == heads(projects)
    assert read(projects, heads(projects)) == []


@pytest.mark.spec("E3d")
def test_a_reader_that_resumes_misses_nothing_and_gets_nothing_twice(projects: Projects) -> None:
    (project,) = projects
    for number in range(20):
        hold(projects, f"c{number}")
    last = project.ledger.record("c9").entries[-1]
    found = read(projects, parse_position(str(last), projects))
    assert [call["call_id"] for event in found for call in event[2]["calls"]] == [f"c{n}" for n in range(10, 20)]


@pytest.mark.spec("E3d")
def test_a_reader_that_slept_gets_the_present_state_of_every_call(projects: Projects) -> None:
    (project,) = projects
    count = rounds(400, 5000)
    for number in range(count):
        hold(projects, f"c{number}")
    position = heads(projects)
    for number in range(0, count, 2):
        reject(projects, f"c{number}")
    for number in range(count, count + 5):
        hold(projects, f"c{number}")
    state = {f"c{number}": "pending" for number in range(count)}
    for event in read(projects, position):
        state |= {call["call_id"]: call["state"] for call in event[2]["calls"]}
    wanted = {pending.call.id for pending in project.ledger.pending()}
    assert {call for call, now in state.items() if now == "pending"} == wanted


@pytest.mark.spec("E3d")
def test_a_brief_stream_ends_when_the_reader_has_caught_up_and_says_when_to_ask_again(projects: Projects) -> None:
    async def collect() -> list[bytes]:
        watch = LedgerWatch(projects)
        async with asyncio.timeout(60):
            return [part async for part in stream(projects, watch, {}, describe, lambda: True, brief=True)]

    hold(projects, "a")
    first, calls = asyncio.run(collect())
    assert first == b"retry: 5000\n\n"
    assert parse(calls)[2]["pending"] == 1


@pytest.mark.spec("E3d")
def test_streams_end_when_the_daemon_does(projects: Projects) -> None:
    async def collect() -> list[bytes]:
        watch = LedgerWatch(projects)
        parts: list[bytes] = []
        async with asyncio.timeout(60):
            async for part in stream(projects, watch, heads(projects), describe, lambda: True):
                parts.append(part)
                asyncio.get_running_loop().call_later(0.01, projects.stop)
        return parts

    assert asyncio.run(collect()) == [b"retry: 1000\n\n"]


@pytest.mark.spec("E3d")
def test_a_position_beyond_the_ledger_means_that_it_was_replaced(projects: Projects) -> None:
    hold(projects, "a")
    (event,) = read(projects, parse_position("999999", projects))
    assert event[0] == "reload"
    assert parse_position(event[1], projects) == heads(projects)


@pytest.mark.spec("E3b")
def test_a_reader_who_was_removed_gets_nothing_more(projects: Projects) -> None:
    hold(projects, "a")
    (project,) = projects
    assert read(projects, {project.key: 0}, allowed=lambda: False) == []


@pytest.mark.spec("E3d")
@pytest.mark.parametrize("text", ["x", "-1", "1,2", "0123456789abcdef:", "a" * 200_000, "1\n2", "１"])
def test_what_is_no_id_of_an_event_is_refused(projects: Projects, text: str) -> None:
    with pytest.raises(CallError, match="must be the id of an event"):
        parse_position(text, projects)


@pytest.mark.spec("E3d")
def test_the_position_in_several_projects_names_each(projects: Projects) -> None:
    given = "0123456789abcdef:5,fedcba9876543210:7"
    assert format_position(parse_position(given, projects), projects) == given


@pytest.mark.spec("E3d")
def test_a_stream_resumes_by_last_event_id_over_http(served: Daemon) -> None:
    client = served.local()
    first = served.cli.make_pending(*WRITE)
    second = served.cli.make_pending(*WRITE)

    def events(**headers: str) -> tuple[str, list[str]]:
        with client.stream("GET", "/api/events?after=0", headers=headers) as reply:
            assert reply.headers["Content-Type"].startswith("text/event-stream")
            number, seen = "", list[str]()
            for line in reply.iter_lines():
                if line.startswith("id: "):
                    number = line.removeprefix("id: ")
                if line.startswith("data: "):
                    seen += [call["call_id"] for call in _calls(line)]
                    if second in seen or third in seen:
                        return number, seen
        raise AssertionError("the stream ended")

    third = ""
    number, seen = events()
    assert seen == [first, second]
    third = served.cli.make_pending(*WRITE)
    assert events(**{"Last-Event-ID": number})[1] == [third]


def _calls(line: str) -> list[dict[str, str]]:
    data: Any = parse_json(line.removeprefix("data: "))
    return data["calls"]


@pytest.mark.spec("E3d")
def test_memory_stays_bounded_while_a_reader_reads_nothing(served: Daemon) -> None:
    """Events are made when they are sent, so what a reader leaves in its socket is all there is."""
    token = served.add("ann")
    client = served.client(token)
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", served.port))
        request = f"GET /api/events?after=0 HTTP/1.1\r\nHost: {served.host}\r\nAuthorization: Bearer {token}\r\n\r\n"
        reader.sendall(request.encode())

        def memory() -> int:
            pages = Path(f"/proc/{served.process.pid}/statm").read_text().split()[1]
            return int(pages) * os.sysconf("SC_PAGESIZE")

        body = {"tool": "calculator", "args": {"expression": "1"}}
        for _ in range(50):
            client.post("/api/call", json=body)
        before = memory()
        for _ in range(rounds(300, 5000)):
            client.post("/api/call", json=body)
        assert memory() - before < 40_000_000
