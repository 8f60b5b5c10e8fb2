"""Items of the memory as Markdown files: front matter with the namespace, then the content unchanged.

A file cannot say where an item comes from: an import writes new items, whose provenance is the import.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.cli.errors import UsageProblem
from holdfast.contract.memory import check_namespace

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
_FENCE: Final = "---"
_IMPORTED: Final = ("namespace", "expires")
_SHOWN: Final = ("id", "created", "supersedes", "superseded_by", "provenance")
"""Written for the reader of the file; an import ignores it."""


class MemoryFile(Struct, frozen=True):
    content: str
    namespace: str | None = None
    expires: str | None = None


def render(item: dict[str, Any]) -> str:
    """Return the file of an item, given as `memory.read` returns it."""
    fields = {name: item[name] for name in (*_IMPORTED, *_SHOWN) if item.get(name) is not None}
    lines = [f"{name}: {json.dumps(value, ensure_ascii=True)}" for name, value in fields.items()]
    return "\n".join((_FENCE, *lines, _FENCE, f"{item['content']}\n"))


def parse(text: str, name: str) -> MemoryFile:
    """Read a file. Without front matter, all of it is the content. Raises `UsageProblem`."""
    body = text.removesuffix("\n")
    if not text.startswith(f"{_FENCE}\n"):
        return MemoryFile(body)
    head, end, rest = text[len(_FENCE) + 1 :].partition(f"\n{_FENCE}\n")
    if not end:
        return MemoryFile(body)
    fields: dict[str, str] = {}
    for line in head.split("\n"):
        key, colon, value = line.partition(":")
        if colon and key in _IMPORTED:
            fields[key] = _text(value.strip(), f"{key} of {name}")
    return MemoryFile(rest.removesuffix("\n"), fields.get("namespace"), fields.get("expires"))


def _text(value: str, what: str) -> str:
    """Return a plain or a quoted value."""
    if not value.startswith(('"', "'")):
        return value
    try:
        found = json.loads(value) if value.startswith('"') else value[1:-1]
    except ValueError:
        found = None
    if not isinstance(found, str):
        raise UsageProblem(f"Cannot read the {what}. Write it as text: namespace: project/notes.")
    return found


def read_file(path: Path) -> MemoryFile:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageProblem(f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB, so it is no item.")
        text = path.read_bytes().decode()
    except FileNotFoundError:
        raise UsageProblem(f"There is no file {path}.") from None
    except UnicodeDecodeError:
        raise UsageProblem(f"{path} is not UTF-8 text, so it was not imported.") from None
    return parse(text, str(path))


def markdown_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files, and all Markdown files below the folders, in a fixed order."""
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*.md") if file.is_file() and not file.is_symlink())
        else:
            yield path


def write_file(folder: Path, item: dict[str, Any]) -> Path:
    """Write an item to `folder/NAMESPACE/ID.md`. The grammar of namespaces and ids leaves no way out of the folder."""
    path = folder / check_namespace(item["namespace"]) / f"{item['id']}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(render(item).encode())
    return path
