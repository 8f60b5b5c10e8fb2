"""The text protocol passes the conformance suite over any inner model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from holdfast.models.port import Model
from holdfast.models.text_protocol.text_model import TextModel
from tests.models.conformance import ModelConformance
from tests.models.servers import chat
from tests.models.servers.apis import ANTHROPIC, CHAT, GOOGLE, OPENAI, VERTEX, Api
from tests.models.servers.http import Answer, serving
from tests.models.servers.script import Say, Script, Think
from tests.models.text_protocol.scripted_model import TOOLS, Scripted, written

REPLY = """Let me look — ü 🙂.
[read_file: a.txt]
[search_code: main]
[write_file]
path: b.txt
---content---
[read_file: not/a/call]
[/write_file]
[call: shell.exec]{"command": "ls [a]"}[/call]
That is all."""
ANSWER = "There is nothing to do [really]. ```\n[read_file: not/a/call]\n```\n"


@asynccontextmanager
async def _scripted(reply: str) -> AsyncGenerator[Model]:
    yield TextModel(Scripted([written(reply)]))


@asynccontextmanager
async def _served(api: Api) -> AsyncGenerator[Model]:
    script = Script((Think("I should look.", "c2lnbmF0dXJl"), Say(REPLY)))
    async with serving(Answer(api.events(script))) as server:
        yield TextModel(api.open(server))


class TestCalling(ModelConformance):
    tools = TOOLS

    def opened(self) -> AbstractAsyncContextManager[Model]:
        return _scripted(REPLY)


class TestAnswering(TestCalling):
    def opened(self) -> AbstractAsyncContextManager[Model]:
        return _scripted(ANSWER)


class TestWithoutTools(TestCalling):
    tools = ()


class _Wire(ModelConformance):
    tools = TOOLS
    api: Api = ANTHROPIC

    def opened(self) -> AbstractAsyncContextManager[Model]:
        return _served(self.api)


class TestAnthropic(_Wire):
    api = ANTHROPIC


class TestOpenai(_Wire):
    api = OPENAI


class TestGoogle(_Wire):
    api = GOOGLE


class TestVertex(_Wire):
    api = VERTEX


class TestChat(_Wire):
    api = CHAT


class TestLlamacpp(_Wire):
    api = Api("openai-chat", "llamacpp", "local-model", partial(chat.events, style="llamacpp"), chat.check, "/v1")
