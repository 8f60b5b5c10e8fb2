"""Expands user text: runs templates and reads file references."""

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
_FORBIDDEN_ROOTS: Final = ("/proc", "/sys", "/dev")
_TEXT_SUBTYPES: Final = frozenset({"json", "xml", "javascript", "toml", "yaml", "x-yaml", "x-sh", "sql", "x-ndjson"})


class UnreadableFile(Exception):
    """A file cannot be included; the message is a sentence."""


class FileAccess(Struct, frozen=True, kw_only=True):
    """The files that a document may refer to."""

    root: Path
    """References must stay inside it unless `outside` is set."""
    folder: Path
    """The base of relative paths: the document's own folder."""
    outside: bool = False
    is_readable: Callable[[Path], bool]

    @classmethod
    def of(cls, config: Config, *, document: Path, root: Path | None, state: Path | None = None) -> FileAccess:
        """The files of a document, by `chat.files`.

        Trust in the frontmatter alone does not widen them, because it does not cover the text that refers to files.
        """
        from holdfast.sandbox.policy import PathVariables, resolve_policy

        folder = Path(os.path.realpath(document)).parent
        places = PathVariables(cwd=folder, root=root, document=folder, home=Path.home())
        policy = resolve_policy(config.sandbox, places, state=state)
        outside = config.chat.files == "anywhere"
        return cls(root=root or folder, folder=folder, outside=outside, is_readable=policy.is_readable)

    def find(self, path: str, folder: Path | None = None) -> Path:
        """The real path of a readable file. Raises `UnreadableFile`."""
        base = folder or self.folder
        try:
            if self.outside:
                real = paths.resolve(path, base)
            else:
                real = paths.confine(path, root=self.root, base=base, mutating=False)
        except PathRefused as error:
            hint = "" if self.outside else ' `chat.files = "anywhere"` allows files outside the project.'
            raise UnreadableFile(f"{error}{hint if 'outside' in str(error) else ''}") from None
        if any(real.is_relative_to(folder) for folder in _FORBIDDEN_ROOTS):
            raise UnreadableFile(f"{_shown(path)} is a view of the running system, not a regular file.")
        if not self.is_readable(real):
            raise UnreadableFile(f"{_shown(path)} may not be read (sandbox.read_deny).")
        return real

    def shown(self, path: Path) -> str:
        """A path for messages, relative to the root if possible."""
        root = Path(os.path.realpath(self.root))
        return escape(str(path.relative_to(root) if path.is_relative_to(root) else path))

    def text(self, path: str, folder: Path | None = None) -> tuple[Path, str]:
        """The real path and the text of a file to include."""
        real = self.find(path, folder)
        found = self._content(path, real)
        if mime_type(found[:SNIFFED_BYTES], real.name) is not None:
            raise UnreadableFile(f"{_shown(path)} is not a text file. Include it with symbols.BINARY.")
        return real, _decoded(path, found)

    def part(self, path: str, mime: str | None = None, folder: Path | None = None) -> str | Attachment:
        """A file for the model: text, or an attachment of a supported type."""
        real = self.find(path, folder)
        found = self._content(path, real)
        kind = mime or mime_type(found[:SNIFFED_BYTES], real.name)
        if kind is None or kind.startswith("text/") or kind.removeprefix("application/") in _TEXT_SUBTYPES:
            return _decoded(path, found)
        if not (kind.startswith(("image/", "audio/")) or kind == "application/pdf"):
            raise UnreadableFile(f"Unsupported MIME type: {kind}")
        return Attachment(kind=attachment_kind(kind), mime_type=kind, data=found, name=real.name, path=str(real))

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
            raise UnreadableFile(f"{_shown(path)} is larger than {MAX_ATTACHMENT:,} bytes. Use a smaller file.")
        return content


def _decoded(path: str, content: bytes) -> str:
    if len(content) > MAX_TEXT:
        raise UnreadableFile(f"{_shown(path)} is longer than {MAX_TEXT:,} bytes of text. Use a smaller file.")
    return content.decode("utf-8", "replace")


