"""The manifest of requirements: one sentence each, its status, and the function that enforces it (the guard)."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

MANIFEST: Final = Path("tests/spec/requirements.toml")
Status = Literal["planned", "done"]

_ID: Final = re.compile(r"[A-Z][0-9]{1,2}[a-z]?")
_GUARD: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_ARGUMENT: Final = re.compile(r"args[0-9]")
_FIELDS: Final = frozenset({"says", "status", "guard", "mutant"})


class ManifestError(Exception):
    """The manifest is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    id: str
    says: str
    status: Status
    guard: str | None = None
    """`module:qualname` of the function that enforces the requirement."""
    mutant: str = "raise"
    """What the guard does when disabled: `raise`, `return:<literal>`, or `return:argsN` (its Nth argument)."""

    @property
    def done(self) -> bool:
        return self.status == "done"


def load_manifest(path: Path = MANIFEST) -> dict[str, Requirement]:
    """Return the requirements by id, in file order."""
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ManifestError(f"{path}: {error}") from None
    return {name: _requirement(name, cast(dict[str, Any], fields)) for name, fields in table.items()}


def covered_by(requirement: str, carried: str) -> bool:
    """Whether a test marked with `carried` proves a requirement: the same one, or as a part (A13a) the whole (A13)."""
    return carried == requirement or (carried[:-1] == requirement and carried[-1].isalpha())


def is_mutant(text: str) -> bool:
    kind, _, value = text.partition(":")
    if kind == "raise":
        return not value
    if kind != "return":
        return False
    if _ARGUMENT.fullmatch(value):
        return True
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return False
    return True


def _requirement(name: str, fields: dict[str, Any]) -> Requirement:
    def wrong(why: str) -> ManifestError:
        return ManifestError(f"requirement {name}: {why}")

    if not _ID.fullmatch(name):
        raise wrong("the id must be a capital letter, a number and, for a part, one lower-case letter")
    if unknown := fields.keys() - _FIELDS:
        raise wrong(f"unknown field {', '.join(sorted(unknown))}")
    if not isinstance(says := fields.get("says"), str) or not says.strip():
        raise wrong("`says` must be a sentence")
    if (status := fields.get("status")) not in ("planned", "done"):
        raise wrong("`status` must be planned or done")
    guard = fields.get("guard")
    if guard is not None and (not isinstance(guard, str) or not _GUARD.fullmatch(guard)):
        raise wrong("`guard` must be module:qualname")
    if status == "done" and guard is None:
        raise wrong("a done requirement needs a `guard`")
    mutant = fields.get("mutant", "raise")
    if not isinstance(mutant, str) or not is_mutant(mutant):
        raise wrong("`mutant` must be raise, return:<literal> or return:argsN")
    return Requirement(id=name, says=says, status=status, guard=guard, mutant=mutant)
