"""Evaluates frontmatter in TOML, JSON or Lua into settings, tool edits, a policy function and variables."""

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
    """The line of the first occurrence of each key in the code."""

    def __init__(self, code: str) -> None:
        self._code = code

    def of(self, word: str) -> int | None:
        """The line of a key, quoted or not."""
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


def read_own_options(edits: OptionEdits, given: Table, baseline: Baseline, lines: KeyLines, prefix: str = "") -> Table:
    """Add the lists that contain names to the edits; validate the other options here and return them."""
    rest = {key: dict(cast(Table, value)) if isinstance(value, dict) else value for key, value in given.items()}
    document = rest.pop("document", {})
    if not isinstance(document, dict):
        edits.add_error(f"{prefix}document: expected a table with 'tools'.", lines.of("document"))
    else:
        table = cast(Table, document)
        _read_list(edits, TOOLS, table.pop("tools", None), lines)
        for key in table:
            edits.add_error(f"{prefix}document.{key} is not an option. Use tools.", lines.of(key))
    approval = rest.get("approval")
    if isinstance(approval, dict):
        table = cast(Table, approval)
        _read_presets(edits, table, lines)
        if not isinstance(table.get("auto_approve"), str):
            _read_list(edits, AUTO_APPROVE, table.pop("auto_approve", None), lines)
    try:
        merge_layer(
            baseline.config, rest, name=prefix.rstrip(".") or "frontmatter", folder=pathlib.Path("/"), user_level=False
        )
    except ConfigError as error:
        edits.add_error(str(error), _line_of_error(lines, str(error)))
        return {}
    return rest


def _read_list(edits: OptionEdits, path: Path, given: object, lines: KeyLines) -> None:
    line = lines.of(path[-1])
    if given is None:
        return
    if not isinstance(given, dict):
        edits.assign(path, given, line)
        return
    try:
        steps = operations(cast(Table, given), own_option_name(path))
    except ConfigError as error:
        edits.add_error(str(error), line)
        return
    for operation, names in steps.items():
        if operation == "set":
            edits.assign(path, list(names), line)
        else:
            edits.edit(path, operation, list(names), line)


def _read_presets(edits: OptionEdits, approval: Table, lines: KeyLines) -> None:
    presets = approval.get("presets")
    if not isinstance(presets, dict):
        return  # the configuration refuses any other type
    for name, sides in cast(Table, approval.pop("presets")).items():
        line = lines.of(name)
        table = cast(Table, sides) if isinstance(sides, dict) else {"": sides}
        edits.assign((*OWN_PRESETS, name), [], line)
        for side, names in table.items():
            edits.assign((*OWN_PRESETS, name, side), names, line)


def _line_of_error(lines: KeyLines, message: str) -> int | None:
    """The line of the option with which an error message starts."""
    option = message.removeprefix("frontmatter: ").removeprefix("holdfast: ").partition(":")[0].partition(" ")[0]
    return lines.of(option.rpartition(".")[2].strip('"'))


_KINDS = {"list": "array", "str": "string", "int": "number", "float": "number", "bool": "boolean", "NoneType": "null"}


class NotAnObject(Exception):
    """The message is the type that was found instead."""


def json_option(path: Path) -> str:
    return own_option_name(path, "holdfast.") if path[:2] in OWN_LISTS else ".".join(("flemma", *path))


def read_json(code: str, baseline: Baseline, lines: KeyLines) -> tuple[OptionEdits, Table, Table]:
    """The edits, the other settings, and the variables. Raises `BadJson` and `NotAnObject`."""
    found = parse_json(code)
    if not isinstance(found, dict):
        raise NotAnObject(_kind(found))
    given = cast(Table, _without_null(found))
    edits = OptionEdits(baseline, json_option)
    flemma, own = given.pop("flemma", {}), given.pop("holdfast", {})
    rest: Table = {}
    for name, part in (("flemma", flemma), ("holdfast", own)):
        if not isinstance(part, dict):
            edits.add_error(f"'{name}' must be an object, got {_kind(part)}.", lines.of(name))
        elif name == "flemma":
            _walk(edits, (), cast(Table, part), lines)
        else:
            rest = read_own_options(edits, cast(Table, part), baseline, lines, prefix="holdfast.")
    return edits, rest, given


