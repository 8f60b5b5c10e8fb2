"""The process that decodes one media file and ends: images become pixels, audio becomes samples.

It sees bytes that a stranger may have made, so it runs alone, without files and network, under limits of memory, CPU
time and output, and with one format: the one that the content shows. It never guesses another, so no playlist or script
format is ever tried.
"""

from __future__ import annotations

import colorsys
import re
from contextlib import suppress
from io import BytesIO
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from holdfast.text.attachments import pixels
from holdfast.tools.media.file_types import MAX_FRAMES, structure
from holdfast.tools.worker_frames import Pipe, Reply, Request, Unreadable, allow_cpu_time, confine, limit_resources

if TYPE_CHECKING:
    from PIL import Image

MEMORY: Final = 1536 * 1024**2
_CPU_SECONDS: Final = 60
RATE: Final = 16_000
"""Samples per second that speech recognition wants; each has two bytes."""
_FORMATS: Final = {"image/jpeg": "JPEG", "image/png": "PNG", "image/gif": "GIF", "image/webp": "WEBP"}
_CONTAINERS: Final = {
    "audio/ogg": "ogg", "audio/wav": "wav", "audio/mpeg": "mp3", "audio/webm": "matroska", "video/webm": "matroska",
}  # fmt: skip
_CODECS: Final = (
    "opus", "libopus", "vorbis", "flac", "mp3", "mp3float", "pcm_u8", "pcm_s16le", "pcm_s24le", "pcm_s32le",
    "pcm_f32le", "pcm_f64le", "pcm_alaw", "pcm_mulaw", "adpcm_ima_wav", "adpcm_ms", "libspeex", "speex",
)  # fmt: skip
"""The decoders of these containers that people use. FFmpeg has hundreds more."""
_RATES: Final = range(4_000, 384_001)
_MAX_CHANNELS: Final = 8
_REDUCIBLE: Final = ("L", "LA", "RGB", "RGBA")
_COLOURS: Final = 6
_MAX_ENTRIES: Final = 30
_MAX_VALUE: Final = 300
_EXIF: Final = {
    0x010E: "ImageDescription", 0x010F: "Make", 0x0110: "Model", 0x0112: "Orientation", 0x0131: "Software",
    0x0132: "DateTime", 0x013B: "Artist", 0x8298: "Copyright", 0x9003: "DateTimeOriginal", 0x9286: "UserComment",
    0xA434: "LensModel",
}  # fmt: skip
_NOT_TEXT: Final = re.compile(
    r"exif$|icc_profile$|xmp$|xml:com\.adobe|raw profile|photoshop$|version$|extension$", re.I
)
"""Entries of Pillow that are not text, or that can contain a position, as XMP does."""
_EXIF_IFD: Final = 0x8769
_GPS_IFD: Final = 0x8825
_HUES: Final = (
    (15, "red"), (40, "orange"), (65, "yellow"), (85, "lime"), (150, "green"), (185, "cyan"), (255, "blue"),
    (285, "violet"), (325, "magenta"), (345, "pink"), (361, "red"),
)  # fmt: skip


# Images


def decode_image(request: Request, data: bytes) -> tuple[Reply, bytes]:
    """Return facts, and the pixels: raw RGB rows, or a new PNG or JPEG file without anything but the picture."""
    from PIL import Image, ImageOps

    limit = int(request["max_pixels"])
    Image.MAX_IMAGE_PIXELS = max(1, limit // 2)  # Pillow raises at twice this number, for later frames too
    try:
        with Image.open(BytesIO(data), formats=[_FORMATS[request["mime_type"]]]) as opened:
            width, height = opened.size
            if width * height > limit:
                raise Image.DecompressionBombError
            facts: Reply = {"width": width, "height": height, "mode": opened.mode, **_frames(opened, data, request)}
            facts |= _metadata(opened, location=bool(request["location"]))
            side = int(request["max_side"])
            opened.draft("RGB", (side, side))  # a JPEG is then decoded at a fraction of its size
            opened.load()
            picture = opened if opened.mode in _REDUCIBLE and "transparency" not in opened.info else _opaque(opened)
            picture.thumbnail((side, side))  # before anything that copies all pixels
            ImageOps.exif_transpose(picture, in_place=True)
            picture = _opaque(picture)
    except Image.DecompressionBombError:
        size = pixels(data)
        shown = "" if size is None else f"{size[0]:,} × {size[1]:,} pixels, "
        raise Unreadable(f"it has {shown}more than {limit:,} pixels (media.max_pixels)") from None
    except Image.UnidentifiedImageError:
        raise Unreadable("its header is damaged") from None
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, KeyError, OverflowError) as error:
        raise Unreadable(_reason(error)) from None
    facts["colours"] = _colours(picture)
    made = "image/png" if request["mime_type"] in ("image/png", "image/gif") else "image/jpeg"
    facts |= {"sent_width": picture.width, "sent_height": picture.height, "sent_type": made}
    return facts, picture.tobytes() if request["want"] == "pixels" else _encoded(picture, made)


