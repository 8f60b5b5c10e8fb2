"""The history: the list of calls, the page of one, their export, and undo."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from holdfast.contract.enums import State
from holdfast.contract.errors import StaleApproval, UndoRefused, UnknownCall
from holdfast.runtime.undo.restore import last_to_undo
from holdfast.serve import html
from holdfast.serve.actions import Actions
from holdfast.serve.call_history import read_call, read_changes
from holdfast.serve.events import format_position, parse_position
from holdfast.serve.history_query import (
    SCANNED_CALLS,
    HistoryQuery,
    HistoryRow,
    export_history,
    history_address,
    read_history,
)
from holdfast.serve.projects import Projects, ServedProject
from holdfast.serve.requests import person_of, read_form, require_answer
from holdfast.store.ledger import Ledger

_NDJSON: Final = "application/x-ndjson"


class History:
    """The pages of calls that were made."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects

    def routes(self) -> list[Route]:
        call = "/history/{project}/{call_id}"
        return [
            Route("/history", self.calls),
            Route("/history/export", self.export_list),
            Route("/undo/last", self.undo_last),
            Route(call, self.call),
            Route(f"{call}/export", self.export_call),
            Route(f"{call}/undo", self.undo_form),
            Route(f"{call}/undo", self.undo, methods=["POST"]),
        ]

    async def calls(self, request: Request) -> Response:
        query = HistoryQuery.of(request)
        wanted = query.filter()
        before = request.query_params.get("before", "")
        position = parse_position(before, self._projects) if before else {}
        found = await asyncio.to_thread(read_history, self._chosen(query), wanted, position)
        older = "" if found.older is None else format_position(found.older, self._projects)
        return html.page(
            request,
            "history.html",
            page=found,
            scanned=SCANNED_CALLS,
            query=query,
            filtered=query != HistoryQuery(),
            projects=sorted((project.key, project.name) for project in self._projects),
            states=[state.value for state in State],
            older=query.address("/history", before=older) if older else "",
            newest=query.address("/history") if before else "",
            export=query.address("/history/export"),
        )

    async def call(self, request: Request) -> Response:
        project, call_id = self._named(request)
        found = await asyncio.to_thread(read_call, project, call_id)
        may_answer = person_of(request).may_answer
        return html.page(request, "history_call.html", view=found, may_answer=may_answer)

    async def export_call(self, request: Request) -> Response:
        project, call_id = self._named(request)
        if not project.ledger.has_call(call_id):
            project.ledger.call(call_id)  # raises, and says why it is not there
        return _download(project.ledger.export_call(call_id), f"holdfast-{call_id}")

    async def export_list(self, request: Request) -> Response:
        query = HistoryQuery.of(request)
        lines = export_history(self._chosen(query), query.filter(), several=len(list(self._projects)) > 1)
        return _download(lines, "holdfast-history")

    async def undo_form(self, request: Request) -> Response:
        project, call_id = self._named(request)
        return await self._undo_page(request, project, call_id)

    async def undo(self, request: Request) -> Response:
        person = require_answer(request)
        project, call_id = self._named(request)
        form = await read_form(request)
        try:
            result = await Actions(self._projects, person).undo(
                project.key, call_id, digest=form.get("digest", ""), partial="partial" in form
            )
        except StaleApproval as error:
            return await self._undo_page(request, project, call_id, problem=str(error), status=409)
        return RedirectResponse(history_address(project.key, result.undo_id), 303)

    async def undo_last(self, _: Request) -> Response:
        """The undo of the last call of all projects that can be undone."""
        found = await asyncio.to_thread(self._last_to_undo)
        return RedirectResponse(f"{found}/undo", 303)

    def _last_to_undo(self) -> str:
        latest: tuple[float, str] | None = None
        refused = UndoRefused("No project is served here.")
        for project in self._projects:
            try:
                call_id = last_to_undo(project.ledger)
            except UndoRefused as error:
                refused = error
                continue
            at = _last_change(project.ledger, call_id)
            if latest is None or at > latest[0]:
                latest = (at, history_address(project.key, call_id))
        if latest is None:
            raise refused
        return latest[1]

    async def _undo_page(
        self, request: Request, project: ServedProject, call_id: str, *, problem: str = "", status: int = 200
    ) -> Response:
        record = await asyncio.to_thread(project.ledger.call, call_id)
        found = await asyncio.to_thread(read_changes, project, call_id, back=True)
        row = HistoryRow(project=project, record=record)
        may_answer = person_of(request).may_answer
        return html.page(
            request, "undo.html", status=status, row=row, undo=found, problem=problem, may_answer=may_answer
        )

    def _chosen(self, query: HistoryQuery) -> list[ServedProject]:
        return [self._projects.get(query.project)] if query.project else [*self._projects]

    def _named(self, request: Request) -> tuple[ServedProject, str]:
        project = self._projects.get(request.path_params["project"])
        call_id = request.path_params["call_id"]
        if not call_id.isprintable():
            raise UnknownCall("No call has this id.")
        return project, call_id


def _last_change(ledger: Ledger, call_id: str) -> float:
    return float(ledger.rows("SELECT max(at) FROM entries WHERE call = ?", (call_id,))[0][0] or 0.0)


def _download(lines: Iterator[bytes], name: str) -> Response:
    stamp = datetime.now().astimezone().strftime("%Y-%m-%d")
    safe = re.sub(r"[^A-Za-z0-9._-]", "-", f"{name}-{stamp}")
    headers = {"Content-Disposition": f'attachment; filename="{safe}.jsonl"'}
    return StreamingResponse(lines, media_type=_NDJSON, headers=headers)
