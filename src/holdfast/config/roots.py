"""Where a project begins, and what is remembered for it: never inside the project."""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Final

from holdfast.config.ownership import check_own
from holdfast.contract.errors import ConfigError
from holdfast.fs.own_paths import config_folder, state_folder, user_state_dir
from holdfast.import_path import MARKERS, top_above

PROJECT_FILE: Final = MARKERS[0]
_UNTIDY: Final = re.compile(r"[^A-Za-z0-9_-]+")


def find_root(start: Path) -> Path | None:
    """The nearest folder at or above `start` that holds `holdfast.toml` or `.git`."""
    found = top_above(str(start))
    return None if found is None else Path(found)


def check_state(root: Path) -> None:
    """Raise `ConfigError` if another user could change what is remembered for this user, or for this project."""
    instead = "set XDG_STATE_HOME to a folder that is yours alone"
    named = state_folder()
    project = state_dir(root)
    for path in (named, project, named / "user.db", project / "ledger.db"):
        check_own(path, "The state folder" if path.suffix != ".db" else "The database", instead=instead)
    for path in (*_folders_in(named), *_folders_in(project), *_folders_in(project / "shown", str(os.getuid()))):
        check_own(path, "Part of the state folder", instead=instead)


def _folders_in(folder: Path, *names: str) -> list[Path]:
    """Those that are there, of these names or of any."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir() and (not names or entry.name in names)]
    except OSError:
        return []


def check_user_config() -> None:
    """The same for the user's configuration."""
    named = config_folder()
    for path in (named, named / "config.toml"):
        check_own(path, "The user configuration", instead="set XDG_CONFIG_HOME to a folder that is yours alone")


def state_dir(root: Path) -> Path:
    """The folder that remembers for one project: a readable name and a hash of where the root is."""
    real = Path(os.path.realpath(root))
    state = user_state_dir()
    if inside_project(state, real):
        raise ConfigError(
            f"The state folder {state} lies inside the project {real}, where tools can write; "
            "set XDG_STATE_HOME to a folder outside it."
        )
    name = _UNTIDY.sub("-", real.name).strip("-")[:40] or "root"
    return state / "projects" / f"{name}-{sha256(os.fsencode(real)).hexdigest()[:16]}"


def inside_project(path: Path, root: Path) -> bool:
    """Whether a user-level path was moved into the project. A root that holds the whole home folder is no move."""
    real = Path(os.path.realpath(root))
    return Path(os.path.realpath(path)).is_relative_to(real) and not _login_home().is_relative_to(real)


def _login_home() -> Path:
    """The home folder of the account; `HOME` itself may have been set by a file of the project."""
    try:
        import pwd

        return Path(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    except (ImportError, KeyError):
        return Path(os.path.realpath(Path.home()))
