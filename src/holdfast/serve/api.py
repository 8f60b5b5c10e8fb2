"""The HTTP API: everything the page shows and does, as JSON. `GET /api/openapi.json` describes it.

The objects are those that `--json` prints. Answers and other actions go through `actions`, like those of the page.
"""

from __future__ import annotations

import asyncio
import math
import re
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import BadJson, HoldfastError
from holdfast.contract.json import Args, Doc, encode_json, parse_json
from holdfast.json_output import (
    CallOutput,
    ChangeOutput,
    DocumentOutput,
    ExplanationOutput,
    GrantOutput,
    JsonObject,
    OutcomeOutput,
    PendingOutput,
    ToolOutput,
    UndoOutput,
    result_output,
)
from holdfast.runtime.undo.restore import diff_of
from holdfast.serve.actions import Actions, CallRef, Outcome, find_call
from holdfast.serve.document_status import document_outputs
from holdfast.serve.endpoint import ApiRequest, Endpoint
from holdfast.serve.events import CallChange, heads, parse_position, stream
from holdfast.serve.inbox import CallView, Filters, pending_views
from holdfast.serve.openapi import openapi_document, reference
from holdfast.serve.projects import Projects, ServedProject
from holdfast.serve.requests import BadRequest, still_allowed, stream_reply
from holdfast.serve.watch import LedgerWatch
from holdfast.store.queries import MAX_ENTRY, CallFilter

MAX_CALLS: Final = 500
MAX_BATCH: Final = 1000
MAX_WAIT: Final = 60.0
MAX_SEARCHED: Final = 5000
"""Calls that one search looks at."""
MAX_SEARCHES: Final = 2
"""Searches at the same time; the others wait their turn, and leave threads to those who answer."""

Seconds = Annotated[float, Meta(ge=0, le=MAX_WAIT)]
Digest = Annotated[str, Meta(max_length=200)]


