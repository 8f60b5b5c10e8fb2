"""Phase 1: say beside each call what is to become of it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.agent.bench import Bench
from holdfast.agent.conversation import Placed, Slot, Status
from holdfast.agent.events import PhaseBegun
from holdfast.agent.execute import Job, carry_out
from holdfast.agent.standing import Standing, Step
from holdfast.contract.vocabulary import Verdict


async def categorise(bench: Bench, standings: Sequence[Standing]) -> None:
    """Nothing runs here but what ends before anybody could be asked: an unknown tool, arguments that do not fit."""
    bench.tell(PhaseBegun("categorise"))
    placed: list[Placed] = []
    called: list[tuple[Slot, bool]] = []
    for standing in standings:
        slot = standing.slot
        if slot.aborted is not None:
            placed.append(Placed(slot, Status.ABORTED))
        elif standing.step is Step.SHOW:
            placed.append(_shown_again(bench, standing))
        else:
            decision = await bench.unless_stopped(bench.judge(slot))
            if decision is None or decision.verdict is not Verdict.APPROVE:
                called.append((slot, decision is not None and decision.verdict is Verdict.DENY))
            elif slot.status is Status.PENDING:
                bench.resting.add((slot.turn, slot.use))  # a person wrote it, so a person takes it away
            else:
                placed.append(Placed(slot, Status.APPROVED))
    bench.write(placed)
    opened = bench.open_all([slot for slot, _ in called])
    jobs = [Job(slot, Step.RUN, denied=denied) for slot, (_, denied) in zip(opened, called, strict=True)]
    await carry_out(bench, jobs)


def _shown_again(bench: Bench, standing: Standing) -> Placed:
    slot = standing.slot
    if slot.status is Status.APPROVED:
        what, call = f"Call '{slot.use.id}'", "" if slot.open is None else slot.open.call_id
        if standing.changed:
            bench.warn(f"{what} was changed elsewhere, so its approval here does not count: holdfast approve {call}")
        elif standing.doubtful or bench.sight.blocked:
            bench.warn(f"{what} is still pending: a tool could have typed that approval. Use: holdfast approve {call}")
        else:
            bench.warn(f"{what} waits again: it is not what was shown, or something ran that could have typed that.")
    return Placed(slot, Status.PENDING)
