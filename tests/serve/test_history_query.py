"""Filters of the history are read strictly, and pages of several ledgers merge without losing a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from holdfast.contract.enums import State
from holdfast.contract.result import ok
from holdfast.factory.runtime import Project, load_project
from holdfast.serve.events import Position
from holdfast.serve.history_query import HistoryQuery, export_history, read_history
from holdfast.serve.projects import ServedProject
from holdfast.serve.requests import BadRequest
from holdfast.store.queries import CallFilter
from tests.serve.daemon_client import DaemonClient, make_project


def query(text: str) -> HistoryQuery:
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": text.encode()}
    return HistoryQuery.of(Request(scope))


def record(project: Project, call_id: str) -> None:
    DaemonClient("http://127.0.0.1", project).record("math.add", {}, ok("sum"), call_id)


def test_unknown_fields_are_ignored_and_others_become_a_filter() -> None:
    found = query("tool=file.*&state=done&evil=1&text=a(b").filter()
    assert (found.tool, found.state) == ("file.*", State.DONE)
    assert found.text is not None
    assert found.text.search("xA(Bx")
    assert query("").filter() == CallFilter()


@pytest.mark.parametrize("text", ["since=soon", "until=soon", "state=x", "since=1h&until=2h", f"by={'x' * 1001}"])
def test_a_filter_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        query(text).filter()


@given(st.text(max_size=50), st.text(max_size=50))
def test_an_address_carries_the_filters_exactly(tool: str, text: str) -> None:
    wanted = HistoryQuery(tool=tool.strip(), text=text.strip())
    try:
        wanted.address("/history").encode()
    except UnicodeEncodeError:  # a lone surrogate cannot be sent
        return
    assert query(wanted.address("/history").partition("?")[2]) == wanted


def test_pages_of_several_projects_have_every_call_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make_project(tmp_path, monkeypatch)
    (tmp_path / "other" / ".git").mkdir(parents=True)
    projects = [ServedProject(project, {}) for project in (first, load_project(tmp_path / "other"))]
    for number in range(11):
        record(projects[number % 3 == 0].project, f"made-{number:02}")
    seen: list[str] = []
    position: Position | None = {}
    while position is not None:
        page = read_history(projects, CallFilter(), position, limit=3)
        assert len(page.rows) <= 3
        seen += [row.record.call.id for row in page.rows]
        position = page.older
    assert seen == [f"made-{number:02}" for number in reversed(range(11))]
    lines = list(export_history(projects, CallFilter(), several=True))
    assert len(lines) == 11
    for project in projects:
        project.ledger.close()
