"""The process that decodes one file: every format, hostile files, and limits that hold."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from holdfast.tools.media.decoder_process import RATE, colour_name, decode_audio, decode_image
from holdfast.tools.media.file_types import content_type
from holdfast.tools.media.replies import AudioFacts, ImageFacts
from holdfast.tools.media.service import MediaService, MediaSettings
from holdfast.tools.worker_frames import Unreadable
from holdfast.tools.worker_process import WorkerFailed
from tests.runtime.support import run
from tests.soak import rounds
from tests.tools.media.samples import (
    AUDIO_TYPES,
    IMAGE_FORMATS,
    AudioType,
    animation,
    audio,
    encoded,
    image,
    image_bombs,
    photo,
    picture,
    png,
    wav,
)

SERVICE = MediaService(MediaSettings(max_seconds=60))


def pixels(data: bytes, mime: str, *, location: bool = False) -> tuple[ImageFacts, bytes]:
    return run(SERVICE.pixels(data, mime, location=location))


def samples(data: bytes, mime: str) -> tuple[AudioFacts, bytes]:
    return run(SERVICE.samples(data, mime))


def request(mime: str, **more: Any) -> dict[str, Any]:
    given = {"mime_type": mime, "want": "pixels", "max_pixels": 1_000_000, "max_side": 64, "location": False}
    return {**given, "max_seconds": 1.0, **more}


@pytest.mark.spec("B11e")
@pytest.mark.parametrize("mime", IMAGE_FORMATS)
def test_an_image_becomes_pixels_and_facts(mime: str) -> None:
    found, rgb = pixels(image(mime), mime)
    assert (found["width"], found["height"], found["frames"]) == (320, 120, 1)
    assert len(rgb) == 320 * 120 * 3
    assert rgb[0] < 12 and rgb[1] < 12 and abs(rgb[2] - 128) < 12
    assert [each["name"] for each in found["colours"]] == ["dark blue"]


@pytest.mark.spec("B11e")
@pytest.mark.parametrize("mime", AUDIO_TYPES)
def test_a_recording_becomes_samples(mime: AudioType) -> None:
    found, data = samples(audio(mime), mime)
    assert 2.9 < found["seconds"] < 3.1
    assert len(data) == 2 * round(found["seconds"] * RATE)
    assert any(data)
    assert not found["cut"] and not found["damaged"]


@pytest.mark.spec("B11b")
@pytest.mark.parametrize("name", image_bombs())
def test_a_bomb_is_refused_or_costs_nothing(name: str) -> None:
    mime, data = image_bombs()[name]
    if name in ("pixels", "many frames"):
        found, rgb = pixels(data, mime)
        assert len(rgb) == 3 * found["width"] * found["height"] < 10_000
    else:
        with pytest.raises(WorkerFailed, match=r"more than 50,000,000 pixels|decompression bomb"):
            pixels(data, mime)


MEASURE = """
import json, re, resource, sys
from pathlib import Path
from tests.runtime.support import run
from tests.tools.media.samples import image_bombs, png, wav
from holdfast.tools.media.replies import AudioFacts, ImageFacts
from holdfast.tools.media.service import MediaService, MediaSettings
from holdfast.tools.worker_process import WorkerFailed

service = MediaService(MediaSettings(max_seconds=300))
large = png(5000, 5000, rows=(b"\\0" + bytes(5000)) * 5000, level=1)
for mime, data in [*image_bombs().values(), ("image/png", large)]:
    try:
        run(service.pixels(data, mime, location=False))
    except WorkerFailed:
        pass
