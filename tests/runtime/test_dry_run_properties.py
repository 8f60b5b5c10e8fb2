"""Property test: a dry run and the run agree for any configuration and call."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast import Config, Decision, Deny, Result, Runtime, Verdict
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import ConfigError
from holdfast.runtime.runtime import Rules
from tests.runtime.random_configs import Setting, calls, laid_over, layers, project_in, runtime_for
from tests.runtime.support import run
from tests.soak import rounds

RANDOM = settings(max_examples=rounds(25, 300), deadline=None)
REFUSED = frozenset({Failure.NOBODY_TO_ASK, Failure.DENIED_BY_POLICY, Failure.NOT_ALLOWED, Failure.UNKNOWN_TOOL})


def _raises(args: Any, ctx: Any) -> Any:
    raise RuntimeError("broken")


def _denies(args: Any, ctx: Any) -> Any:
    return Deny("not today") if args.get("text") == "urgent" else None


def _changes(args: Any, ctx: Any) -> Any:
    return {"text": "urgent"}


def _breaks(args: Any, ctx: Any) -> Any:
    return {"text": 7} if args.get("text") == "urgent" else None


MIDDLEWARE: dict[str, Any] = {"note": _denies, "risky": _raises, "send": _changes, "sum": _breaks}


def agrees(told: Decision, met: Result) -> bool:
    """Whether the call got the decision of the dry run."""
    if told.verdict is Verdict.ASK:
        return met.failure is Failure.NOBODY_TO_ASK
    if told.source == "plan":
        return met.failure is Failure.PLANNED
    if told.verdict is Verdict.DENY:
        return not met.success and told.reason in (met.error or "") and met.failure is not Failure.NOBODY_TO_ASK
    return met.state in (State.DONE, State.FAILED) and met.failure not in REFUSED


async def both(runtime: Runtime, name: str, args: Any) -> tuple[Decision, Result]:
    """The decision of a dry run, then the result of the call."""
    with runtime.subscribe() as events:
        told = await runtime.judge(name, args)
        if runtime.registry.find(name) is not None:
            explained = await runtime.explain(name, args)
            if args is not None or told.source != "validate":
                same = explained.decision == told or told.source == "policy"  # `explain` has more detail there
                assert explained.decision.verdict is told.verdict and same, (told, explained)
            assert [step.source for step in explained.steps if step.decided] == [explained.decision.source]
        assert events.take() == []
    return told, await runtime.call(name, args)


@pytest.mark.spec("A22")
@pytest.mark.timeout(600)
@RANDOM
@given(
    config=layers,
    asked=st.lists(calls, min_size=4, max_size=12, unique_by=repr),
    works=st.booleans(),
    plan=st.sampled_from([False, False, True]),
)
def test_a_call_gets_the_decision_of_its_dry_run(
    config: list[Setting], asked: list[tuple[str, Any]], works: bool, plan: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = laid_over(Config(), *config)
            runtime = runtime_for(made, project_in(Path(folder)), sandbox_works=works, rules=Rules(plan=plan))
        except ConfigError:
            assume(False)
            raise

        for tool, before in MIDDLEWARE.items():
            runtime.middleware_for(tool, before=before)

        async def work() -> None:
            for name, args in asked:
                told, met = await both(runtime, name, args)
                assert agrees(told, met), (name, args, told, met)

        run(work())
