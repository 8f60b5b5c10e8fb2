"""The gate of a runtime: the approval chain and the caps its configuration asks for, with what its rooms know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.config.model import ToolsConfig
from holdfast.config.protected import is_protected
from holdfast.rules.caps import Cap, containment_cap
from holdfast.rules.gate import Gate
from holdfast.rules.standard import DocumentPolicy, standard_caps, standard_chain

if TYPE_CHECKING:
    from holdfast.rules.grants import StoredGrants
    from holdfast.runtime.runtime import Runtime
    from holdfast.store.ledger import Ledger


def grants_in(ledger: Ledger) -> StoredGrants:
    from holdfast.rules.grants import StoredGrants

    return StoredGrants(ledger.grants)


def standard_gate(runtime: Runtime, document: DocumentPolicy | None = None, caps: Sequence[Cap] = ()) -> Gate:
    """What decides unless a program brings its own; `caps` are put beside the built-in ones."""
    approval, root, extra = runtime.config.approval, runtime.root, runtime.hands.protected
    shells = _shells(runtime.config.tools)
    chain = standard_chain(
        approval,
        document=document,
        grants=runtime.grants,
        sandbox_held=runtime.hands.held,
        is_tool=runtime.registry.has,
        protected=extra,
        shells=shells,
    )
    built_in = standard_caps(
        approval,
        chain,
        hooks=runtime.hooks,
        is_protected=lambda path: is_protected(path, root=root, extra=extra),
        sandbox_held=runtime.hands.held,
        shells=shells,
    )
    return Gate(chain, (*built_in, containment_cap(runtime.hands.containment), *caps))


def _shells(tools: ToolsConfig) -> dict[str, str]:
    """The shells that tools are configured to run commands with."""
    named = ((name, subtree.get("shell")) for name, subtree in tools.config.items())
    return {name: shell for name, shell in named if isinstance(shell, str) and shell}
