"""What a list of names, patterns, groups and presets says about a tool. The list itself is edited as a `NameList`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.config.model import Preset
from holdfast.contract.call import Decision
from holdfast.contract.tool import Tool
from holdfast.contract.vocabulary import Verdict
from holdfast.rules.policy import Names
from holdfast.rules.presets import expand

_MEMO_LIMIT: Final = 4096


class ListPolicy:
    """Approves what is listed, denies what a preset denies, and has nothing to say about the rest.

    Approvals and denials are each united, deny wins, and an exclusion takes away from approvals only. A list never
    asks about a tool it does not name: that is left to the rest of the chain.
    """

    def __init__(
        self, entries: Iterable[str], *, presets: Mapping[str, Preset] | None = None, excluded: Iterable[str] = ()
    ) -> None:
        self.entries: Final = tuple(entries)
        self._rules = expand(self.entries, presets or {})
        self._excluded = Names(excluded)
        self._answers: dict[Tool, Decision | None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Entries that mean nothing."""
        return self._rules.warnings

    def answer(self, tool: Tool) -> Decision | None:
        if tool not in self._answers:
            if len(self._answers) >= _MEMO_LIMIT:
                self._answers.clear()
            self._answers[tool] = self._answer(tool)
        return self._answers.get(tool)

    def approves(self, tool: Tool) -> bool:
        answer = self.answer(tool)
        return answer is not None and answer.verdict is Verdict.APPROVE

    def denies(self, tool: Tool) -> bool:
        answer = self.answer(tool)
        return answer is not None and answer.verdict is Verdict.DENY

    def _answer(self, tool: Tool) -> Decision | None:
        for rule in self._rules.deny:
            if (entry := rule.match(tool)) is not None:
                return Decision(Verdict.DENY, rule.place, f"'{entry}' is denied by {rule.place}.")
        if self._excluded.match(tool) is not None:
            return None
        for rule in self._rules.approve:
            if (entry := rule.match(tool)) is not None:
                return Decision(Verdict.APPROVE, rule.place, f"'{entry}' is approved by {rule.place}.")
        return None


class Narrowing:
    """The lists of files nobody has trusted: each may take approvals away and deny, none may give."""

    def __init__(self, lists: Iterable[Iterable[str]] = (), *, presets: Mapping[str, Preset] | None = None) -> None:
        self._lists = tuple(ListPolicy(entries, presets=presets) for entries in lists)

    def leaves(self, tool: Tool, entry: str | None = None) -> bool:
        """Whether every list approves the tool too, or names the same module path."""
        return all(names.approves(tool) or entry in names.entries for names in self._lists)

    def denial(self, tool: Tool) -> Decision | None:
        return next((names.answer(tool) for names in self._lists if names.denies(tool)), None)

    def applied(self, decision: Decision | None, tool: Tool, entry: str | None = None) -> Decision | None:
        """The decision as the untrusted files leave it."""
        if (denied := self.denial(tool)) is not None:
            return denied
        if decision is None or decision.verdict is not Verdict.APPROVE or self.leaves(tool, entry):
            return decision
        reason = f"A file that is not trusted does not approve '{tool.name}'; look at it with `holdfast trust`."
        return Decision(Verdict.ASK, "narrow", reason)
