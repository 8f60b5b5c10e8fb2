"""The layers of the configuration, read and put together: defaults < user < project < document < flags.

A file that cannot be read, understood or obeyed raises `ConfigError`; it never means "carry on without it".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.config.layers import IsTrusted, Layer, document_layer, flags_layer, project_layer, user_layer
from holdfast.config.model import Config
from holdfast.config.overlay import overlay
from holdfast.config.roots import user_config_file
from holdfast.config.strictness import looser_options
from holdfast.config.trust_rules import held_back, take_user_only, tighten
from holdfast.contract.errors import ConfigError

_MAX_KEYS_SHOWN: Final = 8


class LayerReport(Struct, frozen=True, kw_only=True):
    """What became of one layer."""

    name: str
    """user, project, document or flags."""
    path: str | None
    digest: str
    trusted: bool
    applied: bool
    """Whether anything of it took effect."""
    keys: tuple[str, ...] = ()
    """The options it sets."""
    ignored: tuple[str, ...] = ()
    """The options in which it did not, or not wholly, get what it asked for."""


class Loaded(Struct, frozen=True, kw_only=True):
    config: Config
    outer: Config
    """The same without the document: what still denies when a trusted document decides about approvals."""
    layers: tuple[LayerReport, ...] = ()
    notices: tuple[str, ...] = ()

    def layer(self, name: str) -> LayerReport | None:
        return next((layer for layer in self.layers if layer.name == name), None)


def load(
    *,
    root: Path | None,
    is_trusted: IsTrusted,
    user_file: Path | None = None,
    document: Mapping[str, Any] | None = None,
    document_trusted: bool = False,
    document_name: str | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Loaded:
    """Read every layer and apply it under the trust rules. Flags are keyed by option: `tools.profile`."""
    found = (
        user_layer(user_file, root),
        None if root is None else project_layer(root, is_trusted),
        None if document is None else document_layer(document, document_name, root, document_trusted),
        flags_layer(flags) if flags else None,
    )
    layers = [layer for layer in found if layer is not None]
    config, reports, notices = _stack(layers)
    outer = config
    if document is not None:
        outer, _, _ = _stack([layer for layer in layers if layer.name != "document"])
    return Loaded(config=config, outer=outer, layers=tuple(reports), notices=tuple(notices))


def _stack(layers: Sequence[Layer]) -> tuple[Config, list[LayerReport], list[str]]:
    config, reports, notices = Config(), list[LayerReport](), list[str]()
    for layer in layers:
        config, report, said = _apply(config, layer)
        reports.append(report)
        notices += said
    return config, reports, notices


def _apply(base: Config, layer: Layer) -> tuple[Config, LayerReport, list[str]]:
    table, refused = (layer.table, list[str]()) if layer.user_level else take_user_only(layer.table)
    wanted, keys, notes = overlay(
        base, table, name=layer.label, folder=layer.folder, user_level=layer.user_level
    )
    result, ignored = wanted, list[str]()
    if not layer.trusted:
        result = tighten(base, wanted)
        ignored = held_back(result, wanted)
        if looser := looser_options(result, base):
            raise ConfigError(f"{layer.label} would loosen {', '.join(looser)}; {layer.remedy}, or take them out.")
    report = LayerReport(
        name=layer.name,
        path=None if layer.path is None else str(layer.path),
        digest=layer.digest,
        trusted=layer.trusted,
        applied=result != base,
        keys=keys,
        ignored=(*ignored, *refused),
    )
    return result, report, [*notes, *_notices(layer, ignored, refused)]


def _notices(layer: Layer, ignored: Sequence[str], refused: Sequence[str]) -> list[str]:
    said: list[str] = []
    if ignored:
        said.append(
            f"{layer.label} is not trusted and can only tighten, so these count as limits only: {_some(ignored)}; "
            f"read it, then {layer.remedy}."
        )
    if refused:
        said.append(
            f"{layer.label} sets {_some(refused)}, which is taken only from user-level config; "
            f"move it to {user_config_file()}."
        )
    return said


def _some(keys: Sequence[str]) -> str:
    shown = ", ".join(keys[:_MAX_KEYS_SHOWN])
    return shown if len(keys) <= _MAX_KEYS_SHOWN else f"{shown} and {len(keys) - _MAX_KEYS_SHOWN} more"
