"""The built-in resolvers of the approval chain, with the lists and presets they read."""

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
from holdfast.contract.tool import Tool
from holdfast.rules.chain import (
    FAILED,
    RAISED,
    URN,
    Question,
    Resolve,
    ResolveContext,
    Resolver,
    describe,
    every_tool,
    show,
    warn,
)
from holdfast.rules.policy import GROUP_PREFIX, PLANNED, Names

if TYPE_CHECKING:
    from holdfast.store.ledger import Grant

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def is_module_path(entry: str, is_tool: Callable[[str], bool]) -> bool:
    """Whether a list entry is an import path. Tool names are dotted too, so a name some tool has never is."""
    if entry in PLANNED or entry.startswith(GROUP_PREFIX) or is_tool(entry):
        return False
    return _MODULE.fullmatch(entry) is not None or _FUNCTION.fullmatch(entry) is not None


def load(path: str) -> Resolve | None:
    """The function behind `pkg.mod:func`, `pkg.mod.func`, or `pkg.mod` with a `resolve`; None if there is none."""
    module_name, colon, attribute = path.partition(":")
    found = _imported(module_name)
    if found is None and not colon:
        module_name, _, attribute = path.rpartition(".")
        found = _imported(module_name) if module_name else None
    if found is not None and attribute:
        found = cast(object, getattr(found, attribute, None))
    candidate = cast(object, getattr(found, "resolve", found))
    return cast(Resolve, candidate) if callable(candidate) else None


def lazily(path: str) -> Callable[[], Resolve | None]:
    """Loads once. A module that is there but breaks is broken each time it is asked."""
    outcome: list[Resolve | BaseException | None] = []

    def loaded() -> Resolve | None:
        if not outcome:
            try:
                outcome.append(load(path))
            except RAISED as error:
                outcome.append(error)
        if isinstance(outcome[0], BaseException):
            raise ConfigError(f"The policy '{path}' cannot be loaded: {describe(outcome[0])}.")
        return outcome[0]

    return loaded


def _imported(name: str) -> object | None:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise


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

    def approves(self, tool: Tool) -> bool:
        answer = self.answer(tool)
        return answer is not None and answer.verdict is Verdict.APPROVE

    def denies(self, tool: Tool) -> bool:
        answer = self.answer(tool)
        return answer is not None and answer.verdict is Verdict.DENY

    def answer(self, tool: Tool) -> Decision | None:
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
        reason = (
            f"The machine's file, or one that is not trusted, limits auto_approve and leaves out '{tool.name}'; "
            "`holdfast policy` shows the limit."
        )
        return Decision(Verdict.ASK, "narrow", reason)


PREFIX: Final = "$"
BUILT_IN: Final[Mapping[str, frozenset[BuiltInPreset]]] = {
    "$readonly": frozenset({"$readonly"}),
    SHELL_READONLY: frozenset(),
    "$default": frozenset({"$readonly", "$default"}),
}
"""Each with the presets whose tools it approves."""


class Rule(Struct, frozen=True):
    """A set of names, or of what built-in tools declare, and where it was written."""

    names: Names
    place: str
    presets: frozenset[BuiltInPreset] = frozenset()

    def match(self, tool: Tool) -> str | None:
        """The entry that names the tool, or the name of a built-in that declares one of the presets.

        A tool from elsewhere may declare what it likes: nothing approves itself.
        """
        declared = tool.source == "builtin" and not self.presets.isdisjoint(tool.presets)
        return tool.name if declared else self.names.match(tool)


class Expansion(Struct, frozen=True):
    """A list with its presets opened: united approvals and united denials."""

    approve: tuple[Rule, ...]
    deny: tuple[Rule, ...]


def expand(entries: Iterable[str], presets: Mapping[str, Preset]) -> Expansion:
    """Open the presets of a list. The user's presets replace built-in ones of the same name; unknown ones are empty."""
    plain: list[str] = []
    approve: list[Rule] = []
    deny: list[Rule] = []
    for entry in entries:
        if not entry.startswith(PREFIX):
            plain.append(entry)
            continue
        where = f"the preset '{entry}'"
        if (preset := presets.get(entry)) is not None:
            approve.append(Rule(Names(preset.approve), where))
            deny.append(Rule(Names(preset.deny), where))
        elif entry in BUILT_IN:
            approve.append(Rule(Names(()), where, BUILT_IN[entry]))
    return Expansion((Rule(Names(plain), "auto_approve"), *approve), tuple(deny))


CONFIG: Final = f"{URN}config"
FRONTMATTER: Final = f"{URN}frontmatter"
GRANTS: Final = f"{URN}grants"
SANDBOX: Final = f"{URN}sandbox"
PURE: Final = f"{URN}pure"
CATCH_ALL: Final = f"{URN}catch-all"
_PRIORITY: Final = {CONFIG: 100, FRONTMATTER: 90, GRANTS: 80, SANDBOX: 25, PURE: 20, CATCH_ALL: 0}
_MODULE_PRIORITY: Final = 100


def not_approved(approval: ApprovalConfig) -> tuple[str, ...]:
    """Names that were removed from the list: what does not look at the list approves none of them either."""
    return (*approval.excluded, *approval.removed)


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
        names = ListPolicy(approval.auto_approve, presets=approval.presets, excluded=approval.excluded)

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
    names = ListPolicy(auto_approve, presets=presets, excluded=excluded)

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
    """Approves a tool that declares it may, where `auto_approve_sandboxed` is true, the sandbox is on and its backend
    passed the escape tests.

    `held` answers for this moment; it is asked at every call, after everything cheaper.
    """
    excluded = Names(not_approved(approval))
    narrow = Narrowing(approval.narrow, presets=approval.presets)
    on = approval.auto_approve_sandboxed

    def applies(tool: Tool) -> bool:
        able = on and AUTO_APPROVED_IF_SANDBOXED in tool.capabilities
        return able and excluded.match(tool) is None and narrow.leaves(tool)

    def resolve(name: str, args: Args, ctx: ResolveContext) -> Decision | None:
        if held() is not True:
            return None
        reason = "It runs in the sandbox, which passed its escape tests here (approval.auto_approve_sandboxed)."
        return Decision(Verdict.APPROVE, SANDBOX, reason)

    return _resolver(SANDBOX, resolve, "Commands in the sandbox, with auto_approve_sandboxed.", applies=applies)


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


def _resolver(
    name: str, resolve: Resolve, description: str, *, static: bool = False, applies: Callable[[Tool], bool] = every_tool
) -> Resolver:
    return Resolver(name, resolve, _PRIORITY[name], description, static, applies)
