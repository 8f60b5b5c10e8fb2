"""Expands what a person wrote: templates are run, file references are read, and everything else stays as it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, ValidationError, convert

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.frontmatter.evaluation import NO_FRONTMATTER, EvaluatedFrontmatter
from holdfast.chat.lua.host import LuaError, LuaHost
from holdfast.chat.templates.scanner import Reference, TemplateScan, has_templates, references_in
from holdfast.config.config import Config
from holdfast.contract.errors import PathRefused
from holdfast.contract.message import Text
from holdfast.contract.result import Attachment
from holdfast.fs import paths
from holdfast.fs.beneath import NotRegular, open_file_beneath
from holdfast.text.escape import escape
from holdfast.tools.files.pages import SNIFFED_BYTES, attachment_kind, mime_type

MAX_TEXT: Final = 1024 * 1024
MAX_ATTACHMENT: Final = 10 * 1024 * 1024
_NEVER: Final = ("/proc", "/sys", "/dev")
_TEXTUAL: Final = frozenset({"json", "xml", "javascript", "toml", "yaml", "x-yaml", "x-sh", "sql", "x-ndjson"})


class UnreadableFile(Exception):
    """A file cannot be used; the message is a sentence."""


class FileAccess(Struct, frozen=True, kw_only=True):
    """Which files a document may refer to."""

    root: Path
    """References stay inside it unless `outside` is set."""
    folder: Path
    """Where relative paths begin: the document's own folder."""
    outside: bool = False
    is_readable: Callable[[Path], bool]

    @classmethod
    def of(cls, config: Config, *, document: Path, root: Path | None, state: Path | None = None) -> FileAccess:
        """Those of a document; `chat.files` says how far they reach.

        Trust in a frontmatter alone says nothing: the text that refers to files is no part of what is trusted.
        """
        from holdfast.sandbox.policy import PathVariables, resolve_policy

        folder = Path(os.path.realpath(document)).parent
        places = PathVariables(cwd=folder, root=root, document=folder, home=Path.home())
        policy = resolve_policy(config.sandbox, places, state=state)
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
            hint = "" if self.outside else ' `chat.files = "anywhere"` lets a document refer to files elsewhere.'
            raise UnreadableFile(f"{error}{hint if 'outside' in str(error) else ''}") from None
        if any(real.is_relative_to(folder) for folder in _NEVER):
            raise UnreadableFile(f"{_shown(path)} is no file of yours, but a view of the running system.")
        if not self.is_readable(real):
            raise UnreadableFile(f"{_shown(path)} may not be read (sandbox.read_deny).")
        return real

    def shown(self, path: Path) -> str:
        """A path as messages name it."""
        root = Path(os.path.realpath(self.root))
        return escape(str(path.relative_to(root) if path.is_relative_to(root) else path))

    def text(self, path: str, folder: Path | None = None) -> tuple[Path, str]:
        """A text to include."""
        real = self.find(path, folder)
        found = self._content(path, real)
        if mime_type(found[:SNIFFED_BYTES], real.name) is not None:
            raise UnreadableFile(f"{_shown(path)} is not a text file; include it with symbols.BINARY.")
        return real, _decoded(path, found)

    def part(self, path: str, mime: str | None = None, folder: Path | None = None) -> str | Attachment:
        """A file as a model is sent it: text, or an attachment of a kind models know."""
        real = self.find(path, folder)
        found = self._content(path, real)
        kind = mime or mime_type(found[:SNIFFED_BYTES], real.name)
        if kind is None or kind.startswith("text/") or kind.removeprefix("application/") in _TEXTUAL:
            return _decoded(path, found)
        if not (kind.startswith(("image/", "audio/")) or kind == "application/pdf"):
            raise UnreadableFile(f"Unsupported MIME type: {kind}")
        return Attachment(kind=attachment_kind(kind), mime_type=kind, data=found, name=real.name)

    def _content(self, path: str, real: Path) -> bytes:
        root = Path(os.path.realpath(self.root))
        beneath = root if real.is_relative_to(root) else Path(real.anchor)
        try:
            with open_file_beneath(beneath, real) as opened, open(opened, "rb", closefd=False) as file:
                content = file.read(MAX_ATTACHMENT + 1)
        except FileNotFoundError:
            raise UnreadableFile(f"There is no file {_shown(path)}.") from None
        except NotRegular as error:
            raise UnreadableFile(f"{_shown(path)} {error}.") from None
        except OSError as error:
            raise UnreadableFile(f"{_shown(path)} cannot be read: {error.strerror}.") from None
        if len(content) > MAX_ATTACHMENT:
            raise UnreadableFile(f"{_shown(path)} is larger than {MAX_ATTACHMENT:,} bytes; refer to a smaller file.")
        return content


