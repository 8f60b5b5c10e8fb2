"""Compatibility with Flemma: the options of `flemma.opt` and their places in holdfast's configuration.

Flemma is the Neovim plugin whose `.chat` format and options holdfast reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast, get_args

from holdfast.config.config import Config, ModelApi, ModelProvider, SandboxConfig, effective_options
from holdfast.config.options import options

Path = tuple[str, ...]

TOOLS: Final = ("tools",)
AUTO_APPROVE: Final = ("tools", "auto_approve")
PRESETS: Final = ("tools", "presets")
AUTOPILOT: Final = ("tools", "autopilot")
SANDBOX: Final = ("sandbox",)
MODEL: Final = ("model",)
PROVIDER: Final = ("provider",)
LISTS: Final = (TOOLS, AUTO_APPROVE)

SCALARS: Final[dict[Path, Path]] = {
    ("agent",): ("agent",),
    ("skill",): ("skill",),
    ("thinking",): ("model", "thinking"),
    ("cache_retention",): ("model", "cache_retention"),
    ("max_tokens",): ("model", "max_tokens"),
    ("temperature",): ("model", "temperature"),
    ("timeout",): ("model", "timeout"),
    ("files",): ("chat", "files"),
    ("tools", "require_approval"): ("approval", "require_approval"),
    ("tools", "auto_approve_sandboxed"): ("approval", "auto_approve_sandboxed"),
    ("tools", "max_concurrent"): ("tools", "max_concurrent"),
    ("tools", "default_timeout"): ("tools", "default_timeout"),
    ("tools", "cursor_after_result"): ("chat", "cursor_after_result"),
    (*AUTOPILOT, "enabled"): ("chat", "autopilot"),
    (*AUTOPILOT, "max_turns"): ("chat", "max_turns"),
    ("sandbox", "backend"): ("sandbox", "backend"),
    ("sandbox", "policy", "rw_paths"): ("sandbox", "writable"),
    **{("sandbox", name): ("sandbox", name) for name in options(SandboxConfig)},
}
_ALIASES: Final[dict[Path, Path]] = {
    ("tools", "approve"): AUTO_APPROVE,
    ("parameters",): (),
    # The names of holdfast's own layout.
    ("document", "tools"): TOOLS,
    ("approval", "auto_approve"): AUTO_APPROVE,
    ("approval", "presets"): PRESETS,
}
_PROVIDERS: Final = (*cast(tuple[str, ...], get_args(ModelApi)), "ollama")
_OTHERS: Final = (
    TOOLS, AUTO_APPROVE, ("tools", "approve"), PRESETS, AUTOPILOT, SANDBOX, (*SANDBOX, "enabled"),
    (*SANDBOX, "policy", "network"), MODEL, PROVIDER, ("parameters",),
)  # fmt: skip


def real_path(path: Path) -> Path:
    """The path with aliases resolved."""
    for alias, meant in _ALIASES.items():
        if path[: len(alias)] == alias:
            return real_path((*meant, *path[len(alias) :]))
    return path


def providers(config: Config) -> tuple[str, ...]:
    return (*_PROVIDERS, *config.model.providers)


def target(path: Path, config: Config) -> Path | None:
    """The configuration option of a single value; None if there is none."""
    if path in SCALARS:
        return SCALARS[path]
    if len(path) == 2 and path[0] in providers(config) and path[1] in options(ModelProvider):
        return ("model", "providers", *path)
    return None


def kind_of(place: Path) -> Any:
    """The type of a configuration option."""
    if place[:2] == ("model", "providers"):
        return options(ModelProvider)[place[3]].kind
    section, *name = place
    found = options(Config)[section]
    return options(found.kind)[name[0]].kind if name else found.kind


def is_unknown(path: Path, config: Config) -> bool:
    """Whether no option has this path or starts with it."""
    return path[:2] != PRESETS and _first_unknown(path, _names(config)) is not None


def known_beside(path: Path, config: Config) -> tuple[str, list[str]]:
    """The first unknown part of a path, and the known names in its place."""
    names = _names(config)
    at = _first_unknown(path, names)
    if at is None:
        return path[-1] if path else "", _after(path, names)
    return path[at], _after(path[:at], names)


def _names(config: Config) -> list[Path]:
    return [*SCALARS, *_OTHERS, *((name, key) for name in providers(config) for key in options(ModelProvider))]


def _first_unknown(path: Path, names: list[Path]) -> int | None:
    for length in range(1, len(path) + 1):
        if not any(known[:length] == path[:length] for known in names):
            return length - 1
    return None


def readable(config: Config) -> dict[str, Any]:
    """The values that a frontmatter can read, by Flemma's names."""
    values = effective_options(config)
    return {".".join(path): values[".".join(place)] for path, place in SCALARS.items() if path[0] != "sandbox"}


def _after(before: Path, names: Iterable[Path]) -> list[str]:
    at = len(before)
    return sorted({known[at] for known in names if len(known) > at and known[:at] == before})
