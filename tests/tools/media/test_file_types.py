"""What a media file is, by its content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.media.file_types import AUDIO, IMAGES, MAX_FRAMES, can_run, content_type, parse_type, structure
from holdfast.tools.media.file_types import trailing_note as note
from tests.quick import quickly
from tests.tools.media.samples import AUDIO_TYPES, AudioType, animation, audio, gif, image, javascript_gif

ZIP = b"PK\x03\x04" + bytes(60)


@pytest.mark.spec("B11a")
@pytest.mark.parametrize("mime", IMAGES)
def test_an_image_is_recognised_and_complete_whatever_it_is_called(mime: str) -> None:
    data = image(mime)
    assert content_type(data) == mime
    assert note(data, mime) is None
    assert structure(data, mime) is not None


@pytest.mark.parametrize("mime", AUDIO_TYPES)
def test_a_recording_is_recognised(mime: AudioType) -> None:
    assert set(AUDIO) == set(AUDIO_TYPES)
    assert content_type(audio(mime)) == mime
    assert note(audio(mime), mime) is None


@pytest.mark.spec("B11b")
@pytest.mark.parametrize("mime", ["image/jpeg", "image/png", "image/gif"])
def test_data_after_the_end_of_an_image_is_named(mime: str) -> None:
    data = image(mime)
    assert f"follow {len(ZIP)} bytes of other data (a ZIP archive)" in str(note(data + ZIP, mime))
    assert "text/html" in str(note(data + b"<script>alert(1)</script>", mime))
    assert note(data + b"\0\0\r\n", mime) is None


@pytest.mark.spec("B11b")
@pytest.mark.parametrize("mime", ["image/jpeg", "image/png", "image/gif", "audio/wav"])
def test_a_file_that_is_cut_off_is_called_so(mime: str) -> None:
    data = audio("audio/wav") if mime == "audio/wav" else image(mime)
    assert "damaged or cut off" in str(note(data[: len(data) // 2], mime))


@pytest.mark.spec("B11b")
def test_a_gif_that_is_a_script_is_called_damaged() -> None:
    data = javascript_gif()
    assert content_type(data) == "image/gif"
    assert "damaged" in str(note(data, "image/gif"))


def test_frames_of_a_gif_are_counted_without_decoding_them() -> None:
    found = structure(animation(), "image/gif")
    assert found is not None and found.frames == 3
    many = gif(*[(1, 1)] * (MAX_FRAMES + 5))
    counted = structure(many, "image/gif")
    assert counted is not None and counted.frames == MAX_FRAMES and counted.end == len(many)


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (b"<!DOCTYPE html><p>", "text/html"),
        (b"  <!-- hi --><svg onload=alert(1)>", "image/svg+xml"),
        (b'<?xml version="1.0"?>\n<svg xmlns="x"/>', "image/svg+xml"),
        (b"\x7fELF\2\1\1\0", "application/x-elf"),
        (b"MZ\x90\0", "application/x-msdownload"),
        (b"%PDF-1.7", "application/pdf"),
        (b"\0\0\0\x20ftypavif", "image/avif"),
        (b"\x1aE\xdf\xa3\x42\x82\x84webm\x83\x81\x01", "video/webm"),
        (b"\x1aE\xdf\xa3\x42\x82\x88matroska", "video/x-matroska"),
        (b"plain text", None),
        (b"\xff\xfe\0\0", None),
        (b"", None),
    ],
)
def test_other_content_is_named_by_what_it_is(data: bytes, mime: str | None) -> None:
    assert content_type(data) == mime


def test_types_that_can_run_code_are_known() -> None:
    assert [mime for mime in ("text/html", "image/svg+xml", "application/x-elf", "image/png") if can_run(mime)] == [
        "text/html",
        "image/svg+xml",
        "application/x-elf",
    ]


@pytest.mark.parametrize(
    ("given", "mime"),
    [
        ("IMAGE/JPG", "image/jpeg"),
        ("audio/ogg; codecs=opus", "audio/ogg"),
        (" text/plain;charset=utf-8 ", "text/plain"),
        ("image", None),
        ("image/", None),
        ("image/png\r\nX: y", None),
        ("a/" + "b" * 100, None),
    ],
)
def test_a_declared_type_is_read_without_its_parameters(given: str, mime: str | None) -> None:
    assert parse_type(given) == mime


HEADS = [image(mime)[:64] for mime in IMAGES] + [audio(mime)[:64] for mime in AUDIO_TYPES]


@given(st.sampled_from(HEADS), st.integers(0, 64), st.binary(max_size=300), st.sampled_from((*IMAGES, *AUDIO)))
def test_no_content_breaks_the_readers(head: bytes, kept: int, rest: bytes, mime: str) -> None:
    data = head[:kept] + rest
    content_type(data)
    found = structure(data, mime)
    assert found is None or found.end is None or 0 <= found.end <= len(data)
    told = note(data, mime)
    assert told is None or "\n" not in told


@pytest.mark.spec("B11b")
@pytest.mark.parametrize(
    ("mime", "data"),
    [
        ("image/jpeg", b"\xff\xd8" + b"\xff\x00" * 1_000_000),
        ("image/jpeg", b"\xff\xd8" + b"\xff\xe0\x00\x02" * 400_000),
        ("image/png", b"\x89PNG\r\n\x1a\n" + bytes(3_000_000)),
        ("image/gif", b"GIF89a" + bytes(7) + b"!\xff" + b"\x01a" * 1_000_000),
    ],
    ids=["stuffed bytes", "segments", "empty chunks", "blocks"],
)
def test_a_hostile_file_is_outlined_in_linear_time(mime: str, data: bytes) -> None:
    with quickly(10):
        structure(data, mime)


@pytest.mark.spec("B11b")
@pytest.mark.parametrize(
    ("mime", "data"),
    [
        ("image/jpeg", b"\xff\xd8" + b"\xff\xe0\x00\x02" * 200_000 + b"\xff\xd9"),
        ("image/png", b"\x89PNG\r\n\x1a\n" + bytes(12) * 200_000),
        ("image/gif", b"GIF89a" + bytes(7) + b"!\xff" + b"\x01a" * 200_000 + b"\0;"),
    ],
    ids=["segments", "chunks", "sub-blocks"],
)
def test_a_file_of_countless_blocks_is_given_up_and_said_so(mime: str, data: bytes) -> None:
    found = structure(data, mime)
    assert found is not None and found.end is None and found.gave_up
    assert "more parts than any usual one" in str(note(data, mime))


def test_a_large_gif_of_full_blocks_is_read_to_its_end() -> None:
    block = b"\xff" + bytes(255)
    data = gif((1, 1))[:-6] + b"\x02" + block * 100_000 + b"\0;"
    found = structure(data, "image/gif")
    assert found is not None and (found.end, found.frames, found.gave_up) == (len(data), 1, False)


@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_a_jpeg_marker_is_found_wherever_the_search_for_it_pauses(before: int) -> None:
    data = b"\xff\xd8" + bytes((1 << 20) - before) + b"\xff\xd9"
    found = structure(data, "image/jpeg")
    assert found is not None and found.end == len(data)
