"""Builds the approval chain and the caps from a configuration, with the command rules for shell tools."""

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
from holdfast.rules.decider import (
    CAP_URN,
    Cap,
    Confirmations,
    changed_definition_cap,
    max_risk_cap,
    protected_path_cap,
    sending_cap,
    two_people_cap,
)
from holdfast.rules.policy import ToolMatcher
from holdfast.rules.resolvers import (
    SANDBOX,
    GrantLookup,
    Restrictions,
    catch_all_resolver,
    config_resolver,
    frontmatter_resolver,
    grants_resolver,
    hosts_resolver,
    is_module_path,
    module_resolver,
    pure_resolver,
    removed_from_auto_approve,
    sandbox_resolver,
)
from holdfast.rules.shell.context import command_of, context_of, is_shell_tool, no_sandbox
from holdfast.rules.shell.parts import UNCOVERED, Dialect, JudgedPart, ShellJudgement
from holdfast.rules.shell.programs import dialect_of
from holdfast.text.escape import clip_middle

if TYPE_CHECKING:
    from holdfast.rules.shell.judgement import CommandJudge

COMMANDS: Final = f"{APPROVAL_URN}commands"
SHELL_PARTS: Final = f"{CAP_URN}shell-parts"
WIDENED: Final = f"{CAP_URN}widened"
PRIORITY: Final = 85
_MAX_PARTS: Final = 3
_MAX_PART: Final = 60
"""How many parts of a command a reason names, and how many characters of each."""
_HOME_SOURCES: Final = frozenset({"builtin", "program"})


