"""How the reading of commands takes part in approval: a resolver that approves, and a cap that asks and denies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from holdfast.config.model import ApprovalConfig
from holdfast.contract.call import Decision
from holdfast.contract.command import standard_shell
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Verdict
from holdfast.rules.chain import URN, Question, ResolveContext, Resolver
from holdfast.rules.gate import CAP_URN, Cap
from holdfast.rules.policy import Names
from holdfast.rules.resolvers import SHELL_READONLY, Narrowing
from holdfast.rules.shell.place import command_of, is_shell_tool, never, place_of
from holdfast.rules.shell.programs import dialect_of
from holdfast.rules.shell.verdicts import Dialect, JudgedPart, ShellJudgement

if TYPE_CHECKING:
    from holdfast.rules.shell.judge import Judge

COMMANDS: Final = f"{URN}commands"
SHELL_PARTS: Final = f"{CAP_URN}shell-parts"
PRIORITY: Final = 85
_HOME_SOURCES: Final = frozenset({"builtin", "program"})


class CommandRules:
    """The command rules of one configuration."""

    def __init__(
        self,
        approval: ApprovalConfig,
        sandbox_held: Callable[[], bool] | None = None,
        protected: tuple[str, ...] = (),
        shells: Mapping[str, str] | None = None,
    ) -> None:
        """`shells`: the shells that the configuration names, by tool."""
        names = () if isinstance(approval.auto_approve, str) else approval.auto_approve
        replaced = SHELL_READONLY in approval.presets or SHELL_READONLY in approval.excluded
        self._readers = SHELL_READONLY in names and not replaced
        self._rules = approval.commands
        self.approves_any: Final = self._readers or any(rule.verdict == "approve" for rule in self._rules)
        """Whether any command could be approved."""
        self._held = sandbox_held or never
        self._protected = protected
        self._shells = shells or {}
        self._excluded = Names(approval.excluded)
        self._narrow = approval.narrow
        self._narrowing = Narrowing(approval.narrow, presets=approval.presets)

    @cached_property
    def judge(self) -> Judge:
        """Raises `ConfigError` for rules that cannot be used. Reading commands is loaded when it is first needed."""
        from holdfast.rules.shell.judge import Judge, compiled

        return Judge(compiled(self._rules), readers=self._readers)

    def check(self) -> None:
        """Raise `ConfigError` now, not at the first command."""
        if self._rules:
            _ = self.judge

    def read(self, question: Question) -> ShellJudgement | None:
        text = command_of(question.args) if is_shell_tool(question.tool) else None
        if text is None:
            return None
        return self.judge.judge(text, place_of(question, self._dialect(question.tool), self._held, self._protected))

    def _dialect(self, tool: Tool) -> Dialect:
        """How the shell that runs a tool's commands reads them. Which one a third party's tool runs is not known."""
        if tool.source != "builtin":
            return "posix"
        return dialect_of(self._shells.get(tool.name) or standard_shell())

    def parts(self, question: Question) -> tuple[JudgedPart, ...]:
        judged = self.read(question)
        return () if judged is None else judged.parts

    def resolver(self) -> Resolver:
        """Approves a command every part of which is approved; has nothing to say about the rest."""

        def applies(tool: Tool) -> bool:
            return is_shell_tool(tool) and tool.source in _HOME_SOURCES and self._excluded.match(tool) is None

        def resolve(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
            judged = self.read(ctx.question)
            if judged is None or judged.verdict is not Verdict.APPROVE or not self._leaves(ctx.question.tool, judged):
                return None
            return Decision(Verdict.APPROVE, COMMANDS, judged.reason)

        return Resolver(COMMANDS, resolve, PRIORITY, "The rules about commands.", applies=applies)

    def cap(self) -> Cap:
        """Asks about or denies what a rule is about, wherever it is hidden, and denies what is too much to judge."""

        def judge(question: Question) -> Decision | None:
            text = command_of(question.args)
            judged = None if text is None else self.judge.limits(text, self._dialect(question.tool))
            if judged is None or judged.verdict is None:
                return None
            return Decision(judged.verdict, SHELL_PARTS, judged.reason)

        return Cap(SHELL_PARTS, judge, applies=is_shell_tool, failure=Verdict.DENY, parts=self.parts)

    def _leaves(self, tool: Tool, judged: ShellJudgement) -> bool:
        """Whether lists of untrusted files approve this too: by the tool, or by the preset it is approved by."""
        by_preset = judged.rules == (SHELL_READONLY,)
        named = by_preset and all(SHELL_READONLY in names for names in self._narrow)
        return named or self._narrowing.leaves(tool)