def _decoded(path: str, content: bytes) -> str:
    if len(content) > MAX_TEXT:
        raise UnreadableFile(f"{_shown(path)} is longer than {MAX_TEXT:,} bytes of text; refer to a smaller file.")
    return content.decode("utf-8", "replace")


def _shown(path: str) -> str:
    return ascii(path[:200])


MAX_INCLUDES: Final = 200
MAX_BYTES: Final = 32 * 1024 * 1024
MAX_DEPTH: Final = 16
MAX_DIAGNOSTICS: Final = 100
Table = dict[str, Any]


class ExpansionScope(Struct, frozen=True, kw_only=True):
    """What a text is expanded with."""

    files: FileAccess
    lua: LuaHost
    frontmatter: EvaluatedFrontmatter = NO_FRONTMATTER
    document: Path | None = None
    line: int = 1
    """The line of the document on which the text begins."""


class Expanded(Struct, frozen=True):
    parts: tuple[Text | Attachment, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


class _File(Struct, frozen=True):
    file: int


class _Warning(Struct, frozen=True):
    message: str
    line: int | None = None
    file: str | None = None


class _Reply(Struct, frozen=True):
    parts: list[str | _File]
    warnings: list[_Warning]


def expand(text: str, scope: ExpansionScope) -> Expanded:
    """For the text of a person or a system message; never for a model's text or a tool's output."""
    work = _Work(scope)
    pieces = _pieces(text, work)
    if not has_templates(text):
        parts = [piece["text"] if piece["kind"] == "text" else _File(piece["file"]) for piece in pieces]
        return work.finish(parts)
    try:
        reply = _reply(scope.lua.expand(work.request(pieces), work.include))
    except LuaError as error:
        place = "" if error.file is None else f" In {scope.files.shown(Path(error.file))}, line {error.line}."
        line = None if error.line is None or error.file is not None else error.line + scope.line - 1
        return Expanded((Text(text),), (*work.said, Diagnostic("error", f"{error}{place}", line)))
    for warning in reply.warnings:
        work.warn(f"A template failed: {warning.message}.", warning.line, warning.file)
    return work.finish(reply.parts)


def _reply(given: Table) -> _Reply:
    try:
        return convert(given, _Reply)
    except ValidationError:
        raise LuaError("The template gave an answer that cannot be read; make it simpler.") from None


def _pieces(text: str, work: _Work | None) -> list[Table]:
    """The pieces of a template as Lua gets them; file references only where there is somebody to read them."""
    made: list[Table] = []
    scan = TemplateScan(text)
    if scan.gave_up and work is not None:
        work.warn("Too many templates are opened and never closed, so the rest is taken for text; close them.", None)
    for piece in scan.pieces:
        if piece.kind != "text":
            kind = "code" if piece.kind == "code" else "expression"
            made.append({"kind": kind, "text": piece.source, "code": piece.code, "line": piece.line})
            continue
        line = piece.line
        for part in references_in(piece.source) if work is not None else [piece.source]:
            if isinstance(part, Reference) and work is not None:
                made.append({"kind": "file", "file": work.refer(part, line), "line": line})
            else:
                source = str(part)
                made.append({"kind": "text", "text": source, "line": line})
                line += source.count("\n")
    return made


class _Work:
    """One text being expanded: the files it refers to and includes, and what is to be said about them."""

    def __init__(self, scope: ExpansionScope) -> None:
        self.said: list[Diagnostic] = []
        self._scope = scope
        self._references: dict[int, tuple[Reference, int]] = {}
        self._attached: dict[int, str | Attachment] = {}
        self._stacks: dict[int, tuple[Path, ...]] = {0: () if scope.document is None else (scope.document,)}
        self._unread: set[int] = set()
        """References that are kept as text."""
        self._included = 0
        self._bytes = 0

    def request(self, pieces: list[Table]) -> Table:
        document, script = self._scope.document, self._scope.frontmatter.script
        request: Table = {"pieces": pieces, "variables": dict(self._scope.frontmatter.variables)}
        if document is not None:
            request |= {"name": str(document), "folder": str(document.parent)}
        if script is not None:
            request |= {"frontmatter": script.code, **script.options}
        return request

    def refer(self, reference: Reference, line: int) -> int:
        number = len(self._references) + 1
        self._references[number] = (reference, line)
        return number

    def include(self, question: Table) -> Table:
        """The answer to a template that asks for a file."""
        try:
            return self._include(question)
        except UnreadableFile as error:
            return {"error": str(error).removesuffix(".")}

    def _include(self, question: Table) -> Table:
        path, place = question.get("path"), question.get("from")
        self._included += 1
        if not isinstance(path, str) or not isinstance(place, int) or place not in self._stacks:
            raise UnreadableFile("include needs the path of a file.")
        stack = self._stacks[place]
        if self._included > MAX_INCLUDES or self._bytes > MAX_BYTES:
            raise UnreadableFile("The template includes too many files; include fewer.")
        folder = stack[-1].parent if stack else None
        files = self._scope.files
        if question.get("binary") is True:
            mime = question.get("mime")
            found = files.part(path, mime if isinstance(mime, str) else None, folder)
            return {"file": self._attach(found)}
        real, text = files.text(path, folder)
        if real in stack or len(stack) > MAX_DEPTH:
            chain = " -> ".join(map(files.shown, (*stack, real)))
            raise UnreadableFile(f"Circular include: {chain}.")
        self._bytes += len(text)
        number = len(self._stacks)
        self._stacks[number] = (*stack, real)
        return {"pieces": _pieces(text, None), "id": number, "name": str(real), "folder": str(real.parent)}

    def _attach(self, found: str | Attachment) -> int:
        self._bytes += len(found) if isinstance(found, str) else len(found.data)
        number = -len(self._attached) - 1
        self._attached[number] = found
        return number

    def warn(self, message: str, line: int | None, file: str | None = None) -> None:
        place = "" if file is None else f" In {self._scope.files.shown(Path(file))}, line {line}."
        here = None if line is None or file is not None else line + self._scope.line - 1
        if len(self.said) < MAX_DIAGNOSTICS:
            self.said.append(Diagnostic("warning", message + place, here))

    def finish(self, parts: Sequence[str | _File]) -> Expanded:
        """The parts with their files, texts that follow each other put together."""
        done: list[Text | Attachment] = []
        for part in parts:
            found = part if isinstance(part, str) else self._read(part.file)
            included = self._included > 0 or (not isinstance(part, str) and part.file not in self._unread)
            if isinstance(found, Attachment):
                done.append(found)
            elif done and isinstance(last := done[-1], Text):
                done[-1] = Text(last.text + found, last.included or included)
            elif found:
                done.append(Text(found, included))
        return Expanded(tuple(done), tuple(self.said))

    def _read(self, number: int) -> str | Attachment:
        if number in self._attached:
            return self._attached[number]
        if number not in self._references:
            return ""
        reference, line = self._references[number]
        try:
            found = self._scope.files.part(reference.path, reference.mime)
            self._bytes += len(found) if isinstance(found, str) else len(found.data)
            if self._bytes > MAX_BYTES:
                raise UnreadableFile("The files of one message are larger than 32 MB together.")
        except UnreadableFile as error:
            self.warn(f"The reference {reference.source[:200]!a} is kept as text: {error}", line)
            found = reference.source
            self._unread.add(number)
        self._attached[number] = found
        return found
