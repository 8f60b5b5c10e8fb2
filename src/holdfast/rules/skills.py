"""What a skill may use, from its `manifest.json`. Whatever cannot be read gives no tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from holdfast.contract.errors import BadJson
from holdfast.contract.values import Json, parse_json
from holdfast.rules.profiles import GROUP_PREFIX

MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 256 * 1024


class SkillPermissions(Struct, frozen=True):
    """The only tools a skill may use."""

    allow: tuple[str, ...]
    """Names, patterns and groups; empty means no tools at all."""
    reason: str
    """Where the list comes from, or why there is none."""


def no_tools(reason: str) -> SkillPermissions:
    return SkillPermissions((), reason)


NO_MANIFEST: Final = no_tools(f"it has no {MANIFEST}")


IsTrusted = Callable[[Path, str], bool]
"""Whether a person trusted a file with exactly this digest."""


def read_skills(folders: Mapping[str, str], is_trusted: IsTrusted | None = None) -> dict[str, SkillPermissions]:
    return {name: read_skill(Path(folder), is_trusted) for name, folder in folders.items()}


def read_skill(folder: Path, is_trusted: IsTrusted | None = None) -> SkillPermissions:
    """The permissions of the skill in a folder; with `is_trusted` only if a person trusted the manifest as it is."""
    try:
        path = manifest_of(folder)
        if not path.is_file():
            return NO_MANIFEST
        with path.open("rb") as file:
            content = file.read(MAX_MANIFEST_BYTES + 1)
    except (OSError, ValueError) as error:
        return no_tools(f"its {MANIFEST} cannot be read: {getattr(error, 'strerror', None) or error}")
    if is_trusted is not None and not is_trusted(path, digest_of(content)):
        return no_tools(f"its {MANIFEST} is not what you trusted; read it, then run `holdfast trust {path}`")
    return parse_manifest(content)


def manifest_of(folder: Path) -> Path:
    """Where the manifest of a skill is, as it is trusted and protected."""
    return Path(os.path.realpath(folder), MANIFEST)


def digest_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def parse_manifest(text: str | bytes) -> SkillPermissions:
    """The permissions a manifest states: `permissions.tools`, else `permissions.tool_groups`, else none."""
    try:
        manifest = parse_json(text, limit=MAX_MANIFEST_BYTES)
    except BadJson as error:
        return no_tools(f"its {MANIFEST} is malformed: {error}")
    permissions = manifest.get("permissions") if isinstance(manifest, dict) else None
    if not isinstance(permissions, dict):
        return no_tools(f"its {MANIFEST} has no `permissions`")
    for field in ("tools", "tool_groups"):
        if field in permissions:
            return _listed(field, permissions[field])
    return no_tools(f"its {MANIFEST} permits neither `tools` nor `tool_groups`")


def _listed(field: str, names: Json) -> SkillPermissions:
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        return no_tools(f"`permissions.{field}` of its {MANIFEST} is not a list of names")
    allow = cast(list[str], names)
    if field == "tool_groups":
        allow = [GROUP_PREFIX + name.removeprefix(GROUP_PREFIX) for name in allow]
    return SkillPermissions(tuple(allow), f"`permissions.{field}` of its {MANIFEST}")
