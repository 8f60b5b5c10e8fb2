"""The lock file of the peers pins each of them by its content and says nothing about where it was fetched."""

from __future__ import annotations

import json
from pathlib import Path

LOCK = Path(__file__).with_name("package-lock.json").read_text()
PACKAGES = json.loads(LOCK)["packages"]
LEFT_OUT = "/inspector/absent"


def test_every_peer_is_pinned_by_its_content_and_named_without_a_host() -> None:
    fetched = {name: item for name, item in PACKAGES.items() if name and not name.endswith(LEFT_OUT)}
    wanted = {name: item for name, item in fetched.items() if not item.get("link")}
    assert len(wanted) > 100
    assert [name for name, item in wanted.items() if not item["integrity"].startswith("sha512-")] == []
    assert "://" not in LOCK
    links = {name.removeprefix("node_modules/") for name, item in fetched.items() if item.get("link")}
    assert links == {"vite", "@vitejs/plugin-react"}


def test_the_peers_themselves_are_exact_versions() -> None:
    for name, version in PACKAGES[""]["dependencies"].items():
        assert PACKAGES[f"node_modules/{name}"]["version"] == version
