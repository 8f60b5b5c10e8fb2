"""The approval chain and the caps a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from holdfast.config.model import ApprovalConfig
from holdfast.rules.chain import Chain, Resolve, Resolver
from holdfast.rules.gate import Cap, Hooks, changed_definition_cap, max_risk_cap, protected_path_cap
from holdfast.rules.resolvers import (
    SANDBOX,
    GrantBook,
    Narrowing,
    catch_all,
    config_resolver,
    frontmatter_resolver,
    grants_resolver,
    is_module_path,
    module_resolver,
    pure_resolver,
    sandbox_resolver,
)
from holdfast.rules.shell.cap import CommandRules


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
    grants: GrantBook | None = None,
    sandbox_held: Callable[[], bool] | None = None,
    is_tool: Callable[[str], bool] = lambda name: False,
    protected: tuple[str, ...] = (),
    shells: Mapping[str, str] | None = None,
) -> Chain:
    """All built-in resolvers. `function` stands in for `auto_approve`; `is_tool` tells tool names from module paths;
    `protected` are paths that the configuration protects beside the built-in ones, `shells` what runs commands."""
    chain = Chain(on_error=approval.on_error)
    outer = approval if document is None else document.outer
    decides = document is not None
    chain.add(config_resolver(outer, function=function, document_decides=decides))
    for path in () if function is not None else module_paths(outer, is_tool):
        chain.add(module_resolver(path, outer, is_tool=is_tool, document_decides=decides))
    commands = CommandRules(approval, sandbox_held, protected, shells)
    commands.check()
    if commands.approves_any:
        chain.add(commands.resolver())
    if document is not None:
        chain.add(_document_resolver(approval, document))
    pure = pure_resolver(approval.excluded)
    if grants is not None:
        chain.add(grants_resolver(grants, applies=lambda tool: not pure.applies(tool)))
    if sandbox_held is not None:
        chain.add(sandbox_resolver(approval, sandbox_held))
    chain.add(pure)
    if not approval.require_approval:
        chain.add(catch_all())
    return chain


def _document_resolver(approval: ApprovalConfig, document: DocumentPolicy) -> Resolver:
    names = () if isinstance(approval.auto_approve, str) else approval.auto_approve
    return frontmatter_resolver(
        document.function or names,
        presets=approval.presets,
        excluded=approval.excluded,
        narrow=Narrowing(approval.narrow, presets=approval.presets),
    )


def standard_caps(
    approval: ApprovalConfig,
    chain: Chain,
    *,
    hooks: Hooks | None = None,
    is_protected: Callable[[Path], str | None] | None = None,
    sandbox_held: Callable[[], bool] | None = None,
    shells: Mapping[str, str] | None = None,
) -> tuple[Cap, ...]:
    """The built-in caps. More can be put beside them; their order does not matter to the verdict."""
    caps: list[Cap] = [CommandRules(approval, sandbox_held, shells=shells).cap(), changed_definition_cap()]
    if is_protected is not None:
        caps.append(protected_path_cap(is_protected))
    if approval.max_risk is not None:
        caps.append(max_risk_cap(approval.max_risk, unseeing_sources(chain)))
    if hooks is not None:
        caps.append(hooks.cap())
    return tuple(caps)


def module_paths(approval: ApprovalConfig, is_tool: Callable[[str], bool]) -> tuple[str, ...]:
    """The import paths in the list. Only what user-level config put there may be one."""
    if isinstance(approval.auto_approve, str):
        return ()
    importable = frozenset(approval.importable)
    return tuple(entry for entry in approval.auto_approve if entry in importable and is_module_path(entry, is_tool))


def unseeing_sources(chain: Chain) -> frozenset[str]:
    """The resolvers that approve without looking at the call: lists, presets, purity, the catch-all, the sandbox."""
    return frozenset({SANDBOX, *(resolver.name for resolver in chain.get_all() if resolver.static)})