def _reason(error: Exception) -> str:
    told = str(error).lower()
    if "truncated" in told or isinstance(error, EOFError):
        return "it is cut off"
    if "too large" in told or "decompress" in told:
        return "its metadata is a decompression bomb"
    return "it is damaged"


def _frames(opened: Image.Image, data: bytes, request: Request) -> Reply:
    """Count frames without decoding them: a GIF of a million empty frames costs nothing."""
    if request["mime_type"] == "image/gif":
        found = structure(data, "image/gif")
        frames = max(1, 1 if found is None else found.frames or 1)
    else:
        frames = int(getattr(opened, "n_frames", 1))
    return {"frames": min(frames, MAX_FRAMES)}


def _opaque(picture: Image.Image) -> Image.Image:
    """Return an RGB picture; what is transparent becomes white."""
    from PIL import Image

    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        with_alpha = picture.convert("RGBA")
        ground = Image.new("RGBA", with_alpha.size, "white")
        return Image.alpha_composite(ground, with_alpha).convert("RGB")
    return picture.convert("RGB")


def _encoded(picture: Image.Image, mime_type: str) -> bytes:
    from PIL import Image

    made = BytesIO()
    plain = Image.new("RGB", picture.size)
    plain.paste(picture)  # pixels alone: Pillow would write the comment and the colour profile of `picture.info` again
    plain.save(made, _FORMATS[mime_type], quality=90)  # of a JPEG
    return made.getvalue()


def _metadata(opened: Image.Image, *, location: bool) -> Reply:
    """Return the entries of EXIF and comments; a position only if it was asked for."""
    found: list[dict[str, str]] = []
    position: dict[str, float] | None = None
    has_position = False
    with suppress(Exception):  # metadata can be damaged in any way, and the picture is still one
        exif = opened.getexif()
        for tag, value in [*exif.items(), *exif.get_ifd(_EXIF_IFD).items()]:
            if tag in _EXIF and (text := _entry(value)):
                found.append({"name": _EXIF[tag], "value": text})
        gps = exif.get_ifd(_GPS_IFD)
        has_position = 2 in gps or 4 in gps
        if location and has_position:
            position = _position(gps)
    for name, value in opened.info.items():
        if isinstance(value, str | bytes) and not _NOT_TEXT.match(str(name)) and (text := _entry(value)):
            found.append({"name": _entry(name) or "comment", "value": text})
    return {"metadata": found[:_MAX_ENTRIES], "has_location": has_position, "location": position}


def _entry(value: object) -> str:
    if isinstance(value, bytes):
        value = value.removeprefix(b"ASCII\0\0\0").decode("utf-8", "replace")
    if not isinstance(value, str | int | float):
        return ""
    return str(value)[: 4 * _MAX_VALUE].replace("\0", "").strip()[:_MAX_VALUE]


def _position(gps: Any) -> dict[str, float] | None:
    """Return None if it is damaged: incomplete, not a number (a denominator of zero), or not on this planet."""
    with suppress(Exception):
        latitude, longitude = _degrees(gps, 1, "S"), _degrees(gps, 3, "W")
        if abs(latitude) <= 90 and abs(longitude) <= 180:  # both are false for NaN
            return {"latitude": latitude, "longitude": longitude}
    return None


def _degrees(gps: Any, reference: int, negative: str) -> float:
    degrees, minutes, seconds = (float(part) for part in gps[reference + 1])
    value = degrees + minutes / 60 + seconds / 3600
    return round(-value if gps.get(reference) == negative else value, 6)


def _colours(picture: Image.Image) -> list[dict[str, Any]]:
    """Return the dominant colours, the most frequent first."""
    small = picture.resize((64, 64)).quantize(_COLOURS)
    counted = sorted(small.getcolors() or [], reverse=True)
    palette = small.getpalette() or []
    codes: dict[str, str] = {}
    shares: dict[str, float] = {}
    for count, index in counted:
        assert isinstance(index, int)
        red, green, blue = palette[3 * index : 3 * index + 3]
        code = f"#{red:02x}{green:02x}{blue:02x}"
        name = colour_name(code)
        codes.setdefault(name, code)  # of colours with one name, the most frequent
        shares[name] = shares.get(name, 0.0) + count / 4096
    return [
        {"name": name, "hex": codes[name], "share": round(share, 3)}
        for name, share in sorted(shares.items(), key=lambda item: -item[1])
        if share >= 0.01
    ]