class Query(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of queries."""


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of bodies."""


class ProjectQuery(Query, frozen=True):
    project: Annotated[str, Doc("the key of the project; may be left out if only one is served")] = ""


class PendingQuery(ProjectQuery, frozen=True):
    agent: Annotated[str, Doc("only calls of this agent")] = ""
    tool: Annotated[str, Doc("only calls of this tool")] = ""
    risk: Annotated[Literal["", "low", "medium", "high"], Doc("only calls of this risk")] = ""
    text: Annotated[str, Doc("only calls whose preview contains this")] = ""


class CallsQuery(ProjectQuery, frozen=True):
    tool: Annotated[str | None, Doc("a tool or a pattern such as `file.*`")] = None
    state: Annotated[State | None, Doc("the state of the call")] = None
    since: Annotated[float | None, Doc("received at or after this time, in seconds since 1970")] = None
    until: Annotated[float | None, Doc("received before this time")] = None
    by: Annotated[str | None, Doc("who decided: a person or a rule")] = None
    document: Annotated[str | None, Doc("the path of the document that made the call, or its end")] = None
    text: Annotated[str, Doc("text in the tool's name, the arguments, the result or an answer")] = ""
    before: Annotated[int, Meta(ge=1, le=MAX_ENTRY), Doc("`next` of the page before")] = MAX_ENTRY
    limit: Annotated[int, Meta(ge=1, le=MAX_CALLS), Doc("how many calls to return")] = 50


class ChangesQuery(Query, frozen=True):
    diff: Annotated[Literal["", "0", "1"], Doc("1 adds the diff of each file")] = ""


class EventsQuery(Query, frozen=True):
    after: Annotated[str | None, Doc("the id of the last event that was read; the header Last-Event-ID wins")] = None


class ApproveBody(Body, frozen=True):
    digest: Annotated[Digest, Doc("the digest of the call as it was shown")]


class EditBody(Body, frozen=True):
    digest: Annotated[Digest, Doc("the digest of the call as it was shown")]
    args: Annotated[Args, Doc("the arguments that replace the present ones")]


class RejectBody(Body, frozen=True):
    digest: Annotated[Digest, Doc("the digest of the call as it was shown")]
    message: Annotated[str, Doc("what the model is told")] = ""


class RespondBody(Body, frozen=True):
    digest: Annotated[Digest, Doc("the digest of the call as it was shown")]
    output: Annotated[str, Doc("the result in the tool's place")]
    success: Annotated[bool, Doc("false makes it an error")] = True


class ApproveAllBody(Body, frozen=True):
    calls: Annotated[list[CallRef], Meta(max_length=MAX_BATCH), Doc("the calls as they were shown")]


class EmptyBody(Body, frozen=True):
    """`{}`."""


class CallBody(Body, frozen=True):
    tool: Annotated[str, Doc("the tool's name")]
    args: Annotated[Args, Doc("the arguments")] = {}
    project: Annotated[str, Doc("the key of the project; may be left out if only one is served")] = ""
    wait: Annotated[Seconds, Doc("how many seconds to wait for the result")] = 10.0


class UndoBody(Body, frozen=True):
    partial: Annotated[bool, Doc("put back the paths that can be, and leave the others")] = False


class ExplainBody(Body, frozen=True):
    tool: Annotated[str, Doc("the tool's name")]
    args: Annotated[Args | None, Doc("the arguments; without them the tool alone is judged")] = None
    project: Annotated[str, Doc("the key of the project; may be left out if only one is served")] = ""


class RevokeBody(Body, frozen=True):
    project: Annotated[str, Doc("the key of the project; may be left out if only one is served")] = ""


class AdvanceBody(Body, frozen=True):
    path: Annotated[str, Doc("the document, relative to the project")]
    message: Annotated[str | None, Doc("a message to add before")] = None
    project: Annotated[str, Doc("the key of the project; may be left out if only one is served")] = ""
    wait: Annotated[Seconds, Doc("how many seconds to wait for the end")] = 10.0


class ProjectReply(Struct, frozen=True, kw_only=True):
    """A project that is served."""

    key: Annotated[str, Doc("names the project in addresses and queries")]
    name: Annotated[str, Doc("the name of its folder")]
    folder: Annotated[str, Doc("its folder")]
    pending: Annotated[int, Doc("how many calls are pending")]


class ProjectsReply(Struct, frozen=True, kw_only=True):
    projects: list[ProjectReply]
    problems: Annotated[dict[str, str], Doc("ledgers that cannot be served, and why")]


class PendingReply(Struct, frozen=True, kw_only=True):
    """A pending call and what the inbox shows beside it."""

    project: Annotated[str, Doc("the key of the project")]
    waits: Annotated[str, Doc("what waits for the answer")]
    expires_at: Annotated[float | None, Doc("when it expires, in seconds since 1970, or null")]
    call: PendingOutput

    @classmethod
    def of(cls, view: CallView) -> PendingReply:
        call = PendingOutput.of(view.pending)
        return cls(project=view.project.key, waits=view.waits, expires_at=view.expires_at, call=call)


class PendingListReply(Struct, frozen=True, kw_only=True):
    pending: list[PendingReply]


class CallsReply(Struct, frozen=True, kw_only=True):
    project: Annotated[str, Doc("the key of the project")]
    calls: Annotated[list[CallOutput], Doc("last received first; a page may have fewer than asked for, or none")]
    next: Annotated[int | None, Doc("`before` of the next page, or null after the last call")]


class CallReply(Struct, frozen=True, kw_only=True):
    project: Annotated[str, Doc("the key of the project")]
    call: CallOutput
    pending: Annotated[PendingReply | None, Doc("what waits for an answer, or null")]


class OutcomesReply(Struct, frozen=True, kw_only=True):
    outcomes: Annotated[list[Outcome], Doc("one for each call, in the order given")]


class MadeCallReply(Struct, frozen=True, kw_only=True):
    project: Annotated[str, Doc("the key of the project")]
    call_id: Annotated[str, Doc("the id of the call")]
    state: Annotated[str, Doc("its state now")]
    result: Annotated[JsonObject | None, Doc("the result, as `holdfast call --json` prints it; null while it runs")]


class ChangesReply(Struct, frozen=True, kw_only=True):
    undone_by: Annotated[str | None, Doc("the call that undid it, or null")]
    changes: list[ChangeOutput]


class ToolsReply(Struct, frozen=True, kw_only=True):
    tools: list[ToolOutput]


class GrantsReply(Struct, frozen=True, kw_only=True):
    grants: list[GrantOutput]


class DocumentsReply(Struct, frozen=True, kw_only=True):
    documents: list[DocumentOutput]


class AdvancedReply(Struct, frozen=True, kw_only=True):
    outcome: Annotated[OutcomeOutput | None, Doc("why it stopped; null while it goes on")]


def _search(project: ServedProject, wanted: CallFilter, limit: int, before: int) -> CallsReply:
    """The calls of one page, last received first. A page also ends after `MAX_SEARCHED` calls."""
    found: list[CallOutput] = []
    received = project.ledger.received_calls(before, since=wanted.since, until=wanted.until)
    for count, record in enumerate(received, start=1):
        if wanted.matches(record):
            found.append(CallOutput.of(record))
        if len(found) == limit or count == MAX_SEARCHED:
            return CallsReply(project=project.key, calls=found, next=record.entries[0])
    return CallsReply(project=project.key, calls=found, next=None)


class Api:
    """What the endpoints do."""

    def __init__(self, projects: Projects, watch: LedgerWatch) -> None:
        self._projects = projects
        self._watch = watch
        self._searches = asyncio.Semaphore(MAX_SEARCHES)

    def routes(self) -> list[Route]:
        return [Route("/api/openapi.json", openapi), *(endpoint.route(self) for endpoint in ENDPOINTS)]

    # Reading

    async def projects(self, _: ApiRequest) -> ProjectsReply:
        found = [
            ProjectReply(key=project.key, name=project.name, folder=str(project.folder), pending=len(_pending(project)))
            for project in self._projects
        ]
        return ProjectsReply(projects=found, problems=self._projects.problems)

    async def pending(self, request: ApiRequest) -> PendingListReply:
        wanted = request.query(PendingQuery)
        filters = Filters(
            project=wanted.project, agent=wanted.agent, tool=wanted.tool, risk=wanted.risk, text=wanted.text
        )

        def read() -> list[PendingReply]:
            return [PendingReply.of(view) for view in pending_views(self._projects, filters.keeps)]

        return PendingListReply(pending=await asyncio.to_thread(read))

    async def calls(self, request: ApiRequest) -> CallsReply:
        wanted = request.query(CallsQuery)
        project = self._projects.named(wanted.project)
        if not all(math.isfinite(at) for at in (wanted.since, wanted.until) if at is not None):
            raise BadRequest("A time must be a number of seconds since 1970.")
        chosen = CallFilter(
            tool=wanted.tool,
            state=wanted.state,
            since=wanted.since,
            until=wanted.until,
            by=wanted.by,
            document=wanted.document,
            # As text, not as a pattern: a pattern can take for ever.
            text=re.compile(re.escape(wanted.text), re.IGNORECASE) if wanted.text else None,
        )
        async with self._searches:
            return await asyncio.to_thread(_search, project, chosen, wanted.limit, wanted.before)

    async def call(self, request: ApiRequest) -> CallReply:
        project, call_id = self._named(request)
        record = CallOutput.of(project.ledger.call(call_id))
        try:
            pending = PendingReply.of(CallView.of(project, find_call(project, call_id)))
        except HoldfastError:
            pending = None
        return CallReply(project=project.key, call=record, pending=pending)

    async def changes(self, request: ApiRequest) -> ChangesReply:
        project, call_id = self._named(request)
        project.ledger.call(call_id)  # raises `UnknownCall`
        diff = request.query(ChangesQuery).diff == "1"

        def read() -> ChangesReply:
            plan = project.undo().plan(call_id)
            blobs = project.ledger.blobs
            changes = [
                ChangeOutput.of(item, call_id, diff_of(item, blobs, item.path) if diff else None) for item in plan.items
            ]
            return ChangesReply(undone_by=plan.undone_by, changes=changes)

        return await asyncio.to_thread(read)

    async def tools(self, request: ApiRequest) -> ToolsReply:
        runtime = await self._projects.named(request.query(ProjectQuery).project).runtime()
        policy = runtime.access.policy.compile(runtime.caller)
        found = [*runtime.visible(), *(tool for tool, _ in runtime.access.unavailable(runtime.caller))]
        return ToolsReply(tools=[ToolOutput.of(tool, policy.decide(tool)) for tool in found])

    async def explain(self, request: ApiRequest) -> ExplanationOutput:
        body = request.body(ExplainBody)
        runtime = await self._projects.named(body.project).runtime()
        return ExplanationOutput.of(await runtime.explain(body.tool, body.args))

    async def grants(self, request: ApiRequest) -> GrantsReply:
        with self._projects.named(request.query(ProjectQuery).project).grants() as grants:
            return GrantsReply(grants=[GrantOutput.of(grant) for grant in grants.list(every=True)])

    async def documents(self, request: ApiRequest) -> DocumentsReply:
        project = self._projects.named(request.query(ProjectQuery).project)
        runtime = await project.runtime()
        return DocumentsReply(documents=await asyncio.to_thread(document_outputs, project, runtime))

    async def events(self, request: ApiRequest) -> Response:
        given = request.raw.headers.get("last-event-id") or request.query(EventsQuery).after
        position = heads(self._projects) if given is None else parse_position(given, self._projects)
        body = stream(self._projects, self._watch, position, describe, still_allowed(request.raw))
        return stream_reply(request.raw, body)

    # Acting

    async def approve(self, request: ApiRequest) -> Outcome:
        return await self._actions(request).approve(self._ref(request, request.body(ApproveBody).digest))

    async def edit(self, request: ApiRequest) -> PendingReply:
        body = request.body(EditBody)
        ref = self._ref(request, body.digest)
        changed = await self._actions(request).edit(ref, _checked(body.args))
        return PendingReply.of(CallView.of(self._projects.get(ref.project), changed))

    async def reject(self, request: ApiRequest) -> Outcome:
        body = request.body(RejectBody)
        return await self._actions(request).reject(self._ref(request, body.digest), body.message)

    async def respond(self, request: ApiRequest) -> Outcome:
        body = request.body(RespondBody)
        return await self._actions(request).respond(self._ref(request, body.digest), body.output, success=body.success)

    async def cancel(self, request: ApiRequest) -> Outcome:
        return await self._actions(request).cancel(request.path["project"], request.path["call_id"])

    async def approve_all(self, request: ApiRequest) -> OutcomesReply:
        return OutcomesReply(outcomes=await self._actions(request).approve_all(request.body(ApproveAllBody).calls))

    async def make_call(self, request: ApiRequest) -> MadeCallReply:
        body = request.body(CallBody)
        project = self._projects.named(body.project)
        made = await self._actions(request).call(project.key, body.tool, _checked(body.args), body.wait)
        if made.result is None:
            return MadeCallReply(project=project.key, call_id=made.call_id, state=State.RUNNING, result=None)
        pending = project.ledger.find_pending(made.result.call_id)
        result = result_output(made.result, pending)
        return MadeCallReply(project=project.key, call_id=made.result.call_id, state=made.result.state, result=result)

    async def undo(self, request: ApiRequest) -> UndoOutput:
        project, call_id = self._named(request)
        return await self._actions(request).undo(project.key, call_id, partial=request.body(UndoBody).partial)

    async def revoke(self, request: ApiRequest) -> GrantOutput:
        project = self._projects.named(request.body(RevokeBody).project)
        return await self._actions(request).revoke(project.key, request.path["grant_id"])

    async def advance(self, request: ApiRequest) -> AdvancedReply:
        body = request.body(AdvanceBody)
        project = self._projects.named(body.project)
        outcome = await self._actions(request).advance(project.key, body.path, body.message, body.wait)
        return AdvancedReply(outcome=outcome)

    def _actions(self, request: ApiRequest) -> Actions:
        return Actions(self._projects, request.person, "api")

    def _named(self, request: ApiRequest) -> tuple[ServedProject, str]:
        return self._projects.get(request.path["project"]), request.path["call_id"]

    def _ref(self, request: ApiRequest, digest: str) -> CallRef:
        return CallRef(project=request.path["project"], call_id=request.path["call_id"], digest=digest)


def describe(project: ServedProject, call_id: str) -> CallChange:
    """The present state of a call."""
    try:
        pending = project.ledger.find_pending(call_id)
        if pending is not None and pending.state is State.PENDING:
            return CallChange(project=project.key, call_id=call_id, state="pending", digest=pending.digest)
        record = project.ledger.record(call_id)
    except HoldfastError:
        return CallChange(project=project.key, call_id=call_id, state="unreadable")
    return CallChange(project=project.key, call_id=call_id, state=record.state, by=record.decided_by)


def _pending(project: ServedProject) -> list[PendingCall]:
    return [pending for pending in project.ledger.pending() if pending.state is State.PENDING]


def _checked(args: Args) -> Args:
    """The arguments, if they are JSON by the same rules as everywhere: finite, valid Unicode, not too deep."""
    try:
        checked: Any = parse_json(encode_json(args))
    except (BadJson, UnicodeEncodeError, RecursionError) as error:
        raise BadRequest(f"The arguments cannot be used: {error}") from None
    return checked


@cache
def _document() -> bytes:
    return encode_json(openapi_document(ENDPOINTS))


async def openapi(_: Request) -> Response:
    return Response(_document(), media_type="application/json")


_CALL: Final = "/api/calls/{project}/{call_id}"
ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/projects",
        summary="The projects that are served",
        handler=Api.projects,
        reply=ProjectsReply,
    ),
    Endpoint(
        method="GET",
        path="/api/pending",
        summary="The pending calls of all projects, oldest first",
        handler=Api.pending,
        query=PendingQuery,
        reply=PendingListReply,
        command="pending",
    ),
    Endpoint(
        method="GET",
        path="/api/calls",
        summary="The calls of a project, newest first",
        handler=Api.calls,
        query=CallsQuery,
        reply=CallsReply,
        errors=(404,),
        command="ledger list",
    ),
    Endpoint(
        method="GET",
        path=_CALL,
        summary="A call",
        handler=Api.call,
        reply=CallReply,
        errors=(404,),
        command="ledger show",
    ),
    Endpoint(
        method="POST",
        path=f"{_CALL}/approve",
        summary="Approve a call as it was shown",
        handler=Api.approve,
        body=ApproveBody,
        reply=Outcome,
        errors=(404, 409),
        command="approve",
    ),
    Endpoint(
        method="POST",
        path=f"{_CALL}/edit",
        summary="Replace the arguments of a pending call; it stays pending",
        handler=Api.edit,
        body=EditBody,
        reply=PendingReply,
        errors=(404, 409, 422),
        command="approve",
    ),
    Endpoint(
        method="POST",
        path=f"{_CALL}/reject",
        summary="Reject a call",
        handler=Api.reject,
        body=RejectBody,
        reply=Outcome,
        errors=(404, 409),
        command="reject",
    ),
    Endpoint(
        method="POST",
        path=f"{_CALL}/respond",
        summary="Give the result of a call in the tool's place",
        handler=Api.respond,
        body=RespondBody,
        reply=Outcome,
        errors=(404, 409),
        command="respond",
    ),
    Endpoint(
        method="POST",
        path=f"{_CALL}/cancel",
        summary="Withdraw a pending call, or stop one that the daemon runs",
        handler=Api.cancel,
        body=EmptyBody,
        reply=Outcome,
        errors=(404, 409),
        command="reject",
    ),
    Endpoint(
        method="POST",
        path="/api/approve",
        summary="Approve several calls, each by its own digest and with its own outcome",
        handler=Api.approve_all,
        body=ApproveAllBody,
        reply=OutcomesReply,
        command="approve",
    ),
    Endpoint(
        method="POST",
        path="/api/call",
        summary="Make a call",
        handler=Api.make_call,
        body=CallBody,
        reply=MadeCallReply,
        errors=(404,),
        command="call",
    ),
    Endpoint(
        method="GET",
        path=f"{_CALL}/changes",
        summary="The files that a call changed",
        handler=Api.changes,
        query=ChangesQuery,
        reply=ChangesReply,
        errors=(404, 409),
        command="changes",
    ),
    Endpoint(
        method="POST",
        path=f"{_CALL}/undo",
        summary="Put back what a call changed on disk",
        handler=Api.undo,
        body=UndoBody,
        reply=UndoOutput,
        errors=(404, 409),
        command="undo",
    ),
    Endpoint(
        method="GET",
        path="/api/tools",
        summary="The tools of a project",
        handler=Api.tools,
        query=ProjectQuery,
        reply=ToolsReply,
        errors=(404,),
        command="tools",
    ),
    Endpoint(
        method="POST",
        path="/api/explain",
        summary="The decision that a call would get, and every step that leads to it",
        handler=Api.explain,
        body=ExplainBody,
        reply=ExplanationOutput,
        errors=(404,),
        command="policy explain",
    ),
    Endpoint(
        method="GET",
        path="/api/grants",
        summary="The grants of a project and of the user",
        handler=Api.grants,
        query=ProjectQuery,
        reply=GrantsReply,
        errors=(404,),
        command="grants list",
    ),
    Endpoint(
        method="POST",
        path="/api/grants/{grant_id}/revoke",
        summary="Revoke a grant",
        handler=Api.revoke,
        body=RevokeBody,
        reply=GrantOutput,
        errors=(404, 409),
        command="grants revoke",
    ),
    Endpoint(
        method="GET",
        path="/api/documents",
        summary="The documents that have open calls or are being advanced",
        handler=Api.documents,
        query=ProjectQuery,
        reply=DocumentsReply,
        errors=(404,),
        command="chat status",
    ),
    Endpoint(
        method="POST",
        path="/api/documents/advance",
        summary="Advance a document until it needs a person",
        handler=Api.advance,
        body=AdvanceBody,
        reply=AdvancedReply,
        errors=(404, 409),
        command="chat advance",
    ),
    Endpoint(
        method="GET",
        path="/api/events",
        summary="Server-sent events: the present state of every call that changed",
        handler=Api.events,
        query=EventsQuery,
        reply=Response,
    ),
)

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(ENDPOINTS))
