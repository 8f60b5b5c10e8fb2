"""holdfast's own paths: the user's configuration and state, where holdfast is installed, and the documents that calls
are remembered of, whatever they are called: one link per document in the state folder, so that every conversation and
every process can tell in one look."""

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
    """The folder of the user's configuration as it is named: its symlinks are not followed."""
    return _xdg_folder("XDG_CONFIG_HOME", ".config")


def state_folder() -> Path:
    """The folder of the user's state as it is named."""
    return _xdg_folder("XDG_STATE_HOME", ".local/state")


def user_config_file() -> Path:
    return _with_real_parent(config_folder()) / "config.toml"


def user_state_dir() -> Path:
    return _with_real_parent(state_folder())


def _xdg_folder(variable: str, default: str) -> Path:
    # The XDG specification says to ignore a relative value; here it would also be a way into the project.
    given = os.environ.get(variable, "")
    return (Path(given) if given.startswith(os.sep) else Path.home() / default) / "holdfast"


def _with_real_parent(folder: Path) -> Path:
    return Path(os.path.realpath(folder.parent), folder.name)


def installation_paths(root: str = "") -> tuple[Path, ...]:
    """Where holdfast is installed: its package, what it imports, its interpreter, and the script that starts it.

    Real paths of folders and files, none inside another. A whole environment that holds the project is left out: of
    that only the folders holdfast imports from count, or nothing in the project could be changed.
    """
    import shutil
    import sysconfig
    from importlib.util import find_spec

    here = os.path.realpath(root) if root else ""
    whole = [Path(os.path.realpath(folder)) for folder in (sys.prefix, sys.base_prefix)]
    found = [folder for folder in whole if not here or not Path(here).is_relative_to(folder)]
    parts = [str(Path(__file__).parent.parent), str(Path(os.__file__).parent)]
    if (dependency := find_spec("msgspec")) is not None and dependency.origin is not None:
        parts.append(str(Path(dependency.origin).parent.parent))
    with suppress(ImportError):  # a Python without the record of how it was built
        parts += (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    parts += (sys.executable, shutil.which("holdfast") or "")
    found += (Path(os.path.realpath(part)) for part in parts if part and part != here)
    kept: list[Path] = []
    for path in sorted(set(found)):
        if not any(path.is_relative_to(folder) for folder in kept):
            kept.append(path)
    return tuple(kept)


def register_document(path: Path) -> None:
    """From now on this document, given by its real path, is protected. Raises `OSError`."""
    entry = _registry_entry(fold_path(str(path)))
    if not os.path.islink(entry):  # noqa: PTH114
        Path(entry).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            Path(entry).symlink_to(path)


def is_registered_document(path: str, folded: str | None = None) -> bool:
    """Whether it is such a document, another name of the same file, or one a careless file system takes for it."""
    if os.path.islink(_registry_entry(folded or fold_path(path))):  # noqa: PTH114
        return True
    try:
        about = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return False
    return about.st_nlink > 1 and stat.S_ISREG(about.st_mode) and (about.st_dev, about.st_ino) in document_identities()


def registered_documents() -> Iterator[str]:
    """The documents, as they were named when something was first remembered of them."""
    with suppress(OSError), os.scandir(_registry_folder()) as entries:
        for entry in entries:
            with suppress(OSError):
                yield os.readlink(entry.path)  # noqa: PTH115


def document_identities() -> set[tuple[int, int]]:
    """Device and inode of those that are there now."""
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
    """Found once: to follow every link on the way takes longer than all the rest."""
    return str(user_state_dir() / "documents")


def _registry_entry(folded: str) -> str:
    return f"{_registry_folder()}/{sha256(os.fsencode(folded)).hexdigest()[:40]}"