def _walk(edits: OptionEdits, path: Path, node: object, lines: KeyLines) -> None:
    line = lines.of(path[-1]) if path else None
    if not isinstance(node, dict):
        edits.assign(path, node, line)
        return
    table = cast(Table, node)
    real = real_path(path)
    if real[:2] == PRESETS and not table:
        edits.assign(path, [], line)
    operators = {} if real == PRESETS else {key: value for key, value in table.items() if key.startswith("$")}
    for key in operators.keys() - {f"${name}" for name in OPERATIONS}:
        known = ", ".join(f"${name}" for name in OPERATIONS)
        edits.add_error(f"{json_option(path)}: '{key}' is not an operator. Use {known}.", lines.of(key))
    for name in OPERATIONS:
        if f"${name}" not in operators:
            continue
        if name == "set":
            _walk(edits, path, operators["$set"], lines)
        else:
            edits.edit(path, name, operators[f"${name}"], line)
    for key, value in table.items():
        if key not in operators:
            _walk(edits, (*path, key), value, lines)


def _kind(value: Json) -> str:
    return _KINDS.get(type(value).__name__, type(value).__name__)


def _without_null(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_null(item) for item in value if item is not None]
    return value


def merge_tables(one: Table, other: Table, path: Path = ()) -> tuple[Table, list[str]]:
    """Merge two tables; also return the options that are in both."""
    result, duplicates = dict(one), list[str]()
    for key, value in other.items():
        here = (*path, key)
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key], more = merge_tables(cast(Table, result[key]), cast(Table, value), here)
            duplicates += more
        elif key in result:
            duplicates.append(".".join(here))
        else:
            result[key] = cast(object, value)
    return result, duplicates


MAX_CODE: Final = 1024 * 1024
MAX_DIAGNOSTICS: Final = 100
_FIRST_LINE: Final = 2
"""The line of a document on which the code of its frontmatter starts."""
_AT: Final = re.compile(r" ?\(?at line (\d+),? column (\d+)\)?")


def evaluate(
    language: str, code: str, baseline: Baseline, lua: LuaHost, *, first_line: int = _FIRST_LINE
) -> EvaluatedFrontmatter:
    """Evaluate frontmatter. Raises nothing: errors are in the diagnostics, with lines of the document."""
    digest = digest_of_frontmatter(language, code)
    if len(code) > MAX_CODE:
        found = _failed(digest, f"The frontmatter is larger than {MAX_CODE:,} characters. Make it shorter.")
    elif language.lower() == "lua":
        found = _lua(digest, code, baseline, lua, first_line)
    elif language.lower() == "json":
        found = _json(digest, code, baseline)
    elif language.lower() == "toml":
        found = _toml(digest, code, baseline)
    else:
        return _failed(digest, f"Unsupported frontmatter language: {language}", 1)
    shift = first_line - 1
    return structs.replace(
        found,
        diagnostics=tuple(
            structs.replace(item, line=None if item.line is None else item.line + shift)
            for item in _most_important(found.diagnostics)
        ),
    )


def _most_important(found: tuple[Diagnostic, ...]) -> list[Diagnostic]:
    """At most `MAX_DIAGNOSTICS`, sorted by line; errors take precedence over warnings."""
    few = sorted(found, key=lambda item: (item.severity != "error", item.line or 0))[:MAX_DIAGNOSTICS]
    few.sort(key=lambda item: item.line or 0)
    if len(found) > MAX_DIAGNOSTICS:
        more = f"{len(found) - MAX_DIAGNOSTICS:,} more problems in the frontmatter. Correct the others first."
        few.append(Diagnostic("warning", more))
    return few


def _lua(digest: str, code: str, baseline: Baseline, lua: LuaHost, first_line: int) -> EvaluatedFrontmatter:
    try:
        edits, script, diagnostics = read_lua(code, baseline, lua)
    except LuaError as error:
        return _failed(digest, str(error), error.line)
    return _evaluated(digest, edits, baseline, diagnostics=diagnostics, script=script, lua=lua, first_line=first_line)


