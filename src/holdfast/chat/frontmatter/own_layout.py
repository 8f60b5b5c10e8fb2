"""Frontmatter in holdfast's own layout: what a `holdfast.toml` may say, and `document.tools` for the list of tools."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any, Final, cast

from holdfast.chat.frontmatter.draft import Draft
from holdfast.chat.frontmatter.evaluated import Base
from holdfast.chat.frontmatter.lines import Lines
from holdfast.chat.frontmatter.seed_options import Path
from holdfast.config.merge import operations, overlay
from holdfast.contract.errors import ConfigError

Table = dict[str, Any]
TOOLS: Final = ("document", "tools")
AUTO_APPROVE: Final = ("approval", "auto_approve")
PRESETS: Final = ("approval", "presets")
OWN: Final = (TOOLS, AUTO_APPROVE, PRESETS)


def where_own(path: Path, prefix: str = "") -> str:
    return prefix + ".".join(path)


def take_own(draft: Draft, given: Table, base: Base, lines: Lines, prefix: str = "") -> Table:
    """Give the draft the lists whose names are checked; the rest is checked here and handed back."""
    rest = {key: dict(cast(Table, value)) if isinstance(value, dict) else value for key, value in given.items()}
    document = rest.pop("document", {})
    if not isinstance(document, dict):
        draft.complain(f"{prefix}document: expected a table with 'tools'.", lines.of("document"))
    else:
        table = cast(Table, document)
        _take_list(draft, TOOLS, table.pop("tools", None), lines)
        for key in table:
            draft.complain(f"{prefix}document.{key} is not an option; known here is tools.", lines.of(key))
    approval = rest.get("approval")
    if isinstance(approval, dict):
        table = cast(Table, approval)
        _take_presets(draft, table, lines)
        if not isinstance(table.get("auto_approve"), str):
            _take_list(draft, AUTO_APPROVE, table.pop("auto_approve", None), lines)
    try:
        overlay(base.config, rest, name=prefix.rstrip(".") or "frontmatter", folder=FilePath("/"), user_level=False)
    except ConfigError as error:
        draft.complain(str(error), _line_of_problem(lines, str(error)))
        return {}
    return rest


def _take_list(draft: Draft, path: Path, given: object, lines: Lines) -> None:
    line = lines.of(path[-1])
    if given is None:
        return
    if not isinstance(given, dict):
        draft.assign(path, given, line)
        return
    try:
        steps = operations(cast(Table, given), where_own(path))
    except ConfigError as error:
        draft.complain(str(error), line)
        return
    for operation, names in steps.items():
        if operation == "set":
            draft.assign(path, list(names), line)
        else:
            draft.edit(path, operation, list(names), line)


def _take_presets(draft: Draft, approval: Table, lines: Lines) -> None:
    presets = approval.get("presets")
    if not isinstance(presets, dict):
        return  # whatever else it is, the configuration refuses it
    for name, sides in cast(Table, approval.pop("presets")).items():
        line = lines.of(name)
        table = cast(Table, sides) if isinstance(sides, dict) else {"": sides}
        draft.assign((*PRESETS, name), [], line)
        for side, names in table.items():
            draft.assign((*PRESETS, name, side), names, line)


def _line_of_problem(lines: Lines, message: str) -> int | None:
    """Where the option stands that a message begins with."""
    option = message.removeprefix("frontmatter: ").removeprefix("holdfast: ").partition(":")[0].partition(" ")[0]
    return lines.of(option.rpartition(".")[2].strip('"'))
