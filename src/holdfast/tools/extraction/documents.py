"""PDF and DOCX as text. Only the extraction process imports this module."""

from __future__ import annotations

import re
import zipfile
import zlib
from io import BytesIO
from typing import Any, Final, cast

from holdfast.tools.worker_frames import Unreadable

_MAX_PDF_PAGES: Final = 2000
_MAX_CHARS: Final = 10_000_000
_MAX_PARTS: Final = 5000
_MAX_UNPACKED: Final = 64 * 1024 * 1024
"""Bytes of a DOCX. The parser of its XML keeps about thirty times as much in memory."""
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""How a DOCX begins that is encrypted with a password, and a DOC."""
_DECLARATION: Final = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.I)


def document_text(request: dict[str, Any], body: bytes) -> dict[str, Any]:
    """Return the `text` of a document of the `kind` pdf or docx."""
    return {"text": pdf_text(body) if request["kind"] == "pdf" else docx_text(body)}


def pdf_text(body: bytes) -> str:
    import pypdfium2
    from pypdfium2 import raw

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD or "password" in str(error).lower():
            raise Unreadable("it is protected with a password") from None
        raise Unreadable("it is damaged or not a PDF") from None
    total, parts, size = len(document), list[str](), 0
    for number in range(min(total, _MAX_PDF_PAGES)):
        try:
            text = document[number].get_textpage().get_text_range()
        except (pypdfium2.PdfiumError, ValueError):
            text = "[this page is damaged]"
        text = text.replace("\r\n", "\n").replace("\ufffe", "-").strip()
        parts.append(f"[Page {number + 1} of {total}]\n{text}")
        size += len(text)
        if size > _MAX_CHARS:
            break
    if len(parts) < total:
        parts.append(f"[{total - len(parts)} more pages are left out]")
    if not size:
        raise Unreadable("it has no text, only images")
    return "\n\n".join(parts)


def check_package(_: dict[str, Any], body: bytes) -> dict[str, Any]:
    """Check a DOCX for a program that unpacks it."""
    _check_package(body)
    return {}


def docx_text(body: bytes) -> str:
    """Return the paragraphs of a DOCX, separated by blank lines."""
    import mammoth

    extract = cast("Any", mammoth).extract_raw_text  # it has no types
    if body.startswith(_OLE):
        raise Unreadable("it is protected with a password, or in the old format of Word")
    _check_package(body)
    try:
        text = str(extract(BytesIO(body)).value)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # whatever the parsers of ZIP and XML raise, and mammoth about missing parts
        raise Unreadable("it is damaged or not a DOCX") from error
    if not text.strip():
        raise Unreadable("it has no text")
    return text[:_MAX_CHARS].strip()


def _check_package(body: bytes) -> None:
    """Raise `Unreadable` for a zip bomb, a password, and XML that declares entities, which no word processor writes."""
    try:
        with zipfile.ZipFile(BytesIO(body)) as package:
            parts = package.infolist()
            if len(parts) > _MAX_PARTS:
                raise Unreadable(f"it has {len(parts):,} parts; at most {_MAX_PARTS:,} are read")
            if any(part.flag_bits & 1 for part in parts):
                raise Unreadable("it is protected with a password")
            # Any part can be read as XML, whatever its name: the relationships of the package say which are. `zipfile`
            # reads no more of a part than its declared size, so that the sum of these is a limit.
            if sum(part.file_size for part in parts) > _MAX_UNPACKED:
                raise Unreadable(f"it unpacks to more than {_MAX_UNPACKED // 1024**2} MB")
            if len({part.filename for part in parts}) < len(parts):
                raise Unreadable("two of its parts have the same name")
            for part in parts:
                if _DECLARATION.search(_readable(package.read(part))):
                    raise Unreadable("its XML declares entities")
    except (OSError, ValueError, RuntimeError, NotImplementedError, EOFError, zipfile.BadZipFile, zlib.error):
        raise Unreadable("it is damaged or not a DOCX") from None


def _readable(xml: bytes) -> bytes:
    """Return XML in which ASCII is ASCII: in UTF-16, a declaration would look different."""
    return xml.replace(b"\0", b"")
