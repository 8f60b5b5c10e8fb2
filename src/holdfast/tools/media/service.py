"""`MediaService`: what the media tools of one runtime share: limits, decoders and recognition processes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.tools.media.decoder_process import RATE
from holdfast.tools.media.replies import MAX_SIDE, AudioFacts, ImageFacts, SpeechFound, TextFound, checked
from holdfast.tools.media.workers import Recognition, decode
from holdfast.tools.worker_process import DAMAGED_REPLY, OnProgress, WorkerFailed

_IMAGE_SECONDS: Final = 30.0
_AUDIO_SECONDS: Final = 120.0
_MAX_ENCODED: Final = 3 * MAX_SIDE * MAX_SIDE + 65_536


class MediaSettings(Struct, frozen=True, kw_only=True):
    """The limits of the section `[media]` of the configuration."""

    max_bytes: int = 25 * 1024 * 1024
    max_pixels: int = 50_000_000
    max_seconds: float = 1800.0
    whisper_model: Path | None = None


class MediaService:
    """Made once per runtime. `close` ends its processes."""

    def __init__(self, settings: MediaSettings | None = None) -> None:
        self.settings = settings or MediaSettings()
        self.reader = Recognition("text")
        self.listener = Recognition("speech", self.settings.whisper_model)

    def close(self) -> None:
        self.reader.close()
        self.listener.close()

    async def pixels(self, data: bytes, mime_type: str, *, location: bool) -> tuple[ImageFacts, bytes]:
        """Return facts about an image, and its pixels as rows of RGB. Raises `WorkerFailed`."""
        return await self._image(data, mime_type, "pixels", location=location)

    async def picture(self, data: bytes, mime_type: str, *, location: bool) -> tuple[ImageFacts, bytes]:
        """Return facts about an image, and a new file that contains the picture and nothing else."""
        return await self._image(data, mime_type, "file", location=location)

    async def _image(self, data: bytes, mime_type: str, want: str, *, location: bool) -> tuple[ImageFacts, bytes]:
        request = {
            "do": "image",
            "mime_type": mime_type,
            "want": want,
            "max_pixels": self.settings.max_pixels,
            "max_side": MAX_SIDE,
            "location": location,
        }
        answer, body = await decode(request, data, max_reply=_MAX_ENCODED, seconds=_IMAGE_SECONDS)
        facts = checked(answer, ImageFacts)
        if want == "pixels" and len(body) != 3 * facts["sent_width"] * facts["sent_height"]:
            raise WorkerFailed(DAMAGED_REPLY)
        return facts, body

    async def samples(self, data: bytes, mime_type: str) -> tuple[AudioFacts, bytes]:
        """Return facts about a recording, and its samples. Raises `WorkerFailed`."""
        request = {"do": "audio", "mime_type": mime_type, "max_seconds": self.settings.max_seconds}
        most = int(self.settings.max_seconds * RATE) * 2
        answer, samples = await decode(request, data, max_reply=most, seconds=_AUDIO_SECONDS)
        return checked(answer, AudioFacts), samples

    async def read_text(
        self, pixels: bytes, width: int, height: int, *, seconds: float, on_progress: OnProgress
    ) -> TextFound:
        """Return the lines of text in a picture."""
        request = {"width": width, "height": height}
        answer = await self.reader.ask(request, pixels, seconds=seconds, on_progress=on_progress)
        return checked(answer, TextFound)

    async def listen(
        self, samples: bytes, language: str | None, *, seconds: float, on_progress: OnProgress
    ) -> SpeechFound:
        """Return the segments of speech in a recording."""
        request = {"language": language}
        answer = await self.listener.ask(request, samples, seconds=seconds, on_progress=on_progress)
        return checked(answer, SpeechFound)
