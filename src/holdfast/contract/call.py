"""Calls and the types around them: caller, decision, proposal, pending call, answer."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from holdfast.contract.enums import Risk, State, Verdict
from holdfast.contract.json import Args, Identifier
from holdfast.contract.widening import Widening


class Caller(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The origin of a call. Equal callers share one compiled policy."""

    interface: str = "python"
    agent: str | None = None
    provider: str | None = None
    skill: str | None = None
    session: str | None = None
    document: str | None = None
    """Absolute path of the calling document. Only a runtime opened for that document runs its pending calls."""
    scopes: frozenset[str] = frozenset()
    """Secret scopes granted to this caller."""
    autonomy: Literal["cautious", "standard", "autonomous"] | None = None
    """Overrides the configured autonomy level; can only make it more cautious."""
    only: frozenset[str] | None = None
    """Restricts the caller to these canonical tool names; None means no restriction."""


class Decision(Struct, frozen=True):
    """A verdict, its source and its reason."""

    verdict: Verdict
    source: str
    reason: str


class Precondition(Struct, frozen=True, kw_only=True):
    """A fact that must still hold when the proposal is applied, such as the digest of the file to replace."""

    kind: Identifier
    subject: str
    value: str


class RunConditions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a command would run. Interfaces show this before the preview and separate from it."""

    where: str = ""
    """The working directory: a path that begins with `/` or `./`, or a description."""
    sandbox: str = ""
    """The sandbox backend and network access."""
    undo: str = ""
    """Whether its changes can be undone."""
    lasts: str = ""
    """When it ends, if it outlives the call."""


class Proposal(Struct, frozen=True, kw_only=True):
    """The action a call would take if approved. Creating a proposal has no side effects."""

    tool_name: str
    summary: str
    risk: Risk
    payload: Args
    """Opaque JSON that is passed to the tool's `apply`."""
    preview: str = ""
    """The text shown to the user: the command, or a unified diff for file changes."""
    preview_kind: Literal["text", "diff"] = "text"
    """A diff is coloured and may be truncated until the user asks for all of it. Text is always shown in full."""
    preview_cut: bool = False
    """Whether the tool truncated the preview; the full content is then in the arguments."""
    surroundings: RunConditions | None = None
    preconditions: tuple[Precondition, ...] = ()


class Call(Struct, frozen=True, omit_defaults=True):
    """A request to run one tool once."""

    id: Identifier
    tool: str
    """Canonical name."""
    name_used: str
    """The name the caller used: canonical, alias or API name."""
    args: Args
    caller: Caller
    cwd: str
    parent: str | None = None
    request: str | None = None
    """The turn or client request that contains this call, if any."""
    given_id: str | None = None
    """The id from the model or client, if any; unique only within its request."""
    depth: int = 0
    group: str = ""
    """The id of the outermost call; a top-level call has its own id here."""
    original: Args | None = None
    """The arguments as received, if coercion changed them."""
    asked: Args | None = None
    """The arguments before middleware changed them. Middleware runs on these again when a pending call is executed."""
    widening: Widening | None = None
    """Access beyond the sandbox policy, granted by command rules or by the answer."""


class ProcessIdentity(Struct, frozen=True):
    """A pid with its start time, so that a recycled pid is not mistaken for the process."""

    pid: int
    started: str


class NamedFile(Struct, frozen=True):
    """A project file that a command names, with the digest of its content."""

    path: str
    """Relative to the project root if the file is inside it."""
    digest: Identifier


class PendingCall(Struct, frozen=True, kw_only=True):
    """A call that waits for an answer, as interfaces see it."""

    call: Call
    state: State
    digest: Identifier
    definition_digest: Identifier
    decision: Decision
    preview: str
    """One line: `name: summary of the action`."""
    summary: str = ""
    """A short description: from the proposal, the tool's own summary, or the most telling argument."""
    proposal: Proposal | None = None
    files: tuple[NamedFile, ...] = ()
    """Files named by a command that is not read-only. The approval is bound to their content."""
    secrets: tuple[str, ...] = ()
    """Files matched by `sandbox.read_deny` that the call names. Approving the call allows it to read them."""
    definition_only: bool = False
    """The tool has no `execute`, so the call waits for a result instead of an approval."""
    held_at: float = 0.0
    approver: str | None = None
    waiter: ProcessIdentity | None = None
    """The process that waits for the answer and will run the call, if any."""
    widened: Widening | None = None
    """Access that the approval granted; set only on approved calls."""
    approvals_needed: int = 1
    """How many different people must approve it."""
    approved_by: tuple[str, ...] = ()
    """The identities that have approved it as it is now. The ledger sets it, for calls that need several approvals."""


class Answer(Struct, frozen=True, kw_only=True):
    """The user's answer to a pending call."""

    kind: Literal["approve", "edit", "reject", "respond"]
    by: str
    """The source of the answer: a user name, a program, a web session."""
    message: str = ""
    """For reject: the message to the model. For respond: the output used in place of the tool's. For approve: the
    grant that covers the call, if that is why it is approved."""
    args: Args | None = field(default=None)
    """For edit: the replacement arguments."""
    success: bool = True
    """For respond: whether the result is a success."""
    widen: Widening | None = None
    """For approve and edit: access beyond the sandbox policy, for this call only."""
    user: str = ""
    """The operating-system account. The ledger sets it, independent of `by`."""
    identity: str = ""
    """Who authenticated: `os:ada`, `token:ann`. Set by the interface that authenticated the person, never from typed
    text; if it is empty, the ledger sets it to the operating-system account."""
