"""What happens at the moment a call executes: confirm it, log it, or say nothing; shifted by the autonomy level."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.config.model import Action, Autonomy, HooksConfig
from holdfast.contract.call import Caller, Decision
from holdfast.contract.tool import Tool
from holdfast.contract.vocabulary import Risk, Verdict
from holdfast.rules.chain import Question
from holdfast.rules.gate import CAP_URN, Cap
from holdfast.rules.policy import GROUP_PREFIX, Names

HOOK: Final = f"{CAP_URN}hook"
CANCELLED: Final = "Tool execution cancelled by user"
"""What a call is told whose confirmation was refused."""

_ACTIONS: Final[tuple[Action, ...]] = ("silent", "log", "confirm")
_FREEDOM: Final[dict[Autonomy, int]] = {"cautious": 0, "standard": 1, "autonomous": 2}
_WILD: Final = frozenset("*?[]")
_MEMO_LIMIT: Final = 4096


class HookOutcome(Struct, frozen=True):
    action: Action
    reason: str


class Hooks:
    """The configured actions. The most specific pattern counts; between equals the stricter action."""

    def __init__(self, config: HooksConfig | None = None) -> None:
        given = config or HooksConfig()
        self.autonomy: Final = given.autonomy
        self._patterns = tuple((pattern, Names((pattern,)), action) for pattern, action in given.actions.items())
        self._found: dict[Tool, tuple[Action, str]] = {}

    def outcome(self, tool: Tool, risk: Risk, caller: Caller) -> HookOutcome:
        if tool not in self._found:
            if len(self._found) >= _MEMO_LIMIT:
                self._found.clear()
            self._found[tool] = self._configured(tool)
        action, why = self._found.get(tool) or self._configured(tool)
        level = most_cautious(self.autonomy, caller.autonomy)
        return HookOutcome(shifted(action, level, risk), f"{why}, autonomy is {level}, risk is {risk}.")

    def cap(self) -> Cap:
        """Confirm means: a person is asked, whoever approved."""

        def judge(question: Question) -> Decision | None:
            outcome = self.outcome(question.tool, question.risk, question.caller)
            return Decision(Verdict.ASK, HOOK, outcome.reason) if outcome.action == "confirm" else None

        return Cap(HOOK, judge, static=True)

    def _configured(self, tool: Tool) -> tuple[Action, str]:
        matching = [
            (_specificity(pattern), _ACTIONS.index(action), pattern)
            for pattern, names, action in self._patterns
            if names.match(tool) is not None
        ]
        if not matching:
            return "silent", "No hook names the tool"
        _, strictness, pattern = max(matching)
        return _ACTIONS[strictness], f"The hook '{pattern}' says {_ACTIONS[strictness]}"


def shifted(action: Action, level: Autonomy, risk: Risk) -> Action:
    """The action at this autonomy level.

    cautious: one step stricter, and medium or high risk is always confirmed. standard: as configured.
    autonomous: confirm becomes log, except for high risk. At every level high risk is at least logged.
    """
    strictness = _ACTIONS.index(action)
    if level == "cautious":
        strictness = 2 if risk.level >= Risk.MEDIUM.level else min(strictness + 1, 2)
    elif level == "autonomous" and risk is not Risk.HIGH:
        strictness = min(strictness, 1)
    return _ACTIONS[max(strictness, 1) if risk is Risk.HIGH else strictness]


def most_cautious(configured: Autonomy, asked: Autonomy | None) -> Autonomy:
    """A caller may ask for more caution than is configured, never for less."""
    return configured if asked is None or _FREEDOM[configured] <= _FREEDOM[asked] else asked


def _specificity(pattern: str) -> tuple[int, int]:
    """A name before a group before a pattern; of patterns the one that spells out more."""
    if pattern.startswith(GROUP_PREFIX):
        return (1, 0)
    literal = sum(letter not in _WILD for letter in pattern)
    return (0, literal) if literal < len(pattern) else (2, 0)
