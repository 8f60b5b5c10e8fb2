"""Resolves `[sandbox]` configuration to a `SandboxPolicy`: real paths, network, limits, and the environment of a
command.

Pure path arithmetic: it starts no process. `probe` finds out what the machine can enforce.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.contract.errors import ConfigError, SandboxRefused
from holdfast.contract.widening import Widening
from holdfast.fs.own_paths import installation_paths, user_config_file, user_state_dir
from holdfast.sandbox import hidden_files
from holdfast.sandbox.hidden_files import AnchoredPattern, ReadRestriction
from holdfast.sandbox.limits import Limits

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_WITH_DEFAULT: Final = re.compile(rf"\$\{{({_NAME}):-(.*)\}}", re.DOTALL)
_PLAIN: Final = re.compile(rf"\$(?:({_NAME})|\{{({_NAME})\}})")
_NEVER_WRITABLE: Final = ("/proc", "/sys", "/dev")
_VARIABLE_ENTRIES: Final = frozenset(
    {"$root", "${root}", "$cwd", "${cwd}", "$document", "${document}", "urn:flemma:cwd", "urn:flemma:buffer:path"}
)
DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """What commands may read, write and reach, as real paths."""

    root: Path | None
    writable: tuple[Path, ...]
    read_deny: tuple[Path, ...]
    """Denied paths; a denied folder includes its contents."""
    deny_patterns: tuple[AnchoredPattern, ...] = ()
    """Patterns of `sandbox.read_deny`, each with the folder it is anchored to."""
    pattern_matches: tuple[Path, ...] = ()
    """Files and folders that the patterns match, listed just before a command starts."""
    installation: tuple[Path, ...]
    """Folders of the holdfast and Python installation that lie in a writable folder; mounted read-only."""
    own_state: tuple[Path, ...] = ()
    """holdfast's own state and configuration: no tool may read or change them, even with the sandbox off."""
    network: Literal["off", "on"] | tuple[str, ...]
    environment: tuple[str, ...]
    limits: Limits
    protected: tuple[str, ...] = ()
    """Protected path patterns in addition to the built-in ones."""
    quarantine: Path | None = None
    """Folder for copies of files removed from protected paths; None: they are deleted."""
    untrusted_folders: tuple[Path, ...] = ()
    """Further folders that may contain planted programs; like writable folders, they are removed from PATH."""
    granted: tuple[Path, ...] = ()
    """Paths the user granted to this one call, although they are denied or not visible."""
    readable: tuple[Path, ...] = ()
    """The granted paths that override patterns too. A folder granted for writing does not reveal its secrets."""

    def digest(self) -> str:
        return sha256(msgspec.json.encode(self, enc_hook=str, order="deterministic")).hexdigest()

    def is_writable(self, path: str | Path) -> bool:
        real = Path(os.path.realpath(path))
        return (
            _within(real, self.writable)
            and not _within(real, self.installation)
            and self.read_restriction(real) != "deny"
        )

    def is_readable(self, path: str | Path) -> bool:
        return self.read_restriction(path) is None

    def read_restriction(self, path: str | Path) -> ReadRestriction | None:
        """Return `deny`, `ask` for a built-in secret pattern, or None if the path may be read.

        Follows symlinks, and matches the names along the way: a link named like a hidden file counts as one.
        """
        real = Path(os.path.realpath(path))
        if _within(real, self.own_state):
            return "deny"
        if _within(real, self.readable):
            return None
        if self._is_denied(real, self.read_deny):
            return "deny"
        return self.pattern_restriction(path)

    def pattern_restriction(self, path: str | Path) -> ReadRestriction | None:
        """Return the restriction from patterns alone, ignoring denied paths and grants."""
        real = os.path.realpath(path)
        folder, name = os.path.split(os.path.normpath(path))
        patterns = hidden_files.compile_patterns(self.deny_patterns)
        candidates = dict.fromkeys((real, f"{os.path.realpath(folder)}/{name}", f"{folder}/{name}"))
        return next((found for one in candidates if (found := patterns.restriction(one)) is not None), None)

    def with_readable_files(self, files: Iterable[Path]) -> SandboxPolicy:
        """Return the policy of one call that may read these files regardless of `sandbox.read_deny`."""
        return replace(self, granted=(*self.granted, *files), readable=(*self.readable, *files))

    def with_pattern_matches(self, found: Iterable[str]) -> SandboxPolicy:
        """Return the policy of one command, with the files that the patterns match now."""
        denied = tuple(path for path in self.read_deny if path not in self.granted or path in self.own_state)
        matches = (path for path in map(Path, found) if not self._is_denied(path, denied))
        paths = _deduplicated(path for path in matches if not _within(path, self.readable))
        # A granted folder that a pattern hides is not granted after all, unless it was granted for reading.
        lost = {path for path in self.granted if _within(path, paths) and not _within(path, self.readable)}
        granted, writable = ([path for path in some if path not in lost] for some in (self.granted, self.writable))
        return replace(self, pattern_matches=paths, read_deny=denied, granted=tuple(granted), writable=tuple(writable))

    def _is_denied(self, path: Path, denied: Iterable[Path]) -> bool:
        """Whether a path is in a denied folder and not in a granted path below that folder. Granting write access to a
        folder above a denied one does not reveal it."""
        granted = [one for one in self.granted if _within(path, (one,))]
        return any(_within(path, (one,)) and not any(_within(inner, (one,)) for inner in granted) for one in denied)

    def is_own_state(self, path: str | Path) -> bool:
        return _within(Path(os.path.realpath(path)), self.own_state)