def colour_name(code: str) -> str:
    """Return a plain name of a colour: `dark blue`, `light grey`."""
    red, green, blue = (int(code[at : at + 2], 16) / 255 for at in (1, 3, 5))
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    if light < 0.08:
        return "black"
    if light > 0.95:
        return "white"
    shade = "dark " if light < 0.3 else "light " if light > 0.75 else ""
    if saturation < 0.12 or max(red, green, blue) - min(red, green, blue) < 0.06:
        return f"{shade}grey"
    name = next(name for end, name in _HUES if hue * 360 < end)
    if name == "orange" and light < 0.4:
        return "dark brown" if light < 0.2 else "brown"
    return f"{shade}{name}"


# Audio


def decode_audio(request: Request, data: bytes) -> tuple[Reply, bytes]:
    """Return facts, and the samples: 16 kHz, mono, 16 bits, at most `max_seconds`."""
    import av
    from av.error import FFmpegError

    most = int(float(request["max_seconds"]) * RATE) * 2
    samples = bytearray()
    damaged = False
    try:
        options = {"codec_whitelist": ",".join(_CODECS), "protocol_whitelist": "file"}
        container = _CONTAINERS[request["mime_type"]]
        with av.open(BytesIO(data), "r", format=container, options=options, metadata_errors="replace") as opened:
            stream = next(iter(opened.streams.audio), None)
            if stream is None:
                raise Unreadable("it contains no audio")
            context = stream.codec_context
            _check_audio(context.name, context.sample_rate, context.channels)
            facts: Reply = {
                "codec": context.name,
                "sample_rate": context.sample_rate,
                "channels": context.channels,
            }
            resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
            try:
                for frame in opened.decode(stream):
                    _check_audio(context.name, frame.sample_rate, len(frame.layout.channels))
                    for made in resampler.resample(frame):
                        samples += bytes(made.planes[0])[: 2 * made.samples]
                    if len(samples) > most:
                        break
            except FFmpegError:
                damaged = True
    except (FFmpegError, ValueError, OSError):
        raise Unreadable("it is damaged") from None
    if not samples:
        raise Unreadable("it is damaged" if damaged else "it contains no audio")
    cut = len(samples) > most
    del samples[most:]
    return {**facts, "seconds": len(samples) / 2 / RATE, "cut": cut, "damaged": damaged}, bytes(samples)


def _check_audio(codec: str, rate: int, channels: int) -> None:
    if codec not in _CODECS:
        raise Unreadable(f"its codec {codec} is not supported")
    if rate not in _RATES or not 0 < channels <= _MAX_CHANNELS:
        raise Unreadable(f"it claims {rate:,} samples per second on {channels} channels")


def _image_decoders() -> tuple[ModuleType, ...]:
    """Import what Pillow imports only when a file needs it; TIFF is the format of EXIF, and MPO a kind of JPEG."""
    from PIL import GifImagePlugin as Gif
    from PIL import Image, ImageOps
    from PIL import JpegImagePlugin as Jpeg
    from PIL import MpoImagePlugin as Mpo
    from PIL import PngImagePlugin as Png
    from PIL import TiffImagePlugin as Tiff
    from PIL import WebPImagePlugin as WebP

    Image.preinit()
    return Gif, Jpeg, Mpo, Png, Tiff, WebP, ImageOps


def _audio_decoders() -> tuple[ModuleType, ...]:
    import av
    from av.subtitles import stream as opened_for_every_file

    return av, opened_for_every_file


def _decode_alone(request: Request, data: bytes) -> tuple[Reply, bytes]:
    """Load the decoders while files can be opened, and give them the stranger's file when none can."""
    is_image = request["do"] == "image"
    _image_decoders() if is_image else _audio_decoders()
    confine(reads=False)
    return decode_image(request, data) if is_image else decode_audio(request, data)


def main() -> None:
    pipe = Pipe()
    limit_resources(MEMORY, threads=False)
    allow_cpu_time(_CPU_SECONDS)
    found = pipe.read_request()
    if found is not None:
        pipe.answer(_decode_alone, *found)


if __name__ == "__main__":
    main()
