"""The inbox, the card of a call, logging in and out, and the forms that answer a call."""

from __future__ import annotations

from msgspec.structs import fields
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError, UnknownCall
from holdfast.contract.json import parse_json
from holdfast.serve import html
from holdfast.serve.actions import Actions, CallRef, Outcome, find_call
from holdfast.serve.events import CallChange, format_position, heads, parse_position, stream
from holdfast.serve.inbox import CallView, Choices, Filters, call_address, pending_views
from holdfast.serve.projects import Projects, ServedProject
from holdfast.serve.requests import (
    BadRequest,
    json_reply,
    person_of,
    read_form,
    require_answer,
    still_allowed,
    wants_json,
)
from holdfast.serve.security import cookie_name, session_secrets
from holdfast.serve.watch import LedgerWatch
from holdfast.store.people import SESSION_SECONDS, People


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
            Route(call, self.call),
            Route(f"{call}/card", self.card),
            Route(f"{call}/approve", self.approve, methods=["POST"]),
            Route(f"{call}/reject", self.reject, methods=["POST"]),
            Route(f"{call}/respond", self.respond, methods=["POST"]),
            Route(f"{call}/edit", self.edit, methods=["POST"]),
            Route(f"{call}/cancel", self.cancel, methods=["POST"]),
        ]

    async def inbox(self, request: Request) -> Response:
        names = {field.name for field in fields(Filters)}
        filters = Filters(**{name: value for name, value in request.query_params.items() if name in names})
        position = heads(self._projects)  # before the calls are read, so that none is missed
        everything = pending_views(self._projects)
        return html.page(
            request,
            "inbox.html",
            views=list(filter(filters.keeps, everything)),
            choices=Choices.of(everything),
            filters=filters,
            none_set=Filters(),
            position=format_position(position, self._projects),
        )

    async def events(self, request: Request) -> Response:
        given = request.headers.get("last-event-id") or request.query_params.get("after")
        position = heads(self._projects) if given is None else parse_position(given, self._projects)
        body = stream(self._projects, self._watch, position, self._describe, still_allowed(request))
        return StreamingResponse(body, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    def _describe(self, project: ServedProject, call_id: str) -> CallChange:
        """The present state of a call, with its row while it is pending."""
        try:
            pending = project.ledger.find_pending(call_id)
            if pending is not None and pending.state is State.PENDING:
                row = html.render("row.html", view=CallView.of(project, pending))
                return CallChange(
                    project=project.key, call_id=call_id, state="pending", digest=pending.digest, html=row
                )
            record = project.ledger.record(call_id)
        except HoldfastError:
            return CallChange(project=project.key, call_id=call_id, state="unreadable")
        return CallChange(project=project.key, call_id=call_id, state=record.state, by=record.decided_by)

    async def call(self, request: Request) -> Response:
        project, call_id = self._named(request)
        try:
            view = CallView.of(project, find_call(project, call_id))
        except UnknownCall:
            raise
        except HoldfastError:
            return RedirectResponse(f"/history/{project.key}/{call_id}", 303)
        return html.page(request, "call.html", view=view, may_answer=person_of(request).may_answer)

    async def card(self, request: Request) -> Response:
        """The card without the page around it."""
        project, call_id = self._named(request)
        view = CallView.of(project, find_call(project, call_id))
        return html.page(request, "card.html", view=view, may_answer=person_of(request).may_answer)

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
        return self._told(request, await actions.cancel(ref.project, ref.call_id))

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


def _local(address: str) -> str:
    """The address if it is a path here, else the inbox. A browser reads `//` and `/\\` as another host."""
    plain = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if plain else "/"
