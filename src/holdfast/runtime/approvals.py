"""Approvals: the decision about a call (approval chain and caps), and the digest that binds an approval to a call."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from holdfast.config.config import Config
from holdfast.contract.call import Call, Caller, Decision, NamedFile, PendingCall, Precondition, Proposal
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import CallError, GrantRefused, HoldfastError, PathRefused
from holdfast.contract.json import Args, digest_of
from holdfast.contract.tool import Tool
from holdfast.contract.widening import Widening
from holdfast.fs import paths
from holdfast.fs.protected_paths import protected_reason
from holdfast.registry.registry import Registry, installed_entry_points
from holdfast.rules.chain import (
    DEFAULT_PRIORITY,
    FAILED,
    ApprovalRequest,
    Chain,
    Resolve,
    ResolveContext,
    Resolver,
    ResolverHandle,
)
from holdfast.rules.decider import (
    Cap,
    Confirmations,
    Decider,
    apply_caps,
    containment_cap,
    exposed_files_cap,
    needs_two_people,
    secret_file_cap,
)
from holdfast.rules.from_config import CommandRules, DocumentPolicy, standard_caps, standard_chain
from holdfast.rules.resolvers import GRANTS
from holdfast.rules.shell.context import command_of, is_shell_tool
from holdfast.runtime.commands import Commands
from holdfast.store.changes import encode_path
from holdfast.text.preview import display_path

if TYPE_CHECKING:
    from holdfast.rules.grants import GrantMatcher, GrantSpec, Width
    from holdfast.store.ledger import Grant, Scope


def standard_decider(
    config: Config,
    registry: Registry,
    confirmations: Confirmations,
    commands: Commands,
    grants: GrantMatcher | None,
    document: DocumentPolicy | None = None,
    caps: Sequence[Cap] = (),
) -> Decider:
    """The standard chain and caps of a configuration; `caps` are added to the built-in ones."""
    root, extra = commands.workspace.root, commands.protected
    chain = standard_chain(
        config.approval,
        document=document,
        grants=grants,
        sandbox_verified=commands.guarantees_hold,
        is_tool=registry.is_registered,
        protected=extra,
        tools=config.tools,
        hosts=config.network.hosts,
    )
    built_in = standard_caps(
        config.approval,
        chain,
        confirmations=confirmations,
        is_protected=lambda path: protected_reason(path, root=root, extra=extra),
        sandbox_verified=commands.guarantees_hold,
        protected=extra,
        tools=config.tools,
    )
    secrets = secret_file_cap(lambda asked: _secret_paths(commands, asked.tool, asked.args, asked.cwd))
    hiding = (secrets, exposed_files_cap(commands.unhidden_reason))
    rules = CommandRules(config.approval, commands.guarantees_hold, extra, config.tools)
    needs = rules.needs if rules.has_widenings else None
    return Decider(chain, (*built_in, containment_cap(commands.containment), *hiding, *caps), needs)


def _secret_paths(commands: Commands, tool: Tool, args: Args, cwd: str) -> tuple[Path, ...]:
    """The resolved paths that a call names and that `sandbox.read_deny` covers."""
    named = _named_paths(commands, tool, args, cwd)
    return tuple(dict.fromkeys(path.resolve() for path in named if commands.sandbox.is_secret(path)))


def _named_paths(commands: Commands, tool: Tool, args: Args, cwd: str) -> tuple[Path, ...]:
    """The paths a call will use, as its tool names them.

    Built-in tools take relative paths from the root. Another tool may take them from the root (`ctx.path.confine`) or
    from its document (`ctx.path.resolve`), so both count.
    """
    if tool.touches is None:
        return ()
    root = commands.workspace.root or Path(cwd)
    bases = {root} if tool.source == "builtin" else {root, commands.workspace.document_dir or root}
    try:
        return tuple(paths.absolute(path, base) for path in tool.touches(args) for base in sorted(bases))
    except PathRefused:
        raise
    except Exception as error:
        raise PathRefused(f"Tool '{tool.name}' could not name the paths it touches: {error}.") from None


RESOLVERS: Final = "holdfast.resolvers"


def load_resolvers(chain: Chain, warn: Callable[[str], None], *, project: Path | None, group: str = RESOLVERS) -> None:
    """Add the resolvers of installed packages (entry points) to the chain, each as `PACKAGE:NAME`.

    They can ask and deny. An approval counts only if the user's `auto_approve` names their module. A resolver that
    cannot be loaded is a warning.

    An entry point names a function, a `Resolver`, a mapping with `resolve`, or a module with a function `resolve`.
    """
    if not _is_offered(group):
        return
    for point, package in installed_entry_points(group, project, "resolvers", "approval.auto_approve", warn):
        name = f"{package}:{point.name}"
        try:
            offered = point.load()
            given = {"resolve": offered.resolve} if isinstance(offered, ModuleType) else offered
            made = chain.build_resolver(name, given)
            chain.add(
                replace(made, resolve=partial(_without_approval, made.resolve), static=False, continue_after_ask=True)
            )
        except (Exception, SystemExit) as error:
            warn(
                f"The resolver '{point.name}' ({point.value}) of package '{package}' cannot be used: "
                f"{type(error).__name__}: {error}"
            )


def _without_approval(resolve: Resolve, name: str, args: Args, ctx: ResolveContext) -> object:
    answer = resolve(name, args, ctx)
    verdict = Verdict.parse(answer.verdict if isinstance(answer, Decision) else answer)
    return None if verdict is Verdict.APPROVE else answer


def _is_offered(group: str) -> bool:
    """Whether any package has such an entry point. Much faster than `importlib.metadata`, which parses them all."""
    wanted = f"[{group}]".encode()
    for folder in filter(os.path.isdir, sys.path):
        for info in Path(folder).iterdir():
            with suppress(OSError):
                if info.name.endswith("-info") and wanted in (info / "entry_points.txt").read_bytes():
                    return True
    return False


class Approvals:
    """Asks the chain and the caps about calls, with the resolved paths they touch and the files they name."""

    def __init__(
        self, decider: Decider, registry: Registry, commands: Commands, grants: GrantMatcher | None, session: str
    ) -> None:
        self._decider = decider
        self._registry = registry
        self._commands = commands
        self._session = session
        self.grants = grants
        self.chain = decider.chain
        self.caps = decider.caps

    def register(
        self,
        name: str,
        resolver: Resolver | Resolve | Mapping[str, Any],
        *,
        priority: int = DEFAULT_PRIORITY,
        description: str = "",
    ) -> ResolverHandle:
        """Add a resolver to the chain, or replace the one with that name. Returns a handle with `remove()`.

        `resolve(tool, args, ctx)` returns "approve", "ask", "deny", a `Decision`, or None to pass.
        """
        return self.chain.register(name, resolver, priority=priority, description=description)

    async def decide(self, tool: Tool, call: Call, proposal: Proposal | None) -> Decision:
        """The decision about a call. A call that cannot be judged is denied."""
        try:
            await self._commands.probe_sandbox(tool)
            return self._decider.decide(self.approval_request(tool, call, proposal))
        except HoldfastError as error:
            return Decision(Verdict.DENY, "judging", str(error))

    def may_widen(self, tool: Tool, given: Widening | None) -> bool:
        """Whether `widening` can return anything; cheap."""
        return given is not None or (self._decider.needs is not None and is_shell_tool(tool))

    async def widening(self, tool: Tool, call: Call, given: Widening | None) -> Widening | None:
        """What the call may reach beyond the sandbox policy: by rules for its command, and by its approval (`given`).

        Raises `SandboxRefused` or `CallError` if that is not allowed.
        """
        ruled = None
        if self._decider.needs is not None and is_shell_tool(tool):
            await self._commands.probe_sandbox(tool)
            ruled = self._decider.needs(self.approval_request(tool, call, None))
        sandbox, config = self._commands.sandbox, self._commands.config
        wanted = (
            Widening() if ruled is None else _existing_paths(sandbox.resolve_widening(allowed_needs(ruled, config)))
        )
        if given:
            check_widening(tool, given, config)
            wanted |= sandbox.resolve_widening(given)
        return wanted or None

    def static_decision(self, tool: Tool, caller: Caller) -> Decision | None:
        """The decision about every call of this tool by this caller, or None if it depends on the call."""
        return self._decider.static_decision(tool, caller)

    def approvals_needed(self, tool: Tool, proposal: Proposal | None) -> int:
        """How many people must approve a call (`approval.two_people`)."""
        risk = proposal.risk if proposal is not None else tool.risk
        return 2 if needs_two_people(risk, self._commands.config.approval.two_people) else 1

    def use_grant(self, tool: Tool, call: Call, proposal: Proposal | None) -> bool:
        """Use the grant that approved the call; False if it is used up or gone."""
        return self.grants is not None and self.grants.consume(self.approval_request(tool, call, proposal))

    def remember(
        self, pending: PendingCall, scope: Scope, by: str, width: Width, expires: float | None = None
    ) -> Grant:
        """Store the grant that `grant_for` returns."""
        spec = self.grant_for(pending, scope, by, width)
        assert self.grants is not None
        return self.grants.add(spec, expires=expires)

    def is_covered(
        self, pending: PendingCall, covers: Callable[[ApprovalRequest], bool], *, files_then: bool = False
    ) -> bool:
        """Whether a grant, matched by `covers`, approves this call; False if it needs a person whatever is granted.

        With `files_then` the files that its command names count as they were when the call was shown.
        """
        tool = self._registry.find(pending.call.tool)
        if tool is None or pending.definition_only or pending.approvals_needed > 1:
            return False
        try:
            request = self.approval_request(tool, pending.call, pending.proposal)
            if files_then:
                request = replace(request, files=lambda: pending.files)
            return covers(request) and self._overrides_grants(request) is None
        except HoldfastError:
            return False  # it cannot be judged, so it waits for a person

    def grant_for(self, pending: PendingCall, scope: Scope, by: str, width: Width) -> GrantSpec:
        """The grant that "always allow" would store for this call.

        Raises `GrantRefused` if it is too wide or useless: it would not cover the call itself, or the call needs
        approval whatever is granted.
        """
        from holdfast.rules.grants import narrow_grant, spec_covers

        tool = self._registry.find(pending.call.tool)
        if tool is None or self.grants is None or not self.grants.supports(scope):
            raise GrantRefused(
                f"'{pending.call.tool}' cannot be allowed here: this runtime does not have it, or has no ledger."
            )
        request = self.approval_request(tool, pending.call, pending.proposal)
        against = self._overrides_grants(request)
        if against is not None:
            raise GrantRefused(f"This call needs approval every time, so a grant would not help: {against.reason}")
        spec = narrow_grant(request, scope, by, width=width)
        if not spec_covers(spec, request):
            raise GrantRefused(f"A grant would not cover this call of '{tool.name}' again; approve it each time.")
        return spec

    def _overrides_grants(self, request: ApprovalRequest) -> Decision | None:
        """The decision that overrides any grant: of a resolver before the grants, or of a cap."""
        heard = self.chain.judge(request)
        for step in heard.steps:
            if step.source == GRANTS:
                break
            if step.answer == FAILED and self.chain.on_error == "ask":
                return Decision(Verdict.ASK, step.source, step.reason)
            if step.answer in (Verdict.ASK, Verdict.DENY):
                return heard.decision
        capped = apply_caps(Decision(Verdict.APPROVE, GRANTS, ""), self.caps, request).decision
        return None if capped.verdict is Verdict.APPROVE else capped

    def approval_request(self, tool: Tool, call: Call, proposal: Proposal | None) -> ApprovalRequest:
        workspace = self._commands.workspace
        return ApprovalRequest(
            tool=tool,
            args=call.args,
            call_id=call.id,
            name_used=call.name_used,
            cwd=call.cwd,
            caller=call.caller,
            risk=proposal.risk if proposal is not None else tool.risk,
            paths=self.touched_paths(tool, call),
            root=workspace.root,
            session=call.caller.session or self._session,
            document=workspace.document.name if workspace.document else None,
            given_id=call.given_id,
            confinement=lambda: self._commands.confinement(tool, call),
            files=lambda: self.files_named(tool, call, proposal),
            widening=call.widening,
        )

    def touched_paths(self, tool: Tool, call: Call) -> tuple[Path, ...]:
        """The resolved paths a call will use, as its tool names them."""
        return tuple(path.resolve() for path in _named_paths(self._commands, tool, call.args, call.cwd))

    def secret_paths(self, tool: Tool, call: Call) -> tuple[Path, ...]:
        """The resolved paths of files that a call names and may read only with a person's approval."""
        try:
            return _secret_paths(self._commands, tool, call.args, call.cwd)
        except PathRefused:
            return ()  # the tool will refuse the path itself

    def files_named(self, tool: Tool, call: Call, proposal: Proposal | None) -> tuple[NamedFile, ...]:
        """The project files that a shell command names, unless the command only reads."""
        text = command_of(call.args) if is_shell_tool(tool) else None
        if text is None:
            return ()
        from holdfast.rules.named_files import named_files
        from holdfast.rules.shell.judgement import only_reads

        try:
            if only_reads(self.approval_request(tool, call, proposal)):
                return ()
        except PathRefused:
            pass
        root, policy = self._commands.workspace.root, self._commands.sandbox.policy
        found = named_files(text, self._folders(call, proposal), None if root is None else str(root))
        # Without holdfast's own files: no command can read them, and they change with every call.
        return tuple(file for file in found if not policy.is_own_state(Path(root or "", file.path)))

    def _folders(self, call: Call, proposal: Proposal | None) -> list[str]:
        """Where the command may run: the `cwd` its tool proposes, else every folder its `cwd` argument can mean."""
        proposed = None if proposal is None else proposal.payload.get("cwd")
        if isinstance(proposed, str):
            return [proposed]
        inner = call.args.get("cwd")
        if not isinstance(inner, str):
            return [call.cwd]
        workspace = self._commands.workspace
        bases = [str(base) for base in (call.cwd, workspace.root, workspace.document_dir) if base is not None]
        return [str(Path(base, inner)) for base in bases if "\0" not in inner]

    def digest(
        self,
        tool: Tool,
        call: Call,
        proposal: Proposal | None,
        files: tuple[NamedFile, ...],
        secrets: tuple[Path, ...] = (),
    ) -> str:
        """The digest an approval is bound to. If any part changes, the approval is void."""
        profile = " ".join((self._commands.sandbox_of(call).profile, *map(str, secrets)))
        return approval_digest(tool, call, profile, proposal, files)


