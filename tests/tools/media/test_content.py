"""The media file of a call: base64, data URLs and paths, bounded before anything is decoded."""

from __future__ import annotations

import asyncio
import os
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Config, Verdict
from holdfast.config.config import ApprovalConfig
from holdfast.contract.enums import State
from holdfast.text.quote import GUTTER
from holdfast.tools.media import content
from holdfast.tools.media.content import MediaRefused, decode_base64, quoted_block
from holdfast.tools.media.service import MediaSettings
from tests.quick import quickly
from tests.runtime.support import run
from tests.text.strategies import ANY_TEXT
from tests.tools.media.media_runtime import call, facts, media_runtime, write
from tests.tools.media.samples import image

MOST = 1024


@pytest.mark.parametrize("wrap", ["{}", " {}\n", "data:image/png;base64,{}", "data:image/png;name=a.png;BASE64,{}"])
def test_base64_is_decoded_with_spaces_and_as_a_data_url(wrap: str) -> None:
    text = b64encode(image()).decode()
    assert decode_base64(wrap.format("\r\n".join((text[:76], text[76:]))), 10_000) == image()


@pytest.mark.spec("B11b")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("not base64!", "The data is not base64: character 10 is '!'"),
        ("AAAA\x00AAA", "character 5 is '‹\\x00›'"),
        ("AAAA_-AA", "character 5 is '_'"),
        ("AA=A", "character 3 is '='"),
        ("AAAAA", "The base64 data is cut off: its length, 5 characters"),
        ("AAA", "cut off"),
        ("A===", "cut off"),
        ("data:image/png,abc", "a data URL without base64"),
        ("A" * 1400, "The data has 1.0KB; at most 1.0KB are accepted (media.max_bytes)."),
    ],
)
def test_bad_base64_is_refused_with_what_is_wrong(given: str, told: str) -> None:
    with pytest.raises(MediaRefused) as refused:
        decode_base64(given, MOST)
    assert told in str(refused.value)


@given(st.binary(max_size=MOST + 4))
def test_every_file_up_to_the_limit_survives_base64(data: bytes) -> None:
    text = b64encode(data).decode()
    if len(data) <= MOST:
        assert decode_base64(text, MOST) == data
    else:
        with pytest.raises(MediaRefused):
            decode_base64(text, MOST)


@given(ANY_TEXT | st.text("Aa+/= \n,:;data", max_size=40))
def test_whatever_is_given_as_base64_is_decoded_as_python_does_or_refused(text: str) -> None:
    with suppress(MediaRefused):
        data = decode_base64(text, MOST)
        assert data == b64decode("".join(text.rpartition(",")[2].split()))


@pytest.mark.spec("B11b")
def test_a_long_argument_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    runtime = media_runtime(tmp_path, settings=MediaSettings(max_bytes=1000))
    with quickly(5):
        refused = call(runtime, "media.send", bytes(8_000_000), mimeType="image/png")
    assert "at most 1000B are accepted" in str(refused.error)


@pytest.mark.spec("B11b")
@pytest.mark.parametrize("tool", ["media.send", "image.analyze", "audio.transcribe"])
def test_a_huge_file_is_refused_by_its_size(tmp_path: Path, tool: str) -> None:
    runtime = media_runtime(tmp_path, settings=MediaSettings(whisper_model=tmp_path))
    os.truncate(write(runtime, "big.png", image()), 100 * 1024 * 1024)
    with quickly(5):
        refused = call(runtime, tool, path="big.png")
    assert refused.error == "big.png has 100.0MB; at most 25.0MB are accepted (media.max_bytes)."


@pytest.mark.spec("B11b")
@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, "Give exactly one of data (base64) and path"),
        ({"data": "AAAA", "path": "a.png"}, "Give exactly one of data (base64) and path"),
        ({"data": "", "mimeType": "image/png"}, "The data is empty."),
        ({"data": "AAAA", "mimeType": "png"}, "'png' is not a MIME type. Use one such as image/png."),
        ({"data": "AAAA", "mimeType": "image/png"}, "declared as image/png, but it is no known image or audio format"),
        ({"path": "none.png"}, "File not found: none.png"),
        ({"path": "."}, ". is a folder, not a regular file."),
        ({"path": "../out.png"}, "outside the project"),
        ({"path": "/etc/passwd"}, "outside the project"),
    ],
)
def test_arguments_that_name_no_usable_file_are_refused(tmp_path: Path, args: dict[str, str], told: str) -> None:
    (tmp_path / "out.png").write_bytes(image())
    refused = run(media_runtime(tmp_path).call("media.send", args))
    assert told in str(refused.error)


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    runtime = media_runtime(tmp_path)
    (tmp_path / "out.png").write_bytes(image())
    (tmp_path / "project" / "link.png").symlink_to(tmp_path / "out.png")
    assert not call(runtime, "media.send", path="link.png").success


@pytest.mark.spec("B11b")
def test_a_file_is_examined_outside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examined = list[str]()

    def in_a_thread(data: bytes, mime: str) -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        examined.append(mime)

    monkeypatch.setattr(content, "trailing_note", in_a_thread)
    assert call(media_runtime(tmp_path), "media.send", image()).success
    assert examined == ["image/png"]


@pytest.mark.spec("B11d")
@pytest.mark.parametrize("tool", ["media.send", "image.analyze", "audio.transcribe"])
def test_a_secret_file_needs_approval(tmp_path: Path, tool: str) -> None:
    runtime = media_runtime(tmp_path, config=Config(approval=ApprovalConfig(require_approval=False)))
    write(runtime, ".env", b"KEY=1")
    write(runtime, "a.png", image())
    assert run(runtime.judge(tool, {"path": "a.png"})).verdict is Verdict.APPROVE
    assert run(runtime.judge(tool, {"path": ".env"})).verdict is Verdict.ASK


@pytest.mark.spec("B11d")
def test_a_file_of_the_project_can_be_sent_without_asking_under_the_usual_presets(tmp_path: Path) -> None:
    runtime = media_runtime(tmp_path, config=Config(approval=ApprovalConfig(auto_approve=("$default",))))
    write(runtime, "a.png", image())
    result = call(runtime, "media.send", path="a.png")
    assert result.state is State.DONE and facts(result)["name"] == "a.png"


@given(ANY_TEXT)
def test_no_quoted_text_leaves_its_gutter(text: str) -> None:
    shown = quoted_block(text)
    assert all(line.startswith(GUTTER) for line in shown.split("\n"))
    assert len(shown.splitlines()) == len(shown.split("\n")) or not shown[len(GUTTER) :]
