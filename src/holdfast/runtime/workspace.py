"""Where a runtime works: its project, its document and its state folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from holdfast.sandbox.sandbox import Sandbox


class Workspace(Struct, frozen=True, kw_only=True):
    cwd: str = ""
    """The working directory of calls; the root by default."""
    root: Path | None = None
    """The project's root folder."""
    document: Path | None = None
    """The conversation document the runtime works for."""
    state: Path | None = None
    """The project's state folder, outside the project; None: nothing outlives the runtime."""
    sandbox: Sandbox | None = None
    """Where commands run, instead of the sandbox that the configuration describes."""

    @property
    def document_dir(self) -> Path | None:
        return None if self.document is None else self.document.parent
