"""Opens a chat document: evaluates its frontmatter under the trust rules and builds its runtime, model and loop."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.conversation import Conflict, Diagnostic
from holdfast.agent.events import EXIT_CODES, AgentEvent, Outcome
from holdfast.agent.guard import Guard
from holdfast.agent.loop import Loop
from holdfast.chat.conversation import DocumentConversation
from holdfast.chat.document import Document
from holdfast.chat.document_file import check_writable
from holdfast.chat.frontmatter.evaluation import (
    NO_FRONTMATTER,
    Baseline,
    DocumentRules,
    EvaluatedFrontmatter,
    allowed_tools,
    chosen_tools,
    digest_of_frontmatter,
    document_rules,
    missing_tools,
)
from holdfast.chat.frontmatter.evaluator import evaluate
from holdfast.chat.lua.host import LuaHost
from holdfast.chat.parser import Preamble
from holdfast.chat.templates.expansion import Expanded, ExpansionScope, FileAccess, expand
from holdfast.chat.turns import YOU
from holdfast.config.config import Config, GuardrailsConfig
from holdfast.config.layers import LoadedConfig, load
from holdfast.contract.call import Caller
from holdfast.contract.elicitation import Elicitor
from holdfast.contract.errors import ConfigError, LedgerError
from holdfast.contract.event import WarningRaised
from holdfast.contract.message import Role
from holdfast.contract.tool import Tool
from holdfast.factory.builtin import model_secret
from holdfast.factory.runtime import (
    DocumentContext,
    Project,
    build_registry,
    build_runtime,
    chats_dir,
    check_config,
    find_skills,
    load_project,
    project_caller,
)
from holdfast.models.from_config import open_model, settings_for
from holdfast.models.port import Model, Settings
from holdfast.models.protocol import CallWriter
from holdfast.registry.registry import Registry
from holdfast.registry.source_loader import WAITING_FOR_SOURCES
from holdfast.rules.policy import Policy, PolicyRules
from holdfast.runtime.interfaces import Nobody
from holdfast.runtime.runtime import Runtime

Flags = Mapping[str, Any]
OnEvent = Callable[[AgentEvent], None]
INTERFACE = "chat"
TOOLS_OPTION = "document.tools"


class ChatSession(Struct, frozen=True, kw_only=True, eq=False):
    """An open document with its runtime, model and loop."""

    path: Path
    project: Project
    conversation: DocumentConversation
    runtime: Runtime
    model: Model
    loop: Loop
    untrusted: tuple[str, ...]
    """Frontmatter options that can only tighten, because exactly this frontmatter is not trusted."""
    digest: str
    trusted: bool

    def is_stale(self) -> bool:
        """Whether the frontmatter or its trust has changed: open the document again before continuing."""
        return not _is_current(self.conversation, self.project, self.digest, self.trusted)


class TrustReview(Struct, frozen=True, kw_only=True):
    """What trusting the frontmatter of a document would change."""

    path: Path
    digest: str
    source: str
    """The frontmatter as written."""
    now: LoadedConfig
    then: LoadedConfig
    has_function: bool
    """Whether it has a function that decides about calls."""
    tools_now: frozenset[str]
    tools_then: frozenset[str]
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def new_tools(self) -> list[str]:
        """The tools that trust would enable."""
        return sorted(self.tools_then - self.tools_now)


class _EvaluatedDocument(Struct, frozen=True, kw_only=True, eq=False):
    """A document's frontmatter, evaluated against the configuration without it."""

    path: Path
    project: Project
    frontmatter: EvaluatedFrontmatter
    tools: tuple[Tool, ...]
    flags: Flags | None

    @property
    def is_trusted(self) -> bool:
        digest = self.frontmatter.digest
        return bool(digest) and self.project.trust.is_trusted(self.path, digest)

    def chosen(self, *, trusted: bool) -> frozenset[str]:
        """The names of the document's tools, before the policy of the configuration."""
        chosen = chosen_tools(self.frontmatter, self.tools, trusted=trusted)
        return frozenset(tool.name for tool in self.tools if tool.enabled) if chosen is None else chosen

    def load(self, *, trusted: bool) -> LoadedConfig:
        """The configuration with the document's layer. Raises `ConfigError` for errors in the frontmatter."""
        errors = [item for item in self.frontmatter.diagnostics if item.severity == "error"]
        if errors:
            messages = "; ".join(item.message.rstrip(".") for item in errors)
            line = "" if errors[0].line is None else f":{errors[0].line}"
            raise ConfigError(f"{self.path}{line}: {messages}{'' if messages.endswith(('?', '`')) else '.'}")
        loaded = load(
            root=self.project.root,
            is_trusted=self.project.trust.is_trusted,
            document=self.frontmatter.settings,
            document_trusted=trusted,
            document_name=str(self.path),
            flags=self.flags,
        )
        check_config(loaded.config)
        return loaded


