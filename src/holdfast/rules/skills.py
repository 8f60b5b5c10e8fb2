"""Finds skills: those of the user, those that the configuration names, and those in the project that are trusted.

A skill in the project, or one that the configuration names, counts only with exactly the content that the user trusted:
`SKILL.md` and `manifest.json`. A skill in the user's configuration folder is trusted like the configuration itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.config import Config
from holdfast.config.roots import inside_project
from holdfast.contract.errors import ConfigError, SkillRefused
from holdfast.contract.skills import LoadedSkill, SkillSummary
from holdfast.fs.beneath import FOLDER_FLAGS, FolderTree, NotRegular, open_descriptor, open_file_beneath, read_regular
from holdfast.fs.own_paths import config_folder
from holdfast.rules.policy import check_agent
from holdfast.rules.skill_file import (
    MANIFEST,
    MAX_SKILL_BYTES,
    NO_MANIFEST,
    SKILL_FILE,
    InvalidSkill,
    SkillPermissions,
    SkillText,
    no_tools,
    parse_skill_file,
    permissions_of,
)
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean

Origin = Literal["user", "configured", "project"]
SkillState = Literal["ok", "untrusted", "changed", "invalid", "shadowed"]
PROJECT_FOLDERS: Final = (".agents/skills", ".holdfast/skills", ".claude/skills")
"""Where a project keeps skills, in order of precedence."""
USER_FOLDER: Final = "skills"
"""Below the user's configuration folder."""
MAX_FILE_BYTES: Final = 1024 * 1024
_MAX_SKILLS: Final = 500
_MAX_FILES: Final = 200
_MAX_DEPTH: Final = 5
_MAX_ENTRIES: Final = 5000

IsTrusted = Callable[[Path, str], bool]
"""Whether the user trusted a file with exactly this digest."""
IsKnown = Callable[[Path], bool]
"""Whether the user trusted some content of this file."""


class SkillContent(Struct, frozen=True):
    """The two files of a skill that are trusted together."""

    folder: Path
    """Resolved."""
    skill: bytes | None = None
    manifest: bytes | None = None

    @property
    def exists(self) -> bool:
        return self.skill is not None or self.manifest is not None

    @property
    def trusted_file(self) -> Path:
        """The path that trust is recorded for."""
        return self.folder / (MANIFEST if self.skill is None else SKILL_FILE)

    @property
    def digest(self) -> str:
        if self.skill is None:
            return digest_of(self.manifest or b"")
        # The lengths keep the end of one file from being taken for the start of the other.
        files = ((SKILL_FILE, self.skill), (MANIFEST, self.manifest))
        parts = (b"%s %d\n%s" % (name.encode(), len(data), data) for name, data in files if data is not None)
        return digest_of(b"".join(parts))


