"""Small DOCX files, written by hand."""

from __future__ import annotations

from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    'wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)
_MAIN = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def body(*paragraphs: str) -> str:
    texts = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    return f'<w:document xmlns:w="{_MAIN}"><w:body>{texts}</w:body></w:document>'


def docx(*paragraphs: str, document: str | None = None, more: dict[str, bytes] | None = None) -> bytes:
    """A document with these paragraphs, or with this XML in their place, and further parts."""
    made = BytesIO()
    with ZipFile(made, "w", ZIP_DEFLATED) as package:
        package.writestr("[Content_Types].xml", _TYPES)
        package.writestr("_rels/.rels", _RELATIONS)
        package.writestr("word/document.xml", body(*paragraphs) if document is None else document)
        for name, content in (more or {}).items():
            package.writestr(name, content)
    return made.getvalue()
