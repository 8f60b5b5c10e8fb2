"""Events about running calls, as a tagged union. Events are for display; the ledger is the record."""

from __future__ import annotations

from msgspec import Struct

from holdfast.contract.call import Call, Caller, Decision, Proposal
from holdfast.contract.elicitation import Elicitation
from holdfast.contract.enums import State
from holdfast.contract.result import Result


class _Event(Struct, frozen=True, tag_field="event"):
    call_id: str


class Received(_Event, frozen=True, tag="received"):
    """A call entered the pipeline; nothing has been checked yet."""

    tool: str
    caller: Caller
    parent: str | None = None


class Queued(_Event, frozen=True, tag="queued"):
    """The call may run and waits for a free slot or for another call on the same path."""

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
    """A chunk of streamed output; `group` is the outermost call."""

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
    """A problem the user should know about, such as a failed resolver or a source that timed out."""

    message: str


class ServerLogged(_Event, frozen=True, tag="logged"):
    """A log message of an MCP server. The call id is empty outside a call."""

    source: str
    level: str
    message: str


class ElicitationStarted(_Event, frozen=True, tag="elicited"):
    """The call waits for the user to answer questions."""

    elicitation: Elicitation


Event = (
    Received | Queued | Proposed | Decided | Pending | Approved | Started
    | Output | Progress | ServerLogged | ElicitationStarted | Finished | WarningRaised
)  # fmt: skip
