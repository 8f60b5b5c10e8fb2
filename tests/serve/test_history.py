"""The history lists every call with filters, tells its story, and undoes it by the plan that was shown."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from holdfast.contract.call import Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.result import Attachment, Result, fail, ok
from holdfast.factory.runtime import load_project
from holdfast.serve import history_query
from tests.serve.daemon_client import DaemonClient, daemon, made_call, make_project, run

pytestmark = pytest.mark.spec("E3")

ASKING = "[approval]\nauto_approve = []\n"
APPROVING = '[approval]\nauto_approve = ["$default", "file.write", "file.edit"]\n'
DECISION = Decision(Verdict.APPROVE, "urn:holdfast:approval:config", "approved")
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


def links(page: str) -> list[str]:
    """The calls on a page of the history, in order."""
    return re.findall(r'class="what"><a href="([^"]+)"', page)


async def write(client: DaemonClient, name: str, content: str) -> str:
    done = await client.call("file.write", {"path": name, "content": content})
    assert done.success, done.error
    return done.call_id


async def plan_digest(client: DaemonClient, address: str, status: int = 200) -> str:
    found = re.search(r'name="digest" value="([0-9a-f]{64})"', await client.page(address, status))
    assert found is not None
    return found[1]


@pytest.mark.spec("E3p")
def test_calls_are_listed_with_the_last_received_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        assert "No calls are recorded here yet." in await client.page("/history")
        for number in range(3):
            client.record("math.add", {"number": number}, ok("done"), f"made-{number}")
        page = await client.page("/history")
        assert links(page) == [f"/history/{client.key}/made-{number}" for number in (2, 1, 0)]

    run(body, tmp_path, monkeypatch)


@pytest.mark.spec("E3p")
def test_pages_continue_at_a_ledger_entry_whatever_happens_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(client: DaemonClient) -> None:
        with client.ledger() as ledger:
            for number in range(120):
                call = made_call(client.project, "math.add", {"number": number}, f"made-{number}")
                ledger.begin_now(call, definition_digest="", mutates=False, decision=DECISION)
        first = await client.page("/history")
        seen = links(first)
        # Calls of a page that is not read yet end, and new ones arrive.
        with client.ledger() as ledger:
            ledger.end_now("made-3", ok("late"))
        client.record("math.add", {}, ok("new"), "new-1")
        page = first
        while (older := re.search(r'href="([^"]+)" rel="next"', page)) is not None:
            page = await client.page(older[1].replace("&amp;", "&"))
            seen += links(page)
        assert seen == [f"/history/{client.key}/made-{number}" for number in reversed(range(120))]
        await client.get("/history?before=x", 400)

    run(body, tmp_path, monkeypatch)


@pytest.mark.spec("E3p")
def test_every_filter_narrows_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        client.record("math.add", {"a": "needle (x"}, ok("sum"), "one-1")
        client.record("file.read", {"path": "a"}, fail("no such file"), "two-1", document="/notes/plan.chat")
        for query, expected in {
            "tool=math.*": ["one-1"],
            "state=failed": ["two-1"],
            "text=NEEDLE+(x": ["one-1"],
            "text=no+such": ["two-1"],
            "document=plan.chat": ["two-1"],
            "by=config": ["two-1", "one-1"],
            "by=nobody": [],
            "since=1h": ["two-1", "one-1"],
            "until=2000-01-01": [],
            f"project={client.key}&tool=file.read": ["two-1"],
        }.items():
            found = [link.rpartition("/")[2] for link in links(await client.page(f"/history?{query}"))]
            assert found == expected, query
        for wrong in ("since=whenever", "state=odd", "since=1h&until=2h", "text=" + "x" * 2000):
            assert await client.page(f"/history?{wrong}", 400)
        await client.get("/history?project=ffff", 404)

    run(body, tmp_path, monkeypatch)


def test_calls_of_all_projects_are_merged_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make_project(tmp_path, monkeypatch)
    (tmp_path / "other" / ".git").mkdir(parents=True)

    async def main() -> None:
        second = load_project(tmp_path / "other")
        for number in range(4):
            project = (first, second)[number % 2]
            DaemonClient("http://x", project).record("math.add", {"n": number}, ok("done"), f"made-{number}")
        async with daemon(first, every=True) as client:
            found = links(await client.page("/history"))
            assert [link.rpartition("/")[2] for link in found] == ["made-3", "made-2", "made-1", "made-0"]
            assert len({urlsplit(link).path.split("/")[2] for link in found}) == 2
            lines = (await client.get("/history/export")).text.splitlines()
            assert {json.loads(line)["project"] for line in lines} == {str(first.root), str(second.root)}

    asyncio.run(main())


def test_the_story_of_a_call_shows_decisions_answers_arguments_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(client: DaemonClient) -> None:
        pending = await client.call("file.write", {"path": "it's.txt", "content": "x"})
        address = f"/history/{client.key}/{pending.call_id}"
        page = await client.page(address)
        assert "Open the card" in page
        card = await client.page(f"/calls/{client.key}/{pending.call_id}")
        digest = re.search(r'name="digest" value="([^"]+)"', card)
        assert digest is not None
        await client.post(f"/calls/{client.key}/{pending.call_id}/reject", digest=digest[1], message="Not now.")
        page = await client.page(address)
        for words in ("rejected", "reject by page:", "Not now.", "authenticated as os:", "it&#39;s.txt", "ask: "):
            assert words in page, words
        assert f"holdfast -C {client.project.root} call file.write" in page
        assert f"/policy?project={client.key}&amp;call={pending.call_id}#explain" in page
        await client.get(f"/history/{client.key}/none", 404)

    run(body, tmp_path, monkeypatch, ASKING)


def test_nothing_hostile_in_a_call_becomes_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        item = Attachment(kind="file", mime_type="text/html", data=b"<script>", name=HOSTILE)
        result = Result(False, HOSTILE, error=HOSTILE, attachments=(item,))
        client.record(HOSTILE, {HOSTILE: HOSTILE}, result, "made-1", agent=HOSTILE, document=f"/{HOSTILE}.chat")
        for path in ("/history", f"/history/{client.key}/made-1", f"/history/{client.key}/made-1/undo"):
            page = await client.page(path)
            assert "<script>alert" not in page
            assert "\x1b" not in page
            assert "\u202e" not in page
        found = await client.page("/history?text=%3Cscript%3Ealert%281%29")
        assert "&lt;script&gt;alert" in found

    run(body, tmp_path, monkeypatch)


def test_calls_nested_in_a_call_and_its_parent_are_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        with client.ledger() as ledger:
            outer = made_call(client.project, "outer", {}, "outer-1")
            ledger.begin_now(outer, definition_digest="", mutates=False, decision=DECISION)
            inner = replace(made_call(client.project, "inner", {}, "inner-1"), parent="outer-1", depth=1)
            ledger.record_call_now(inner, DECISION, ok("x"))
            ledger.end_now("outer-1", ok("y"))
        assert f"/history/{client.key}/inner-1" in await client.page(f"/history/{client.key}/outer-1")
        assert f"/history/{client.key}/outer-1" in await client.page(f"/history/{client.key}/inner-1")

    run(body, tmp_path, monkeypatch)


def test_an_export_has_every_entry_with_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        client.record("math.add", {"a": 1}, ok("sum"), "one-1")
        client.record("file.read", {"path": "a"}, fail("none"), "two-1")
        with client.ledger() as ledger:
            expected = b"".join(ledger.export())
        reply = await client.get("/history/export")
        assert reply.content == expected
        assert reply.headers["content-disposition"].startswith("attachment")
        one = await client.get(f"/history/{client.key}/two-1/export")
        assert [json.loads(line)["call"] for line in one.text.splitlines()] == ["two-1"]
        filtered = await client.get("/history/export?tool=math.add")
        assert [json.loads(line)["call"] for line in filtered.text.splitlines()] == ["one-1"]
        await client.get(f"/history/{client.key}/none/export", 404)

    run(body, tmp_path, monkeypatch)


def test_an_export_is_bounded_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_query, "EXPORTED_CALLS", 2)

    async def body(client: DaemonClient) -> None:
        for number in range(3):
            client.record("math.add", {}, ok("sum"), f"made-{number}")
        lines = [json.loads(line) for line in (await client.get("/history/export")).text.splitlines()]
        assert [line.get("call") for line in lines] == ["made-1", "made-2", None]
        assert "newest 2" in lines[-1]["truncated"]

    run(body, tmp_path, monkeypatch)


def test_a_search_that_finds_little_goes_on_at_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_query, "SCANNED_CALLS", 4)

    async def body(client: DaemonClient) -> None:
        client.record("math.add", {}, ok("sum"), "old-1")
        for number in range(6):
            client.record("file.read", {}, ok("text"), f"made-{number}")
        page = await client.page("/history?tool=math.add")
        assert links(page) == []
        older = re.search(r'href="([^"]+)" rel="next">Search older calls', page)
        assert older is not None
        assert links(await client.page(older[1].replace("&amp;", "&"))) == [f"/history/{client.key}/old-1"]

    run(body, tmp_path, monkeypatch)


@pytest.mark.spec("E3q")
@pytest.mark.spec("X11")
def test_undo_shows_its_own_diff_and_is_recorded_as_by_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(client: DaemonClient) -> None:
        assert client.project.root is not None
        file = client.project.root / "a.txt"
        file.write_text("before\n")
        call_id = await write(client, "a.txt", "after\n")
        story = await client.page(f"/history/{client.key}/{call_id}")
        assert "Undo…" in story
        address = f"/history/{client.key}/{call_id}/undo"
        assert (await client.get("/undo/last", 303)).headers["location"] == address
        page = await client.page(address)
        assert "before" in page
        assert "Put back 1 path" in page
        reply = await client.post(address, digest=await plan_digest(client, address))
        assert file.read_text() == "before\n"
        undone = await client.page(reply.headers["location"])
        assert "holdfast.undo" in undone
        assert "page:" in undone
        assert "Undone by call" in await client.page(f"/history/{client.key}/{call_id}")
        assert "was undone already" in await client.page(address)
        await client.get("/undo/last", 409)

    run(body, tmp_path, monkeypatch, APPROVING)


@pytest.mark.spec("E3q")
def test_a_stale_plan_is_not_run_but_shown_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        assert client.project.root is not None
        file = client.project.root / "a.txt"
        call_id = await write(client, "a.txt", "after\n")
        address = f"/history/{client.key}/{call_id}/undo"
        digest = await plan_digest(client, address)
        file.write_text("edited by hand\n")
        page = (await client.post(address, 409, digest=digest)).text
        assert "has changed since it was shown" in page
        assert file.read_text() == "edited by hand\n"
        await client.post(address, 409, digest="")

    run(body, tmp_path, monkeypatch, APPROVING)


def test_only_a_part_is_put_back_if_the_person_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        root = client.project.root
        assert root is not None
        with client.ledger() as ledger:
            call = made_call(client.project, "file.write", {}, "both-1")
            ledger.begin_now(call, definition_digest="", mutates=True, decision=DECISION)
            for name in ("a", "b"):
                ledger.before_image("both-1", root / name, None)
                (root / name).write_text("new\n")
                ledger.after_image("both-1", root / name, b"new\n", 0o644)
            ledger.end_now("both-1", ok("written"))
        (root / "a").chmod(0o644)
        (root / "b").write_text("changed since\n")
        address = f"/history/{client.key}/both-1/undo"
        page = await client.page(address)
        assert "cannot be put back: it has changed since" in page
        await client.post(address, 409, digest=await plan_digest(client, address))
        assert (root / "a").exists()
        await client.post(address, digest=await plan_digest(client, address), partial="1")
        assert not (root / "a").exists()
        assert (root / "b").read_text() == "changed since\n"

    run(body, tmp_path, monkeypatch)


def test_a_person_who_may_only_look_cannot_undo_and_others_must_log_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(client: DaemonClient) -> None:
        call_id = await write(client, "a.txt", "after\n")
        address = f"/history/{client.key}/{call_id}/undo"
        digest = await plan_digest(client, address)
        async with client.other("view") as viewer:
            assert 'name="digest"' not in await viewer.page(address)
            await viewer.post(address, 403, digest=digest)
        async with client.other() as stranger:
            for path in ("/history", "/history/export", "/undo/last", address, f"/history/{client.key}/{call_id}"):
                assert (await stranger.get(path, 303)).headers["location"].startswith("/login")
            assert (await stranger.post(address, digest=digest)).headers["location"] == "/login"

    run(body, tmp_path, monkeypatch, APPROVING)
