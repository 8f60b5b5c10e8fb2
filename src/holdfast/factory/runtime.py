"""Builds a runtime from a project on disk: root, configuration, trust, ledger and tools.

Imports inside functions keep parts that most runs do not need out of the start-up time.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.config.config import Config
from holdfast.config.layers import LoadedConfig, load
from holdfast.config.roots import check_state_dir, find_root, mark_state_dir, state_dir
from holdfast.config.secret_references import check_references
from holdfast.contract.call import Caller
from holdfast.contract.errors import ConfigError, HoldfastError
from holdfast.contract.skills import SkillLibrary
from holdfast.contract.tool import Tool
from holdfast.factory.builtin import configured_tools, provide_services
from holdfast.fs.own_paths import user_state_dir
from holdfast.fs.temporary import use_cleanup_journal
from holdfast.registry.registry import Registry, load_entry_points
from holdfast.rules.decider import Cap
from holdfast.rules.from_config import CommandRules, DocumentPolicy
from holdfast.rules.grants import GrantMatcher
from holdfast.rules.policy import check_names
from holdfast.rules.skills import SkillCatalog, read_skills
from holdfast.runtime.approvals import load_resolvers
from holdfast.runtime.interfaces import Asker, Nobody
from holdfast.runtime.runtime import Rules, Runtime
from holdfast.runtime.undo.recorder import remove_stale_runs
from holdfast.runtime.workspace import Workspace
from holdfast.sandbox.hidden_files import pattern_problems
from holdfast.store.ledger import Ledger
from holdfast.store.trust import TrustStore
from holdfast.tools import builtin_tools

if TYPE_CHECKING:
    from holdfast.mcp.client.bridge import Bridge

PRUNE_SECONDS: Final = 86_400.0


class Project(Struct, frozen=True, kw_only=True):
    """A project root with its configuration and trust."""

    cwd: Path
    root: Path | None
    loaded: LoadedConfig
    trust: TrustStore
    state: Path
    """The project's folder in the user's state directory."""

    @property
    def ledger_path(self) -> Path:
        return self.state / "ledger.db"

    @property
    def user_db(self) -> Path:
        return user_state_dir() / "user.db"


def load_project(cwd: Path | None = None, flags: Mapping[str, Any] | None = None, *, checked: bool = True) -> Project:
    """Find the project and read its configuration under the trust rules. Raises `ConfigError` if it is invalid.

    Without `checked`, skip the checks of `check_config`: to inspect a configuration, or to revoke its trust.
    """
    here = (cwd or Path.cwd()).resolve()
    root = find_root(here)
    check_state_dir(root or here)
    use_cleanup_journal(user_state_dir() / "temporary")
    trust = TrustStore(user_state_dir() / "user.db")
    loaded = load(root=root, is_trusted=trust.is_trusted, flags=flags)
    if checked:
        check_config(loaded.config)
    return Project(cwd=here, root=root, loaded=loaded, trust=trust, state=state_dir(root or here))


def check_config(config: Config) -> None:
    """Check what parsing does not: examples of rules, backends, hosts and secrets. Raises `ConfigError`."""
    CommandRules(config.approval).check()
    check_references(config)
    if config.sandbox.backend != "auto":
        from holdfast.sandbox.probe import backends

        list(backends(config.sandbox.backend))
    if config.network.hosts or config.network.private:
        from holdfast.net.hosts import AllowList, PrivateList

        AllowList(config.network.hosts, option="network.hosts")
        PrivateList(config.network.private)
    for network in (config.sandbox.network, *(server.network for server in config.mcp.servers.values())):
        if isinstance(network, tuple):
            from holdfast.net.hosts import AllowList

            AllowList(network)
    if config.web.search_url is not None:
        from holdfast.net.urls import BadUrl, parse_url

        try:
            parse_url(config.web.search_url)
        except BadUrl as error:
            raise ConfigError(f"web.search_url: {error}") from None
    if config.notify.webhook is not None or config.notify.ntfy is not None:
        from holdfast.notify.from_config import check_addresses

        check_addresses(config.notify)


def config_warnings(project: Project) -> list[str]:
    """A warning for each unknown tool name in the configuration and each pattern that cannot match.

    Packages and modules are imported only if a built-in tool does not explain every name. While a source is loading,
    names are not checked.
    """
    config = project.loaded.config
    patterns = pattern_problems(config.sandbox.read_deny)
    skills = read_skills(config.tools.skills, project.trust.is_trusted)
    if not check_names(config, _builtin_tools(), skills):
        return patterns
    try:
        registry = build_registry(project)
    except HoldfastError:  # reported when the tools are used
        return patterns
    return [*patterns, *(check_names(config, registry.list_all(), skills) if registry.ready else ())]


def _builtin_tools() -> Iterator[Tool]:
    """Built lazily: a configuration without tool names needs none of them."""
    yield from builtin_tools()


def find_skills(project: Project) -> SkillCatalog:
    """The skills of the project and its user. Their files are read when they are needed."""
    trust = project.trust
    skills = project.loaded.config.tools.skills
    return SkillCatalog(skills, root=project.root, is_trusted=trust.is_trusted, is_known=trust.is_known)


def chats_dir(project: Project) -> Path:
    """The folder for the stored state of the project's documents."""
    return project.state / "chats"


def open_ledger(project: Project, *, read_only: bool = False) -> Ledger:
    durability = project.loaded.config.ledger.durability
    if not read_only:
        mark_state_dir()
    return Ledger.open(project.ledger_path, durability=durability, read_only=read_only)