run(service.samples(wav(bytes(3_000_000), rate=4000, bits=8), "audio/wav"))
# Not ru_maxrss: that of a new process starts with the size of its parent.
own = int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
json.dump([resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, own // 1024], sys.stdout)
"""


@pytest.mark.spec("B11b")
def test_hostile_and_large_files_use_bounded_memory() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, timeout=250, check=True)
    decoder, own = json.loads(done.stdout)
    assert decoder < 600, f"the decoder used {decoder} MB"
    assert own < 700, f"the caller used {own} MB"


@pytest.mark.spec("B11b")
@pytest.mark.parametrize("mime", IMAGE_FORMATS)
def test_an_image_that_is_cut_off_is_refused(mime: str) -> None:
    data = image(mime)
    with pytest.raises(WorkerFailed, match=r"cut off|damaged"):
        pixels(data[: len(data) // 2], mime)


@pytest.mark.spec("B11b")
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (wav(bytes(1000), rate=1), "it claims 1 samples per second on 1 channels"),
        (wav(bytes(1000), rate=2**32 - 1), "it is damaged"),
        (wav(bytes(1000), channels=9000), "samples per second"),
        (wav(b""), "it contains no audio|it is damaged"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "it is damaged"),
    ],
    ids=["one hertz", "four gigahertz", "channels", "empty", "header"],
)
def test_a_recording_with_absurd_claims_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(WorkerFailed, match=told):
        samples(data, "audio/wav")


@pytest.mark.spec("B11b")
def test_a_recording_is_cut_at_the_limit_whatever_length_it_claims() -> None:
    found, data = samples(wav(bytes(400_000), rate=4000, bits=8, size=2**32 - 1), "audio/wav")
    assert (found["cut"], found["seconds"], len(data)) == (True, 60.0, 60 * RATE * 2)


def test_a_file_is_decoded_only_as_the_type_that_its_content_shows() -> None:
    with pytest.raises(WorkerFailed, match="damaged"):
        pixels(image("image/jpeg"), "image/png")
    with pytest.raises(WorkerFailed, match=r"damaged|no audio"):
        samples(b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n", "audio/ogg")


@pytest.mark.spec("B11f")
def test_metadata_is_returned_without_the_position_unless_it_is_asked_for() -> None:
    found, _ = pixels(photo(description="A cat"), "image/jpeg")
    assert {"name": "Make", "value": "Acme"} in found["metadata"]
    assert {"name": "ImageDescription", "value": "A cat"} in found["metadata"]
    assert (found["has_location"], found["location"]) == (True, None)
    here, _ = decode_image(request("image/jpeg"), photo())
    assert here["metadata"] and (here["has_location"], here["location"]) == (True, None)
    asked, _ = pixels(photo(), "image/jpeg", location=True)
    assert asked["location"] == {"latitude": 48.1375, "longitude": -11.575}


@pytest.mark.spec("B11f")
def test_the_picture_for_a_provider_contains_nothing_but_the_picture() -> None:
    for data, mime, sent in (
        (photo(description="secret words") + b"PK\x03\x04 archive", "image/jpeg", "image/jpeg"),
        (encoded(picture("Hi"), "image/png") + b"trailing words", "image/png", "image/png"),
        (animation(), "image/gif", "image/png"),
    ):
        found, made = run(SERVICE.picture(data, mime, location=False))
        assert found["sent_type"] == content_type(made) == sent
        with Image.open(BytesIO(made)) as opened:
            assert not opened.getexif() and opened.size == (found["sent_width"], found["sent_height"])
            assert getattr(opened, "n_frames", 1) == 1
        assert b"words" not in made and b"archive" not in made and b"Acme" not in made


def described(mime: str) -> bytes:
    """An image whose every place for metadata contains the word SECRET."""
    made = picture("Hi", size=(80, 40))
    exif = made.getexif()
    exif[0x010E] = "SECRET exif"
    options: dict[str, Any] = {"icc_profile": bytes(128) + b"SECRET profile", "exif": exif}
    if mime == "image/png":
        notes = PngInfo()
        notes.add_text("Author", "SECRET text")
        notes.add_text("Title", "SECRET compressed", zip=True)
        notes.add_itxt("XML:com.adobe.xmp", "SECRET xmp")
        options |= {"pnginfo": notes, "dpi": (123, 123)}
    elif mime == "image/gif":
        options = {"comment": b"SECRET comment"}
    else:
        options |= {"xmp": b"SECRET xmp", "comment": b"SECRET comment"}
    return encoded(made, mime, **options)


@pytest.mark.spec("B11f")
@pytest.mark.parametrize("mime", IMAGE_FORMATS)
def test_no_metadata_of_any_kind_reaches_a_provider(mime: str) -> None:
    data = described(mime)
    assert b"SECRET" in data
    _, made = run(SERVICE.picture(data, mime, location=False))
    with Image.open(BytesIO(made)) as opened:
        opened.load()
        assert set(opened.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
        assert not opened.getexif()
    assert b"SECRET" not in made


def test_a_picture_is_turned_as_its_metadata_says() -> None:
    found, _ = pixels(photo(orientation=6), "image/jpeg")
    assert (found["width"], found["height"], found["sent_width"], found["sent_height"]) == (80, 40, 40, 80)


def test_transparent_parts_are_white() -> None:
    found, rgb = pixels(encoded(Image.new("RGBA", (4, 4), (0, 0, 0, 0))), "image/png")
    assert set(rgb) == {255}
    assert found["colours"] == [{"name": "white", "hex": "#ffffff", "share": 1.0}]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("#000000", "black"), ("#ffffff", "white"), ("#808080", "grey"), ("#d9d9d9", "light grey"), ("#ff0000", "red"),
        ("#000080", "dark blue"), ("#00ff00", "green"), ("#ffa500", "orange"), ("#8b4513", "brown"),
        ("#ffff00", "yellow"),
        ("#00ffff", "cyan"), ("#ff00ff", "magenta"), ("#ffc0cb", "light red"),
    ],
)  # fmt: skip
def test_colours_have_plain_names(code: str, name: str) -> None:
    assert colour_name(code) == name


@given(st.integers(0, 0xFFFFFF))
def test_every_colour_has_a_name(value: int) -> None:
    assert colour_name(f"#{value:06x}")


DAMAGED = [(mime, image(mime)) for mime in IMAGE_FORMATS] + [(mime, audio(mime)[:9000]) for mime in AUDIO_TYPES]


@pytest.mark.spec("B11b")
@settings(max_examples=rounds(60, 3000))
@given(
    st.sampled_from(DAMAGED), st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 255)), min_size=1, max_size=20)
)
def test_a_damaged_file_is_decoded_or_refused_with_a_reason(
    given_file: tuple[str, bytes], changes: list[tuple[int, int]]
) -> None:
    mime, data = given_file
    changed = bytearray(data)
    for at, value in changes:
        changed[at % len(changed)] = value
    with suppress(Unreadable):  # every other exception fails the test
        if mime.startswith("image/"):
            found, rgb = decode_image(request(mime), bytes(changed))
            assert len(rgb) == 3 * found["sent_width"] * found["sent_height"] <= 3 * 64 * 64
        else:
            found, data = decode_audio(request(mime), bytes(changed))
            assert len(data) <= 2 * RATE


def test_a_plain_grey_png_is_read() -> None:
    found, rgb = pixels(png(8, 8, rows=(b"\0" + bytes([128]) * 8) * 8), "image/png")
    assert found["mode"] == "L" and set(rgb) == {128}
