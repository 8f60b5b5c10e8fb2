"""One provider's client of pydantic-ai for one request: our own connection, our own limits, no habits of the SDKs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.models.endpoint import Endpoint
from holdfast.models.faults import WrongAnswer
from holdfast.models.settings import Settings

if TYPE_CHECKING:
    import ssl

    import httpx2
    from pydantic_ai.models import Model

NO_KEY: Final = "not-needed"
"""SDKs insist on a key where a server wants none."""
_AS_GIVEN: Final[dict[str, Any]] = {
    "json_schema_transformer": None,
    "anthropic_binds_thinking_blocks": False,
    "google_supports_strict_tool_definition": False,
    "openai_chat_streaming_requires_finish_reason": True,
    "openai_chat_supports_max_completion_tokens": False,
}
"""Schemas go out as they are, no request is silently repeated, and a stream without an end is a cut one."""


@asynccontextmanager
async def connected(endpoint: Endpoint, settings: Settings) -> AsyncGenerator[Model[Any]]:
    async with http_client(endpoint, settings) as client:
        yield _BUILD[endpoint.api](endpoint, client)


def http_client(endpoint: Endpoint, settings: Settings) -> httpx2.AsyncClient:
    """A connection that goes to the configured address and nowhere else: no proxy, no redirect, no other host."""
    import httpx2

    limits = httpx2.Timeout(settings.timeout, connect=settings.connect_timeout)
    origin = httpx2.URL(endpoint.base_url)

    async def before(request: httpx2.Request) -> None:
        if (request.url.scheme, request.url.netloc) != (origin.scheme, origin.netloc):
            raise WrongAnswer(f"A request for {endpoint.provider} was about to go to another address than its own.")
        request.extensions = {**request.extensions, "timeout": limits.as_dict()}

    async def after(response: httpx2.Response) -> None:
        kind = response.headers.get("content-type", "")
        if response.is_success and not kind.lower().startswith("text/event-stream"):
            raise WrongAnswer(
                f"{endpoint.provider} answered with {kind.partition(';')[0] or 'nothing'} instead of events; "
                f"check that {endpoint.base_url} speaks the '{endpoint.api}' API."
            )
        if response.is_redirect:
            raise WrongAnswer(
                f"{endpoint.provider} sent the request on to another address, which is not followed; "
                "set the final address as `base_url`."
            )

    return httpx2.AsyncClient(
        timeout=limits,
        trust_env=False,
        follow_redirects=False,
        verify=_trusted() if origin.scheme == "https" else False,
        event_hooks={"request": [before], "response": [after]},
    )


@cache
def _trusted() -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


def _anthropic(endpoint: Endpoint, client: httpx2.AsyncClient) -> Model[Any]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    sdk = AsyncAnthropic(
        api_key=endpoint.key or NO_KEY, base_url=endpoint.base_url, max_retries=0, http_client=client
    )
    return AnthropicModel(
        endpoint.model, provider=AnthropicProvider(anthropic_client=sdk), profile=cast(Any, _AS_GIVEN)
    )


def _openai(endpoint: Endpoint, client: httpx2.AsyncClient) -> Model[Any]:
    from openai import AsyncOpenAI
    from pydantic_ai.providers.openai import OpenAIProvider

    from holdfast.models.responses import Responses

    sdk = AsyncOpenAI(api_key=endpoint.key or NO_KEY, base_url=endpoint.base_url, max_retries=0, http_client=client)
    return Responses(endpoint.model, provider=OpenAIProvider(openai_client=sdk), profile=cast(Any, _AS_GIVEN))


def _chat(endpoint: Endpoint, client: httpx2.AsyncClient) -> Model[Any]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    sdk = AsyncOpenAI(api_key=endpoint.key or NO_KEY, base_url=endpoint.base_url, max_retries=0, http_client=client)
    return OpenAIChatModel(
        endpoint.model,
        provider=OpenAICompatibleProvider(endpoint.provider, openai_client=sdk),
        profile=cast(Any, _AS_GIVEN),
    )


def _google(endpoint: Endpoint, client: httpx2.AsyncClient) -> Model[Any]:
    from google.genai import Client
    from google.genai.types import HttpOptions, HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider
    from pydantic_ai.providers.google_cloud import GoogleCloudProvider

    options = HttpOptions(
        base_url=endpoint.base_url,
        api_version="v1beta1" if endpoint.api == "vertex" else "v1beta",
        httpx_async_client=client,
        # For connections it prepares and never makes; it would read all certificates twice for them.
        client_args={"verify": _trusted()},
        async_client_args={"verify": _trusted(), "ssl": _trusted()},
        retry_options=HttpRetryOptions(attempts=1),
    )
    if endpoint.api == "google":
        sdk = Client(vertexai=False, api_key=endpoint.key or NO_KEY, http_options=options)
        provider: Any = GoogleProvider(client=sdk)
    else:
        from google.oauth2.credentials import Credentials

        token: Any = Credentials(token=endpoint.key or NO_KEY)
        sdk = Client(
            vertexai=True, credentials=token, project=endpoint.project, location=endpoint.location, http_options=options
        )
        provider = GoogleCloudProvider(client=sdk)
    return GoogleModel(endpoint.model, provider=provider, profile=cast(Any, _AS_GIVEN))


_BUILD: Final = {
    "anthropic": _anthropic,
    "openai": _openai,
    "openai-chat": _chat,
    "google": _google,
    "vertex": _google,
}
