"""The files of a skill: `SKILL.md` of the Agent Skills format, and `manifest.json`, which lists permissions.

Anything invalid gives no tools. A skill with both files has the tools that both name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final, cast

from msgspec import Struct, field

from holdfast.contract.errors import BadJson
from holdfast.contract.json import Json, parse_json
from holdfast.contract.names import GROUP_PREFIX
from holdfast.text.front_matter import BadFrontMatter, FrontMatter, read_front_matter

SKILL_FILE: Final = "SKILL.md"
MANIFEST: Final = "manifest.json"
MAX_SKILL_BYTES: Final = 256 * 1024
"""The most that either file may contain."""
MAX_DESCRIPTION: Final = 1024
ALLOWED_TOOLS: Final = "allowed-tools"
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_MAX_NAME: Final = 64
_ENTRY: Final = re.compile(r"[^\s,()]+(?:\([^()]*\))?")
_ENTRIES: Final = re.compile(rf"[\s,]*(?:{_ENTRY.pattern}(?:[\s,]+|$))*")
_CALL: Final = re.compile(r"([A-Za-z]+)\((.*)\)")
_GIT: Final = re.compile(r"git(?: (status|diff|log))?(?: \*|:\*)?")
_GIT_TOOLS: Final = ("git.status", "git.diff", "git.log")

_OUR_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "Read": ("file.read",), "Write": ("file.write",), "Edit": ("file.edit",), "MultiEdit": ("file.edit",),
    "LS": ("file.list",), "Glob": ("file.find",), "Grep": ("code.search",), "Bash": ("bash",),
    "WebFetch": ("web.fetch",), "WebSearch": ("web.search",), "AskUserQuestion": ("ask.user",),
    "Skill": ("skill.load",),
}  # fmt: skip
"""Tools as other agents spell them in `allowed-tools`, each with ours that do no more than that."""


class SkillPermissions(Struct, frozen=True):
    """The tools a skill may use: those in `allow` that are also in `within`, if that is a list."""

    allow: tuple[str, ...]
    """Names, patterns and groups; empty means no tools."""
    reason: str
    """Where the list comes from, or why it is empty."""
    within: tuple[str, ...] | None = None
    """A second list that must name the tool as well."""
    dropped: tuple[str, ...] = ()
    """Entries of `allowed-tools` that no tool of holdfast is as narrow as; they allow nothing."""

    @property
    def named(self) -> tuple[str, ...]:
        """The entries that both lists cover, as far as names and patterns tell; groups are taken as they are."""
        if self.within is None:
            return self.allow
        pairs = ((self.allow, self.within), (self.within, self.allow))
        found = (entry for own, other in pairs for entry in own if any(_covers(pattern, entry) for pattern in other))
        return tuple(dict.fromkeys(found))


def _covers(pattern: str, entry: str) -> bool:
    return pattern.startswith(GROUP_PREFIX) or fnmatchcase(entry, pattern)


def no_tools(reason: str) -> SkillPermissions:
    return SkillPermissions((), reason)


NO_MANIFEST: Final = no_tools(f"it has no {MANIFEST}")


class InvalidSkill(ValueError):
    """The message completes "the skill is invalid: …"."""


class SkillText(Struct, frozen=True, kw_only=True):
    """What `SKILL.md` says."""

    name: str
    description: str
    instructions: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    allowed: tuple[str, ...] | None = None
    """`allowed-tools` in our names; None without that key."""
    dropped: tuple[str, ...] = ()


def parse_skill_file(content: bytes) -> SkillText:
    """Parse `SKILL.md`. Raises `InvalidSkill`."""
    if len(content) > MAX_SKILL_BYTES:
        raise InvalidSkill(f"its {SKILL_FILE} is larger than {MAX_SKILL_BYTES // 1024} KB")
    try:
        front = read_front_matter(content.decode())
        if front is None:
            raise InvalidSkill(f"its {SKILL_FILE} does not begin with front matter (`---`)")
        return _skill_text(front)
    except UnicodeDecodeError:
        raise InvalidSkill(f"its {SKILL_FILE} is not UTF-8 text") from None
    except BadFrontMatter as error:
        raise InvalidSkill(f"the front matter of its {SKILL_FILE} {error}") from None


def _skill_text(front: FrontMatter) -> SkillText:
    name, description = front.text("name") or "", front.text("description") or ""
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise InvalidSkill(
            f"`name` of its {SKILL_FILE} must be 1 to {_MAX_NAME} lower-case letters, digits and hyphens, not '{name}'"
        )
    if not description.strip():
        raise InvalidSkill(f"its {SKILL_FILE} has no `description`")
    allowed, dropped = None, ()
    listed = front.texts(ALLOWED_TOOLS)
    if listed is not None:
        allowed, dropped = our_names([listed] if isinstance(listed, str) else listed)
    return SkillText(
        name=name,
        description=" ".join(description.split())[:MAX_DESCRIPTION],
        instructions=front.body.strip("\r\n"),
        license=front.text("license") or "",
        compatibility=front.text("compatibility") or "",
        metadata=front.table("metadata"),
        allowed=allowed,
        dropped=dropped,
    )


def our_names(entries: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Translate `allowed-tools` into our names, and return what was dropped because we have nothing as narrow."""
    kept: dict[str, None] = {}
    dropped: dict[str, None] = {}
    for text in entries:
        for entry in _split(text):
            names = _translated(entry)
            (kept if names else dropped).update(dict.fromkeys(names or (entry,)))
    return tuple(kept), tuple(dropped)


