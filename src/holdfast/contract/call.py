"""What is asked, by whom, and what was decided about it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from holdfast.contract.enums import Risk, State, Verdict
from holdfast.contract.json import Args, Identifier
from holdfast.contract.widening import Widening


class Caller(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who asks. Two callers that are equal get the same compiled policy."""

    interface: str = "python"
    agent: str | None = None
    provider: str | None = None
    skill: str | None = None
    session: str | None = None
    document: str | None = None
    """The document that asks, by its full path: only a runtime of that document runs what waits."""
    scopes: frozenset[str] = frozenset()
    """Secret scopes granted to this caller."""
    autonomy: Literal["cautious", "standard", "autonomous"] | None = None
    """Overrides the configured autonomy level, towards more caution only."""
    only: frozenset[str] | None = None
    """The canonical names of the tools that are left for it, of those it would have; None leaves all."""


class Decision(Struct, frozen=True):
    """A verdict with where it came from and why."""

    verdict: Verdict
    source: str
    reason: str


class Precondition(Struct, frozen=True, kw_only=True):
    """A fact a proposal relies on, for example the content digest of the file it will replace."""

    kind: Identifier
    subject: str
    value: str


class RunConditions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How something would run. Every interface shows it before what would run, and outside of it."""

    where: str = ""
    """The folder, as a path that begins with `/` or `./`, or in words."""
    sandbox: str = ""
    """What contains it, and whether it reaches the network."""
    undo: str = ""
    """Whether what it changes can be undone."""
    lasts: str = ""
    """Until when it runs, where that is not the end of the call."""


class Proposal(Struct, frozen=True, kw_only=True):
    """What would happen if the call were approved. Nothing has happened yet."""

    tool_name: str
    summary: str
    risk: Risk
    payload: Args
    """Opaque JSON of the tool's own, handed back to `apply`."""
    preview: str = ""
    """What a person is shown: the command, for changes to files a unified diff."""
    preview_kind: Literal["text", "diff"] = "text"
    """A diff is coloured, and may be cut until all of it is asked for. Of other text no line is left out."""
    preview_cut: bool = False
    """Whether the tool left something out of the preview; the arguments then have all of it."""
    surroundings: RunConditions | None = None
    preconditions: tuple[Precondition, ...] = ()


class Call(Struct, frozen=True, omit_defaults=True):
    """One request for one action."""

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
    """The turn or client request this call belongs to, if any."""
    given_id: str | None = None
    """The id the model or client gave this call, if any; unique only within its request."""
    depth: int = 0
    group: str = ""
    """The outermost call this one is nested in: its own id for a call from an interface."""
    original: Args | None = None
    """The arguments as they were given, where a slip in them was put right."""
    asked: Args | None = None
    """The arguments before middleware changed them: middleware is given these again when a pending call runs."""
    widening: Widening | None = None
    """What it may reach beyond the sandbox's policy, by command rules and by the answer to it."""


class ProcessIdentity(Struct, frozen=True):
    """A process, so that a recycled pid is not taken for it."""

    pid: int
    started: str


class NamedFile(Struct, frozen=True):
    """A project file that a command names, and what was in it."""

    path: str
    """From the project's root, where it lies in it."""
    digest: Identifier


class PendingCall(Struct, frozen=True, kw_only=True):
    """A call that waits, as every interface sees it."""

    call: Call
    state: State
    digest: Identifier
    definition_digest: Identifier
    decision: Decision
    preview: str
    """One line: `name: what it would do`."""
    summary: str = ""
    """What it would do in a few words: the proposal's, the tool's own, or the argument that says most."""
    proposal: Proposal | None = None
    files: tuple[NamedFile, ...] = ()
    """What a command that does more than read names: the approval holds for this content."""
    secrets: tuple[str, ...] = ()
    """Files that may hold secrets (`sandbox.read_deny`) and that the call names: an approval lets it read these."""
    definition_only: bool = False
    """The tool has no `execute`: the call waits for its result, not for a yes."""
    held_at: float = 0.0
    approver: str | None = None
    waiter: ProcessIdentity | None = None
    """The process that waits for the answer and will run the call; None when no process waits."""
    widened: Widening | None = None
    """What its approval added to what the call may reach; only an approved call has it."""


class Answer(Struct, frozen=True, kw_only=True):
    """What a person said to a held call; one of four."""

    kind: Literal["approve", "edit", "reject", "respond"]
    by: str
    """Who answered: a user name, a program, a page's session."""
    message: str = ""
    """For reject: what the model is told. For respond: the output given in the tool's place."""
    args: Args | None = field(default=None)
    """For edit: the arguments to use instead."""
    success: bool = True
    """For respond: whether it counts as a success."""
    widen: Widening | None = None
    """For approve and edit: what this one call may reach beyond the sandbox's policy."""
    user: str = ""
    """The account of the operating system it came from. The ledger fills it in, whatever `by` says."""
