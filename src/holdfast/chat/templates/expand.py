"""Expands what a person wrote: templates are run, file references are read, and everything else stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, ValidationError, convert

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.frontmatter.evaluated import NOTHING, Evaluated
from holdfast.chat.lua.host import LuaError, LuaHost
from holdfast.chat.templates.files import Files, Unreadable
from holdfast.chat.templates.references import Reference, references_in
from holdfast.chat.templates.scan import Scan, has_templates
from holdfast.contract.message import Text
from holdfast.contract.result import Attachment

MAX_INCLUDES: Final = 200
MAX_BYTES: Final = 32 * 1024 * 1024
MAX_DEPTH: Final = 16
MAX_SAID: Final = 100
Table = dict[str, Any]


class Scope(Struct, frozen=True, kw_only=True):
    """What a text is expanded with."""

    files: Files
    lua: LuaHost
    frontmatter: Evaluated = NOTHING
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


def expand(text: str, scope: Scope) -> Expanded:
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
    scan = Scan(text)
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

    def __init__(self, scope: Scope) -> None:
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
            request |= {"frontmatter": script.code, **script.given}
        return request

    def refer(self, reference: Reference, line: int) -> int:
        number = len(self._references) + 1
        self._references[number] = (reference, line)
        return number

    def include(self, question: Table) -> Table:
        """The answer to a template that asks for a file."""
        try:
            return self._include(question)
        except Unreadable as error:
            return {"error": str(error).removesuffix(".")}

    def _include(self, question: Table) -> Table:
        path, place = question.get("path"), question.get("from")
        self._included += 1
        if not isinstance(path, str) or not isinstance(place, int) or place not in self._stacks:
            raise Unreadable("include needs the path of a file.")
        stack = self._stacks[place]
        if self._included > MAX_INCLUDES or self._bytes > MAX_BYTES:
            raise Unreadable("The template includes too many files; include fewer.")
        folder = stack[-1].parent if stack else None
        files = self._scope.files
        if question.get("binary") is True:
            mime = question.get("mime")
            found = files.part(path, mime if isinstance(mime, str) else None, folder)
            return {"file": self._attach(found)}
        real, text = files.text(path, folder)
        if real in stack or len(stack) > MAX_DEPTH:
            chain = " -> ".join(map(files.shown, (*stack, real)))
            raise Unreadable(f"Circular include: {chain}.")
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
        if len(self.said) < MAX_SAID:
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
                raise Unreadable("The files of one message are larger than 32 MB together.")
        except Unreadable as error:
            self.warn(f"The reference {reference.source[:200]!a} is kept as text: {error}", line)
            found = reference.source
            self._unread.add(number)
        self._attached[number] = found
        return found
