"""Edits the configuration file of an MCP client: JSONC (JSON with comments), layout preserved, replaced atomically."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NoReturn

from msgspec import Struct

from holdfast.cli.errors import UsageProblem
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Json
from holdfast.fs.beneath import FOLDER_FLAGS, open_descriptor, open_regular, read_regular
from holdfast.fs.replace import new_file, sync_folder
from holdfast.text.escape import escape

_BLANK: Final = " \t\r\n"
_STRING: Final = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_TOKEN: Final = re.compile(
    rf'(?P<string>{_STRING})|(?P<comment>//[^\r\n]*+|/\*.*?\*/)|/\*.*+|"|NaN|Infinity', re.DOTALL
)
_TRAILING: Final = re.compile(rf"({_STRING})|(?<=[^\[{{,:{_BLANK}])[{_BLANK}]*+,(?=[{_BLANK}]*+[\]}}])")
_BRACKET: Final = re.compile(rf"{_STRING}|([\[{{])|([\]}}])")
_NAME: Final = re.compile(rf"[{_BLANK},]*+({_STRING})[{_BLANK}]*+:[{_BLANK}]*+")
_MAX_DEPTH: Final = 200
_BOM: Final = "\ufeff"
_EXPECTED: Final = {
    "Expecting value": "expected a value",
    "Expecting property name enclosed in double quotes": "expected a name in double quotes",
    "Expecting ':' delimiter": "expected :",
    "Extra data": "expected the end of the file",
}
_DECODER: Final = json.JSONDecoder()


class NotJsonc(HoldfastError):
    """The text is not JSONC, or the entry cannot be added to it."""


class Node:
    """A value and its position: `text[start:end]`."""

    def __init__(self, plain: str, start: int) -> None:
        self._plain, self.start = plain, start
        self.value: Json
        self.value, self.end = _DECODER.raw_decode(plain, start)

    @cached_property
    def members(self) -> Sequence[tuple[Node, Node]]:
        """The names and values of an object, in order."""
        found: list[tuple[Node, Node]] = []
        at = self.start + 1
        while isinstance(self.value, dict) and (name := _NAME.match(self._plain, at)):
            found.append((Node(self._plain, name.start(1)), Node(self._plain, name.end())))
            at = found[-1][1].end
        return found

    def only(self, key: str, what: str) -> tuple[Node, Node] | None:
        if not isinstance(self.value, dict):
            raise NotJsonc(f"{what} is not an object")
        found = [member for member in self.members if member[0].value == key]
        if len(found) > 1:
            raise NotJsonc(f'{what} has "{key}" {len(found)} times')
        return found[0] if found else None


class Jsonc:
    """A parsed JSONC text that can be edited without changing its layout. Raises `NotJsonc` with the position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.comments = tuple(found[0] for found in _TOKEN.finditer(text) if found["comment"])
        self.solid = _masked(text, "*")
        """The text with comments masked by asterisks, so that they are not whitespace."""
        plain = _TRAILING.sub(lambda found: found[1] or " " * len(found[0]), _masked(text, " "))
        self._plain = f" {plain[1:]}" if text.startswith(_BOM) else plain
        """The text as plain JSON of the same length: comments and trailing commas are spaces."""
        self.root = self._parse()
        """None if the text has only whitespace and comments."""
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self._flat = self.root is not None and self._on_one_line(self.root)
        members = self.root.members if self.root and not self._flat else ()
        self._unit = next((indent for name, _ in members if (indent := self._own_indent(name))), "  ")

    def _parse(self) -> Node | None:
        start = len(self._plain) - len(self._plain.lstrip(_BLANK))
        if start == len(self._plain):
            return None
        self._opened(len(self._plain))
        try:
            json.loads(self._plain)
        except json.JSONDecodeError as error:
            closing = "]" if self._opened(error.pos)[-1:] == ["["] else "}"
            self._fail(error.pos, _EXPECTED.get(error.msg, f"expected a comma or {closing}"))
        except ValueError:
            longest = max(re.finditer("[0-9]+", self._plain), key=lambda found: len(found[0]))
            self._fail(longest.end(), "the number is too long")
        return Node(self._plain, start)

    def _opened(self, end: int) -> list[str]:
        """Return the brackets that are open at a position."""
        opened: list[str] = []
        for found in _BRACKET.finditer(self._plain, 0, end):
            if found[1]:
                opened.append(found[1])
            elif found[2]:
                del opened[-1:]
            if len(opened) > _MAX_DEPTH + 1:
                self._fail(found.start(), f"it is nested more than {_MAX_DEPTH} deep")
        return opened

    def _fail(self, at: int, why: str) -> NoReturn:
        line, column = self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
        raise NotJsonc(f"line {line}, column {column}: {why}")

    def _on_one_line(self, node: Node) -> bool:
        return bool(node.members) and not any(sign in self.text[node.start : node.end] for sign in "\r\n")

    def indent(self, node: Node) -> str:
        """Return the whitespace at the start of the node's line."""
        line = self.text[self.text.rfind("\n", 0, node.start) + 1 : node.start]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _own_indent(self, node: Node) -> str | None:
        """Return the indent if the node is the first thing on its line, and that is not the first line of the text."""
        indent = self.indent(node)
        return indent if self.text.endswith(f"\n{indent}", 0, node.start) else None

    def format(self, value: dict[str, Json], indent: str, more: Sequence[str] = ()) -> str:
        """Return an object in the style of the text, with `more` members after its own."""
        if self._flat:
            return "".join((_json(value)[:-1], *(f", {each}" for each in more), "}"))
        lines = json.dumps(value, ensure_ascii=False, indent=self._unit).split("\n")
        for each in more:
            lines[-2] += ","
            lines.insert(-1, self._unit + each)
        return f"{self.newline}{indent}".join(lines)

    def with_member(self, node: Node, key: str, value: dict[str, Json]) -> str:
        """Return the text with a new last member, after the comments that follow the current last one."""
        text, members, closing = self.text, node.members, self.indent(node)
        inside = len(self.solid[: node.end - 1].rstrip(_BLANK))
        after = members[-1][1].end if members else inside
        trailing = "," if "," in self.solid[after:inside] else ""
        comma = "," if members and not trailing else ""
        ending = text[inside : node.end - 1]
        if self._flat or self._on_one_line(node):
            new = f"{' ' if members else ''}{_json(key)}: {_json(value)}"
        else:
            indents = (self._own_indent(name) for name, _ in members)
            indent = next((each for each in indents if each is not None), closing + self._unit)
            new = f"{self.newline}{indent}{_json(key)}: {self.format(value, indent)}"
            ending = ending if "\n" in ending else f"{self.newline}{closing}"
        return f"{text[:after]}{comma}{text[after:inside]}{new}{trailing}{ending}{text[node.end - 1 :]}"


