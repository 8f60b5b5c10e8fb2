"""The approval chain and the caps a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.config.config import SHELL_READONLY, ApprovalConfig, ToolsConfig
from holdfast.contract.call import Decision
from holdfast.contract.command import standard_shell
from holdfast.contract.enums import Verdict
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.contract.widening import Widening
from holdfast.rules.chain import (
    APPROVAL_URN,
    CALLBACK_ERRORS,
    DEFAULT_DECISION,
    ApprovalRequest,
    Chain,
    Resolve,
    ResolveContext,
    Resolver,
)
from holdfast.rules.decider import CAP_URN, Cap, Confirmations, changed_definition_cap, max_risk_cap, protected_path_cap
from holdfast.rules.policy import ToolMatcher
from holdfast.rules.resolvers import (
    SANDBOX,
    GrantLookup,
    Restrictions,
    catch_all_resolver,
    config_resolver,
    frontmatter_resolver,
    grants_resolver,
    is_module_path,
    module_resolver,
    pure_resolver,
    removed_from_auto_approve,
    sandbox_resolver,
)
from holdfast.rules.shell.location import command_of, context_of, is_shell_tool, no_sandbox
from holdfast.rules.shell.programs import dialect_of
from holdfast.rules.shell.verdicts import UNCOVERED, Dialect, JudgedPart, ShellJudgement
from holdfast.text.escape import clip_middle

if TYPE_CHECKING:
    from holdfast.rules.shell.judgement import CommandJudge

COMMANDS: Final = f"{APPROVAL_URN}commands"
SHELL_PARTS: Final = f"{CAP_URN}shell-parts"
WIDENED: Final = f"{CAP_URN}widened"
PRIORITY: Final = 85
_MAX_PARTS: Final = 3
_MAX_PART: Final = 60
"""Parts of a command that are named, and characters of each."""
_HOME_SOURCES: Final = frozenset({"builtin", "program"})


class CommandRules:
    """The command rules of one configuration."""

    def __init__(
        self,
        approval: ApprovalConfig,
        sandbox_verified: Callable[[], bool] | None = None,
        protected: tuple[str, ...] = (),
        tools: ToolsConfig | None = None,
    ) -> None:
        """`tools` names the shells that run commands."""
        names = () if isinstance(approval.auto_approve, str) else approval.auto_approve
        replaced = SHELL_READONLY in approval.presets or SHELL_READONLY in approval.excluded
        self._readers = SHELL_READONLY in names and not replaced
        self._rules = approval.commands
        self.approves_any: Final = self._readers or any(rule.verdict == "approve" for rule in self._rules)
        """Whether any command could be approved."""
        self.has_widenings: Final = any(rule.network or rule.read or rule.write for rule in self._rules)
        self._held = sandbox_verified or no_sandbox
        self._protected = protected
        self._tools = tools or ToolsConfig()
        self._excluded = ToolMatcher(removed_from_auto_approve(approval))
        self._narrow = approval.narrow
        self._restrictions = Restrictions(approval.narrow, presets=approval.presets)

    @cached_property
    def command_judge(self) -> CommandJudge:
        """Raises `ConfigError` for rules that cannot be used. Reading commands is loaded when it is first needed."""
        from holdfast.rules.shell.judgement import CommandJudge, compile_rules

        return CommandJudge(compile_rules(self._rules), readers=self._readers)

    def check(self) -> None:
        """Raise `ConfigError` now, not at the first command."""
        if self._rules:
            _ = self.command_judge

    def judge_call(self, request: ApprovalRequest) -> ShellJudgement | None:
        text = command_of(request.args) if is_shell_tool(request.tool) else None
        if text is None:
            return None
        return self.command_judge.judge(
            text, context_of(request, self._dialect(request.tool), self._held, self._protected)
        )

    def _dialect(self, tool: Tool) -> Dialect:
        """How the shell that runs a tool's commands reads them. Which one a third party's tool runs is not known."""
        if tool.source != "builtin":
            return "posix"
        shell = (self._tools.settings_of(tool.names) or {}).get("shell")
        return dialect_of(shell if isinstance(shell, str) and shell else standard_shell())

    def parts(self, request: ApprovalRequest) -> tuple[JudgedPart, ...]:
        judged = self.judge_call(request)
        return () if judged is None else judged.parts

    def uncovered_reason(self, request: ApprovalRequest) -> str:
        """Which parts of a command no rule covers, for a person; empty for a call that runs none."""
        if not is_shell_tool(request.tool):
            return ""
        try:
            judged = self.judge_call(request)
        except CALLBACK_ERRORS:
            return DEFAULT_DECISION.reason
        return DEFAULT_DECISION.reason if judged is None else uncovered_parts_reason(judged)

    def resolver(self) -> Resolver:
        """Approves a command every part of which is approved; has nothing to say about the rest."""

        def applies(tool: Tool) -> bool:
            return is_shell_tool(tool) and tool.source in _HOME_SOURCES and self._excluded.match(tool) is None

        def resolve(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
            judged = self.judge_call(ctx.request)
            if (
                judged is None
                or judged.verdict is not Verdict.APPROVE
                or not self._is_permitted(ctx.request.tool, judged)
            ):
                return None
            return Decision(Verdict.APPROVE, COMMANDS, judged.reason)

        return Resolver(COMMANDS, resolve, PRIORITY, "The rules about commands.", applies=applies)

    def cap(self) -> Cap:
        """Asks about or denies what a rule is about, wherever it is hidden, and denies what is too much to judge."""

        def judge(request: ApprovalRequest) -> Decision | None:
            text = command_of(request.args)
            judged = None if text is None else self.command_judge.judge_restrictions(text, self._dialect(request.tool))
            if judged is None or judged.verdict is None:
                return None
            return Decision(judged.verdict, SHELL_PARTS, judged.reason)

        return Cap(SHELL_PARTS, judge, applies=is_shell_tool, failure=Verdict.DENY, parts=self.parts)

    def needs(self, request: ApprovalRequest) -> Widening | None:
        """What the rules say the command of a call may reach beyond the sandbox's policy."""
        tool = request.tool
        if not self.has_widenings or tool.source not in _HOME_SOURCES or self._excluded.match(tool) is not None:
            return None
        judged = self.judge_call(request)
        return None if judged is None else judged.needs or None

    def needs_cap(self) -> Cap:
        """Asks about a command that a rule lets reach more, unless rules that say the same approve all of it: what the
        rule was written for would not be alone in that sandbox."""

        def judge(request: ApprovalRequest) -> Decision | None:
            judged = self.judge_call(request) if request.widening else None
            if judged is None or judged.needs_all(SHELL_READONLY):
                return None
            reason = "A rule lets a part of this command reach more than the sandbox does, and the rest would too."
            return Decision(Verdict.ASK, WIDENED, reason)

        return Cap(WIDENED, judge, applies=is_shell_tool)

    def _is_permitted(self, tool: Tool, judged: ShellJudgement) -> bool:
        """Whether lists of untrusted files approve this too: by the tool, or by the preset it is approved by."""
        by_preset = judged.rules == (SHELL_READONLY,)
        named = by_preset and all(SHELL_READONLY in names for names in self._narrow)
        return named or self._restrictions.permit(tool)


