"""The media tools as configured: which models they use, which hosts they reach, and what is missing."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from holdfast import Config, Tool
from holdfast.contract.media import Transcriber, Vision
from holdfast.contract.tool import Reach
from holdfast.factory.builtin import configured_tools
from holdfast.factory.media import media_settings
from holdfast.factory.runtime import open_runtime
from holdfast.net.network_log import NETWORK_LOG, read_log
from tests.models.servers import chat
from tests.models.servers.http import Answer, serving
from tests.models.servers.script import Say, Script
from tests.runtime.support import run, yes
from tests.tools.media.samples import audio, image

KEY = "sk-very-secret-key-0123456789"


def configured(name: str, table: dict[str, object]) -> Tool:
    return next(tool for tool in configured_tools(Config.from_dict(table)) if tool.name == name)


def hosts(tool: Tool) -> tuple[str, ...] | None:
    return None if tool.reaches is None else tool.reaches({}).hosts


@pytest.mark.spec("B11i")
@pytest.mark.parametrize(
    ("table", "reached"),
    [
        ({}, None),
        ({"model": {"name": "anthropic:claude-opus-4-5"}}, ("api.anthropic.com",)),
        ({"model": {"name": "ollama:llava"}}, ("127.0.0.1:11434",)),
        ({"model": {"name": "anthropic:x"}, "media": {"vision_model": "local"}}, None),
        ({"model": {"name": "anthropic:x"}, "media": {"vision_model": "openai:gpt-5"}}, ("api.openai.com",)),
        ({"media": {"vision_model": "operator"}}, None),
        ({"model": {"name": "nobody:x"}}, None),
        ({"model": {"name": "ollama:llama3"}}, None),
        ({"model": {"name": "anthropic:x", "vision": False}}, None),
        ({"model": {"name": "anthropic:x", "providers": {"anthropic": {"vision": False}}}}, None),
        ({"model": {"name": "ollama:llama3", "vision": True}}, ("127.0.0.1:11434",)),
        ({"model": {"name": "ollama:x", "vision": False}, "media": {"vision_model": "ollama:x"}}, ("127.0.0.1:11434",)),
    ],
)
def test_images_are_shown_to_the_configured_model_or_to_none(
    table: dict[str, object], reached: tuple[str, ...] | None
) -> None:
    tool = configured("image.analyze", table)
    assert hosts(tool) == reached
    assert tool.presets == (("$readonly",) if reached is None else ())


def test_recordings_go_to_the_configured_provider_or_to_the_model_on_this_machine() -> None:
    provider = configured("audio.transcribe", {"media": {"transcription_model": "openai:whisper-1"}})
    assert provider.reaches is not None
    assert provider.reaches({}) == Reach(("api.openai.com",))
    local = configured("audio.transcribe", {"media": {"whisper_model": "/models/whisper"}})
    assert local.reaches is None
    assert local.unavailable is not None and local.unavailable() is None
    nothing = configured("audio.transcribe", {})
    assert nothing.unavailable is not None and "media.whisper_model" in str(nothing.unavailable())


@pytest.mark.parametrize(
    ("tool", "option", "value", "told"),
    [
        ("image.analyze", "vision_model", "nobody:x", "There is no model provider 'nobody' (media.vision_model is"),
        ("image.analyze", "vision_model", "openai", "media.vision_model is 'openai'; write it as 'provider:model'"),
        ("audio.transcribe", "transcription_model", "anthropic:x", "has no transcription"),
        ("audio.transcribe", "transcription_model", "opnai:x", "did you mean 'openai'?"),
    ],
)
def test_a_model_that_cannot_be_used_makes_the_tool_unavailable_with_the_reason(
    tool: str, option: str, value: str, told: str
) -> None:
    made = configured(tool, {"media": {option: value}})
    assert made.unavailable is not None
    assert told in str(made.unavailable())


def test_limits_and_folder_come_from_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    table = {"max_bytes": 10, "max_pixels": 20, "max_seconds": 30.0, "whisper_model": "~/whisper"}
    settings = media_settings(Config.from_dict({"media": table}).media)
    assert (settings.max_bytes, settings.max_pixels, settings.max_seconds) == (10, 20, 30.0)
    assert settings.whisper_model == Path("/home/ann/whisper")


@pytest.mark.spec("B11i")
def test_both_providers_are_reached_through_the_network_of_the_runtime_with_their_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("LOCAL_KEY", KEY)
    root = tmp_path / "project"
    root.mkdir()
    (root / "holdfast.toml").write_text("")
    user = tmp_path / "config" / "holdfast" / "config.toml"
    user.parent.mkdir(parents=True)

    async def main() -> None:
        seen = Answer(chat.events(Script((Say("A blue field."),))))
        heard = Answer([b'{"text": "Hello."}'], headers={"content-type": "application/json"})
        async with serving(seen, heard) as server:
            user.write_text(
                '[tools]\nprofile = "full"\n[media]\nvision_model = "own:eye"\ntranscription_model = "own:ear"\n'
                f'[model.providers.own]\napi = "openai-chat"\nbase_url = "{server.url}/v1"\n'
                'api_key = { env = "LOCAL_KEY" }\n'
            )
            async with open_runtime(root) as runtime:
                runtime.attach(yes())
                picture = {"data": b64encode(image()).decode(), "mimeType": "image/png"}
                looked = await runtime.call("image.analyze", picture)
                spoken = {"data": b64encode(audio()).decode(), "mimeType": "audio/ogg"}
                listened = await runtime.call("audio.transcribe", spoken)
                assert looked.success and "│ A blue field." in looked.output, looked
                assert listened.success and "│ Hello." in listened.output, listened
                for service in (Vision, Transcriber):
                    assert runtime.services.get(service) is runtime.services.get(service)
            first, second = server.asked
            chat.check(first.json)
            assert (first.path, second.path) == ("/v1/chat/completions", "/v1/audio/transcriptions")
            assert first.headers["authorization"] == second.headers["authorization"] == f"Bearer {KEY}"
            assert audio() in second.body

    run(main())
    (log,) = (tmp_path / "state").rglob(NETWORK_LOG)
    entries = [entry for entry in read_log(log) if entry is not None]
    assert entries[0].by == "model own" and entries[1].by.startswith("audio.transcribe ")
    assert all(entry.outcome == "allowed" for entry in entries)