def _masked(text: str, comment: str) -> str:
    """Replace comments by `comment`, and by question marks what Python's parser accepts but JSON does not (NaN)."""
    return _TOKEN.sub(lambda at: at["string"] or (comment if at["comment"] else "?") * len(at[0]), text)


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def set_entry(
    text: str, section: str, name: str, entry: dict[str, Json], *, ours: Collection[str] | None = None
) -> str:
    """Return the text with `entry` as `name` in the object `section`, and nothing else changed. Raise `NotJsonc`.

    Keys of an existing entry that are not in `ours` stay, byte for byte; with None, none stay. A text that has the
    entry already is returned unchanged.
    """
    file = Jsonc(text)
    if file.root is None:
        begun = text[: len(file.solid.rstrip(_BLANK))]
        gap = file.newline if begun.strip(_BOM) else ""
        return f"{begun}{gap}{file.format({section: {name: entry}}, '')}{text[len(begun) :] or file.newline}"
    holder = file.root.only(section, "it")
    if holder is None:
        return file.with_member(file.root, section, {name: entry})
    member = holder[1].only(name, f'"{section}"')
    if member is None:
        return file.with_member(holder[1], name, entry)
    key, old = member
    kept = [] if ours is None else [other for other in old.members if other[0].value not in {*ours, *entry}]
    if old.value == {**entry, **{str(other.value): value.value for other, value in kept}}:
        return text
    source = [f"{text[other.start : other.end]}: {text[value.start : value.end]}" for other, value in kept]
    return text[: old.start] + file.format(entry, file.indent(key), source) + text[old.end :]


