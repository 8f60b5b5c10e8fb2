"""The choice of protocol: by configuration, by the model's name, by the server's errors, and by a probe."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.config.config import ModelConfig, ModelProvider, Protocol, SecretSource
from holdfast.contract.message import Text, ToolUse
from holdfast.models.constrained import ConstrainedModel
from holdfast.models.from_config import open_model
from holdfast.models.native import NativeModel
from holdfast.models.operator.operator import Operator
from holdfast.models.port import (
    Model,
    ModelError,
    ModelEvent,
    ModelFault,
    ProtocolChoice,
    ReplyEnded,
    Retrying,
    Settings,
    Usage,
)
from holdfast.models.protocol import (
    CallWriter,
    FallbackModel,
    ProbedModel,
    is_small,
    is_text_only,
    protocol_choice,
    select_protocol,
)
from holdfast.models.remote_model import RemoteModel
from holdfast.models.text_protocol.text_model import TextModel
from tests.models.exchanges import HELLO, end, fault, hear, parts, run
from tests.models.servers.apis import CHAT
from tests.models.servers.http import Answer, Server, error, serving
from tests.models.servers.script import Say, Script, Use
from tests.models.test_native import after_retries, failing
from tests.models.text_protocol.scripted_model import SPENT, TOOLS, Scripted, written

OLLAMA = "registry.ollama.ai/library/gemma3:4b does not support tools"
VLLM = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
REFUSALS = [
    error(400, {"error": {"message": OLLAMA, "type": "api_error", "param": None, "code": None}}),
    error(500, {"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}}),
    error(500, {"error": {"code": 500, "message": "Unsupported param: tools", "type": "server_error"}}),
    error(400, {"object": "error", "message": VLLM, "type": "BadRequestError", "param": None, "code": 400}),
    error(400, {"error": {"message": VLLM, "type": "BadRequestError", "param": None, "code": 400}}),
    error(404, {"error": {"message": "No endpoints found that support tool use. To learn more, visit", "code": 404}}),
    error(400, {"error": {"message": "`tools` is not supported with this model", "type": "invalid_request_error"}}),
    error(500, {"error": {"code": 500, "message": "Cannot use tools with stream", "type": "server_error"}}),
    error(404, {"error": {"message": "Unrecognized request argument supplied: tools (request id: 2)", "code": None}}),
]
"""As Ollama, llama.cpp (now and in 2024), vLLM (in both of its shapes), OpenRouter, Groq, llama.cpp in the spring of
2025, and gateways before old models say it."""
WORDINGS = """This model doesn't support tools
This model doesn\u2019t support tool calling
tools are not supported by this model
tool calling is not supported
`tool calling` is not supported with this model
tool use is currently not supported
Function calling is not enabled for this model
The model does not support tool-calling.
The model does not support functions"""
OTHERS = """m does not support tools[0].function.strict
m does not support tools when response_format is set
tools are not supported when response_format is set
`tools` is not supported with response_format
tool_choice is not supported for this model
tools[0].type is not supported
Parallel tool calls are not supported
m does not support parallel tool calls"""
"""What a server says of one field, or of tools together with something else: it takes tools."""
ASKING = Script((Say("[read_file: a.py]"),))
READ = ToolUse("call-1", "file.read", '{"path":"a.py"}')


def config(name: str, general: Protocol = "auto", own: Protocol | None = None, **provider: Any) -> ModelConfig:
    mine = ModelProvider(protocol=own, **provider)
    return ModelConfig(name=name, protocol=general, providers={name.partition(":")[0]: mine})


@pytest.mark.parametrize("name", ["ollama:gemma3:4b", "ollama:qwen3:8b", "anthropic:claude-opus-4-5", "mine:m"])
@pytest.mark.spec("M3")
def test_a_configured_protocol_wins_and_the_providers_wins_over_it(name: str) -> None:
    where: dict[str, Any] = {"api": "openai", "base_url": "https://m.example"} if name == "mine:m" else {}
    for wanted in ("native", "text", "constrained"):
        assert select_protocol(config(name, wanted, **where)) == wanted
        assert select_protocol(config(name, "auto", wanted, **where)) == wanted
        assert select_protocol(config(name, "text", wanted, **where)) == wanted
        assert select_protocol(config(name, wanted, "auto", **where)) == select_protocol(config(name, **where))
    assert select_protocol(ModelConfig(name=name, protocol="text")) == "text"


@pytest.mark.spec("M3")
def test_the_operator_always_uses_native_calls() -> None:
    assert select_protocol(ModelConfig(protocol="text")) == "native"
    model, _ = open_model(ModelConfig(protocol="text"), secret=_no_secret)
    assert isinstance(model, Operator) and protocol_choice(model) == ProtocolChoice("native")


@pytest.mark.parametrize("name", ["anthropic:claude-opus-4-5", "openai:gpt-5", "google:gemma-3-27b-it", "vertex:x"])
@pytest.mark.spec("M3")
def test_providers_with_native_calls_use_them(name: str) -> None:
    assert select_protocol(ModelConfig(name=name)) == "native"


WRITERS = """
gemma gemma:2b gemma:7b-instruct gemma-2b-it gemma-7b gemma-1.1-7b-it gemma2 gemma2:9b gemma-2-9b-it
google/gemma-2-2b-it gemma3 gemma3:270m gemma3:27b-it-fp16 google/gemma-3-27b-it gemma3n:e4b gemma-3n-e4b-it
hf.co/somebody/gemma-3-4b-it-GGUF:Q4_K_M codegemma:7b-instruct-v1.1-q8_0 smollm smollm:135m smollm-1.7b
smollm2:135m smollm2-360m-instruct SmolLM2-135M-Instruct tinyllama tinyllama:1.1b TinyLlama-1.1B-Chat-v1.0 phi
phi:2.7b phi-2 phi3 phi3:mini phi3.5 microsoft/Phi-3.5-mini-instruct phi-3-mini-4k-instruct phi-1_5 phi4 phi4:14b
phi4-reasoning:plus llama2 llama2:13b llama2-uncensored meta-llama/Llama-2-7b-chat-hf llama3 llama3:8b llama3:latest
Meta-Llama-3-8B-Instruct codellama codellama:latest orca-mini orca-mini:3b orca2:13b starcoder starcoder2:3b
deepseek-coder:6.7b deepseek-coder-v2:16b deepseek-llm:7b wizardcoder vicuna:7b dolphin-mistral:7b qwen:4b qwen1.5-7b
gemma_3_4b_it gemma_2b_it gemma-3 phi_3_mini phi_3_5_mini phi_2 phi-3.gguf dolphin-phi deepseek-coder deepseek-coder-33b
deepseek-coder-v2-lite-instruct deepseek-coder:latest
"""
CALLERS = """
gemma4 gemma4:12b gemma-4-31b-it functiongemma functiongemma:latest smollm2 smollm2:1.7b smollm3 phi4-mini
phi4-mini:3.8b Phi-4-mini-instruct llama3.1 llama3.1:8b llama3.2:1b llama3.3 llama-3.1-8b llama4
llama3-groq-tool-use:8b qwen2.5:7b qwen3 qwen3:8b qwen3.5:0.8b qwen2.5-coder mistral mistral-nemo granite3.3 command-r
gpt-oss:20b deepseek-r1:8b deepseek-v3 any local-model small hermes3 firefunction-v2 phind megagemma
gemma3-tools:12b orieg/gemma3-tools:4b llama2-function-calling Llama-2-7b-chat-hf-function-calling-v3 phi3_tool
llama-3-70b-tool-use llama-3-8b-functionary gemma2:functions dolphin-mistral-24b-venice-edition dolphin-mistral3
deepseek-coder-v3 deepseek-coder-v2.5 phi3.8 gemma_4 gemma_4_e4b phi_4_mini gemma30b gemma3.5 phi-10
"""


@pytest.mark.parametrize("model", WRITERS.split())
@pytest.mark.spec("M3", "M3b")
def test_the_server_of_a_known_text_only_model_is_probed(model: str) -> None:
    assert is_text_only(model)
    for provider in ("ollama", "llamacpp", "vllm", "lmstudio"):
        assert select_protocol(ModelConfig(name=f"{provider}:{model}")) == "probe"


@pytest.mark.parametrize("model", CALLERS.split())
@pytest.mark.spec("M3")
def test_other_models_of_chat_servers_try_native_calls_first_unless_they_are_small(model: str) -> None:
    assert not is_text_only(model)
    wanted = "probe" if model in SMALL.split() else "try"
    assert select_protocol(ModelConfig(name=f"ollama:{model}")) == wanted
    mine = ModelProvider(api="openai-chat", base_url="https://m.example/v1")
    assert select_protocol(ModelConfig(name=f"mine:{model}", providers={"mine": mine})) == wanted


SMALL = """
smollm2:1.7b phi4-mini:3.8b llama3.2:1b qwen3.5:0.8b qwen2.5:0.5b qwen3:4b Qwen2.5-Coder-3B-Instruct smollm:360m
llama-3.2-3b-instruct hf.co/owner/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M gemma3:270m granite-3.1-2b-instruct
"""
LARGE = """
qwen3 qwen3:8b qwen3:14b qwen3:30b-a3b llama3.1:70b phi-4 gpt-oss:20b mixtral:8x7b qwen2.5:4.5b model-12b m2b
gemma3-tools:4b functionary-small-v3.2-3b-functions any 3.2
"""


@pytest.mark.spec("M3b")
def test_a_small_model_is_known_by_the_size_in_its_name() -> None:
    assert [name for name in SMALL.split() if not is_small(name)] == []
    assert [name for name in LARGE.split() if is_small(name)] == []


def _no_secret(_: SecretSource) -> str:
    return ""


def opened(name: str, server: Server | None = None, protocol: Protocol = "auto") -> Model:
    where = {} if server is None else {"ollama": ModelProvider(base_url=f"{server.url}/v1")}
    found = ModelConfig(name=name, protocol=protocol, providers=where)
    return open_model(found, secret=_no_secret)[0]


@pytest.mark.spec("M3")
def test_opening_a_model_wraps_it_and_reports_the_choice() -> None:
    native = opened("ollama:qwen3", protocol="native")
    assert isinstance(native, NativeModel) and isinstance(native.inner, RemoteModel)
    assert protocol_choice(native) == ProtocolChoice("native")
    trying = opened("ollama:qwen3")
    assert isinstance(trying, FallbackModel) and isinstance(trying.inner, NativeModel)
    assert isinstance(trying.otherwise, ProbedModel) and isinstance(trying.otherwise.otherwise, TextModel)
    assert protocol_choice(trying) == ProtocolChoice("native") and protocol_choice(trying).notice("x") == ""
    known = opened("ollama:gemma3:4b")
    assert isinstance(known, ProbedModel) and isinstance(known.otherwise, TextModel) and known.otherwise.system_role
    assert protocol_choice(known) == ProtocolChoice("constrained") and protocol_choice(known).notice("x") == ""
    small = opened("ollama:qwen3:4b")
    assert isinstance(small, ProbedModel) and isinstance(small.otherwise, FallbackModel)
    assert isinstance(small.otherwise.inner, NativeModel) and isinstance(small.otherwise.otherwise, TextModel)
    chosen = opened("ollama:qwen3", protocol="text")
    assert protocol_choice(chosen) == ProtocolChoice("text") and protocol_choice(chosen).notice("x") == ""
    enforced = opened("ollama:qwen3", protocol="constrained")
    assert isinstance(enforced, ConstrainedModel) and protocol_choice(enforced) == ProtocolChoice("constrained")
    assert (known.name, trying.name) == ("ollama:gemma3:4b", "ollama:qwen3")
    assert known.provider == trying.provider == "ollama"


@pytest.mark.spec("M3")
def test_models_of_other_apis_are_not_wrapped_for_native_calls() -> None:
    found, _ = open_model(ModelConfig(name="anthropic:claude-opus-4-5"), secret=lambda _: "key")
    assert isinstance(found, RemoteModel) and protocol_choice(found) == ProtocolChoice("native")


@pytest.mark.parametrize(("name", "system"), [("gemma2:2b", False), ("google/gemma-2b-it", False), ("gemma3:1b", True)])
@pytest.mark.spec("M3")
def test_models_without_a_system_role_get_no_system_message(name: str, system: bool) -> None:
    model = opened(f"vllm:{name}")
    assert isinstance(model, ProbedModel) and isinstance(model.otherwise, TextModel)
    assert model.otherwise.system_role is model.constrained.system_role is system


@pytest.mark.spec("M3")
def test_edit_repair_is_passed_on() -> None:
    found, _ = open_model(ModelConfig(name="ollama:gemma2"), secret=_no_secret, edit_repair=False)
    assert isinstance(found, ProbedModel) and isinstance(found.otherwise, TextModel)
    assert not found.otherwise.edit_repair
    tried, _ = open_model(ModelConfig(name="ollama:qwen3"), secret=_no_secret, edit_repair=False)
    assert isinstance(tried, FallbackModel) and isinstance(tried.otherwise, ProbedModel)
    assert isinstance(tried.otherwise.otherwise, TextModel) and not tried.otherwise.otherwise.edit_repair


def _saying(text: str) -> Answer:
    return Answer(CHAT.events(Script((Say(text),))))


YES = _saying('{"holdfast": true}')
NO = _saying("One, two, three.")
JSON_CALL = _saying('{"tool": "read_file", "arguments": {"path": "a.py"}}')
ONCE = Usage(input=25, output=12)
"""What each reply of the server reports."""


@pytest.mark.parametrize("refusal", REFUSALS, ids=range(len(REFUSALS)))
@pytest.mark.parametrize("enforces", [False, True])
@pytest.mark.spec("M3", "M3b")
def test_a_server_without_tool_support_gets_another_protocol_for_the_session(refusal: Answer, enforces: bool) -> None:
    async def ask() -> tuple[list[ModelEvent], list[ModelEvent], Server, Model]:
        again = JSON_CALL if enforces else Answer(CHAT.events(ASKING))
        async with serving(refusal, YES if enforces else NO, again, again) as server:
            model = opened("ollama:local-model", server)
            return await hear(model, tools=TOOLS), await hear(model, tools=TOOLS), server, model

    first, second, server, model = run(ask())
    assert isinstance(first[0], Retrying) and first[0].delay == 0.0
    how = "writes its replies as JSON" if enforces else "writes its tool calls as text"
    assert first[0].reason == f"ollama:local-model {how}: its server says that it takes no tools."
    assert protocol_choice(model).notice(model.name) == first[0].reason
    assert parts(first) == parts(second) == [READ]
    assert isinstance(second[-1], ReplyEnded) and not [event for event in second if isinstance(event, Retrying)]
    assert ["tools" in asked.json for asked in server.asked] == [True, False, False, False]
    schemas = ["response_format" in asked.json for asked in server.asked]
    assert schemas == [False, True, enforces, enforces]
    assert (end(first).usage, end(second).usage) == (ONCE + ONCE, ONCE)


@pytest.mark.spec("M3")
def test_a_server_with_tool_support_is_sent_tools() -> None:
    async def ask() -> tuple[list[ModelEvent], Server, Model]:
        native = Script((Say("[git_log]"), Use("c1", "file--read", '{"path":"a.py"}')))
        async with serving(Answer(CHAT.events(native))) as server:
            model = opened("ollama:local-model", server)
            return await hear(model, tools=TOOLS), server, model

    events, server, model = run(ask())
    assert parts(events) == [Text("[git_log]"), ToolUse("c1", "file.read", '{"path":"a.py"}')]
    assert "tools" in server.asked[0].json and protocol_choice(model) == ProtocolChoice("native")


def talked(name: str, *answers: Answer, replies: int = 1) -> tuple[list[list[ModelEvent]], list[dict[str, Any]], Model]:
    """The replies of a model behind a server with these answers, and the requests it was sent."""

    async def ask() -> tuple[list[list[ModelEvent]], list[dict[str, Any]], Model]:
        async with serving(*answers) as server:
            model = opened(name, server)
            heard = [await hear(model, tools=TOOLS, settings=Settings(retries=0)) for _ in range(replies)]
            for asked in server.asked:
                CHAT.check(asked.json)
            return heard, [asked.json for asked in server.asked], model

    return run(ask())


@pytest.mark.parametrize("name", ["ollama:gemma3:4b", "ollama:qwen3:4b"])
@pytest.mark.spec("M3b")
def test_a_server_that_enforces_schemas_is_asked_once_and_then_used_so(name: str) -> None:
    (first, second), asked, model = talked(name, YES, JSON_CALL, JSON_CALL, replies=2)
    assert parts(first) == parts(second) == [READ]
    assert ["response_format" in body for body in asked] == [True] * 3 and not any("tools" in body for body in asked)
    assert (end(first).usage, end(second).usage) == (ONCE + ONCE, ONCE)
    assert protocol_choice(model) == ProtocolChoice("constrained")
    assert not [event for event in (*first, *second) if isinstance(event, Retrying)]


REJECTED = error(400, {"error": {"message": "response_format is not supported"}})


@pytest.mark.parametrize("answer", [NO, REJECTED], ids=["ignored", "rejected"])
@pytest.mark.spec("M3b")
def test_a_server_that_does_not_enforce_schemas_is_used_as_for_any_other_model(answer: Answer) -> None:
    spent = ONCE if answer is NO else Usage()
    (first, second), asked, model = talked(
        "ollama:gemma3:4b", answer, Answer(CHAT.events(ASKING)), Answer(CHAT.events(ASKING)), replies=2
    )
    assert parts(first) == parts(second) == [READ]
    assert ["response_format" in body for body in asked] == [True, False, False]
    (told,) = [event for event in (*first, *second) if isinstance(event, Retrying)]
    assert told is first[0] and told.reason == protocol_choice(model).notice(model.name)
    assert told.reason == (
        "ollama:gemma3:4b writes its tool calls as text: models such as gemma3:4b were not made to call tools."
    )
    assert (end(first).usage, end(second).usage) == (ONCE + spent, ONCE)
    native = Answer(CHAT.events(Script((Use("c1", "file--read", '{"path":"a.py"}'),))))
    (small,), asked, model = talked("ollama:qwen3:4b", answer, native)
    assert [part.name for part in parts(small) if isinstance(part, ToolUse)] == ["file.read"]
    assert ["tools" in body for body in asked] == [False, True] and protocol_choice(model) == ProtocolChoice("native")


@pytest.mark.spec("M3b")
def test_a_server_that_rejects_the_schema_of_replies_gets_another_protocol() -> None:
    (first, second), asked, model = talked(
        "ollama:gemma3:4b", YES, REJECTED, Answer(CHAT.events(ASKING)), Answer(CHAT.events(ASKING)), replies=2
    )
    assert parts(after_retries(first)) == parts(second) == [READ]
    assert ["response_format" in body for body in asked] == [True, True, False, False]
    assert (end(first).usage, end(second).usage) == (ONCE + ONCE, ONCE)
    assert protocol_choice(model).protocol == "text"


@pytest.mark.spec("M3b")
def test_a_rejected_request_after_an_enforced_reply_is_an_error() -> None:
    _, model = _probed(written('{"holdfast": true}'), written('{"answer": "a"}'), [_error()])
    run(hear(model, tools=TOOLS))
    assert failing(model)[0].fault is ModelFault.BAD_REQUEST
    assert protocol_choice(model) == ProtocolChoice("constrained")


def _error(fault: ModelFault = ModelFault.BAD_REQUEST, usage: Usage | None = None) -> ModelError:
    return ModelError(fault, "It did not work.", usage=usage)


def _probed(*replies: Any) -> tuple[Scripted, ProbedModel]:
    inner = Scripted(replies)
    return inner, ProbedModel(inner, ConstrainedModel(inner), TextModel(inner))


@pytest.mark.parametrize("lost", [ModelFault.NETWORK, ModelFault.AUTH, ModelFault.OVERLOADED, ModelFault.CUT])
@pytest.mark.spec("M3b")
def test_a_probe_that_cannot_be_made_is_made_with_the_next_request(lost: ModelFault) -> None:
    inner, model = _probed([_error(lost)], written('{"holdfast": true}'), written('{"answer": "a"}'))
    assert failing(model)[0].fault is lost
    events = run(hear(model, tools=TOOLS))
    assert parts(events) == [Text("a")] and end(events).usage == SPENT + SPENT and len(inner.asked) == 3


@pytest.mark.spec("M3b", "M5")
def test_the_tokens_of_the_probe_are_counted_once_also_by_an_error() -> None:
    yes, answer = written('{"holdfast": true}'), written('{"answer": "a"}')
    _, model = _probed(yes, [_error(ModelFault.CUT, SPENT)], answer)
    assert failing(model)[0].usage == SPENT + SPENT
    assert end(run(hear(model, tools=TOOLS))).usage == SPENT


@pytest.mark.spec("M3b", "M5")
def test_the_tokens_of_the_probe_are_counted_by_the_next_reply_if_the_first_is_abandoned() -> None:
    inner, model = _probed(written('{"holdfast": true}'), written('{"answer": "a long answer"}'))

    async def leave() -> None:
        stream = model.stream(HELLO, TOOLS, Settings())
        await anext(stream)
        await stream.aclose()

    run(leave())
    assert inner.closed == 2
    assert end(run(hear(model, tools=TOOLS))).usage == SPENT + SPENT


@pytest.mark.spec("M3b")
def test_concurrent_streams_wait_for_one_probe() -> None:
    async def ask() -> tuple[list[list[ModelEvent]], Server]:
        async with serving(YES, JSON_CALL, JSON_CALL) as server:
            model = opened("ollama:gemma3:4b", server)
            return list(await asyncio.gather(hear(model, tools=TOOLS), hear(model, tools=TOOLS))), server

    heard, server = run(ask())
    assert [parts(events) for events in heard] == [[READ], [READ]]
    assert len(server.asked) == 3
    total = end(heard[0]).usage + end(heard[1]).usage
    assert total == ONCE + ONCE + ONCE


@pytest.mark.spec("M3b")
def test_a_probe_that_is_cancelled_closes_the_connection_and_is_made_again() -> None:
    async def ask() -> list[ModelEvent]:
        stalled = Answer(CHAT.events(Script((Say("One, two"),)))[:3], then="stall")
        async with serving(stalled, YES, JSON_CALL) as server:
            model = opened("ollama:gemma3:4b", server)
            first = asyncio.create_task(hear(model, tools=TOOLS))
            second = asyncio.create_task(hear(model, tools=TOOLS))
            await server.sent.wait()
            first.cancel()
            await asyncio.wait({first})
            await server.left.wait()
            assert first.cancelled()
            return await second

    events = run(ask())
    assert parts(events) == [READ] and end(events).usage == ONCE + ONCE


@pytest.mark.spec("M3b")
def test_the_choice_follows_a_fallback_within_the_probed_model() -> None:
    refusal = REFUSALS[0]
    (events,), _, model = talked("ollama:qwen3:4b", NO, refusal, Answer(CHAT.events(ASKING)))
    assert parts(after_retries(events)) == [READ]
    assert protocol_choice(model) == ProtocolChoice("text", "its server says that it takes no tools")


@pytest.mark.spec("M5")
def test_the_tokens_before_a_fallback_are_counted_by_its_reply() -> None:
    inner = Scripted([[_error(ModelFault.NO_TOOLS, SPENT)], written("[read_file: a.py]")])
    events = run(hear(FallbackModel(inner, TextModel(inner)), tools=TOOLS))
    assert parts(events) == [READ] and end(events).usage == SPENT + SPENT


@pytest.mark.spec("M3")
def test_a_call_is_written_as_the_model_writes_it() -> None:
    tool = next(tool for tool in TOOLS if tool.name == "file.read")
    inner = Scripted([written("ok")])
    native, text, enforced = CallWriter(inner), CallWriter(TextModel(inner)), CallWriter(ConstrainedModel(inner))
    assert [writer.name(tool) for writer in (native, text, enforced)] == ["file--read", "read_file", "read_file"]
    assert native.call(tool, {"path": "a"}) == 'file--read with {"path":"a"}'
    assert text.call(tool, {"path": "a"}) == "[read_file: a]"
    assert enforced.call(tool, {"path": "a"}) == '{"tool": "read_file", "arguments": {"path": "a"}}'


@pytest.mark.spec("M3")
def test_any_other_error_is_raised_and_keeps_the_protocol() -> None:
    async def ask() -> tuple[ModelError, Model]:
        async with serving(error(400, {"error": {"message": "tools[0].name is too long"}})) as server:
            model = opened("ollama:local-model", server)
            with pytest.raises(ModelError) as caught:
                await hear(model, tools=TOOLS)
            return caught.value, model

    caught, model = run(ask())
    assert caught.fault is ModelFault.BAD_REQUEST and protocol_choice(model) == ProtocolChoice("native")


@pytest.mark.parametrize("refusal", REFUSALS, ids=range(len(REFUSALS)))
@pytest.mark.spec("M3")
def test_a_native_model_without_tool_support_fails_with_a_hint(refusal: Answer) -> None:
    caught, before = fault(CHAT, refusal, settings=Settings(retries=3))
    assert (caught.fault, before) == (ModelFault.NO_TOOLS, [])
    assert str(caught).startswith("ollama:local-model takes no tools (")
    assert str(caught).endswith('; set `model.protocol` to "text".') and "\n" not in str(caught)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        *((message, ModelFault.NO_TOOLS) for message in WORDINGS.split("\n")),
        *((message, ModelFault.BAD_REQUEST) for message in OTHERS.split("\n")),
    ],
)
@pytest.mark.spec("M3")
def test_only_a_general_lack_of_tool_support_triggers_the_fallback(message: str, expected: ModelFault) -> None:
    caught, _ = fault(CHAT, error(400, {"error": {"message": message}}), settings=Settings(retries=0))
    assert caught.fault is expected


@pytest.mark.spec("M3")
def test_closing_the_stream_during_the_native_attempt_closes_the_connection() -> None:
    async def ask() -> None:
        stalled = Answer(CHAT.events(Script((Say("A very long sentence."),)))[:4], then="stall")
        async with serving(stalled) as server:
            stream: Any = opened("ollama:local-model", server).stream(HELLO, TOOLS, Settings())
            await anext(stream)
            await stream.aclose()
            await server.left.wait()

    run(ask())
