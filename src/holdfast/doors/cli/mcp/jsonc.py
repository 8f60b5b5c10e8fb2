"""JSON with comments and trailing commas: read with the place of everything, and changed by editing the text."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NoReturn

from msgspec import Struct

from holdfast.contract.errors import HoldfastError
from holdfast.contract.values import Json

_GAP: Final = re.compile(r"[ \t\r\n]*")
_COMMENT: Final = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD: Final = re.compile(r"true|false|null")
_INDENT: Final = re.compile(r"[ \t]*")
_MAX_DEPTH: Final = 200
_BOM: Final = "\ufeff"


class NotJsonc(HoldfastError):
    """The text is not JSON, or nothing can be put where it is wanted."""


class Node(Struct, frozen=True):
    """A value and where it stands: `text[start:end]`."""

    start: int
    end: int
    value: Json
    members: tuple[Member, ...] | None = None
    """Of an object, in order; None for everything else."""
    inside: int = 0
    """Of an object: behind the last thing in it that is not a blank, a comment included."""
    comma: bool = False
    """Of an object: whether a comma follows the last member."""


class Member(Struct, frozen=True):
    key: str
    start: int
    node: Node


class Parsed(Struct, frozen=True):
    root: Node | None
    """None where there is nothing but blanks and comments."""
    comments: tuple[str, ...]
    end: int
    """Behind the last thing that is not a blank."""


def parse(text: str) -> Parsed:
    """Raises `NotJsonc`, which says where."""
    reader = _Reader(text)
    reader.skip()
    root = None if reader.at == len(text) else reader.value(0)
    reader.skip()
    if reader.at != len(text):
        reader.fail("nothing more was expected")
    return Parsed(root, tuple(reader.comments), reader.solid)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = self.solid = 1 if text.startswith(_BOM) else 0
        self.comments: list[str] = []

    def skip(self) -> None:
        """Over blanks and comments."""
        while True:
            found = _GAP.match(self.text, self.at)
            self.at = found.end() if found else self.at
            comment = _COMMENT.match(self.text, self.at)
            if comment is None:
                return
            self.comments.append(comment[0])
            self.at = self.solid = comment.end()

    def value(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            self.fail(f"it is nested more than {_MAX_DEPTH} deep")
        match self.text[self.at : self.at + 1]:
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case _:
                return self._scalar()

    def _object(self, depth: int) -> Node:
        start, comma = self.at, False
        self._take("{")
        members: list[Member] = []
        while not self._ends("}"):
            if members and not comma:
                self.fail("a comma or } was expected")
            key = self._key()
            at = self.at
            self.at = self.solid = key.end()
            self.skip()
            self._take(":")
            self.skip()
            members.append(Member(json.loads(key[0]), at, self.value(depth + 1)))
            comma = self._comma()
        inside = self.solid
        self._take("}")
        value: Json = {member.key: member.node.value for member in members}
        return Node(start, self.at, value, tuple(members), inside, comma)

    def _array(self, depth: int) -> Node:
        start, comma = self.at, False
        self._take("[")
        items: list[Json] = []
        while not self._ends("]"):
            if items and not comma:
                self.fail("a comma or ] was expected")
            items.append(self.value(depth + 1).value)
            comma = self._comma()
        self._take("]")
        return Node(start, self.at, items)

    def _scalar(self) -> Node:
        for kind in (_STRING, _NUMBER, _WORD):
            found = kind.match(self.text, self.at)
            if found is not None:
                start, self.at = self.at, found.end()
                self.solid = self.at
                return Node(start, self.at, self._loaded(found[0]))
        return self.fail("a value was expected")

    def _loaded(self, text: str) -> Json:
        try:
            return json.loads(text)
        except ValueError:
            self.fail("that number is too long")

    def _key(self) -> re.Match[str]:
        return _STRING.match(self.text, self.at) or self.fail("a name in double quotes was expected")

    def _comma(self) -> bool:
        self.skip()
        if not self.text.startswith(",", self.at):
            return False
        self._take(",")
        return True

    def _ends(self, sign: str) -> bool:
        self.skip()
        return self.text.startswith(sign, self.at)

    def _take(self, sign: str) -> None:
        if not self.text.startswith(sign, self.at):
            self.fail(f"{sign} was expected")
        self.at = self.solid = self.at + 1

    def fail(self, why: str) -> NoReturn:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - self.text.rfind("\n", 0, self.at)
        raise NotJsonc(f"line {line}, column {column}: {why}")


def put(text: str, section: str, name: str, entry: dict[str, Json], *, ours: Collection[str] | None = None) -> str:
    """The text with `entry` as `name` in the object `section`; all else stays as it is. Raises `NotJsonc`.

    What an entry that is there has beside `ours` stays in it, letter by letter; None: nothing stays.
    A text in which it stands already comes back unchanged.
    """
    found = parse(text)
    style = _Style.of(text, found.root)
    if found.root is None:
        new = style.written({section: {name: entry}}, "")
        begun = text[: found.end]
        gap = style.newline if begun.strip(_BOM) else ""
        return f"{begun}{gap}{new}{text[found.end :] or style.newline}"
    holder = _only(found.root, section, "it")
    if holder is None:
        return _insert(text, found.root, section, {name: entry}, style)
    old = _only(holder.node, name, f'"{section}"')
    if old is None:
        return _insert(text, holder.node, name, entry, style)
    node = old.node
    kept = () if ours is None else tuple(member for member in node.members or () if member.key not in {*ours, *entry})
    if node.value == {**entry, **{member.key: member.node.value for member in kept}}:
        return text
    indent = _indent_at(text, old.start)
    written = style.with_members(style.written(entry, indent), [_source(text, member) for member in kept], indent)
    return text[: node.start] + written + text[node.end :]


def _source(text: str, member: Member) -> str:
    key = _STRING.match(text, member.start)
    assert key is not None
    return f"{key[0]}: {text[member.node.start : member.node.end]}"


def _only(node: Node, key: str, what: str) -> Member | None:
    if node.members is None:
        raise NotJsonc(f"{what} is not an object")
    found = [member for member in node.members if member.key == key]
    if len(found) > 1:
        raise NotJsonc(f'{what} has "{key}" {len(found)} times')
    return found[0] if found else None


class _Style(Struct, frozen=True):
    """How the text is laid out, so that what is added looks like the rest."""

    newline: str
    unit: str
    flat: bool
    """All on one line."""

    @classmethod
    def of(cls, text: str, root: Node | None) -> _Style:
        newline = "\r\n" if "\r\n" in text else "\n"
        members = () if root is None else root.members or ()
        flat = root is not None and bool(members) and _on_one_line(text, root)
        unit = next((indent for member in members if (indent := _own_indent(text, member.start))), "  ")
        return cls(newline, unit, flat)

    def written(self, value: Json, indent: str) -> str:
        if self.flat:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        return f"{self.newline}{indent}".join(lines)

    def with_members(self, written: str, more: Sequence[str], indent: str) -> str:
        """An object that has members already, with more of them behind those."""
        if not more:
            return written
        if self.flat:
            return f"{written[:-1]}, {', '.join(more)}}}"
        gap = f"{self.newline}{indent}"
        begun = written.removesuffix(f"{gap}}}")
        return begun + "".join(f",{gap}{self.unit}{member}" for member in more) + f"{gap}}}"


def _insert(text: str, node: Node, key: str, value: Json, style: _Style) -> str:
    """A new last member, behind whatever comments follow the one that was last."""
    members = node.members or ()
    comma = "" if not members or node.comma else ","
    after = members[-1].node.end if members else node.inside
    closing = _indent_at(text, node.start)
    indent = next(_own_indents(text, node), None)
    indent = closing + style.unit if indent is None else indent
    one_line = style.flat or (bool(members) and _on_one_line(text, node))
    member = f"{json.dumps(key, ensure_ascii=False)}: "
    if one_line:
        new = f" {member}{json.dumps(value, ensure_ascii=False)}" if members else member + json.dumps(value)
    else:
        new = f"{style.newline}{indent}{member}{style.written(value, indent)}"
    trailing = "," if node.comma else ""
    kept = text[node.inside : node.end - 1]
    ending = kept if one_line or "\n" in kept else f"{style.newline}{closing}"
    return text[:after] + comma + text[after : node.inside] + new + trailing + ending + text[node.end - 1 :]


def entry_in(text: str, section: str, name: str) -> Json:
    """What stands there now; None if nothing does. Raises `NotJsonc`."""
    root = parse(text).root
    holder = None if root is None else _only(root, section, "it")
    found = None if holder is None else _only(holder.node, name, f'"{section}"')
    return None if found is None else found.node.value


def _on_one_line(text: str, node: Node) -> bool:
    return not any(sign in text[node.start : node.end] for sign in "\r\n")


def _own_indents(text: str, node: Node) -> Iterator[str]:
    for member in node.members or ():
        indent = _own_indent(text, member.start)
        if indent is not None:
            yield indent


def _own_indent(text: str, at: int) -> str | None:
    """The blanks before what begins its line; None where something else is before it."""
    begin = text.rfind("\n", 0, at) + 1
    before = text[begin:at]
    return before if begin and not before.strip(" \t") else None


def _indent_at(text: str, at: int) -> str:
    """The blanks the line begins with."""
    begin = text.rfind("\n", 0, at) + 1
    found = _INDENT.match(text, begin)
    return found[0] if found else ""
