"""The SDK's OAuth client on top of a stored login: client registration, tokens, and where they are refreshed."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import ref

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthTokenError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from msgspec.structs import replace
from pydantic import AnyUrl, BaseModel, PrivateAttr, ValidationError

from holdfast.config.config import McpOAuth, McpServer
from holdfast.config.secret_references import fill
from holdfast.contract.errors import HoldfastError
from holdfast.mcp.client.oauth_store import login_file
from holdfast.runtime.cancellation import ThreadPool
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import clip, escape, escape_url

_SHOWN: Final = 300
_TOKEN: Final = re.compile(r"[!-~]{1,65536}")

_threads: Final = ThreadPool()
"""A pool of its own, because the event loop's default has few threads: a slow secret must not block other servers."""

T = TypeVar("T", bound=BaseModel)


class LoginNeeded(HoldfastError):
    """A server requires a login that only a user can complete. Retrying without one does not help."""


class LoginFailed(HoldfastError):
    """A login or a refresh failed. Retrying later may help."""


class StoredOAuthClient(OAuthClientProvider):
    """Reads the stored login before every refresh, since another process may have logged in, and stores new tokens."""

    def __init__(self, runtime: Runtime, name: str, server: McpServer, state: Path | None) -> None:
        self._of = ref(runtime)  # a weak reference: logins are looked up by runtime and must not keep it alive
        self._name, self._url = name, server.url or ""
        self._config = server.oauth or McpOAuth()
        self._file = login_file(name, server, state)
        self._metadata = _Metadata(redirect_uris=[AnyUrl("http://127.0.0.1/callback")], client_name="holdfast")
        self._metadata.want(" ".join(self._config.scopes))
        super().__init__(
            self._url, self._metadata, _Storage(self), self._open, self._answer, self._config.client_metadata_url
        )
        self._redirect = self._issuer = ""
        self._refused: str | None = None
        """The token that the server rejected: treated as expired, whatever its lifetime."""

    @property
    def _runtime(self) -> Runtime:
        runtime = self._of()
        assert runtime is not None
        return runtime

    async def _open(self, url: str) -> None:
        raise NotImplementedError

    async def _answer(self) -> AuthorizationCodeResult:
        raise NotImplementedError

    async def _initialize(self) -> None:
        kept, context = self._file.read(), self.context
        context.current_tokens = _as(OAuthToken, kept.tokens)
        context.token_expiry_time = kept.expires_at
        if context.current_tokens is not None and context.current_tokens.access_token == self._refused:
            context.token_expiry_time = 1.0
        context.client_info = await self._configured() or _as(OAuthClientInformationFull, kept.client)
        # Never the metadata discovered later: a server can name any issuer, and the tokens are not for it.
        context.oauth_metadata = _as(OAuthMetadata, kept.authorisation)
        context.protected_resource_metadata = _as(ProtectedResourceMetadata, kept.resource)
        context.auth_server_url = None
        if context.protected_resource_metadata is not None:
            named = map(str, context.protected_resource_metadata.authorization_servers)
            context.auth_server_url = self._select_authorization_server(list(named))
        self._redirect, self._issuer = kept.redirect, kept.issuer
        self._learn()
        self._initialized = True

    async def _configured(self) -> OAuthClientInformationFull | None:
        if self._config.client_id is None:
            return None
        secret = await _threads.run(fill, self._config.client_secret or "", self._runtime.secrets.get)
        return OAuthClientInformationFull(client_id=self._config.client_id, client_secret=secret or None)

    def registered(self) -> None:
        """Bind a new registration to its authorisation server, so that it is never sent to one named later."""
        client, tokens = self.context.client_info, self.context.current_tokens
        if client is not None:
            client.issuer = client.issuer or self._expected_issuer()
        if tokens is not None:
            # The old token belongs to the previous client and server.
            self.context.current_tokens = tokens.model_copy(update={"refresh_token": None})
        self._redirect = str((self._metadata.redirect_uris or [""])[0])
        self._write()

    def given(self, tokens: OAuthToken) -> None:
        """Check new tokens: they are sent in headers."""
        if not all(_TOKEN.fullmatch(text) for text in (tokens.access_token, tokens.refresh_token or "-")):
            self.context.clear_tokens()
            raise OAuthTokenError("its token contains invalid characters")
        self._issuer = self._expected_issuer()
        self._refused = None
        self._write()

    def _write(self) -> None:
        context = self.context
        self._learn()
        kept = replace(
            self._file.read(),
            tokens=_plain(context.current_tokens),
            expires_at=context.token_expiry_time,
            client=None if self._config.client_id is not None else _plain(context.client_info),
            redirect=self._redirect,
            issuer=self._issuer,
            authorisation=_plain(context.oauth_metadata),
            resource=_plain(context.protected_resource_metadata),
        )
        self._file.write(kept)

    def _learn(self) -> None:
        tokens, client = self.context.current_tokens, self.context.client_info
        if tokens is not None:
            self._runtime.redactor.add(f"mcp:{self._name}", tokens.access_token)
            self._runtime.redactor.add(f"mcp:{self._name}", tokens.refresh_token or "")
        if client is not None:
            self._runtime.redactor.add(f"mcp:{self._name}", client.client_secret or "")

    async def _exchange_token_authorization_code(self, auth_code: str, code_verifier: str) -> httpx2.Request:
        self._runtime.redactor.add(f"mcp:{self._name}", auth_code)
        self._settle_method()
        return await super()._exchange_token_authorization_code(auth_code, code_verifier)

    async def _refresh_token(self) -> httpx2.Request:
        kept, context = self._file.read(), self.context
        whole = (context.oauth_metadata is None) == (kept.authorisation is None)
        if not whole or self._issuer != self._expected_issuer():
            raise self.failed(
                f"it is not certain that {escape_url(self._get_token_endpoint())} issued the token. Forget it "
                f"with `holdfast mcp logout {self._name}`, and log in again"
            )
        self._settle_method()
        return await super()._refresh_token()

    def _settle_method(self) -> None:
        """Choose the authentication method. A client with a secret uses it even if no method is advertised; the SDK
        would not."""
        client, server = self.context.client_info, self.context.oauth_metadata
        if client is None or not client.client_secret or client.token_endpoint_auth_method is not None:
            return
        offered = (server and server.token_endpoint_auth_methods_supported) or ["client_secret_basic"]
        basic = "client_secret_basic" in offered or "client_secret_post" not in offered
        client.token_endpoint_auth_method = "client_secret_basic" if basic else "client_secret_post"

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        if response.status_code == 429 or response.status_code >= 500:
            raise self.failed(f"the token could not be refreshed (HTTP {response.status_code})")
        tried = self.context.current_tokens
        if await super()._handle_refresh_response(response):
            return True
        kept = self._file.read()
        if tried is not None and kept.tokens == _plain(tried):
            self._file.write(replace(kept, tokens=None, expires_at=None))
            return False
        await self._initialize()
        return self.context.is_token_valid()

    def failed(self, why: str) -> LoginFailed:
        # The error repeats what the server sent, up to whole pages.
        said = clip(escape(self._runtime.redactor(why[: 4 * _SHOWN])), _SHOWN).rstrip(".")
        return LoginFailed(
            f"The login to the MCP server '{self._name}' failed: {said}. Try it with `holdfast mcp login {self._name}`."
        )


