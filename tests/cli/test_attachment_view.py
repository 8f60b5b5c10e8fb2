"""Attachments on the command line: where they are saved, what is printed, and when a terminal shows an image."""

from __future__ import annotations

import io
import json
from base64 import b64decode
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cli import console
from holdfast.cli.attachment_view import (
    MAX_IMAGE_BYTES,
    attachment_line,
    image_protocol,
    image_sequence,
    is_showable,
    print_attachments,
    save_attachments,
)
from holdfast.cli.call_runner import show_result
from holdfast.contract.result import Attachment, Result
from tests.attachment_strategies import PNG, attachments
from tests.cli.command_line import Cli
from tests.soak import rounds

SHOT = Attachment(kind="image", mime_type="image/png", data=PNG, name="shot.png")
KITTY = {"TERM": "xterm-kitty"}


def _always(_: object) -> bool:
    return True


@pytest.mark.spec("T10m")
def test_attachments_are_saved_privately_by_digest_and_once(tmp_path: Path) -> None:
    first, again = (save_attachments(Result(True, attachments=(SHOT,)), tmp_path).attachments[0] for _ in range(2))
    assert first.path == again.path == str(tmp_path / "attachments" / f"{SHOT.digest[:16]}-shot.png")
    path = Path(str(first.path))
    assert (path.read_bytes(), path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (PNG, 0o600, 0o700)
    path.write_bytes(b"edited")
    other = save_attachments(Result(True, attachments=(SHOT,)), tmp_path).attachments[0].path
    assert other is not None and Path(other).read_bytes() == PNG and path.read_bytes() == b"edited"


@pytest.mark.spec("T10m")
def test_a_named_folder_is_filled_without_replacing_anything(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    for _ in range(3):
        save_attachments(Result(True, attachments=(SHOT,)), tmp_path, str(folder))
    assert sorted(path.name for path in folder.iterdir()) == ["shot-2.png", "shot-3.png", "shot.png"]
    (folder / "link.png").symlink_to(tmp_path / "elsewhere")
    link = Attachment(kind="image", mime_type="image/png", data=PNG, name="link.png")
    [saved] = save_attachments(Result(True, attachments=(link,)), tmp_path, str(folder)).attachments
    assert saved.path == str(folder / "link-2.png") and not (tmp_path / "elsewhere").exists()


@pytest.mark.spec("T10m")
def test_a_folder_that_cannot_be_written_is_reported_and_the_result_still_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    result = Result(True, "done", attachments=(SHOT,))
    for as_json in (True, False):
        assert show_result(result, as_json=as_json, state=tmp_path, save=str(tmp_path / "file")) == 1
        shown = capsys.readouterr()
        assert shown.err.startswith('Could not save image "shot.png" (') and ": it is not a folder.\n" in shown.err
    assert shown.out == "done\n" and "\nAttached: image" in shown.err


@pytest.mark.spec("T10m", "T10o")
def test_content_that_may_hold_secrets_is_saved_only_where_the_user_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(True, "done", attachments=(SHOT,), metadata={"withheld": True})
    assert show_result(result, as_json=False, state=tmp_path / "state") == 0
    assert not (tmp_path / "state").exists()
    assert "Not saved: the call read a file that may hold secrets." in capsys.readouterr().err
    assert show_result(result, as_json=False, state=tmp_path / "state", save=str(tmp_path / "out")) == 0
    assert (tmp_path / "out" / "shot.png").read_bytes() == PNG and not (tmp_path / "state").exists()


@pytest.mark.spec("T10m")
@given(attachments())
@settings(max_examples=rounds(40, 2000))
def test_nothing_hostile_reaches_the_terminal(item: Attachment) -> None:
    line = attachment_line(item, "/s/a.png" if item.data else None)
    assert line.isprintable() and "\u202e" not in line and len(line) < 500


@pytest.mark.spec("T10m")
def test_json_has_digest_size_and_path_and_no_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = Attachment(kind="file", mime_type="text/html", uri="https://example.com", audience="person")
    show_result(Result(True, "done", attachments=(SHOT, link)), as_json=True, state=tmp_path)
    [shot, far] = json.loads(capsys.readouterr().out)["attachments"]
    assert shot == {
        "kind": "image",
        "mime_type": "image/png",
        "name": "shot.png",
        "uri": None,
        "audience": "everyone",
        "digest": SHOT.digest,
        "size": len(PNG),
        "path": str(tmp_path / "attachments" / f"{SHOT.digest[:16]}-shot.png"),
    }
    assert (far["digest"], far["size"], far["path"], far["audience"]) == ("", 0, None, "person")


@pytest.mark.parametrize(
    ("variables", "protocol"),
    [
        (KITTY, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm2"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "iterm2"),
        ({"TERM": "xterm-256color"}, None),
        ({**KITTY, "NO_COLOR": "1"}, None),
        ({**KITTY, "TMUX": "/tmp/tmux"}, None),
        ({"TERM": "dumb", "KITTY_WINDOW_ID": "1"}, None),
        ({}, None),
    ],
)
@pytest.mark.spec("T10n")
def test_images_are_shown_only_in_terminals_that_are_known_to(
    variables: dict[str, str], protocol: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert image_protocol(variables, io.StringIO()) is None, "a pipe"
    monkeypatch.setattr(console, "is_terminal", _always)
    assert image_protocol(variables, io.StringIO()) == protocol


@pytest.mark.spec("T10n")
def test_only_moderate_images_are_shown_judged_by_their_content() -> None:
    assert is_showable(PNG, "kitty") and is_showable(PNG, "iterm2")
    huge = PNG[:16] + b"\x00\x01\x00\x00" * 2 + PNG[24:]
    for data in (b"\x1b]0;title\x07", b"", huge, PNG + bytes(MAX_IMAGE_BYTES), PNG[:12], b"GIF89a\x01\x00\x01\x00"):
        assert not is_showable(data, "kitty") and not is_showable(data, "iterm2")


@pytest.mark.spec("T10n")
@given(st.binary(min_size=1, max_size=9000), st.sampled_from(["kitty", "iterm2"]))
@settings(max_examples=rounds(30, 1000))
def test_the_bytes_of_an_image_reach_the_terminal_only_as_base64(data: bytes, protocol: str) -> None:
    pieces = list(image_sequence(PNG + data, "kitty" if protocol == "kitty" else "iterm2"))
    start, end = ("\x1b_G", "\x1b\\") if protocol == "kitty" else ("\x1b]1337;", "\x07")
    inside = [piece.removeprefix(start).removesuffix(end) for piece in pieces]
    assert all(piece.startswith(start) and piece.endswith(end) and len(piece) < 20_000 for piece in pieces)
    coded = "".join(piece.partition(";" if protocol == "kitty" else ":")[2] for piece in inside)
    assert b64decode(coded, validate=True) == PNG + data
    assert not any(char in piece for piece in inside for char in "\x1b\x07\n")


@pytest.mark.spec("T10n")
def test_an_image_is_shown_below_its_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(console, "is_terminal", _always)
    for name in ("NO_COLOR", "TMUX", "TERM_PROGRAM", "LC_TERMINAL", "KITTY_WINDOW_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-kitty")
    forged = Attachment(kind="image", mime_type="image/png", data=b"\x1b]0;x\x07", name="b.png")
    print_attachments([SHOT, forged])
    shown = capsys.readouterr().err
    assert shown.count("\x1b_G") == 1 and "\x1b]0" not in shown


@pytest.mark.spec("T10m")
def test_call_and_ledger_show_save_what_a_tool_attached(cli: Cli) -> None:
    (cli.project / "dot.png").write_bytes(PNG)
    ran = cli.run("call", "file.read", "path=dot.png", "--save", "out")
    assert ran.code == 0 and (cli.project / "out" / "dot.png").read_bytes() == PNG
    assert f"Saved dot.png (image/png, {len(PNG)}B): " in ran.err
    call_id = json.loads(cli.run("ledger", "list", "--json").out.splitlines()[0])["call_id"]
    shown = cli.run("ledger", "show", call_id)
    path = shown.out.rpartition(": ")[2].strip()
    assert Path(path).read_bytes() == PNG and "/attachments/" in path
    again = cli.run("ledger", "show", call_id, "--save", "out", "--json")
    [item] = json.loads(again.out)["result"]["attachments"]
    assert item["path"] == str(cli.project / "out" / "dot-2.png")
    for words in (("call", "file.read", "path=dot.png"), ("ledger", "show", call_id)):
        refused = cli.run(*words, "--save", "/dev/null")
        assert refused.code == 1 and "in /dev/null: it is not a folder." in refused.err
        empty = cli.run(*words, "--save", "")
        assert empty.code == 2 and "It names no folder." in empty.err


@pytest.mark.spec("T10o")
def test_a_secret_file_that_was_approved_once_leaves_no_copy_that_needs_no_approval(cli: Cli) -> None:
    (cli.project / "id.key").write_bytes(PNG)
    ran = cli.run("approve", cli.make_pending("file.read", "path=id.key"))
    assert ran.code == 0 and "Not saved: the call read a file that may hold secrets." in ran.err
    files = (path for path in cli.project.parent.rglob("*") if path.is_file())
    assert [path.name for path in files if PNG in path.read_bytes()] == ["id.key"]
