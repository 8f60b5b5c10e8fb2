"""What is happening, as a typed union. Events are for watching; the ledger is for proof."""

from __future__ import annotations

from msgspec import Struct

from holdfast.contract.call import Call, Caller, Decision, Proposal
from holdfast.contract.elicitation import Elicitation
from holdfast.contract.enums import State
from holdfast.contract.result import Result


class _Event(Struct, frozen=True, tag_field="event"):
    call_id: str


class Received(_Event, frozen=True, tag="received"):
    """A call entered the path; nothing has been checked yet."""

    tool: str
    caller: Caller
    parent: str | None = None


class Queued(_Event, frozen=True, tag="queued"):
    """The call may run and waits for a free place or for another call on the same path."""

    waiting_for: str


class Proposed(_Event, frozen=True, tag="proposed"):
    proposal: Proposal


class Decided(_Event, frozen=True, tag="decided"):
    decision: Decision


class Pending(_Event, frozen=True, tag="pending"):
    call: Call
    preview: str
    digest: str


class Approved(_Event, frozen=True, tag="approved"):
    by: str


class Started(_Event, frozen=True, tag="started"):
    tool: str
    parent: str | None = None


class Output(_Event, frozen=True, tag="output"):
    """A piece of streamed output; `group` is the outermost call it belongs to."""

    text: str
    group: str


class Progress(_Event, frozen=True, tag="progress"):
    message: str
    done: float | None = None
    total: float | None = None


class Finished(_Event, frozen=True, tag="finished"):
    result: Result
    state: State


class WarningRaised(_Event, frozen=True, tag="warned"):
    """Something a person should know: a failed resolver, a source that timed out."""

    message: str


class ServerLogged(_Event, frozen=True, tag="logged"):
    """What an MCP server wrote into its log, while the call ran or (with no call id) at another time."""

    source: str
    level: str
    message: str


class ElicitationStarted(_Event, frozen=True, tag="elicited"):
    """A person is asked something for this call, and the call waits for it."""

    elicitation: Elicitation


Event = (
    Received | Queued | Proposed | Decided | Pending | Approved | Started
    | Output | Progress | ServerLogged | ElicitationStarted | Finished | WarningRaised
)  # fmt: skip
