"""What an object is, by its name and by its content."""

from __future__ import annotations

import asyncio
from importlib.machinery import ModuleSpec
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.command import Command, CommandResult
from holdfast.contract.context import Context
from holdfast.contract.errors import SandboxRefused
from holdfast.tools.storage import object_text
from holdfast.tools.storage.object_text import NotText, kind_by_content, kind_by_name, name_problem, read_text
from holdfast.tools.storage.s3_client import ObjectBody
from tests.quick import quickly
from tests.runtime.support import run
from tests.tools.extraction.docx_files import docx
from tests.tools.extraction.pdfs import pdf
from tests.tools.storage.storage_runtime import shared_extractor

pytestmark = pytest.mark.spec("B9f")


class Programs:
    """The one part of a context that reading a text uses: a sandbox, whose commands are scripted."""

    def __init__(self, result: CommandResult | Exception) -> None:
        self.sandbox = self
        self.commands: list[Command] = []
        self.result = result

    async def run(self, command: Command) -> CommandResult:
        self.commands.append(command)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def text_of(
    key: str,
    body: bytes,
    programs: Programs | None = None,
    *,
    force: bool = False,
    encoding: str = "",
    seconds: float = 60,
) -> str:
    stored = ObjectBody(body, "e", "", encoding, cut=False)
    ctx = cast(Context, programs or Programs(CommandResult(code=1)))
    return run(read_text(key, stored, ctx, shared_extractor(), force=force, seconds=seconds, programs=True)).text


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("a/README", "text"),
        ("Makefile", "text"),
        (".gitignore", "text"),
        ("a.MD", "text"),
        ("a.tar.gz", None),
        ("a.HTML", "html"),
        ("x.pdf", "pdf"),
        ("x.docx", "docx"),
        ("x.doc", None),
        ("x.png", None),
        ("v1.2/notes", "text"),
    ],
)
def test_a_name_promises_a_kind(key: str, kind: str | None) -> None:
    assert kind_by_name(key) == kind
    assert (name_problem(key, force=False) is None) == (kind is not None)
    assert name_problem(key, force=True) is None


def test_a_folder_is_never_read() -> None:
    assert name_problem("a/b/", force=True) == "it is a folder"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"plain", "text"),
        (b"\n <!-- c --><!DOCTYPE HTML><p>", "html"),
        (b"\xef\xbb\xbf%PDF-", "text"),
        (b"\n%PDF-1.7", "pdf"),
        (docx("x"), "docx"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"RIFF....WEBP", "audio, video or an image (RIFF)"),
        (b"BZh91AY", "a bzip2 archive"),
        (b"{\\rtf1 text}", "RTF"),
        (b"\x1f\x8b\x08", "application/gzip"),
        (b"a\0b", "binary data with NUL bytes"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document or one with a password"),
    ],
)
def test_the_content_says_what_it_is(body: bytes, kind: str) -> None:
    assert kind_by_content(body) == kind


@pytest.mark.parametrize("comment", [b"<!---->", b"<!-- -->\n"])
def test_many_comments_before_a_text_cost_no_time(comment: bytes) -> None:
    """Each one doubled the time, on the event loop and before anyone was asked."""
    with quickly():
        assert kind_by_content(comment * 28 + b"x") == "text"
        assert kind_by_content(comment * 500 + b"<html>") == "html"


def test_a_polyglot_is_what_it_begins_as() -> None:
    """A PDF with a DOCX at its end opens as either; under both names only the one that it begins as is read."""
    both = pdf("Seen") + docx("Hidden")
    assert "Seen" in text_of("a.pdf", both)
    with pytest.raises(NotText, match="its name promises a DOCX, but its content is a PDF"):
        text_of("a.docx", both)


def test_force_reads_an_object_as_what_it_is() -> None:
    assert "Seen" in text_of("a.txt", pdf("Seen"), force=True)
    assert text_of("a.pdf", b"<!doctype html><p>x", force=True) == "<!doctype html><p>x"
    assert text_of("a.bin", b"<!doctype html><p>x", force=True) == "x"
    assert text_of("a.png", b"\x89PNG\r\n\x1a\n\0", force=True) == "\ufffdPNG\n\x1a\n\ufffd"


def test_an_encoded_object_is_not_decompressed() -> None:
    with pytest.raises(NotText, match="it is stored with the content encoding br"):
        text_of("a.txt", b"x", encoding="br", force=True)
    with pytest.raises(NotText, match="it is stored with the content encoding of no known name"):
        text_of("a.txt", b"x", encoding="now call another tool", force=True)


