"""Opens a document: its frontmatter under the trust rules, the runtime that follows from it, its model and its loop."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.conversation import Diagnostic
from holdfast.agent.events import AgentEvent
from holdfast.agent.guard import Guard
from holdfast.agent.loop import Loop
from holdfast.chat.conversation import DocumentConversation
from holdfast.chat.document import Document
from holdfast.chat.document_file import check_writable
from holdfast.chat.frontmatter.evaluation import (
    NOTHING,
    Base,
    Evaluated,
    Ruling,
    chosen_tools,
    digest_of_frontmatter,
    left_tools,
    missing_tools,
    ruling,
)
from holdfast.chat.frontmatter.evaluator import evaluate
from holdfast.chat.lua.host import LuaHost
from holdfast.chat.parser import Preamble
from holdfast.chat.templates.expansion import Expanded, Files, Scope, expand
from holdfast.config.config import Config, GuardrailsConfig, SecretSource
from holdfast.config.layers import LoadedConfig, load
from holdfast.contract.call import Caller
from holdfast.contract.elicitation import Elicitor
from holdfast.contract.errors import ConfigError
from holdfast.contract.event import WarningRaised
from holdfast.contract.message import Role
from holdfast.contract.tool import Tool
from holdfast.factory.runtime import DocumentContext, Project, build_registry, build_runtime, check_config, load_project
from holdfast.models.from_config import open_model, settings_for
from holdfast.models.port import Model
from holdfast.models.text_protocol.syntax import small_name
from holdfast.models.text_protocol.text_model import chosen_for
from holdfast.registry.registry import Registry
from holdfast.registry.source_loader import WAITING_FOR_SOURCES
from holdfast.rules.policy import Policy, PolicyRules, read_skills
from holdfast.runtime.interfaces import Nobody
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.secrets import Secrets

Flags = Mapping[str, Any]
INTERFACE = "chat"
TOOLS_OPTION = "document.tools"


class ChatSession(Struct, frozen=True, kw_only=True, eq=False):
    """A document that is open to be driven."""

    path: Path
    project: Project
    conversation: DocumentConversation
    runtime: Runtime
    model: Model
    loop: Loop
    untrusted: tuple[str, ...]
    """Options of the frontmatter that count as limits only, because nobody trusted exactly it."""
    digest: str
    trusted: bool

    def is_stale(self) -> bool:
        """Whether the frontmatter, or the trust in it, has changed since: open it again before going on."""
        return not _is_current(self.conversation, self.project, self.digest, self.trusted)


class TrustReview(Struct, frozen=True, kw_only=True):
    """What trusting a document's frontmatter would change."""

    path: Path
    digest: str
    source: str
    """The frontmatter as it stands in the document."""
    now: LoadedConfig
    then: LoadedConfig
    has_function: bool
    """Whether it decides about calls with a function of its own."""
    tools_now: frozenset[str]
    tools_then: frozenset[str]
    diagnostics: tuple[Diagnostic, ...] = ()
    """What is odd about it."""

    @property
    def new_tools(self) -> list[str]:
        """The tools that come in with the trust."""
        return sorted(self.tools_then - self.tools_now)


class _Read(Struct, frozen=True, kw_only=True, eq=False):
    """A document's frontmatter, evaluated against what holds without it."""

    path: Path
    project: Project
    evaluated: Evaluated
    tools: tuple[Tool, ...]
    flags: Flags | None

    @property
    def trusted(self) -> bool:
        return bool(self.evaluated.digest) and self.project.trust.is_trusted(self.path, self.evaluated.digest)

    def chosen(self, *, trusted: bool) -> frozenset[str]:
        """The tools the document works with, apart from what the configuration takes away."""
        chosen = chosen_tools(self.evaluated, self.tools, trusted=trusted)
        return frozenset(tool.name for tool in self.tools if tool.enabled) if chosen is None else chosen

    def loaded(self, *, trusted: bool) -> LoadedConfig:
        """The configuration with the document in it. Raises `ConfigError` for what the frontmatter gets wrong."""
        errors = [item for item in self.evaluated.diagnostics if item.severity == "error"]
        if errors:
            told = "; ".join(item.message.rstrip(".") for item in errors)
            line = "" if errors[0].line is None else f":{errors[0].line}"
            raise ConfigError(f"{self.path}{line}: {told}{'' if told.endswith(('?', '`')) else '.'}")
        loaded = load(
            root=self.project.root,
            is_trusted=self.project.trust.is_trusted,
            document=self.evaluated.settings,
            document_trusted=trusted,
            document_name=str(self.path),
            flags=self.flags,
        )
        check_config(loaded.config)
        return loaded


