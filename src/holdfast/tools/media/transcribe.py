"""`audio.transcribe`: speech as text, by a provider's service or with a Whisper model on this machine."""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec import to_builtins

from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args, Json
from holdfast.contract.media import Segment, Transcriber, Transcript
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.text.escape import escape
from holdfast.text.truncate import format_size
from holdfast.tools.media.content import PATH, Media, clean, file_preview, quoted_block, read_media, touched
from holdfast.tools.media.file_types import AUDIO, name_of
from holdfast.tools.media.provider import RemoteEngine, with_provider
from holdfast.tools.media.service import MediaService
from holdfast.tools.schemas import (
    INTEGER,
    LABEL,
    STRING,
    STRING_OR_NULL,
    array,
    builtin_tool,
    needs_extra,
    nullable,
    strict_object,
)
from holdfast.tools.worker_process import WorkerFailed

DEFAULT_SECONDS: Final = 600.0
_MAX_TEXT: Final = 1_000_000
_MARGIN: Final = 0.05
_ACCEPTED: Final = (*AUDIO, "video/webm")
NO_MODEL: Final = (
    "it needs a model. Set media.transcription_model to one of a provider, such as openai:whisper-1, or "
    "media.whisper_model to the folder of a Whisper model for faster-whisper."
)
_needs_packages: Final = needs_extra("speech", "faster_whisper")


def _seconds(ctx: Context) -> float:
    """The time for the work, less than the call's, so that the tool can say what happened."""
    return (ctx.timeout or DEFAULT_SECONDS) * (1 - _MARGIN)


async def _transcribe_here(args: Args, ctx: Context) -> Result:
    service = ctx.service(MediaService)
    media = await read_media(args, ctx, service.settings.max_bytes, _ACCEPTED)
    facts, samples = await service.samples(media.data, media.mime_type)
    notes = [*media.notes]
    if facts["cut"]:
        notes.append(f"Only the first {facts['seconds']:g} seconds were transcribed (media.max_seconds).")
    if facts["damaged"]:
        notes.append(f"The file is damaged or cut off; {facts['seconds']:.1f} seconds of it could be decoded.")

    def progress(share: float | None) -> None:
        if share is None:
            ctx.progress("loading the speech model…")
        else:
            ctx.progress("transcribing…", share * facts["seconds"], facts["seconds"])

    language = cast("str | None", args.get("language"))
    found = await service.listen(samples, language, seconds=_seconds(ctx), on_progress=progress)
    segments = tuple(Segment(start=part["start"], end=part["end"], text=part["text"]) for part in found["segments"])
    text = " ".join(part.text for part in segments)
    transcript = Transcript(text=text, language=found["language"], seconds=facts["seconds"], segments=segments)
    return _result("local", None, transcript, media, notes)


async def _transcribe_there(args: Args, ctx: Context, media: Media, engine: RemoteEngine) -> Result:
    ctx.progress(f"waiting for {engine.name}…")
    transcript = await ctx.service(Transcriber).transcribe(
        media.data,
        media.mime_type,
        language=cast("str | None", args.get("language")),
        seconds=_seconds(ctx),
        by=f"audio.transcribe {ctx.call_id}",
    )
    return _result("provider", engine.name, transcript, media, [*media.notes])


def _result(engine: str, model: str | None, transcript: Transcript, media: Media, notes: list[str]) -> Result:
    output: dict[str, Any] = {
        "engine": engine,
        "model": model,
        "text": clean(transcript.text, _MAX_TEXT),
        "language": transcript.language,
        "seconds": None if transcript.seconds is None else round(transcript.seconds, 2),
        "segments": to_builtins(transcript.segments),
        "mime_type": media.mime_type,
        "bytes": len(media.data),
        "notes": notes,
    }
    return ok(_text(output), structured=cast(Json, output))


def _text(output: dict[str, Any]) -> str:
    """Render the output. What was said is behind a gutter."""
    long = "" if output["seconds"] is None else f", {output['seconds']:.1f} seconds"
    language = f", language {escape(output['language'])}" if output["language"] else ""
    by = f"by {output['model']}" if output["model"] else "on this machine"
    lines = [f"{name_of(output['mime_type'])} audio{long}, {format_size(output['bytes'])}{language}; transcribed {by}:"]
    segments = cast("list[dict[str, Any]]", output["segments"])
    if segments:
        said = "\n".join(f"[{_clock(part['start'])}] {part['text']}" for part in segments)
        lines.append(quoted_block(said))
    elif output["text"]:
        lines.append(quoted_block(output["text"]))
    else:
        lines.append("No speech was found in it.")
    return "\n".join([*lines, *(f"[{note}]" for note in output["notes"])])


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{seconds % 60:04.1f}"


async def _execute(args: Args, ctx: Context) -> Result:
    if ctx.service(MediaService).settings.whisper_model is None:
        return fail(f"audio.transcribe cannot be used here: {NO_MODEL}")
    try:
        return await _transcribe_here(args, ctx)
    except WorkerFailed as error:
        return fail(f"The recording cannot be transcribed: {error}.")
    except HoldfastError as error:
        return fail(str(error))


AUDIO_TRANSCRIBE: Final = builtin_tool(
    name="audio.transcribe",
    description="Transcribe audio to text",
    input_schema=strict_object(
        data=nullable("string", "Base64-encoded data"),
        mimeType=nullable("string", "MIME type of the recording.", enum=[*AUDIO, None]),
        path=PATH,
        language=nullable("string", "The language as a code such as en or de, if it is known.", pattern="^[a-z]{2,3}$"),
        label=LABEL,
    ),
    output_schema=strict_object(
        engine={"enum": ["provider", "local"]},
        model=STRING_OR_NULL,
        text=STRING,
        language=STRING_OR_NULL,
        seconds={"type": ["number", "null"]},
        segments=array(strict_object(start={"type": "number"}, end={"type": "number"}, text=STRING)),
        mime_type=STRING,
        bytes=INTEGER,
        notes=array(STRING),
    ),
    execute=_execute,
    timeout=DEFAULT_SECONDS,
    risk=Risk.LOW,
    effects=frozenset({"fs.read"}),
    touches=touched,
    sources=("media",),
    format_preview=file_preview,
    groups=("media",),
    presets=("$readonly",),
    unavailable=lambda: _needs_packages() or NO_MODEL,
)


def with_whisper() -> Tool:
    """Return `audio.transcribe` for the configured folder of a model."""
    return AUDIO_TRANSCRIBE.with_(unavailable=_needs_packages)


def configured_transcription(engine: RemoteEngine) -> Tool:
    """Return `audio.transcribe` for a provider: it reaches the provider's host, so approval is per host."""

    async def send(args: Args, ctx: Context, media: Media) -> Result:
        return await _transcribe_there(args, ctx, media, engine)

    return with_provider(AUDIO_TRANSCRIBE, engine, _ACCEPTED, send).with_(unavailable=needs_extra("models", "httpx2"))