class PathVariables(Struct, frozen=True, kw_only=True):
    """The values of `$root`, `$cwd`, `$document` and `~` in configured paths."""

    cwd: Path
    root: Path | None = None
    document: Path | None = None
    home: Path

    def value_of(self, name: str) -> Path | None:
        return {"root": self.root, "cwd": self.cwd, "document": self.document}[name]


def resolve_policy(
    config: SandboxConfig,
    variables: PathVariables,
    *,
    state: Path | None = None,
    protected: Iterable[str] = (),
    untrusted_folders: Iterable[Path] = (),
) -> SandboxPolicy:
    """Return the policy for a project.

    `state` is holdfast's state folder, hidden from commands. `untrusted_folders` may contain other people's programs,
    as the project does.
    """
    writable = _deduplicated(_writable(config.writable, variables))
    for path in writable:
        if path == Path("/") or _within(path, map(Path, _NEVER_WRITABLE)):
            raise ConfigError(
                f"sandbox.writable contains {str(path)!r}, which cannot be sandboxed. Name another folder."
            )
    # Both: HOME may be redirected while keys stay in the account's home folder.
    homes = (variables.home, _login_home(variables.home))
    single = tuple(filter(hidden_files.is_path, config.read_deny))
    denied = {path for home in homes for path in _paths(single, replace(variables, home=home), "sandbox.read_deny")}
    top = os.path.realpath(variables.root or variables.cwd)
    patterns = (
        hidden_files.anchor_pattern(entry, top, str(home))
        for entry in filter(hidden_files.is_pattern, config.read_deny)
        for home in homes
    )
    visible = tuple(path for path in (variables.root, variables.cwd, *writable) if path is not None)
    own_data = {Path(os.path.realpath(path)) for path in (state, user_state_dir(), user_config_file().parent) if path}
    # A state folder that contains the project itself cannot be hidden without hiding the project.
    hidden = _deduplicated(path for path in own_data if not any(_within(item, (path,)) for item in visible))
    read_deny = _deduplicated((*denied, *hidden))
    own = tuple(path for path in installation_folders() if _within(path, writable))
    for path in own:
        _installation_at_start.setdefault(path, file_identity(path))
    return SandboxPolicy(
        root=None if variables.root is None else Path(os.path.realpath(variables.root)),
        writable=tuple(path for path in writable if not _within(path, read_deny)),
        read_deny=read_deny,
        deny_patterns=tuple(dict.fromkeys(patterns)),
        installation=own,
        own_state=hidden,
        network=config.network,
        environment=config.environment,
        limits=Limits.from_config(config),
        protected=tuple(protected),
        quarantine=(state or user_state_dir()) / "blocked",
        untrusted_folders=_deduplicated(
            Path(os.path.realpath(path)) for path in (variables.root, *untrusted_folders) if path is not None
        ),
    )