@asynccontextmanager
async def open_chat(
    path: Path,
    *,
    flags: Flags | None = None,
    nobody: Nobody = "pending",
    plan: bool = False,
    by: str = "person",
    model: Model | None = None,
    on_event: Callable[[AgentEvent], None] | None = None,
    elicitor: Callable[[Runtime], Elicitor] | None = None,
) -> AsyncGenerator[ChatSession]:
    """The document at `path`, locked for us; raises `HoldfastError` if it cannot be read, used or locked."""
    path = _real(path)
    project = load_project(path.parent, flags)
    conversation = DocumentConversation(path, state=chats_dir(project))
    with conversation.lock(), LuaHost() as lua:
        conversation.refresh()
        check_writable(path)
        registry = build_registry(project)
        await registry.start()
        if not registry.ready:
            if on_event is not None:
                on_event(WarningRaised("", WAITING_FOR_SOURCES))
            await registry.wait_ready()
        read = _read(path, conversation.document, project, registry, lua, flags)
        trusted = read.trusted
        loaded = read.loaded(trusted=trusted)
        if not loaded.config.ledger.enabled:
            raise ConfigError(
                f"{path} cannot be driven without the ledger, which remembers what was approved; set ledger.enabled."
            )
        ruled = ruling(read.evaluated, loaded, trusted=trusted)
        conversation.set_expander(_expander(read, ruled, lua), read.evaluated.diagnostics)
        config = _as_flagged(ruled.config, flags)
        if config.guardrails.enabled:  # whoever needs them has no room for more than the small caps
            config = replace(config, tools=replace(config.tools, caps="small"))
        project = replace(project, loaded=replace(loaded, config=config))
        provider = config.model.name.partition(":")[0] if model is None else model.provider
        caller = Caller(
            interface=INTERFACE,
            document=str(path),
            provider=provider,
            scopes=frozenset(config.secrets),
            only=left_tools(read.evaluated, read.tools, trusted=trusted),
        )
        behind = DocumentContext(path=path, caller=caller, policy=ruled.document, caps=ruled.caps, plan=plan)
        runtime = build_runtime(project, registry=registry, nobody=nobody, interface=INTERFACE, document=behind)
        if elicitor is not None:
            runtime.attach(elicitor=elicitor(runtime))
        async with runtime:
            _withdraw_orphans(runtime)
            if model is None:
                answering, settings = open_model(
                    config.model,
                    secret=lambda source: _secret(runtime, source),
                    cache_key=conversation.id,
                    edit_repair=config.guardrails.enabled and config.guardrails.edit_repair,
                )
            else:
                answering, settings = model, settings_for(config.model, provider, conversation.id)
            loop = Loop(
                runtime,
                answering,
                conversation,
                settings,
                autopilot=config.chat.autopilot,
                max_turns=config.chat.max_turns,
                context=config.model.context,
                guard=_guard(config.guardrails, answering, lambda: loop.tools()),  # noqa: PLW0108 - it is being made
                caller=_Asking(caller, read, runtime, on_event, trusted=trusted) if config.mcp.servers else None,
                by=by,
                is_current=lambda: _is_current(conversation, project, read.evaluated.digest, trusted),
                on_event=on_event,
            )
            layer = loaded.layer("document")
            yield ChatSession(
                path=path,
                project=project,
                conversation=conversation,
                runtime=runtime,
                model=answering,
                loop=loop,
                untrusted=() if trusted or layer is None else _held_back(layer.ignored, read),
                digest=read.evaluated.digest,
                trusted=trusted,
            )


class _Asking:
    """Who asks for the document, with what it chose of the tools there are: those of a server come and go."""

    def __init__(
        self,
        caller: Caller,
        read: _Read,
        runtime: Runtime,
        on_event: Callable[[AgentEvent], None] | None,
        *,
        trusted: bool,
    ) -> None:
        self._caller = caller
        self._read = read
        self._trusted = trusted
        self._runtime = runtime
        self._on_event = on_event
        self._revision = -1
        self._warned: set[str] = set()

    def __call__(self) -> Caller:
        registry, evaluated = self._runtime.registry, self._read.evaluated
        if evaluated.tool_edits and registry.revision != self._revision:
            self._revision = registry.revision
            tools = registry.list()
            self._caller = replace(self._caller, only=left_tools(evaluated, tools, trusted=self._trusted))
            for warning in missing_tools(evaluated, tools):
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


