"""The HTTP client of a model request, and the translation of its failures into messages with a next step."""

from __future__ import annotations

import re
import ssl
from functools import cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.models.port import ModelError, ModelFault, Settings
from holdfast.models.providers import Endpoint
from holdfast.net.network import Network

if TYPE_CHECKING:
    import httpx2

_MAX_DETAIL: Final = 300
_CONTEXT_EXCEEDED: Final = re.compile(r"context (size|length|window)|prompt is too long|too many tokens", re.IGNORECASE)
_TOOLS: Final = r"[`'\"]?(tools|functions|tool[ _-]?(use|calls|calling)|function[ _-]?(calls|calling))[`'\"]?"
_UNQUALIFIED: Final = r"(?!\w|-|\[|\.\w| (when|if|while|unless|together)\b| with (?!this))"
"""Excludes complaints about one field of a tool, or about tools combined with something else."""
_NO_TOOLS: Final = re.compile(
    rf"(not|n['’]t) support (the )?{_TOOLS}{_UNQUALIFIED}"  # Ollama, gateways
    r"|\btools param requires --jinja|unsupported param: tools|cannot use tools with stream"  # llama.cpp, by version
    r"|tool choice requires --enable-auto-tool-choice"  # vLLM
    r"|no endpoints found that support tool use"  # OpenRouter
    rf"|unrecognized request argument supplied: tools{_UNQUALIFIED}"  # gateways in front of old models
    r"|(?<!parallel )(?<!multiple )(?<!strict )(?<![\w`'\".-])"
    rf"{_TOOLS} (is|are) (currently )?not (supported|enabled){_UNQUALIFIED}",
    re.IGNORECASE,
)
_NO_MEDIA: Final = re.compile(
    r"\bimages?\b|image_url|input_image|image input|multi-?modal|\bvision\b|mmproj"  # OpenAI, llama.cpp, vLLM, gateways
    r"|\baudio\b|input_audio|\bpdfs?\b|\bdocuments?\b|input_file|media[ _]type|inline_?data"
    r"|content (must|should) be a (valid )?string|expected `?text`?",  # servers that take only text
    re.IGNORECASE,
)
"""Words of a server that rejects images, audio or documents. Searched only if the request has some: then it is cheap to
ask once more without them."""
_MEDIA: Final = r"(?:images?|vision|audio|multi-?modal|image_url|input_image|input_audio|pdfs?|documents?|files?)"
_LASTING: Final = re.compile(
    rf"(?:not|n't|cannot) (?:currently )?(?:support|accept|take|allow)s? (?:any )?{_MEDIA}"
    r"(?: (?:inputs?|content|parts?|attachments?))?\b(?! (?:types?|formats?|sizes?|larger|bigger|over|above|of|with))"
    rf"|(?:\b{_MEDIA} (?:inputs?|content|parts?) (?:is|are)|\bimages are|image_url is|input_image is|vision is)"
    r" (?:currently )?(?:not (?:supported|enabled|available|allowed)|unsupported|only supported by)"
    rf"|no (?:endpoints|models?|providers?)\b[^.]{{0,40}} supports? {_MEDIA}|at most 0 |mmproj"
    r"|not a (?:multi-?modal|vision) model|text[- ]only|only (?:supports?|accepts?|takes?) text|unknown variant"
    r"|content (?:must|should) be a (?:valid )?string|expected `?text`?",
    re.IGNORECASE,
)
"""Words that say so of the model or the server. Others may be about one file: too large, damaged, of another type."""
_NO_SCHEMA: Final = re.compile(r"response_format|json_schema|\bgrammar\b", re.IGNORECASE)
"""Words of a server that does not take the schema of a reply; llama.cpp sends some of them with status 500."""
_MEDIA_STATUSES: Final = frozenset({400, 404, 415, 422, 500, 501})
_TRANSIENT_STATUSES: Final = frozenset({408, 409, 425})


class RequestFailure(Struct, frozen=True):
    error: ModelError
    retryable: bool
    lasting: bool = False
    """Of `NO_MEDIA`: whether the model takes no such files at all, and not only not these."""


class UnexpectedResponse(Exception):
    """The response is not an event stream of this API; raised by the client's hooks."""


def connection_lost(endpoint: Endpoint) -> RequestFailure:
    message = f"The connection to {endpoint.provider} broke off before the reply was complete; send again to retry."
    return RequestFailure(ModelError(ModelFault.CUT, message), retryable=True)


def failed_reply(endpoint: Endpoint, fault: ModelFault, how: str, why: str) -> RequestFailure:
    return RequestFailure(ModelError(fault, _with_detail(f"{endpoint.name} {how}", why, endpoint)), retryable=False)


