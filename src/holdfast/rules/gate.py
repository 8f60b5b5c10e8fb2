"""Chain and caps together: the one place that says whether a call may run."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.contract.call import Caller, Decision
from holdfast.contract.tool import Tool
from holdfast.contract.vocabulary import Verdict
from holdfast.rules.caps import Cap, apply_caps
from holdfast.rules.chain import Chain, Judgement
from holdfast.rules.question import Question


class Gate:
    """Everything that decides about calls, for one configuration."""

    def __init__(self, chain: Chain, caps: Iterable[Cap] = ()) -> None:
        self.chain = chain
        self.caps = tuple(caps)

    def judge(self, question: Question) -> Judgement:
        """The decision with what every resolver and every cap said."""
        heard = self.chain.judge(question)
        capped = apply_caps(heard.decision, self.caps, question)
        return Judgement(capped.decision, (*heard.steps, *capped.steps))

    def decide(self, question: Question) -> Decision:
        """The same decision, without asking what is known of the tool already."""
        decision = self.chain.static_decision(question.tool) or self.chain.judge(question).decision
        return apply_caps(decision, self.caps, question).decision

    def static_decision(self, tool: Tool, caller: Caller) -> Decision | None:
        """What `judge` decides about every call of this tool by this caller, or None when that depends on the call.

        Good until `chain.revision` changes. A two-phase tool is left open unless it is denied: its proposals have
        risks of their own.
        """
        decision = self.chain.static_decision(tool)
        if decision is None or decision.verdict is Verdict.DENY:
            return decision
        try:
            caps = [cap for cap in self.caps if cap.applies(tool)]
        except Exception:
            return None  # a cap that fails is heard, and counts, at every call
        if caps and (tool.propose is not None or not all(cap.static for cap in caps)):
            return None
        return apply_caps(decision, caps, Question.about(tool, caller)).decision