def widen_policy(policy: SandboxPolicy, widening: Widening) -> SandboxPolicy:
    """Return the policy with what one call may reach beyond it. Raises `SandboxRefused` for paths that cannot be
    granted.

    The paths are absolute. holdfast's state and configuration stay hidden, and its installation stays read-only.
    """
    writable = tuple(map(_folder, widening.write))
    readable = tuple(sorted({*map(_existing, widening.read)}))
    granted = tuple(sorted({*writable, *readable}))
    for path in granted:
        if _within(path, policy.own_state):
            raise SandboxRefused(f"{path} belongs to holdfast itself and stays hidden from commands.")
    for path in writable:
        if path == Path("/") or _within(path, map(Path, _NEVER_WRITABLE)):
            raise SandboxRefused(f"{path} cannot be made writable in a sandbox. Name another folder.")
        if _within(path, installation_folders()):
            raise SandboxRefused(f"{path} is where holdfast is installed, which stays read-only.")
        if not _within(path, readable) and policy.pattern_restriction(path) is not None:
            raise SandboxRefused(f"{path} is hidden by a pattern of sandbox.read_deny. Grant read access as well.")
    denied = {path for path in policy.read_deny if path not in granted and not _within(path, readable)}
    denied |= {path for path in policy.own_state if not _within(path, denied) or _within(path, granted)}
    network = policy.network
    if widening.network:
        network = "on"
    elif widening.hosts and network != "on":
        network = tuple(sorted({*(network if isinstance(network, tuple) else ()), *widening.hosts}))
    every = _deduplicated((*policy.writable, *writable))
    own = tuple(path for path in installation_folders() if _within(path, every))
    for path in own:
        _installation_at_start.setdefault(path, file_identity(path))
    return replace(
        policy,
        network=network,
        granted=granted,
        readable=readable,
        read_deny=tuple(sorted(denied)),
        writable=every,
        installation=own,
    )


def _existing(path: str) -> Path:
    real = Path(os.path.realpath(path))
    if not real.exists():
        raise SandboxRefused(f"{path} does not exist. Name an existing path.")
    return real


def _folder(path: str) -> Path:
    real = _existing(path)
    if not real.is_dir():
        raise SandboxRefused(f"{path} is not a folder. Only folders can be made writable.")
    return real


_installation_at_start: dict[Path, tuple[int, int] | None] = {}


def check_installation(policy: SandboxPolicy) -> None:
    """Raise `SandboxRefused` if the installation was replaced after this process first saw it: it may be planted."""
    for path in policy.installation:
        if path in _installation_at_start and file_identity(path) != _installation_at_start[path]:
            raise SandboxRefused(
                f"{path}, where holdfast is installed, was replaced while holdfast was running. "
                "Check its contents, then restart holdfast."
            )


def file_identity(path: str | Path) -> tuple[int, int] | None:
    """Return device and inode, or None if the path does not exist."""
    try:
        about = os.lstat(path)
    except OSError:
        return None
    return about.st_dev, about.st_ino


@lru_cache(maxsize=1)
def installation_folders() -> tuple[Path, ...]:
    return installation_paths()