def classify_error(error: Exception, endpoint: Endpoint, *, begun: bool, with_media: bool = False) -> RequestFailure:
    """Translate any exception of a request.

    `begun`: whether any part of the reply has arrived. `with_media`: whether the request has images or other files.
    """
    from pydantic_ai import exceptions as known

    for cause in _causes(error):
        if isinstance(cause, UnexpectedResponse):
            return RequestFailure(ModelError(ModelFault.PROTOCOL, str(cause)), retryable=False)
    match error:
        case known.ModelHTTPError() | known.ModelRateLimitError() | known.ModelUnavailableError():
            return _http_failure(error, endpoint, with_media=with_media)
        case known.ModelServerError() | known.ModelRequestRejectedError() | known.ModelQuotaExceededError():
            return _http_failure(error, endpoint, with_media=with_media)
        case known.ModelConnectionError():
            return connection_lost(endpoint) if begun else _unreachable(error, endpoint)
        case known.ModelAPIError() if "finish_reason" in error.message:
            return connection_lost(endpoint)
        case known.UnexpectedModelBehavior() if "ended without" in error.message:
            return connection_lost(endpoint)
        case known.UserError():
            message = _with_detail(f"The request to {endpoint.name} could not be made", str(error), endpoint)
            return RequestFailure(ModelError(ModelFault.BAD_REQUEST, message), retryable=False)
        case _ if _is_transport_error(error):
            return connection_lost(endpoint) if begun else _unreachable(error, endpoint)
        case _:
            message = (
                f"{endpoint.provider} sent a response that does not follow the API ({type(error).__name__}); "
                f"check that {endpoint.base_url} speaks the '{endpoint.api}' API."
            )
            return RequestFailure(ModelError(ModelFault.PROTOCOL, message), retryable=False)


def _http_failure(error: Exception, endpoint: Endpoint, *, with_media: bool) -> RequestFailure:
    from pydantic_ai import exceptions as known

    status = error.status_code if isinstance(error, known.ModelHTTPError) else None
    after = error.retry_after if isinstance(error, known.ModelAPIError) else None
    after = after if after is not None else _retry_delay(error)
    said = _error_detail(error)
    shown = f" ({status})" if status else ""
    name = endpoint.name

    def failed(fault: ModelFault, message: str, *, retryable: bool = False) -> RequestFailure:
        return RequestFailure(ModelError(fault, message, retry_after=after), retryable)

    match error:
        case _ if isinstance(error, known.ModelContextWindowExceededError) or _exceeds_context(status, said):
            return failed(ModelFault.CONTEXT, f"The conversation is too long for {name}; shorten it.")
        case _ if with_media and status in _MEDIA_STATUSES and _NO_MEDIA.search(said):
            message = _with_detail(f"{name} did not take the attached files{shown}", said, endpoint)
            return replace(failed(ModelFault.NO_MEDIA, message), lasting=_LASTING.search(said) is not None)
        case _ if _NO_TOOLS.search(said):
            message = _with_detail(f"{name} takes no tools{shown}", said, endpoint)
            return failed(ModelFault.NO_TOOLS, f'{message[:-1]}; set `model.protocol` to "text".')
        case _ if status == 413:
            return failed(ModelFault.CONTEXT, f"The request is too large for {name} (413); shorten it.")
        case known.ModelAuthenticationError():
            check = f"check {endpoint.key_from}" if endpoint.key_from else "it needs a key: set `api_key`"
            return failed(ModelFault.AUTH, f"{endpoint.provider} did not accept the key{shown}; {check}.")
        case known.ModelNotFoundError():
            base = f"{endpoint.provider} has no model '{endpoint.model}' at {endpoint.base_url}{shown}"
            meant = getattr(error, "suggested_model_id", None)
            end = f"; did you mean '{meant}'?" if meant else "; check `model.name`."
            return failed(ModelFault.BAD_REQUEST, base + end)
        case known.ModelQuotaExceededError():
            message = f"The account at {endpoint.provider} has no quota left{shown}; check its billing page."
            return failed(ModelFault.RATE_LIMIT, message)
        case known.ModelRateLimitError():
            wait = f"wait {after:.0f} s and send again" if after else "wait a little and send again"
            message = f"{endpoint.provider} is rate-limiting requests{shown}; {wait}."
            return failed(ModelFault.RATE_LIMIT, message, retryable=True)
        case _ if status == 500 and _NO_SCHEMA.search(said):
            return failed(ModelFault.BAD_REQUEST, _with_detail(f"{name} rejected the request{shown}", said, endpoint))
        case known.ModelUnavailableError() | known.ModelServerError():
            message = f"{endpoint.provider} is overloaded or unavailable{shown}; send again later."
            return failed(ModelFault.OVERLOADED, message, retryable=True)
        case _ if status in _TRANSIENT_STATUSES:
            message = f"{endpoint.provider} did not process the request{shown}; send again."
            return failed(ModelFault.OVERLOADED, message, retryable=True)
        case _:
            return failed(ModelFault.BAD_REQUEST, _with_detail(f"{name} rejected the request{shown}", said, endpoint))


