"""`approval.two_people`: no sequence of answers runs a risky call without two different people."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from holdfast import Answer, Config, PendingCall, Risk, Runtime, State, Tool
from holdfast.config.config import ApprovalConfig
from holdfast.contract.enums import Failure
from holdfast.contract.errors import AlreadyApproved, GrantRefused, HoldfastError
from holdfast.rules.decider import TWO_PEOPLE
from holdfast.store.process_identity import own_identity
from tests.runtime.support import open_ledger, recorder, run, runtime_in, until_pending, yes
from tests.soak import rounds

pytestmark = pytest.mark.spec("E7e")

STRICT = Config(approval=ApprovalConfig(two_people=Risk.HIGH))


def _risky() -> tuple[Tool, list[Any]]:
    return recorder(risk=Risk.HIGH)


def _held(runtime: Runtime, text: str = "x") -> PendingCall:
    result = run(runtime.call("note", {"text": text}))
    assert result.state is State.PENDING, result
    found = runtime.pending.get(result.call_id)
    assert found is not None
    return found


def _approve(runtime: Runtime, pending: PendingCall, identity: str) -> Any:
    answer = Answer(kind="approve", by="a person", identity=identity)
    return run(runtime.answer(pending.call.id, answer, digest=pending.digest))


def test_a_risky_call_runs_only_after_two_people_approved_it(tmp_path: Path) -> None:
    note, seen = _risky()
    runtime = runtime_in(tmp_path, note, nobody="pending", config=STRICT)
    pending = _held(runtime)
    assert pending.approvals_needed == 2
    first = _approve(runtime, pending, "token:ann")
    assert (first.state, first.failure, first.exit_code) == (State.PENDING, Failure.AWAITING_APPROVAL, 4)
    assert "has 1 of 2 approvals; another person must approve" in (first.error or "")
    with pytest.raises(AlreadyApproved):
        _approve(runtime, pending, "token:ann")
    assert seen == []
    assert _approve(runtime, pending, "token:bob").state is State.DONE
    assert len(seen) == 1


def test_a_call_of_lower_risk_needs_one_person(tmp_path: Path) -> None:
    note, seen = recorder(risk=Risk.MEDIUM)
    runtime = runtime_in(tmp_path, note, nobody="pending", config=STRICT)
    pending = _held(runtime)
    assert pending.approvals_needed == 1
    assert _approve(runtime, pending, "token:ann").state is State.DONE and len(seen) == 1


def test_no_rule_and_no_grant_replaces_the_second_person(tmp_path: Path) -> None:
    note, seen = _risky()
    loose = runtime_in(tmp_path, note, nobody="pending")
    grant = run(loose.allow(_held(loose, "granted"), "project", by="ann"))
    run(loose.approve(loose.pending.list()[0].call.id))
    assert len(seen) == 1
    listed = Config(approval=ApprovalConfig(two_people=Risk.HIGH, auto_approve=("note",), require_approval=False))
    runtime = runtime_in(tmp_path, note, nobody="pending", config=listed)
    pending = _held(runtime, "granted")
    with pytest.raises(GrantRefused, match="every time"):
        run(runtime.allow(pending, "project", by="ann"))
    assert run(runtime.approve_covered(grant, by="ann")) == []
    assert run(loose.approve_covered(grant, by="ann")) == [], "a looser process does not answer for two people either"
    assert len(seen) == 1


def test_policy_explain_names_the_cap(tmp_path: Path) -> None:
    note, _ = _risky()
    listed = Config(approval=ApprovalConfig(two_people=Risk.HIGH, auto_approve=("note",)))
    explained = run(runtime_in(tmp_path, note, config=listed).explain("note", {"text": "x"}))
    assert explained.decision.source == TWO_PEOPLE
    assert "two people must approve it (approval.two_people)" in explained.decision.reason


def test_a_program_whose_asker_approves_leaves_the_call_pending(tmp_path: Path) -> None:
    note, seen = _risky()
    runtime = runtime_in(tmp_path, note, asker=yes("ann"), config=STRICT)
    result = run(runtime.call("note", {"text": "x"}))
    assert result.state is State.PENDING and "1 of 2 approvals" in (result.error or "")
    (pending,) = runtime.pending.list()
    assert pending.approved_by == (own_identity(),)
    assert _approve(runtime, pending, "token:bob").state is State.DONE and len(seen) == 1


def test_a_waiting_program_runs_the_call_when_the_second_person_approves(tmp_path: Path) -> None:
    note, seen = _risky()
    runtime = runtime_in(tmp_path, note, nobody="wait", config=STRICT)
    other = runtime_in(tmp_path, note, config=STRICT)

    async def work() -> State:
        pending, task = await until_pending(runtime, runtime.call("note", {"text": "x"}))
        for identity in ("token:ann", "token:bob"):
            assert not task.done() and seen == []
            await other.answer(pending.call.id, Answer(kind="approve", by="x", identity=identity))
        return (await task).state

    assert run(work()) is State.DONE and len(seen) == 1


def test_a_stricter_configuration_applies_to_a_call_that_one_person_approved_before(tmp_path: Path) -> None:
    note, seen = _risky()
    loose = runtime_in(tmp_path, note, nobody="pending")
    pending = _held(loose)
    strict = runtime_in(tmp_path, note, nobody="pending", config=STRICT)
    result = _approve(strict, pending, "token:ann")
    assert result.state is State.PENDING and "the number of people" in (result.error or "")
    (again,) = strict.pending.list()
    assert (again.approvals_needed, again.approved_by) == (2, ())
    _approve(strict, again, "token:ann")
    assert seen == []
    assert _approve(strict, again, "token:bob").state is State.DONE


def test_a_race_of_two_people_runs_the_call_once(tmp_path: Path) -> None:
    note, seen = _risky()
    runtimes = [runtime_in(tmp_path, note, nobody="pending", config=STRICT) for _ in range(4)]
    pending = _held(runtimes[0])

    async def work() -> list[object]:
        answers = [
            runtime.answer(pending.call.id, Answer(kind="approve", by="x", identity=identity), digest=pending.digest)
            for runtime in runtimes
            for identity in ("token:ann", "token:bob")
        ]
        return await asyncio.gather(*answers, return_exceptions=True)

    outcomes = run(work())
    assert len(seen) == 1
    assert all(isinstance(outcome, HoldfastError) or not isinstance(outcome, BaseException) for outcome in outcomes)
    record = open_ledger(tmp_path / "state").call(pending.call.id)
    assert sorted(given.answer.identity for given in record.answers) == ["token:ann", "token:bob"]


PEOPLE = st.sampled_from(["token:ann", "token:bob", "os:cleo", ""])


class TwoPeople(RuleBasedStateMachine):
    """Random answers by several people, edits, changed definitions, configurations and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.note, self.seen = _risky()
        self.version = 0
        self.config = STRICT
        self.runtime = self._open()
        self.call_id = _held(self.runtime).call.id

    def _open(self) -> Runtime:
        tool = self.note.with_(description=f"Version {self.version}.")
        return runtime_in(self.folder, tool, nobody="pending", config=self.config)

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answer(self, answer: Answer, digest: str | None) -> None:
        shown = self.runtime.pending.get(self.call_id)
        with suppress(HoldfastError):
            run(self.runtime.answer(self.call_id, answer, digest=digest or (shown and shown.digest)))

    def _people(self) -> set[str]:
        """Who approved the version that ran, since the last edit."""
        assert self.runtime.ledger is not None
        answers = self.runtime.ledger.call(self.call_id).answers
        edits = [number for number, given in enumerate(answers) if given.answer.kind == "edit"]
        since = answers[edits[-1] + 1 :] if edits else answers
        final = answers[-1].digest
        return {given.answer.identity for given in since if given.answer.kind == "approve" and given.digest == final}

    @rule(identity=PEOPLE, by=st.sampled_from(["ann", "bob"]))
    def approve(self, identity: str, by: str) -> None:
        self._answer(Answer(kind="approve", by=by, identity=identity), None)

    @rule(identity=PEOPLE)
    def approve_something_else(self, identity: str) -> None:
        self._answer(Answer(kind="approve", by="x", identity=identity), "0" * 64)

    @rule(identity=PEOPLE, text=st.sampled_from(["x", "y"]))
    def edit_and_approve(self, identity: str, text: str) -> None:
        self._answer(Answer(kind="edit", by="x", identity=identity, args={"text": text}), None)

    @rule(change=st.booleans())
    def restart(self, change: bool) -> None:
        self.version += int(change)
        self.runtime = self._open()

    @rule(two=st.sampled_from([Risk.HIGH, Risk.LOW]))
    def configure(self, two: Risk) -> None:
        self.config = Config(approval=replace(STRICT.approval, two_people=two))
        self.runtime = self._open()

    @precondition(lambda self: len(self.seen) == 0)
    @rule()
    def resume(self) -> None:
        run(self.runtime.lifecycle.resume_all())

    @invariant()
    def it_runs_at_most_once_and_only_with_two_people(self) -> None:
        assert len(self.seen) <= 1
        assert not self.seen or len(self._people()) >= 2
        assert self.runtime.ledger is not None and self.runtime.ledger.verify().ok


TwoPeople.TestCase.settings = settings(
    max_examples=rounds(25, 500),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=(HealthCheck.too_slow,),
)
TestTwoPeople = pytest.mark.spec("E7e")(TwoPeople.TestCase)
