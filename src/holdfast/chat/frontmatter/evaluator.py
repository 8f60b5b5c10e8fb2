"""Evaluates a frontmatter: one language after the other gives the same settings, tool edits, policy and variables."""

from __future__ import annotations

import pathlib
import re
from functools import cached_property
from typing import Any, Final, cast

from msgspec import structs

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.frontmatter.evaluation import Baseline, EvaluatedFrontmatter, digest_of_frontmatter
from holdfast.chat.frontmatter.flemma_options import PRESETS, Path, real_path
from holdfast.chat.frontmatter.lua_source import lua_resolver, read_lua
from holdfast.chat.frontmatter.option_edits import OptionEdits
from holdfast.chat.lua.host import LuaError, LuaHost, Script, is_lua_number
from holdfast.config.merge import OPERATIONS, merge_layer, operations, plain_table
from holdfast.contract.errors import BadJson, ConfigError
from holdfast.contract.json import Json, digest_of, parse_json
from holdfast.rules.chain import Resolve
from holdfast.text.escape import escape

Table = dict[str, Any]
_TOKEN: Final = re.compile(r"""\n|"([^"\\\n]*)"|'([^'\n]*)'|([\w$-]+)""")


class KeyLines:
    def __init__(self, code: str) -> None:
        self._code = code

    def of(self, word: str) -> int | None:
        """The line of a key, in quotes or without."""
        return self._first.get(word)

    @cached_property
    def _first(self) -> dict[str, int]:
        first: dict[str, int] = {}
        line = 1
        for found in _TOKEN.finditer(self._code):
            if found.lastindex is None:
                line += 1
            else:
                first.setdefault(found[found.lastindex], line)
        return first


TOOLS: Final = ("document", "tools")
AUTO_APPROVE: Final = ("approval", "auto_approve")
OWN_PRESETS: Final = ("approval", "presets")
OWN_LISTS: Final = (TOOLS, AUTO_APPROVE, OWN_PRESETS)


def own_option_name(path: Path, prefix: str = "") -> str:
    return prefix + ".".join(path)


def read_own_options(draft: OptionEdits, given: Table, base: Baseline, lines: KeyLines, prefix: str = "") -> Table:
    """Give the draft the lists whose names are checked; the rest is checked here and handed back."""
    rest = {key: dict(cast(Table, value)) if isinstance(value, dict) else value for key, value in given.items()}
    document = rest.pop("document", {})
    if not isinstance(document, dict):
        draft.add_error(f"{prefix}document: expected a table with 'tools'.", lines.of("document"))
    else:
        table = cast(Table, document)
        _take_list(draft, TOOLS, table.pop("tools", None), lines)
        for key in table:
            draft.add_error(f"{prefix}document.{key} is not an option; known here is tools.", lines.of(key))
    approval = rest.get("approval")
    if isinstance(approval, dict):
        table = cast(Table, approval)
        _take_presets(draft, table, lines)
        if not isinstance(table.get("auto_approve"), str):
            _take_list(draft, AUTO_APPROVE, table.pop("auto_approve", None), lines)
    try:
        merge_layer(
            base.config, rest, name=prefix.rstrip(".") or "frontmatter", folder=pathlib.Path("/"), user_level=False
        )
    except ConfigError as error:
        draft.add_error(str(error), _line_of_problem(lines, str(error)))
        return {}
    return rest


def _take_list(draft: OptionEdits, path: Path, given: object, lines: KeyLines) -> None:
    line = lines.of(path[-1])
    if given is None:
        return
    if not isinstance(given, dict):
        draft.assign(path, given, line)
        return
    try:
        steps = operations(cast(Table, given), own_option_name(path))
    except ConfigError as error:
        draft.add_error(str(error), line)
        return
    for operation, names in steps.items():
        if operation == "set":
            draft.assign(path, list(names), line)
        else:
            draft.edit(path, operation, list(names), line)


def _take_presets(draft: OptionEdits, approval: Table, lines: KeyLines) -> None:
    presets = approval.get("presets")
    if not isinstance(presets, dict):
        return  # whatever else it is, the configuration refuses it
    for name, sides in cast(Table, approval.pop("presets")).items():
        line = lines.of(name)
        table = cast(Table, sides) if isinstance(sides, dict) else {"": sides}
        draft.assign((*OWN_PRESETS, name), [], line)
        for side, names in table.items():
            draft.assign((*OWN_PRESETS, name, side), names, line)


