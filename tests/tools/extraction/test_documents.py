"""PDF and DOCX in the extraction process: their text, and what hostile ones cost."""

from __future__ import annotations

import contextlib
import zipfile
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.tools.extraction.documents import check_package, document_text, docx_text, pdf_text
from holdfast.tools.extraction.extractor import Extractor
from holdfast.tools.worker_frames import Unreadable
from holdfast.tools.worker_process import WorkerFailed
from tests.quick import quickly
from tests.runtime.support import run
from tests.soak import rounds
from tests.tools.extraction.docx_files import body, docx
from tests.tools.extraction.pdfs import encrypted_pdf, pdf

pytestmark = pytest.mark.spec("B9m")


def test_paragraphs_are_separated_by_blank_lines() -> None:
    assert docx_text(docx("One.", "Two &amp; three.")) == "One.\n\nTwo & three."
    assert document_text({"kind": "docx"}, docx("One."))["text"] == "One."
    assert "Hello" in document_text({"kind": "pdf"}, pdf("Hello"))["text"]


def encrypted_zip() -> bytes:
    """A package whose parts say that they are encrypted."""
    made = bytearray(docx("x"))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = made.find(mark)
        while place >= 0:
            made[place + at] |= 1
            place = made.find(mark, place + 4)
    return bytes(made)


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)
)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (b"", "it is damaged or not a DOCX"),
        (b"PK\x03\x04 and nothing", "it is damaged or not a DOCX"),
        (docx("x")[:-30], "it is damaged or not a DOCX"),
        (docx(document="<not xml"), "it is damaged or not a DOCX"),
        (docx(), "it has no text"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "it is protected with a password, or in the old format"),
        (encrypted_zip(), "it is protected with a password"),
        (docx(document=f"{BOMB}]>{body('&j;')}"), "its XML declares entities"),
        (docx("x", more={"word/media/styles.png": f"{BOMB}]>{body('&j;')}".encode()}), "its XML declares entities"),
        (docx("x", more={"word/media/styles.png": bytes(70 * 1024 * 1024)}), "it unpacks to more than 64 MB"),
        (docx(document=f"{BOMB}]>{body('x')}".encode("utf-16").decode("latin-1")), "its XML declares entities"),
        (docx("x", more={f"p{n}.bin": b"" for n in range(5001)}), "at most 5,000 are read"),
        (docx("x", more={"word/other.xml": bytes(70 * 1024 * 1024)}), "it unpacks to more than 64 MB"),
    ],
    ids=[
        "empty",
        "no-end",
        "cut",
        "bad-xml",
        "no-text",
        "ole",
        "password",
        "entities",
        "any-part",
        "any-size",
        "utf-16",
        "parts",
        "zip-bomb",
    ],
)
def test_a_document_that_cannot_be_read_says_why(document: bytes, told: str) -> None:
    with pytest.raises(Unreadable, match=told):
        docx_text(document)


def test_two_parts_of_the_same_name_are_refused() -> None:
    """A check of the first and a parser of the second would not see the same document."""
    made = BytesIO(docx("x"))
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(made, "a") as package:
        package.writestr("word/document.xml", body("other"))
    with pytest.raises(Unreadable, match="two of its parts have the same name"):
        docx_text(made.getvalue())


def test_a_pdf_with_a_password_says_so() -> None:
    with pytest.raises(Unreadable, match="protected with a password"):
        pdf_text(encrypted_pdf())


def test_a_package_is_checked_for_a_program_that_unpacks_it() -> None:
    assert check_package({}, docx("x")) == {}
    with pytest.raises(Unreadable):
        check_package({}, encrypted_zip())


def test_deep_nesting_costs_little() -> None:
    deep = "<w:p>" * 20_000 + "</w:p>" * 20_000
    document = body().replace("<w:body>", f"<w:body>{deep}")

    with quickly(), pytest.raises((Unreadable, RecursionError)):
        docx_text(docx(document=document))


@settings(max_examples=rounds(30, 500))
@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 20))
def test_no_damage_to_a_document_breaks_the_reader(noise: bytes, at: int, gap: int) -> None:
    made = docx("One.", "Two.")
    damaged = made[:at] + noise + made[at + gap :]
    with contextlib.suppress(Unreadable):
        assert docx_text(damaged).strip()


def test_the_process_reads_documents_and_survives_hostile_ones() -> None:
    async def ask() -> tuple[str, str, str]:
        extractor = Extractor()
        try:
            good = (await extractor.ask({"do": "document", "kind": "docx"}, docx("Fine."), 60))["text"]
            with pytest.raises(WorkerFailed) as refused:
                await extractor.ask({"do": "document", "kind": "docx"}, encrypted_zip(), 60)
            with pytest.raises(WorkerFailed) as damaged:
                await extractor.ask({"do": "package"}, b"x", 60)
            return good, str(refused.value), str(damaged.value)
        finally:
            extractor.close()

    assert run(ask()) == ("Fine.", "it is protected with a password", "it is damaged or not a DOCX")
