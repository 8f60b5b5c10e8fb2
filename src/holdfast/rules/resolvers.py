"""Built-in resolvers of the approval chain: configuration lists and presets, policy functions, grants, the sandbox."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from msgspec import Struct

from holdfast.config.config import SHELL_READONLY, ApprovalConfig, Preset
from holdfast.contract.call import Decision
from holdfast.contract.enums import AUTO_APPROVED_IF_SANDBOXED, BuiltInPreset, Verdict
from holdfast.contract.errors import ConfigError
from holdfast.contract.json import Args
from holdfast.contract.names import GROUP_PREFIX
from holdfast.contract.tool import Tool
from holdfast.rules.chain import (
    APPROVAL_URN,
    CALLBACK_ERRORS,
    FAILED,
    ApprovalRequest,
    Resolve,
    ResolveContext,
    Resolver,
    describe_error,
    describe_value,
    every_tool,
    log_warning,
)
from holdfast.rules.policy import ToolMatcher

if TYPE_CHECKING:
    from holdfast.store.ledger import Grant

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def is_module_path(entry: str, is_tool: Callable[[str], bool]) -> bool:
    """Whether a list entry is an import path. Tool names contain dots too, so the name of an existing tool never is."""
    if entry.startswith(GROUP_PREFIX) or is_tool(entry):
        return False
    return _MODULE.fullmatch(entry) is not None or _FUNCTION.fullmatch(entry) is not None


def load_policy_function(path: str) -> Resolve | None:
    """Import `pkg.mod:func`, `pkg.mod.func`, or the function `resolve` of `pkg.mod`; None if it does not exist."""
    module_name, colon, attribute = path.partition(":")
    found = _import_if_present(module_name)
    if found is None and not colon:
        module_name, _, attribute = path.rpartition(".")
        found = _import_if_present(module_name) if module_name else None
    if found is not None and attribute:
        found = cast(object, getattr(found, attribute, None))
    candidate = cast(object, getattr(found, "resolve", found))
    return cast(Resolve, candidate) if callable(candidate) else None


def lazy_policy_function(path: str) -> Callable[[], Resolve | None]:
    """A loader that imports once. If the import fails, every call raises the same `ConfigError`."""
    outcome: list[Resolve | BaseException | None] = []

    def loaded() -> Resolve | None:
        if not outcome:
            try:
                outcome.append(load_policy_function(path))
            except CALLBACK_ERRORS as error:
                outcome.append(error)
        if isinstance(outcome[0], BaseException):
            raise ConfigError(f"The policy '{path}' cannot be loaded: {describe_error(outcome[0])}.")
        return outcome[0]

    return loaded


def _import_if_present(name: str) -> object | None:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise


class ListPolicy:
    """Approves the listed tools, denies what a preset denies, and passes on the rest.

    Approvals and denials are each a union; deny wins; an exclusion removes approvals only. A list never asks: tools it
    does not name are left to the rest of the chain.
    """

    def __init__(
        self, entries: Iterable[str], *, presets: Mapping[str, Preset] | None = None, excluded: Iterable[str] = ()
    ) -> None:
        self.entries: Final = tuple(entries)
        self._rules = expand_presets(self.entries, presets or {})
        self._excluded = ToolMatcher(excluded)

    def approves(self, tool: Tool) -> bool:
        answer = self.decide(tool)
        return answer is not None and answer.verdict is Verdict.APPROVE

    def denies(self, tool: Tool) -> bool:
        answer = self.decide(tool)
        return answer is not None and answer.verdict is Verdict.DENY

    def decide(self, tool: Tool) -> Decision | None:
        for rule in self._rules.deny:
            if (entry := rule.match(tool)) is not None:
                return Decision(Verdict.DENY, rule.origin, f"'{entry}' is denied by {rule.origin}.")
        if self._excluded.match(tool) is not None:
            return None
        for rule in self._rules.approve:
            if (entry := rule.match(tool)) is not None:
                return Decision(Verdict.APPROVE, rule.origin, f"'{entry}' is approved by {rule.origin}.")
        return None


class Restrictions:
    """The `auto_approve` lists of the machine's file and of untrusted files: they can remove approvals and deny, never
    approve."""

    def __init__(self, lists: Iterable[Iterable[str]] = (), *, presets: Mapping[str, Preset] | None = None) -> None:
        self._lists = tuple(ListPolicy(entries, presets=presets) for entries in lists)

    def permit(self, tool: Tool, entry: str | None = None) -> bool:
        """Whether every list approves the tool, or contains the module path `entry`."""
        return all(names.approves(tool) or entry in names.entries for names in self._lists)

    def denial(self, tool: Tool) -> Decision | None:
        return next((names.decide(tool) for names in self._lists if names.denies(tool)), None)

    def apply(self, decision: Decision | None, tool: Tool, entry: str | None = None) -> Decision | None:
        """The decision after these lists are applied."""
        if (denied := self.denial(tool)) is not None:
            return denied
        if decision is None or decision.verdict is not Verdict.APPROVE or self.permit(tool, entry):
            return decision
        reason = (
            f"The machine's file, or an untrusted file, limits auto_approve, and '{tool.name}' is not on its list. "
            "Run `holdfast policy` to see the limit."
        )
        return Decision(Verdict.ASK, "narrow", reason)


PRESET_PREFIX: Final = "$"
BUILT_IN_PRESETS: Final[Mapping[str, frozenset[BuiltInPreset]]] = {
    "$readonly": frozenset({"$readonly"}),
    SHELL_READONLY: frozenset(),
    "$default": frozenset({"$readonly", "$default"}),
}
"""Built-in presets, each with the preset names that an approved tool declares."""


class ListRule(Struct, frozen=True):
    """Tool names and declared presets from one place in the configuration."""

    names: ToolMatcher
    origin: str
    presets: frozenset[BuiltInPreset] = frozenset()

    def match(self, tool: Tool) -> str | None:
        """The entry that matches the tool, or the name of a built-in tool that declares one of the presets.

        Declarations of third-party tools do not count: no tool can approve itself.
        """
        declared = tool.source == "builtin" and not self.presets.isdisjoint(tool.presets)
        return tool.name if declared else self.names.match(tool)


class ExpandedList(Struct, frozen=True):
    """A list with its presets expanded into approvals and denials."""

    approve: tuple[ListRule, ...]
    deny: tuple[ListRule, ...]


def expand_presets(entries: Iterable[str], presets: Mapping[str, Preset]) -> ExpandedList:
    """Expand the presets of a list. User presets replace built-in ones of the same name; unknown presets are empty."""
    plain: list[str] = []
    approve: list[ListRule] = []
    deny: list[ListRule] = []
    for entry in entries:
        if not entry.startswith(PRESET_PREFIX):
            plain.append(entry)
            continue
        where = f"the preset '{entry}'"
        if (preset := presets.get(entry)) is not None:
            approve.append(ListRule(ToolMatcher(preset.approve), where))
            deny.append(ListRule(ToolMatcher(preset.deny), where))
        elif entry in BUILT_IN_PRESETS:
            approve.append(ListRule(ToolMatcher(()), where, BUILT_IN_PRESETS[entry]))
    return ExpandedList((ListRule(ToolMatcher(plain), "auto_approve"), *approve), tuple(deny))


CONFIG: Final = f"{APPROVAL_URN}config"
FRONTMATTER: Final = f"{APPROVAL_URN}frontmatter"
GRANTS: Final = f"{APPROVAL_URN}grants"
HOSTS: Final = f"{APPROVAL_URN}hosts"
SANDBOX: Final = f"{APPROVAL_URN}sandbox"
PURE: Final = f"{APPROVAL_URN}pure"
CATCH_ALL: Final = f"{APPROVAL_URN}catch-all"
_PRIORITY: Final = {CONFIG: 100, FRONTMATTER: 90, GRANTS: 80, HOSTS: 70, SANDBOX: 25, PURE: 20, CATCH_ALL: 0}
_MODULE_PRIORITY: Final = 100


def removed_from_auto_approve(approval: ApprovalConfig) -> tuple[str, ...]:
    """Names the user removed from `auto_approve`: resolvers that ignore the list must not approve them either."""
    return (*approval.excluded, *approval.removed)


class GrantLookup(Protocol):
    """Finds grants. Finding one does not consume it."""

    def find(self, request: ApprovalRequest) -> Grant | None: ...


def config_resolver(
    approval: ApprovalConfig, *, function: Resolve | None = None, document_decides: bool = False
) -> Resolver:
    """The configured `auto_approve`: a list, the function it names, or the `function` given here.

    With `document_decides` (a trusted document sets its own list) it only denies.
    """
    restrictions = Restrictions(approval.narrow, presets=approval.presets)
    if function is None and not isinstance(approval.auto_approve, str):
        names = ListPolicy(approval.auto_approve, presets=approval.presets, excluded=approval.excluded)

        def by_list(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
            tool = ctx.request.tool
            return restrictions.apply(_document_override(names.decide(tool), document_decides), tool)

        return _built_in_resolver(CONFIG, by_list, "The configured list.", static=True)
    ask = _safe_policy_function(approval, function)

    def by_function(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        return restrictions.apply(_document_override(ask(name, args, ctx), document_decides), ctx.request.tool)

    return _built_in_resolver(CONFIG, by_function, "The configured policy function.")


def module_resolver(
    path: str,
    approval: ApprovalConfig,
    *,
    is_tool: Callable[[str], bool] = lambda name: False,
    document_decides: bool = False,
) -> Resolver:
    """A policy module in the configured list, imported on first use. If it does not exist, it always passes."""
    loaded = lazy_policy_function(path)
    restrictions = Restrictions(approval.narrow, presets=approval.presets)
    warned: list[str] = []

    def resolve(name: str, args: Args, ctx: ResolveContext) -> object:
        if is_tool(path):
            return None
        function = loaded()
        if function is None:
            if not warned:
                warned.append(path)
                log_warning(
                    f"The policy '{path}' does not exist and is ignored. Check the import path in auto_approve."
                )
            return None
        answer = _to_decision(function(name, args, ctx), f"the policy '{path}'")
        if not isinstance(answer, Decision):
            return answer
        return restrictions.apply(_document_override(answer, document_decides), ctx.request.tool, path)

    return Resolver(path, resolve, _MODULE_PRIORITY, f"The policy '{path}'.")


def frontmatter_resolver(
    auto_approve: Iterable[str] | Resolve,
    *,
    presets: Mapping[str, Preset] | None = None,
    excluded: Iterable[str] = (),
    restrictions: Restrictions | None = None,
) -> Resolver:
    """The `auto_approve` of a trusted document. If its function fails, the resolver passes."""
    untrusted = restrictions or Restrictions()
    if callable(auto_approve):
        function = auto_approve

        def by_function(name: str, args: Args, ctx: ResolveContext) -> object:
            answer = _to_decision(function(name, args, ctx), "the document's policy function")
            return untrusted.apply(answer, ctx.request.tool) if isinstance(answer, Decision) else answer

        return _built_in_resolver(FRONTMATTER, by_function, "The document's policy function.")
    names = ListPolicy(auto_approve, presets=presets, excluded=excluded)

    def by_list(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        return untrusted.apply(names.decide(ctx.request.tool), ctx.request.tool)

    return _built_in_resolver(FRONTMATTER, by_list, "The document's list.", static=True)


def grants_resolver(grants: GrantLookup, *, applies: Callable[[Tool], bool] = every_tool) -> Resolver:
    """Approves calls that match a grant."""

    def resolve(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        grant = grants.find(ctx.request)
        if grant is None:
            return None
        reason = f"Allowed earlier by {grant.by} (grant {grant.id}, scope {grant.scope})."
        return Decision(Verdict.APPROVE, GRANTS, reason)

    return _built_in_resolver(GRANTS, resolve, "Calls allowed earlier (grants).", applies=applies)


def hosts_resolver(approval: ApprovalConfig, hosts: Iterable[str]) -> Resolver:
    """Approves requests that only read from hosts in `network.hosts`, by tools that declare their effects, none of
    which changes this machine."""
    from holdfast.net.hosts import AllowList  # most configurations list no hosts

    excluded = ToolMatcher(removed_from_auto_approve(approval))
    restrictions = Restrictions(approval.narrow, presets=approval.presets)
    listed = AllowList(hosts, option="network.hosts")

    def applies(tool: Tool) -> bool:
        reads = tool.reaches is not None and tool.only_reads_here
        return reads and excluded.match(tool) is None and restrictions.permit(tool)

    def resolve(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        reach = ctx.request.reach
        if reach is None or reach.sends or not reach.hosts or not all(map(listed.allows_entry, reach.hosts)):
            return None
        return Decision(Verdict.APPROVE, HOSTS, f"{' and '.join(reach.hosts)} is in network.hosts.")

    return _built_in_resolver(HOSTS, resolve, "Hosts that may be reached (network.hosts).", applies=applies)


def sandbox_resolver(approval: ApprovalConfig, sandbox_verified: Callable[[], bool]) -> Resolver:
    """With `auto_approve_sandboxed`: approves tools that declare support for it while the sandbox is on and its backend
    has passed the escape tests.

    `sandbox_verified` is called for every call, after all cheaper checks, because the sandbox can stop working.
    """
    excluded = ToolMatcher(removed_from_auto_approve(approval))
    restrictions = Restrictions(approval.narrow, presets=approval.presets)
    on = approval.auto_approve_sandboxed

    def applies(tool: Tool) -> bool:
        able = on and AUTO_APPROVED_IF_SANDBOXED in tool.capabilities
        return able and excluded.match(tool) is None and restrictions.permit(tool)

    def resolve(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        if sandbox_verified() is not True:
            return None
        reason = "It runs in the sandbox, which passed its escape tests here (approval.auto_approve_sandboxed)."
        return Decision(Verdict.APPROVE, SANDBOX, reason)

    return _built_in_resolver(
        SANDBOX, resolve, "Commands in the sandbox, with auto_approve_sandboxed.", applies=applies
    )


def pure_resolver(excluded: Iterable[str] = ()) -> Resolver:
    """Approves tools that declare that they have no effects. Undeclared effects are unknown, not none."""
    names = ToolMatcher(excluded)

    def applies(tool: Tool) -> bool:
        return tool.pure and names.match(tool) is None

    def resolve(name: str, args: Args, ctx: ResolveContext) -> Decision:
        return Decision(Verdict.APPROVE, PURE, "The tool declares that it has no effects.")

    return _built_in_resolver(PURE, resolve, "Tools without effects.", static=True, applies=applies)


def catch_all_resolver() -> Resolver:
    """Approves everything; only for `require_approval = false`."""
    return _built_in_resolver(
        CATCH_ALL, lambda name, args, ctx: Verdict.APPROVE, "Approval is switched off.", static=True
    )


def _safe_policy_function(
    approval: ApprovalConfig, function: Resolve | None
) -> Callable[[str, Args, ResolveContext], Decision | None]:
    """Wrap the user's policy function so that every failure means ask."""
    path = "auto_approve" if function is not None else str(approval.auto_approve)
    loaded = (lambda: function) if function is not None else lazy_policy_function(path)
    usable = function is not None or path in approval.importable
    label = f"the policy function '{path}'"

    def ask(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        if not usable:
            return _failed_decision(label, "only user-level configuration can name it")
        try:
            found = loaded()
            answer = "no such function" if found is None else _to_decision(found(name, args, ctx), label)
        except CALLBACK_ERRORS as error:
            return _failed_decision(label, describe_error(error))
        return (
            answer
            if answer is None or isinstance(answer, Decision)
            else _failed_decision(label, describe_value(answer))
        )

    return ask


def _failed_decision(label: str, what: str) -> Decision:
    reason = f"{label[0].upper()}{label[1:]} failed ({what}), so this call needs your approval."
    log_warning(reason)
    return Decision(Verdict.ASK, FAILED, reason)


def _to_decision(answer: object, label: str) -> object:
    """Convert the answer of a policy function to a decision; None and unreadable answers are returned unchanged."""
    if answer is None:
        return None
    if isinstance(answer, Decision):
        given = Verdict.parse(answer.verdict)
        return "a decision without a verdict" if given is None else Decision(given, label, answer.reason)
    verdict = _BOOLEANS.get(answer) if isinstance(answer, bool) else Verdict.parse(answer)
    return answer if verdict is None else Decision(verdict, label, f"{label[0].upper()}{label[1:]} says {verdict}.")


_BOOLEANS: Final = {True: Verdict.APPROVE, False: Verdict.ASK}


def _document_override(decision: Decision | None, document_decides: bool) -> Decision | None:
    """What still counts when the document decides: denials, and the failure of the user's function."""
    if document_decides and decision is not None and decision.verdict is not Verdict.DENY:
        return decision if decision.source == FAILED else None
    return decision


def _built_in_resolver(
    name: str, resolve: Resolve, description: str, *, static: bool = False, applies: Callable[[Tool], bool] = every_tool
) -> Resolver:
    return Resolver(name, resolve, _PRIORITY[name], description, static, applies)
