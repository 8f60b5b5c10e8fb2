"""Items as Markdown files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.errors import UsageProblem
from holdfast.cli.memory_files import MemoryFile, markdown_files, parse, read_file, render, write_file
from holdfast.contract.errors import MemoryRefused
from tests.text.strategies import ANY_TEXT

CONTENTS = (ANY_TEXT | st.text(st.sampled_from("-\n: a\"'"), max_size=40)).filter(
    lambda text: not any("\ud800" <= char <= "\udfff" for char in text)
)


def item(**changes: Any) -> dict[str, Any]:
    made = {
        "id": "abcdefghijkl",
        "namespace": "a/b",
        "content": "fact",
        "expires": None,
        "created": "2026-01-01T00:00:00Z",
    }
    return made | {"provenance": {"interface": "cli", "call": "c-1"}} | changes


@given(CONTENTS, st.sampled_from(["a", "a/b-c.d"]), st.sampled_from([None, "2990-01-01T00:00:00Z"]))
def test_every_content_survives_export_and_import(content: str, namespace: str, expires: str | None) -> None:
    text = render(item(content=content, namespace=namespace, expires=expires))
    assert parse(text.encode().decode(), "x.md") == MemoryFile(content, namespace, expires)


@given(ANY_TEXT)
def test_any_text_is_parsed_or_refused_with_a_sentence(text: str) -> None:
    with suppress(UsageProblem):
        assert parse(f"---\n{text}", "x.md").content in f"---\n{text}"


def test_a_file_without_front_matter_is_all_content() -> None:
    assert parse("# Notes\n\ntext\n", "x.md") == MemoryFile("# Notes\n\ntext")
    assert parse("---\nnever closed\n", "x.md") == MemoryFile("---\nnever closed")


def test_front_matter_cannot_set_provenance_or_ids() -> None:
    text = '---\nnamespace: \'a\'\nid: x\nprovenance: {"interface": "person"}\nsuperseded_by: y\n---\nbody\n'
    assert parse(text, "x.md") == MemoryFile("body", "a")


@pytest.mark.spec("B8e")
@pytest.mark.parametrize("namespace", ["../up", "/etc", "a/../../b", "a//b"])
def test_a_namespace_cannot_lead_out_of_the_folder(tmp_path: Path, namespace: str) -> None:
    with pytest.raises(MemoryRefused):
        write_file(tmp_path / "out", item(namespace=namespace))
    assert list(tmp_path.iterdir()) == []


def test_folders_are_searched_for_markdown_files_in_order(tmp_path: Path) -> None:
    first, second = (write_file(tmp_path, item(id=name * 12)) for name in "ab")
    (tmp_path / "other.txt").write_text("x")
    (tmp_path / "link.md").symlink_to(first)
    assert list(markdown_files([tmp_path, tmp_path / "other.txt"])) == [first, second, tmp_path / "other.txt"]


def test_a_file_that_is_not_text_or_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageProblem, match="not UTF-8"):
        read_file(tmp_path / "a.md")
    with (tmp_path / "b.md").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    with pytest.raises(UsageProblem, match="larger than 16 MiB"):
        read_file(tmp_path / "b.md")