def _split(text: str) -> list[str]:
    """The entries, separated by spaces or commas outside parentheses; a text that cannot be split is one entry."""
    return _ENTRY.findall(text) if _ENTRIES.fullmatch(text) else [text.strip()]


def _translated(entry: str) -> tuple[str, ...]:
    if entry in _OUR_NAMES:
        return _OUR_NAMES[entry]
    called = _CALL.fullmatch(entry)
    if called is None:
        # Names of other agents are in camel case; a name with a dot, a colon, an underscore or a pattern can be ours.
        return () if entry[:1].isupper() or "(" in entry or not entry.isprintable() else (entry,)
    tool, only = called[1], called[2].strip()
    if only in ("*", ""):
        return _OUR_NAMES.get(tool, ())
    if tool == "Bash" and (command := _GIT.fullmatch(only)):
        return (f"git.{command[1]}",) if command[1] else _GIT_TOOLS
    return ()  # an argument list narrows the tool in a way that a tool name cannot


def permissions_of(skill: SkillText | None, manifest: bytes | None) -> SkillPermissions:
    """The tools of a skill with these files: those that both lists name, or those of the only list."""
    allowed, dropped = (None, ()) if skill is None else (skill.allowed, skill.dropped)
    if manifest is not None:
        found = parse_manifest(manifest)
        if allowed is None:
            return found
        reason = f"{found.reason} and in `{ALLOWED_TOOLS}` of its {SKILL_FILE}" if found.allow else found.reason
        return SkillPermissions(found.allow, reason, allowed, dropped)
    if allowed is None:
        without = f"its {SKILL_FILE} has no `{ALLOWED_TOOLS}`, and {NO_MANIFEST.reason}"
        return NO_MANIFEST if skill is None else no_tools(without)
    return SkillPermissions(allowed, f"`{ALLOWED_TOOLS}` of its {SKILL_FILE}", None, dropped)


def parse_manifest(text: str | bytes) -> SkillPermissions:
    """The permissions in a manifest: `permissions.tools`, else `permissions.tool_groups`, else none."""
    try:
        manifest = parse_json(text, limit=MAX_SKILL_BYTES)
    except BadJson as error:
        return no_tools(f"its {MANIFEST} is malformed: {error}")
    permissions = manifest.get("permissions") if isinstance(manifest, dict) else None
    if not isinstance(permissions, dict):
        return no_tools(f"its {MANIFEST} has no `permissions`")
    for name in ("tools", "tool_groups"):
        if name in permissions:
            return _permissions_from_list(name, permissions[name])
    return no_tools(f"`permissions` of its {MANIFEST} has neither `tools` nor `tool_groups`")


def _permissions_from_list(field: str, names: Json) -> SkillPermissions:
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        return no_tools(f"`permissions.{field}` of its {MANIFEST} is not a list of names")
    allow = cast(list[str], names)
    if field == "tool_groups":
        allow = [GROUP_PREFIX + name.removeprefix(GROUP_PREFIX) for name in allow]
    return SkillPermissions(tuple(allow), f"`permissions.{field}` of its {MANIFEST}")
