"""Files a document refers to: found, checked and read here, by the host, with bounds; Lua never opens one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.config.model import Config
from holdfast.contract.errors import PathRefused
from holdfast.contract.result import Attachment
from holdfast.fs import paths
from holdfast.fs.beneath import NotRegular, regular_file
from holdfast.text.visible import visible
from holdfast.tools.files.sniff import SNIFFED_BYTES, attachment_kind, mime_type

MAX_TEXT: Final = 1024 * 1024
MAX_ATTACHMENT: Final = 10 * 1024 * 1024
_NEVER: Final = ("/proc", "/sys", "/dev")
_TEXTUAL: Final = frozenset({"json", "xml", "javascript", "toml", "yaml", "x-yaml", "x-sh", "sql", "x-ndjson"})


class Unreadable(Exception):
    """A file cannot be used; the message is a sentence."""


class Files(Struct, frozen=True, kw_only=True):
    """Which files a document may refer to."""

    root: Path
    """References stay inside it unless `outside` is set."""
    folder: Path
    """Where relative paths begin: the document's own folder."""
    outside: bool = False
    is_readable: Callable[[Path], bool]

    @classmethod
    def of(cls, config: Config, *, document: Path, root: Path | None, state: Path | None = None) -> Files:
        """Those of a document; `chat.files` says how far they reach.

        Trust in a frontmatter alone says nothing: the text that refers to files is no part of what is trusted.
        """
        from holdfast.sandbox.policy import Places, resolve

        folder = Path(os.path.realpath(document)).parent
        places = Places(cwd=folder, root=root, document=folder, home=Path.home())
        policy = resolve(config.sandbox, places, state=state)
        outside = config.chat.files == "anywhere"
        return cls(root=root or folder, folder=folder, outside=outside, is_readable=policy.is_readable)

    def find(self, path: str, folder: Path | None = None) -> Path:
        """The real path of a file that may be read. Raises `Unreadable`."""
        base = folder or self.folder
        try:
            if self.outside:
                real = paths.resolve(path, base)
            else:
                real = paths.confine(path, root=self.root, base=base, mutating=False)
        except PathRefused as error:
            hint = "" if self.outside else " `chat.files = \"anywhere\"` lets a document refer to files elsewhere."
            raise Unreadable(f"{error}{hint if 'outside' in str(error) else ''}") from None
        if any(real.is_relative_to(folder) for folder in _NEVER):
            raise Unreadable(f"{_shown(path)} is no file of yours, but a view of the running system.")
        if not self.is_readable(real):
            raise Unreadable(f"{_shown(path)} may not be read (sandbox.read_deny).")
        return real

    def shown(self, path: Path) -> str:
        """A path as messages name it."""
        root = Path(os.path.realpath(self.root))
        return visible(str(path.relative_to(root) if path.is_relative_to(root) else path))

    def text(self, path: str, folder: Path | None = None) -> tuple[Path, str]:
        """A text to include."""
        real = self.find(path, folder)
        found = self._content(path, real)
        if mime_type(found[:SNIFFED_BYTES], real.name) is not None:
            raise Unreadable(f"{_shown(path)} is not a text file; include it with symbols.BINARY.")
        return real, _decoded(path, found)

    def part(self, path: str, mime: str | None = None, folder: Path | None = None) -> str | Attachment:
        """A file as a model is sent it: text, or an attachment of a kind models know."""
        real = self.find(path, folder)
        found = self._content(path, real)
        kind = mime or mime_type(found[:SNIFFED_BYTES], real.name)
        if kind is None or kind.startswith("text/") or kind.removeprefix("application/") in _TEXTUAL:
            return _decoded(path, found)
        if not (kind.startswith(("image/", "audio/")) or kind == "application/pdf"):
            raise Unreadable(f"Unsupported MIME type: {kind}")
        return Attachment(kind=attachment_kind(kind), mime_type=kind, data=found, name=real.name)

    def _content(self, path: str, real: Path) -> bytes:
        root = Path(os.path.realpath(self.root))
        beneath = root if real.is_relative_to(root) else Path(real.anchor)
        try:
            with regular_file(beneath, real) as opened, open(opened, "rb", closefd=False) as file:
                content = file.read(MAX_ATTACHMENT + 1)
        except FileNotFoundError:
            raise Unreadable(f"There is no file {_shown(path)}.") from None
        except NotRegular as error:
            raise Unreadable(f"{_shown(path)} {error}.") from None
        except OSError as error:
            raise Unreadable(f"{_shown(path)} cannot be read: {error.strerror}.") from None
        if len(content) > MAX_ATTACHMENT:
            raise Unreadable(f"{_shown(path)} is larger than {MAX_ATTACHMENT:,} bytes; refer to a smaller file.")
        return content


def _decoded(path: str, content: bytes) -> str:
    if len(content) > MAX_TEXT:
        raise Unreadable(f"{_shown(path)} is longer than {MAX_TEXT:,} bytes of text; refer to a smaller file.")
    return content.decode("utf-8", "replace")


def _shown(path: str) -> str:
    return ascii(path[:200])
