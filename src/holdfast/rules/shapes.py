"""The shape of a pending call: calls of one shape differ only in values, so that a person can review them together.

Two calls have the same shape if they call the same definition of a tool at the same risk, in the same folder and
sandbox, with arguments of the same names and types. Booleans, null and the values of schema enums count exactly, and
of a shell command every program with its subcommand and options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import nsmallest
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.contract.call import Caller, PendingCall
from holdfast.contract.json import Args, Json, canonical_json, digest_of
from holdfast.contract.tool import Tool
from holdfast.rules.shell.context import command_of
from holdfast.rules.shell.parts import word_set
from holdfast.store.changes import encode_path

FindTool = Callable[[str], Tool | None]

_MAX_DEPTH: Final = 6
_MAX_NAMES: Final = 64
"""Names of one object, and branches of a schema; objects with more names are compared as a whole."""
_MAX_ITEMS: Final = 20
_MAX_NODES: Final = 500
_MAX_CHOICE: Final = 64
"""Characters of an enum value that counts exactly."""
_MAX_COMMAND: Final = 4096
"""Characters of a command that is analyzed; a longer one has the same shape only as itself."""
_MAX_PARTS: Final = 50
_SUBCOMMAND: Final = re.compile(r"[a-z][a-z0-9:_-]{0,31}", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)
_TAKE_FILES: Final = word_set("""
    awk base64 basename cat cd chmod chown cksum cmp column cp cut date df diff dirname du echo egrep expand fgrep file
    find fmt fold grep gunzip gzip head hexdump id install jq less ln ls md5sum mkdir more mv nl od paste printf
    readlink realpath rg rm rmdir sed seq sha1sum sha256sum shasum sort split stat strings tac tail tee test touch tr
    tree truncate unexpand uniq unlink unzip wc which xxd yq zcat zip
