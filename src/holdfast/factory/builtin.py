"""The built-in tools as the configuration wants them, and the services that they ask for.

Services are made when a tool first uses one; imports inside functions keep them out of the start-up time.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from holdfast import __version__
from holdfast.config.config import Config
from holdfast.config.tool_families import BrowserConfig, WebConfig
from holdfast.contract.memory import Memory
from holdfast.contract.sessions import Sessions
from holdfast.contract.tool import Tool
from holdfast.fs.own_paths import user_state_dir
from holdfast.runtime.runtime import Runtime
from holdfast.tools import builtin_tools
from holdfast.tools.browser import chromium
from holdfast.tools.browser.service import Browsers, BrowserSettings
from holdfast.tools.google.oauth import NO_GRANT
from holdfast.tools.google.service import SECRET_SCOPE, Google, GoogleSettings, configured_google
from holdfast.tools.web.search import configured_search
from holdfast.tools.web.service import Web, WebSettings


def configured_tools(config: Config) -> list[Tool]:
    """The built-in tools: `web.search` for the configured engine, `browser.*` for the configured Chromium, the tools of
    Google for the configured client."""
    search, google = configured_search(web_settings(config.web)), google_settings(config)
    tools = [search if tool.name == search.name else configured_google(tool, google) for tool in builtin_tools()]
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

    def google() -> Google:
        return google_service(runtime)

    runtime.services.provide(Sessions, sessions)
    runtime.services.provide(Memory, memory)
    runtime.services.provide(Web, web)
    runtime.services.provide(Browsers, browsers)
    runtime.services.provide(Google, google)


def google_settings(config: Config, account: str | None = None) -> GoogleSettings:
    return GoogleSettings(
        client_id=config.google.client_id,
        has_secret=SECRET_SCOPE in config.secrets,
        account=account or config.google.account,
        endpoint=config.google.endpoint,
        families=config.google.families,
        max_bytes=config.google.max_bytes,
        user_agent=f"holdfast/{__version__}",
    )


def _google_folder() -> Path:
    return user_state_dir() / "google" / "logins"


def google_logins() -> list[str]:
    """The accounts with a stored login."""
    return sorted(path.stem for path in _google_folder().glob("*.json"))


def google_service(runtime: Runtime, account: str | None = None) -> Google:
    """The Google service for an account, without one for the configured account."""
    from holdfast.store.login_file import LoginFile

    settings = google_settings(runtime.config, account)
    grants = LoginFile(_google_folder() / f"{settings.account}.json", NO_GRANT)

    def register(token: str) -> None:
        runtime.redactor.add(SECRET_SCOPE, token)

    extractor = runtime.services.get(Web).extractor
    return Google(runtime.network, settings, grants, register=register, extractor=extractor)


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
