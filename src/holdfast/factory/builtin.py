"""The built-in tools as the configuration wants them, and the services that they ask for.

Services are made when a tool first uses one; imports inside functions keep them out of the start-up time.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from holdfast import __version__
from holdfast.config.config import Config, SecretSource
from holdfast.config.tool_families import BrowserConfig, K8sConfig, WebConfig
from holdfast.contract.media import Transcriber, Vision
from holdfast.contract.memory import Memory
from holdfast.contract.schedules import Schedules
from holdfast.contract.sessions import Sessions
from holdfast.contract.tool import Tool
from holdfast.factory.google import google_service, google_settings
from holdfast.factory.media import analysis_tool, media_settings, open_transcriber, open_vision, transcription_tool
from holdfast.fs.own_paths import user_state_dir
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.secrets import Secrets
from holdfast.tools import builtin_tools
from holdfast.tools.browser import chromium
from holdfast.tools.browser.service import Browsers, BrowserSettings
from holdfast.tools.google.service import Google, configured_google
from holdfast.tools.k8s.cluster import Kubernetes
from holdfast.tools.k8s.cluster_tool import default_reach, reach_of
from holdfast.tools.k8s.kubeconfig import KubernetesSettings
from holdfast.tools.media.service import MediaService
from holdfast.tools.storage.service import Storage, StorageSettings, configured_storage
from holdfast.tools.web.search import configured_search
from holdfast.tools.web.service import Web, WebSettings


def configured_tools(config: Config) -> list[Tool]:
    """The built-in tools, each for what is configured: a search engine, models, servers, an account, a Chromium."""
    engines = (configured_search(web_settings(config.web)), analysis_tool(config), transcription_tool(config))
    by_name = {tool.name: tool for tool in engines}
    storage, google = storage_settings(config), google_settings(config)
    clusters = reach_of(kubernetes_settings(config.k8s))
    executable = config.browser.executable

    def configured(tool: Tool) -> Tool:
        if tool.in_group("minio"):
            return configured_storage(tool, storage)
        if tool.reaches is default_reach:
            return tool.with_(reaches=clusters)
        if tool.unavailable is chromium.missing and executable is not None:
            return tool.with_(unavailable=partial(chromium.missing, executable))
        return configured_google(by_name.get(tool.name, tool), google)

    return [configured(tool) for tool in builtin_tools()]


def model_secret(runtime: Runtime, source: SecretSource) -> str:
    """Return the key of a model's provider, which the runtime redacts from now on. Raises `SecretUnavailable`."""
    root = runtime.workspace.root or Path(runtime.workspace.cwd)
    return Secrets({"model": source}, runtime.redactor.add, root).get("model")


def provide_services(runtime: Runtime, state: Path, chats: Path) -> None:
    """Provide what built-in tools ask for. `state` is the project's state folder, `chats` the one of its documents."""
    config, secret = runtime.config, partial(model_secret, runtime)

    def sessions() -> Sessions:
        from holdfast.factory.sessions import ProjectSessions

        return ProjectSessions(runtime.ledger, chats, state / "web")

    def schedules() -> Schedules:
        from holdfast.factory.schedules import ProjectSchedules

        return ProjectSchedules(runtime)

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

    def storage() -> Storage:
        made = Storage(runtime.network, storage_settings(config), folder=state)
        runtime.on_close(made.close)
        return made

    def browsers() -> Browsers:
        from holdfast.tools.browser.browsers import ChromiumBrowsers

        hosts = {scope: source.hosts for scope, source in config.secrets.items()}
        made = ChromiumBrowsers(runtime.network, _browser_settings(config.browser, hosts), state / "quarantine")
        runtime.on_close(made.close)
        return made

    def media() -> MediaService:
        made = MediaService(media_settings(config.media))
        runtime.on_close(made.close)
        return made

    def google() -> Google:
        return google_service(runtime)

    def kubernetes() -> Kubernetes:
        return Kubernetes(runtime.network, kubernetes_settings(config.k8s), runtime.redactor)

    runtime.services.provide(Sessions, sessions)
    runtime.services.provide(Schedules, schedules)
    runtime.services.provide(Memory, memory)
    runtime.services.provide(Web, web)
    runtime.services.provide(Storage, storage)
    runtime.services.provide(Browsers, browsers)
    runtime.services.provide(MediaService, media)
    runtime.services.provide(Vision, lambda: open_vision(config, runtime.network, secret))
    runtime.services.provide(Transcriber, lambda: open_transcriber(config, runtime.network, secret))
    runtime.services.provide(Google, google)
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


def storage_settings(config: Config) -> StorageSettings:
    given = config.minio
    return StorageSettings(
        endpoint=given.endpoint,
        public_endpoint=given.public_endpoint,
        bucket=given.bucket,
        buckets=given.buckets,
        region=given.region,
        access_key=given.access_key,
        secret=given.secret,
        virtual=given.style == "virtual",
        ca_file=given.ca_file,
        timeout=given.timeout,
        max_upload_bytes=given.max_upload_bytes,
        max_object_bytes=given.max_object_bytes,
        max_link_seconds=given.max_link_seconds,
        max_item_bytes=config.memory.max_item_bytes,
    )