class _AppliedDocument(Struct, frozen=True, kw_only=True, eq=False):
    """A document with the rules and the configuration that result from its frontmatter and its trust."""

    source: _EvaluatedDocument
    trusted: bool
    loaded: LoadedConfig
    rules: DocumentRules
    project: Project
    """With the effective configuration."""

    @property
    def config(self) -> Config:
        return self.project.loaded.config

    def caller(self, provider: str, interface: str) -> Caller:
        source = self.source
        return replace(
            project_caller(self.config, interface),
            document=str(source.path),
            provider=provider,
            only=allowed_tools(source.frontmatter, source.tools, trusted=self.trusted),
        )

    def expander(self, lua: LuaHost) -> Callable[[str, Role], Expanded]:
        source = self.source
        files = FileAccess.of(
            self.rules.config, document=source.path, root=source.project.root, state=source.project.state
        )
        scope = ExpansionScope(files=files, lua=lua, frontmatter=source.frontmatter, document=source.path)
        return lambda text, role: expand(text, scope)

    def untrusted_options(self) -> tuple[str, ...]:
        """The options that would take effect only with trust, those of the configuration first."""
        layer = self.loaded.layer("document")
        if self.trusted or layer is None:
            return ()
        source = self.source
        function = ("approval.auto_approve",) if source.frontmatter.approve is not None else ()
        tools = (TOOLS_OPTION,) if source.chosen(trusted=True) - source.chosen(trusted=False) else ()
        return tuple(dict.fromkeys((*layer.ignored, *function, *tools)))


@asynccontextmanager
async def open_chat(
    path: Path,
    *,
    flags: Flags | None = None,
    nobody: Nobody = "pending",
    plan: bool = False,
    by: str = "person",
    interface: str = INTERFACE,
    model: Model | None = None,
    on_event: OnEvent | None = None,
    elicitor: Callable[[Runtime], Elicitor] | None = None,
) -> AsyncGenerator[ChatSession]:
    """Open and lock the document at `path`. Raises `HoldfastError` if it cannot be read, used or locked.

    `interface` is recorded with the calls of the model.
    """
    path = _real(path)
    project = load_project(path.parent, flags)
    conversation = DocumentConversation(path, state=chats_dir(project))
    with conversation.lock(), LuaHost() as lua:
        conversation.refresh()
        check_writable(path)
        registry = await _start_registry(project, on_event)
        document = _apply(_evaluate(path, conversation.document, project, registry, lua, flags))
        conversation.set_expander(document.expander(lua), document.source.frontmatter.diagnostics)
        config = document.config
        provider = config.model.name.partition(":")[0] if model is None else model.provider
        caller = document.caller(provider, interface)
        rules = document.rules
        instructions = _instructions(document.project)
        runtime = build_runtime(
            document.project,
            registry=registry,
            nobody=nobody,
            interface=interface,
            document=DocumentContext(path=path, caller=caller, policy=rules.policy, caps=rules.caps, plan=plan),
        )
        if elicitor is not None:
            runtime.attach(elicitor=elicitor(runtime))
        conversation.set_attachments(partial(_stored_content, runtime), config.output)
        async with runtime:
            _withdraw_orphans(runtime)
            used_model, settings = (
                _open_model(config, runtime, conversation.id)
                if model is None
                else (model, settings_for(config.model, provider, conversation.id))
            )
            digest, trusted = document.source.frontmatter.digest, document.trusted
            loop = Loop(
                runtime,
                used_model,
                conversation,
                settings,
                autopilot=config.chat.autopilot,
                max_turns=config.chat.max_turns,
                context=config.model.context,
                guard=_guard(config.guardrails, used_model, lambda: loop.tools()),  # noqa: PLW0108 - assigned here
                caller=_DynamicCaller(caller, document, runtime, on_event) if config.mcp.servers else None,
                instructions=instructions,
                by=by,
                is_current=lambda: _is_current(conversation, document.project, digest, trusted),
                on_event=on_event,
            )
            yield ChatSession(
                path=path,
                project=document.project,
                conversation=conversation,
                runtime=runtime,
                model=used_model,
                loop=loop,
                untrusted=document.untrusted_options(),
                digest=digest,
                trusted=trusted,
            )


