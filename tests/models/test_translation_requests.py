"""Requests: the bytes on the wire for any conversation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.message import Aborted, Message, Text, ToolResult, ToolUse
from holdfast.models.http import UnexpectedResponse, http_client
from holdfast.models.port import Settings
from holdfast.net.network import Network
from tests.models.exchanges import HELLO, READ, RUN, TOOLS, body, call, result, run, sent
from tests.models.servers.apis import ANTHROPIC, APIS, CHAT, GOOGLE, KEY, OPENAI, VERTEX, Api
from tests.models.servers.http import Answer, serving

ROOT = Path(__file__).parents[2]
EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


def tools_of(api: Api, sent_body: dict[str, Any]) -> list[tuple[str, Any]]:
    tools: list[dict[str, Any]] = sent_body["tools"]
    match api.name:
        case "anthropic":
            return [(tool["name"], tool["input_schema"]) for tool in tools]
        case "openai":
            return [(tool["name"], tool["parameters"]) for tool in tools]
        case "openai-chat":
            return [(tool["function"]["name"], tool["function"]["parameters"]) for tool in tools]
        case _:
            return [(tool["name"], tool["parameters_json_schema"]) for tool in tools[0]["functionDeclarations"]]


def calls_of(api: Api, sent_body: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Id, name and arguments of every call in a request."""
    match api.name:
        case "anthropic":
            blocks = [block for message in sent_body["messages"] for block in message["content"]]
            return [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
        case "openai":
            items = [item for item in sent_body["input"] if item.get("type") == "function_call"]
            return [(item["call_id"], item["name"], json.loads(item["arguments"])) for item in items]
        case "openai-chat":
            made = [one for message in sent_body["messages"] for one in message.get("tool_calls", [])]
            return [(one["id"], one["function"]["name"], json.loads(one["function"]["arguments"])) for one in made]
        case _:
            parts = [part for content in sent_body["contents"] for part in content["parts"]]
            found = [part["functionCall"] for part in parts if "functionCall" in part]
            return [(one["id"], one["name"], one["args"]) for one in found]


def results_of(api: Api, sent_body: dict[str, Any]) -> list[tuple[str, Any]]:
    match api.name:
        case "anthropic":
            blocks = [block for message in sent_body["messages"] for block in message["content"]]
            return [(b["tool_use_id"], b["content"]) for b in blocks if b["type"] == "tool_result"]
        case "openai":
            items = [item for item in sent_body["input"] if item.get("type") == "function_call_output"]
            return [(item["call_id"], item["output"]) for item in items]
        case "openai-chat":
            return [(one["tool_call_id"], one["content"]) for one in sent_body["messages"] if one["role"] == "tool"]
        case _:
            parts = [part for content in sent_body["contents"] for part in content["parts"]]
            found = [part["functionResponse"] for part in parts if "functionResponse" in part]
            return [(one["id"], one["response"]) for one in found]


@EACH
@pytest.mark.spec("M1", "S3")
def test_tools_are_sent_in_order_with_unchanged_schemas(api: Api) -> None:
    made = tools_of(api, body(api, tools=TOOLS))
    assert [name for name, _ in made] == ["file--read", "shell--run"]
    assert [json.dumps(schema) for _, schema in made] == [json.dumps(tool.input_schema) for tool in TOOLS]
    assert [name for name, _ in tools_of(api, body(api, tools=TOOLS[::-1]))] == ["shell--run", "file--read"]


@EACH
@pytest.mark.spec("S3")
def test_strict_is_sent_only_to_openai_and_only_for_strict_tools(api: Api) -> None:
    strict = [READ.with_(strict=True), RUN]
    text = json.dumps(body(api, tools=strict)["tools"])
    if api is OPENAI:
        first, second = body(api, tools=strict)["tools"]
        assert first["strict"] is True
        assert "strict" not in second
        assert first["parameters"] == READ.input_schema
    else:
        assert "strict" not in text


_SCRIPT = """
from tests.models.test_translation_requests import all_bodies
print(all_bodies(), end="")
"""
LONG = (
    Message("system", (Text("Be brief."),)),
    *HELLO,
    Message("assistant", (Text("Yes."), ToolUse("call_1", "file.read", '{"path": "a"}'), ToolUse("x:y", "bash"))),
    Message("user", (ToolResult("call_1", "file.read", "one"), ToolResult("x:y", "bash", "two", True), Text("more"))),
    call("call_1"),
    result("call_1"),
)


def all_bodies() -> str:
    given = Settings(cache_key="k", cache_retention="long", temperature=0.5)
    return "\n".join(f"{api.name} {sent(api, LONG, given).body.decode()}" for api in APIS)


@pytest.mark.spec("M1")
def test_the_same_request_has_the_same_bytes_in_every_process() -> None:
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _SCRIPT]
    other = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    assert other.stdout == all_bodies() == all_bodies()


