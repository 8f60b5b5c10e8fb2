"""`file.read`: pages of lines with notices, attachments, and exact errors."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast import Attachment, Config, Result, Runtime
from holdfast.config.config import SandboxConfig, ToolsConfig
from holdfast.runtime.workspace import Workspace
from holdfast.text import truncate
from holdfast.text.preview import preview
from holdfast.tools.files import pages
from holdfast.tools.files.read import FILE_READ, MAX_ATTACHED
from tests.quick import least
from tests.runtime.support import run, runtime_in
from tests.tools.files.fake_context import FakeContext, use

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100


def _read(root: Path, path: str = "a.txt", **args: Any) -> Result:
    return use(FILE_READ, FakeContext(root), path=path, **args)


def _numbered(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def _fields(result: Result) -> dict[str, Any]:
    assert isinstance(result.structured, dict)
    return result.structured


@pytest.mark.spec("B1", "T11")
def test_a_short_file_is_shown_completely(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    result = _read(tmp_path)
    assert result.output == "one\ntwo"
    assert result.structured == {
        "path": "a.txt", "size": 8, "encoding": "utf8", "content": "one\ntwo\n", "mime_type": None, "offset": 1,
        "lines": 2, "total_lines": 2, "next_offset": None, "limited_by": None, "line_bytes": None,
    }  # fmt: skip
    (tmp_path / "a.txt").write_text("")
    assert _read(tmp_path).output == "(empty file)"


@pytest.mark.parametrize(
    ("args", "first", "notice"),
    [
        ({}, "line 1", "\n\n[Showing lines 1-1998 of 5000. Use offset=1999 to continue.]"),
        ({"offset": 1999}, "line 1999", "\n\n[Showing lines 1999-3996 of 5000. Use offset=3997 to continue.]"),
        ({"offset": 3001}, "line 3001", "line 5000"),
        ({"offset": 10, "limit": 5}, "line 10", "line 14\n\n[4986 more lines in file. Use offset=15 to continue.]"),
        ({"limit": 1}, "line 1", "line 1\n\n[4999 more lines in file. Use offset=2 to continue.]"),
        ({"limit": 2000}, "line 1", "\n\n[Showing lines 1-1998 of 5000. Use offset=1999 to continue.]"),
        ({"offset": 0, "limit": -3}, "line 1", "line 1\n\n[4999 more lines in file. Use offset=2 to continue.]"),
        ({"offset": 4996, "limit": 5}, "line 4996", "line 5000"),
    ],
)
@pytest.mark.spec("B1")
def test_the_notice_gives_the_next_offset(tmp_path: Path, args: Any, first: str, notice: str) -> None:
    (tmp_path / "a.txt").write_text(_numbered(5000))
    result = _read(tmp_path, **args)
    assert result.output.startswith(f"{first}\n")
    assert result.output.endswith(notice)
    assert not truncate.head(result.output).truncated


@pytest.mark.spec("B1")
def test_a_page_is_limited_by_bytes_too_and_cut_only_once(tmp_path: Path) -> None:
    for text, shown, total in ((("é" * 500 + "\n") * 101, 51, 101), (("x" * 99 + "\n") * 1000, 510, 1000)):
        (tmp_path / "a.txt").write_text(text)
        result = _read(tmp_path)
        notice = f"[Showing lines 1-{shown} of {total} (50.0KB limit). Use offset={shown + 1} to continue.]"
        assert result.output.endswith(f"\n\n{notice}")
        assert not truncate.head(result.output).truncated


@pytest.mark.spec("B1")
def test_a_line_too_long_to_show_comes_with_a_command_that_shows_it(tmp_path: Path) -> None:
    (tmp_path / "it's.txt").write_text("short\n" + "x" * 60_000 + "\nlast\n")
    result = _read(tmp_path, "it's.txt", offset=2)
    assert result.output == (
        "[Line 2 is 58.6KB, exceeds 50.0KB limit. Use bash: sed -n '2p' 'it'\"'\"'s.txt' | head -c 51200]"
    )
    assert (_fields(result)["total_lines"], _fields(result)["next_offset"]) == (3, 3)


@pytest.mark.parametrize(
    ("path", "args", "error"),
    [
        ("missing.txt", {}, "File not found: missing.txt"),
        ("a.txt/x", {}, "File not found: a.txt/x"),
        ("dangling", {}, "File not found: dangling"),
        ("a.txt", {"offset": 3}, "Offset 3 is beyond end of file (2 lines total)"),
        ("a.txt", {"offset": 99}, "Offset 99 is beyond end of file (2 lines total)"),
        ("sub", {}, "sub is a folder, not a regular file; use file.list."),
        ("pipe", {}, "pipe is a named pipe, not a regular file."),
        ("a.txt", {"encoding": "base64", "limit": 1},
         "offset and limit count lines of text. Leave them out with encoding base64."),
    ],
)  # fmt: skip
@pytest.mark.spec("B1", "N3")
def test_unreadable_paths_are_reported_exactly(tmp_path: Path, path: str, args: Any, error: str) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert _read(tmp_path, path, **args).error == error


@pytest.mark.parametrize(
    "path",
    ["../out/secret", "/etc/passwd", "link", "folder/secret", "/proc/self/root/etc/passwd", "/dev/fd/0", "~root/x",
     "%2e%2e/out/secret", "a\0b", "x" * 5000, "", "../root-evil/secret"],
)  # fmt: skip
@pytest.mark.spec("N3", "N5")
def test_paths_that_lead_outside_are_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("out", "root-evil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_text("SECRET")
    (root / "link").symlink_to(tmp_path / "out" / "secret")
    (root / "folder").symlink_to(tmp_path / "out")
    result = _read(root, path)
    assert not result.success
    assert "SECRET" not in result.text


@pytest.mark.spec("N3", "N5")
def test_links_and_dots_that_stay_inside_are_followed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("inside\n")
    (tmp_path / "sub" / "link").symlink_to(tmp_path / "a.txt")
    for path in ("sub/link", "sub/../a.txt", str(tmp_path / "a.txt"), "./a.txt"):
        result = _read(tmp_path, path)
        assert (result.output, _fields(result)["path"]) == ("inside", "a.txt")


@pytest.mark.spec("N3")
def test_files_hidden_by_the_policy_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("SECRET")
    (tmp_path / "link").symlink_to("secret")
    for path in ("secret", "link"):
        result = use(FILE_READ, FakeContext(tmp_path, read=tmp_path / "secret"), path=path)
        assert result.error == f"Sandbox: '{path}' may not be read (sandbox.read_deny)."


@pytest.mark.spec("N3")
def test_the_configured_policy_applies_to_the_tool(tmp_path: Path) -> None:
    secret = tmp_path / "project" / "secret.txt"
    closed = Config(sandbox=SandboxConfig(read_deny=(str(secret),)))
    runtime = runtime_in(tmp_path, FILE_READ, config=closed)
    secret.write_text("SECRET")
    assert "may not be read" in (run(runtime.call("read", {"path": "secret.txt"})).error or "")


@pytest.mark.parametrize(
    ("data", "name", "kind", "mime"),
    [
        (PNG, "a.txt", "image", "image/png"),
        (b"\xff\xd8\xff\xe0", "a", "image", "image/jpeg"),
        (b"RIFF\0\0\0\0WAVEfmt ", "a", "audio", "audio/wav"),
        (b"%PDF-1.7\n", "a", "file", "application/pdf"),
        (b"\0\1\2", "a.wasm", "file", "application/wasm"),
        (b"\0\1\2", "a.txt", "file", "application/octet-stream"),
    ],
)
@pytest.mark.spec("B1")
def test_a_binary_file_is_attached_and_typed_by_its_content(
    tmp_path: Path, data: bytes, name: str, kind: Any, mime: str
) -> None:
    (tmp_path / name).write_bytes(data)
    result = _read(tmp_path, name)
    assert result.attachments == (Attachment(kind=kind, mime_type=mime, data=data, name=name),)
    assert result.output == f"{name} is {mime}, {len(data)}B; attached."
    assert _fields(result)["encoding"] == "attached"


@pytest.mark.spec("B1")
def test_base64_returns_every_byte_and_attaches_large_files(tmp_path: Path) -> None:
    data = bytes(range(256))
    (tmp_path / "a.txt").write_bytes(data)
    result = _read(tmp_path, encoding="base64")
    assert base64.b64decode(result.output) == data
    assert _fields(result)["encoding"] == "base64"
    (tmp_path / "a.txt").write_bytes(data * 200)
    assert [item.data for item in _read(tmp_path, encoding="base64").attachments] == [data * 200]
    with (tmp_path / "a.txt").open("wb") as file:
        file.truncate(MAX_ATTACHED + 1)
    assert "at most 16.0MB can be attached" in (_read(tmp_path).error or "")


@pytest.mark.spec("B1")
def test_bytes_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfa\xffb\r\n\xe2\x82\n")
    assert _fields(_read(tmp_path))["content"] == "\ufeffa\ufffdb\r\n\ufffd\n"


@pytest.mark.spec("B1")
def test_small_models_get_200_lines(tmp_path: Path) -> None:
    small = Config(tools=ToolsConfig(caps="small"))
    runtime = runtime_in(tmp_path, FILE_READ, config=small)
    (tmp_path / "project" / "a.txt").write_text(_numbered(1000))
    for args in ({"path": "a.txt"}, {"path": "a.txt", "limit": 500}):
        output = run(runtime.call("read_file", args)).output
        assert output.endswith("line 200\n\n[Showing lines 1-200 of 1000. Use offset=201 to continue.]")


@pytest.mark.spec("B1")
def test_a_large_file_is_not_read_just_to_count_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "COUNTED_BYTES", 10_000)
    (tmp_path / "a.txt").write_text(_numbered(5000))
    size = truncate.format_size((tmp_path / "a.txt").stat().st_size)
    cases: list[tuple[Any, str]] = [
        ({"limit": 2}, "1-2"), ({}, "1-1998"), ({"offset": 2500, "limit": 1}, "2500-2500")
    ]  # fmt: skip
    for args, shown in cases:
        result = _read(tmp_path, **args)
        after = int(shown.partition("-")[2]) + 1
        assert result.output.endswith(f"\n\n[Showing lines {shown} of a {size} file. Use offset={after} to continue.]")
        assert _fields(result)["total_lines"] is None
    assert _read(tmp_path, offset=6000).error == "Offset 6000 is beyond end of file (5000 lines total)"


@pytest.mark.spec("B1")
def test_reading_the_start_of_a_huge_file_is_cheap(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.write(_numbered(3000).encode())
        file.truncate(1024**3)
    (tmp_path / "a.txt").write_text(_numbered(100))
    _read(tmp_path)

    def cost(name: str) -> float:
        assert _read(tmp_path, name, limit=200).success
        return least(lambda: _read(tmp_path, name, limit=200))

    assert cost("huge.txt") - cost("a.txt") < 0.05


@pytest.mark.spec("R10")
def test_without_a_project_reading_stays_in_the_working_folder(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "a.txt").write_text("inside")
    (tmp_path / "out.txt").write_text("SECRET")
    (here / "link").symlink_to(tmp_path / "out.txt")
    runtime = Runtime(tools=[FILE_READ], workspace=Workspace(cwd=str(here)))
    assert run(runtime.call("file.read", {"path": "a.txt"})).output == "inside"
    for path in ("../out.txt", "link", "/etc/passwd"):
        refused = run(runtime.call("file.read", {"path": path}))
        assert refused.error == f"{path!r} is outside the working folder {here}. Use a path inside it."


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({"path": "config.lua", "offset": 100, "limit": 50, "label": "reading tail"},
         "read: config.lua  +100,50  # reading tail"),
        ({"path": "config.lua", "offset": 100}, "read: config.lua  +100"),
        ({"path": "config.lua", "limit": 50, "label": "reading config"}, "read: config.lua  +0,50  # reading config"),
        ({"path": "config.lua", "offset": 0, "limit": 50}, "read: config.lua  +0,50"),
        ({"path": "config.lua", "offset": None, "limit": None, "label": None}, "read: config.lua"),
    ],
)  # fmt: skip
@pytest.mark.spec("O1")
def test_the_preview_names_the_path_the_range_and_the_reason(args: Any, shown: str) -> None:
    assert preview("read", args, 80, FILE_READ.format_preview) == shown