async def advance_document(
    path: Path,
    *,
    flags: Flags | None = None,
    message: str = "",
    by: str = "person",
    interface: str = INTERFACE,
    model: Model | None = None,
    on_event: OnEvent | None = None,
) -> Outcome:
    """Advance a document until it is done or needs a person, who is not asked: pending calls stay pending.

    `message` is said first, unless the document waits for an answer or already ends with a message to the model. Raises
    `HoldfastError` if the document cannot be opened.
    """
    while True:
        async with open_chat(path, flags=flags, by=by, interface=interface, model=model, on_event=on_event) as chat:
            if message and not _is_waiting(chat.conversation):
                try:
                    chat.conversation.say(message)
                except Conflict as conflict:
                    return Outcome("conflict", str(conflict), exit_code=EXIT_CODES["conflict"])
            message = ""
            outcome = await chat.loop.advance()
        if outcome.kind != "stale":
            return outcome


def _is_waiting(conversation: DocumentConversation) -> bool:
    """Whether the document has calls without a result, or a message that the model has not answered."""
    last = conversation.document.messages[-1:]
    unanswered = any(part.source.strip() for message in last if message.role == YOU for part in message.segments)
    return unanswered or bool(conversation.slots())


@asynccontextmanager
async def open_document_rules(path: Path, *, interface: str, flags: Flags | None = None) -> AsyncGenerator[Runtime]:
    """Open a runtime with the rules of a document. The document is neither locked nor changed.

    Raises `HoldfastError` if the document or its frontmatter cannot be read.
    """
    path = _real(path)
    project = load_project(path.parent, flags)
    conversation = DocumentConversation(path, state=chats_dir(project))
    with LuaHost() as lua:
        registry = await _start_registry(project, None)
        document = _apply(_evaluate(path, conversation.document, project, registry, lua, flags))
        caller = document.caller(document.config.model.name.partition(":")[0], interface)
        rules = document.rules
        runtime = build_runtime(
            document.project,
            registry=registry,
            nobody="pending",
            interface=interface,
            document=DocumentContext(path=path, caller=caller, policy=rules.policy, caps=rules.caps),
        )
        async with runtime:
            yield runtime


async def _start_registry(project: Project, on_event: OnEvent | None) -> Registry:
    """The registry with all its sources loaded."""
    registry = build_registry(project)
    await registry.start()
    if not registry.ready:
        if on_event is not None:
            on_event(WarningRaised("", WAITING_FOR_SOURCES))
        await registry.wait_ready()
    return registry


def _evaluate(
    path: Path, document: Document, project: Project, registry: Registry, lua: LuaHost, flags: Flags | None
) -> _EvaluatedDocument:
    config = project.loaded.config
    policy = Policy(PolicyRules.of(config.tools)).compile(Caller(interface=INTERFACE))
    tools = tuple(policy.visible(registry.list()))
    hidden = frozenset(
        name for tool in registry.list_all() if tool not in tools for name in (*tool.names, tool.api_name)
    )
    found = document.frontmatter
    evaluated = replace(NO_FRONTMATTER, diagnostics=tuple(_misread_frontmatter(document)))
    if found is not None:
        baseline = Baseline(config=config, tools=tools, hidden=hidden)
        evaluated = evaluate(found.language, found.code, baseline, lua)
    return _EvaluatedDocument(path=path, project=project, frontmatter=evaluated, tools=tools, flags=flags)


def _apply(source: _EvaluatedDocument) -> _AppliedDocument:
    trusted = source.is_trusted
    loaded = source.load(trusted=trusted)
    if not loaded.config.ledger.enabled:
        raise ConfigError(
            f"{source.path} cannot be opened without the ledger, which records approvals. Set ledger.enabled = true."
        )
    rules = document_rules(source.frontmatter, loaded, trusted=trusted)
    config = _with_protocol_flag(rules.config, source.flags)
    if config.guardrails.enabled:  # models that need guard-rails have small context windows
        config = replace(config, tools=replace(config.tools, caps="small"))
    project = replace(source.project, loaded=replace(loaded, config=config))
    return _AppliedDocument(source=source, trusted=trusted, loaded=loaded, rules=rules, project=project)


def _instructions(project: Project) -> str:
    """The instructions of the skill that the conversation is in. Raises `ConfigError` if it cannot be used."""
    name, skills = project.loaded.config.skill, find_skills(project)
    skills.check_entered(project.loaded.config)
    text = None if name is None else skills.usable(name).text
    return "" if text is None else f"The skill '{name}' is in use. Follow its instructions:\n\n{text.instructions}"


