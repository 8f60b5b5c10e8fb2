"""Transcription by a server with OpenAI's API: the request on the wire, and every answer."""

from __future__ import annotations

import json
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.audio import TranscriptionVerbose
from pydantic import TypeAdapter

from holdfast.contract.errors import HoldfastError
from holdfast.contract.media import Segment, Transcript
from holdfast.models.providers import Endpoint
from holdfast.models.transcription import ProviderTranscription, multipart
from holdfast.net.network import Network
from holdfast.net.network_log import NetworkLog, read_log
from tests.models.servers.http import Answer, Asked, Server, serving
from tests.runtime.support import run

KEY = "sk-very-secret-key-0123456789"
AUDIO = b"OggS\r\n--" + bytes(range(256))
VERBOSE = {
    "task": "transcribe", "language": "english", "duration": 3.4, "text": " Hello there. ",
    "segments": [
        {"id": 0, "seek": 0, "start": 0.0, "end": 1.5, "text": " Hello", "tokens": [1], "temperature": 0.0,
         "avg_logprob": -0.3, "compression_ratio": 1.0, "no_speech_prob": 0.0},
        {"id": 1, "seek": 0, "start": 1.5, "end": 3.4, "text": " there.", "tokens": [1], "temperature": 0.0,
         "avg_logprob": -0.3, "compression_ratio": 1.0, "no_speech_prob": 0.0},
    ],
}  # fmt: skip


def answer(body: object, status: int = 200) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer([raw], status, {"content-type": "application/json"})


def endpoint(server: Server, **changes: Any) -> Endpoint:
    fields: dict[str, Any] = {
        "provider": "openai", "api": "openai", "model": "whisper-1", "base_url": f"{server.url}/v1", "key": KEY,
        "key_from": "SOME_API_KEY",
    }  # fmt: skip
    return Endpoint(**{**fields, **changes})


async def transcribe(
    *answers: Answer, network: Network | None = None, language: str | None = None, **changes: Any
) -> tuple[Transcript, list[Asked]]:
    async with serving(*answers) as server:
        service = ProviderTranscription(endpoint(server, **changes), network or Network(), user_agent="holdfast/test")
        done = await service.transcribe(AUDIO, "audio/ogg", language=language, seconds=60, by="audio.transcribe 1")
    return done, server.asked


def form(kind: str, body: bytes) -> dict[str, Message]:
    """The parts of a form by name, read by the standard library."""
    parsed = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    parts = cast("list[Message]", parsed.get_payload())
    return {str(part.get_param("name", header="content-disposition")): part for part in parts}


@pytest.mark.spec("B11i")
def test_the_file_is_sent_as_a_form_and_the_transcript_returned() -> None:
    TypeAdapter(TranscriptionVerbose).validate_python(VERBOSE)
    done, (asked,) = run(transcribe(answer(VERBOSE), language="en"))
    assert done == Transcript(
        text="Hello there.",
        language="english",
        seconds=3.4,
        segments=(Segment(start=0.0, end=1.5, text="Hello"), Segment(start=1.5, end=3.4, text="there.")),
    )
    assert (asked.method, asked.path) == ("POST", "/v1/audio/transcriptions")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["user-agent"] == "holdfast/test"
    parts = form(asked.headers["content-type"], asked.body)
    assert {name: part.get_payload() for name, part in parts.items() if name != "file"} == {
        "model": "whisper-1",
        "response_format": "verbose_json",
        "language": "en",
    }
    assert parts["file"].get_filename() == "audio.ogg"
    assert parts["file"].get_content_type() == "audio/ogg"
    assert AUDIO in asked.body


def test_models_without_times_are_asked_for_text_only() -> None:
    done, (asked,) = run(transcribe(answer({"text": "Hi."}), model="gpt-4o-transcribe"))
    assert done == Transcript(text="Hi.")
    parts = form(asked.headers["content-type"], asked.body)
    assert parts["response_format"].get_payload() == "json"
    assert "language" not in parts


def test_a_server_without_a_key_gets_none() -> None:
    _, (asked,) = run(transcribe(answer({"text": ""}), key=None))
    assert "authorization" not in asked.headers


@pytest.mark.spec("B11i")
def test_the_request_is_logged_under_the_call(tmp_path: Path) -> None:
    log = NetworkLog(tmp_path / "network.jsonl")
    run(transcribe(answer({"text": ""}), network=Network(log=log)))
    log.close()
    (entry,) = read_log(tmp_path / "network.jsonl")
    assert entry is not None
    assert (entry.by, entry.host, entry.outcome) == ("audio.transcribe 1", "127.0.0.1", "allowed")


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (answer({"error": {"message": "x"}}, 401), "openai did not accept the key (401); check SOME_API_KEY."),
        (answer({}, 404), "no transcription or no model 'whisper-1'"),
        (answer({}, 413), "too large for openai (413)"),
        (answer({}, 429), "rate-limiting requests (429); try again later."),
        (answer(b"<html>", 502), "overloaded or unavailable (502)"),
        (
            answer({"error": {"message": f"bad\n\x1b[2Jfile {KEY}"}}, 400),
            "openai rejected the recording (400): bad [2Jfile [key].",
        ),
        (answer({"error": "plain"}, 422), "(422): plain."),
        (answer(b"not json"), "an answer that is no transcription"),
        (answer({"txt": 1}), "an answer that is no transcription"),
        (answer(b"[" * 100_000), "an answer that is no transcription"),
        (Answer(status=302, headers={"location": "https://evil.example/"}), "redirected the request"),
        (Answer([b"x"], then="cut"), "ended its answer too early"),
    ],
    ids=["401", "404", "413", "429", "502", "400", "422", "text", "shape", "deep", "redirect", "cut"],
)
def test_every_failure_of_the_server_is_one_sentence_without_the_key(reply: Answer, told: str) -> None:
    with pytest.raises(HoldfastError) as failed:
        run(transcribe(reply))
    assert told in str(failed.value)
    assert KEY not in str(failed.value) and "\n" not in str(failed.value)


def test_times_that_are_none_are_left_out() -> None:
    hostile = {
        "text": "x" * 2_000_000,
        "duration": 1e308,
        "language": "e" * 1000,
        "segments": [{"start": -1, "end": 5}],
    }
    done, _ = run(transcribe(answer(hostile)))
    assert (len(done.text), done.seconds, done.segments, len(done.language or "")) == (1_000_000, None, (), 40)


def test_a_server_that_does_not_answer_is_given_up() -> None:
    async def main() -> None:
        async with serving(Answer(then="stall")) as server:
            service = ProviderTranscription(endpoint(server), Network(), user_agent="x")
            with pytest.raises(HoldfastError, match="seconds"):
                await service.transcribe(AUDIO, "audio/ogg", language=None, seconds=0.3, by="x")

    run(main())


@given(st.binary(max_size=500))
def test_no_file_breaks_out_of_its_part(data: bytes) -> None:
    kind, body = multipart({"model": "m"}, "audio.wav", "audio/wav", data)
    boundary = kind.partition("boundary=")[2].encode()
    assert body.count(b"--" + boundary) == 3
    assert body.endswith(data + b"\r\n--" + boundary + b"--\r\n")
