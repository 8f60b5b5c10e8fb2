"""Thinking is returned unchanged to the provider that signed it, and as text or not at all to others."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.contract.message import Message, Part, Text, Thinking, ToolUse
from holdfast.models.port import Settings
from tests.models.exchanges import HELLO, body, parts, replied, result
from tests.models.servers.apis import ANTHROPIC, APIS, CHAT, GOOGLE, OPENAI, VERTEX, Api
from tests.models.servers.script import Hidden, Say, Script, Think, Use

EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
SIGNED = (ANTHROPIC, OPENAI, GOOGLE, VERTEX)
SIGNATURE = b64encode(b"signature").decode()


def again(api: Api, said: Sequence[Part], **given: Any) -> dict[str, Any]:
    return body(api, [*HELLO, Message("assistant", tuple(said)), result("call_a")], **given)


@pytest.mark.parametrize("api", SIGNED, ids=lambda api: api.name)
@pytest.mark.spec("M1")
def test_thinking_is_returned_to_its_provider_unchanged(api: Api) -> None:
    thought = Think("First.\n\nSecond.", "signature")
    said = parts(replied(api, Script((thought, Say("Well."), Use("call_a", "file--read", '{"path": "a"}')))))
    own = [part for part in said if isinstance(part, Thinking)]
    assert [(part.text, part.provider) for part in own] == [("First.\n\nSecond.", api.provider)]
    made = again(api, said)
    match api.name:
        case "anthropic":
            assert made["messages"][1]["content"][:2] == [
                {"thinking": "First.\n\nSecond.", "signature": "signature", "type": "thinking"},
                {"text": "Well.", "type": "text"},
            ]
        case "openai":
            assert made["input"][1] == {
                "id": "rs_0",
                "summary": [{"text": "First.", "type": "summary_text"}, {"text": "Second.", "type": "summary_text"}],
                "encrypted_content": "signature",
                "type": "reasoning",
            }
            assert [item.get("type") for item in made["input"][2:]] == [None, "function_call", "function_call_output"]
        case _:
            text, call = made["contents"][1]["parts"]
            assert text == {"text": "Well.", "thoughtSignature": SIGNATURE}
            assert call["functionCall"]["name"] == "file--read"


@pytest.mark.parametrize("api", [GOOGLE, VERTEX], ids=lambda api: api.name)
@pytest.mark.spec("M1")
def test_geminis_signatures_are_returned_with_their_calls(api: Api) -> None:
    script = Script(
        (
            Think("Both.", "signature"),
            Use("call_a", "file--read", '{"path": "a"}'),
            Use("call_b", "file--read", '{"path": "b"}'),
        )
    )
    said = parts(replied(api, script))
    calls = again(api, said)["contents"][1]["parts"]
    assert [call.get("thoughtSignature") for call in calls] == [SIGNATURE, None]
    # A document that keeps the thinking at the end means the first of the calls.
    last = [part for part in said if isinstance(part, ToolUse)] + [part for part in said if isinstance(part, Thinking)]
    assert again(api, last)["contents"][1]["parts"] == calls


@pytest.mark.spec("M1")
def test_redacted_thinking_without_a_provider_is_returned_to_anthropic() -> None:
    said = parts(replied(ANTHROPIC, Script((Hidden("c2VjcmV0"), Say("Well."), Use("call_a", "file--read", "{}")))))
    assert said[0] == Thinking("c2VjcmV0", "anthropic", None, redacted=True)
    for provider in ("anthropic", None):
        made = again(ANTHROPIC, [Thinking("c2VjcmV0", provider, None, True), *said[1:]])
        assert made["messages"][1]["content"][0] == {"data": "c2VjcmV0", "type": "redacted_thinking"}
    for api in APIS[1:]:
        assert "c2VjcmV0" not in json.dumps(again(api, said))


@pytest.mark.spec("M1")
def test_a_reasoning_item_without_a_summary_is_kept() -> None:
    said = parts(replied(OPENAI, Script((Hidden("enc"), Use("call_a", "file--read", "{}")))))
    assert isinstance(said[0], Thinking) and said[0].text == ""
    item = again(OPENAI, said)["input"][1]
    assert item == {"id": "rs_0", "summary": [], "encrypted_content": "enc", "type": "reasoning"}


@EACH
@pytest.mark.spec("M1")
def test_foreign_thinking_is_sent_as_text_or_dropped(api: Api) -> None:
    said = (
        Thinking(" one ", "somebody", "c2ln"),
        Text("Well."),
        Thinking("two", "somebody", "c2ln"),
        Thinking("  "),
        Thinking("hidden", "somebody", None, True),
        ToolUse("call_a", "file.read"),
    )
    kept = json.dumps(again(api, said))
    assert r"<thinking>\none\n\ntwo\n</thinking>" in kept
    assert kept.index("<thinking>") < kept.index("Well.")
    assert "hidden" not in kept and "c2ln" not in kept
    assert "<thinking>" not in json.dumps(again(api, said, settings=Settings(foreign_thinking="drop")))


@pytest.mark.spec("M1")
def test_unsigned_thinking_is_native_to_chat_servers_and_foreign_to_those_that_sign() -> None:
    said = (Thinking("hm"), Text("Well."), ToolUse("call_a", "file.read"))
    message = again(CHAT, said)["messages"][1]
    assert (message["reasoning_content"], message["content"]) == ("hm", "Well.")
    for api in SIGNED:
        assert r"<thinking>\nhm\n</thinking>" in json.dumps(again(api, said))


@pytest.mark.parametrize("api", [OPENAI, GOOGLE], ids=lambda api: api.name)
@pytest.mark.spec("M1")
def test_thinking_without_its_signature_is_foreign(api: Api) -> None:
    for broken in ("not base64!", b64encode(b"not json").decode() if api is OPENAI else "%%%"):
        made = json.dumps(again(api, [Thinking("hm", api.provider, broken), ToolUse("call_a", "file.read")]))
        assert r"<thinking>\nhm\n</thinking>" in made


@pytest.mark.parametrize("api", [ANTHROPIC, OPENAI], ids=lambda api: api.name)
@pytest.mark.spec("M1")
def test_thinking_written_last_in_a_document_is_sent_first(api: Api) -> None:
    said = parts(replied(api, Script((Think("First.", "signature"), Say("Well."), Use("call_a", "file--read", "{}")))))
    assert again(api, [*said[1:], said[0]]) == again(api, said)


@pytest.mark.spec("M1")
def test_thinking_between_other_parts_stays_where_it_is() -> None:
    script = Script((Think("1", "s1"), Say("A"), Think("2", "s2"), Use("call_a", "file--read", "{}")))
    said = parts(replied(ANTHROPIC, script))
    kinds = [block["type"] for block in again(ANTHROPIC, said)["messages"][1]["content"]]
    assert kinds == ["thinking", "text", "thinking", "tool_use"]


@pytest.mark.spec("M1")
def test_a_turn_that_began_without_thinking_continues_without_a_thinking_budget() -> None:
    """Another model made the call, or the user did."""
    asked = (ToolUse("call_a", "file.read"),)
    assert "thinking" not in again(ANTHROPIC, asked)
    assert again(ANTHROPIC, asked, model="claude-opus-4-6")["thinking"]["type"] == "adaptive"
    own = Thinking("hm", "anthropic", "c2ln")
    assert again(ANTHROPIC, (own, *asked))["thinking"]["type"] == "enabled"
    done = [*HELLO, Message("assistant", asked), result("call_a"), Message("assistant", (Text("ok"),)), *HELLO]
    assert body(ANTHROPIC, done)["thinking"]["type"] == "enabled"


@EACH
@pytest.mark.spec("M1")
@pytest.mark.parametrize("provider", ["anthropic", None])
def test_empty_redacted_thinking_is_omitted(api: Api, provider: str | None) -> None:
    said = (Thinking("", provider, None, redacted=True), Thinking(" \n", provider, None, redacted=True))
    call = ToolUse("call_a", "file.read", "{}")
    assert again(api, (*said, Text("Well."), call)) == again(api, (Text("Well."), call))
