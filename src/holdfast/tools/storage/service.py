"""`Storage`: what the `minio.*` tools of one runtime share: settings, clients, records, the parsers."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.json import Args
from holdfast.contract.tool import Reach, Tool
from holdfast.net.client import HttpClient
from holdfast.net.network import Network
from holdfast.net.urls import BadUrl, HttpUrl, parse_url
from holdfast.text.escape import escape_name
from holdfast.tools.extraction.extractor import Extractor
from holdfast.tools.storage.records import Records
from holdfast.tools.storage.s3_client import Address, S3Client, StorageFailed
from holdfast.tools.storage.signature import MAX_EXPIRY, Credentials

MARGIN: Final = 0.1
"""Share of the time limit of a call that is left for its result, so that the tool ends before it is stopped."""
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]", re.ASCII)
_NOT_SET: Final = "it needs an S3 server. Set minio.endpoint and minio.access_key in your configuration"


class StorageSettings(Struct, frozen=True, kw_only=True):
    """The section `[minio]` of the configuration."""

    endpoint: str | None = None
    public_endpoint: str | None = None
    bucket: str | None = None
    buckets: tuple[str, ...] = ()
    region: str = "us-east-1"
    access_key: str | None = None
    secret: str = "minio"  # noqa: S105 - the name of a secret
    virtual: bool = False
    ca_file: str | None = None
    timeout: float = 30.0
    max_upload_bytes: int = 512 * 1024 * 1024
    max_object_bytes: int = 20 * 1024 * 1024
    max_link_seconds: int = MAX_EXPIRY
    max_item_bytes: int = 64 * 1024
    """`memory.max_item_bytes`: the texts of objects are divided into items of at most this size."""

    def address(self) -> Address:
        """Return where the server is. Raises `StorageFailed`."""
        return Address(_endpoint(self.endpoint, "minio.endpoint"), self.virtual)

    def public_address(self) -> Address:
        """Return where readers of a link reach the server."""
        if self.public_endpoint is None:
            return self.address()
        return Address(_endpoint(self.public_endpoint, "minio.public_endpoint"), self.virtual)

    def problem(self) -> str | None:
        """Return why the tools cannot be used with these settings and how to change that, or None."""
        if self.endpoint is None or self.access_key is None:
            return _NOT_SET
        try:
            self.address()
            self.public_address()
        except StorageFailed as error:
            return str(error)
        return None


def _endpoint(given: str | None, option: str) -> HttpUrl:
    try:
        url = parse_url(given or "")
    except BadUrl as error:
        raise StorageFailed(f"{option} is not an address: {error}") from None
    if "?" in url.target:
        raise StorageFailed(f"{option} has a query. Give the address of the server only.")
    return url


class Storage:
    """Made once per runtime. `close` ends its processes."""

    def __init__(
        self,
        network: Network,
        settings: StorageSettings,
        *,
        folder: Path,
        extractor: Extractor | None = None,
    ) -> None:
        """`folder` holds the records of what was ingested."""
        self.settings = settings
        self.extractor = extractor or Extractor()
        self.records = Records(folder / "storage.db")
        self._network = network
        self._tls: ssl.SSLContext | None = None

    def close(self) -> None:
        self.records.close()
        self.extractor.close()

    def bucket(self, args: Args) -> str:
        """Return the bucket of a call: one that the user configured, as requests are sent before anyone is asked.

        Raises `StorageFailed`.
        """
        name = args.get("bucket") or self.settings.bucket
        if name is None:
            raise StorageFailed("No bucket is named. Give one in `bucket`, or set minio.bucket in the configuration.")
        if _BUCKET.fullmatch(str(name)) is None:
            raise StorageFailed(
                f"{escape_name(str(name)[:80])} is not the name of a bucket: 3 to 63 letters, digits, '.', '_' and '-'."
            )
        if self.settings.virtual and "." in str(name):
            raise StorageFailed(f'{name} contains a ".", which minio.style = "virtual" does not allow.')
        if name not in (self.settings.bucket, *self.settings.buckets):
            raise StorageFailed(
                f"The bucket {name} is not configured. Use one that is, or ask the user to add it to minio.buckets."
            )
        return str(name)

    def client(self, ctx: Context, bucket: str) -> S3Client:
        """Return a client for one call. Raises `StorageFailed` or `SecretUnavailable`."""
        settings, address = self.settings, self.settings.address()
        credentials = Credentials(settings.access_key or "", ctx.secret(settings.secret), settings.region)
        url = address.request_url(bucket, "", ())
        host = f"[{url.host}]" if ":" in url.host else url.host
        by = f"{ctx.tool_name} {ctx.call_id}"
        gateway = self._network.gateway_to_listed(by, (f"{host}:{url.port}",), name="minio.endpoint")
        http = HttpClient(gateway, user_agent="holdfast", tls=self._certificates())
        return S3Client(http, address, credentials, seconds=settings.timeout)

    def _certificates(self) -> ssl.SSLContext | None:
        """Return what verifies the server: `minio.ca_file` alone, or None for the certificates of the system."""
        if self.settings.ca_file is None or self._tls is not None:
            return self._tls
        try:
            self._tls = ssl.create_default_context(cafile=str(Path(self.settings.ca_file).expanduser()))
        except (OSError, ValueError) as error:
            raise StorageFailed(f"minio.ca_file cannot be read: {error}.") from None
        return self._tls


def configured_storage(tool: Tool, settings: StorageSettings) -> Tool:
    """Return a tool for the configured server: the host it reaches, the secret it needs, what it lacks."""
    lacks: Callable[[], str | None] = tool.unavailable or (lambda: None)
    problem = settings.problem()
    if problem is not None:
        return tool.with_(unavailable=lambda: lacks() or problem)
    address, sends = settings.address(), "storage" in tool.sinks

    def reaches(args: Args) -> Reach:
        bucket = str(args.get("bucket") or settings.bucket or "")
        return Reach((address.entry(bucket if _BUCKET.fullmatch(bucket) else "bucket"),), sends=sends)

    return tool.with_(reaches=reaches, required_secret_scopes=(settings.secret,))


def no_reach(_: Args) -> Reach:
    """What a tool reaches before a server is configured for it."""
    return Reach(())
