"""The `.chat` documents of all projects: their status, each with its pending calls as cards, and advancing one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.agent.conversation import Slot
from holdfast.chat.conversation import DocumentConversation
from holdfast.chat.state_file import DocumentBusy, lock_owner
from holdfast.contract.call import ProcessIdentity
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError, UnknownCall
from holdfast.factory.runtime import chats_dir
from holdfast.json_output import NEXT_STEPS, DocumentOutput
from holdfast.runtime.runtime import Runtime
from holdfast.serve import html
from holdfast.serve.actions import Actions
from holdfast.serve.call_context import CallContext
from holdfast.serve.document_status import UnknownDocument, document_status, find_document, project_documents
from holdfast.serve.document_view import document_html
from holdfast.serve.events import count_pending, format_position, heads
from holdfast.serve.inbox import CallView
from holdfast.serve.projects import Projects, ServedProject
from holdfast.serve.requests import person_of, read_form, require_answer
from holdfast.store.process_identity import this_process
from holdfast.text.preview import display_path

MAX_BYTES: Final = 4 * 1024 * 1024
"""Larger documents are not rendered."""
_MAX_LISTED: Final = 200
_MAX_ENDED: Final = 100
_ADVANCE_SECONDS: Final = 7 * 86_400.0


class DocumentRow(Struct, frozen=True, kw_only=True):
    """A document in the list."""

    project: ServedProject
    path: Path
    name: str
    status: DocumentOutput | None
    """None if it cannot be read."""
    problem: str = ""

    @property
    def address(self) -> str:
        return document_address(self.project.key, self.path)

    @property
    def next(self) -> str:
        return "" if self.status is None else NEXT_STEPS[self.status.next]

    @property
    def pending(self) -> int:
        return 0 if self.status is None else sum(slot.pending is not None for slot in self.status.slots)


def document_address(project: str, path: Path | str) -> str:
    return f"/documents/{project}?{urlencode({'path': str(path)})}"


class Documents:
    """The pages of documents."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects
        self._ended: dict[Path, str] = {}
        """How advancing a document ended here last. Only a view: the document itself has what happened."""

    def routes(self) -> list[Route]:
        return [
            Route("/documents", self.list_page),
            Route("/documents/{project}", self.page),
            Route("/documents/{project}/advance", self.advance, methods=["POST"]),
        ]

    async def list_page(self, request: Request) -> Response:
        rows: list[DocumentRow] = []
        more = 0
        for project in self._projects:
            paths = await asyncio.to_thread(project_documents, project)
            more += max(0, len(paths) - _MAX_LISTED)
            runtime = await project.runtime() if paths else None
            if runtime is not None:
                rows += await asyncio.to_thread(_rows, project, runtime, paths[:_MAX_LISTED])
        rows.sort(key=lambda row: (not row.pending, row.name))
        return html.page(
            request,
            "documents.html",
            rows=rows,
            more=more,
            several=len(list(self._projects)) > 1,
            here=this_process().pid,
        )

    async def page(self, request: Request) -> Response:
        project = self._projects.get(request.path_params["project"])
        path = await _found(project, request.query_params.get("path", ""))
        position = format_position(heads(self._projects), self._projects)  # before the calls, so that none is missed
        runtime = await project.runtime()
        status = await asyncio.to_thread(document_status, path, project, runtime)
        may_answer = person_of(request).may_answer
        owner = lock_owner(path, chats_dir(project.project))
        return html.page(
            request,
            "document.html",
            project=project,
            document=path,
            name=display_path(str(path), str(project.folder)),
            about=status,
            next=NEXT_STEPS[status.next],
            owner=owner,
            is_here=owner == this_process(),
            ended=self._ended.get(path, ""),
            shown=await self._shown(project, path, may_answer=may_answer),
            query=urlencode({"after": position}),
            pending=count_pending(self._projects),
            now=time.time(),
            may_answer=may_answer,
        )

    async def advance(self, request: Request) -> Response:
        person = require_answer(request)
        form = await read_form(request)
        project = self._projects.get(request.path_params["project"])
        path = await _found(project, form.get("path", ""))
        owner = lock_owner(path, chats_dir(project.project))
        if owner is not None:
            raise DocumentBusy(path, owner)
        self._ended.pop(path, None)
        project.start(self._advance(Actions(self._projects, person), project, path))
        return RedirectResponse(document_address(project.key, path), 303)

    async def _advance(self, actions: Actions, project: ServedProject, path: Path) -> None:
        try:
            outcome = await actions.advance(project.key, str(path), None, _ADVANCE_SECONDS)
            ended = "" if outcome is None else f"{outcome.kind}{f': {outcome.message}' if outcome.message else ''}"
        except HoldfastError as error:
            ended = str(error)
        self._ended.pop(path, None)
        self._ended[path] = ended
        if len(self._ended) > _MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    async def _shown(self, project: ServedProject, path: Path, *, may_answer: bool) -> Markup | None:
        """The document with the cards of its pending calls; None if it is too large."""
        conversation = await asyncio.to_thread(_opened, path, chats_dir(project.project))
        if conversation is None:
            return None
        cards: dict[str, Markup] = {}
        for slot in conversation.slots():
            if (card := await self._card(project, slot, may_answer=may_answer)) is not None:
                cards[slot.use.id] = card
        return await asyncio.to_thread(document_html, conversation.document, cards.get)

    async def _card(self, project: ServedProject, slot: Slot, *, may_answer: bool) -> Markup | None:
        pending = None if slot.call is None else project.ledger.find_pending(slot.call.call_id)
        if pending is None or pending.state not in (State.PENDING, State.APPROVED):
            return None
        values: dict[str, Any] = {
            "view": CallView.of(project, pending),
            "context": await CallContext.of(project, pending),
            "may_answer": may_answer,
            "several": False,
            "now": time.time(),
        }
        return Markup(html.render("row.html", **values))  # noqa: S704 - the template escapes what it is given


async def _found(project: ServedProject, name: str) -> Path:
    """The document of this name; any other file is not found."""
    try:
        return await asyncio.to_thread(find_document, project, name)
    except UnknownDocument as error:
        raise UnknownCall(str(error)) from None


def _opened(path: Path, state: Path) -> DocumentConversation | None:
    """The document, or None if it is too large to be rendered."""
    return None if path.stat().st_size > MAX_BYTES else DocumentConversation(path, state=state)


def _rows(project: ServedProject, runtime: Runtime, paths: list[Path]) -> list[DocumentRow]:
    return [_row(project, runtime, path) for path in paths]


def _row(project: ServedProject, runtime: Runtime, path: Path) -> DocumentRow:
    name, state = display_path(str(path), str(project.folder)), chats_dir(project.project)
    driver: ProcessIdentity | None = lock_owner(path, state)
    try:
        status = DocumentOutput.of(
            DocumentConversation(path, state=state), runtime, driver=driver, model="", trusted=None, problems=()
        )
    except (HoldfastError, OSError) as error:
        return DocumentRow(project=project, path=path, name=name, status=None, problem=str(error))
    return DocumentRow(project=project, path=path, name=name, status=status)