def _line_of_problem(lines: KeyLines, message: str) -> int | None:
    """Where the option stands that a message begins with."""
    option = message.removeprefix("frontmatter: ").removeprefix("holdfast: ").partition(":")[0].partition(" ")[0]
    return lines.of(option.rpartition(".")[2].strip('"'))


_KINDS = {"list": "array", "str": "string", "int": "number", "float": "number", "bool": "boolean", "NoneType": "null"}


class NotAnObject(Exception):
    """The kind that was found instead."""


def json_option(path: Path) -> str:
    return own_option_name(path, "holdfast.") if path[:2] in OWN_LISTS else ".".join(("flemma", *path))


def read_json(code: str, base: Baseline, lines: KeyLines) -> tuple[OptionEdits, Table, Table]:
    """The draft, the settings that are not part of it, and the variables. Raises `BadJson` and `NotAnObject`."""
    found = parse_json(code)
    if not isinstance(found, dict):
        raise NotAnObject(_kind(found))
    given = cast(Table, _without_null(found))
    draft = OptionEdits(base, json_option)
    flemma, own = given.pop("flemma", {}), given.pop("holdfast", {})
    rest: Table = {}
    for name, part in (("flemma", flemma), ("holdfast", own)):
        if not isinstance(part, dict):
            draft.add_error(f"'{name}' must be an object, got {_kind(part)}.", lines.of(name))
        elif name == "flemma":
            _walk(draft, (), cast(Table, part), lines)
        else:
            rest = read_own_options(draft, cast(Table, part), base, lines, prefix="holdfast.")
    return draft, rest, given


def _walk(draft: OptionEdits, path: Path, node: object, lines: KeyLines) -> None:
    line = lines.of(path[-1]) if path else None
    if not isinstance(node, dict):
        draft.assign(path, node, line)
        return
    table = cast(Table, node)
    real = real_path(path)
    if real[:2] == PRESETS and not table:
        draft.assign(path, [], line)
    operators = {} if real == PRESETS else {key: value for key, value in table.items() if key.startswith("$")}
    for key in operators.keys() - {f"${name}" for name in OPERATIONS}:
        known = ", ".join(f"${name}" for name in OPERATIONS)
        draft.add_error(f"{json_option(path)}: '{key}' is no operator; use {known}.", lines.of(key))
    for name in OPERATIONS:
        if f"${name}" not in operators:
            continue
        if name == "set":
            _walk(draft, path, operators["$set"], lines)
        else:
            draft.edit(path, name, operators[f"${name}"], line)
    for key, value in table.items():
        if key not in operators:
            _walk(draft, (*path, key), value, lines)


def _kind(value: Json) -> str:
    return _KINDS.get(type(value).__name__, type(value).__name__)


def _without_null(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_null(item) for item in value if item is not None]
    return value


def merge_tables(one: Table, other: Table, path: Path = ()) -> tuple[Table, list[str]]:
    """Both tables, and the options that both of them hold."""
    result, twice = dict(one), list[str]()
    for key, value in other.items():
        here = (*path, key)
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key], more = merge_tables(cast(Table, result[key]), cast(Table, value), here)
            twice += more
        elif key in result:
            twice.append(".".join(here))
        else:
            result[key] = cast(object, value)
    return result, twice


MAX_CODE: Final = 1024 * 1024
MAX_DIAGNOSTICS: Final = 100
_FIRST_LINE: Final = 2
"""The line of a document on which the code of its frontmatter begins."""
_AT: Final = re.compile(r" ?\(?at line (\d+),? column (\d+)\)?")


def evaluate(
    language: str, code: str, base: Baseline, lua: LuaHost, *, first_line: int = _FIRST_LINE
) -> EvaluatedFrontmatter:
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
    few = sorted(found, key=lambda item: (item.severity != "error", item.line or 0))[:MAX_DIAGNOSTICS]
    few.sort(key=lambda item: item.line or 0)
    if len(found) > MAX_DIAGNOSTICS:
        more = f"{len(found) - MAX_DIAGNOSTICS:,} more things are wrong with the frontmatter; correct the others first."
        few.append(Diagnostic("warning", more))
    return few


