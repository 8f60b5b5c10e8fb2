"""The Google service of a runtime: its settings, and the logins of the user."""

from __future__ import annotations

from pathlib import Path

from holdfast import __version__
from holdfast.config.config import Config
from holdfast.fs.own_paths import user_state_dir
from holdfast.runtime.runtime import Runtime
from holdfast.tools.google.oauth import NO_GRANT
from holdfast.tools.google.service import SECRET_SCOPE, Google, GoogleSettings
from holdfast.tools.web.service import Web


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