def check_widening(tool: Tool, given: Widening, config: Config) -> None:
    """Raise `CallError` if an approval may not widen a call like this. The only place that decides it.

    `approval.widen` lists what may be given. A higher configuration layer can remove items; a lower one cannot add any.
    """
    if tool.effects is not None and "process" not in tool.effects:
        raise CallError(f"'{tool.name}' runs no command, so there is nothing to widen. Approve it as it is.")
    refused = [kind for kind in given.kinds if kind not in config.approval.widen]
    if refused:
        raise CallError(
            f"The configuration does not let an approval give {' and '.join(refused)} (approval.widen). "
            "Approve the call as it is, or reject it."
        )
    if given.outside and config.sandbox.mode == "required":
        raise CallError('sandbox.mode is "required", so nothing runs outside the sandbox.')


def allowed_needs(needs: Widening | None, config: Config) -> Widening:
    """The part of a rule's widening that `approval.widen` allows."""
    kinds = () if needs is None else tuple(kind for kind in needs.kinds if kind in config.approval.widen)
    return Widening(**{kind: getattr(needs, kind) for kind in kinds})


def _existing_paths(needs: Widening) -> Widening:
    """Without paths that do not exist: a rule that names them is no reason to refuse the command."""

    def found(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(path for path in paths if Path(path).exists())

    return replace(needs, read=found(needs.read), write=found(needs.write))


def approval_digest(
    tool: Tool, call: Call, sandbox_profile: str, proposal: Proposal | None, files: tuple[NamedFile, ...] = ()
) -> str:
    """A digest of tool definition, canonical arguments, working directory, sandbox profile, proposal, and the content
    of the files a command names."""
    shown = None
    if proposal is not None:
        shown = [
            proposal.summary,
            proposal.risk,
            proposal.payload,
            [[item.kind, item.subject, item.value] for item in proposal.preconditions],
        ]
    folder = encode_path(os.path.realpath(call.cwd))
    named = [[file.path, file.digest] for file in files]
    return digest_of([tool.name, tool.digest, call.args, folder, sandbox_profile, shown, named])


def describe_changes(before: PendingCall, now: PendingCall) -> str:
    """Describe what differs between two versions of a pending call."""
    return " and ".join(_changes(before, now)) or "its sandbox"


def _changes(before: PendingCall, now: PendingCall) -> Iterator[str]:
    old, new = before.call.args, now.call.args
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    if names:
        yield f"its arguments ({', '.join(names)})"
    if before.call.cwd != now.call.cwd:
        yield f"its folder (was: {before.call.cwd}; now: {now.call.cwd})"
    if before.definition_digest != now.definition_digest:
        yield "the definition of its tool"
    if now.approvals_needed > before.approvals_needed:
        yield "the number of people who must approve it"
    old_files, new_files = _contents(before), _contents(now)
    files = [path for path in sorted({*old_files, *new_files}) if old_files.get(path) != new_files.get(path)]
    if files:
        yield f"the content of {', '.join(files)}"
    if _sandbox(before) != _sandbox(now):
        yield f"its sandbox (was: {_sandbox(before) or 'none'}; now: {_sandbox(now) or 'none'})"
    elif not names and _proposed(before) != _proposed(now):
        facts = {(fact.kind, fact.subject): fact.value for fact in _facts(before)}
        other = [fact for fact in _facts(now) if facts.get((fact.kind, fact.subject)) != fact.value]
        cwd = now.call.cwd
        yield " and ".join(f"the {fact.kind} {display_path(fact.subject, cwd)}" for fact in other) or "what it would do"


def _contents(pending: PendingCall) -> dict[str, str]:
    return {file.path: file.digest for file in pending.files}


def _sandbox(pending: PendingCall) -> str | None:
    around = None if pending.proposal is None else pending.proposal.surroundings
    return None if around is None else around.sandbox


def _facts(pending: PendingCall) -> tuple[Precondition, ...]:
    return () if pending.proposal is None else pending.proposal.preconditions


def _proposed(pending: PendingCall) -> object:
    proposal = pending.proposal
    return None if proposal is None else (proposal.summary, proposal.risk, proposal.payload, proposal.preconditions)
