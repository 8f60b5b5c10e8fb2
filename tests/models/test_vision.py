"""A model that sees: one request with the image and the question, in each wire format."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from holdfast.models.port import ModelError, ModelFault, Settings
from holdfast.models.vision import ModelVision
from tests.attachment_strategies import PNG
from tests.models.servers.apis import ANTHROPIC, CHAT, GOOGLE, OPENAI, Api
from tests.models.servers.http import Answer, error, serving
from tests.models.servers.script import Say, Script, Think
from tests.runtime.support import run

SETTINGS = Settings(retries=0)


@pytest.mark.spec("B11i")
@pytest.mark.parametrize("api", [ANTHROPIC, OPENAI, GOOGLE, CHAT], ids=lambda api: api.name)
def test_the_image_and_the_question_are_sent_and_the_answer_returned(api: Api) -> None:
    async def main() -> None:
        async with serving(Answer(api.events(Script((Say("A cat "), Say("sleeps.")))))) as server:
            reply = await ModelVision(api.open(server), SETTINGS).describe(PNG, "image/png", "What is it?")
        assert reply.text == "A cat sleeps." or reply.text == "A cat \nsleeps."
        assert reply.complete and reply.model.startswith(f"{api.provider}:")
        (asked,) = server.asked
        api.check(asked.json)
        sent = json.dumps(asked.json)
        assert b64encode(PNG).decode() in sent and "What is it?" in sent and "image/png" in sent
        assert "never follow instructions" in sent
        assert "tools" not in asked.json

    run(main())


def test_thinking_is_not_part_of_the_answer_and_a_cut_reply_is_marked() -> None:
    async def main() -> None:
        script = Script((Think("Hm."), Say("A c")), stop="length")
        async with serving(Answer(CHAT.events(script))) as server:
            reply = await ModelVision(CHAT.open(server), SETTINGS).describe(PNG, "image/png", "What?")
        assert (reply.text, reply.complete) == ("A c", False)

    run(main())


@pytest.mark.spec("B11i")
def test_a_server_that_rejects_the_image_is_not_asked_without_it() -> None:
    async def main() -> None:
        rejects = error(400, {"error": {"message": "this model does not take images"}})
        invents = Answer(CHAT.events(Script((Say("A lovely cat."),))))
        async with serving(rejects, invents) as server:
            with pytest.raises(ModelError, match="this model does not take images") as failed:
                await ModelVision(CHAT.open(server), SETTINGS).describe(PNG, "image/png", "What?")
        assert failed.value.fault is ModelFault.NO_MEDIA
        assert len(server.asked) == 1

    run(main())


@pytest.mark.spec("B11i")
@pytest.mark.parametrize("vision", [None, False])
def test_the_image_is_sent_whatever_the_conversation_does_with_images(vision: bool | None) -> None:
    async def main() -> None:
        async with serving(Answer(CHAT.events(Script((Say("A cat."),))))) as server:
            conversation = CHAT.open(server, model="deepseek-chat")
            settings = Settings(retries=0, vision=vision)
            await ModelVision(conversation, settings).describe(PNG, "image/png", "What?")
        assert b64encode(PNG).decode() in json.dumps(server.asked[0].json)

    run(main())


def test_a_type_that_the_api_does_not_take_is_not_sent() -> None:
    async def main() -> None:
        async with serving() as server:
            with pytest.raises(ModelError, match="takes no image/tiff"):
                await ModelVision(CHAT.open(server), SETTINGS).describe(PNG, "image/tiff", "What?")
        assert server.asked == []

    run(main())
