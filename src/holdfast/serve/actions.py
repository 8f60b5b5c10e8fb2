"""What a person can do through the daemon. The page's forms and the HTTP API both come here, and nothing else acts.

Every answer names the digest that was on the screen and is recorded under the person who authenticated. An approved
call runs beside the request, so that its answer never waits for a long command; after a kill the ledger still has the
approval, and the daemon resumes it when it starts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.events import Outcome as AgentOutcome
from holdfast.agent.events import ResultWritten
from holdfast.contract.call import Answer, PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import GrantRefused, HoldfastError, NotPending, StaleApproval
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.factory.chat import open_chat
from holdfast.json_output import ChangeOutput, GrantOutput, OutcomeOutput, UndoOutput, json_path
from holdfast.rules.grants import Width
from holdfast.runtime.grant_coverage import GrantPreview
from holdfast.runtime.live_calls import request_cancel
from holdfast.runtime.undo.restore import check_plan, plan_digest
from holdfast.serve.document_status import find_document
from holdfast.serve.projects import Projects, ServedProject
from holdfast.store.entries import Scope
from holdfast.store.people import Person
from holdfast.store.process_identity import is_alive

T = TypeVar("T")


class CallRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call as it was shown."""

    project: str
    call_id: str
    digest: str


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of an answer to one call."""

    project: str
    call_id: str
    ok: bool
    state: str
    """The state of the call now."""
    message: str = ""
    """Why the answer was not accepted, or what has to happen next."""


def find_call(project: ServedProject, call_id: str) -> PendingCall:
    """A call that waits for an answer, or is approved and has not run. Raises `HoldfastError` for any other."""
    found = project.ledger.find_pending(call_id)
    if found is not None and found.state in (State.PENDING, State.APPROVED):
        return found
    state = project.ledger.record(call_id).state.replace("_", " ")
    raise NotPending(f"Call {call_id} is not pending any more: it is {state}.")


class MadeCall(Struct, frozen=True, kw_only=True):
    """A call that was made, and its result if it has one already."""

    call_id: str
    result: Result | None


class Actions:
    """Answers, calls, cancellations and the like, on behalf of one person."""

    def __init__(self, projects: Projects, person: Person, interface: Literal["page", "api"] = "page") -> None:
        self._projects = projects
        self._person = person
        self._interface = interface

    @property
    def by(self) -> str:
        """The name under which the ledger records what this person does."""
        return f"{self._interface}:{self._person.name}"

    async def approve(self, ref: CallRef, message: str = "") -> Outcome:
        """Approve a call as it was shown. It runs now, unless its own program or document runs it."""
        return await self._answer(ref, self._given("approve", message))

    async def approve_all(self, refs: list[CallRef], message: str = "") -> list[Outcome]:
        """Approve several calls, each by its own digest and with its own outcome."""
        outcomes: list[Outcome] = []
        for ref in refs:
            try:
                outcomes.append(await self.approve(ref, message))
            except HoldfastError as error:
                outcomes.append(self._refused(ref, error))
        return outcomes

    async def reject(self, ref: CallRef, message: str) -> Outcome:
        """Reject a call; the model sees the message."""
        return await self._answer(ref, self._given("reject", message))

    async def respond(self, ref: CallRef, output: str, *, success: bool = True) -> Outcome:
        """Give the result of a call in the tool's place."""
        return await self._answer(ref, self._given("respond", output, success=success))

    async def edit(self, ref: CallRef, args: Args) -> PendingCall:
        """Replace the arguments. The call is checked again and stays pending: it is approved as it is shown then."""
        project = self._projects.get(ref.project)
        pending = _as_shown(find_call(project, ref.call_id), ref)
        async with project.runtime_for(pending) as runtime:
            return await runtime.lifecycle.edit(pending, args, by=self.by, identity=self._person.identity)

    async def preview_grant(self, ref: CallRef, scope: Scope, width: Width) -> GrantPreview:
        """What a grant for calls like this one would cover. Nothing is stored."""
        project = self._projects.get(ref.project)
        pending = _as_shown(find_call(project, ref.call_id), ref)
        async with project.runtime_for(pending) as runtime:
            return await runtime.grant_coverage.preview(pending, scope, by=self.by, width=width)

    async def always(
        self, ref: CallRef, scope: Scope, width: Width, *, lifetime: float | None, covered: list[CallRef]
    ) -> list[Outcome]:
        """Store a grant for calls like this one, then approve it and those of `covered` that the grant covers.

        Every call is answered by its own digest and has its own outcome, the first one that of the call itself.
        """
        project = self._projects.get(ref.project)
        pending = _as_shown(find_call(project, ref.call_id), ref)
        expires = None if lifetime is None else time.time() + lifetime
        async with project.runtime_for(pending) as runtime:
            grant = await runtime.allow(pending, scope, by=self.by, width=width, expires=expires)
            found = {(item.call.id, item.digest) for item in await runtime.grant_coverage.pending_calls(grant)}
        refs = [item for item in covered if (item.call_id, item.digest) in found and item.call_id != ref.call_id]
        return [await self.approve(ref), *await self.approve_all(refs, message=f"covered by grant {grant.id}")]

    async def cancel(self, project: str, call_id: str) -> Outcome:
        """Withdraw a pending call, or stop a running one: here, or by asking the process that runs it."""
        served = self._projects.get(project)
        state = served.ledger.record(call_id).state
        if await served.cancel(call_id):
            return self._now(served, call_id)
        if state is not State.RUNNING:
            raise NotPending(f"Call {call_id} has ended: it is {state.replace('_', ' ')}.")
        request_cancel(served.project.state, call_id)
        return self._now(served, call_id, "The process that runs it was asked to stop it.")

    async def call(self, project: str, tool: str, args: Args, seconds: float) -> MadeCall:
        """Make a call, and wait for its end or until it is pending, at most so long; then it goes on by itself."""
        served = self._projects.get(project)
        runtime = await served.runtime()
        call_id = runtime.pipeline.new_call_id()
        caller = replace(runtime.caller, interface=self._interface)
        identity = self._person.identity
        result = await _within(
            served, runtime.call(tool, args, caller=caller, request=identity, call_id=call_id), seconds
        )
        return MadeCall(call_id=call_id, result=result)

    async def undo(self, project: str, call_id: str, *, partial: bool = False, digest: str | None = None) -> UndoOutput:
        """Put back what a call changed on disk: everything or nothing, unless `partial`.

        With `digest`, only by the plan that was shown; raises `StaleApproval` if it is another one now.
        """
        served = self._projects.get(project)
        served.ledger.record(call_id)  # raises `UnknownCall`

        def run() -> UndoOutput:
            undo = served.undo()
            plan = undo.plan(call_id)
            if digest not in (None, plan_digest(plan)):
                raise StaleApproval(f"What undoing call {call_id} would do has changed since it was shown. Look again.")
            check_plan(plan, partial=partial)
            result = undo.run(plan, by=self.by, partial=partial, interface=self._interface, cwd=served.folder)
            return UndoOutput(
                call_id=call_id,
                undo_id=result.call_id,
                success=result.success,
                error=None if result.error is None else json_path(result.error),
                changes=[ChangeOutput.of(item, call_id, None) for item in plan.items],
            )

        return await asyncio.to_thread(run)

    async def revoke(self, project: str, grant_id: str) -> GrantOutput:
        """Revoke a grant of the project or of the user."""
        with self._projects.get(project).grants() as grants:
            found = next((grant for grant in grants.list(every=True) if grant.id == grant_id), None)
            if found is None or not grants.revoke(grant_id, by=self.by):
                raise GrantRefused(f"There is no grant '{grant_id}'. It may have been revoked or used up.")
        return GrantOutput.of(found)

    async def advance(self, project: str, document: str, message: str | None, seconds: float) -> OutcomeOutput | None:
        """Advance a document until it needs a person; None if that takes longer, and then it goes on by itself."""
        served = self._projects.get(project)
        path = find_document(served, document)
        return await _within(served, self._advance(served, path, message), seconds)

    async def _advance(self, served: ServedProject, path: Path, message: str | None) -> OutcomeOutput:
        settled: list[str] = []

        def on_event(event: object) -> None:
            if isinstance(event, ResultWritten):
                settled.append(event.use.id)

        while True:
            async with open_chat(path, flags=served.flags or None, by=self.by, on_event=on_event) as chat:
                if message is not None:
                    chat.conversation.say(message)
                    message = None
                with served.opened(chat.runtime):
                    outcome: AgentOutcome = await chat.loop.advance()
                if outcome.kind != "stale":  # the frontmatter changed: it is read again
                    return OutcomeOutput.of(outcome, chat, settled[-1] if settled else None)

    def _given(
        self, kind: Literal["approve", "reject", "respond"], message: str = "", *, success: bool = True
    ) -> Answer:
        return Answer(kind=kind, by=self.by, message=message, success=success, identity=self._person.identity)

    async def _answer(self, ref: CallRef, answer: Answer) -> Outcome:
        project = self._projects.get(ref.project)
        pending = _as_shown(find_call(project, ref.call_id), ref)
        runtime = await (project.runtime() if answer.kind == "approve" else project.open_runtime())
        answered = await runtime.lifecycle.answer(pending.call.id, answer, ref.digest)
        if answered.state is State.APPROVED:
            project.start(project.run_approved(answered))
            return self._now(project, ref.call_id, message=_who_runs(answered))
        return self._now(project, ref.call_id)

    def _refused(self, ref: CallRef, error: HoldfastError) -> Outcome:
        try:
            state = str(self._projects.get(ref.project).ledger.record(ref.call_id).state)
        except HoldfastError:
            state = "unknown"
        return Outcome(project=ref.project, call_id=ref.call_id, ok=False, state=state, message=str(error))

    def _now(self, project: ServedProject, call_id: str, message: str = "") -> Outcome:
        state = project.ledger.record(call_id).state
        return Outcome(project=project.key, call_id=call_id, ok=True, state=state, message=message)


def _as_shown(pending: PendingCall, ref: CallRef) -> PendingCall:
    if pending.digest != ref.digest:
        raise StaleApproval(f"Call {ref.call_id} has changed since it was shown. Review it again.")
    return pending


async def _within(served: ServedProject, work: Coroutine[Any, Any, T], seconds: float) -> T | None:
    """The result of the work, which goes on beside the requests if it takes longer."""
    task = served.start(work)
    await asyncio.wait((task,), timeout=seconds)
    return task.result() if task.done() else None


def _who_runs(answered: PendingCall) -> str:
    if answered.waiter is not None and is_alive(answered.waiter):
        return f"Process {answered.waiter.pid} waits for it and runs it."
    if answered.call.caller.document is not None:
        return "It runs when its document advances."
    return ""
