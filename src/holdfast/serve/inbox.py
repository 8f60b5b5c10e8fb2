"""The inbox: the pending calls of all projects as rows, grouped by shape, and what the card of one shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import quote

from msgspec import Struct

from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.serve.projects import Projects, ServedProject
from holdfast.store.process_identity import is_alive
from holdfast.text.preview import display_path


class CallView(Struct, frozen=True, kw_only=True):
    """A pending call as the page shows it."""

    project: ServedProject
    pending: PendingCall
    waits: str
    """What waits for the answer: `a program`, `its document`, `nobody` or `a program that has ended`."""
    expires_at: float | None

    @classmethod
    def of(cls, project: ServedProject, pending: PendingCall) -> CallView:
        lifetime = project.expiry.lifetime_of(pending)
        expires = None if lifetime is None else pending.held_at + lifetime
        return cls(project=project, pending=pending, waits=_waits(pending), expires_at=expires)

    @property
    def element(self) -> str:
        """The id of its element in the page."""
        return f"c-{self.project.key}-{quote(self.pending.call.id, safe='')}"

    @property
    def address(self) -> str:
        return call_address(self.project.key, self.pending.call.id)

    @property
    def risk(self) -> str | None:
        return None if self.pending.proposal is None else self.pending.proposal.risk

    @property
    def asks(self) -> list[str]:
        """Who asks: interface, agent, model, skill and document."""
        caller = self.pending.call.caller
        named = (caller.interface, caller.agent, caller.provider, caller.skill)
        words = [name for name in named if name]
        if caller.document is not None:
            words.append(display_path(caller.document, str(self.project.folder)))
        return words


def call_address(project: str, call_id: str) -> str:
    return f"/calls/{project}/{quote(call_id, safe='')}"


def _waits(pending: PendingCall) -> str:
    if pending.waiter is not None:
        return "a program" if is_alive(pending.waiter) else "a program that has ended"
    return "nobody" if pending.call.caller.document is None else "its document"


class Filters(Struct, frozen=True, kw_only=True):
    """What the inbox is narrowed to; an empty field narrows nothing."""

    project: str = ""
    agent: str = ""
    tool: str = ""
    risk: str = ""
    text: str = ""

    def keeps(self, view: CallView) -> bool:
        call = view.pending.call
        return (
            self.project in ("", view.project.key)
            and self.agent in ("", call.caller.agent)
            and self.tool in ("", call.tool)
            and self.risk in ("", view.risk)
            and self.text.lower() in view.pending.preview.lower()
        )


def pending_views(projects: Projects, keep: Callable[[CallView], bool] = lambda _: True) -> list[CallView]:
    """The calls that wait for an answer, oldest first."""
    found = [
        CallView.of(project, pending)
        for project in projects
        for pending in project.ledger.pending()
        if pending.state is State.PENDING
    ]
    return sorted(filter(keep, found), key=lambda view: view.pending.held_at)


class Choices(Struct, frozen=True, kw_only=True):
    """What the filters can be set to."""

    projects: list[tuple[str, str]]
    agents: list[str]
    tools: list[str]

    @classmethod
    def of(cls, views: Iterable[CallView]) -> Choices:
        kept = list(views)
        return cls(
            projects=sorted({(view.project.key, view.project.name) for view in kept}, key=lambda pair: pair[1]),
            agents=sorted({view.pending.call.caller.agent for view in kept} - {None}, key=str),  # type: ignore[arg-type]
            tools=sorted({view.pending.call.tool for view in kept}),
        )