@EACH
@pytest.mark.spec("M1")
def test_a_longer_conversation_begins_with_the_same_messages(api: Api) -> None:
    key = {"openai": "input", "google": "contents", "vertex": "contents"}.get(api.name, "messages")
    plain = Settings(cache_retention="none")
    short = body(api, LONG[:4], settings=plain)[key]
    assert body(api, LONG, settings=plain)[key][: len(short)] == short


@EACH
@pytest.mark.spec("M1")
def test_ids_are_unique_in_a_request_and_valid_for_the_provider(api: Api) -> None:
    awkward = "functions.read:0/" + "x" * 80
    history = [*HELLO, call("call_1"), result("call_1", "one"), call("call_1"), result("call_1", "two")]
    history += [call(awkward), result(awkward, "three"), call("call_1-2"), result("call_1-2", "four")]
    made = body(api, history)
    ids = [id for id, _, _ in calls_of(api, made)]  # noqa: A001
    assert len(set(ids)) == len(ids) == 4
    assert [id for id, _ in results_of(api, made)] == ids  # noqa: A001
    assert ids[0] == "call_1"
    if api is CHAT:
        assert ids[2] == awkward
    else:
        assert all(len(one) <= 64 and one.replace("_", "a").replace("-", "a").isalnum() for one in ids)


@EACH
@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    "written",
    ['{"path": ', "[1, 2]", '{"n": NaN}', '{"n": 1e999}', '{"s": "\\ud800"}', "nonsense", '"text"', "[" * 5000],
    ids=["cut", "list", "nan", "infinite", "surrogate", "words", "string", "deep"],
)
def test_invalid_arguments_still_make_a_valid_request(api: Api, written: str) -> None:
    made = calls_of(api, body(api, [*HELLO, call("call_1", arguments=written), result("call_1", "broken", error=True)]))
    assert made == [("call_1", "file--read", {"INVALID_JSON": written})]


@EACH
@pytest.mark.spec("M1")
def test_aliases_and_removed_tools_are_sent_under_their_api_name(api: Api) -> None:
    history = [*HELLO, call("a", "bash"), result("a"), call("b", "gone.tool"), result("b")]
    assert [name for _, name, _ in calls_of(api, body(api, history))] == ["shell--run", "gone--tool"]


@EACH
@pytest.mark.spec("M1")
def test_results_come_first_and_every_call_has_a_result(api: Api) -> None:
    asked = Message("assistant", (ToolUse("a", "file.read"), ToolUse("b", "file.read")))
    answered = Message("user", (Text("and then?"), ToolResult("b", "file.read", "B"), ToolResult("stray", "x", "S")))
    made = body(api, [*HELLO, asked, answered])
    results = results_of(api, made)
    assert [id for id, _ in results] == ["b", "a"]  # noqa: A001
    assert "No result was recorded" in json.dumps(results[1])
    text = json.dumps(made)
    assert "stray" not in text
    assert text.index('"b"') < text.index("and then?")


@pytest.mark.spec("M1")
def test_tool_errors_are_sent_in_each_providers_form() -> None:
    history = [*HELLO, call("a"), result("a", "no such file", error=True), call("b"), result("b", "", error=True)]
    good = [*HELLO, call("a"), result("a", "")]
    blocks = body(ANTHROPIC, history)["messages"]
    assert blocks[2]["content"][0] == {
        "tool_use_id": "a",
        "type": "tool_result",
        "content": [{"text": "no such file", "type": "text"}],
        "is_error": True,
    }
    assert blocks[4]["content"][0]["content"] == ""
    assert body(ANTHROPIC, good)["messages"][2]["content"][0]["is_error"] is False
    for api in (OPENAI, CHAT):
        failed = [("a", "Error: no such file"), ("b", "Error: Tool execution failed")]
        assert results_of(api, body(api, history)) == failed
        assert results_of(api, body(api, good)) == [("a", "")]
    for api in (GOOGLE, VERTEX):
        assert results_of(api, body(api, history)) == [("a", {"error": "no such file"}), ("b", {"error": ""})]
        assert results_of(api, body(api, good)) == [("a", {"output": ""})]


@EACH
@pytest.mark.spec("M1")
def test_an_aborted_reply_is_marked_only_if_it_has_no_calls(api: Api) -> None:
    stopped = Message("assistant", (Text("I was"), Aborted("Stopped by you.")))
    text = [*HELLO, stopped, Message("user", (Text("go on"),))]
    assert "<!-- Stopped by you. -->" in json.dumps(body(api, text))
    asked = Message("assistant", (Text("I was"), ToolUse("a", "file.read"), Aborted("Stopped by you.")))
    assert "Stopped" not in json.dumps(body(api, [*HELLO, asked, result("a", "no", error=True)]))


