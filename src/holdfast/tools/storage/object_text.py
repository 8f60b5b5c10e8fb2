"""The text of an object: what its name and its content say it is, whether they agree, and how it is extracted.

Names lie, so the content decides: an object is ingested only if its bytes are the text, PDF or DOCX that its name
promises. `force` ingests what the content is anyway, and reads other bytes as damaged text.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import time
from importlib.util import find_spec
from shutil import which
from typing import Final, Literal

from msgspec import Struct

from holdfast.contract.command import Command
from holdfast.contract.context import Context
from holdfast.contract.errors import SandboxRefused
from holdfast.text.escape import escape
from holdfast.tools.extraction.extractor import Extractor
from holdfast.tools.files.pages import SNIFFED_BYTES, mime_type
from holdfast.tools.storage.s3_client import ObjectBody
from holdfast.tools.worker_process import WorkerFailed

Kind = Literal["text", "html", "pdf", "docx"]
_TEXT_EXTENSIONS: Final = (
    "txt text md markdown mdx rst adoc asciidoc org tex bib log csv tsv json jsonl ndjson yaml yml toml ini cfg conf "
    "properties env xml svg srt vtt diff patch sql graphql proto py pyi ipynb js mjs cjs ts tsx jsx vue css scss less "
    "c h cc cpp cxx hpp hh cs java kt kts scala go rs rb php pl pm lua r jl swift m mm sh bash zsh fish ps1 bat cmd "
    "dockerfile makefile cmake gradle tf hcl nix ex exs erl hs ml clj el vim po pot ics vcf eml tmpl j2"
)
_TEXTS: Final = frozenset(_TEXT_EXTENSIONS.split())
_KINDS: Final[dict[str, Kind]] = {"html": "html", "htm": "html", "xhtml": "html", "pdf": "pdf", "docx": "docx"}
_NAMES: Final[dict[Kind, str]] = {"text": "text", "html": "HTML", "pdf": "a PDF", "docx": "a DOCX"}
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ARCHIVE: Final = b"PK\x03\x04"
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MAGIC: Final = (
    (b"RIFF", "audio, video or an image (RIFF)"),
    (b"OggS", "Ogg audio"),
    (b"fLaC", "FLAC audio"),
    (b"ID3", "MP3 audio"),
    (b"BZh", "a bzip2 archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"\x7fELF", "a program"),
    (b"!<arch>\n", "an archive"),
    (b"Rar!", "a RAR archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"wOF", "a font"),
    (b"{\\rtf", "RTF"),
)
"""Signatures that can be followed by ASCII alone. Other binary formats have bytes that no text has."""
# The comments are possessive (`*+`): otherwise the number of ways to divide them doubles with each one.
_HTML_START: Final = re.compile(rb"\s*(?:<!--.*?-->\s*)*+<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_ENCODING: Final = re.compile(r"[a-z0-9-]{1,20}", re.ASCII)
_MOST_CONTROLS: Final = 0.01
_FALLBACK_BYTES: Final = 16 * 1024 * 1024
_DOCX_PROGRAMS: Final = (
    ("pandoc", "--sandbox", "-f", "docx", "-t", "plain", "--wrap=none", "-"),
    ("docx2txt", "-", "-"),
)
_PDF_PROGRAMS: Final = (("pdftotext", "-q", "-enc", "UTF-8", "-", "-"),)


class NotText(Exception):
    """The object has no text to ingest; the message is the reason, as part of a sentence."""


class ObjectText(Struct, frozen=True):
    text: str
    kind: Kind
    notes: tuple[str, ...] = ()
    """Sentences about how it was read."""


def kind_by_name(key: str) -> Kind | None:
    """Return what the name of an object promises; None if it is no name of a text."""
    name = key.rpartition("/")[2].lower()
    stem, dot, extension = name.rpartition(".")
    if not dot or not stem:  # README, Makefile, .gitignore
        return "text"
    return _KINDS.get(extension) or ("text" if extension in _TEXTS else None)


def name_problem(key: str, *, force: bool) -> str | None:
    """Return why an object is skipped without reading it, or None."""
    if key.endswith("/"):
        return "it is a folder"
    if force or kind_by_name(key) is not None:
        return None
    extension = escape(key.rpartition(".")[2][:20])
    return f"its extension .{extension} is not one of a text (use force to read it anyway)"


def kind_by_content(body: bytes) -> Kind | str:
    """Return what the bytes are: a kind, or words for what is not text."""
    head = body[:SNIFFED_BYTES]
    if any(head.startswith(bom) for bom, _ in _BOMS):
        return "text"
    start = head.lstrip(b" \t\r\n")
    if start.startswith(b"%PDF-"):
        return "pdf"
    if start.startswith(_ARCHIVE):
        return "docx" if b"word/document.xml" in body else "a ZIP archive"
    if head.startswith(_OLE):
        return "an old Office document or one with a password"
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    found = mime_type(head, "")
    if found is not None:
        return "binary data with NUL bytes" if found == "application/octet-stream" else found
    return "html" if _HTML_START.match(head) else "text"


async def read_text(
    key: str, stored: ObjectBody, ctx: Context, extractor: Extractor, *, force: bool, seconds: float, programs: bool
) -> ObjectText:
    """Return the text of an object. Raises `NotText`.

    With `programs`, a program of the system stands in for a missing package. Without, the text of such a document is
    empty, and a note says so.
    """
    body, promised, found = stored.body, kind_by_name(key), kind_by_content(stored.body)
    if stored.encoding not in ("", "identity"):
        shown = stored.encoding if _ENCODING.fullmatch(stored.encoding) else "of no known name"
        raise NotText(f"it is stored with the content encoding {shown}")
    if not body:
        raise NotText("it is empty")
    kind: Kind = "text"
    if found in _NAMES:
        kind = found
    elif not force:
        raise NotText(f"its content is {found}")
    agrees = promised == kind or (promised in ("text", "html") and kind in ("text", "html"))
    if not agrees and not force:
        promise = _NAMES[promised or "text"]
        raise NotText(f"its name promises {promise}, but its content is {_NAMES[kind]} (use force to read it as that)")
    try:
        if kind in ("pdf", "docx"):
            deadline = time.monotonic() + seconds
            program = await _program_for(kind, body, extractor, seconds)
            if program is not None and not programs:
                name = program[0].rpartition("/")[2]
                return ObjectText("", kind, (f"{name} extracts the text after the approval, so it is not shown here.",))
            if program is not None:
                text = await _text_by_program(program, kind, body, ctx, deadline - time.monotonic())
            else:
                text = str((await extractor.ask_once({"do": "document", "kind": kind}, body, seconds))["text"])
            return ObjectText(text.encode("utf-8", "replace").decode(), kind)  # a PDF can have lone surrogates
        if (promised == "html" or (promised is None and kind == "html")) and find_spec("lxml") is not None:
            return await _html_text(body, extractor, seconds, force=force)
    except WorkerFailed as error:
        raise NotText(f"its text cannot be extracted: {error}") from None
    return _plain_text(body, force=force)


def _plain_text(body: bytes, *, force: bool) -> ObjectText:
    """Decode text strictly; with `force`, replace what cannot be decoded."""
    charset, start = next(((name, len(bom)) for bom, name in _BOMS if body.startswith(bom)), ("utf-8", 0))
    notes: tuple[str, ...] = ()
    try:
        text = body[start:].decode(charset)
    except UnicodeDecodeError:
        if not force:
            raise NotText(f"its bytes are not valid {charset.upper()}") from None
        text = body[start:].decode(charset, "replace")
        notes = (f"Bytes that are not valid {charset.upper()} were replaced.",)
    controls = len(_CONTROLS.findall(text))
    if controls and not force and ("\0" in text or controls > len(text) * _MOST_CONTROLS):
        raise NotText("it contains control characters that no text has")
    text = text.replace("\0", "\ufffd").replace("\r\n", "\n")
    if not text.strip():
        raise NotText("it has no text")
    return ObjectText(text, "text", notes)


async def _html_text(body: bytes, extractor: Extractor, seconds: float, *, force: bool) -> ObjectText:
    source = _plain_text(body, force=force)
    request = {
        "do": "render",
        "kind": "html",
        "mode": "text",
        "content_type": "text/html; charset=utf-8",
        "url": "http://localhost/",
        "find": None,
    }
    made = await extractor.ask_once(request, source.text.encode("utf-8", "replace"), seconds)
    if not str(made["text"]).strip():
        raise NotText("the page has no text")
    return ObjectText(str(made["text"]), "html", source.notes)


async def _program_for(kind: Kind, body: bytes, extractor: Extractor, seconds: float) -> tuple[str, ...] | None:
    """Return the command that extracts the text of a document; None if a package does. Raises `NotText`."""
    package, programs = ("pypdfium2", _PDF_PROGRAMS) if kind == "pdf" else ("mammoth", _DOCX_PROGRAMS)
    if find_spec(package) is not None:
        return None
    if kind == "docx":
        await extractor.ask({"do": "package"}, body, seconds)  # a zip bomb would unpack in the program, too
    program = next(((path, *rest) for name, *rest in programs if (path := which(name)) is not None), None)
    if program is None:
        names = " or ".join(each[0] for each in programs)
        raise NotText(f"reading {_NAMES[kind]} needs {package} (pip install 'holdfast[storage]') or {names}")
    return program


async def _text_by_program(program: tuple[str, ...], kind: Kind, body: bytes, ctx: Context, seconds: float) -> str:
    command = Command(
        argv=program,
        stdin=body,
        read_only=True,
        sees="project",
        helper=True,
        merged=False,
        keeps="head",
        max_bytes=_FALLBACK_BYTES,
    )
    try:
        async with asyncio.timeout(max(0.1, seconds)):
            done = await ctx.sandbox.run(command)
    except SandboxRefused as error:
        raise NotText(f"{program[0]} cannot run: {error}") from None
    except TimeoutError:
        raise NotText(f"{program[0]} did not end in time") from None
    if done.code != 0 or not done.output.strip():
        raise NotText(f"{_NAMES[kind]} that {program[0]} cannot read, or one without text")
    return done.output
