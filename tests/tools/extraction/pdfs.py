"""Small PDF files, written by hand."""

from __future__ import annotations


def pdf(text: str) -> bytes:
    """A PDF of one page with one line of text."""
    content = f"BT /F1 24 Tf 0 0 Td ({text}) Tj ET".encode("latin-1")
    return _document([
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ])  # fmt: skip


def encrypted_pdf() -> bytes:
    """A PDF that says it is encrypted, with a password that nobody knows."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 0 >>"]
    key = b"<" + b"5a" * 32 + b">"
    objects.append(b"<< /Filter /Standard /V 1 /R 2 /O " + key + b" /U " + key + b" /P -4 >>")
    return _document(objects, b"/Encrypt 3 0 R /ID [<00> <00>] ")


def _document(objects: list[bytes], trailer: bytes = b"") -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size %d /Root 1 0 R %s>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, trailer, start)
    return bytes(out)
