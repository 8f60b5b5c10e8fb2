"""Every way a request can fail: the right fault, one sentence, and never the key."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.contract.message import ToolUse
from holdfast.models.port import ModelError, ModelFault, PartEnded, Settings
from tests.models.exchanges import fault, hear, parts, replied, run
from tests.models.servers.apis import ANTHROPIC, APIS, CHAT, GOOGLE, KEY, OPENAI, VERTEX, Api
from tests.models.servers.http import STREAM, Answer, error, event, serving
from tests.models.servers.script import Say, Script, Think, Use

EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
GEMINI_TOO_LONG = "The input token count (99) exceeds the maximum number of tokens allowed (9)."
LONG = Script((Say("This is a sentence that comes in many pieces."),))
WHOLE = Script(
    (Think("hm", "c2ln"), Say("Well then."), Use("a", "file--read", '{"path": "a"}'), Use("b", "shell--run", "{}"))
)


def failing(api: Api, status: int, message: str, kind: str = "", code: str | None = None, **headers: str) -> Answer:
    """An error in the shape the provider documents."""
    match api.name:
        case "anthropic":
            body: dict[str, Any] = {"type": "error", "error": {"type": kind or "api_error", "message": message}}
        case "google" | "vertex":
            body = {"error": {"code": status, "message": message, "status": kind or "UNKNOWN"}}
        case _:
            body = {"error": {"message": message, "type": kind or "invalid_request_error", "param": None, "code": code}}
    return error(status, body, **headers)


def said(caught: ModelError) -> str:
    text = str(caught)
    assert KEY not in text and "Traceback" not in text and "\n" not in text
    assert text.endswith((".", "?")) and 20 < len(text) < 500
    return text


@EACH
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, ModelFault.BAD_REQUEST),
        (401, ModelFault.AUTH),
        (403, ModelFault.AUTH),
        (404, ModelFault.BAD_REQUEST),
        (409, ModelFault.OVERLOADED),
        (413, ModelFault.CONTEXT),
        (422, ModelFault.BAD_REQUEST),
        (429, ModelFault.RATE_LIMIT),
        (500, ModelFault.OVERLOADED),
        (503, ModelFault.OVERLOADED),
        (529, ModelFault.OVERLOADED),
    ],
)
@pytest.mark.spec("M1")
def test_each_http_status_maps_to_its_fault(api: Api, status: int, expected: ModelFault) -> None:
    caught, heard = fault(api, failing(api, status, f"Something about {KEY} and\nmore"))
    assert (caught.fault, heard) == (expected, [])
    assert said(caught)
    if expected is ModelFault.AUTH:
        assert "SOME_API_KEY" in str(caught)
    if status == 404:
        assert api.model in str(caught)


@pytest.mark.parametrize(
    ("api", "status", "message", "kind", "code"),
    [
        (ANTHROPIC, 400, "prompt is too long: 210000 tokens > 200000 maximum", "invalid_request_error", None),
        (OPENAI, 400, "Your input exceeds the context window.", "", "context_length_exceeded"),
        (GOOGLE, 400, GEMINI_TOO_LONG, "INVALID_ARGUMENT", None),
        (VERTEX, 400, GEMINI_TOO_LONG, "INVALID_ARGUMENT", None),
        (CHAT, 400, "This model's maximum context length is 4096 tokens.", "BadRequestError", None),
    ],
    ids=["anthropic", "openai", "google", "vertex", "vllm"],
)
@pytest.mark.spec("M1")
def test_an_exceeded_context_window_is_recognised(
    api: Api, status: int, message: str, kind: str, code: str | None
) -> None:
    caught, _ = fault(api, failing(api, status, message, kind, code))
    assert caught.fault is ModelFault.CONTEXT
    assert "shorten" in said(caught)


@pytest.mark.spec("M1")
def test_an_exceeded_context_window_of_llamacpp_is_recognised() -> None:
    words = "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it"
    body = {"error": {"code": 400, "message": words, "type": "exceed_context_size_error", "n_ctx": 4096}}
    assert fault(CHAT, error(400, body))[0].fault is ModelFault.CONTEXT


@EACH
@pytest.mark.spec("M1")
def test_the_retry_delay_is_read_from_the_retry_after_header(api: Api) -> None:
    caught, _ = fault(api, failing(api, 429, "slow down", "RESOURCE_EXHAUSTED", retry_after="7"))
    assert (caught.fault, caught.retry_after) == (ModelFault.RATE_LIMIT, 7)
    assert "7 s" in said(caught)


@pytest.mark.spec("M1")
def test_googles_retry_delay_is_read_from_the_body() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "21s"}
    body = {"error": {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED", "details": [info]}}
    assert fault(GOOGLE, error(429, body))[0].retry_after == 21


@pytest.mark.parametrize(
    "answer",
    [
        failing(OPENAI, 429, "You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
        failing(OPENAI, 402, "Payment required"),
    ],
    ids=["quota", "payment"],
)
@pytest.mark.spec("M1")
def test_an_exhausted_quota_is_not_retried(answer: Answer) -> None:
    caught, heard = fault(OPENAI, answer, settings=Settings(retries=3))
    assert (caught.fault, heard) == (ModelFault.RATE_LIMIT, [])
    assert "billing" in said(caught)


def midway(api: Api, kind: str) -> list[bytes]:
    """A stream that begins well and then reports an error."""
    begun = api.events(LONG)[:3]
    match api.name:
        case "anthropic":
            failed = {"type": "error", "error": {"type": kind, "message": "Overloaded"}}
            return [*begun, event(failed, "error")]
        case "openai":
            failed = {"type": "error", "code": "server_error", "message": "sorry", "param": None, "sequence_number": 9}
            return [*begun, event(failed, "error")]
        case "openai-chat":
            return [*begun, event({"error": {"message": "sorry", "type": "server_error", "code": 500}})]
        case _:
            return [*begun, event({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}})]


@EACH
@pytest.mark.spec("M1")
def test_an_error_event_in_a_stream_is_reported_as_that_error(api: Api) -> None:
    caught, _ = fault(api, Answer(midway(api, "overloaded_error")))
    assert caught.fault is ModelFault.OVERLOADED
    assert said(caught)


@pytest.mark.parametrize(
    ("api", "script"),
    [
        (ANTHROPIC, Script((Say("I"),), stop="refusal")),
        (OPENAI, Script((Say("I"),), stop="content_filter")),
        (GOOGLE, Script((Say("I"),), stop="SAFETY")),
        (VERTEX, Script((Say("I"),), stop="PROHIBITED_CONTENT")),
        (CHAT, Script((Say("I"),), stop="content_filter")),
    ],
    ids=lambda one: one.name if isinstance(one, Api) else None,
)
@pytest.mark.spec("M1")
def test_a_refusal_is_recognised_and_not_retried(api: Api, script: Script) -> None:
    caught, heard = fault(api, Answer(api.events(script)), settings=Settings(retries=3))
    assert caught.fault is ModelFault.REFUSED
    assert "refused" in said(caught)
    assert not any(isinstance(one, PartEnded) for one in heard)


@pytest.mark.spec("M1")
def test_a_prompt_blocked_by_gemini_is_a_refusal() -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    assert fault(GOOGLE, Answer([event(blocked)]))[0].fault is ModelFault.REFUSED


@EACH
@pytest.mark.parametrize("then", ["cut", "close"])
@pytest.mark.spec("M1")
def test_a_stream_truncated_after_any_event_is_reported_as_cut_unless_complete(api: Api, then: Any) -> None:
    """Complete parts are emitted; a partial call never is."""
    events = api.events(WHOLE)
    whole = parts(replied(api, WHOLE))

    async def heard(count: int) -> tuple[ModelFault | None, list[Any]]:
        given: list[Any] = []
        async with serving(Answer(events[:count], then=then)) as server:
            try:
                async for one in api.open(server).stream((), (), Settings(retries=0)):
                    given.append(one)
            except ModelError as caught:
                return caught.fault, given
        return None, given

    async def every() -> list[tuple[ModelFault | None, list[Any]]]:
        return [await heard(count) for count in range(len(events) + 1)]

    found: ModelFault | None = ModelFault.CUT
    for count, (found, given) in enumerate(run(every(), 60)):
        ended = [part for part in parts(given) if isinstance(part, ToolUse)]
        assert {(one.id, one.arguments) for one in ended} <= {
            (one.id, one.arguments) for one in whole if isinstance(one, ToolUse)
        }, count
        if found is None:
            assert len(parts(given)) == len(whole), count
        else:
            assert found in (ModelFault.CUT, ModelFault.NETWORK), count
            assert len(parts(given)) < len(whole), count
    assert found is None


@EACH
@pytest.mark.spec("M1")
def test_events_that_are_not_json_are_a_protocol_fault(api: Api) -> None:
    begun = api.events(LONG)[:2]
    broken = b'event: content_block_delta\ndata: {"type": "content_block\n\n'
    assert fault(api, Answer([*begun, broken]))[0].fault is ModelFault.PROTOCOL


@EACH
@pytest.mark.parametrize("junk", [b"\x00\xff\xfe\n\n", b"data: [1, 2]\n\n", b"data: {}\n\n", b"nonsense\n\n", b""])
@pytest.mark.spec("M1")
def test_junk_instead_of_events_raises_a_model_error(api: Api, junk: bytes) -> None:
    caught, heard = fault(api, Answer([junk] if junk else []))
    assert caught.fault in (ModelFault.PROTOCOL, ModelFault.CUT, ModelFault.NETWORK)
    assert said(caught) and not parts(heard)


@EACH
@pytest.mark.spec("M1")
def test_an_html_page_instead_of_a_stream_is_a_protocol_fault(api: Api) -> None:
    page = Answer([b"<html>Welcome</html>"], headers={"content-type": "text/html"})
    caught, _ = fault(api, page, settings=Settings(retries=2))
    assert caught.fault is ModelFault.PROTOCOL
    assert "text/html" in said(caught)


@EACH
@pytest.mark.spec("M1")
def test_a_redirect_is_not_followed(api: Api) -> None:
    away = Answer([], 307, {"location": "http://127.0.0.1:1/elsewhere", "content-type": STREAM})
    caught, _ = fault(api, away)
    assert "not followed" in said(caught)


@EACH
@pytest.mark.spec("M1")
def test_an_unreachable_server_is_named(api: Api) -> None:
    async def ask() -> ModelError:
        with pytest.raises(ModelError) as caught:
            await hear(api.open("http://127.0.0.1:1"), settings=Settings(retries=0))
        return caught.value

    caught = run(ask())
    assert caught.fault is ModelFault.NETWORK
    assert "http://127.0.0.1:1" in said(caught) and "running" in str(caught)


@EACH
@pytest.mark.spec("M1")
def test_tls_to_a_plaintext_port_is_explained(api: Api) -> None:
    async def ask() -> ModelError:
        async with serving() as server:
            with pytest.raises(ModelError) as caught:
                await hear(api.open(server.url.replace("http:", "https:")), settings=Settings(retries=0))
            return caught.value

    caught = run(ask())
    assert caught.fault is ModelFault.NETWORK
    assert "TLS" in said(caught)


@EACH
@pytest.mark.parametrize("begun", [0, 4])
@pytest.mark.spec("M1")
def test_a_silent_server_times_out(api: Api, begun: int) -> None:
    events = api.events(WHOLE)[:begun]
    caught, _ = fault(api, Answer(events, then="stall"), settings=Settings(retries=0, timeout=0.2))
    assert caught.fault in ((ModelFault.CUT, ModelFault.NETWORK) if begun else (ModelFault.NETWORK,))
    assert said(caught)


@pytest.mark.spec("M1")
def test_the_key_is_not_in_the_repr_of_a_model() -> None:
    assert KEY not in repr(ANTHROPIC.open("http://127.0.0.1:1"))
    assert KEY not in str(ANTHROPIC.endpoint("http://127.0.0.1:1"))