class CommandRules:
    """The command rules of a configuration (`[[approval.commands]]` and `$shell-readonly`)."""

    def __init__(
        self,
        approval: ApprovalConfig,
        sandbox_verified: Callable[[], bool] | None = None,
        protected: tuple[str, ...] = (),
        tools: ToolsConfig | None = None,
    ) -> None:
        """`tools` tells which shells run commands."""
        names = () if isinstance(approval.auto_approve, str) else approval.auto_approve
        replaced = SHELL_READONLY in approval.presets or SHELL_READONLY in approval.excluded
        self._readers = SHELL_READONLY in names and not replaced
        self._rules = approval.commands
        self.approves_any: Final = self._readers or any(rule.verdict == "approve" for rule in self._rules)
        """Whether any rule can approve a command."""
        self.has_widenings: Final = any(rule.network or rule.read or rule.write for rule in self._rules)
        self._sandbox_verified = sandbox_verified or no_sandbox
        self._protected = protected
        self._tools = tools or ToolsConfig()
        self._excluded = ToolMatcher(removed_from_auto_approve(approval))
        self._narrow = approval.narrow
        self._restrictions = Restrictions(approval.narrow, presets=approval.presets)

    @cached_property
    def command_judge(self) -> CommandJudge:
        """The judge with the compiled rules. Raises `ConfigError` for invalid rules.

        The shell analysis is imported here, on first use, because most runs do not need it.
        """
        from holdfast.rules.shell.judgement import CommandJudge, compile_rules

        return CommandJudge(compile_rules(self._rules), readers=self._readers)

    def check(self) -> None:
        """Raise `ConfigError` for invalid rules now, not at the first command."""
        if self._rules:
            _ = self.command_judge

    def judge_call(self, request: ApprovalRequest) -> ShellJudgement | None:
        text = command_of(request.args) if is_shell_tool(request.tool) else None
        if text is None:
            return None
        return self.command_judge.judge(
            text, context_of(request, self._dialect(request.tool), self._sandbox_verified, self._protected)
        )

    def _dialect(self, tool: Tool) -> Dialect:
        """The dialect of the shell that runs the tool's commands; `posix` for third-party tools, whose shell is
        unknown."""
        if tool.source != "builtin":
            return "posix"
        shell = (self._tools.settings_of(tool.names) or {}).get("shell")
        return dialect_of(shell if isinstance(shell, str) and shell else standard_shell())

    def parts(self, request: ApprovalRequest) -> tuple[JudgedPart, ...]:
        judgement = self.judge_call(request)
        return () if judgement is None else judgement.parts

    def uncovered_reason(self, request: ApprovalRequest) -> str:
        """Which parts of a command no rule covers, for the user; empty for a tool that runs no commands."""
        if not is_shell_tool(request.tool):
            return ""
        try:
            judgement = self.judge_call(request)
        except CALLBACK_ERRORS:
            return DEFAULT_DECISION.reason
        return DEFAULT_DECISION.reason if judgement is None else uncovered_parts_reason(judgement)

    def resolver(self) -> Resolver:
        """Approves a command if all of its parts are approved; passes otherwise."""

        def applies(tool: Tool) -> bool:
            return is_shell_tool(tool) and tool.source in _HOME_SOURCES and self._excluded.match(tool) is None

        def resolve(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
            judgement = self.judge_call(ctx.request)
            if (
                judgement is None
                or judgement.verdict is not Verdict.APPROVE
                or not self._is_permitted(ctx.request.tool, judgement)
            ):
                return None
            return Decision(Verdict.APPROVE, COMMANDS, judgement.reason)

        return Resolver(COMMANDS, resolve, PRIORITY, "The command rules.", applies=applies)

    def cap(self) -> Cap:
        """Applies asking and denying rules wherever the command hides, and denies commands too complex to analyze."""

        def judge(request: ApprovalRequest) -> Decision | None:
            text = command_of(request.args)
            judgement = (
                None if text is None else self.command_judge.judge_restrictions(text, self._dialect(request.tool))
            )
            if judgement is None or judgement.verdict is None:
                return None
            return Decision(judgement.verdict, SHELL_PARTS, judgement.reason)

        return Cap(SHELL_PARTS, judge, applies=is_shell_tool, failure=Verdict.DENY, parts=self.parts)

    def needs(self, request: ApprovalRequest) -> Widening | None:
        """The access beyond the sandbox policy that the rules give to the command of a call."""
        tool = request.tool
        if not self.has_widenings or tool.source not in _HOME_SOURCES or self._excluded.match(tool) is not None:
            return None
        judgement = self.judge_call(request)
        return None if judgement is None else judgement.needs or None

    def needs_cap(self) -> Cap:
        """Asks about a command that a rule gives more access, unless rules that give the same access approve all of it:
        every part of the command would run in the same, widened sandbox."""

        def judge(request: ApprovalRequest) -> Decision | None:
            judgement = self.judge_call(request) if request.widening else None
            if judgement is None or judgement.needs_all(SHELL_READONLY):
                return None
            reason = (
                "A rule gives one part of this command access beyond the sandbox; the other parts would get it too."
            )
            return Decision(Verdict.ASK, WIDENED, reason)

        return Cap(WIDENED, judge, applies=is_shell_tool)

    def _is_permitted(self, tool: Tool, judgement: ShellJudgement) -> bool:
        """Whether the lists of untrusted files also approve it: they name the tool, or the preset that approved it."""
        by_preset = judgement.rules == (SHELL_READONLY,)
        named = by_preset and all(SHELL_READONLY in names for names in self._narrow)
        return named or self._restrictions.permit(tool)


def uncovered_parts_reason(judgement: ShellJudgement) -> str:
    """The reason for the user, such as "`tail -5` is not covered by a rule."."""
    uncovered = [part for part in judgement.parts if part.verdict is None]
    uncovered = [part for part in uncovered if not part.inside] or uncovered
    if not uncovered:
        return DEFAULT_DECISION.reason if judgement.verdict is Verdict.APPROVE else judgement.reason
    names = [
        f"`{clip_middle(part.text, _MAX_PART)}`{f' in {part.inside}' if part.inside else ''}" for part in uncovered
    ]
    names = list(dict.fromkeys(names))
    if len(names) > _MAX_PARTS:
        names[_MAX_PARTS - 1 :] = [f"{len(names) - _MAX_PARTS + 1} more parts"]
    what = f"{', '.join(names[:-1])} and {names[-1]} are" if len(names) > 1 else f"{names[0]} is"
    why = next((part.reason for part in uncovered if part.reason and part.reason != UNCOVERED), "")
    return f"{what} not covered by a rule{f': {why}' if why else ''}."


class DocumentPolicy(Struct, frozen=True):
    """The policy of a trusted document that sets `auto_approve`, as a list in the configuration or as a function."""

    outer: ApprovalConfig
    """The configuration without the document, of which only denials still count."""
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
    hosts: tuple[str, ...] = (),
) -> Chain:
    """The chain with all built-in resolvers.

    `function` replaces `auto_approve`; `is_tool` tells tool names from module paths; `protected` are additional
    protected paths; `tools` tells which shells run commands; `hosts` is `network.hosts`.
    """
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
    if hosts:
        chain.add(hosts_resolver(approval, hosts))
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
    """The built-in caps. Their order does not affect the verdict."""
    commands = CommandRules(approval, sandbox_verified, protected, tools)
    caps: list[Cap] = [commands.cap(), changed_definition_cap(), sending_cap()]
    if commands.has_widenings:
        caps.append(commands.needs_cap())
    if is_protected is not None:
        caps.append(protected_path_cap(is_protected))
    if approval.max_risk is not None:
        caps.append(max_risk_cap(approval.max_risk, blanket_sources(chain)))
    if approval.two_people is not None:
        caps.append(two_people_cap(approval.two_people))
    if confirmations is not None:
        caps.append(confirmations.cap())
    return tuple(caps)


def module_paths(approval: ApprovalConfig, is_tool: Callable[[str], bool]) -> tuple[str, ...]:
    """The import paths in `auto_approve`. Only entries from user-level configuration can be import paths."""
    if isinstance(approval.auto_approve, str):
        return ()
    importable = frozenset(approval.importable)
    return tuple(entry for entry in approval.auto_approve if entry in importable and is_module_path(entry, is_tool))


def blanket_sources(chain: Chain) -> frozenset[str]:
    """Resolvers that approve without looking at the arguments: lists, presets, pure tools, the catch-all, the
    sandbox."""
    return frozenset({SANDBOX, *(resolver.name for resolver in chain.get_all() if resolver.static)})
