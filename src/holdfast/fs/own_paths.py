"""holdfast's own paths: user configuration, state, installation, and the registry of documents with stored calls.

The registry has one symlink per document in the state folder, so that any process can look up a document of any name.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from holdfast.fs.paths import fold_path


def config_folder() -> Path:
    """Return the user's configuration folder, without resolving symlinks."""
    return _xdg_folder("XDG_CONFIG_HOME", ".config")


def state_folder() -> Path:
    """Return the user's state folder, without resolving symlinks."""
    return _xdg_folder("XDG_STATE_HOME", ".local/state")


def user_config_file() -> Path:
    return _with_real_parent(config_folder()) / "config.toml"


def user_state_dir() -> Path:
    return _with_real_parent(state_folder())


def _xdg_folder(variable: str, default: str) -> Path:
    # The XDG specification says to ignore a relative value; here it would also point into the project.
    given = os.environ.get(variable, "")
    return (Path(given) if given.startswith(os.sep) else Path.home() / default) / "holdfast"


def _with_real_parent(folder: Path) -> Path:
    return Path(os.path.realpath(folder.parent), folder.name)


def installation_paths(root: str = "") -> tuple[Path, ...]:
    """Return where holdfast is installed: the package, its dependencies, the interpreter and the start script.

    Resolved paths, none inside another. An environment that contains the project is not included as a whole, only the
    folders that holdfast imports from; otherwise nothing in the project could be changed.
    """
    import shutil  # these are slow to import, and most runs do not need them
    import sysconfig
    from importlib.util import find_spec

    here = os.path.realpath(root) if root else ""
    whole = [Path(os.path.realpath(folder)) for folder in (sys.prefix, sys.base_prefix)]
    found = [folder for folder in whole if not here or not Path(here).is_relative_to(folder)]
    parts = [str(Path(__file__).parent.parent), str(Path(os.__file__).parent)]
    if (dependency := find_spec("msgspec")) is not None and dependency.origin is not None:
        parts.append(str(Path(dependency.origin).parent.parent))
    with suppress(ImportError):  # a Python without its build configuration
        parts += (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    parts += (sys.executable, shutil.which("holdfast") or "")
    found += (Path(os.path.realpath(part)) for part in parts if part and part != here)
    kept: list[Path] = []
    for path in sorted(set(found)):
        if not any(path.is_relative_to(folder) for folder in kept):
            kept.append(path)
    return tuple(kept)


def register_document(path: Path) -> None:
    """Register a document by its resolved path, which protects it from now on. Raises `OSError`."""
    entry = _registry_entry(fold_path(str(path)))
    if not os.path.islink(entry):  # noqa: PTH114
        Path(entry).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            Path(entry).symlink_to(path)


def is_registered_document(path: str, folded: str | None = None) -> bool:
    """Whether the path is a registered document, a hard link to one, or equal to one on a case-insensitive system."""
    if os.path.islink(_registry_entry(folded or fold_path(path))):  # noqa: PTH114
        return True
    try:
        about = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return False
    return about.st_nlink > 1 and stat.S_ISREG(about.st_mode) and (about.st_dev, about.st_ino) in document_identities()


def registered_documents() -> Iterator[str]:
    """Yield the paths of registered documents, as they were when registered."""
    with suppress(OSError), os.scandir(_registry_folder()) as entries:
        for entry in entries:
            with suppress(OSError):
                yield os.readlink(entry.path)  # noqa: PTH115


def document_identities() -> set[tuple[int, int]]:
    """Return device and inode of the registered documents that exist."""
    found: set[tuple[int, int]] = set()
    for path in registered_documents():
        with suppress(OSError):
            about = os.stat(path)  # noqa: PTH116
            found.add((about.st_dev, about.st_ino))
    return found


def _registry_folder() -> str:
    return _documents_folder(os.environ.get("XDG_STATE_HOME"), os.environ.get("HOME"))


@lru_cache(maxsize=4)
def _documents_folder(given: str | None, home: str | None) -> str:
    """Return the registry folder. Cached, because resolving symlinks is slow; the arguments are the cache key."""
    return str(user_state_dir() / "documents")


def _registry_entry(folded: str) -> str:
    return f"{_registry_folder()}/{sha256(os.fsencode(folded)).hexdigest()[:40]}"