@EACH
@pytest.mark.spec("M1")
def test_text_with_lone_surrogates_can_be_sent(api: Api) -> None:
    odd = b"caf\xe9 \x00 end".decode("utf-8", "surrogateescape")
    history = [
        Message("system", (Text("sys " + odd),)),
        Message("user", (Text(odd),)),
        Message("assistant", (Text(odd),)),
        call("id" + odd, arguments=odd),
        result("id" + odd, odd),
    ]
    assert "caf\N{REPLACEMENT CHARACTER}" in json.dumps(sent(api, history).json, ensure_ascii=False)


@EACH
@pytest.mark.spec("M1")
def test_empty_messages_and_blank_text_are_omitted(api: Api) -> None:
    history = [
        Message("user", (Text("  \n"), Text("Hello"))),
        Message("assistant", (Text(" \n "),)),
        Message("user", (Text("Still there?"),)),
        Message("assistant", ()),
        Message("user", (Text("x"),)),
    ]
    made = body(api, history)
    key = {"openai": "input", "google": "contents", "vertex": "contents"}.get(api.name, "messages")
    assert {message["role"] for message in made[key]} == {"user"}


@EACH
@pytest.mark.spec("M1")
def test_the_system_prompt_is_sent_in_its_own_field(api: Api) -> None:
    made = body(api, [Message("system", (Text("Be brief."),)), *HELLO], settings=Settings(cache_retention="none"))
    match api.name:
        case "anthropic":
            assert made["system"] == [{"type": "text", "text": "Be brief."}]
        case "openai":
            assert made["instructions"] == "Be brief."
        case "openai-chat":
            assert made["messages"][0] == {"role": "system", "content": "Be brief."}
        case _:
            assert made["systemInstruction"]["parts"] == [{"text": "Be brief."}]


@EACH
@pytest.mark.spec("M1")
def test_the_key_is_sent_only_in_its_header(api: Api) -> None:
    asked = sent(api)
    places = [name for name, value in asked.headers.items() if KEY in value]
    assert places == ["x-goog-api-key" if api is GOOGLE else "authorization"]
    assert KEY not in asked.path and KEY.encode() not in asked.body


@pytest.mark.spec("M1")
def test_a_client_reaches_only_its_own_address() -> None:
    async def ask() -> None:
        async with (
            serving(Answer()) as server,
            http_client(CHAT.endpoint("http://127.0.0.1:1"), Settings(), Network()) as client,
        ):
            with pytest.raises(UnexpectedResponse):
                await client.post(server.url)
            assert not server.asked

    run(ask())


WELCOME = Message("assistant", (Text("Welcome!"),))


@EACH
@pytest.mark.spec("M1")
@pytest.mark.parametrize("before", [[], [Message("system", (Text("Be kind."),)), Message("user", (Text(" "),))]])
def test_a_conversation_that_starts_with_the_assistant_gets_a_user_message_first(
    api: Api, before: list[Message]
) -> None:
    begins = Message("user", (Text("(The conversation begins here.)"),))
    assert body(api, [*before, WELCOME, *HELLO]) == body(api, [*before, begins, WELCOME, *HELLO])
    asking = call("a")
    assert body(api, [*before, asking, result("a")]) == body(api, [*before, begins, asking, result("a")])


SURROUNDINGS = {
    "HTTP_PROXY": "http://127.0.0.1:1",
    "HTTPS_PROXY": "http://127.0.0.1:1",
    "ALL_PROXY": "http://127.0.0.1:1",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
    "ANTHROPIC_AUTH_TOKEN": "other-token",
    "ANTHROPIC_API_KEY": "other-key",
    "OPENAI_BASE_URL": "http://127.0.0.1:1",
    "OPENAI_API_KEY": "other-key",
    "GOOGLE_API_KEY": "other-key",
    "GEMINI_API_KEY": "other-key",
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
    "GOOGLE_CLOUD_PROJECT": "other-project",
    "GOOGLE_CLOUD_LOCATION": "other-place",
    "GOOGLE_GENAI_API_VERSION": "v9",
}


@EACH
@pytest.mark.spec("M1")
def test_environment_variables_do_not_redirect_requests(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment contains."""
    plain = sent(api)
    for name, value in SURROUNDINGS.items():
        monkeypatch.setenv(name, value)
    asked = sent(api)
    assert (asked.path, asked.body) == (plain.path, plain.body)
    assert "other-" not in str(asked.headers)
