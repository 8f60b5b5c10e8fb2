"""Every wire format passes the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from holdfast.models.port import Model
from tests.models.conformance import ModelConformance
from tests.models.exchanges import TOOLS
from tests.models.servers import chat
from tests.models.servers.apis import ANTHROPIC, CHAT, GOOGLE, OPENAI, VERTEX, Api
from tests.models.servers.http import Answer, serving
from tests.models.servers.script import Say, Script, Think, Use

SCRIPT = Script(
    (
        Think("I should look at both files.", "c2lnbmF0dXJl"),
        Say("Let me look — ü 🙂."),
        Use("call_a", "file--read", '{"path": "a.txt"}'),
        Use("call_b", "shell--run", '{"command": "ls -l"}'),
    )
)


@asynccontextmanager
async def _opened(api: Api) -> AsyncGenerator[Model]:
    async with serving(Answer(api.events(SCRIPT))) as server:
        yield api.open(server)


class _Wire(ModelConformance):
    tools = TOOLS
    api: Api = ANTHROPIC

    def opened(self) -> AbstractAsyncContextManager[Model]:
        return _opened(self.api)


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


class TestVllm(_Wire):
    api = Api("openai-chat", "vllm", "local-model", partial(chat.events, style="vllm"), chat.check, "/v1")


class TestLlamacpp(_Wire):
    api = Api("openai-chat", "llamacpp", "local-model", partial(chat.events, style="llamacpp"), chat.check, "/v1")


class TestOllama(_Wire):
    api = Api("openai-chat", "ollama", "local-model", partial(chat.events, style="ollama"), chat.check, "/v1")
