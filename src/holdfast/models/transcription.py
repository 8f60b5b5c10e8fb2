"""`ProviderTranscription`: speech to text by a server that speaks OpenAI's `POST /audio/transcriptions`."""

from __future__ import annotations

import re
from math import isfinite
from secrets import token_hex
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.contract.media import Segment, Transcript
from holdfast.models.port import ModelError, ModelFault
from holdfast.models.providers import Endpoint
from holdfast.net.client import HttpClient, HttpRequest, HttpResponse, Limits
from holdfast.net.network import Network
from holdfast.net.urls import HttpUrl, parse_url

APIS: Final = frozenset({"openai", "openai-chat"})
"""The APIs whose servers may offer it."""
_MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_SEGMENTS: Final = 10_000
_MAX_CHARS: Final = 1_000_000
_MAX_DETAIL: Final = 300
_PLAIN_ONLY: Final = re.compile(r"gpt-")
"""Models of OpenAI that return text without times; every other server gets the format of Whisper."""
_NAMES: Final = {
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
    "audio/webm": "webm",
    "video/webm": "webm",
}


class _Segment(Struct, kw_only=True):
    start: float = 0.0
    end: float = 0.0
    text: str = ""


class _Reply(Struct, kw_only=True):
    text: str
    language: str | None = None
    duration: float | None = None
    segments: list[_Segment] | None = None


class _ErrorBody(Struct, kw_only=True):
    message: str = ""


class _Error(Struct, kw_only=True):
    error: _ErrorBody | str = ""
    message: str = ""


class ProviderTranscription:
    """Implements `contract.media.Transcriber`. A request is sent once: a recording is long, and a retry costs again."""

    def __init__(self, endpoint: Endpoint, network: Network, *, user_agent: str) -> None:
        self._endpoint = endpoint
        self._network = network
        self._user_agent = user_agent

    async def transcribe(
        self, audio: bytes, mime_type: str, *, language: str | None, seconds: float, by: str
    ) -> Transcript:
        """Raises `ModelError`, `RequestFailed` or `NetworkRefused`."""
        endpoint = self._endpoint
        plain = _PLAIN_ONLY.match(endpoint.model) is not None
        fields = {"model": endpoint.model, "response_format": "json" if plain else "verbose_json"}
        if language is not None:
            fields["language"] = language
        kind, body = multipart(fields, f"audio.{_NAMES[mime_type]}", mime_type, audio)
        headers = [("Content-Type", kind), ("Accept", "application/json")]
        if endpoint.key is not None:
            headers.append(("Authorization", f"Bearer {endpoint.key}"))
        url = parse_url(f"{endpoint.base_url}/audio/transcriptions")
        request = HttpRequest(url=url, method="POST", headers=tuple(headers), body=body)
        gateway = self._network.gateway_to_origin(by, endpoint.base_url)
        async with HttpClient(gateway, user_agent=self._user_agent) as client:
            limits = Limits(seconds=seconds, idle=seconds, max_bytes=_MAX_BYTES)
            response = await client.request(request, limits, may_follow=self._refuse_redirect)
        if response.status != 200:
            raise self._failure(response)
        return self._transcript(response)

    def _refuse_redirect(self, source: HttpUrl, following: HttpRequest) -> str:
        return f"{self._endpoint.provider} redirected the request, which was not followed. Set its final `base_url`."

    def _transcript(self, response: HttpResponse) -> Transcript:
        try:
            reply = msgspec.json.decode(response.body, type=_Reply, strict=False)
        except (ValueError, RecursionError):
            raise ModelError(
                ModelFault.PROTOCOL,
                f"{self._endpoint.provider} sent an answer that is no transcription; check that "
                f"{self._endpoint.base_url} offers audio/transcriptions.",
            ) from None
        segments = tuple(
            Segment(start=round(part.start, 2), end=round(part.end, 2), text=part.text.strip()[:_MAX_CHARS])
            for part in (reply.segments or [])[:_MAX_SEGMENTS]
            if _is_time(part.start) and _is_time(part.end)
        )
        seconds = reply.duration if reply.duration is not None and _is_time(reply.duration) else None
        language = reply.language[:40] if reply.language else None
        return Transcript(text=reply.text.strip()[:_MAX_CHARS], language=language, seconds=seconds, segments=segments)

    def _failure(self, response: HttpResponse) -> ModelError:
        endpoint, status = self._endpoint, response.status
        name, shown = endpoint.provider, f" ({status})"
        if status in (401, 403):
            check = f"check {endpoint.key_from}" if endpoint.key_from else "it needs a key: set `api_key`"
            return ModelError(ModelFault.AUTH, f"{name} did not accept the key{shown}; {check}.")
        if status == 404:
            message = f"{name} has no transcription or no model '{endpoint.model}' at {endpoint.base_url}{shown}"
            return ModelError(ModelFault.BAD_REQUEST, f"{message}; check media.transcription_model.")
        if status == 413:
            return ModelError(ModelFault.BAD_REQUEST, f"The recording is too large for {name}{shown}; shorten it.")
        if status == 429:
            return ModelError(ModelFault.RATE_LIMIT, f"{name} is rate-limiting requests{shown}; try again later.")
        if status >= 500:
            return ModelError(ModelFault.OVERLOADED, f"{name} is overloaded or unavailable{shown}; try again later.")
        detail = self._detail(response.body)
        return ModelError(ModelFault.BAD_REQUEST, f"{name} rejected the recording{shown}{detail}.")

    def _detail(self, body: bytes) -> str:
        """Return the server's reason on one line, without the key."""
        try:
            found = msgspec.json.decode(body, type=_Error, strict=False)
        except (ValueError, RecursionError):
            return ""
        said = found.error if isinstance(found.error, str) else found.error.message
        said = self._endpoint.redact_key(said or found.message)
        said = " ".join("".join(char if char.isprintable() else " " for char in said).split()).rstrip(".")
        return f": {said[:_MAX_DETAIL]}" if said else ""


def multipart(fields: dict[str, str], name: str, mime_type: str, data: bytes) -> tuple[str, bytes]:
    """Return the content type and body of a form with one file (RFC 7578). Names and values are ours or a model's
    configured name, so they need no quoting; the boundary is random, so no file can contain it."""
    boundary = f"holdfast-{token_hex(16)}"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in fields.items()
    ]
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        f"Content-Type: {mime_type}\r\n\r\n"
    )
    return f"multipart/form-data; boundary={boundary}", "".join(
        parts
    ).encode() + data + f"\r\n--{boundary}--\r\n".encode()


def _is_time(value: float) -> bool:
    return isfinite(value) and 0 <= value < 1e7