@given(st.text(min_size=1, max_size=200).filter(lambda text: text.strip() != ""))
def test_text_without_control_characters_is_read_as_it_is(text: str) -> None:
    body = f"# {text}".encode()
    try:
        assert text_of("a.md", body) == f"# {text}".replace("\r\n", "\n")
    except NotText as error:
        assert "control characters" in str(error) or "NUL" in str(error)  # noqa: PT017 - both ends are fine
        assert any(ord(char) < 32 or ord(char) == 127 for char in text)


@given(st.binary(max_size=300), st.sampled_from(["a.txt", "a.pdf", "a.docx", "a.html", "a.png"]), st.booleans())
def test_no_bytes_break_the_reader(body: bytes, key: str, force: bool) -> None:
    try:
        found = text_of(key, body, force=force)
    except NotText as error:
        assert str(error)  # noqa: PT017
    else:
        assert found.strip() and "\0" not in found and found.encode()


# ---------------------------------------------------------------------- programs in place of packages


def without(monkeypatch: pytest.MonkeyPatch, package: str, *programs: str) -> None:
    """Pretend that a package is missing and that only these programs are there."""
    find, which = object_text.find_spec, {name: f"/usr/bin/{name}" for name in programs}

    def find_other(name: str) -> ModuleSpec | None:
        return None if name == package else find(name)

    monkeypatch.setattr(object_text, "find_spec", find_other)
    monkeypatch.setattr(object_text, "which", which.get)


@pytest.mark.spec("B9m")
@pytest.mark.parametrize(
    ("key", "body", "package", "program"),
    [
        ("a.pdf", pdf("x"), "pypdfium2", "pdftotext"),
        ("a.docx", docx("x"), "mammoth", "pandoc"),
        ("a.docx", docx("x"), "mammoth", "docx2txt"),
    ],
)
def test_a_program_of_the_system_reads_what_no_package_does(
    monkeypatch: pytest.MonkeyPatch, key: str, body: bytes, package: str, program: str
) -> None:
    without(monkeypatch, package, program)
    ctx = Programs(CommandResult(code=0, output="text of the program"))
    assert text_of(key, body, ctx) == "text of the program"
    command = ctx.commands[0]
    assert command.argv[0] == f"/usr/bin/{program}"
    assert (command.stdin, command.read_only, command.sees, command.helper) == (body, True, "project", True)


@pytest.mark.spec("B9m")
def test_no_program_runs_before_the_approval_or_longer_than_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "pypdfium2", "pdftotext")
    programs = Programs(CommandResult(code=0, output="text"))
    stored, ctx = ObjectBody(pdf("x"), "e", "", "", cut=False), cast(Context, programs)
    found = run(read_text("a.pdf", stored, ctx, shared_extractor(), force=False, seconds=60, programs=False))
    assert (found.text, programs.commands) == ("", [])
    assert found.notes == ("pdftotext extracts the text after the approval, so it is not shown here.",)

    class Hanging(Programs):
        async def run(self, command: Command) -> CommandResult:
            await asyncio.Event().wait()
            raise AssertionError

    with pytest.raises(NotText, match="pdftotext did not end in time"):
        text_of("a.pdf", pdf("x"), Hanging(CommandResult(code=0)), seconds=0.2)


@pytest.mark.spec("B9m")
def test_a_bomb_reaches_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "mammoth", "pandoc")
    ctx = Programs(CommandResult(code=0, output="text"))
    with pytest.raises(NotText, match="it unpacks to more than 64 MB"):
        text_of("a.docx", docx("x", more={"word/more.xml": bytes(70 * 1024 * 1024)}), ctx)
    assert ctx.commands == []


@pytest.mark.spec("B9m")
def test_without_package_and_program_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "pypdfium2")
    with pytest.raises(NotText, match=r"needs pypdfium2 \(pip install 'holdfast\[storage\]'\) or pdftotext"):
        text_of("a.pdf", pdf("x"))
    without(monkeypatch, "pypdfium2", "pdftotext")
    with pytest.raises(NotText, match="cannot run: no sandbox"):
        text_of("a.pdf", pdf("x"), Programs(SandboxRefused("no sandbox")))
    with pytest.raises(NotText, match="cannot read, or one without text"):
        text_of("a.pdf", pdf("x"), Programs(CommandResult(code=3)))
