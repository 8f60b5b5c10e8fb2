"""The pages around pending calls without a browser: forms, parts for the script, and refusals."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.serve import pages
from holdfast.serve.inbox import grouped
from tests.serve.daemon_client import DaemonClient, digest_in, run

pytestmark = pytest.mark.spec("E3")

ASKING = "[approval]\nauto_approve = []\n"
JSON = "application/json"


async def _asked(client: DaemonClient, *commands: str) -> list[str]:
    return [(await client.call("shell.exec", {"command": command})).call_id for command in commands]


@pytest.mark.spec("E7")
def test_calls_of_one_shape_are_one_group_with_a_digest_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(client: DaemonClient) -> None:
        ids = await _asked(client, "rm a", "rm b", "make x", "rm c")
        page = await client.page("/")
        assert "3 × shell.exec" in page
        values = re.findall(r'name="call" value="(\S+ \S+ \S+)"', page)
        assert [value.split()[2] for value in values] == [ids[0], ids[1], ids[3]]
        project, _, call_id = values[1].split()
        given = [values[0], f"{project} {'0' * 64} {call_id}"]
        reply = await client.http.post("/approve-all", data={"call": given}, headers={"Accept": JSON})
        outcomes = reply.json()
        assert [(item["call_id"], item["ok"]) for item in outcomes] == [(ids[0], True), (ids[1], False)]
        assert "changed since it was shown" in outcomes[1]["message"]

    run(body, tmp_path, monkeypatch, ASKING)


def test_large_calls_make_no_large_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        for number in range(3):
            await client.call("file.write", {"path": f"{number}.txt", "content": "some words\n" * 20_000})
        page = await client.page("/")
        assert all(f"{number}.txt" in page for number in range(3))
        assert len(page) < 50_000

    run(body, tmp_path, monkeypatch, ASKING)


def test_the_inbox_is_built_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def noting(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return grouped(*args)

    async def body(client: DaemonClient) -> None:
        await _asked(client, "make x")
        assert "make x" in await client.page("/")
        assert threads and threading.current_thread() not in threads

    monkeypatch.setattr(pages, "grouped", noting)
    run(body, tmp_path, monkeypatch, ASKING)


def test_filters_narrow_the_list_and_are_passed_to_the_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        await _asked(client, "make x")
        await client.call("file.write", {"path": "a.txt", "content": "x"})
        page = await client.page("/?tool=file.write&text=A.TXT")
        assert "a.txt" in page and "make x" not in page
        assert re.search(r'data-events="/events\?after=\d+&amp;tool=file.write&amp;text=A.TXT"', page)

    run(body, tmp_path, monkeypatch, ASKING)


@pytest.mark.spec("E7")
def test_always_is_previewed_and_then_stored_for_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        first, same = await _asked(client, "make x", "make x")
        address = f"/calls/{client.key}/{first}/always"
        part = await client.page(f"{address}?scope=project&width=exact&lifetime=8h&part=1")
        assert "<html" not in part
        assert "for 8h," in part and "`make x` with any timeout" in part
        (covered,) = re.findall(r'name="call" value="([^"]+)"', part)
        form = {"scope": "project", "width": "exact", "lifetime": "8h", "digest": digest_in(part), "call": covered}
        reply = await client.http.post(address, data=form, headers={"Accept": JSON})
        assert [(item["call_id"], item["ok"]) for item in reply.json()] == [(first, True), (same, True)]
        grants = await client.page("/policy")
        assert "make x" in grants

    run(body, tmp_path, monkeypatch, ASKING)


def test_a_rule_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        (call_id,) = await _asked(client, "make x")
        for query in ("scope=everywhere", "width=all", "lifetime=soon"):
            page = await client.page(f"/calls/{client.key}/{call_id}/always?{query}", 400)
            assert "The rule cannot be read" in page

    run(body, tmp_path, monkeypatch, ASKING)


def test_a_person_who_may_only_look_gets_no_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        (call_id,) = await _asked(client, "make x")
        async with client.other("view") as viewer:
            page = await viewer.page(f"/calls/{client.key}/{call_id}")
            assert "make x" in page and "data-answer" not in page
            await viewer.post(f"/calls/{client.key}/{call_id}/approve", 403, digest="x")

    run(body, tmp_path, monkeypatch, ASKING)
