"""`image.analyze`: what an image shows, by a configured model that sees, or as facts and text read on this machine."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any, Final, cast

from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args, Json
from holdfast.contract.media import Vision
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.text.escape import escape
from holdfast.text.quote import GUTTER
from holdfast.text.truncate import format_size
from holdfast.tools.media.content import PATH, Media, clean, file_preview, quoted_block, read_media, touched
from holdfast.tools.media.file_types import IMAGES, MAX_FRAMES, name_of
from holdfast.tools.media.provider import RemoteEngine, with_provider
from holdfast.tools.media.replies import ImageFacts, TextLine
from holdfast.tools.media.service import MediaService
from holdfast.tools.schemas import (
    INTEGER,
    LABEL,
    STRING,
    STRING_OR_NULL,
    Schema,
    array,
    builtin_tool,
    needs_extra,
    nullable,
    strict_object,
)
from holdfast.tools.worker_process import WorkerFailed

DEFAULT_SECONDS: Final = 120.0
MAX_PROMPT: Final = 10_000
_MAX_REPLY: Final = 100_000
_MAX_TEXT: Final = 50_000
_DEFAULT_PROMPT: Final = "Describe this image: what it shows, and the text in it."
_needs_packages: Final = needs_extra("media", "PIL")
_NUMBER: Final[Schema] = {"type": "number"}


# On this machine


async def _analyze_here(args: Args, ctx: Context) -> Result:
    service = ctx.service(MediaService)
    media = await read_media(args, ctx, service.settings.max_bytes, IMAGES)
    facts, pixels = await service.pixels(media.data, media.mime_type, location=bool(args.get("location")))
    notes = _notes(args, media, facts)
    lines: list[TextLine] | None = None
    if find_spec("rapidocr") is None or find_spec("onnxruntime") is None:
        notes.append(
            "Text in the image was not read. The user can install what it needs: pip install 'holdfast[media]'"
        )
    else:
        ctx.progress("reading text…")
        found = await service.read_text(
            pixels,
            facts["sent_width"],
            facts["sent_height"],
            seconds=ctx.timeout or DEFAULT_SECONDS,
            on_progress=lambda _: ctx.progress("loading the models that read text…"),
        )
        lines = found["lines"]
        if found["left_out"]:
            notes.append(f"{found['left_out']:,} more lines of text are left out.")
    if args.get("prompt"):
        notes.append(
            "The prompt was not used: there is no model here that sees images. The user can set media.vision_model."
        )
    text = None if lines is None else clean("\n".join(line["text"] for line in lines), _MAX_TEXT)
    return _result("local", None, None, text, media, facts, notes)


# By a provider


async def _analyze_there(args: Args, ctx: Context, media: Media, engine: RemoteEngine) -> Result:
    service = ctx.service(MediaService)
    prompt = cast("str | None", args.get("prompt")) or _DEFAULT_PROMPT
    try:
        facts, picture = await service.picture(media.data, media.mime_type, location=bool(args.get("location")))
        ctx.progress(f"waiting for {engine.name}…")
        async with asyncio.timeout(ctx.timeout or DEFAULT_SECONDS):
            reply = await ctx.service(Vision).describe(picture, facts["sent_type"], prompt)
    except TimeoutError:
        return fail(f"{engine.name} did not answer in time. Try again, or the user can set media.vision_model.")
    except WorkerFailed as error:
        return fail(f"The image cannot be read: {error}.")
    except HoldfastError as error:
        return fail(f'{error} The user can set media.vision_model to another model, or to "local".')
    notes = _notes(args, media, facts)
    if not reply.complete:
        notes.append("The model stopped at its maximum length.")
    return _result("vision", reply.model or engine.name, clean(reply.text, _MAX_REPLY), None, media, facts, notes)


# The result


def _notes(args: Args, media: Media, facts: ImageFacts) -> list[str]:
    notes = [*media.notes]
    if facts["frames"] > 1:
        most = "more than " if facts["frames"] >= MAX_FRAMES else ""
        notes.append(f"It is animated, with {most}{facts['frames']:,} frames; only the first was looked at.")
    if (facts["sent_width"], facts["sent_height"]) not in (
        (facts["width"], facts["height"]),
        (facts["height"], facts["width"]),
    ):
        notes.append(f"It was reduced to {facts['sent_width']} × {facts['sent_height']} pixels first.")
    if facts["has_location"] and facts["location"] is None and args.get("location"):
        notes.append("Its GPS position is damaged.")
    elif facts["has_location"] and facts["location"] is None:
        notes.append("It contains a GPS position, which is not shown; ask with location = true.")
    return notes


def _result(
    engine: str,
    model: str | None,
    description: str | None,
    text: str | None,
    media: Media,
    facts: ImageFacts,
    notes: list[str],
) -> Result:
    output: dict[str, Any] = {
        "engine": engine,
        "model": model,
        "description": description,
        "text": text,
        "mime_type": media.mime_type,
        "bytes": len(media.data),
        "width": facts["width"],
        "height": facts["height"],
        "frames": facts["frames"],
        "colours": facts["colours"],
        "metadata": [
            {"name": clean(entry["name"], 100), "value": clean(entry["value"], 1000)} for entry in facts["metadata"]
        ],
        "location": facts["location"],
        "notes": notes,
    }
    return ok(_text(output), structured=cast(Json, output))


def _text(output: dict[str, Any]) -> str:
    """Render the output. What the image says, and what a model says about it, is behind a gutter."""
    size = f"{output['width']} × {output['height']} pixels, {format_size(output['bytes'])}"
    lines = [f"{name_of(output['mime_type'])} image, {size}"]
    if output["engine"] == "vision":
        lines += [f"{escape(output['model'])} says:", quoted_block(output["description"] or "(nothing)")]
    elif output["text"]:
        lines += ["Text in the image:", quoted_block(output["text"])]
    elif output["text"] is not None:
        lines.append("No text was found in it.")
    shown = (f"{each['name']} {each['hex']} ({each['share']:.0%})" for each in output["colours"])
    lines.append(f"Colours: {', '.join(shown)}")
    if output["metadata"]:
        entries = (f"{GUTTER}{escape(each['name'])}: {escape(each['value'])}" for each in output["metadata"])
        lines += ["Metadata:", *entries]
    if output["location"] is not None:
        lines.append(f"Position: {output['location']['latitude']}, {output['location']['longitude']}")
    return "\n".join([*lines, *(f"[{note}]" for note in output["notes"])])


async def _execute(args: Args, ctx: Context) -> Result:
    try:
        return await _analyze_here(args, ctx)
    except WorkerFailed as error:
        return fail(f"The image cannot be read: {error}.")
    except HoldfastError as error:
        return fail(str(error))


IMAGE_ANALYZE: Final = builtin_tool(
    name="image.analyze",
    description="Analyze an image and describe its contents",
    input_schema=strict_object(
        data=nullable("string", "Base64-encoded data"),
        mimeType=nullable("string", "MIME type of the image.", enum=[*IMAGES, None]),
        prompt=nullable("string", "Specific analysis request (optional)", maxLength=MAX_PROMPT),
        path=PATH,
        location=nullable("boolean", "Also return the GPS position in its metadata (default false)."),
        label=LABEL,
    ),
    output_schema=strict_object(
        engine={"enum": ["vision", "local"]},
        model=STRING_OR_NULL,
        description=STRING_OR_NULL,
        text=STRING_OR_NULL,
        mime_type=STRING,
        bytes=INTEGER,
        width=INTEGER,
        height=INTEGER,
        frames=INTEGER,
        colours=array(strict_object(name=STRING, hex=STRING, share=_NUMBER)),
        metadata=array(strict_object(name=STRING, value=STRING)),
        location={"anyOf": [strict_object(latitude=_NUMBER, longitude=_NUMBER), {"type": "null"}]},
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
    unavailable=_needs_packages,
)


def configured_analysis(engine: RemoteEngine) -> Tool:
    """Return `image.analyze` for a model that sees: it reaches the provider's host, so approval is per host."""

    async def send(args: Args, ctx: Context, media: Media) -> Result:
        return await _analyze_there(args, ctx, media, engine)

    return with_provider(IMAGE_ANALYZE, engine, IMAGES, send)