""")
"""Programs whose first operand is a file or a text. The first operand of any other program may be a subcommand."""


class Difference(Struct, frozen=True, kw_only=True):
    """An argument whose value is not the same in all calls of a group."""

    path: tuple[str, ...]
    """The names from the outermost object inwards; empty if the arguments differ as a whole."""
    values: tuple[Json, ...]
    """The value in each call of the group, in their order."""

    @property
    def label(self) -> str:
        """The path as text: its names joined with dots, and a name with a dot or a quote as JSON."""
        names = (canonical_json(name).decode() if set(name) & {".", '"'} else name for name in self.path)
        return ".".join(names) or "all arguments"


class Group(Struct, frozen=True, kw_only=True):
    """Calls of one caller with the same shape, oldest first."""

    shape: str
    calls: tuple[PendingCall, ...]

    @property
    def differing(self) -> tuple[Difference, ...]:
        """The arguments that differ between the calls."""
        return tuple(_differences([call.call.args for call in self.calls], (), 0))


def group_by_shape(calls: Iterable[PendingCall], find: FindTool | None = None) -> list[Group]:
    """Group calls, given oldest first, by caller and shape. The groups are in the order of their oldest call.

    `find` returns the tool with a name; without it, values of schema enums are compared by type only.
    """
    groups: dict[tuple[Caller, str], list[PendingCall]] = {}
    for pending in calls:
        tool = None if find is None else find(pending.call.tool)
        groups.setdefault((pending.call.caller, shape_of(pending, tool)), []).append(pending)
    return [Group(shape=shape, calls=tuple(members)) for (_, shape), members in groups.items()]


def shape_of(pending: PendingCall, tool: Tool | None = None) -> str:
    """Return a stable key that calls of the same shape share."""
    call, proposal = pending.call, pending.proposal
    if tool is not None and tool.digest != pending.definition_digest:
        tool = None
    around = None if proposal is None else proposal.surroundings
    risk = proposal.risk if proposal is not None else None if tool is None else tool.risk
    schema = cast(Json, None if tool is None else tool.input_schema)
    return digest_of(
        [
            call.tool,
            pending.definition_digest,
            pending.definition_only,
            None if risk is None else risk.value,
            encode_path(call.cwd),
            "" if around is None else around.sandbox,
            None if call.widening is None else call.widening.description,
            _Skeleton(schema).of(call.args, schema, 0),
            _command_shape(call.args),
        ]
    )


class _Skeleton:
    """Names and types of arguments, of at most `_MAX_NODES` values."""

    def __init__(self, schema: Json) -> None:
        self._root = schema
        self._left = _MAX_NODES

    def of(self, value: Json, schema: Json, depth: int) -> Json:
        self._left -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, dict):
            if depth >= _MAX_DEPTH or self._left <= 0:
                return "object"
            return self._of_object(value, schema, depth)
        if isinstance(value, list):
            if depth >= _MAX_DEPTH or self._left <= 0:
                return "list"
            return self._of_list(value, schema, depth)
        if schema is not None and _is_choice(value, schema, self._root, 0):
            return ["=", value]
        return "text" if isinstance(value, str) else "number"

    def _of_object(self, value: Args, schema: Json, depth: int) -> Json:
        names = nsmallest(_MAX_NAMES, value)
        inner = _child(schema, "properties", self._root)
        shapes: Json = {name: self.of(value[name], _member(inner, name), depth + 1) for name in names}
        return ["object", shapes] if len(names) == len(value) else ["object", shapes, "and more"]

    def _of_list(self, value: list[Json], schema: Json, depth: int) -> Json:
        inner = _child(schema, "items", self._root)
        found: list[Json] = []
        for item in value[:_MAX_ITEMS]:
            shape = self.of(item, inner, depth + 1)
            if shape not in found:
                found.append(shape)
        return ["list", found]


def _child(schema: Json, keyword: str, root: Json) -> Json:
    return _member(_resolved(schema, root), keyword)


def _member(schema: Json, name: str) -> Json:
    return schema.get(name) if isinstance(schema, dict) else None


def _resolved(schema: Json, root: Json) -> Json:
    """The schema that a local reference points to, or the schema itself."""
    for _ in range(_MAX_DEPTH):
        reference = _member(schema, "$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        schema = root
        for name in reference[2:].split("/")[:_MAX_DEPTH]:
            schema = _member(schema, name)
    return None


def _is_choice(value: str | float, schema: Json, root: Json, depth: int) -> bool:
    """Whether the schema lists this value."""
    schema = _resolved(schema, root)
    if not isinstance(schema, dict) or (isinstance(value, str) and len(value) > _MAX_CHOICE):
        return False
    choices = schema.get("enum")
    if schema.get("const") == value or (isinstance(choices, list) and value in choices):
        return True
    branches = [branch for keyword in ("anyOf", "oneOf", "allOf") for branch in _branches(schema.get(keyword))]
    return depth < _MAX_DEPTH and any(_is_choice(value, branch, root, depth + 1) for branch in branches[:_MAX_NAMES])


def _branches(given: Json) -> list[Json]:
    return given if isinstance(given, list) else []


def _command_shape(args: Args) -> Json:
    """The programs of the command that the arguments contain; the command itself if it cannot be analyzed."""
    text = command_of(args)
    if text is None:
        return None
    if len(text) > _MAX_COMMAND:
        return ["text", digest_of(text)]
    return list(_programs(text))


@lru_cache(maxsize=2048)
def _programs(text: str) -> tuple[str, ...]:
    from holdfast.rules.shell.analysis import analyze  # slow to import

    analysis = analyze(text)
    if analysis.unreadable or analysis.too_complex or analysis.differs or len(analysis.parts) > _MAX_PARTS:
        return ("text", text)
    shapes: list[str] = []
    for part in analysis.parts:
        if part.kind == "opaque":
            return ("text", text)
        if part.kind == "command":
            if not part.guessed:
                shapes.append(_command_words(part.words))
        else:
            shapes.append(f"{part.kind} {part.words[0] if part.words else part.text}")
    return (*shapes, *analysis.interpreter_code)


def _command_words(words: Sequence[str | None]) -> str:
    """The program, its subcommand and its options, with numbers and values of options left out."""
    program = words[0] or "?"
    rest = [word or "?" for word in words[1:]]
    options = sorted({_DIGITS.sub("0", word.partition("=")[0]) for word in rest if word.startswith("-")})
    takes_files = program.rpartition("/")[2] in _TAKE_FILES
    return " ".join([program, *(() if takes_files else _subcommands(rest)), *options])


def _subcommands(words: Iterable[str]) -> Iterator[str]:
    """The operands that may be the subcommand: the first, and one more for each option that may take one as value."""
    options = operands = 0
    for word in words:
        if word.startswith("-"):
            options += 1
        elif operands <= options:
            operands += 1
            if _SUBCOMMAND.fullmatch(word) is not None:
                yield word


def _differences(values: Sequence[Json], path: tuple[str, ...], depth: int) -> Iterator[Difference]:
    first = values[0]
    if all(_same(first, other) for other in values[1:]):
        return
    if depth < _MAX_DEPTH and isinstance(first, dict) and len(first) <= _MAX_NAMES:
        objects = [cast("dict[str, Any]", value) for value in values if isinstance(value, dict)]
        if len(objects) == len(values) and all(one.keys() == first.keys() for one in objects):
            for name in first:
                yield from _differences([one[name] for one in objects], (*path, name), depth + 1)
            return
    yield Difference(path=path, values=tuple(values))


def _same(one: Json, other: Json) -> bool:
    # Python considers true and 1 equal, JSON does not.
    return type(one) is type(other) and one == other and canonical_json(one) == canonical_json(other)
