"""Models that cannot see get descriptions: by name, by configuration, or because their server says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from holdfast.config.config import ModelConfig, ModelProvider
from holdfast.contract.message import Message, Text, ToolResult
from holdfast.contract.result import Attachment
from holdfast.models.attachments import can_see, describe_unsent, missing_reason
from holdfast.models.from_config import settings_for
from holdfast.models.port import ModelEvent, ModelFault, ReplyEnded, Retrying, Settings
from holdfast.models.text_protocol.prompt import to_plain_text
from tests.attachment_strategies import PNG, attachments
from tests.models.exchanges import HELLO, TOOLS, body, call, fault, hear, run
from tests.models.servers.apis import ANTHROPIC, APIS, CHAT, Api
from tests.models.servers.http import Answer, Server, error, serving
from tests.models.servers.script import Say, Script
from tests.soak import rounds

EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
SHOT = Attachment(kind="image", mime_type="image/png", data=PNG, name="shot.png", path="/p/a.chat.files/1-shot.png")
SEEN = (*HELLO, call("a"), Message("user", (ToolResult("a", "file.read", "Seen.", attachments=(SHOT,)), Text("well?"))))
DESCRIBED = (
    f'[image "shot.png" (image/png, 2 × 3 pixels, {len(PNG)}B) is attached, but this model cannot take it. '
    "Its file is /p/a.chat.files/1-shot.png.]"
)
REFUSALS = (
    (400, "Invalid content type. image_url is only supported by certain models."),
    (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
    (400, "At most 0 image(s) may be provided in one request."),
    (404, "No endpoints found that support image input"),
    (422, "messages.2.content: Input should be a valid string, content must be a string"),
    (400, "unknown variant `image_url`, expected `text`"),
    (400, "this model does not support image input"),
    (400, "gemma-2-9b-it is not a multimodal model"),
)
ONE_BAD_IMAGE = (
    "Could not process image",
    "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
    "The image data you provided does not represent a valid image. Please check your input and try again.",
    "You uploaded an unsupported image. Please make sure your image is below 20 MB in size.",
    "This model does not support images larger than 8000 pixels.",
)


def asked(api: Api, *answers: Answer, given: Settings | None = None, times: int = 1) -> tuple[Server, list[ModelEvent]]:
    async def ask() -> tuple[Server, list[ModelEvent]]:
        async with serving(*answers) as server:
            model = api.open(server)
            events = [event for _ in range(times) for event in await hear(model, SEEN, TOOLS, given)]
            return server, events

    return run(ask())


def is_shown(request: dict[str, Any]) -> bool:
    return "iVBOR" in json.dumps(request) and "is attached" not in json.dumps(request)


@pytest.mark.parametrize(
    ("model", "sees"),
    [
        *(
            (name, True)
            for name in ("gpt-5", "gpt-4o", "gpt-4-turbo", "claude-opus-4-5", "gemini-2.5-pro", "gemma3:4b")
        ),
        *((name, True) for name in ("llava:7b", "llama3.2-vision", "qwen2.5-vl", "my-model", "Phi-4-multimodal")),
        *(
            (name, False)
            for name in ("gpt-3.5-turbo", "deepseek-r1:8b", "llama3.1:8b", "hf.co/x/Llama-3.3-70B", "phi4")
        ),
    ],
)
@pytest.mark.spec("T10j")
def test_models_that_read_only_text_are_known_by_name(model: str, sees: bool) -> None:
    assert can_see(model) is sees


@EACH
@pytest.mark.spec("T10j")
def test_a_model_without_vision_gets_a_description_and_the_path_of_the_file(api: Api) -> None:
    made = json.dumps(body(api, SEEN, settings=Settings(vision=False)), ensure_ascii=False)
    assert json.dumps(DESCRIBED, ensure_ascii=False)[1:-1] in made and "iVBOR" not in made
    assert is_shown(body(api, SEEN))


@pytest.mark.parametrize(
    ("item", "reader"),
    [
        (SHOT, "image.analyze"),
        (Attachment(kind="audio", mime_type="audio/wav", data=b"RIFF", path="/p/a.wav"), "audio.transcribe"),
        (Attachment(kind="file", mime_type="text/plain", data=b"words", path="/p/a.txt"), "file.read"),
        (Attachment(kind="file", mime_type="application/zip", data=b"PK", path="/p/a.zip"), None),
    ],
)
@pytest.mark.spec("T10j")
def test_a_description_names_a_tool_only_if_it_is_offered_and_takes_the_file(
    item: Attachment, reader: str | None
) -> None:
    every = {name: name.replace(".", "_") for name in ("file.read", "image.analyze", "audio.transcribe")}
    hint = f": {reader.replace('.', '_')} takes that path.]" if reader else f"Its file is {item.path}.]"
    assert describe_unsent(item, "blind", every).endswith(hint)
    others = {name: shown for name, shown in every.items() if name != reader}
    assert describe_unsent(item, "blind", others).endswith(f"Its file is {item.path}.]")


@pytest.mark.spec("T10j")
def test_the_configuration_decides_about_vision_for_a_provider_or_all() -> None:
    def vision(**fields: Any) -> bool | None:
        return settings_for(ModelConfig(name="ollama:x", **fields), "ollama").vision

    assert vision() is None
    assert vision(vision=False) is False
    assert vision(vision=False, providers={"ollama": ModelProvider(vision=True)}) is True
    assert vision(vision=True, providers={"ollama": ModelProvider(vision="auto")}) is None
    assert is_shown(body(CHAT, SEEN, settings=Settings(vision=True), model="llama3.1"))
    assert not is_shown(body(CHAT, SEEN, model="llama3.1"))


@pytest.mark.parametrize(("status", "words"), REFUSALS)
@pytest.mark.spec("T10k")
def test_a_server_that_rejects_images_is_asked_once_more_with_descriptions(status: int, words: str) -> None:
    good = Answer(CHAT.events(Script((Say("Fine."),))))
    server, events = asked(CHAT, error(status, {"error": {"message": words}}), good, good, times=2)
    assert [is_shown(request.json) for request in server.asked] == [True, False, False]
    [again] = [event for event in events if isinstance(event, Retrying)]
    assert again.delay == 0 and again.reason.startswith("ollama:local-model did not take the attached files")
    assert isinstance(events[-1], ReplyEnded)


@pytest.mark.parametrize("words", ONE_BAD_IMAGE)
@pytest.mark.spec("T10k")
def test_one_image_that_a_server_rejects_does_not_blind_the_model_to_others(words: str) -> None:
    good = Answer(CHAT.events(Script((Say("Fine."),))))
    server, _ = asked(CHAT, error(400, {"error": {"message": words}}), good, good, times=2)
    assert [is_shown(request.json) for request in server.asked] == [True, False, True]


@pytest.mark.spec("T10k")
def test_a_model_that_is_configured_to_see_gets_the_images_of_every_request() -> None:
    good = Answer(CHAT.events(Script((Say("Fine."),))))
    status, words = REFUSALS[0]
    refused = error(status, {"error": {"message": words}})
    server, _ = asked(CHAT, refused, good, good, given=Settings(vision=True), times=2)
    assert [is_shown(request.json) for request in server.asked] == [True, False, True]


@pytest.mark.spec("T10k")
def test_an_error_about_something_else_is_not_blamed_on_images() -> None:
    told = {"error": {"message": "image_url is not supported"}}
    assert fault(CHAT, error(400, told))[0].fault is ModelFault.BAD_REQUEST
    other = error(400, {"error": {"message": "temperature is too high"}})
    with pytest.raises(Exception, match="temperature"):
        asked(CHAT, other)


@EACH
@pytest.mark.spec("T10j")
def test_an_attachment_for_the_person_is_only_described(api: Api) -> None:
    text = Attachment(kind="file", mime_type="text/plain", data=b"for human eyes", name="r.txt", audience="person")
    seen = Message("user", (ToolResult("a", "file.read", "ok", attachments=(text,)), Text("well?")))
    made = json.dumps(body(api, [*HELLO, call("a"), seen]))
    assert "human eyes" not in made
    assert json.dumps('[file "r.txt" (text/plain, 14B) was shown to the user, and is not sent to you.]')[1:-1] in made


@pytest.mark.spec("T10j")
def test_the_text_protocol_sends_text_files_only_if_they_are_for_the_model() -> None:
    text = Attachment(kind="file", mime_type="text/plain", data=b"for all", name="a.txt")
    person = Attachment(kind="file", mime_type="text/plain", data=b"for human eyes", name="b.txt", audience="person")
    seen = Message("user", (ToolResult("a", "file.read", "ok", attachments=(text, person, SHOT)),))
    [*_, last] = to_plain_text([*HELLO, call("a"), seen], TOOLS)
    assert "for all" in last.text and "human eyes" not in last.text
    assert [part for part in last.parts if isinstance(part, Attachment)] == [person, SHOT]


@pytest.mark.spec("T10j")
def test_a_long_text_is_cut_and_content_that_is_gone_is_described() -> None:
    long = Attachment(kind="file", mime_type="text/plain", data=b"x" * 300_000, name="l.txt")
    gone = SHOT.without_data()
    made = json.dumps(body(ANTHROPIC, [Message("user", (Text("Look:"), long, gone))]))
    assert "[The first 256.0KB of 293.0KB are shown.]" in made and len(made) < 270_000
    assert "was attached, but its content is no longer available.]" in made


@given(attachments())
@settings(max_examples=rounds(50, 2000))
@pytest.mark.spec("T10j")
def test_no_name_ends_the_description_early(item: Attachment) -> None:
    line = describe_unsent(item, missing_reason(item) or "blind", {})
    assert line.startswith("[") and line.endswith("]")
    assert not any(char in line[1:-1] for char in "[]<>\n")
