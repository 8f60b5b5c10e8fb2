"""Where holdfast itself is installed: its package, what it imports, its interpreter, and the script that starts it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec


def installation(root: str = "") -> tuple[Path, ...]:
    """Real paths of folders and files, none inside another. A whole environment that holds the project is left out: of
    that only the folders holdfast imports from count, or nothing in the project could be changed."""
    import shutil
    import sysconfig

    here = os.path.realpath(root) if root else ""
    whole = [Path(os.path.realpath(folder)) for folder in (sys.prefix, sys.base_prefix)]
    found = [folder for folder in whole if not here or not Path(here).is_relative_to(folder)]
    imported = [str(Path(os.__file__).parent)]
    with suppress(ImportError):  # a Python without the record of how it was built
        imported += (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    dependency = Path(msgspec.__file__).parent.parent
    started = [sys.executable, shutil.which("holdfast") or ""]
    parts = (Path(__file__).parent.parent, dependency, *imported, *started)
    found += (Path(os.path.realpath(part)) for part in parts if part and str(part) != here)
    kept: list[Path] = []
    for path in sorted(set(found)):
        if not any(path.is_relative_to(folder) for folder in kept):
            kept.append(path)
    return tuple(kept)
