"""Validates bodies and events against the official SDKs' types, so that the fake servers cannot drift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter


def exact(adapter: TypeAdapter[Any], body: object) -> None:
    """Every field is valid and known to the SDK: an unknown one would be dropped silently."""
    read = _exhausted(adapter.validate_python(body))
    assert read == body, f"the SDK's type changed the body:\n{read}\n{body}"


def fits(adapter: TypeAdapter[Any], event: object) -> None:
    """The SDK's model accepts the response, with strict types."""
    adapter.validate_python(event)


def _exhausted(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value
    if isinstance(value, dict):
        return {key: _exhausted(item) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_exhausted(item) for item in cast(list[Any], value)]
    if isinstance(value, Iterator):
        return [_exhausted(item) for item in cast(Iterator[Any], value)]
    return value
