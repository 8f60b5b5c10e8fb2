"""`file.edit`: the match is exact and unique, and no other byte changes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast import Config, Result, Risk, Runtime, State
from holdfast.config.config import ApprovalConfig
from holdfast.contract.enums import Failure
from holdfast.contract.errors import InvalidArguments
from holdfast.text.preview import preview
from holdfast.tools.files.edit import FILE_EDIT, Mode, TextNotFound, TextNotUnique, occurrences, replace_text
from tests.runtime.support import run, runtime_in
from tests.tools.files.fake_context import FakeContext, propose, use

NOT_FOUND = (
    "Could not find the exact text in a.txt. The old text must match exactly including all whitespace and newlines."
)
NOT_UNIQUE = (
    "Found 3 occurrences of the text in a.txt. The text must be unique. Please provide more context to make it unique."
)
ASKED = Config(approval=ApprovalConfig(auto_approve=()))


def _edit(root: Path, search: str, replace: str, path: str = "a.txt", **args: Any) -> Result:
    return use(FILE_EDIT, FakeContext(root), path=path, search=search, replace=replace, **args)


@pytest.mark.spec("B1", "T11")
def test_the_one_occurrence_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("one\ntwo\nthree\n")
    target.chmod(0o640)
    result = _edit(tmp_path, "two\nthree", "2")
    assert result.output == "Successfully replaced text in a.txt.\n  1 | one\n> 2 | 2"
    shown = [
        {"line": 1, "text": "one", "changed": False, "removed": 0},
        {"line": 2, "text": "2", "changed": True, "removed": 0},
    ]
    assert result.structured == {
        "path": "a.txt", "replacements": 1, "lines": 2, "bytes": 6, "line_endings": "as given",
        "changes": {"places": [shown], "more_lines": 0, "more_places": 0, "final_newline": True, "withheld": None},
    }  # fmt: skip
    assert target.read_text() == "one\n2\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert _edit(tmp_path, "2\n", "").output == (
        "Successfully replaced text in a.txt.\n  1 | one\n>   | [1 line removed here]"
    )
    assert target.read_text() == "one\n"


@pytest.mark.parametrize(
    ("search", "replace", "error"),
    [
        ("x", "y", NOT_FOUND),
        ("aa", "b", NOT_UNIQUE),
        ("end", "end", "No changes made to a.txt. The replacement produced identical content."),
        ("", "b", "The search text is empty. Give the exact text to replace."),
    ],
)
@pytest.mark.spec("B1")
def test_an_inexact_edit_is_refused_before_approval(tmp_path: Path, search: str, replace: str, error: str) -> None:
    (tmp_path / "a.txt").write_text("aaaa end")
    refused = propose(FILE_EDIT, FakeContext(tmp_path), path="a.txt", search=search, replace=replace)
    assert isinstance(refused, Result)
    assert refused.error == error
    assert (tmp_path / "a.txt").read_text() == "aaaa end"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing.txt", "File not found: missing.txt"),
        ("sub", "sub is a folder, not a regular file."),
        ("link", "goes through the symlink"),
        ("../out", "contains '..'"),
        ("/etc/passwd", "outside the project root"),
        (".", "is the project root itself"),
    ],
)
@pytest.mark.spec("N3", "N5", "B1")
def test_only_files_beneath_the_root_are_edited(tmp_path: Path, path: str, words: str) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "out").write_text("a")
    (root / "link").symlink_to(tmp_path / "out")
    result = _edit(root, "a", "b", path)
    assert words in (result.error or "")
    assert (tmp_path / "out").read_text() == "a"


@pytest.mark.parametrize(("mode", "after", "places", "lines"), [("first", "b.a.a.", 1, 1), ("all", "b.b.b.", 3, 3)])
@pytest.mark.spec("B1")
def test_modes_first_and_all_replace_as_named(tmp_path: Path, mode: str, after: str, places: int, lines: int) -> None:
    (tmp_path / "a.txt").write_text("a.a.a.")
    result = _edit(tmp_path, "a", "b", mode=mode)
    assert isinstance(result.structured, dict)
    assert (result.structured["replacements"], result.structured["lines"]) == (places, lines)
    assert (tmp_path / "a.txt").read_text() == after
    assert ("in 3 places" in result.output) == (mode == "all")


@pytest.mark.parametrize(
    ("content", "search", "replace", "after", "crlf"),
    [
        (b"a\r\nb\r\n", "a\nb", "c\nd", b"c\r\nd\r\n", True),
        (b"a\r\nb\r\n", "a", "c\nd", b"c\r\nd\r\nb\r\n", True),
        (b"a\nb\r\nc\r\n", "b\nc", "x\ny", b"a\nx\r\ny\r\n", True),
        (b"a\nb\r\nc\n", "a", "x\ny", b"x\ny\nb\r\nc\n", False),
        (b"a\r\nb\r\n", "a\r\nb", "c\nd", b"c\nd\r\n", False),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n", False),
        (b"\xff\xfe a \x00\xc3", "a", "b", b"\xff\xfe b \x00\xc3", False),
        (b"no newline", "newline", "end", b"no end", False),
        ("naïve €".encode(), "ï", "i", "naive €".encode(), False),
    ],
)
@pytest.mark.spec("B1")
def test_line_endings_byte_order_marks_and_invalid_bytes_are_kept(
    tmp_path: Path, content: bytes, search: str, replace: str, after: bytes, crlf: bool
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    result = _edit(tmp_path, search, replace)
    assert (tmp_path / "a.txt").read_bytes() == after
    assert isinstance(result.structured, dict)
    assert result.structured["line_endings"] == ("crlf" if crlf else "as given")
    assert ("Its CRLF line endings were kept." in result.output) == crlf


@given(st.binary(), st.text(min_size=1), st.text(), st.sampled_from(["unique", "first", "all"]), st.binary())
@pytest.mark.spec("B1")
def test_every_byte_outside_the_edit_is_kept(
    before: bytes, search: str, replace: str, mode: Mode, after: bytes
) -> None:
    content = before + search.encode() + after
    assume(not ("\n" in search + replace and b"\r\n" in content))
    if mode == "unique" and (count := occurrences(content, search.encode())) > 1:
        with pytest.raises(TextNotUnique) as many:
            replace_text(content, search, replace, mode)
        assert many.value.count == count
        return
    done = replace_text(content, search, replace, mode)
    if mode == "all":
        assert done.content == replace.encode().join(content.split(search.encode()))
    else:
        at = content.index(search.encode())
        assert done.content[:at] == content[:at]
        assert done.content[at:] == replace.encode() + content[at + len(search.encode()) :]


@given(st.lists(st.text("ab\r", max_size=3), min_size=2), st.text("ab\n", min_size=1, max_size=4), st.text("ab\n"))
@pytest.mark.spec("B1")
def test_a_crlf_file_keeps_its_line_endings(lines: list[str], search: str, replace: str) -> None:
    content = "\r\n".join(line.replace("\r", "") for line in lines).encode()
    try:
        done = replace_text(content, search, replace, "all")
    except TextNotFound:
        assert search.encode().replace(b"\n", b"\r\n") not in content
        return
    assert done.content.count(b"\n") == done.content.count(b"\r\n")


@pytest.mark.spec("B1")
def test_counting_overlapping_occurrences_is_bounded() -> None:
    with pytest.raises(TextNotUnique):
        replace_text(b"a" * 20_000_000, "a" * 100_000, "b")


@pytest.mark.spec("T5", "T6", "O2")
def test_the_proposal_shows_the_diff_and_medium_risk(tmp_path: Path) -> None:
    runtime = runtime_in(tmp_path, FILE_EDIT, config=ASKED, nobody="pending")
    target = tmp_path / "project" / "a.txt"
    target.write_text("one\ntwo\n")
    assert run(runtime.call("edit", {"path": "a.txt", "search": "two", "replace": "2"})).state is State.PENDING
    held = runtime.pending.list()[0]
    assert held.proposal is not None
    assert (held.proposal.summary, held.proposal.risk) == ("edit a.txt: replace 1 line(s)", Risk.MEDIUM)
    assert held.proposal.preview == "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert target.read_text() == "one\ntwo\n"
    assert run(runtime.approve(held.call.id)).success
    assert target.read_text() == "one\n2\n"


@pytest.mark.parametrize("change", ["content", "replaced", "deleted", "link", "mode"])
@pytest.mark.spec("T5", "A12")
def test_an_approved_edit_is_not_applied_to_a_changed_file(tmp_path: Path, change: str) -> None:
    runtime = runtime_in(tmp_path, FILE_EDIT, config=ASKED, nobody="pending")
    target = tmp_path / "project" / "a.txt"
    target.write_text("one two")
    facts = target.stat()
    assert run(runtime.call("edit", {"path": "a.txt", "search": "two", "replace": "2"})).state is State.PENDING
    held = runtime.pending.list()[0]
    if change == "content":
        target.write_text("ONE two")
    elif change == "replaced":
        (target.parent / "b").write_text("one two")
        (target.parent / "b").rename(target)
    elif change == "mode":
        target.chmod(0o600)
    else:
        target.unlink()
        if change == "link":
            (tmp_path / "out").write_text("one two")
            target.symlink_to(tmp_path / "out")
    if change in ("content", "replaced"):
        os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    result = run(runtime.approve(held.call.id))
    assert not result.success
    if change in ("content", "replaced", "mode"):
        assert (result.state, result.failure) == (State.PENDING, Failure.STALE)
    assert not target.exists() or "two" in target.read_text()
    assert change != "link" or (tmp_path / "out").read_text() == "one two"


@pytest.mark.spec("T5")
def test_the_file_is_checked_again_when_the_edit_is_applied(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    for theirs in ("ONE two", "one", "one two two", None):
        target.write_text("one two")
        proposed = propose(FILE_EDIT, FakeContext(tmp_path), path="a.txt", search="two", replace="2")
        assert not isinstance(proposed, Result)
        if theirs is None:
            target.unlink()
        else:
            target.write_text(theirs)
        assert FILE_EDIT.apply is not None
        result: Any = FILE_EDIT.apply(dict(proposed.payload), FakeContext(tmp_path))  # pyright: ignore[reportArgumentType]
        assert (
            result.error
            == "a.txt has changed since this was proposed, so nothing was written. Propose the change again."
        )
        assert theirs is None or target.read_text() == theirs


@pytest.mark.spec("N3")
def test_hidden_or_read_only_files_are_not_edited(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("SECRET")
    hidden = use(FILE_EDIT, FakeContext(tmp_path, read=tmp_path), path="a.txt", search="S", replace="x")
    locked = use(FILE_EDIT, FakeContext(tmp_path, write=tmp_path), path="a.txt", search="S", replace="x")
    assert "may not be read" in (hidden.error or "")
    assert "is not writable" in (locked.error or "")


@pytest.mark.parametrize(("old", "new"), [("oldText", "newText"), ("old_text", "new_text"), ("search", "replace")])
@pytest.mark.spec("B1", "S4")
def test_alternative_argument_names_are_accepted(tmp_path: Path, old: str, new: str) -> None:
    runtime: Runtime = runtime_in(tmp_path, FILE_EDIT, config=Config(approval=ApprovalConfig(auto_approve=("file.*",))))
    target = tmp_path / "project" / "a.txt"
    target.write_text("one")
    assert run(runtime.call("edit", {"path": "a.txt", old: "one", new: "two", "label": "swap"})).success
    assert run(runtime.call("edit_file", f'{{"path": "a.txt", "{old}": "two", "{new}": "three"}}')).success
    assert target.read_text() == "three"


@pytest.mark.parametrize(
    "args",
    [
        {"path": "a", "search": "x", "oldText": "y", "replace": "z"},
        {"path": "a", "old_text": "x", "oldText": "y", "replace": "z"},
        {"path": "a", "oldText": "x"},
        {"path": "a", "oldText": 1, "newText": "z"},
    ],
)
@pytest.mark.spec("B1")
def test_two_names_for_one_argument_are_refused(args: Any) -> None:
    with pytest.raises(InvalidArguments):
        FILE_EDIT.schema.validate(args)


@pytest.mark.spec("O1")
def test_the_preview_names_the_path_and_the_reason() -> None:
    args = {"path": "config.lua", "search": "a", "replace": "b", "label": "fixing typo"}
    assert preview("edit", args, 80, FILE_EDIT.format_preview) == "edit: config.lua  # fixing typo"
