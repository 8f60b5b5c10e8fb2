"""How a context logs in: headers, TLS, and new credentials when the old ones have expired."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from msgspec import Struct

from holdfast.net.client import Headers, header_problem
from holdfast.tools.k8s.exec_plugin import SECONDS, ask_plugin
from holdfast.tools.k8s.kubeconfig import Access, KubeconfigError, proxy_login

_MAX_FILE: Final = 1024 * 1024
_MARGIN: Final = 10.0
"""Seconds before their end in which credentials of a plugin are no longer used."""
_SCOPE: Final = "k8s"
"""The name of the credentials where they are redacted."""


class Redactor(Protocol):
    """The redactor of the runtime, which redacts added values in everything that a call shows or returns."""

    def add(self, name: str, value: str) -> None: ...

    def known(self, text: str, *, cut: bool = False) -> str:
        """Redact a text now, because it is about to be cut. `cut`: it already is, so its end may begin a value."""
        ...


class Login(Struct, frozen=True, kw_only=True):
    """What one request carries."""

    headers: Headers = ()
    certificate: bytes | None = None
    key: bytes | None = None
    expires: float | None = None


class Credentials:
    """The logins of one context. What a plugin printed is kept until it expires or the server refuses it."""

    def __init__(self, access: Access, project: Path, redactor: Redactor) -> None:
        self.access = access
        self._project = project
        self._redactor = redactor
        self._login: Login | None = None
        self._turn = asyncio.Lock()

    async def login(self, seconds: float) -> Login:
        """Return the login to use now. A plugin has at most `seconds`. Raises `KubeconfigError`."""
        async with self._turn:
            return await self._current(seconds)

    async def renewed(self, refused: Login, seconds: float) -> Login | None:
        """Return another login after the server refused one: the token file is read again, a plugin asked again, unless
        another call has done that. None if there is no other."""
        async with self._turn:
            if self._login == refused:
                self._login = None
            found = await self._current(seconds)
        return None if found == refused else found

    async def _current(self, seconds: float) -> Login:
        known = self._login
        if known is not None and (known.expires is None or time.time() < known.expires - _MARGIN):
            return known
        self._login = await self._new(seconds)
        return self._login

    async def _new(self, seconds: float) -> Login:
        user, access = self.access.user, self.access
        for secret in _proxy_secrets(access):  # first, because a plugin is told about the proxy
            self._redactor.add(_SCOPE, secret)
        headers: list[tuple[str, str]] = []
        secrets: list[str] = []
        certificate = _content(access, user.certificate_data, user.certificate_file, "client certificate")
        key = _content(access, user.key_data, user.key_file, "client key")
        expires: float | None = None
        token = user.token
        if user.token_file:
            token = _file(access.path(user.token_file), "token file").decode("utf-8", "replace").strip()
        if user.plugin is not None and not token:
            printed = await ask_plugin(access, user.plugin, self._project, min(SECONDS, seconds))
            token = printed.token
            if printed.certificate and printed.key:
                certificate, key = printed.certificate.encode(), printed.key.encode()
            expires = None if printed.expires is None else printed.expires.timestamp()
        if token:
            headers.append(("Authorization", f"Bearer {token}"))
            secrets.append(token)
        elif user.username is not None:
            pair = b64encode(f"{user.username}:{user.password or ''}".encode()).decode("ascii")
            headers.append(("Authorization", f"Basic {pair}"))
            secrets += [pair, user.password or ""]
        if key is not None:
            secrets.append(key.decode("utf-8", "replace"))
        for secret in secrets:
            self._redactor.add(_SCOPE, secret)
        headers += _impersonation(access)
        for name, value in headers:
            if (problem := header_problem(name, value)) is not None:
                raise KubeconfigError(f"The credentials of the context {access.context} cannot be sent: {problem}")
        return Login(
            headers=tuple(headers),
            certificate=certificate,
            key=key,
            expires=expires,
        )


def _proxy_secrets(access: Access) -> Iterator[str]:
    login = None if access.cluster.proxy_url is None else proxy_login(access.cluster.proxy_url)
    if login is not None:
        yield login[1]
        yield b64encode(":".join(login).encode()).decode("ascii")


def _impersonation(access: Access) -> Iterator[tuple[str, str]]:
    user = access.user
    if not user.acts_as:
        if user.acts_as_groups or user.acts_as_uid:
            raise KubeconfigError(f"The user of the context {access.context} has as-groups or as-uid, but not `as`.")
        return
    yield "Impersonate-User", user.acts_as
    if user.acts_as_uid:
        yield "Impersonate-Uid", user.acts_as_uid
    for group in user.acts_as_groups or ():
        yield "Impersonate-Group", group


def tls_context(access: Access, login: Login) -> ssl.SSLContext:
    """Return the TLS settings of a cluster. Raises `KubeconfigError`."""
    import httpx2

    authority = _content(access, access.cluster.ca_data, access.cluster.ca_file, "certificate-authority")
    if authority is None:
        context = httpx2.create_ssl_context(trust_env=False)
    else:
        # Not `create_default_context`: from Python 3.13 on it is strict about extensions that the authorities of
        # clusters lack.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=authority.decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise KubeconfigError(f"The certificate-authority of the context {access.context} is not in PEM.") from None
    if access.cluster.insecure:  # `read_access` has checked k8s.insecure
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if (login.certificate is None) != (login.key is None):
        raise KubeconfigError(f"The user of the context {access.context} needs a client certificate and its key.")
    if login.certificate is not None and login.key is not None:
        _load_certificate(context, login.certificate, login.key, access.context)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes, name: str) -> None:
    def refuse() -> str:  # without it, OpenSSL would ask on the terminal
        raise KubeconfigError(f"The client key of the context {name} has a passphrase. Use one without.")

    with _readable(certificate.rstrip() + b"\n" + key) as path:
        try:
            context.load_cert_chain(path, password=refuse)
        except (ssl.SSLError, ValueError):
            told = f"The client certificate of the context {name} cannot be loaded: it or its key is not in PEM, or"
            raise KubeconfigError(f"{told} they do not belong together.") from None


@contextmanager
def _readable(content: bytes) -> Generator[str]:
    """Give a path to the content: OpenSSL loads a key only from a file. In memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(file), "wb") as stream:
                stream.write(content)
            yield f"/proc/self/fd/{file}"
        finally:
            os.close(file)
        return
    with TemporaryDirectory() as folder:  # only the user can enter it
        path = Path(folder, "certificate.pem")
        path.write_bytes(content)
        yield str(path)


def _content(access: Access, data: str | None, file: str | None, what: str) -> bytes | None:
    """Return inline data, else the content of a file, as kubectl does it."""
    if data:
        try:
            return b64decode(data, validate=True)
        except (Base64Error, ValueError):
            raise KubeconfigError(f"The {what} data of the context {access.context} is not base64.") from None
    return _file(access.path(file), what) if file else None


def _file(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise KubeconfigError(f"The {what} {str(path)!a} cannot be read: {error.strerror}.") from None
    if not content.strip() or len(content) > _MAX_FILE:
        raise KubeconfigError(f"The {what} {str(path)!a} is empty or too large.")
    return content
