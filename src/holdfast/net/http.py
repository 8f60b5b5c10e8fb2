"""HTTP transport that connects through the gateway. TLS verification and the `Host` header use the host name."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import cast

import httpcore2
import httpx2
from msgspec import Struct

from holdfast.contract.errors import NetworkRefused
from holdfast.net.gateway import Gateway


class HttpProxy(Struct, frozen=True):
    """A proxy that the user configured for one server."""

    url: str
    """The origin, such as `http://proxy.example.org:3128`, without a login."""
    login: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if not self.url.startswith("http://"):
            # To one with https, the client would use a TLS context of its own, which SSL_CERT_FILE changes.
            raise ValueError("Only http:// proxies are supported.")


class GatewayTransport(httpx2.AsyncHTTPTransport):
    """Raises `ConnectError` if the gateway refuses or fails to connect. Use `verify=False` for plain http only.

    Certificates are the system's, whatever `SSL_CERT_FILE` and `SSL_CERT_DIR` say: a project could set them. Behind a
    `proxy` that the user configured, the gateway decides about the proxy, which is what the connection goes to.
    """

    def __init__(
        self, gateway: Gateway, *, verify: ssl.SSLContext | bool = True, proxy: HttpProxy | None = None
    ) -> None:
        context = verify if isinstance(verify, ssl.SSLContext) else httpx2.create_ssl_context(verify, trust_env=False)
        super().__init__(verify=context)
        # The transport has no parameter for the network backend, but its pool does.
        backend = _Backend(gateway)
        if proxy is not None:
            self._pool = httpcore2.AsyncHTTPProxy(
                proxy.url,
                proxy_auth=proxy.login,
                ssl_context=context,
                max_connections=100,
                max_keepalive_connections=20,
                keepalive_expiry=5.0,
                network_backend=backend,
            )
            return
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=backend,
        )


class _Backend(httpcore2.AsyncNetworkBackend):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._inner = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore2
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        async def dial(address: str) -> httpcore2.AsyncNetworkStream:
            return await self._inner.connect_tcp(address, port, None, local_address, socket_options)

        try:
            async with asyncio.timeout(timeout):
                return await self._gateway.connect_with(host, port, dial, httpcore2.AsyncNetworkStream.aclose)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(str(error)) from error
        except (NetworkRefused, OSError) as error:
            raise httpcore2.ConnectError(str(error)) from error
