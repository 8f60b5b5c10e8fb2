"""Attachments are shown in place only if their bytes are an image or audio; everything else is downloaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.result import Attachment, Result
from holdfast.serve.media import inline_type, media_reply, sniff
from tests.serve.daemon_client import DaemonClient, run

pytestmark = pytest.mark.spec("T10p")

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0\0\0\x02" * 2 + b"\0" * 32
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


def made(mime_type: str, data: bytes, name: str | None = None) -> Attachment:
    kind = "image" if mime_type.startswith("image/") else "audio" if mime_type.startswith("audio/") else "file"
    return Attachment(kind=kind, mime_type=mime_type, data=data, name=name)


@pytest.mark.parametrize(
    ("mime_type", "data"),
    [
        ("image/png", PNG),
        ("image/jpeg", b"\xff\xd8\xff\xe0xx"),
        ("IMAGE/JPG; q=1", b"\xff\xd8\xff\xe0xx"),
        ("image/gif", b"GIF89a"),
        ("image/webp", b"RIFF0000WEBPVP8 "),
        ("audio/x-wav", b"RIFF0000WAVEfmt "),
        ("audio/ogg", b"OggS"),
        ("audio/mpeg", b"ID3"),
        ("audio/mpeg", b"\xff\xfb\x90"),
        ("audio/flac", b"fLaC"),
        ("audio/mp4", b"\0\0\0\x20ftypM4A "),
        ("audio/webm", b"\x1a\x45\xdf\xa3"),
        ("audio/aac", b"\xff\xf1\x50"),
    ],
)
def test_known_images_and_audio_are_shown_in_place(mime_type: str, data: bytes) -> None:
    reply = media_reply(made(mime_type, data))
    assert reply.headers["content-disposition"].startswith("inline")
    assert reply.headers["content-type"].partition("/")[0] in ("image", "audio")


@pytest.mark.parametrize(
    ("mime_type", "data"),
    [
        ("image/svg+xml", SVG),
        ("image/png", SVG),
        ("image/png", b"GIF89a"),
        ("image/png", b""),
        ("image/bmp", b"BM"),
        ("text/html", b"<script>"),
        ("application/pdf", b"%PDF-1.7"),
        ("video/mp4", b"\0\0\0\x20ftypisom"),
        ("audio/mpeg", b"<html>"),
        ("", PNG),
        ("text/html", PNG),
        ("image/png\r\nX-Evil: 1", SVG),
    ],
)
def test_everything_else_is_downloaded_without_a_type(mime_type: str, data: bytes) -> None:
    reply = media_reply(made(mime_type, data or b"x"))
    assert reply.headers["content-disposition"].startswith("attachment")
    assert reply.headers["content-type"] == "application/octet-stream"


@given(st.text(), st.text(), st.binary(min_size=1, max_size=64))
def test_no_name_or_type_can_add_a_header_or_a_policy(mime_type: str, name: str, data: bytes) -> None:
    item = made(mime_type, data, name)
    reply = media_reply(item)
    assert reply.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert reply.headers["x-content-type-options"] == "nosniff"
    for _, value in reply.raw_headers:
        assert value.isascii()
        assert b"\r" not in value
        assert b"\n" not in value
    assert reply.headers["content-disposition"].count('"') == 2
    assert inline_type(item) in (None, sniff(data), "audio/mp4", "audio/webm", "audio/aac")


def test_the_bytes_of_a_result_come_from_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        link = Attachment(kind="file", mime_type="text/plain", uri="https://example.org/x")
        found = Result(True, attachments=(made("image/png", PNG, "Bild ä.png"), made("image/svg+xml", SVG), link))
        client.record("camera", {}, found, "made-1")
        base = f"/media/{client.key}/made-1"
        assert f'src="{base}/0"' in await client.page(f"/history/{client.key}/made-1")
        image = await client.get(f"{base}/0")
        assert image.content == PNG
        assert image.headers["content-type"] == "image/png"
        assert image.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert "filename*=UTF-8''Bild-%C3%A4.png" in image.headers["content-disposition"]
        drawing = await client.get(f"{base}/1")
        assert drawing.content == SVG
        assert drawing.headers["content-disposition"].startswith("attachment")
        for wrong in ("2", "3", "-1", "x", "99999999999", "0/../../x", "%00", "٣"):
            await client.get(f"{base}/{wrong}", 404)
        await client.get(f"/media/{client.key}/none/0", 404)
        await client.get("/media/ffff/made-1/0", 404)
        async with client.other() as stranger:
            await stranger.get(f"{base}/0", 303)

    run(body, tmp_path, monkeypatch)
