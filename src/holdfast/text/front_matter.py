"""Reads YAML front matter: the block between `---` lines at the start of a Markdown file.

A deliberate subset of YAML: texts (plain, quoted, block), lists of texts and tables of texts. Each value is parsed when
it is asked for, so that keys of other programs may hold any YAML. Anchors, tags and aliases are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import DecodeError, Struct
from msgspec.json import decode

_OPENING: Final = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSING: Final = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_ENTRY: Final = re.compile(r"""(?P<key>[A-Za-z0-9_.-]+|"[^"\\]*"|'[^']*')[ ]*:(?:[ ]+(?P<value>.*)|[ ]*)""")
_ITEM: Final = re.compile(r" *-(?: +(?P<value>.*))?")
_BLOCK: Final = re.compile(r"(?P<style>[|>])(?P<chomp>[+-]?)[ ]*(?:#.*)?")
_COMMENT: Final = re.compile(r"(?:^|[ \t])#.*$")
_FLOW_ITEM: Final = re.compile(
    r"""\s*+(?P<item>"(?:[^"\\]|\\.)*+"|'(?:[^']|'')*+'|[^\s,"'\[\]{}][^,"'\[\]{}]*+)\s*+(?:,\s*+|$)"""
)
"""One item of a list in brackets with the comma behind it. Nothing is tried twice: the file may be hostile."""
_RESERVED: Final = "[]{}&*!|>%@`,?#"
"""Characters that no plain text starts with in YAML."""
MAX_VALUE: Final = 16_384
"""Characters of a value that are read; descriptions of skills have up to 1024."""


class BadFrontMatter(ValueError):
    """The message completes "the front matter …"."""


class _RawValue(Struct, frozen=True):
    line: int
    """Counted from 1, the line with `---`."""
    inline: str
    """The rest of the line behind the key."""
    below: tuple[str, ...] = ()
    """The lines that belong to it: indented ones, and list items."""


class FrontMatter(Struct, frozen=True):
    """The entries of the block, unparsed, and the text behind it."""

    entries: Mapping[str, _RawValue]
    body: str

    def text(self, key: str) -> str | None:
        """The text of a key; None if it is absent or empty. Raises `BadFrontMatter` for anything but a text."""
        raw = self._value(key)
        return None if raw is None else _text(key, raw)

    def texts(self, key: str) -> Sequence[str] | str | None:
        """A list of texts, or a single text; None if the key is absent. An empty value is an empty list."""
        raw = self._value(key)
        if raw is None:
            return None
        if raw.inline.startswith("["):
            return _flow_list(key, raw)
        if raw.inline or not raw.below:
            return _text(key, raw) or []
        items = [_ITEM.fullmatch(line) for line in raw.below if _without_comment(line).strip()]
        if not any(items):
            return _text(key, raw) or []
        found = [_scalar(key, raw.line, _without_comment(item["value"] or "")) for item in items if item is not None]
        if None in items or "" in found:
            raise BadFrontMatter(f"has a list that cannot be read at '{key}' (line {raw.line})")
        return found

    def table(self, key: str) -> dict[str, str]:
        """A table of texts, one level deep; empty if it is anything else."""
        raw = self.entries.get(key)
        lines = [] if raw is None or raw.inline else [line for line in raw.below if _without_comment(line).strip()]
        indents = {_indent(line) for line in lines}
        entries = [_ENTRY.fullmatch(line.strip()) for line in lines]
        if raw is None or len(indents) > 1 or None in entries:
            return {}
        try:
            found = {
                entry["key"].strip("\"'"): _scalar(key, raw.line, _without_comment(entry["value"] or ""))
                for entry in entries
                if entry is not None
            }
        except BadFrontMatter:
            return {}
        return {name: value for name, value in found.items() if value}

    def _value(self, key: str) -> _RawValue | None:
        raw = self.entries.get(key)
        if raw is not None and len(raw.inline) + sum(map(len, raw.below)) > MAX_VALUE:
            raise BadFrontMatter(f"has more than {MAX_VALUE:,} characters at '{key}' (line {raw.line})")
        return raw


def read_front_matter(text: str) -> FrontMatter | None:
    """Split the front matter from the text; None if the text has none. Raises `BadFrontMatter`."""
    opening = _OPENING.match(text)
    if opening is None:
        return None
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise BadFrontMatter("has no closing `---` line")
    lines = text[opening.end() : closing.start()].replace("\r\n", "\n").split("\n")
    return FrontMatter(_entries(lines), text[closing.end() :].lstrip("\r\n"))


