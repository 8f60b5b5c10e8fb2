"""The result of evaluating a frontmatter: settings, tool edits, rules and caps for its document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Final, cast

from msgspec import Struct, field

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.lua.host import Script
from holdfast.config.config import Config
from holdfast.config.layers import LoadedConfig
from holdfast.contract.call import Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.names import is_pattern, mcp_server_name
from holdfast.contract.tool import Tool
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.registry.selection import REMOVING, Edit, select
from holdfast.rules.chain import ApprovalRequest, Resolve, ResolveContext
from holdfast.rules.decider import CAP_URN, Cap
from holdfast.rules.from_config import DocumentPolicy
from holdfast.rules.policy import GROUPS
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean


class Baseline(Struct, frozen=True, kw_only=True):
    """The configuration and tools without the document, from which every evaluation starts."""

    config: Config = field(default_factory=Config)
    tools: tuple[Tool, ...] = ()
    """The tools that the caller may see, including disabled ones: naming one enables it."""
    hidden: frozenset[str] = frozenset()
    """Names of existing tools that the caller may not use. They are not errors, and never suggested."""


class EvaluatedFrontmatter(Struct, frozen=True, kw_only=True, eq=False):
    digest: str
    """The content that a person trusts; see `digest_of_frontmatter`."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """A document layer for `config.layers.load(document=...)`."""
    tool_edits: tuple[Edit, ...] = ()
    approve: Resolve | None = None
    """A function that decides about calls. It returns "ask" if it fails."""
    variables: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Variables for templates. Those of Lua are set where templates run: see `script`."""
    script: Script | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether it has errors. Then every call needs approval."""
        return any(item.severity == "error" for item in self.diagnostics)


def digest_of_frontmatter(language: str, code: str) -> str:
    return sha256(f"{language}\n{code}".encode("utf-8", "surrogatepass")).hexdigest()


NO_FRONTMATTER = EvaluatedFrontmatter(digest="")
"""The evaluation of a document without frontmatter."""


DOCUMENT_CAP: Final = f"{CAP_URN}document"
BROKEN_CAP: Final = f"{CAP_URN}broken-document"


class DocumentRules(Struct, frozen=True):
    """The configuration, policy and caps of a document's runtime."""

    config: Config
    policy: DocumentPolicy | None = None
    caps: tuple[Cap, ...] = ()


def document_rules(evaluated: EvaluatedFrontmatter, loaded: LoadedConfig, *, trusted: bool) -> DocumentRules:
    """`loaded` is the configuration with `evaluated.settings` as its document, read with the same `trusted`."""
    config = loaded.config
    document: DocumentPolicy | None = None
    caps: list[Cap] = []
    if trusted and (evaluated.approve is not None or _sets_list(evaluated.settings)):
        document = DocumentPolicy(loaded.outer.approval, evaluated.approve)
    elif evaluated.approve is not None:
        caps.append(untrusted_cap(evaluated.approve))
    if evaluated.failed:
        reason = "The document's frontmatter has an error, so the call needs approval. Correct the frontmatter."
        caps.append(Cap(BROKEN_CAP, lambda request: Decision(Verdict.ASK, BROKEN_CAP, reason)))
    return DocumentRules(config, document, tuple(caps))


def untrusted_cap(function: Resolve) -> Cap:
    """A cap for the function of an untrusted document: it can ask and deny, but not approve."""

    def judge(request: ApprovalRequest) -> Decision | None:
        own = request.with_copied_args()
        answer = function(request.tool.name, own.args, ResolveContext(own))
        if isinstance(answer, Decision):
            return answer
        verdict = Verdict.ASK if answer is False else Verdict.parse(answer)
        if verdict is None or verdict is Verdict.APPROVE or answer is True:
            return None
        return Decision(verdict, DOCUMENT_CAP, f"The function of the untrusted document returned {verdict}.")

    return Cap(DOCUMENT_CAP, judge)


def chosen_tools(evaluated: EvaluatedFrontmatter, tools: Iterable[Tool], *, trusted: bool) -> frozenset[str] | None:
    """The names of the document's tools; None if it does not change them.

    Only a trusted document can enable a disabled tool.
    """
    if not evaluated.tool_edits:
        return None
    known = tuple(tools)
    spelled = {name for tool in known for name in (*tool.names, tool.api_name)}
    edits = [
        (operation, [name for name in names if name in spelled or not _is_server_tool(name)])
        for operation, names in evaluated.tool_edits
    ]
    chosen = frozenset(select(known, edits, groups=GROUPS))
    return chosen if trusted else chosen & {tool.name for tool in known if tool.enabled}


def allowed_tools(evaluated: EvaluatedFrontmatter, tools: Iterable[Tool], *, trusted: bool) -> frozenset[str] | None:
    """The names for `Caller.only`: the chosen tools and `tool.search`, unless the document removes it by name."""
    chosen = chosen_tools(evaluated, tools, trusted=trusted)
    return chosen if chosen is None or _removes_search(evaluated.tool_edits) else chosen | {TOOL_SEARCH}


def missing_tools(evaluated: EvaluatedFrontmatter, tools: Iterable[Tool]) -> list[str]:
    """A warning for each tool that the document names and its running MCP server does not have."""
    known: dict[str, list[str]] = {}
    for tool in tools:
        if (server := mcp_server_name(tool.source)) is not None:
            known.setdefault(server, []).extend(tool.names)
    named = dict.fromkeys(name for _, names in evaluated.tool_edits for name in names if _is_server_tool(name))
    warnings: list[str] = []
    for name in named:
        server = mcp_server_name(name) or ""
        available = known.get(server, [])
        if available and name not in available:
            close = did_you_mean(name, available)
            hint = f"Did you mean '{close}'?" if close else f"`holdfast tools` lists the tools of '{server}'."
            warnings.append(f"The MCP server '{server}' has no tool '{escape(name)}', which the document names. {hint}")
    return warnings


def _is_server_tool(name: str) -> bool:
    """Whether the name is of a tool of an MCP server, which may not be loaded or running yet."""
    return mcp_server_name(name) is not None and not is_pattern(name)


def _removes_search(edits: Iterable[Edit]) -> bool:
    removed = (name for operation, names in edits if operation in REMOVING for name in names if name.strip("*"))
    return any(fnmatchcase(TOOL_SEARCH, name) for name in removed)


def _sets_list(settings: Mapping[str, Any]) -> bool:
    approval = settings.get("approval")
    return isinstance(approval, dict) and "auto_approve" in cast(dict[str, Any], approval)