def get_entry(text: str, section: str, name: str) -> Json:
    """Return the existing entry, or None. Raise `NotJsonc`."""
    root = Jsonc(text).root
    holder = None if root is None else root.only(section, "it")
    found = None if holder is None else holder[1].only(name, f'"{section}"')
    return None if found is None else found[1].value


_MAX_BYTES: Final = 64 * 1024 * 1024


class ClientFile(Struct, frozen=True, kw_only=True):
    """A file as it was read; `text` is None if it does not exist yet."""

    path: Path
    real: Path
    text: str | None
    mode: int | None = None


def read_client_file(path: Path, inside: Iterable[Path], *, root: Path | None = None) -> ClientFile:
    """Read a file that will be changed. Symlinks may lead only to the folders `inside`.

    In a project, below `root`, symlinks are refused: a checkout brings them, and one may point to a git hook.
    """
    link = None if root is None else _link_below(root, path)
    if link is not None:
        raise UsageProblem(
            f"{escape(str(link))} is a link to {escape(os.path.realpath(link))}, and in a project links are not "
            "followed. Remove it, or use --print and add the entry yourself."
        )
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(os.path.realpath(folder)) for folder in inside):
        raise UsageProblem(
            f"{escape(str(path))} is a link to {escape(str(real))}, outside the folders that may be changed. "
            "Use --print and add the entry yourself."
        )
    try:
        with os.fdopen(open_regular(real), "rb") as file:  # opening a FIFO or a device could block or have effects
            status = os.fstat(file.fileno())
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return ClientFile(path=path, real=real, text=None)
    except OSError as error:
        reason = error.strerror or "not a regular file"
        raise UsageProblem(f"Cannot read {escape(str(path))}: {reason}. Fix it, or use --print.") from None
    if len(data) > _MAX_BYTES:
        raise UsageProblem(f"{escape(str(path))} is larger than {_MAX_BYTES >> 20} MiB. Use --print.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UsageProblem(
            f"{escape(str(path))} is not UTF-8 (byte {error.start:,}) and was not changed. Use --print."
        ) from None
    return ClientFile(path=path, real=real, text=text, mode=stat.S_IMODE(status.st_mode))


def _link_below(root: Path, path: Path) -> Path | None:
    """Return the first component below the root that is a symlink."""
    at = root
    for name in path.relative_to(root).parts:
        at /= name
        if at.is_symlink():
            return at
    return None


def write_client_file(found: ClientFile, text: str, *, private: bool) -> None:
    """Replace the file with the new text atomically; if `private`, only the user may read it from now on."""
    mode = 0o600 if found.mode is None and private else found.mode
    found.real.parent.mkdir(parents=True, exist_ok=True)
    with open_descriptor(found.real.parent, FOLDER_FLAGS) as folder:
        with new_file(folder, text.encode(), mode=0o666 if mode is None else 0o600) as new:
            if mode is not None:
                os.fchmod(new.fd, mode & ~0o077 if private else mode)
            if _read_again(found.real.name, folder) != found.text:
                raise UsageProblem(f"{escape(str(found.path))} changed meanwhile. Run the command again.")
            new.replace(found.real.name)
        sync_folder(folder)


def _read_again(name: str, folder: int) -> str | None:
    try:
        return read_regular(name, _MAX_BYTES + 1, folder).decode(errors="surrogateescape")
    except FileNotFoundError:
        return None