def _entries(lines: Sequence[str]) -> dict[str, _RawValue]:
    found: dict[str, _RawValue] = {}
    below: list[str] = []
    key = ""
    for number, line in enumerate(lines, start=2):
        entry = _ENTRY.fullmatch(line.rstrip())
        belongs = not line.strip() or line[0] in " \t" or (line.startswith("-") and entry is None)
        if line.startswith("#"):
            continue
        if belongs and (key or not line.strip()):
            below.append(line)
            continue
        if entry is None:
            raise BadFrontMatter(f"cannot be read in line {number}")
        if key:
            found[key] = _RawValue(found[key].line, found[key].inline, tuple(below))
        key, below = entry["key"].strip("\"'"), []
        if key in found:
            raise BadFrontMatter(f"has '{key}' twice (line {number})")
        found[key] = _RawValue(number, (entry["value"] or "").strip())
    if key:
        found[key] = _RawValue(found[key].line, found[key].inline, tuple(below))
    return found


def _text(key: str, raw: _RawValue) -> str | None:
    if block := _BLOCK.fullmatch(raw.inline):
        return _block_text(raw.below, folded=block["style"] == ">", keep=block["chomp"] == "+") or None
    more = [line.strip() for line in raw.below if line.strip()]
    if raw.inline[:1] in ('"', "'"):
        return _scalar(key, raw.line, " ".join((raw.inline, *more))) or None
    if any(_ITEM.fullmatch(line) for line in raw.below if line.strip()) or (
        not raw.inline and any(_ENTRY.fullmatch(line) for line in more)
    ):
        raise BadFrontMatter(f"has a list or a table at '{key}' (line {raw.line}), where a text is needed")
    return _scalar(key, raw.line, " ".join(filter(None, map(_without_comment, (raw.inline, *more))))) or None


def _block_text(lines: Sequence[str], *, folded: bool, keep: bool) -> str:
    depth = min((_indent(line) for line in lines if line.strip()), default=0)
    plain = "\n".join(line[depth:].rstrip() for line in lines)
    if folded:
        plain = re.sub(r"\n(\n+)", r"\1", re.sub(r"(?<=[^\n])\n(?=[^\n ])", " ", plain))
    return plain if keep else plain.strip("\n")


def _flow_list(key: str, raw: _RawValue) -> list[str]:
    inner = re.fullmatch(r"\[(.*)\](?:[ \t]+#.*)?", " ".join((raw.inline, *map(str.strip, raw.below))).strip())
    if inner is None:
        raise BadFrontMatter(f"has a list without a closing bracket at '{key}' (line {raw.line})")
    found: list[str] = []
    inside, at = inner[1].strip(), 0
    while at < len(inside):
        item = _FLOW_ITEM.match(inside, at)
        if item is None or (item["item"][0] not in "\"'" and _COMMENT.search(item["item"])):
            raise BadFrontMatter(f"has a list that cannot be read at '{key}' (line {raw.line})")
        found.append(_scalar(key, raw.line, item["item"]))
        at = item.end()
    return found


def _scalar(key: str, line: int, written: str) -> str:
    """The text of a plain or quoted scalar. A colon in a plain text is accepted, as most readers do."""
    written = written.strip()
    if written[:1] == '"':
        try:
            return decode(_quoted(written), type=str)
        except DecodeError:
            raise BadFrontMatter(f"has a quoted text that cannot be read at '{key}' (line {line})") from None
    if written[:1] == "'":
        if not re.fullmatch(r"'(?:[^']|'')*'", _quoted(written)):
            raise BadFrontMatter(f"has a quoted text that cannot be read at '{key}' (line {line})")
        return _quoted(written)[1:-1].replace("''", "'")
    if written[:1] and written[0] in _RESERVED:
        raise BadFrontMatter(f"has YAML at '{key}' (line {line}) that holdfast does not read; quote the text")
    return "" if written in ("~", "null") else written


def _quoted(written: str) -> str:
    """A quoted text without the comment behind it."""
    end = written.rfind(written[0])
    rest = written[end + 1 :]
    return written[: end + 1] if not rest.strip() or re.fullmatch(r"[ \t]+#.*", rest) else written


def _without_comment(line: str) -> str:
    return line if line.lstrip()[:1] in ('"', "'") else _COMMENT.sub("", line).rstrip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