def uncovered_parts_reason(judged: ShellJudgement) -> str:
    """`tail -5` is not covered by a rule."""
    left = [part for part in judged.parts if part.verdict is None]
    left = [part for part in left if not part.inside] or left
    if not left:
        return DEFAULT_DECISION.reason if judged.verdict is Verdict.APPROVE else judged.reason
    names = [f"`{clip_middle(part.text, _MAX_PART)}`{f' in {part.inside}' if part.inside else ''}" for part in left]
    names = list(dict.fromkeys(names))
    if len(names) > _MAX_PARTS:
        names[_MAX_PARTS - 1 :] = [f"{len(names) - _MAX_PARTS + 1} more parts"]
    what = f"{', '.join(names[:-1])} and {names[-1]} are" if len(names) > 1 else f"{names[0]} is"
    why = next((part.reason for part in left if part.reason and part.reason != UNCOVERED), "")
    return f"{what} not covered by a rule{f': {why}' if why else ''}."


class DocumentPolicy(Struct, frozen=True):
    """A trusted document has set `auto_approve`, as a list in the configuration or by a function."""

    outer: ApprovalConfig
    """The configuration without the document: only its denials still count."""
    function: Resolve | None = None


def standard_chain(
    approval: ApprovalConfig,
    *,
    function: Resolve | None = None,
    document: DocumentPolicy | None = None,
    grants: GrantLookup | None = None,
    sandbox_verified: Callable[[], bool] | None = None,
    is_tool: Callable[[str], bool] = lambda name: False,
    protected: tuple[str, ...] = (),
    tools: ToolsConfig | None = None,
) -> Chain:
    """All built-in resolvers. `function` stands in for `auto_approve`; `is_tool` tells tool names from module paths;
    `protected` are paths that the configuration protects beside the built-in ones, `tools` names the shells."""
    commands = CommandRules(approval, sandbox_verified, protected, tools)
    commands.check()
    chain = Chain(on_error=approval.on_error, describe_uncovered=commands.uncovered_reason)
    outer = approval if document is None else document.outer
    decides = document is not None
    chain.add(config_resolver(outer, function=function, document_decides=decides))
    for path in () if function is not None else module_paths(outer, is_tool):
        chain.add(module_resolver(path, outer, is_tool=is_tool, document_decides=decides))
    if commands.approves_any:
        chain.add(commands.resolver())
    if document is not None:
        chain.add(_document_resolver(approval, document))
    pure = pure_resolver(removed_from_auto_approve(approval))
    if grants is not None:
        chain.add(grants_resolver(grants, applies=lambda tool: not pure.applies(tool)))
    if sandbox_verified is not None:
        chain.add(sandbox_resolver(approval, sandbox_verified))
    chain.add(pure)
    if not approval.require_approval:
        chain.add(catch_all_resolver())
    return chain