def expand_path(
    entry: str, variables: PathVariables, option: str, environ: Mapping[str, str] | None = None
) -> Path | None:
    """Return the path of a configured entry; None if its variable is not set."""
    environment = os.environ if environ is None else environ
    if entry.startswith("urn:"):
        names = {"urn:flemma:cwd": "cwd", "urn:flemma:buffer:path": "document"}
        if entry not in names:
            raise ConfigError(f"{option} names {entry!r}, which is unknown. Use $cwd, $document or a path.")
        return variables.value_of(names[entry])
    if found := _WITH_DEFAULT.fullmatch(entry):
        return _literal(environment.get(found[1]) or found[2], variables)
    if found := _PLAIN.fullmatch(entry):
        name = found[1] or found[2]
        if name in ("root", "cwd", "document"):
            return variables.value_of(name)
        return _literal(environment.get(name, ""), variables)
    if entry.startswith("$"):
        raise ConfigError(f"{option} contains {entry!r}: a variable must be the whole entry. Write the path out.")
    return _literal(entry, variables)


def command_environment(
    policy: SandboxPolicy, command: Command, *, home: str, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a command: allow-listed variables, a safe PATH, and the tool's own variables."""
    inherited = os.environ if environ is None else environ
    patterns = () if command.helper else policy.environment
    bodies = (".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
    allowed = re.compile(f"(?:{'|'.join(bodies)})" if patterns else r"(?!)")
    found = {name: value for name, value in inherited.items() if allowed.fullmatch(name)}
    if "PATH" in found:
        found["PATH"] = safe_search_path(found["PATH"], policy)
    return {"PATH": DEFAULT_PATH, **found, "HOME": home, **command.env}


def safe_search_path(text: str, policy: SandboxPolicy) -> str:
    """Return PATH without relative, writable and project folders.

    A command must not be able to plant a `git` that later commands run, and programs that came with a checkout are not
    trusted either.
    """
    untrusted, own = (*policy.writable, *policy.untrusted_folders), (*policy.installation, *installation_folders())

    def is_plantable(folder: str) -> bool:
        paths = (Path(os.path.normpath(folder)), Path(os.path.realpath(folder)))
        return any(_within(path, untrusted) and not _within(path, own) for path in paths)

    kept = [folder for folder in text.split(":") if folder.startswith("/") and not is_plantable(folder)]
    return ":".join(dict.fromkeys(kept)) or DEFAULT_PATH


def _paths(entries: Iterable[str], variables: PathVariables, option: str) -> list[Path]:
    found = (expand_path(entry, variables, option) for entry in entries)
    return [Path(os.path.realpath(path)) for path in found if path is not None]


def _writable(entries: Iterable[str], variables: PathVariables) -> list[Path]:
    """Resolve the writable entries. Refuses a symlink in the project that leads out of it: the project's author chose
    its target, not the user."""
    found: list[Path] = []
    for entry in entries:
        path = expand_path(entry, variables, "sandbox.writable")
        if path is None:
            continue
        real = Path(os.path.realpath(path))
        base = variables.root or variables.cwd
        bases = (base, Path(os.path.realpath(base)))
        if entry not in _VARIABLE_ENTRIES and _within(path, bases) and not _within(real, bases[1:]):
            raise ConfigError(
                f"sandbox.writable contains {entry!r}, which leads out of the project to {str(real)!r}. "
                "Write that path out if you mean it."
            )
        found.append(real)
    return found


def _literal(text: str, variables: PathVariables) -> Path | None:
    if not text:
        return None
    if "\0" in text:
        raise ConfigError("A sandbox path contains a NUL character. Remove it.")
    if text == "~" or text.startswith("~/"):
        return variables.home / text[1:].lstrip("/")
    return (variables.root or variables.cwd) / text


def _deduplicated(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Sort the paths and drop those inside another one."""
    kept: list[Path] = []
    for path in sorted(paths):
        if not _within(path, kept):
            kept.append(path)
    return tuple(kept)


def _within(path: Path, folders: Iterable[Path]) -> bool:
    return any(is_inside(str(path), str(folder)) for folder in folders)


def is_inside(path: str, folder: str) -> bool:
    """Whether an absolute path is the folder or inside it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _login_home(otherwise: Path) -> Path:
    """The account's home folder: keys are there even if HOME points elsewhere."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        return otherwise
