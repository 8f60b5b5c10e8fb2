"""What a person can do through the daemon. The page's forms and the HTTP API both come here, and nothing else acts.

Every answer names the digest that was on the screen and is recorded under the person who authenticated. An approved
call runs beside the request, so that its answer never waits for a long command; after a kill the ledger still has the
approval, and the daemon resumes it when it starts.
"""

from __future__ import annotations

import asyncio
import time

from msgspec import Struct

from holdfast.contract.call import Answer, PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import GrantRefused, HoldfastError, NotPending, StaleApproval
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.rules.grants import Width
from holdfast.runtime.grant_coverage import GrantPreview
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.undo.restore import plan_digest
from holdfast.serve.projects import INTERFACE, Projects, ServedProject
from holdfast.store.entries import Grant, Scope
from holdfast.store.people import Person


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
    state = project.ledger.call(call_id).state.replace("_", " ")
    raise NotPending(f"Call {call_id} is not pending any more: it is {state}.")


class Actions:
    """Answers, cancellations and the like, on behalf of one person."""

    def __init__(self, projects: Projects, person: Person) -> None:
        self._projects = projects
        self._person = person

    @property
    def by(self) -> str:
        """The name under which the ledger records what this person does."""
        return f"page:{self._person.name}"

    async def approve(self, ref: CallRef, message: str = "") -> Outcome:
        """Approve a call as it was shown. It runs now, unless its own program or document runs it."""
        answer = Answer(kind="approve", by=self.by, identity=self._person.identity, message=message)
        return await self._answer(ref, answer)

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
        answer = Answer(kind="reject", by=self.by, identity=self._person.identity, message=message)
        return await self._answer(ref, answer)

    async def respond(self, ref: CallRef, output: str, *, success: bool = True) -> Outcome:
        """Give the result of a call in the tool's place."""
        answer = Answer(kind="respond", by=self.by, identity=self._person.identity, message=output, success=success)
        return await self._answer(ref, answer)

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
            return await runtime.preview_grant(pending, scope, by=self.by, width=width)

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

    async def cancel(self, ref: CallRef) -> Outcome:
        """Withdraw a pending call, or stop one that runs in this process."""
        project = self._projects.get(ref.project)
        cancelled = await project.cancel(ref.call_id)
        message = "" if cancelled else "It runs in another process, or has ended: stop it there."
        return self._now(project, ref.call_id, ok=cancelled, message=message)

    async def undo(self, project: str, call_id: str, *, digest: str, partial: bool = False) -> Result:
        """Put back what a call changed, by the plan that was shown. The result is that of the undo, a call itself."""
        served = self._projects.get(project)

        def run() -> Result:
            undo = served.undo()
            plan = undo.plan(call_id)
            if plan_digest(plan) != digest:
                raise StaleApproval(f"What undoing call {call_id} would do has changed since it was shown. Look again.")
            return undo.run(plan, by=self.by, partial=partial, interface=INTERFACE, cwd=served.folder)

        return await asyncio.to_thread(run)

    async def revoke(self, project: str, grant_id: str) -> Grant:
        """Revoke a grant of the project or of the user."""
        with self._projects.get(project).grants() as grants:
            found = next((grant for grant in grants.list(every=True) if grant.id == grant_id), None)
            if found is None or not grants.revoke(grant_id, by=self.by):
                raise GrantRefused(f"There is no grant '{grant_id}'. It may have been revoked or used up.")
        return found

    async def _answer(self, ref: CallRef, answer: Answer) -> Outcome:
        project = self._projects.get(ref.project)
        pending = _as_shown(find_call(project, ref.call_id), ref)
        runtime = await project.runtime()
        answered = await runtime.lifecycle.answer(pending.call.id, answer, ref.digest)
        if answered.state is State.APPROVED:
            project.start(_run(runtime, answered))
            return self._now(project, ref.call_id, message=_who_runs(answered))
        return self._now(project, ref.call_id)

    def _refused(self, ref: CallRef, error: HoldfastError) -> Outcome:
        try:
            state = str(self._projects.get(ref.project).ledger.call(ref.call_id).state)
        except HoldfastError:
            state = "unknown"
        return Outcome(project=ref.project, call_id=ref.call_id, ok=False, state=state, message=str(error))

    def _now(self, project: ServedProject, call_id: str, *, ok: bool = True, message: str = "") -> Outcome:
        state = project.ledger.call(call_id).state
        return Outcome(project=project.key, call_id=call_id, ok=ok, state=state, message=message)


def _as_shown(pending: PendingCall, ref: CallRef) -> PendingCall:
    if pending.digest != ref.digest:
        raise StaleApproval(f"Call {ref.call_id} has changed since it was shown. Review it again.")
    return pending


async def _run(runtime: Runtime, answered: PendingCall) -> None:
    if runtime.registry.find(answered.call.tool) is None:
        await runtime.pipeline.wait_for_sources()
    await runtime.lifecycle.resume(answered)


def _who_runs(answered: PendingCall) -> str:
    if answered.waiter is not None:
        return f"Process {answered.waiter.pid} waits for it and runs it."
    if answered.call.caller.document is not None:
        return "It runs when its document advances."
    return ""