def digest_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def read_content(folder: Path) -> SkillContent:
    """Read the two files, without following symlinks. Raises `InvalidSkill` if one exists and cannot be read."""
    try:
        real = Path(os.path.realpath(folder))
        with open_descriptor(real, FOLDER_FLAGS) as at:
            return SkillContent(real, _read(SKILL_FILE, at), _read(MANIFEST, at))
    except FileNotFoundError:
        return SkillContent(folder)
    except (OSError, ValueError) as error:
        raise InvalidSkill(f"its folder cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _read(name: str, folder: int) -> bytes | None:
    try:
        return read_regular(name, MAX_SKILL_BYTES + 1, folder)
    except FileNotFoundError:
        return None
    except NotRegular as error:
        raise InvalidSkill(f"its {name} {error}") from None
    except OSError as error:
        raise InvalidSkill(f"its {name} cannot be read: {error.strerror}") from None


def read_skills(folders: Mapping[str, str], is_trusted: IsTrusted | None = None) -> dict[str, SkillPermissions]:
    return {name: read_skill(Path(folder), is_trusted) for name, folder in folders.items()}


def read_skill(folder: Path, is_trusted: IsTrusted | None = None) -> SkillPermissions:
    """The permissions of the skill in a folder; with `is_trusted`, none unless the user trusted exactly its content."""
    return _examine(folder.name, folder, "configured", is_trusted).permissions


class Skill(Struct, frozen=True, kw_only=True):
    """A skill as it was found, and whether it can be used."""

    name: str
    origin: Origin
    folder: Path
    """As found, not resolved."""
    state: SkillState
    problem: str = ""
    """Why it cannot be used."""
    permissions: SkillPermissions = NO_MANIFEST
    """The tools that a caller in this skill can use; none unless the state is ok."""
    text: SkillText | None = None
    """None without a readable `SKILL.md`."""
    content: SkillContent | None = None

    @property
    def usable(self) -> bool:
        return self.state == "ok"


def _examine(
    name: str, folder: Path, origin: Origin, is_trusted: IsTrusted | None, is_known: IsKnown | None = None
) -> Skill:
    found = Skill(name=name, origin=origin, folder=folder, state="invalid")
    try:
        content = read_content(folder)
        if not content.exists:
            return replace(found, problem=f"it has neither {SKILL_FILE} nor {MANIFEST}")
        text = None if content.skill is None else parse_skill_file(content.skill)
        real = content.folder.name
        if text is not None and text.name not in (folder.name, real):
            raise InvalidSkill(f"its {SKILL_FILE} says that its name is '{text.name}', but its folder is '{real}'")
    except InvalidSkill as error:
        return replace(found, problem=str(error), permissions=no_tools(str(error)))
    found = replace(found, text=text, content=content)
    path = content.trusted_file
    if is_trusted is not None and not is_trusted(path, content.digest):
        changed = is_known is None or is_known(path)
        problem = (
            f"its {path.name} {'changed since you trusted it' if changed else 'is not trusted'}; "
            f"review it, then run `holdfast trust {path}`"
        )
        state = "changed" if changed else "untrusted"
        return replace(found, state=state, problem=problem, permissions=no_tools(problem))
    return replace(found, state="ok", permissions=permissions_of(text, content.manifest))


class SkillCatalog:
    """The skills of a project and its user. Satisfies `SkillLibrary`. Reads the files each time it is asked."""

    def __init__(
        self,
        configured: Mapping[str, str],
        *,
        root: Path | None,
        is_trusted: IsTrusted,
        is_known: IsKnown,
        user_folder: Path | None = None,
    ) -> None:
        self._configured = configured
        self._root = root
        self._is_trusted = is_trusted
        self._is_known = is_known
        self._user_folder = config_folder() / USER_FOLDER if user_folder is None else user_folder
        self.permissions: Mapping[str, SkillPermissions] = _PermissionsBySkill(self)
        """The tools of each skill that can be used, for the policy. Each is read once."""

    def all(self) -> list[Skill]:
        """Every skill, sorted by name; those that another one hides behind it."""
        seen: dict[str, Skill] = {}
        found: list[Skill] = []
        for skill in self._each():
            first = seen.setdefault(skill.name, skill)
            problem = f"the skill of the same name in {first.folder} is used instead"
            hidden = replace(skill, state="shadowed", problem=problem, permissions=no_tools(problem))
            found.append(skill if first is skill else hidden)
        return sorted(found, key=lambda skill: (skill.name, skill.state == "shadowed"))

    def find(self, name: str) -> Skill | None:
        """The skill of this name, in whatever state."""
        return next((skill for skill in self._each(name)), None)

    def usable(self, name: str) -> Skill:
        """The skill of this name. Raises `SkillRefused` if there is none, or if it cannot be used."""
        skill = self.find(name)
        if skill is None:
            known = [each.name for each in self.all() if each.state != "shadowed"]
            meant = did_you_mean(name, known)
            hint = f"Did you mean '{escape(meant)}'?" if meant else "`holdfast tools --skills` lists them."
            raise SkillRefused(f"There is no skill '{escape(name[:80])}'. {hint}")
        if not skill.usable:
            raise SkillRefused(f"The skill '{escape(name)}' cannot be used: {escape(skill.problem)}.")
        return skill

    def check_entered(self, config: Config) -> None:
        """Raise `ConfigError` if the configuration enters a skill or an agent that does not exist or cannot be used."""
        if config.skill is not None:
            try:
                self.usable(config.skill)
            except SkillRefused as error:
                raise ConfigError(str(error)) from None
        check_agent(config)

    # The library that `skill.load` reads

    def summaries(self) -> tuple[Sequence[SkillSummary], int]:
        found = [skill for skill in self.all() if skill.state != "shadowed"]
        loadable = [
            SkillSummary(name=skill.name, description=skill.text.description)
            for skill in found
            if skill.usable and skill.text is not None
        ]
        return loadable, len(found) - len(loadable)

    def load(self, name: str) -> LoadedSkill:
        skill, text, folder = self._loadable(name)
        files, more = _list_files(folder)
        return LoadedSkill(
            name=skill.name,
            description=text.description,
            instructions=text.instructions,
            folder=self._reachable(folder),
            files=files,
            more_files=more,
            tools=skill.permissions.named or None,
        )

    def read_file(self, name: str, file: str, is_secret: Callable[[Path], bool]) -> bytes:
        _, _, folder = self._loadable(name)
        path = Path(os.path.normpath(folder / file))
        refused = f"'{escape(file[:200])}' of the skill '{escape(name)}'"
        if "\0" in file or Path(file).is_absolute() or path == folder or not path.is_relative_to(folder):
            raise SkillRefused(f"{refused} is not a path inside the skill. Use one of the files that it lists.")
        if is_secret(path):
            raise SkillRefused(f"{refused} can hold secrets (sandbox.read_deny), so it is not loaded.")
        try:
            with open_file_beneath(folder, path) as descriptor:
                content = os.read(descriptor, MAX_FILE_BYTES + 1)
        except NotRegular as error:
            raise SkillRefused(f"{refused} {error}.") from None
        except OSError as error:
            hint = "Load the skill without `file` to list its files."
            reason = (error.strerror or "unknown error").lower()
            raise SkillRefused(f"{refused} cannot be read: {reason}. {hint}") from None
        if len(content) > MAX_FILE_BYTES:
            raise SkillRefused(f"{refused} is larger than {MAX_FILE_BYTES // 1024} KB, so it is not loaded.")
        return content

    def _loadable(self, name: str) -> tuple[Skill, SkillText, Path]:
        skill = self.usable(name)
        if skill.text is None or skill.content is None:
            raise SkillRefused(f"The skill '{escape(name)}' has no {SKILL_FILE}, so it has no instructions to load.")
        return skill, skill.text, skill.content.folder

    def _reachable(self, folder: Path) -> str | None:
        """The folder as commands of the project name it."""
        root = None if self._root is None else Path(os.path.realpath(self._root))
        return None if root is None or not folder.is_relative_to(root) else str(folder.relative_to(root))

    # Discovery

    def _each(self, name: str | None = None) -> Iterator[Skill]:
        """Every skill (or those of one name), in order of precedence."""
        yield from self._in_folder(self._user_folder, self._user_folder, "user", name)
        for key in self._configured if name is None else (name,):
            if key in self._configured:
                folder = Path(self._configured[key])
                yield _examine(key, folder, "configured", self._trust_of(folder), self._is_known)
        if self._root is not None:
            for folder in PROJECT_FOLDERS:
                yield from self._in_folder(self._root / folder, self._root, "project", name)

    def _in_folder(self, folder: Path, top: Path, origin: Origin, only: str | None) -> Iterator[Skill]:
        """The skills in the subfolders of a folder; one that leads outside of `top` is invalid."""
        for name in _subfolders(folder) if only is None else ([only] if _is_folder_name(only) else []):
            path = folder / name
            if not _has_skill(path):
                continue
            if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(top)):
                problem = f"it is a symbolic link to a place outside of {top}; name that folder in tools.skills instead"
                yield Skill(name=name, origin=origin, folder=path, state="invalid", problem=problem)
            else:
                yield _examine(name, path, origin, self._trust_of(path), self._is_known)

    def _trust_of(self, folder: Path) -> IsTrusted | None:
        """None for a folder that is trusted like the user's configuration, where no tool and no project can write."""
        user = Path(os.path.realpath(self._user_folder))
        within = Path(os.path.realpath(folder)).is_relative_to(user)
        is_users = within and (self._root is None or not inside_project(self._user_folder, self._root))
        return None if is_users else self._is_trusted


