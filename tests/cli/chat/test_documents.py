"""Finding a document: which files can be one, and what is suggested instead."""

from __future__ import annotations

import os

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME, start


@pytest.mark.spec("E1c")
def test_a_path_that_cannot_be_a_document_is_refused_in_one_sentence(cli: Cli) -> None:
    start(cli, "hello")
    (cli.project / "picture").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (cli.project / "secret.chat").write_text("@You:\nhello\n")
    os.mkfifo(cli.project / "pipe.chat")
    for name, words in {
        "nots.chat": "Did you mean notes.chat?",
        "stauts": "Did you mean `holdfast chat status`?",
        "other.txt": "Create it with `holdfast chat new other.txt`.",
        "picture": "is not text (image/png)",
        ".": "is a folder",
        "pipe.chat": "is not a regular file",
        "a\x1b[2J": "‹\\x1b›[2J",
        "x" * 300: "Cannot open ",
        "notes.chat/x": "Cannot open ",
    }.items():
        done = cli.run("chat", name)
        assert done.code == 2 and words in done.sentence, name
    assert "Did you mean '--step'" in cli.run("chat", NAME, "--stpe").sentence
    assert cli.run("chat").code == 2


@pytest.mark.spec("E1c", "D2")
@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        ("@You:\ncafé\n".encode("latin-1"), 1, f"{NAME}:2 is not UTF-8 text (byte 0xE9). Save the file as UTF-8."),
        (b"@you:\nhello\n", 1, f"{NAME}:1: Unknown role @you. Use @You:."),
        (b"---\nmodel:\n  name: operator\n---\n@You:\nhello\n", 2, 'model.name = "operator"'),
    ],
)
def test_a_document_with_ambiguous_markup_fails(cli: Cli, data: bytes, code: int, says: str) -> None:
    (cli.project / NAME).write_bytes(data)
    done = cli.run("chat", NAME)
    assert done.code == code and says in done.err
    assert (cli.project / NAME).read_bytes() == data


@pytest.mark.spec("E1c")
def test_any_text_file_can_be_a_document(cli: Cli) -> None:
    document = cli.project / "talk.md"
    document.write_bytes(b"\x01 odd\r\n@You:\r\ncalculate 6 * 7\r\n")
    done = cli.run("chat", "talk.md")
    assert done.code == 0, done
    data = document.read_bytes()
    assert data.startswith(b"\x01 odd\r\n@You:\r\n") and b"42" in data
    assert b"\n" not in data.replace(b"\r\n", b"")
