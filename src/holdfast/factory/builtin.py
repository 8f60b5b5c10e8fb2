"""The built-in tools as the configuration wants them, and the services that they ask for.

Services are made when a tool first uses one; imports inside functions keep them out of the start-up time.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from holdfast import __version__
from holdfast.config.config import Config
from holdfast.config.tool_families import BrowserConfig, K8sConfig, WebConfig
from holdfast.contract.memory import Memory
from holdfast.contract.sessions import Sessions
from holdfast.contract.tool import Tool
from holdfast.fs.own_paths import user_state_dir
from holdfast.runtime.runtime import Runtime
from holdfast.tools import builtin_tools
from holdfast.tools.browser import chromium
from holdfast.tools.browser.service import Browsers, BrowserSettings
from holdfast.tools.k8s.cluster import Kubernetes
from holdfast.tools.k8s.cluster_tool import default_reach, reach_of
from holdfast.tools.k8s.kubeconfig import KubernetesSettings
from holdfast.tools.web.search import configured_search
from holdfast.tools.web.service import Web, WebSettings


def configured_tools(config: Config) -> list[Tool]:
    """The built-in tools: `web.search` for the configured engine, `browser.*` for the configured Chromium, `k8s.*` for
    the configured clusters."""
    search = configured_search(web_settings(config.web))
    tools = [search if tool.name == search.name else tool for tool in builtin_tools()]
    reach = reach_of(kubernetes_settings(config.k8s))
    tools = [tool.with_(reaches=reach) if tool.reaches is default_reach else tool for tool in tools]
    if config.browser.executable is None:
        return tools
    unavailable = partial(chromium.missing, config.browser.executable)
    return [tool.with_(unavailable=unavailable) if tool.unavailable is chromium.missing else tool for tool in tools]


def provide_services(runtime: Runtime, state: Path, chats: Path) -> None:
    """Provide what built-in tools ask for. `state` is the project's state folder, `chats` the one of its documents."""
    config = runtime.config

    def sessions() -> Sessions:
        from holdfast.factory.sessions import ProjectSessions

        return ProjectSessions(runtime.ledger, chats, state / "web")

    def memory() -> Memory:
        from holdfast.runtime.memory import RuntimeMemory

        shared = user_state_dir() / "memory.db"
        made = RuntimeMemory(config.memory, config.tools, own=state / "memory.db", shared=shared)
        runtime.on_close(made.close)
        return made

    def web() -> Web:
        made = Web(runtime.network, web_settings(config.web), folder=state / "web")
        runtime.on_close(made.close)
        return made

    def browsers() -> Browsers:
        from holdfast.tools.browser.browsers import ChromiumBrowsers

        hosts = {scope: source.hosts for scope, source in config.secrets.items()}
        made = ChromiumBrowsers(runtime.network, _browser_settings(config.browser, hosts), state / "quarantine")
        runtime.on_close(made.close)
        return made

    def kubernetes() -> Kubernetes:
        return Kubernetes(runtime.network, kubernetes_settings(config.k8s))

    runtime.services.provide(Sessions, sessions)
    runtime.services.provide(Memory, memory)
    runtime.services.provide(Web, web)
    runtime.services.provide(Browsers, browsers)
    runtime.services.provide(Kubernetes, kubernetes)


def web_settings(config: WebConfig) -> WebSettings:
    return WebSettings(
        user_agent=config.user_agent or f"holdfast/{__version__} (a tool of an AI agent that acts for a person)",
        robots=config.robots,
        rate=config.rate,
        burst=config.burst,
        max_bytes=config.max_bytes,
        cache_bytes=config.cache_bytes,
        cache_seconds=config.cache_seconds,
        search=config.search,
        search_url=config.search_url,
    )


def kubernetes_settings(config: K8sConfig) -> KubernetesSettings:
    return KubernetesSettings(
        kubeconfig=config.kubeconfig,
        context=config.context,
        contexts=config.contexts,
        namespace=config.namespace,
        exec_plugins=config.exec_plugins,
        insecure=config.insecure,
    )


def _browser_settings(config: BrowserConfig, secret_hosts: dict[str, tuple[str, ...]]) -> BrowserSettings:
    return BrowserSettings(
        executable=config.executable,
        headless=config.headless,
        subresources=config.subresources,
        user_agent=config.user_agent,
        navigation_timeout=config.navigation_timeout,
        action_timeout=config.action_timeout,
        max_browsers=config.max_browsers,
        max_downloads=config.max_downloads,
        max_download_bytes=config.max_download_bytes,
        secret_hosts=secret_hosts,
    )
