"""A model behind a network: sends requests through pydantic-ai, retries transient failures and streams the reply."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.contract.message import Message
from holdfast.contract.tool import Tool
from holdfast.models import http
from holdfast.models.attachments import can_see
from holdfast.models.dialects import DIALECTS
from holdfast.models.http import http_client
from holdfast.models.port import ModelEvent, ModelFault, ReplyEnded, Retrying, Settings, StopReason, Usage
from holdfast.models.providers import Endpoint
from holdfast.net.network import Network

if TYPE_CHECKING:
    from pydantic_ai.models import Model as WireModel
    from pydantic_ai.models import StreamedResponse

    from holdfast.models.translation import WireRequest

_LOG: Final = logging.getLogger("holdfast")
_INITIAL_DELAY: Final = 1.0
_MAX_DELAY: Final = 60.0
_MAX_RETRY_AFTER: Final = 120.0
"""A longer `Retry-After` fails with a message for the user instead of a silent wait."""
_STOPS: Final[dict[str, StopReason]] = {"stop": "end", "tool_call": "tool_use", "length": "max_tokens"}


@dataclass(frozen=True, slots=True)
class RemoteModel:
    endpoint: Endpoint
    network: Network = field(default_factory=Network, repr=False)
    """Reaches the endpoint, and logs it."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    jitter: Callable[[], float] = field(default=random.random)
    """Returns a number from 0 to 1 that scales the retry delay, so that clients do not retry in lockstep."""
    describe_rejected: bool = True
    """Whether a server that rejects images is asked again, with descriptions of them."""
    _logged: set[str] = field(default_factory=set[str], repr=False)
    _blind: set[str] = field(default_factory=set[str], repr=False)
    """The model's name, once its server has said that it takes no images."""

    @property
    def provider(self) -> str:
        return self.endpoint.provider

    @property
    def name(self) -> str:
        return self.endpoint.name

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        attempt = 1
        sees = self._sees(settings)
        while True:
            failed: list[http.RequestFailure] = []
            async with aclosing(self._attempt(messages, tools, settings, failed, sees=sees)) as events:
                async for event in events:
                    yield event
            if not failed:
                return
            rejected = failed[0].error.fault is ModelFault.NO_MEDIA
            if rejected and self.describe_rejected and sees:
                sees = False
                if failed[0].lasting:
                    self._blind.add(self.name)
                yield Retrying(attempt, 0.0, f"{failed[0].error} The model gets descriptions of them instead.")
                continue
            pause = self._retry_delay(failed[0], attempt)
            if attempt > settings.retries or pause is None:
                raise failed[0].error
            yield Retrying(attempt, pause, str(failed[0].error))
            await self.sleep(pause)
            attempt += 1

    def _retry_delay(self, failed: http.RequestFailure, attempt: int) -> float | None:
        if not failed.retryable:
            return None
        asked = failed.error.retry_after
        if asked is not None:
            return asked if asked <= _MAX_RETRY_AFTER else None
        return min(_INITIAL_DELAY * 2 ** (attempt - 1), _MAX_DELAY) * (0.5 + self.jitter() / 2)

    async def _attempt(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        settings: Settings,
        failed: list[http.RequestFailure],
        *,
        sees: bool,
    ) -> AsyncGenerator[ModelEvent]:
        """Make one request. Yields the events received before a failure and appends the failure to `failed`."""
        from holdfast.models.translation import WireReply, to_wire

        reply = WireReply(self.endpoint, tools)
        begun = False
        stream: StreamedResponse | None = None
        async with http_client(self.endpoint, settings, self.network) as client:
            wire = DIALECTS[self.endpoint.api].build(self.endpoint, client)
            sent = to_wire(messages, tools, self.endpoint, wire.system, settings.foreign_thinking, sees=sees)
            request = self._request(wire, sent, tools, settings)
            try:
                async with request as stream, aclosing(cast(AsyncGenerator[Any], aiter(stream))) as events:
                    async for event in events:
                        begun = True
                        for ours in reply.feed(event):
                            yield ours
            except Exception as error:
                # A connection error after the provider's finish reason is harmless: the reply is complete.
                if stream is None or not _finish_reason(stream):
                    failed.append(http.classify_error(error, self.endpoint, begun=begun, with_media=sent.has_media))
        if not failed and stream is not None and (problem := self._stream_failure(stream)):
            failed.append(problem)
        if failed:
            for ours in reply.abort():
                yield ours
            return
        assert stream is not None
        for ours in reply.finish():
            yield ours
        stop = "tool_use" if reply.has_calls else _STOPS.get(stream.finish_reason or "", "other")
        if stream.finish_reason == "length":
            stop = "max_tokens"
        yield ReplyEnded(stop, _usage(stream, self.endpoint), stream.model_name)

    def _sees(self, settings: Settings) -> bool:
        if settings.vision is not None:
            return settings.vision
        return self.name not in self._blind and can_see(self.endpoint.model)

    def _request(
        self, wire: WireModel[Any], sent: WireRequest, tools: Sequence[Tool], settings: Settings
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.messages import InstructionPart
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        dialect = DIALECTS[self.endpoint.api]
        parameters, notes = dialect.parameters(
            self.endpoint,
            settings,
            cast(dict[str, Any], wire.profile),
            thinking_allowed=not sent.calls_without_thinking,
        )
        for note in notes:
            if note not in self._logged:
                self._logged.add(note)
                _LOG.warning(note)
        definitions = [
            ToolDefinition(
                name=tool.api_name,
                description=tool.description,
                parameters_json_schema=cast(dict[str, Any], tool.input_schema),
                strict=True if dialect.strict and tool.strict else None,
            )
            for tool in tools
        ]
        return model_request_stream(
            wire,
            cast(Any, sent.messages),
            model_settings=cast(Any, parameters),
            model_request_parameters=ModelRequestParameters(
                function_tools=definitions,
                instruction_parts=[InstructionPart(content=sent.system)] if sent.system else [],
            ),
            instrument=False,
        )

    def _stream_failure(self, stream: StreamedResponse) -> http.RequestFailure | None:
        details: dict[str, Any] = stream.provider_details or {}
        if not _finish_reason(stream):
            return http.connection_lost(self.endpoint)
        if stream.finish_reason == "content_filter":
            why = details.get("refusal") or details.get("block_reason") or details.get("finish_reason") or ""
            return http.failed_reply(self.endpoint, ModelFault.REFUSED, "refused to answer", str(why))
        if stream.finish_reason == "error":
            why = details.get("finish_reason") or ""
            return http.failed_reply(self.endpoint, ModelFault.PROTOCOL, "ended its reply with an error", str(why))
        return None


def _finish_reason(stream: StreamedResponse) -> object:
    """Return the finish reason the provider sent; falsy if the stream ended before it."""
    return stream.finish_reason or (stream.provider_details or {}).get("finish_reason")


def _usage(stream: StreamedResponse, endpoint: Endpoint) -> Usage:
    """Return the token counts reported by the provider, with the cost from its price list."""
    counted = stream.usage
    details: dict[str, Any] = counted.details
    thinking = details.get("reasoning_tokens") or details.get("thoughts_tokens") or details.get("thinking_tokens") or 0
    return Usage(
        input=counted.input_tokens,
        output=counted.output_tokens,
        cache_read=counted.cache_read_tokens,
        cache_write=counted.cache_write_tokens,
        thinking=thinking,
        cost=_cost(stream, endpoint),
    )


def _cost(stream: StreamedResponse, endpoint: Endpoint) -> Decimal | None:
    """Return None if the price is unknown: an unlisted model, a self-hosted server, a gateway."""
    if not endpoint.priced or not (stream.usage.input_tokens or stream.usage.output_tokens):
        return None
    try:
        return stream.get().cost().total_price
    except (LookupError, ValueError, AssertionError):
        return None
