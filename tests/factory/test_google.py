"""The Google service of a runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Config
from holdfast.factory.google import google_logins, google_settings
from holdfast.fs.own_paths import user_state_dir


def test_the_settings_come_from_the_configuration_and_the_account_from_the_command() -> None:
    config = Config.from_dict({"google": {"client_id": "me", "account": "work", "families": ["gcal"]}})
    settings = google_settings(config)
    assert (settings.client_id, settings.account, settings.families) == ("me", "work", ("gcal",))
    assert not settings.has_secret
    assert google_settings(config, "home").account == "home"


def test_each_login_of_the_user_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = user_state_dir() / "google" / "logins"
    assert google_logins() == []
    folder.mkdir(parents=True)
    for name in ("work", "home"):
        (folder / f"{name}.json").write_text("{}")
    assert google_logins() == ["home", "work"]
