"""The configured policy made concrete: real paths, and the variables a command gets. Nothing here is probed."""

from __future__ import annotations

import os
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
_PLACES: Final = frozenset(
    {"$root", "${root}", "$cwd", "${cwd}", "$document", "${document}", "urn:flemma:cwd", "urn:flemma:buffer:path"}
)
DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """What commands may touch, as real paths."""

    root: Path | None
    writable: tuple[Path, ...]
    read_deny: tuple[Path, ...]
    """Single paths, and what lies in them."""
    deny_patterns: tuple[AnchoredPattern, ...] = ()
    """Patterns of `sandbox.read_deny`, each with the folder it is about."""
    pattern_matches: tuple[Path, ...] = ()
    """What the patterns matched when a command was made ready."""
    installation: tuple[Path, ...]
    """Where holdfast and its interpreter are installed, if that is in a writable folder: read-only."""
    own_state: tuple[Path, ...] = ()
    """The state and configuration of holdfast: no tool reads or changes them, whatever the mode is."""
    network: Literal["off", "on"] | tuple[str, ...]
    environment: tuple[str, ...]
    limits: Limits
    protected: tuple[str, ...] = ()
    """Protected patterns beyond the built-in ones."""
    quarantine: Path | None = None
    """Where what was found at protected paths is kept when it is taken away from there; None: it is not kept."""
    untrusted_folders: tuple[Path, ...] = ()
    """Folders, beside the writable ones, in which somebody else may have put programs: no name is looked up there."""
    granted: tuple[Path, ...] = ()
    """What a person lets this one call reach, though it is denied or not shown."""
    readable: tuple[Path, ...] = ()
    """Of those, what it may read whatever patterns say. A folder it may change does not show its secrets."""

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
        """What `sandbox.read_deny` says of a path: `deny`, `ask` for one of the secrets it knows, None for the rest.

        Symlinks are followed; one that is called like a hidden file leads to one.
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
        """What patterns alone say of a path."""
        real = os.path.realpath(path)
        folder, name = os.path.split(os.path.normpath(path))
        known = hidden_files.compile_patterns(self.deny_patterns)
        variables = dict.fromkeys((real, f"{os.path.realpath(folder)}/{name}", f"{folder}/{name}"))
        return next((effect for place in variables if (effect := known.effect(place)) is not None), None)

    def with_readable_files(self, files: Iterable[Path]) -> SandboxPolicy:
        """The policy of one call that may read these files whatever is said of them."""
        return replace(self, granted=(*self.granted, *files), readable=(*self.readable, *files))

    def with_pattern_matches(self, found: Iterable[str]) -> SandboxPolicy:
        """The policy of one command, with what the patterns match now."""
        kept = tuple(path for path in self.read_deny if path not in self.granted or path in self.own_state)
        shown = (path for path in map(Path, found) if not self._is_denied(path, kept))
        paths = _deduplicated(path for path in shown if not _within(path, self.readable))
        lost = {path for path in self.granted if _within(path, paths) and not _within(path, self.readable)}
        granted, writable = ([path for path in some if path not in lost] for some in (self.granted, self.writable))
        return replace(self, pattern_matches=paths, read_deny=kept, granted=tuple(granted), writable=tuple(writable))

    def _is_denied(self, path: Path, denied: Iterable[Path]) -> bool:
        """Whether it lies in what is denied, and in nothing there that is granted. A folder to change above what is
        denied does not show it."""
        given = [one for one in self.granted if _within(path, (one,))]
        return any(_within(path, (one,)) and not any(_within(inner, (one,)) for inner in given) for one in denied)

    def is_own_state(self, path: str | Path) -> bool:
        return _within(Path(os.path.realpath(path)), self.own_state)


class PathVariables(Struct, frozen=True, kw_only=True):
    """What the variables of an entry stand for."""

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
    """The policy for one place. `state` is where holdfast remembers: commands do not see it. `foreign`: where programs
    of others may lie, beside the project."""
    writable = _deduplicated(_writable(config.writable, variables))
    for path in writable:
        if path == Path("/") or _within(path, map(Path, _NEVER_WRITABLE)):
            raise ConfigError(f"sandbox.writable holds {str(path)!r}, which nothing can contain; name another folder.")
    homes = (variables.home, _login_home(variables.home))
    single = tuple(filter(hidden_files.is_path, config.read_deny))
    denied = {path for home in homes for path in _paths(single, replace(variables, home=home), "sandbox.read_deny")}
    top = os.path.realpath(variables.root or variables.cwd)
    patterns = (
        hidden_files.anchor_pattern(entry, top, str(home))
        for entry in filter(hidden_files.is_pattern, config.read_deny)
        for home in homes
    )
    kept = tuple(path for path in (variables.root, variables.cwd, *writable) if path is not None)
    own_data = {Path(os.path.realpath(path)) for path in (state, user_state_dir(), user_config_file().parent) if path}
    hidden = _deduplicated(path for path in own_data if not any(_within(item, (path,)) for item in kept))
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
    """The policy with what one call may reach beyond it. Raises `SandboxRefused` for what nobody can give.

    The paths are absolute. The state and the configuration of holdfast stay hidden, its installation read-only.
    """
    writable = tuple(map(_folder, widening.write))
    readable = tuple(sorted({*map(_existing, widening.read)}))
    granted = tuple(sorted({*writable, *readable}))
    for path in granted:
        if _within(path, policy.own_state):
            raise SandboxRefused(f"{path} belongs to holdfast itself and stays hidden from commands.")
    for path in writable:
        if path == Path("/") or _within(path, map(Path, _NEVER_WRITABLE)):
            raise SandboxRefused(f"{path} cannot be made writable in a sandbox; name another folder.")
        if _within(path, installation_folders()):
            raise SandboxRefused(f"{path} is where holdfast is installed, which stays read-only.")
        if not _within(path, readable) and policy.pattern_restriction(path) is not None:
            raise SandboxRefused(f"{path} is hidden by a pattern of sandbox.read_deny; give it to read, too.")
    kept = {path for path in policy.read_deny if path not in granted and not _within(path, readable)}
    kept |= {path for path in policy.own_state if not _within(path, kept) or _within(path, granted)}
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
        read_deny=tuple(sorted(kept)),
        writable=every,
        installation=own,
    )


def _existing(path: str) -> Path:
    real = Path(os.path.realpath(path))
    if not real.exists():
        raise SandboxRefused(f"There is no {path}; name a path that is there.")
    return real


def _folder(path: str) -> Path:
    real = _existing(path)
    if not real.is_dir():
        raise SandboxRefused(f"{path} is not a folder; only folders can be made writable.")
    return real


_installation_at_start: dict[Path, tuple[int, int] | None] = {}


def check_installation(policy: SandboxPolicy) -> None:
    """Refuse to go on where holdfast or its interpreter is no longer the one that was there when this process began."""
    for path in policy.installation:
        if path in _installation_at_start and file_identity(path) != _installation_at_start[path]:
            raise SandboxRefused(
                f"{path}, where holdfast is installed, was replaced while it ran; "
                "look at what is there now, then start holdfast again."
            )


def file_identity(path: str | Path) -> tuple[int, int] | None:
    """Device and inode; None where there is nothing."""
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
    """The path a whole entry stands for; None where its variable is not set."""
    environment = os.environ if environ is None else environ
    if entry.startswith("urn:"):
        names = {"urn:flemma:cwd": "cwd", "urn:flemma:buffer:path": "document"}
        if entry not in names:
            raise ConfigError(f"{option} names {entry!r}, which nobody knows; use $cwd, $document or a path.")
        return variables.value_of(names[entry])
    if found := _WITH_DEFAULT.fullmatch(entry):
        return _literal(environment.get(found[1]) or found[2], variables)
    if found := _PLAIN.fullmatch(entry):
        name = found[1] or found[2]
        if name in ("root", "cwd", "document"):
            return variables.value_of(name)
        return _literal(environment.get(name, ""), variables)
    if entry.startswith("$"):
        raise ConfigError(f"{option} holds {entry!r}: a variable must be the whole entry; write the path out.")
    return _literal(entry, variables)


def command_environment(
    policy: SandboxPolicy, command: Command, *, home: str, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a command: what the allow-list lets through, a clean PATH, and what the tool gives."""
    surroundings = os.environ if environ is None else environ
    patterns = () if command.helper else policy.environment
    bodies = (".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
    allowed = re.compile(f"(?:{'|'.join(bodies)})" if patterns else r"(?!)")
    found = {name: value for name, value in surroundings.items() if allowed.fullmatch(name)}
    if "PATH" in found:
        found["PATH"] = safe_search_path(found["PATH"], policy)
    return {"PATH": DEFAULT_PATH, **found, "HOME": home, **command.env}


def safe_search_path(text: str, policy: SandboxPolicy) -> str:
    """Only absolute folders that are not in the project and that commands cannot write: `git` must mean the same
    program after a command as before, and no program that came with a checkout."""
    foreign, own = (*policy.writable, *policy.untrusted_folders), (*policy.installation, *installation_folders())

    def plantable(folder: str) -> bool:
        variables = (Path(os.path.normpath(folder)), Path(os.path.realpath(folder)))
        return any(_within(place, foreign) and not _within(place, own) for place in variables)

    kept = [folder for folder in text.split(":") if folder.startswith("/") and not plantable(folder)]
    return ":".join(dict.fromkeys(kept)) or DEFAULT_PATH


def _paths(entries: Iterable[str], variables: PathVariables, option: str) -> list[Path]:
    found = (expand_path(entry, variables, option) for entry in entries)
    return [Path(os.path.realpath(path)) for path in found if path is not None]


def _writable(entries: Iterable[str], variables: PathVariables) -> list[Path]:
    """Where the entries lead. A name in the project must not lead out of it: whoever made the project chose that."""
    found: list[Path] = []
    for entry in entries:
        path = expand_path(entry, variables, "sandbox.writable")
        if path is None:
            continue
        real = Path(os.path.realpath(path))
        base = variables.root or variables.cwd
        bases = (base, Path(os.path.realpath(base)))
        if entry not in _PLACES and _within(path, bases) and not _within(real, bases[1:]):
            raise ConfigError(
                f"sandbox.writable holds {entry!r}, which leads out of the project to {str(real)!r}; "
                "write that path out if it is meant."
            )
        found.append(real)
    return found


def _literal(text: str, variables: PathVariables) -> Path | None:
    if not text:
        return None
    if "\0" in text:
        raise ConfigError("A path of the sandbox holds a NUL character; leave it out.")
    if text == "~" or text.startswith("~/"):
        return variables.home / text[1:].lstrip("/")
    return (variables.root or variables.cwd) / text


def _deduplicated(paths: Iterable[Path]) -> tuple[Path, ...]:
    kept: list[Path] = []
    for path in sorted(paths):
        if not _within(path, kept):
            kept.append(path)
    return tuple(kept)


def _within(path: Path, folders: Iterable[Path]) -> bool:
    return any(is_inside(str(path), str(folder)) for folder in folders)


def is_inside(path: str, folder: str) -> bool:
    """Whether an absolute path is a folder or lies in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _login_home(otherwise: Path) -> Path:
    """The home folder of the account: keys lie there even if HOME says another folder."""
    try:
        import pwd

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        return otherwise