class _PermissionsBySkill(Mapping[str, SkillPermissions]):
    """The permissions of skills by name, read when they are asked for: most runs enter none."""

    def __init__(self, catalog: SkillCatalog) -> None:
        self._catalog = catalog
        self._known: dict[str, SkillPermissions] = {}

    def __getitem__(self, name: str) -> SkillPermissions:
        if name not in self._known:
            skill = self._catalog.find(name)
            if skill is None:
                raise KeyError(name)
            self._known[name] = skill.permissions
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(skill.name for skill in self._catalog.all()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _is_folder_name(name: str) -> bool:
    return name.isprintable() and "/" not in name and not name.startswith(".") and bool(name)


def _subfolders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if _is_folder_name(entry.name))
    except OSError:
        return []
    return names[:_MAX_SKILLS]


def _has_skill(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in (SKILL_FILE, MANIFEST))


def _list_files(folder: Path) -> tuple[tuple[str, ...], bool]:
    """The other files of a skill, without hidden ones and symlinks, and whether some were left out."""
    found: list[str] = []
    more = False
    with suppress(OSError), FolderTree(folder) as tree:
        entries = tree.walk(enter=lambda path: path.count("/") < _MAX_DEPTH and not _is_hidden(path))
        files = (item.path for item in islice(entries, _MAX_ENTRIES) if item.entry.is_file(follow_symlinks=False))
        found += (path for path in files if not _is_hidden(path))
        more = next(entries, None) is not None
    listed = sorted(path for path in found if path not in (SKILL_FILE, MANIFEST))
    return tuple(listed[:_MAX_FILES]), more or len(listed) > _MAX_FILES


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))