def _exceeds_context(status: int | None, said: str) -> bool:
    """Self-hosted servers report an exceeded context window in their own words."""
    return status == 400 and _CONTEXT_EXCEEDED.search(said) is not None


def _unreachable(error: Exception, endpoint: Endpoint) -> RequestFailure:
    where = f"{endpoint.provider} at {endpoint.base_url}"
    causes = list(_causes(error))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        if endpoint.base_url.startswith("https:") and any("WRONG_VERSION" in str(cause) for cause in causes):
            why = "it does not speak TLS there; should the address start with http://?"
        else:
            why = "its TLS certificate was not accepted."
    elif any(isinstance(cause, ConnectionRefusedError) or "refused" in str(cause).lower() for cause in causes):
        why = "connection refused; is the server running?"
    elif any("timeout" in type(cause).__name__.lower() for cause in causes):
        why = "it did not answer in time."
    else:
        why = "check the address and the network."
    return RequestFailure(ModelError(ModelFault.NETWORK, f"Could not reach {where}: {why}"), retryable=True)


def _is_transport_error(error: Exception) -> bool:
    import httpx2

    return any(isinstance(cause, httpx2.TransportError | OSError) for cause in _causes(error))


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _error_detail(error: Exception) -> str:
    """Return the provider's message from the error body, in any of its usual shapes."""
    body: object = getattr(error, "body", None)
    for key in ("error", "message"):
        if isinstance(body, dict) and key in body:
            body = body[key]  # pyright: ignore[reportUnknownVariableType]
    return body if isinstance(body, str) else ""


def _retry_delay(error: Exception) -> float | None:
    """Google sends the retry delay in the body, as `"retryDelay": "7s"`."""
    body: object = getattr(error, "body", None)
    found = re.search(r"""retryDelay['"]: ['"](\d+(?:\.\d+)?)s['"]""", repr(body)[:10_000])
    return float(found[1]) if found else None


def _with_detail(base: str, detail: str, endpoint: Endpoint) -> str:
    said = re.sub(r"\s+", " ", "".join(char if char.isprintable() else " " for char in endpoint.redact_key(detail)))
    said = said.strip().rstrip(".")
    if len(said) > _MAX_DETAIL:
        said = said[:_MAX_DETAIL] + "…"
    return f"{base}: {said}." if said else f"{base}."


def http_client(endpoint: Endpoint, settings: Settings, network: Network) -> httpx2.AsyncClient:
    """Return a client that reaches only the configured address: no proxy, no redirect, no other host."""
    import httpx2

    from holdfast.net.http import GatewayTransport

    limits = httpx2.Timeout(settings.timeout, connect=settings.connect_timeout)
    origin = httpx2.URL(endpoint.base_url)
    gateway = network.gateway_to_origin(f"model {endpoint.provider}", endpoint.base_url)
    certificates = trusted_certificates() if origin.scheme == "https" else False

    async def before(request: httpx2.Request) -> None:
        if (request.url.scheme, request.url.netloc) != (origin.scheme, origin.netloc):
            raise UnexpectedResponse(f"Blocked a request for {endpoint.provider} to an address other than `base_url`.")
        request.extensions = {**request.extensions, "timeout": limits.as_dict()}

    async def after(response: httpx2.Response) -> None:
        kind = response.headers.get("content-type", "")
        if response.is_success and not kind.lower().startswith("text/event-stream"):
            raise UnexpectedResponse(
                f"{endpoint.provider} answered with {kind.partition(';')[0] or 'nothing'} instead of an event stream; "
                f"check that {endpoint.base_url} speaks the '{endpoint.api}' API."
            )
        if response.is_redirect:
            raise UnexpectedResponse(
                f"{endpoint.provider} redirected the request, and redirects are not followed; "
                "set the final address as `base_url`."
            )

    return httpx2.AsyncClient(
        timeout=limits,
        trust_env=False,
        follow_redirects=False,
        transport=GatewayTransport(gateway, verify=certificates),
        event_hooks={"request": [before], "response": [after]},
    )


@cache
def trusted_certificates() -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)