class _Metadata(OAuthClientMetadata):
    """The registration request. Scopes of the configuration replace those a server suggests."""

    _wanted: str = PrivateAttr("")
    _more: bool = PrivateAttr(False)

    def want(self, scopes: str, *, more: bool = False) -> None:
        """Request scopes; with `more`, further ones that a server needs for one operation."""
        self._wanted, self._more = scopes, more
        if scopes and not more:
            self.scope = scopes

    def __setattr__(self, name: str, value: Any) -> None:
        fixed = name == "scope" and self._wanted and not self._more
        super().__setattr__(name, self._wanted if fixed else value)


class _Storage:
    """The SDK's storage interface. It reads nothing, because `StoredOAuthClient` has already loaded everything."""

    def __init__(self, keeper: StoredOAuthClient) -> None:
        self._keeper = keeper

    async def get_tokens(self) -> OAuthToken | None:
        return self._keeper.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._keeper.given(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._keeper.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._keeper.registered()


def _as(kind: type[T], plain: dict[str, Any] | None) -> T | None:
    try:
        return None if plain is None else kind.model_validate(plain)
    except ValidationError:
        return None


def _plain(model: BaseModel | None) -> dict[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


# The SDK logs whole exceptions with codes, states and bodies. They are raised too, and reported without those.
logging.getLogger("mcp.client.auth.oauth2").addFilter(lambda record: record.levelno < logging.WARNING)