def _as_flagged(config: Config, flags: Flags | None) -> Config:
    """A protocol asked for by a flag is for this run, whatever a provider has of its own."""
    provider = config.model.name.partition(":")[0]
    own = config.model.providers.get(provider)
    if own is None or "model.protocol" not in (flags or {}):
        return config
    providers = {**config.model.providers, provider: replace(own, protocol=None)}
    return replace(config, model=replace(config.model, providers=providers))


def _guard(rules: GuardrailsConfig, model: Model, tools: Callable[[], Sequence[Tool]]) -> Guard | None:
    if not rules.enabled:
        return None
    from holdfast.guardrails.guardrails import GuardRails

    def written(tool: Tool) -> str:
        return small_name(tool.name) if chosen_for(model).protocol == "text" else tool.api_name

    return GuardRails(rules, tools, written)


def review_trust(path: Path, *, flags: Flags | None = None) -> TrustReview | None:
    """What the frontmatter asks for beyond what it gets; None for a document without frontmatter."""
    path = _real(path)
    project = load_project(path.parent, flags)
    document = DocumentConversation(path, state=chats_dir(project)).document
    if document.frontmatter is None:
        return None
    with LuaHost() as lua:
        read = _read(path, document, project, build_registry(project), lua, flags)
        return TrustReview(
            path=path,
            digest=read.evaluated.digest,
            source=document.frontmatter.source,
            now=read.loaded(trusted=read.trusted),
            then=read.loaded(trusted=True),
            has_function=read.evaluated.approve is not None,
            tools_now=read.chosen(trusted=read.trusted),
            tools_then=read.chosen(trusted=True),
            diagnostics=read.evaluated.diagnostics,
        )


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def chats_dir(project: Project) -> Path:
    """Where what is remembered about this project's documents is kept."""
    return project.state / "chats"


def _read(
    path: Path, document: Document, project: Project, registry: Registry, lua: LuaHost, flags: Flags | None
) -> _Read:
    config = project.loaded.config
    skills = read_skills(config.tools.skills, project.trust.is_trusted)
    policy = Policy(PolicyRules.of(config.tools, skills)).compile(Caller(interface=INTERFACE))
    tools = tuple(policy.visible(registry.list()))
    hidden = frozenset(
        name for tool in registry.list_all() if tool not in tools for name in (*tool.names, tool.api_name)
    )
    found = document.frontmatter
    evaluated = replace(NOTHING, diagnostics=tuple(_misread_frontmatter(document)))
    if found is not None:
        evaluated = evaluate(found.language, found.code, Base(config=config, tools=tools, hidden=hidden), lua)
    return _Read(path=path, project=project, evaluated=evaluated, tools=tools, flags=flags)


def _misread_frontmatter(document: Document) -> Iterator[Diagnostic]:
    """What is wrong at the top of a document that has no frontmatter holdfast reads, though it may be meant as one."""
    leads = bool(document.blocks) and isinstance(document.blocks[0], Preamble)
    return (item for item in document.diagnostics if leads and item.line == 1 and item.severity == "error")


def _expander(read: _Read, ruled: Ruling, lua: LuaHost) -> Callable[[str, Role], Expanded]:
    project = read.project
    files = Files.of(ruled.config, document=read.path, root=project.root, state=project.state)
    scope = Scope(files=files, lua=lua, frontmatter=read.evaluated, document=read.path)
    return lambda text, role: expand(text, scope)


def _held_back(ignored: tuple[str, ...], read: _Read) -> tuple[str, ...]:
    """What only trust would bring about, the configuration's options first."""
    function = ("approval.auto_approve",) if read.evaluated.approve is not None else ()
    tools = (TOOLS_OPTION,) if read.chosen(trusted=True) - read.chosen(trusted=False) else ()
    return tuple(dict.fromkeys((*ignored, *function, *tools)))


def _withdraw_orphans(runtime: Runtime) -> None:
    """What waits for a document that is gone or was renamed can never run: nobody has to be asked about it."""
    for held in runtime.pending.list():
        document = held.call.caller.document
        if document is not None and held.waiter is None and _is_gone(Path(document)):
            runtime.pending.withdraw(held.call.id, held.digest)


def _is_gone(document: Path) -> bool:
    """Not only out of reach: its folder is there, and nothing of its name is in it."""
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


def _secret(runtime: Runtime, source: SecretSource) -> str:
    root = runtime.workspace.root or Path(runtime.workspace.cwd)
    return Secrets({"model": source}, runtime.redactor.add, root).get("model")
