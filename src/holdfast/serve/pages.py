"""The inbox, the card of a call, logging in and out, and the forms that answer a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec.structs import asdict, fields
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError, NotPending, UnknownCall
from holdfast.contract.json import parse_json
from holdfast.rules.grant_text import FULL_WIDTH, describe_grant
from holdfast.rules.grants import Width
from holdfast.serve import html
from holdfast.serve.actions import Actions, CallRef, Outcome, find_call
from holdfast.serve.call_context import CallContext
from holdfast.serve.events import CallChange, count_pending, format_position, heads, parse_position, stream
from holdfast.serve.inbox import CallView, Choices, Filters, call_address, grouped, pending_views
from holdfast.serve.projects import Projects, ServedProject
from holdfast.serve.requests import (
    BadRequest,
    json_reply,
    person_of,
    read_fields,
    read_form,
    require_answer,
    still_allowed,
    stream_reply,
    wants_json,
)
from holdfast.serve.security import cookie_name, session_secrets
from holdfast.serve.watch import LedgerWatch
from holdfast.store.entries import Scope
from holdfast.store.people import SESSION_SECONDS, People
from holdfast.text.times import parse_duration

_WHERE: Final[Mapping[Scope, str]] = {
    "once": "once, in this session,",
    "session": "in this session",
    "project": "in this project",
    "user": "in all your projects",
}


class Pages:
    """The pages around pending calls."""

    def __init__(self, projects: Projects, watch: LedgerWatch, people: People, *, port: int) -> None:
        self._projects = projects
        self._watch = watch
        self._people = people
        self._cookie = cookie_name(port)

    def routes(self) -> list[Route]:
        call = "/calls/{project}/{call_id}"
        return [
            Route("/", self.inbox),
            Route("/login", self.login_form),
            Route("/login", self.log_in, methods=["POST"]),
            Route("/logout", self.log_out, methods=["POST"]),
            Route("/events", self.events),
            Route("/static/{name}", html.static_file),
            Route("/icon/{count}.svg", html.icon),
            Route(call, self.call),
            Route(f"{call}/card", self.card),
            Route(f"{call}/approve", self.approve, methods=["POST"]),
            Route(f"{call}/reject", self.reject, methods=["POST"]),
            Route(f"{call}/respond", self.respond, methods=["POST"]),
            Route(f"{call}/edit", self.edit, methods=["POST"]),
            Route(f"{call}/cancel", self.cancel, methods=["POST"]),
            Route(f"{call}/always", self.rule),
            Route(f"{call}/always", self.always, methods=["POST"]),
            Route("/approve-all", self.approve_all, methods=["POST"]),
        ]

    async def inbox(self, request: Request) -> Response:
        return await self._inbox(request)

    async def _inbox(self, request: Request, outcomes: Sequence[Outcome] = ()) -> Response:
        # In a thread, because a long list takes a while, and other requests should not wait for it.
        return await asyncio.to_thread(self._inbox_page, request, outcomes)

    def _inbox_page(self, request: Request, outcomes: Sequence[Outcome]) -> Response:
        filters = _filters(request)
        position = format_position(heads(self._projects), self._projects)  # before the calls, so that none is missed
        everything = pending_views(self._projects)
        return html.page(
            request,
            "inbox.html",
            items=grouped(filter(filters.keeps, everything), request.query_params.get("group", "")),
            pending=len(everything),
            choices=Choices.of(everything),
            filters=filters,
            none_set=Filters(),
            outcomes=outcomes,
            query=urlencode({"after": position, **_set_fields(filters)}),
            **self._around(request),
        )

    def _around(self, request: Request) -> dict[str, Any]:
        """What rows and cards use beside the call."""
        may_answer = person_of(request).may_answer
        return {"may_answer": may_answer, "several": self._projects.every, "now": time.time(), "context": None}

    async def events(self, request: Request) -> Response:
        given = request.headers.get("last-event-id") or request.query_params.get("after")
        position = heads(self._projects) if given is None else parse_position(given, self._projects)
        describe = partial(self._describe, _filters(request))
        brief = "brief" in request.query_params
        body = stream(self._projects, self._watch, position, describe, still_allowed(request), brief=brief)
        return stream_reply(request, body)

    def _describe(self, filters: Filters, project: ServedProject, call_id: str) -> CallChange:
        """The present state of a call, with its row while it is pending and the filters keep it."""
        try:
            pending = project.ledger.find_pending(call_id)
            if pending is not None and pending.state is State.PENDING:
                view = CallView.of(project, pending)
                values = {"several": self._projects.every, "now": time.time(), "context": None}
                row = html.render("row.html", view=view, **values) if filters.keeps(view) else ""
                return CallChange(
                    project=project.key, call_id=call_id, state="pending", digest=pending.digest, html=row
                )
            record = project.ledger.record(call_id)
        except HoldfastError:
            return CallChange(project=project.key, call_id=call_id, state="unreadable")
        return CallChange(project=project.key, call_id=call_id, state=record.state, by=record.decided_by)

    async def call(self, request: Request) -> Response:
        project, call_id = self._named(request)
        position = format_position(heads(self._projects), self._projects)
        try:
            pending = find_call(project, call_id)
        except UnknownCall:
            raise
        except HoldfastError:
            return RedirectResponse(f"/history/{project.key}/{quote(call_id, safe='')}", 303)
        values: dict[str, Any] = {**self._around(request), "context": await CallContext.of(project, pending)}
        query = urlencode({"after": position})
        count = count_pending(self._projects)
        return html.page(request, "call.html", view=CallView.of(project, pending), query=query, pending=count, **values)

    async def card(self, request: Request) -> Response:
        """The card without the page around it."""
        project, call_id = self._named(request)
        pending = find_call(project, call_id)
        values: dict[str, Any] = {**self._around(request), "context": await CallContext.of(project, pending)}
        return html.page(request, "row.html", view=CallView.of(project, pending), **values)

    # Answers

    async def approve(self, request: Request) -> Response:
        actions, ref, _ = await self._answered(request)
        return self._told(request, await actions.approve(ref))

    async def reject(self, request: Request) -> Response:
        actions, ref, form = await self._answered(request)
        return self._told(request, await actions.reject(ref, form.get("message", "")))

    async def respond(self, request: Request) -> Response:
        actions, ref, form = await self._answered(request)
        outcome = await actions.respond(ref, form.get("output", ""), success="failed" not in form)
        return self._told(request, outcome)

    async def edit(self, request: Request) -> Response:
        actions, ref, form = await self._answered(request)
        args = parse_json(form.get("args", ""))
        if not isinstance(args, dict):
            raise BadRequest("The arguments must be a JSON object.")
        changed = await actions.edit(ref, args)
        outcome = Outcome(project=ref.project, call_id=ref.call_id, ok=True, state=changed.state)
        return self._told(request, outcome)

    async def cancel(self, request: Request) -> Response:
        actions, ref, _ = await self._answered(request)
        outcome = await actions.cancel(ref.project, ref.call_id)
        if not outcome.ok and not wants_json(request):
            raise NotPending(outcome.message)
        return self._told(request, outcome)

    async def approve_all(self, request: Request) -> Response:
        person = require_answer(request)
        refs = _refs(await read_fields(request))
        outcomes = await Actions(self._projects, person).approve_all(refs)
        return json_reply(outcomes) if wants_json(request) else await self._inbox(request, outcomes)

    async def rule(self, request: Request) -> Response:
        """The rule that "always" would store, with the calls that it covers: a page, or the part for a card."""
        person = require_answer(request)
        project, call_id = self._named(request)
        pending = find_call(project, call_id)
        given = request.query_params
        scope, width, lifetime = _grant_fields(given)
        ref = CallRef(project=project.key, call_id=call_id, digest=given.get("digest", pending.digest))
        preview = await Actions(self._projects, person).preview_grant(ref, scope, width)
        values: dict[str, Any] = {
            "view": CallView.of(project, pending),
            "preview": preview,
            "covered": [item for item in preview.pending if item.call.id != call_id] if scope != "once" else [],
            "rule": describe_grant(preview.spec.tool, preview.spec.pattern, FULL_WIDTH),
            "where": _WHERE[scope],
            "scope": scope,
            "width": width,
            "lifetime": given.get("lifetime", "") if lifetime else "",
            "address": call_address,
        }
        return html.page(request, "rule.html" if "part" in given else "always.html", **values)

    async def always(self, request: Request) -> Response:
        person = require_answer(request)
        project, call_id = self._named(request)
        fields = await read_fields(request)
        form = dict(fields)
        scope, width, lifetime = _grant_fields(form)
        ref = CallRef(project=project.key, call_id=call_id, digest=form.get("digest", ""))
        actions = Actions(self._projects, person)
        outcomes = await actions.always(ref, scope, width, lifetime=lifetime, covered=_refs(fields))
        return json_reply(outcomes) if wants_json(request) else await self._inbox(request, outcomes)

    async def _answered(self, request: Request) -> tuple[Actions, CallRef, dict[str, str]]:
        person = require_answer(request)
        project, call_id = self._named(request)
        form = await read_form(request)
        ref = CallRef(project=project.key, call_id=call_id, digest=form.get("digest", ""))
        return Actions(self._projects, person), ref, form

    def _told(self, request: Request, outcome: Outcome) -> Response:
        if wants_json(request):
            return json_reply(outcome)
        return RedirectResponse(call_address(outcome.project, outcome.call_id), 303)

    def _named(self, request: Request) -> tuple[ServedProject, str]:
        project = self._projects.get(request.path_params["project"])
        return project, request.path_params["call_id"]

    # Logging in

    async def login_form(self, request: Request) -> Response:
        return html.page(request, "login.html", next=_local(request.query_params.get("next", "")), problem="")

    async def log_in(self, request: Request) -> Response:
        form = await read_form(request)
        wanted = _local(form.get("next", ""))
        found = self._people.log_in(form.get("secret", "").strip())
        if found is None:
            problem = "This code was used already, or has expired, or is not one. `holdfast serve link` makes another."
            return html.page(request, "login.html", status=401, next=wanted, problem=problem)
        reply = RedirectResponse(wanted, 303)
        reply.set_cookie(
            self._cookie,
            found[0],
            max_age=int(SESSION_SECONDS),
            httponly=True,
            samesite="strict",
            secure=request.headers.get("origin", "").startswith("https://"),
        )
        return reply

    async def log_out(self, request: Request) -> Response:
        for secret in session_secrets(request.headers, self._cookie):
            self._people.log_out(secret)
        reply = RedirectResponse("/login", 303)
        reply.delete_cookie(self._cookie, httponly=True, samesite="strict")
        return reply


def _filters(request: Request) -> Filters:
    names = {field.name for field in fields(Filters)}
    return Filters(**{name: value for name, value in request.query_params.items() if name in names})


def _set_fields(filters: Filters) -> dict[str, str]:
    return {name: value for name, value in asdict(filters).items() if value}


def _refs(given: Sequence[tuple[str, str]]) -> list[CallRef]:
    """The calls that a form names, as `PROJECT DIGEST CALL`."""
    refs: list[CallRef] = []
    for name, value in given:
        if name == "call":
            parts = value.split(" ", 2)
            if len(parts) != 3:
                raise BadRequest("A call is named by its project, its digest and its id.")
            refs.append(CallRef(project=parts[0], digest=parts[1], call_id=parts[2]))
    return refs


def _grant_fields(given: Mapping[str, str]) -> tuple[Scope, Width, float | None]:
    try:
        scope = msgspec.convert(given.get("scope", "project"), Scope)
        width = msgspec.convert(given.get("width", "exact"), Width)
        lifetime = given.get("lifetime", "")
        return scope, width, parse_duration(lifetime) if lifetime else None
    except (msgspec.ValidationError, ValueError) as error:
        raise BadRequest(f"The rule cannot be read: {error}") from None


def _local(address: str) -> str:
    """The address if it is a path here, else the inbox. A browser reads `//` and `/\\` as another host."""
    plain = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if plain else "/"