def _prune_once_a_day(project: Project) -> None:
    """Prune the ledger in a background thread with its own connection."""
    stamp = project.state / "pruned"
    try:
        if time.time() - stamp.stat().st_mtime < PRUNE_SECONDS:
            return
    except FileNotFoundError:
        stamp.touch(mode=0o600)
        return
    os.utime(stamp)

    def prune() -> None:
        from holdfast.store.retention import prune_by_config

        try:
            with open_ledger(project) as ledger:
                prune_by_config(ledger, project.loaded.config.ledger, by="holdfast")
        except (HoldfastError, OSError) as error:
            logging.getLogger("holdfast").warning("Cannot prune the ledger: %s", error)

    threading.Thread(target=prune, name="holdfast-prune", daemon=True).start()


def build_registry(project: Project, *, tools: Iterable[Any] = (), entry_points: bool = True) -> Registry:
    """The built-in tools, those of configured modules and installed packages, and `tools`."""
    config = project.loaded.config.tools
    registry = Registry(
        default_timeout=config.default_timeout, strict_check=config.strict_check, has_root=project.root is not None
    )
    registry.register(configured_tools(project.loaded.config))
    for module in config.modules:
        try:
            registry.register(module)
        except HoldfastError as error:
            raise ConfigError(f"Cannot load '{module}' of tools.modules: {error}") from error
    if entry_points and config.entry_points:
        load_entry_points(registry, project=project.root or project.cwd)
    for tool in tools:
        if not isinstance(tool, Tool) or registry.get(tool.name) is not tool:
            registry.register(tool)
    return registry


class DocumentContext(Struct, frozen=True, kw_only=True):
    """The document of a runtime, with its caller and rules."""

    path: Path
    caller: Caller
    policy: DocumentPolicy | None = None
    caps: tuple[Cap, ...] = ()
    plan: bool = False


def project_caller(config: Config, interface: str) -> Caller:
    """The caller of an interface, in the agent and the skill that the configuration enters."""
    return Caller(interface=interface, agent=config.agent, skill=config.skill, scopes=frozenset(config.secrets))


def build_runtime(
    project: Project,
    *,
    registry: Registry | None = None,
    ledger: Ledger | None = None,
    tools: Iterable[Any] = (),
    asker: Asker | None = None,
    nobody: Nobody = "deny",
    interface: str = "python",
    entry_points: bool = True,
    servers: Collection[str] | None = None,
    document: DocumentContext | None = None,
) -> Runtime:
    """A runtime for the project, with its ledger and tools; `servers` limits the MCP servers."""
    config = project.loaded.config
    skills = find_skills(project)
    skills.check_entered(config)
    registry = registry or build_registry(project, tools=tools, entry_points=entry_points)
    opened = open_ledger(project) if ledger is None and config.ledger.enabled else None
    ledger = ledger or opened
    grants = None if ledger is None else ledger.grants.with_user(project.user_db)
    runtime = Runtime(
        config=config,
        registry=registry,
        ledger=ledger,
        workspace=Workspace(
            root=project.root,
            cwd=str(project.root or project.cwd),
            state=project.state,
            document=None if document is None else document.path,
        ),
        asker=asker,
        nobody=nobody,
        caller=project_caller(config, interface) if document is None else document.caller,
        rules=Rules(
            grants=None if grants is None else GrantMatcher(grants),
            document=None if document is None else document.policy,
            caps=() if document is None else document.caps,
            plan=document is not None and document.plan,
            skills=skills.permissions,
        ),
    )
    runtime.services.offer(SkillLibrary, skills)
    load_resolvers(runtime.approvals.chain, registry.warn, project=project.root or project.cwd)
    if grants is not None:
        runtime.on_close(grants.close)
    remove_stale_runs(project.state / "undo")
    if opened is not None:
        runtime.on_close(opened.close)
        _prune_once_a_day(project)
    provide_services(runtime, project.state, chats_dir(project))
    if config.mcp.servers and servers != ():
        add_servers(runtime, project.user_db, servers)
    return runtime


def add_servers(runtime: Runtime, user_db: Path, only: Collection[str] | None = None) -> Bridge | None:
    """Register the enabled MCP servers (or `only` these) as sources; they start with the runtime."""
    every = runtime.config.mcp.servers
    servers = {name: every[name] for name in every if every[name].enabled and (only is None or name in only)}
    if not servers:
        return None
    if find_spec("mcp") is None:
        runtime.registry.warn(
            "MCP servers are configured, but the MCP SDK is not installed, so their tools are missing. "
            "Use: pip install 'holdfast[mcp]'"
        )
        return None
    from holdfast.mcp.client.bridge import Bridge
    from holdfast.store.pins import ToolPins

    pins = ToolPins(user_db)
    runtime.on_close(pins.close)
    bridge = Bridge(runtime, servers, pins=pins, state=user_db.parent)
    bridge.attach()
    runtime.services.offer(Bridge, bridge)
    return bridge


def open_runtime(cwd: Path | None = None, *, tools: Iterable[Any] = (), **options: Any) -> Runtime:
    """The runtime of the project that contains `cwd`: `async with holdfast.open_runtime() as runtime:`."""
    project = load_project(cwd)
    runtime = build_runtime(project, tools=tools, **options)
    for notice in project.loaded.notices:
        runtime.registry.warn(notice)
    return runtime
