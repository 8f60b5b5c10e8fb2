"""The built-in voices of the approval chain, in the order of their priorities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.config.model import ApprovalConfig, Preset
from holdfast.contract.call import Decision
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import AUTO_APPROVED_IF_SANDBOXED, Verdict
from holdfast.rules.chain import FAILED, URN, Resolve, Resolver, every_tool
from holdfast.rules.lists import ListPolicy, Narrowing
from holdfast.rules.modules import lazily
from holdfast.rules.policy import Names
from holdfast.rules.question import Question, ResolveContext
from holdfast.rules.words import RAISED, describe, show, warn

if TYPE_CHECKING:
    from holdfast.store.grants import Grant

CONFIG: Final = f"{URN}config"
FRONTMATTER: Final = f"{URN}frontmatter"
GRANTS: Final = f"{URN}grants"
SANDBOX: Final = f"{URN}sandbox"
PURE: Final = f"{URN}pure"
CATCH_ALL: Final = f"{URN}catch-all"
_PRIORITY: Final = {CONFIG: 100, FRONTMATTER: 90, GRANTS: 80, SANDBOX: 25, PURE: 20, CATCH_ALL: 0}
_MODULE_PRIORITY: Final = 100


class GrantBook(Protocol):
    """What was allowed before. Looking does not use a grant up."""

    def matching(self, question: Question) -> Grant | None: ...


def config_resolver(
    approval: ApprovalConfig, *, function: Resolve | None = None, document_decides: bool = False
) -> Resolver:
    """The configured `auto_approve`: its list, the function it names, or the function given here.

    With `document_decides` (a trusted document has set its own list) only denials are answered.
    """
    narrow = Narrowing(approval.narrow, presets=approval.presets)
    if function is None and not isinstance(approval.auto_approve, str):
        names = _list_policy(approval.auto_approve, approval.presets, approval.excluded)

        def by_list(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
            tool = ctx.question.tool
            return narrow.applied(_left(names.answer(tool), document_decides), tool)

        return _resolver(CONFIG, by_list, "The configured list.", static=True)
    ask = _guarded(approval, function)

    def by_function(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        return narrow.applied(_left(ask(name, args, ctx), document_decides), ctx.question.tool)

    return _resolver(CONFIG, by_function, "The configured policy function.")


def module_resolver(
    path: str,
    approval: ApprovalConfig,
    *,
    is_tool: Callable[[str], bool] = lambda name: False,
    document_decides: bool = False,
) -> Resolver:
    """One import path of the configured list. It is loaded when first asked; if it is not there it passes for ever."""
    loaded = lazily(path)
    narrow = Narrowing(approval.narrow, presets=approval.presets)
    told: list[str] = []

    def resolve(name: str, args: Args, ctx: ResolveContext) -> object:
        if is_tool(path):
            return None
        function = loaded()
        if function is None:
            if not told:
                told.append(path)
                warn(f"There is no policy '{path}' to import, so it has no say; check the path in auto_approve.")
            return None
        answer = _read(function(name, args, ctx), f"the policy '{path}'")
        if not isinstance(answer, Decision):
            return answer
        return narrow.applied(_left(answer, document_decides), ctx.question.tool, path)

    return Resolver(path, resolve, _MODULE_PRIORITY, f"The policy '{path}'.")


def frontmatter_resolver(
    auto_approve: Iterable[str] | Resolve,
    *,
    presets: Mapping[str, Preset] | None = None,
    excluded: Iterable[str] = (),
    narrow: Narrowing | None = None,
) -> Resolver:
    """What a trusted document says of itself. Its function failing counts as no answer."""
    narrowing = narrow or Narrowing()
    if callable(auto_approve):
        function = auto_approve

        def by_function(name: str, args: Args, ctx: ResolveContext) -> object:
            answer = _read(function(name, args, ctx), "the document's policy function")
            return narrowing.applied(answer, ctx.question.tool) if isinstance(answer, Decision) else answer

        return _resolver(FRONTMATTER, by_function, "The document's policy function.")
    names = _list_policy(auto_approve, presets or {}, excluded)

    def by_list(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        return narrowing.applied(names.answer(ctx.question.tool), ctx.question.tool)

    return _resolver(FRONTMATTER, by_list, "The document's list.", static=True)


def grants_resolver(book: GrantBook, *, applies: Callable[[Tool], bool] = every_tool) -> Resolver:
    """A person's remembered yes, for tools that need one."""

    def resolve(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        grant = book.matching(ctx.question)
        if grant is None:
            return None
        reason = f"Allowed before by {grant.by} (grant {grant.id}, scope {grant.scope})."
        return Decision(Verdict.APPROVE, GRANTS, reason)

    return _resolver(GRANTS, resolve, "What a person allowed before.", applies=applies)


def sandbox_resolver(approval: ApprovalConfig, held: Callable[[], bool]) -> Resolver:
    """Approves a tool that asks for it when the sandbox is on and its backend held its probe, and nothing less.

    `held` answers for this moment; it is asked at every call, after everything cheaper.
    """
    excluded = Names(approval.excluded)
    narrow = Narrowing(approval.narrow, presets=approval.presets)
    on = approval.auto_approve_sandboxed and approval.auto_approve_set

    def applies(tool: Tool) -> bool:
        able = on and AUTO_APPROVED_IF_SANDBOXED in tool.capabilities
        return able and excluded.match(tool) is None and narrow.leaves(tool)

    def resolve(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        if held() is not True:
            return None
        return Decision(Verdict.APPROVE, SANDBOX, "It runs in the sandbox, and the sandbox held its probe.")

    return _resolver(SANDBOX, resolve, "The sandbox.", applies=applies)


def pure_resolver(excluded: Iterable[str] = ()) -> Resolver:
    """Approves what declares that it reads and changes nothing. Effects that are not declared are unknown."""
    names = Names(excluded)

    def applies(tool: Tool) -> bool:
        return tool.pure and names.match(tool) is None

    def resolve(name: str, args: Args, ctx: ResolveContext) -> Decision:
        return Decision(Verdict.APPROVE, PURE, "The tool declares that it has no effects.")

    return _resolver(PURE, resolve, "Tools without effects.", static=True, applies=applies)


def catch_all() -> Resolver:
    """For `require_approval = false` only."""
    return _resolver(CATCH_ALL, lambda name, args, ctx: Verdict.APPROVE, "Approval is switched off.", static=True)


def _guarded(
    approval: ApprovalConfig, function: Resolve | None
) -> Callable[[str, Args, ResolveContext], Decision | None]:
    """The user's own policy function: whatever goes wrong in it means ask."""
    path = "auto_approve" if function is not None else str(approval.auto_approve)
    loaded = (lambda: function) if function is not None else lazily(path)
    usable = function is not None or path in approval.importable
    label = f"the policy function '{path}'"

    def ask(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        if not usable:
            return _unusable(label, "user-level config does not name it")
        try:
            found = loaded()
            answer = "no such function" if found is None else _read(found(name, args, ctx), label)
        except RAISED as error:
            return _unusable(label, describe(error))
        return answer if answer is None or isinstance(answer, Decision) else _unusable(label, show(answer))

    return ask


def _unusable(label: str, what: str) -> Decision:
    reason = f"{label[0].upper()}{label[1:]} could not answer ({what}), so a person is asked."
    warn(reason)
    return Decision(Verdict.ASK, FAILED, reason)


def _read(answer: object, label: str) -> object:
    """The answer of a policy function as a decision; None and what cannot be read stay as they are."""
    if answer is None:
        return None
    if isinstance(answer, Decision):
        given = Verdict.parse(answer.verdict)
        return "a decision without a verdict" if given is None else Decision(given, label, answer.reason)
    verdict = _BOOLEANS.get(answer) if isinstance(answer, bool) else Verdict.parse(answer)
    return answer if verdict is None else Decision(verdict, label, f"{label[0].upper()}{label[1:]} says {verdict}.")


_BOOLEANS: Final = {True: Verdict.APPROVE, False: Verdict.ASK}


def _left(decision: Decision | None, document_decides: bool) -> Decision | None:
    """What is left to say when the document decides: denials, and that the user's function failed."""
    if document_decides and decision is not None and decision.verdict is not Verdict.DENY:
        return decision if decision.source == FAILED else None
    return decision


def _list_policy(entries: Iterable[str], presets: Mapping[str, Preset], excluded: Iterable[str]) -> ListPolicy:
    policy = ListPolicy(entries, presets=presets, excluded=excluded)
    for warning in policy.warnings:
        warn(warning)
    return policy


def _resolver(
    name: str,
    resolve: Resolve,
    description: str,
    *,
    static: bool = False,
    applies: Callable[[Tool], bool] = every_tool,
) -> Resolver:
    return Resolver(name, resolve, _PRIORITY[name], description, static, applies)
