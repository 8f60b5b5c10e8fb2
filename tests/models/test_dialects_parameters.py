"""Parameters in each provider's terms: tokens, temperature, thinking, caching, and precedence."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from holdfast.config.config import ModelConfig, ModelProvider
from holdfast.contract.message import Message, Text
from holdfast.models.dialects import level_of, max_output, max_tokens
from holdfast.models.from_config import settings_for
from holdfast.models.port import Settings
from tests.models.exchanges import HELLO, body
from tests.models.servers.apis import ANTHROPIC, CHAT, GOOGLE, OPENAI, VERTEX, Api


def set_to(**values: Any) -> Settings:
    return Settings(**values)


@pytest.mark.parametrize(
    ("wanted", "limit", "used"),
    [
        ("50%", 64_000, 32_000),
        ("1%", 64_000, 1024),
        ("100%", 65_537, 65_537),
        ("33%", 100_001, 33_000),
        ("50%", None, 4000),
        ("half", 64_000, 4000),
        (9000, 64_000, 9000),
        (9000, None, 9000),
        (None, 64_000, None),
        ("50%", 512, 512),
    ],
)
@pytest.mark.spec("D7")
def test_max_tokens_is_a_number_or_a_percentage_of_the_maximum_output(wanted: Any, limit: Any, used: Any) -> None:
    assert max_tokens(wanted, limit) == (used, None)


@pytest.mark.spec("D7")
def test_max_tokens_above_the_maximum_output_is_clamped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "holdfast"):
        made = body(OPENAI, settings=set_to(max_tokens=1_000_000))
    assert made["max_output_tokens"] == 128_000
    assert caplog.messages == ["max_tokens is 1000000, but the model writes at most 128000; 128000 is used."]


@pytest.mark.spec("D7")
def test_every_api_gets_max_tokens_under_its_own_name() -> None:
    wanted = set_to(max_tokens=5000, thinking=None)
    assert body(ANTHROPIC, settings=wanted)["max_tokens"] == 5000
    assert body(OPENAI, settings=wanted)["max_output_tokens"] == 5000
    assert body(CHAT, settings=wanted)["max_tokens"] == 5000
    assert body(GOOGLE, settings=wanted)["generationConfig"]["maxOutputTokens"] == 5000
    assert body(CHAT, settings=set_to())["max_tokens"] == 4000
    assert max_output("no-such-model") is None


@pytest.mark.spec("D7")
def test_temperature_is_sent_only_if_set_and_accepted(caplog: pytest.LogCaptureFixture) -> None:
    warm = set_to(temperature=0.3, thinking=None)
    assert body(ANTHROPIC, settings=warm)["temperature"] == 0.3
    assert body(OPENAI, settings=warm, model="gpt-4o")["temperature"] == 0.3
    assert body(CHAT, settings=warm)["temperature"] == 0.3
    assert body(GOOGLE, settings=warm)["generationConfig"]["temperature"] == 0.3
    assert "temperature" not in body(CHAT, settings=set_to())
    assert not caplog.messages
    assert "temperature" not in body(ANTHROPIC, settings=set_to(temperature=0.3))
    assert "temperature" not in body(OPENAI, settings=set_to(temperature=0.3))
    assert caplog.messages == [
        f"{name} does not accept a temperature while thinking; it is omitted."
        for name in ("anthropic:claude-opus-4-5", "openai:gpt-5")
    ]


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("level", "budget", "effort"),
    [
        ("minimal", 1024, "low"),
        ("low", 2048, "low"),
        ("medium", 8192, "medium"),
        ("high", 16_384, "high"),
        ("max", 32_768, "max"),
    ],
)
@pytest.mark.spec("D7")
def test_anthropic_thinks_by_budget_or_by_effort(level: Any, budget: int, effort: str) -> None:
    wanted = set_to(thinking=level, max_tokens=50_000)
    older = body(ANTHROPIC, settings=wanted, model="claude-haiku-4-5")
    assert older["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert "output_config" not in older
    newer = body(ANTHROPIC, settings=wanted, model="claude-opus-4-6")
    assert newer["thinking"] == ADAPTIVE
    assert newer["output_config"] == {"effort": effort}


@pytest.mark.spec("D7")
def test_anthropics_own_parameters_override_the_general_ones() -> None:
    own = set_to(thinking="low", thinking_budget=20_000)
    assert body(ANTHROPIC, settings=own)["thinking"]["budget_tokens"] == 20_000
    assert body(ANTHROPIC, settings=set_to(thinking="low", effort="xhigh"), model="claude-opus-5")["output_config"] == {
        "effort": "xhigh"
    }
    # A model that takes no budget any more gets the effort that is nearest to it.
    fifth = body(ANTHROPIC, settings=own, model="claude-opus-5")
    assert (fifth["thinking"], fifth["output_config"]) == (ADAPTIVE, {"effort": "high"})
    for off in (set_to(thinking=None), set_to(thinking="high", thinking_budget=0)):
        assert "thinking" not in body(ANTHROPIC, settings=off)
        assert body(ANTHROPIC, settings=off, model="claude-opus-5")["thinking"] == {"type": "disabled"}
    assert "thinking" not in body(ANTHROPIC, settings=set_to(), model="claude-3-haiku-20240307")


@pytest.mark.spec("D7")
def test_a_thinking_budget_leaves_tokens_for_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    made = body(ANTHROPIC, settings=set_to(max_tokens=8000, thinking_budget=20_000))
    assert (made["max_tokens"], made["thinking"]["budget_tokens"]) == (21_024, 20_000)
    assert len(caplog.messages) == 1
    made = body(ANTHROPIC, settings=set_to(max_tokens="100%", thinking_budget=2_000_000))
    assert (made["max_tokens"], made["thinking"]["budget_tokens"]) == (64_000, 62_976)


@pytest.mark.parametrize(
    ("level", "effort"),
    [("minimal", "minimal"), ("low", "low"), ("medium", "medium"), ("high", "high"), ("max", "high")],
)
@pytest.mark.spec("D7")
def test_openai_reasons_by_effort_and_returns_encrypted_reasoning(level: Any, effort: str) -> None:
    made = body(OPENAI, settings=set_to(thinking=level))
    assert made["reasoning"] == {"effort": effort, "summary": "auto"}
    assert made["include"] == ["reasoning.encrypted_content"]
    assert made["store"] is False


@pytest.mark.spec("D7")
def test_openais_own_parameter_wins_and_is_not_sent_to_models_without_reasoning() -> None:
    assert body(OPENAI, settings=set_to(thinking="low", reasoning="high"))["reasoning"]["effort"] == "high"
    assert body(OPENAI, settings=set_to(thinking=None), model="gpt-5.2")["reasoning"] == {"effort": "none"}
    assert body(OPENAI, settings=set_to(reasoning="none"), model="gpt-5.2")["reasoning"] == {"effort": "none"}
    assert body(OPENAI, settings=set_to(thinking=5000))["reasoning"]["effort"] == "medium"
    assert "reasoning" not in body(OPENAI, settings=set_to(), model="gpt-4o")


@pytest.mark.parametrize("api", [GOOGLE, VERTEX], ids=lambda api: api.name)
@pytest.mark.spec("D7")
def test_gemini_thinks_by_budget_or_by_level(api: Api) -> None:
    def thinking(model: str, **values: Any) -> Any:
        return body(api, settings=set_to(**values), model=model)["generationConfig"].get("thinkingConfig")

    assert thinking("gemini-2.5-pro", thinking="high") == {"include_thoughts": True, "thinking_budget": 16_384}
    assert thinking("gemini-2.5-pro", thinking="low", thinking_budget=4096)["thinking_budget"] == 4096
    assert thinking("gemini-2.5-flash", thinking="max")["thinking_budget"] == 24_576
    assert thinking("gemini-2.5-pro", thinking="max")["thinking_budget"] == 32_768
    assert thinking("gemini-2.5-flash", thinking=None) == {"thinking_budget": 0}
    assert thinking("gemini-3-pro-preview", thinking="high") == {"include_thoughts": True, "thinking_level": "HIGH"}
    assert thinking("gemini-3-pro-preview", thinking="low")["thinking_level"] == "LOW"
    assert thinking("gemini-3-pro-preview", thinking_budget=2000)["thinking_level"] == "LOW"
    assert thinking("gemini-2.0-flash", thinking="high") is None


@pytest.mark.spec("D7")
def test_chat_servers_get_only_their_own_thinking_parameter() -> None:
    assert "reasoning_effort" not in body(CHAT, settings=set_to(thinking="high"))
    assert body(CHAT, settings=set_to(reasoning="low"))["reasoning_effort"] == "low"
    config = ModelConfig(name="ollama:m", providers={"ollama": ModelProvider(thinking="medium")})
    assert settings_for(config, "ollama").reasoning == "medium"
    assert settings_for(config, "anthropic").reasoning is None


@pytest.mark.parametrize(("retention", "kept"), [("short", "5m"), ("long", "1h")])
@pytest.mark.spec("D7")
def test_anthropics_cache_is_marked_on_the_last_tool_the_system_and_the_whole(retention: Any, kept: str) -> None:
    mark = {"type": "ephemeral", "ttl": kept}
    asked = [Message("system", (Text("Be brief."),)), *HELLO]
    made = body(ANTHROPIC, asked, settings=set_to(cache_retention=retention))
    assert [tool.get("cache_control") for tool in made["tools"]] == [None, mark]
    assert made["system"][-1]["cache_control"] == mark
    assert made["cache_control"] == mark


@pytest.mark.spec("D7")
def test_openais_cache_key_is_that_of_the_conversation() -> None:
    def cache(**values: Any) -> tuple[Any, Any]:
        made = body(OPENAI, settings=set_to(cache_key="chat-1", **values))
        return made.get("prompt_cache_key"), made.get("prompt_cache_retention")

    assert cache(cache_retention="short") == ("chat-1", "in_memory")
    assert cache(cache_retention="long") == ("chat-1", "24h")
    assert cache(cache_retention="none") == (None, None)
    assert "prompt_cache_retention" not in body(OPENAI, settings=set_to(), model="gpt-5.6")


@pytest.mark.spec("D7")
def test_caching_can_be_disabled() -> None:
    for api in (ANTHROPIC, OPENAI):
        assert "cache" not in str(body(api, settings=set_to(cache_retention="none", cache_key="chat-1")))


@pytest.mark.spec("D7")
def test_provider_settings_override_general_settings() -> None:
    own = ModelProvider(
        thinking="low",
        thinking_budget=20_000,
        reasoning="high",
        effort="max",
        max_tokens=100,
        temperature=0.1,
        cache_retention="long",
    )
    config = ModelConfig(thinking="high", max_tokens="10%", temperature=0.9, retries=2, providers={"anthropic": own})
    mine = settings_for(config, "anthropic", "key")
    assert (mine.thinking, mine.thinking_budget, mine.reasoning, mine.effort) == ("low", 20_000, "high", "max")
    assert (mine.max_tokens, mine.temperature, mine.cache_retention) == (100, 0.1, "long")
    assert (mine.cache_key, mine.retries) == ("key", 2)
    other = settings_for(config, "openai")
    assert (other.thinking, other.thinking_budget, other.max_tokens, other.temperature) == ("high", None, "10%", 0.9)


@pytest.mark.spec("D7")
def test_thinking_is_disabled_by_false_and_by_zero() -> None:
    assert settings_for(ModelConfig(thinking=False), "openai").thinking is None
    assert settings_for(ModelConfig(thinking=0), "openai").thinking is None
    config = ModelConfig(thinking="high", providers={"openai": ModelProvider(thinking=False)})
    assert settings_for(config, "openai").thinking is None
    assert settings_for(config, "google").thinking == "high"


@pytest.mark.spec("D7")
def test_a_budget_maps_to_its_level() -> None:
    bounds = {256: "minimal", 4096: "low", 12_288: "medium", 24_576: "high", 24_577: "max", 257: "low"}
    assert {budget: level_of(budget) for budget in bounds} == bounds