def _shown(path: str) -> str:
    return ascii(path[:200])


MAX_INCLUDES: Final = 200
MAX_BYTES: Final = 32 * 1024 * 1024
MAX_DEPTH: Final = 16
MAX_DIAGNOSTICS: Final = 100
Table = dict[str, Any]


class ExpansionScope(Struct, frozen=True, kw_only=True):
    """The context of an expansion."""

    files: FileAccess
    lua: LuaHost
    frontmatter: EvaluatedFrontmatter = NO_FRONTMATTER
    document: Path | None = None
    line: int = 1
    """The line of the document on which the text starts."""


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
    """Expand user or system text; never the output of a model or a tool."""
    expansion = _Expansion(scope)
    pieces = _pieces(text, expansion)
    if not has_templates(text):
        parts = [piece["text"] if piece["kind"] == "text" else _File(piece["file"]) for piece in pieces]
        return expansion.finish(parts)
    try:
        reply = _reply(scope.lua.expand(expansion.request(pieces), expansion.include))
    except LuaError as error:
        place = "" if error.file is None else f" In {scope.files.shown(Path(error.file))}, line {error.line}."
        line = None if error.line is None or error.file is not None else error.line + scope.line - 1
        return Expanded((Text(text),), (*expansion.diagnostics, Diagnostic("error", f"{error}{place}", line)))
    for warning in reply.warnings:
        expansion.warn(f"A template failed: {warning.message}.", warning.line, warning.file)
    return expansion.finish(reply.parts)


def _reply(given: Table) -> _Reply:
    try:
        return convert(given, _Reply)
    except ValidationError:
        raise LuaError("The template returned an invalid reply. Make it simpler.") from None


def _pieces(text: str, expansion: _Expansion | None) -> list[Table]:
    """The pieces of a template for Lua. File references are recognised only with `expansion`."""
    made: list[Table] = []
    scan = TemplateScan(text)
    if scan.gave_up and expansion is not None:
        expansion.warn("Too many templates are never closed, so the rest is read as text. Close them.", None)
    for piece in scan.pieces:
        if piece.kind != "text":
            kind = "code" if piece.kind == "code" else "expression"
            made.append({"kind": kind, "text": piece.source, "code": piece.code, "line": piece.line})
            continue
        line = piece.line
        for part in references_in(piece.source) if expansion is not None else [piece.source]:
            if isinstance(part, Reference) and expansion is not None:
                made.append({"kind": "file", "file": expansion.refer(part, line), "line": line})
            else:
                source = str(part)
                made.append({"kind": "text", "text": source, "line": line})
                line += source.count("\n")
    return made


class _Expansion:
    """One expansion: the files it refers to and includes, and its diagnostics."""

    def __init__(self, scope: ExpansionScope) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._scope = scope
        self._references: dict[int, tuple[Reference, int]] = {}
        self._attached: dict[int, str | Attachment] = {}
        self._stacks: dict[int, tuple[Path, ...]] = {0: () if scope.document is None else (scope.document,)}
        self._unread: set[int] = set()
        """References that stay text because they cannot be read."""
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
        """The reply to a template that requests a file."""
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
            raise UnreadableFile("The template includes too many files. Include fewer.")
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
        if len(self.diagnostics) < MAX_DIAGNOSTICS:
            self.diagnostics.append(Diagnostic("warning", message + place, here))

    def finish(self, parts: Sequence[str | _File]) -> Expanded:
        """The parts with their files; adjacent texts are joined."""
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
        return Expanded(tuple(done), tuple(self.diagnostics))

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
                raise UnreadableFile("The files of one message exceed 32 MB in total.")
        except UnreadableFile as error:
            self.warn(f"The reference {reference.source[:200]!a} stays text: {error}", line)
            found = reference.source
            self._unread.add(number)
        self._attached[number] = found
        return found
