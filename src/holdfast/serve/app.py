"""The application: all routes of the daemon behind the gate."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from holdfast.contract.errors import HoldfastError
from holdfast.serve.api import Api
from holdfast.serve.documents import Documents
from holdfast.serve.history import History
from holdfast.serve.html import page
from holdfast.serve.live import Live
from holdfast.serve.media import Media
from holdfast.serve.pages import Pages
from holdfast.serve.policy_page import PolicyPage
from holdfast.serve.projects import Projects
from holdfast.serve.requests import Streams, json_reply, on_error, wants_json
from holdfast.serve.security import Gate, Origins
from holdfast.serve.watch import LedgerWatch
from holdfast.store.people import People


def build_app(projects: Projects, watch: LedgerWatch, people: People, *, port: int) -> Starlette:
    """The application without the gate."""
    routes: list[BaseRoute] = [
        *Pages(projects, watch, people, port=port).routes(),
        *History(projects).routes(),
        *Media(projects).routes(),
        *Live(projects).routes(),
        *PolicyPage(projects).routes(),
        *Documents(projects).routes(),
        *Api(projects, watch).routes(),
    ]
    app = Starlette(routes=routes, exception_handlers={HoldfastError: on_error, 404: _missing, 405: _missing})
    app.state.streams = Streams()
    return app


def guarded(app: Starlette, people: People, origins: Origins, *, port: int, local: bool = False) -> Gate:
    return Gate(app, people, origins, port=port, local=local)


async def _missing(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    message = "There is no such page." if status == 404 else f"{request.method} is not used here."
    if wants_json(request):
        return json_reply({"error": {"kind": "not_found" if status == 404 else "method", "message": message}}, status)
    return page(request, "message.html", status=status, title="Not found", message=message)
