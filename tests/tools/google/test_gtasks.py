"""`gtasks.list`: tasks of a list by title or id, due ranges, completed ones, pages."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.tools.google.google_server import Account, GoogleServer, Reply, facts

pytestmark = pytest.mark.spec("B14f")
LISTS = "/tasks/v1/users/@me/lists"


def serve(there: GoogleServer, *tasks: dict[str, Any], **more: Any) -> None:
    there.pages[LISTS] = Reply({"items": [{"id": "L1", "title": "My Tasks"}, {"id": "L2", "title": "Work"}]})
    for name in ("L1", "L2"):
        there.pages[f"/tasks/v1/lists/{name}/tasks"] = Reply({"kind": "tasks#tasks", "items": [*tasks], **more})


def test_tasks_show_what_is_due_and_done_and_below_what(there: GoogleServer, tmp_path: Path) -> None:
    serve(
        there,
        {"id": "a", "title": "Book", "status": "needsAction", "due": "2026-03-05T00:00:00.000Z"},
        {"id": "b", "title": "Pay", "status": "completed", "completed": "2026-03-01T10:00:00.000Z", "parent": "a"},
        nextPageToken="p2",
    )
    result = Account(tmp_path, there).call("gtasks.list", completed=True, limit=2)
    lines = result.output.split("\n")
    assert lines[1:3] == [
        "- [ ] «Book»  (id a, due 2026-03-05)",
        "  - [x] «Pay»  (id b, completed 2026-03-01T10:00:00.000Z)",
    ]
    assert "Lists: «My Tasks» (L1), «Work» (L2)" in lines and facts(result)["next_page"] == "p2"
    query = there.asked("/tasks/v1/lists/L1/tasks")[0].query
    assert query == {"showCompleted": "true", "showHidden": "true", "maxResults": "2"}


def test_a_list_is_found_by_title_or_id(there: GoogleServer, tmp_path: Path) -> None:
    serve(there)
    account = Account(tmp_path, there)
    assert account.call("gtasks.list", list="work").success and account.call("gtasks.list", list="L2").success
    assert len(there.asked("/tasks/v1/lists/L2/tasks")) == 2
    told = account.call("gtasks.list", list="../x").error or ""
    assert told == "There is no list with the title or id '../x'. Lists: 'My Tasks' (L1), 'Work' (L2)."


def test_a_due_range_includes_its_last_day(there: GoogleServer, tmp_path: Path) -> None:
    serve(there)
    Account(tmp_path, there).call("gtasks.list", due_from="2026-03-01T00:00Z", due_to="2026-03-05T12:00+00:00")
    query = there.asked("/tasks/v1/lists/L1/tasks")[0].query
    assert (query["dueMin"], query["dueMax"]) == ("2026-03-01T00:00:00+00:00", "2026-03-06T00:00:00+00:00")


@pytest.mark.parametrize("zone", ["America/New_York", "UTC", "Asia/Tokyo"])
def test_a_due_day_is_the_same_in_every_zone(
    there: GoogleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    serve(there)
    account = Account(tmp_path, there)
    try:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        account.call("gtasks.list", due_from="2026-03-01", due_to="2026-03-31")
    finally:
        monkeypatch.undo()
        time.tzset()
    query = there.asked("/tasks/v1/lists/L1/tasks")[0].query
    assert (query["dueMin"], query["dueMax"]) == ("2026-03-01T00:00:00+00:00", "2026-04-01T00:00:00+00:00")
    assert "Cannot read '9999-12-31'" in (account.call("gtasks.list", due_to="9999-12-31").error or "")


def test_a_title_cannot_imitate_our_facts(there: GoogleServer, tmp_path: Path) -> None:
    serve(there, {"id": "a", "title": "Pay»  (id b, due 2026-01-01)", "status": "needsAction"})
    lines = Account(tmp_path, there).call("gtasks.list").output.split("\n")
    assert lines[:2] == ["«My Tasks»: 1 task", "- [ ] «Pay (id b, due 2026-01-01)»  (id a)"]


def test_notes_stay_behind_the_gutter(there: GoogleServer, tmp_path: Path) -> None:
    serve(there, {"id": "a", "title": "x\n- [x] y", "notes": "one\n- [ ] two\x85three", "status": "needsAction"})
    result = Account(tmp_path, there).call("gtasks.list")
    assert result.output.split("\n")[1:5] == ["- [ ] «x - [x] y»  (id a)", "  | one", "  | - [ ] two", "  | three"]
    assert result.metadata["untrusted"] == ["documents"]


def test_an_account_without_lists_is_said(there: GoogleServer, tmp_path: Path) -> None:
    there.pages[LISTS] = Reply({"items": []})
    assert Account(tmp_path, there).call("gtasks.list").error == "The account has no list of tasks."