def _json(digest: str, code: str, baseline: Baseline) -> EvaluatedFrontmatter:
    lines = KeyLines(code)
    try:
        edits, rest, variables = read_json(code, baseline, lines)
    except BadJson as error:
        return _failed(digest, *_position(f"The frontmatter cannot be read: {error}"))
    except NotAnObject as error:
        warning = Diagnostic("warning", f"Frontmatter must be an object, got {error}", 1)
        return EvaluatedFrontmatter(digest=digest, diagnostics=(warning,))
    _check_numbers(variables, "", edits, lines)
    return _evaluated(digest, edits, baseline, rest=rest, variables=variables)


def _toml(digest: str, code: str, baseline: Baseline) -> EvaluatedFrontmatter:
    import tomllib

    try:
        code.encode()
        given = plain_table(tomllib.loads(code), "The frontmatter")
    except tomllib.TOMLDecodeError as error:
        return _failed(digest, *_position(f"The frontmatter is not valid TOML: {error}."))
    except UnicodeEncodeError:
        return _failed(digest, "The frontmatter is not UTF-8 text. Save it as UTF-8.")
    except (ConfigError, RecursionError):
        return _failed(digest, "The tables of the frontmatter are nested too deeply. Flatten them.")
    edits, lines = OptionEdits(baseline, own_option_name), KeyLines(code)
    variables: object = given.pop("vars", {})
    if not isinstance(variables, dict):
        edits.add_error("vars: expected a table of variables.", lines.of("vars"))
        variables = {}
    rest = read_own_options(edits, given, baseline, lines)
    _check_numbers(cast(Table, variables), "vars.", edits, lines)
    return _evaluated(digest, edits, baseline, rest=rest, variables=cast(Table, variables))


def _check_numbers(variables: Table, prefix: str, edits: OptionEdits, lines: KeyLines) -> None:
    for name, value in variables.items():
        to_check: list[object] = [value]
        while to_check:
            one = to_check.pop()
            if isinstance(one, dict | list):
                inner = cast("dict[str, object] | list[object]", one)
                to_check += inner.values() if isinstance(inner, dict) else inner
            elif isinstance(one, int | float) and not is_lua_number(one):
                problem = "it contains a number that Lua cannot represent. Use a finite number, or text."
                edits.add_error(f"{prefix}{escape(name[:80])}: {problem}", lines.of(name))
                break


def _evaluated(
    digest: str,
    edits: OptionEdits,
    baseline: Baseline,
    *,
    rest: Table | None = None,
    variables: Table | None = None,
    diagnostics: list[Diagnostic] | None = None,
    script: Script | None = None,
    lua: LuaHost | None = None,
    first_line: int = _FIRST_LINE,
) -> EvaluatedFrontmatter:
    resolved = edits.resolve()
    settings, duplicates = merge_tables(rest or {}, resolved.settings)
    problems = [*resolved.diagnostics, *(diagnostics or ())]
    problems += [Diagnostic("error", f"{option} is set twice, in both layouts. Keep one.") for option in duplicates]
    problems += _combined_errors(settings, baseline)
    approve: Resolve | None = None
    if resolved.function is not None and script is not None and lua is not None:
        approve = lua_resolver(lua, script, resolved.function, first_line)
    return EvaluatedFrontmatter(
        digest=digest,
        settings=settings,
        tool_edits=resolved.tool_edits,
        approve=approve,
        variables=variables or {},
        script=script,
        diagnostics=tuple(problems),
    )


def _combined_errors(settings: Table, baseline: Baseline) -> list[Diagnostic]:
    """Errors that only the combined settings have."""
    try:
        digest_of(settings)
        merge_layer(baseline.config, settings, name="The frontmatter", folder=pathlib.Path("/"), user_level=False)
    except ConfigError as error:
        return [Diagnostic("error", str(error))]
    except ValueError:
        return [Diagnostic("error", "The frontmatter sets an option to text that is not UTF-8. Correct it.")]
    return []


def _failed(digest: str, message: str, line: int | None = None, column: int | None = None) -> EvaluatedFrontmatter:
    return EvaluatedFrontmatter(digest=digest, diagnostics=(Diagnostic("error", message, line, column),))


def _position(message: str) -> tuple[str, int | None, int | None]:
    at = _AT.search(message)
    if at is None:
        return message, None, None
    return _AT.sub("", message), int(at[1]), int(at[2])
