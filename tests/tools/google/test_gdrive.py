"""`gdrive.search` and `gdrive.read`: safe queries, exports, downloads, attachments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.google.gdrive import drive_literal, drive_query
from holdfast.tools.google.results import one_line
from tests.tools.extraction.pdfs import pdf
from tests.tools.google.google_server import Account, GoogleServer, Reply, facts, problem

FILES = "/drive/v3/files"
PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03\x08\x02\0\0\0\x36\x88\x49\xd6"
    b"\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82"
)


def file(name: str = "f1", mime: str = "text/plain", **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "name": "Notes.txt",
        "mimeType": mime,
        "size": "5",
        "modifiedTime": "2026-03-01T10:00:00.000Z",
        "owners": [{"displayName": "Ann", "emailAddress": "ann@example.org"}],
        "shared": True,
        **more,
    }


def serve(there: GoogleServer, made: dict[str, Any], content: bytes = b"", kind: str = "text/plain") -> None:
    """Answer with the metadata, and with the content to `alt=media` and to an export."""
    path = f"{FILES}/{made['id']}"
    there.pages[path] = lambda seen: Reply(content, type=kind) if seen.query.get("alt") == "media" else Reply(made)
    there.pages[f"{path}/export"] = lambda seen: Reply(content, type=seen.query["mimeType"])


@pytest.mark.spec("B14h")
@given(st.text(max_size=200))
def test_plain_words_cannot_break_out_of_their_literal(text: str) -> None:
    literal = drive_literal(text)
    inside = re.fullmatch(r"'((?:[^'\\]|\\['\\])*)'", literal)
    assert inside is not None
    assert re.sub(r"\\(.)", r"\1", inside[1]) == one_line(text, 2000)


@pytest.mark.spec("B14h")
@given(
    st.lists(st.sampled_from(["'", "\\", " or ", "trashed", " = ", "true", '"', "\n", "a"]), max_size=30).map("".join)
)
def test_a_query_of_syntax_stays_one_term(text: str) -> None:
    query = drive_query(text, raw=False)
    if not one_line(text):
        assert query == "trashed = false"
        return
    assert re.fullmatch(r"fullText contains '(?:[^'\\]|\\['\\])*' and trashed = false", query)


@pytest.mark.spec("B14h")
def test_a_search_lists_files_by_relevance_or_by_time(there: GoogleServer, tmp_path: Path) -> None:
    there.pages[FILES] = Reply({"files": [file()], "nextPageToken": "p2", "incompleteSearch": True})
    account = Account(tmp_path, there)
    result = account.call("gdrive.search", query="it's", limit=3, page="p")
    assert result.output.split("\n")[:2] == [
        "f1  Notes.txt",
        "  text/plain, 5B, modified 2026-03-01T10:00:00.000Z, owned by ann@example.org, shared",
    ]
    assert "could not search all drives" in result.output and facts(result)["next_page"] == "p2"
    account.call("gdrive.search")
    account.call("gdrive.search", query="'f1' in parents", raw=True)
    plain, newest, raw = (each.query for each in there.asked(FILES))
    assert (plain["q"], plain["pageSize"], plain["pageToken"]) == (
        "fullText contains 'it\\'s' and trashed = false",
        "3",
        "p",
    )
    assert "orderBy" not in plain and newest["orderBy"] == "modifiedTime desc" and raw["q"] == "'f1' in parents"


@pytest.mark.spec("B14h")
@pytest.mark.parametrize(
    ("kind", "given_format", "exported"),
    [
        ("document", None, "text/markdown"),
        ("document", "plain", "text/plain"),
        ("spreadsheet", None, "text/csv"),
        ("presentation", None, "text/plain"),
    ],
)
def test_googles_formats_are_exported_as_text(
    there: GoogleServer, tmp_path: Path, kind: str, given_format: str | None, exported: str
) -> None:
    serve(there, file(mime=f"application/vnd.google-apps.{kind}"), b"\xef\xbb\xbf# Title\r\ntext")
    result = Account(tmp_path, there).call("gdrive.read", file="f1", format=given_format)
    assert there.asked(f"{FILES}/f1/export")[0].query == {"mimeType": exported}
    assert facts(result)["content"] == "# Title\ntext" and facts(result)["content_type"] == exported
    assert ("only the first sheet" in result.output) is (kind == "spreadsheet")


@pytest.mark.spec("B14h")
def test_a_text_file_is_downloaded_and_quoted(there: GoogleServer, tmp_path: Path) -> None:
    serve(there, file(), "[note]\rGrüße\x0cend".encode())
    result = Account(tmp_path, there).call("gdrive.read", file="https://drive.google.com/file/d/f1/view?usp=sharing")
    assert result.output.partition("\n\n")[2] == "  | [note]\n  | Grüße\n  | end"
    assert result.metadata["untrusted"] == ["documents"]


@pytest.mark.spec("B14h")
def test_a_pdf_is_read_by_the_extraction_process(there: GoogleServer, tmp_path: Path) -> None:
    serve(there, file(mime="application/pdf"), pdf("Hello from a PDF"), "application/pdf")
    assert "Hello from a PDF" in facts(Account(tmp_path, there).call("gdrive.read", file="f1"))["content"]


@pytest.mark.spec("B14h")
def test_an_image_is_attached_and_a_damaged_one_is_not(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there)
    serve(there, file(mime="image/png"), PNG, "image/png")
    (attached,) = account.call("gdrive.read", file="f1").attachments
    assert (attached.kind, attached.mime_type, attached.data) == ("image", "image/png", PNG)
    serve(there, file(mime="image/png"), PNG[:12], "image/png")
    result = account.call("gdrive.read", file="f1")
    assert result.attachments == () and "damaged" in result.output


@pytest.mark.spec("B14h")
def test_other_files_are_attached_on_request_only(there: GoogleServer, tmp_path: Path) -> None:
    serve(there, file(mime="application/zip"), b"PK\x03\x04" + b"\0" * 50, "application/zip")
    account = Account(tmp_path, there)
    told = account.call("gdrive.read", file="f1")
    assert told.attachments == () and "Use attach=true to get the file itself." in told.output
    (attached,) = account.call("gdrive.read", file="f1", attach=True).attachments
    assert (attached.kind, attached.name) == ("file", "Notes.txt")


@pytest.mark.spec("B14h")
def test_a_file_beyond_the_size_limit_is_cut_or_refused(there: GoogleServer, tmp_path: Path) -> None:
    account = Account(tmp_path, there, max_bytes=2000)
    serve(there, file(), b"word " * 1000)
    result = account.call("gdrive.read", file="f1")
    assert "only its first 2.0KB were read" in result.output and facts(result)["total_chars"] == 2000
    serve(there, file(mime="application/zip"), b"PK\x03\x04" + b"\0" * 5000, "application/zip")
    assert "so it is not attached" in account.call("gdrive.read", file="f1", attach=True).output


@pytest.mark.spec("B14h")
def test_a_shortcut_is_followed_once(there: GoogleServer, tmp_path: Path) -> None:
    there.pages[f"{FILES}/s1"] = Reply(
        file("s1", "application/vnd.google-apps.shortcut", shortcutDetails={"targetId": "f1"})
    )
    serve(there, file(), b"there")
    account = Account(tmp_path, there)
    assert facts(account.call("gdrive.read", file="s1"))["content"] == "there"
    there.pages[f"{FILES}/s1"] = Reply(
        file("s1", "application/vnd.google-apps.shortcut", shortcutDetails={"targetId": "../x"})
    )
    assert "is not the id of a file" in (account.call("gdrive.read", file="s1").error or "")


@pytest.mark.spec("B14h")
@pytest.mark.parametrize(
    ("kind", "told"), [("folder", "query=\"'f1' in parents\""), ("form", "cannot be exported as text")]
)
def test_what_has_no_text_is_said(there: GoogleServer, tmp_path: Path, kind: str, told: str) -> None:
    serve(there, file(mime=f"application/vnd.google-apps.{kind}"))
    assert told in (Account(tmp_path, there).call("gdrive.read", file="f1").error or "")


@pytest.mark.spec("B14h")
def test_an_answer_about_another_file_is_refused(there: GoogleServer, tmp_path: Path) -> None:
    there.pages[f"{FILES}/f1"] = Reply(file("f2"))
    assert "answered about another file" in (Account(tmp_path, there).call("gdrive.read", file="f1").error or "")


@pytest.mark.spec("B14h")
def test_a_file_that_may_not_be_downloaded_is_said(there: GoogleServer, tmp_path: Path) -> None:
    denied = problem(403, "cannotDownloadAbusiveFile", "This file has been identified as malware.")
    there.pages[f"{FILES}/f1"] = lambda seen: denied if "alt" in seen.query else Reply(file())
    told = Account(tmp_path, there).call("gdrive.read", file="f1").error
    assert told == "Google denies access to file 'f1': 'This file has been identified as malware.'."
