"""Tool lists in the formats of providers, and their cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.contract.json import encode_json
from holdfast.contract.tool import Tool
from holdfast.registry.provider_lists import Format, ProviderListCache, provider_list
from holdfast.registry.registry import Registry
from tests.quick import least

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
OUTPUT = {"type": "object", "properties": {"lines": {"type": "integer"}}}
STRICT = Tool(name="file.read", description="Reads", input_schema=SCHEMA, output_schema=OUTPUT, strict=True)
LOOSE = Tool(name="calculator", input_schema=SCHEMA, output_schema={"type": "number"})


@pytest.mark.spec("S3")
@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        (
            "openai",
            [
                {"type": "function", "name": "calculator", "description": "", "parameters": SCHEMA},
                {
                    "type": "function",
                    "name": "file--read",
                    "description": "Reads",
                    "parameters": SCHEMA,
                    "strict": True,
                },
            ],
        ),
        (
            "openai-chat",
            [
                {"type": "function", "function": {"name": "calculator", "description": "", "parameters": SCHEMA}},
                {
                    "type": "function",
                    "function": {
                        "name": "file--read",
                        "description": "Reads",
                        "parameters": SCHEMA,
                        "strict": True,
                    },
                },
            ],
        ),
        (
            "anthropic",
            [
                {"name": "calculator", "description": "", "input_schema": SCHEMA},
                {"name": "file--read", "description": "Reads", "input_schema": SCHEMA},
            ],
        ),
        (
            "gemini",
            [
                {
                    "functionDeclarations": [
                        {"name": "calculator", "description": "", "parametersJsonSchema": SCHEMA},
                        {"name": "file--read", "description": "Reads", "parametersJsonSchema": SCHEMA},
                    ]
                }
            ],
        ),
        (
            "mcp",
            [
                {"name": "calculator", "description": "", "inputSchema": SCHEMA},
                {"name": "file--read", "description": "Reads", "inputSchema": SCHEMA, "outputSchema": OUTPUT},
            ],
        ),
    ],
)
def test_each_provider_gets_its_own_format_and_only_openai_gets_strict(
    provider: Format, expected: Sequence[dict[str, Any]]
) -> None:
    assert provider_list([STRICT, LOOSE], provider) == expected


@pytest.mark.spec("S3", "T3")
def test_the_schema_is_passed_through_unchanged() -> None:
    (entry,) = provider_list([STRICT], "anthropic")
    assert entry["input_schema"] is SCHEMA


@pytest.mark.spec("R3")
@pytest.mark.parametrize("provider", ["openai", "openai-chat", "anthropic", "gemini", "mcp"])
def test_the_list_does_not_depend_on_registration_order(provider: Format) -> None:
    tools = [Tool(name=f"tool.n{number}", input_schema=SCHEMA) for number in (3, 1, 2)]
    forwards = encode_json(provider_list(tools, provider))
    assert encode_json(provider_list(reversed(tools), provider)) == forwards
    assert provider_list([], provider) == []


@pytest.mark.spec("R3")
def test_a_list_is_cached_until_the_registry_changes() -> None:
    registry = Registry()
    registry.register([STRICT, LOOSE])
    listing = ProviderListCache(registry)
    first = listing.get("openai", "me", registry.list)
    assert listing.get("openai", "me", registry.list) is first
    only = listing.get("openai", "someone else", lambda: [LOOSE])
    assert [entry["name"] for entry in only] == ["calculator"]
    assert listing.get("anthropic", "me", registry.list) != first
    registry.unregister("calculator")
    second = listing.get("openai", "me", registry.list)
    assert [entry["name"] for entry in second] == ["file--read"]
    registry.set_policy(None)
    assert listing.get("openai", "me", registry.list) is not second


@pytest.mark.spec("R3")
def test_the_cache_does_not_grow_without_limit() -> None:
    registry = Registry()
    registry.register(LOOSE)
    listing = ProviderListCache(registry)
    kept = {id(entry): entry for number in range(2000) for entry in [listing.get("mcp", number, registry.list)]}
    again = [listing.get("mcp", number, registry.list) for number in range(2000)]
    assert sum(id(entry) in kept for entry in again) < 300


@pytest.mark.spec("R3")
def test_a_cached_list_costs_almost_nothing() -> None:
    registry = Registry()
    registry.register([{"name": f"t.{number}"} for number in range(200)])
    listing = ProviderListCache(registry)

    def get(lists: ProviderListCache) -> object:
        return lists.get("openai", ("agent", None), registry.list)

    get(listing)
    assert least(lambda: get(listing), 200) * 10 < least(lambda: get(ProviderListCache(registry)), 20)


@pytest.mark.spec("R9")
def test_tools_are_chosen_once_per_key_and_again_after_a_change() -> None:
    registry = Registry()
    listing = ProviderListCache(registry)
    asked: list[int] = []

    def choose() -> tuple[Tool, ...]:
        asked.append(registry.revision)
        return registry.list()

    registry.register(Tool(name="a"))
    assert listing.tools("x", choose) is listing.tools("x", choose)
    listing.tools("y", choose)
    assert len(asked) == 2
    registry.register(Tool(name="b"))
    assert [tool.name for tool in listing.tools("x", choose)] == ["a", "b"]


@pytest.mark.spec("R9")
def test_a_choice_made_before_a_change_is_not_cached_after_it() -> None:
    registry = Registry()
    listing = ProviderListCache(registry)

    def choose() -> tuple[Tool, ...]:
        before = registry.list()
        registry.register(Tool(name=f"t{registry.revision}"))
        listing.tools("other", registry.list)  # another thread asks in the meantime
        return before

    listing.tools("x", choose)
    assert listing.tools("x", registry.list) == registry.list()
