"""The connection of one request: it goes to the configured address, takes only events, and keeps our time limits."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from holdfast.models.faults import WrongAnswer
from holdfast.models.providers import Endpoint
from holdfast.models.settings import Settings
from holdfast.net.gateway import Gateway

if TYPE_CHECKING:
    import ssl

    import httpx2


def http_client(endpoint: Endpoint, settings: Settings) -> httpx2.AsyncClient:
    """A connection that goes to the configured address and nowhere else: no proxy, no redirect, no other host."""
    import httpx2

    from holdfast.net.http import GatewayTransport

    limits = httpx2.Timeout(settings.timeout, connect=settings.connect_timeout)
    origin = httpx2.URL(endpoint.base_url)
    certificates = trusted_certificates() if origin.scheme == "https" else False

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
        transport=GatewayTransport(Gateway.for_origin(endpoint.base_url), verify=certificates),
        event_hooks={"request": [before], "response": [after]},
    )


@cache
def trusted_certificates() -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)