def _lua(digest: str, code: str, base: Baseline, lua: LuaHost, first_line: int) -> EvaluatedFrontmatter:
    try:
        draft, script, said = read_lua(code, base, lua)
    except LuaError as error:
        return _failed(digest, str(error), error.line)
    return _finished(digest, draft, base, said=said, script=script, lua=lua, first_line=first_line)


def _json(digest: str, code: str, base: Baseline) -> EvaluatedFrontmatter:
    lines = KeyLines(code)
    try:
        draft, rest, variables = read_json(code, base, lines)
    except BadJson as error:
        return _failed(digest, *_position(f"The frontmatter cannot be read: {error}"))
    except NotAnObject as error:
        warning = Diagnostic("warning", f"Frontmatter must be an object, got {error}", 1)
        return EvaluatedFrontmatter(digest=digest, diagnostics=(warning,))
    _check_numbers(variables, "", draft, lines)
    return _finished(digest, draft, base, rest=rest, variables=variables)


def _toml(digest: str, code: str, base: Baseline) -> EvaluatedFrontmatter:
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
    draft, lines = OptionEdits(base, own_option_name), KeyLines(code)
    variables: object = given.pop("vars", {})
    if not isinstance(variables, dict):
        draft.add_error("vars: expected a table of variables.", lines.of("vars"))
        variables = {}
    rest = read_own_options(draft, given, base, lines)
    _check_numbers(cast(Table, variables), "vars.", draft, lines)
    return _finished(digest, draft, base, rest=rest, variables=cast(Table, variables))


def _check_numbers(variables: Table, prefix: str, draft: OptionEdits, lines: KeyLines) -> None:
    for name, value in variables.items():
        waiting: list[object] = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict | list):
                inner = cast("dict[str, object] | list[object]", one)
                waiting += inner.values() if isinstance(inner, dict) else inner
            elif isinstance(one, int | float) and not is_lua_number(one):
                problem = "it holds a number that no template can have; write a finite one, or text."
                draft.add_error(f"{prefix}{escape(name[:80])}: {problem}", lines.of(name))
                break


def _finished(
    digest: str,
    draft: OptionEdits,
    base: Baseline,
    *,
    rest: Table | None = None,
    variables: Table | None = None,
    said: list[Diagnostic] | None = None,
    script: Script | None = None,
    lua: LuaHost | None = None,
    first_line: int = _FIRST_LINE,
) -> EvaluatedFrontmatter:
    done = draft.resolve()
    settings, twice = merge_tables(rest or {}, done.settings)
    problems = [*done.diagnostics, *(said or ())]
    problems += [Diagnostic("error", f"{option} is set twice, in both layouts; keep one.") for option in twice]
    problems += _misfits(settings, base)
    approve: Resolve | None = None
    if done.function is not None and script is not None and lua is not None:
        approve = lua_resolver(lua, script, done.function, first_line)
    return EvaluatedFrontmatter(
        digest=digest,
        settings=settings,
        tool_edits=done.tool_edits,
        approve=approve,
        variables=variables or {},
        script=script,
        diagnostics=tuple(problems),
    )


def _misfits(settings: Table, base: Baseline) -> list[Diagnostic]:
    """What the configuration would refuse although each step seemed right."""
    try:
        digest_of(settings)
        merge_layer(base.config, settings, name="The frontmatter", folder=pathlib.Path("/"), user_level=False)
    except ConfigError as error:
        return [Diagnostic("error", str(error))]
    except ValueError:
        return [Diagnostic("error", "The frontmatter sets an option to text that is not UTF-8; correct it.")]
    return []


def _failed(digest: str, message: str, line: int | None = None, column: int | None = None) -> EvaluatedFrontmatter:
    return EvaluatedFrontmatter(digest=digest, diagnostics=(Diagnostic("error", message, line, column),))


def _position(message: str) -> tuple[str, int | None, int | None]:
    at = _AT.search(message)
    if at is None:
        return message, None, None
    return _AT.sub("", message), int(at[1]), int(at[2])
