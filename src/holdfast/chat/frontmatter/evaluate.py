"""Evaluates a frontmatter: one language after the other gives the same settings, tool edits, policy and variables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, cast

from msgspec import structs

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.frontmatter import json_source, lua_source
from holdfast.chat.frontmatter.draft import Draft
from holdfast.chat.frontmatter.evaluated import Base, Evaluated, digest_of_frontmatter
from holdfast.chat.frontmatter.json_source import NotAnObject, merged
from holdfast.chat.frontmatter.lines import Lines
from holdfast.chat.frontmatter.own_layout import take_own, where_own
from holdfast.chat.lua.host import LuaError, LuaHost, Script
from holdfast.chat.lua.values import has_number
from holdfast.config.merge import overlay, plain_table
from holdfast.contract.errors import BadJson, ConfigError
from holdfast.contract.values import digest_of
from holdfast.rules.chain import Resolve
from holdfast.text.visible import visible

MAX_CODE: Final = 1024 * 1024
MAX_SAID: Final = 100
_FIRST_LINE: Final = 2
"""The line of a document on which the code of its frontmatter begins."""
_AT: Final = re.compile(r" ?\(?at line (\d+),? column (\d+)\)?")
Table = dict[str, Any]


def evaluate(language: str, code: str, base: Base, lua: LuaHost, *, first_line: int = _FIRST_LINE) -> Evaluated:
    """Nothing is raised for what a document says: it is in the diagnostics, with lines of the document."""
    digest = digest_of_frontmatter(language, code)
    if len(code) > MAX_CODE:
        found = _failed(digest, f"The frontmatter is larger than {MAX_CODE:,} characters; make it shorter.")
    elif language.lower() == "lua":
        found = _lua(digest, code, base, lua, first_line)
    elif language.lower() == "json":
        found = _json(digest, code, base)
    elif language.lower() == "toml":
        found = _toml(digest, code, base)
    else:
        return _failed(digest, f"Unsupported frontmatter language: {language}", 1)
    shift = first_line - 1
    return structs.replace(
        found,
        diagnostics=tuple(
            structs.replace(item, line=None if item.line is None else item.line + shift)
            for item in _first(found.diagnostics)
        ),
    )


def _first(found: tuple[Diagnostic, ...]) -> list[Diagnostic]:
    """As many as somebody reads, by line; errors before warnings."""
    few = sorted(found, key=lambda item: (item.severity != "error", item.line or 0))[:MAX_SAID]
    few.sort(key=lambda item: item.line or 0)
    if len(found) > MAX_SAID:
        more = f"{len(found) - MAX_SAID:,} more things are wrong with the frontmatter; correct the others first."
        few.append(Diagnostic("warning", more))
    return few


def _lua(digest: str, code: str, base: Base, lua: LuaHost, first_line: int) -> Evaluated:
    try:
        draft, script, said = lua_source.run(code, base, lua)
    except LuaError as error:
        return _failed(digest, str(error), error.line)
    return _finished(digest, draft, base, said=said, script=script, lua=lua, first_line=first_line)


def _json(digest: str, code: str, base: Base) -> Evaluated:
    lines = Lines(code)
    try:
        draft, rest, variables = json_source.run(code, base, lines)
    except BadJson as error:
        return _failed(digest, *_position(f"The frontmatter cannot be read: {error}"))
    except NotAnObject as error:
        warning = Diagnostic("warning", f"Frontmatter must be an object, got {error}", 1)
        return Evaluated(digest=digest, diagnostics=(warning,))
    _check_numbers(variables, "", draft, lines)
    return _finished(digest, draft, base, rest=rest, variables=variables)


def _toml(digest: str, code: str, base: Base) -> Evaluated:
    import tomllib

    try:
        code.encode()
        given = plain_table(tomllib.loads(code), "The frontmatter")
    except tomllib.TOMLDecodeError as error:
        return _failed(digest, *_position(f"The frontmatter is not valid TOML: {error}."))
    except UnicodeEncodeError:
        return _failed(digest, "The frontmatter is not UTF-8 text; save it as UTF-8.")
    except (ConfigError, RecursionError):
        return _failed(digest, "The tables of the frontmatter are nested too deeply; flatten them.")
    draft, lines = Draft(base, where_own), Lines(code)
    variables: object = given.pop("vars", {})
    if not isinstance(variables, dict):
        draft.complain("vars: expected a table of variables.", lines.of("vars"))
        variables = {}
    rest = take_own(draft, given, base, lines)
    _check_numbers(cast(Table, variables), "vars.", draft, lines)
    return _finished(digest, draft, base, rest=rest, variables=cast(Table, variables))


def _check_numbers(variables: Table, prefix: str, draft: Draft, lines: Lines) -> None:
    for name, value in variables.items():
        waiting: list[object] = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict | list):
                inner = cast("dict[str, object] | list[object]", one)
                waiting += inner.values() if isinstance(inner, dict) else inner
            elif isinstance(one, int | float) and not has_number(one):
                problem = "it holds a number that no template can have; write a finite one, or text."
                draft.complain(f"{prefix}{visible(name[:80])}: {problem}", lines.of(name))
                break


def _finished(
    digest: str,
    draft: Draft,
    base: Base,
    *,
    rest: Table | None = None,
    variables: Table | None = None,
    said: list[Diagnostic] | None = None,
    script: Script | None = None,
    lua: LuaHost | None = None,
    first_line: int = _FIRST_LINE,
) -> Evaluated:
    done = draft.finish()
    settings, twice = merged(rest or {}, done.settings)
    problems = [*done.diagnostics, *(said or ())]
    problems += [Diagnostic("error", f"{option} is set twice, in both layouts; keep one.") for option in twice]
    problems += _misfits(settings, base)
    approve: Resolve | None = None
    if done.function is not None and script is not None and lua is not None:
        approve = lua_source.decider(lua, script, done.function, first_line)
    return Evaluated(
        digest=digest,
        settings=settings,
        tool_edits=done.tool_edits,
        approve=approve,
        variables=variables or {},
        script=script,
        diagnostics=tuple(problems),
    )


def _misfits(settings: Table, base: Base) -> list[Diagnostic]:
    """What the configuration would refuse although each step seemed right."""
    try:
        digest_of(settings)
        overlay(base.config, settings, name="The frontmatter", folder=Path("/"), user_level=False)
    except ConfigError as error:
        return [Diagnostic("error", str(error))]
    except ValueError:
        return [Diagnostic("error", "The frontmatter sets an option to text that is not UTF-8; correct it.")]
    return []


def _failed(digest: str, message: str, line: int | None = None, column: int | None = None) -> Evaluated:
    return Evaluated(digest=digest, diagnostics=(Diagnostic("error", message, line, column),))


def _position(message: str) -> tuple[str, int | None, int | None]:
    at = _AT.search(message)
    if at is None:
        return message, None, None
    return _AT.sub("", message), int(at[1]), int(at[2])