def _open_model(config: Config, runtime: Runtime, cache_key: str) -> tuple[Model, Settings]:
    return open_model(
        config.model,
        secret=partial(model_secret, runtime),
        network=runtime.network,
        cache_key=cache_key,
        edit_repair=config.guardrails.enabled and config.guardrails.edit_repair,
    )


class _DynamicCaller:
    """The document's caller, recomputed when the registry changes: tools of MCP servers come and go."""

    def __init__(self, caller: Caller, document: _AppliedDocument, runtime: Runtime, on_event: OnEvent | None) -> None:
        self._caller = caller
        self._frontmatter = document.source.frontmatter
        self._trusted = document.trusted
        self._runtime = runtime
        self._on_event = on_event
        self._revision = -1
        self._warned: set[str] = set()

    def __call__(self) -> Caller:
        registry = self._runtime.registry
        if self._frontmatter.tool_edits and registry.revision != self._revision:
            self._revision = registry.revision
            tools = registry.list()
            only = allowed_tools(self._frontmatter, tools, trusted=self._trusted)
            self._caller = replace(self._caller, only=only)
            for warning in missing_tools(self._frontmatter, tools):
                self._warn(warning)
        return self._caller

    def _warn(self, warning: str) -> None:
        if warning in self._warned:
            return
        self._warned.add(warning)
        if self._on_event is None:
            self._runtime.events.warn(warning)
        else:
            self._on_event(WarningRaised("", warning))


def _with_protocol_flag(config: Config, flags: Flags | None) -> Config:
    """The configuration in which a `model.protocol` flag takes precedence over the provider's own protocol."""
    provider = config.model.name.partition(":")[0]
    own = config.model.providers.get(provider)
    if own is None or "model.protocol" not in (flags or {}):
        return config
    providers = {**config.model.providers, provider: replace(own, protocol=None)}
    return replace(config, model=replace(config.model, providers=providers))


def _guard(rules: GuardrailsConfig, model: Model, tools: Callable[[], Sequence[Tool]]) -> Guard | None:
    if not rules.enabled:
        return None
    from holdfast.guardrails.guardrails import GuardRails  # most runs have no guard-rails

    return GuardRails(rules, tools, CallWriter(model))


def _stored_content(runtime: Runtime, digest: str) -> bytes | None:
    """The content of an attachment, if the ledger still has it."""
    try:
        return None if runtime.ledger is None else runtime.ledger.blobs.read(digest)
    except LedgerError:
        return None


def review_trust(path: Path, *, flags: Flags | None = None) -> TrustReview | None:
    """What trusting the document would change; None without frontmatter."""
    path = _real(path)
    project = load_project(path.parent, flags)
    document = DocumentConversation(path, state=chats_dir(project)).document
    if document.frontmatter is None:
        return None
    with LuaHost() as lua:
        evaluated = _evaluate(path, document, project, build_registry(project), lua, flags)
        trusted = evaluated.is_trusted
        return TrustReview(
            path=path,
            digest=evaluated.frontmatter.digest,
            source=document.frontmatter.source,
            now=evaluated.load(trusted=trusted),
            then=evaluated.load(trusted=True),
            has_function=evaluated.frontmatter.approve is not None,
            tools_now=evaluated.chosen(trusted=trusted),
            tools_then=evaluated.chosen(trusted=True),
            diagnostics=evaluated.frontmatter.diagnostics,
        )


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _misread_frontmatter(document: Document) -> Iterator[Diagnostic]:
    """Errors on the first line of a document without valid frontmatter, such as YAML."""
    leads = bool(document.blocks) and isinstance(document.blocks[0], Preamble)
    return (item for item in document.diagnostics if leads and item.line == 1 and item.severity == "error")


def _withdraw_orphans(runtime: Runtime) -> None:
    """Withdraw pending calls of documents that were deleted or renamed, which can never run."""
    for pending in runtime.pending.list():
        document = pending.call.caller.document
        if document is not None and pending.waiter is None and _is_gone(Path(document)):
            runtime.pending.withdraw(pending.call.id, pending.digest)


def _is_gone(document: Path) -> bool:
    """Whether a document was deleted. An unreachable folder, such as an unmounted disk, does not count."""
    if not document.is_absolute() or not document.parent.is_dir():
        return False
    try:
        document.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _is_current(conversation: DocumentConversation, project: Project, digest: str, trusted: bool) -> bool:
    now = _digest(conversation.document)
    return now == digest and (not digest or project.trust.is_trusted(conversation.path, digest) == trusted)


def _digest(document: Document) -> str:
    found = document.frontmatter
    return "" if found is None else digest_of_frontmatter(found.language, found.code)