def _document_resolver(approval: ApprovalConfig, document: DocumentPolicy) -> Resolver:
    names = () if isinstance(approval.auto_approve, str) else approval.auto_approve
    return frontmatter_resolver(
        document.function or names,
        presets=approval.presets,
        excluded=approval.excluded,
        restrictions=Restrictions(approval.narrow, presets=approval.presets),
    )


def standard_caps(
    approval: ApprovalConfig,
    chain: Chain,
    *,
    confirmations: Confirmations | None = None,
    is_protected: Callable[[Path], str | None] | None = None,
    sandbox_verified: Callable[[], bool] | None = None,
    protected: tuple[str, ...] = (),
    tools: ToolsConfig | None = None,
) -> tuple[Cap, ...]:
    """The built-in caps. More can be put beside them; their order does not matter to the verdict."""
    commands = CommandRules(approval, sandbox_verified, protected, tools)
    caps: list[Cap] = [commands.cap(), changed_definition_cap()]
    if commands.has_widenings:
        caps.append(commands.needs_cap())
    if is_protected is not None:
        caps.append(protected_path_cap(is_protected))
    if approval.max_risk is not None:
        caps.append(max_risk_cap(approval.max_risk, blanket_sources(chain)))
    if confirmations is not None:
        caps.append(confirmations.cap())
    return tuple(caps)


def module_paths(approval: ApprovalConfig, is_tool: Callable[[str], bool]) -> tuple[str, ...]:
    """The import paths in the list. Only what user-level config put there may be one."""
    if isinstance(approval.auto_approve, str):
        return ()
    importable = frozenset(approval.importable)
    return tuple(entry for entry in approval.auto_approve if entry in importable and is_module_path(entry, is_tool))


def blanket_sources(chain: Chain) -> frozenset[str]:
    """The resolvers that approve without looking at the call: lists, presets, purity, the catch-all, the sandbox."""
    return frozenset({SANDBOX, *(resolver.name for resolver in chain.get_all() if resolver.static)})
