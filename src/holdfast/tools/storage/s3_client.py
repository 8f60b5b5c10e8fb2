"""`S3Client`: list, read and write objects of an S3 server through the network gateway.

Everything a server sends is bounded, and XML with a document type is refused. Redirects are not followed: they would
carry a signature elsewhere. Reads are repeated after a fault of the server; a write never is.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Self
from urllib.parse import unquote_plus
from xml.parsers.expat import ExpatError, ParserCreate

from msgspec import Struct

from holdfast.contract.errors import HoldfastError
from holdfast.net.client import HttpClient, HttpRequest, HttpResponse, Limits, RedirectRefused, RequestFailed
from holdfast.net.urls import HttpUrl
from holdfast.text.escape import escape_name
from holdfast.tools.storage.signature import (
    EMPTY_DIGEST,
    Credentials,
    Query,
    encode_path,
    encode_query,
    presigned_url,
    signed_headers,
)

MAX_KEY_BYTES: Final = 1024
PAGE_KEYS: Final = 1000
_MAX_XML: Final = 8 * 1024 * 1024
"""A page has at most 1,000 keys of 1,024 bytes, each percent-encoded in three characters."""
_MAX_DEPTH: Final = 20
_MAX_TOKEN: Final = 2048
_ATTEMPTS: Final = 3
_PAUSE: Final = 0.2
_ETAG: Final = re.compile(r"[!#-~]{1,200}", re.ASCII)
_CODE: Final = re.compile(r"[A-Za-z]{1,64}", re.ASCII)
_FAULTS: Final = frozenset({500, 502, 503, 504})


class StorageFailed(HoldfastError):
    """The server refused a request or did not answer; the message is a sentence."""

    def __init__(
        self, message: str, *, status: int = 0, code: str = "", sent: bool = False, answered: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status; 0 if there was no answer."""
        self.code = code
        """The error code of S3, such as `NoSuchKey`."""
        self.sent = sent
        """Whether the request may have reached the server and taken effect."""
        self.answered = answered or status != 0
        """Whether the server can be reached, so that another request may succeed."""


class _TimedOut(StorageFailed):
    """There was no whole answer in time."""


class StoredObject(Struct, frozen=True):
    """An object as the server describes it."""

    key: str
    etag: str
    size: int
    content_type: str = ""


class ObjectPage(Struct, frozen=True):
    objects: tuple[StoredObject, ...]
    next: str | None
    """The token of the next page; None at the end."""


class ObjectBody(Struct, frozen=True):
    body: bytes
    etag: str
    content_type: str
    encoding: str
    """The `Content-Encoding`, empty if there is none."""
    cut: bool
    """Whether it is longer than the limit, so that only its beginning was read."""


class Address(Struct, frozen=True):
    """Where a server is, and how its URLs name a bucket."""

    url: HttpUrl
    virtual: bool = False
    """`bucket.host/key` instead of `host/bucket/key`."""

    def host(self, bucket: str) -> str:
        name = self.url.origin.partition("://")[2]
        return f"{bucket}.{name}" if self.virtual else name

    def path(self, bucket: str, key: str = "") -> str:
        base = self.url.target.rstrip("/")
        return f"{base}{encode_path(f'/{key}' if self.virtual else f'/{bucket}/{key}' if key else f'/{bucket}')}"

    def request_url(self, bucket: str, key: str, query: Query) -> HttpUrl:
        asked = encode_query(query)
        host = f"{bucket}.{self.url.host}" if self.virtual else self.url.host
        return HttpUrl(self.url.scheme, host, self.url.port, f"{self.path(bucket, key)}{f'?{asked}' if asked else ''}")

    def entry(self, bucket: str) -> str:
        """The host of a bucket as `Reach.hosts` names it."""
        return self.request_url(bucket, "", ()).entry


def key_problem(key: str) -> str | None:
    """Return why a key cannot be used, as the end of a sentence, or None."""
    try:
        size = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        return "contains a lone surrogate, which UTF-8 cannot express"
    if not key:
        return "is empty"
    if size > MAX_KEY_BYTES:
        return f"has {size:,} bytes; at most {MAX_KEY_BYTES:,} are allowed"
    if not {".", ".."}.isdisjoint(key.split("/")):
        return "has a segment '.' or '..', which clients and servers resolve differently"
    return None


class S3Client:
    """Requests to one server with one set of credentials. Use it as a context manager: connections are kept."""

    def __init__(self, http: HttpClient, address: Address, credentials: Credentials, *, seconds: float) -> None:
        """`seconds` bounds each request, except an upload, which has its own limit."""
        self._http = http
        self._address = address
        self._credentials = credentials
        self._seconds = seconds

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._http.__aexit__(*exception)

    async def list_page(self, bucket: str, prefix: str, token: str | None = None, keys: int = PAGE_KEYS) -> ObjectPage:
        """Return a page of the objects below a prefix, in the order of the server."""
        query = [("list-type", "2"), ("encoding-type", "url"), ("max-keys", str(keys)), ("prefix", prefix)]
        if token is not None:
            query.append(("continuation-token", token))
        response = await self._read("GET", bucket, "", query, max_bytes=_MAX_XML)
        if response.cut:
            raise StorageFailed(f"{self._server} sent a list of more than {_MAX_XML // 1024**2} MB.")
        return await asyncio.to_thread(parse_listing, response.body, self._server)

    async def head(self, bucket: str, key: str) -> StoredObject | None:
        """Describe an object; None if it does not exist."""
        try:
            response = await self._read("HEAD", bucket, key, (), max_bytes=0)
        except StorageFailed as error:
            # A HEAD has no body that could tell a missing key from a missing bucket.
            if error.status == 404 and await self._has_bucket(bucket):
                return None
            raise
        size = response.header("content-length") or ""
        if not size.isdecimal() or len(size) > 15:
            raise StorageFailed(f"{self._server} did not tell the size of {escape_name(key)}.")
        if not (etag := _etag(response)):
            raise StorageFailed(f"{self._server} named no ETag for {escape_name(key)}, so a change would go unnoticed.")
        return StoredObject(key, etag, int(size), _content_type(response))

    async def _has_bucket(self, bucket: str) -> bool:
        await self.list_page(bucket, "", keys=1)
        return True

    async def get(self, bucket: str, key: str, etag: str, *, max_bytes: int) -> ObjectBody:
        """Read an object in the state that its ETag names. Raises `StorageFailed` with status 412 if it changed."""
        response = await self._read("GET", bucket, key, (), {"if-match": f'"{etag}"'}, max_bytes=max_bytes)
        if _etag(response) != etag:  # a server that ignores If-Match
            raise StorageFailed(f"{escape_name(key)} has changed.", status=412, code="PreconditionFailed")
        encoding = (response.header("content-encoding") or "").strip().lower()
        return ObjectBody(response.body, etag, _content_type(response), encoding, response.cut)

    async def put(
        self,
        bucket: str,
        key: str,
        stream: Callable[[], AsyncIterable[bytes]],
        *,
        size: int,
        digest: str,
        content_type: str,
        seen: str | None,
        seconds: float,
    ) -> str:
        """Upload an object once and return its ETag. `digest` is the SHA-256 that the signature covers.

        `seen` is the ETag of the object that it replaces, or None if there must not be one; a server that knows
        conditional writes refuses anything else. Raises `StorageFailed`, with `sent` if the object may exist.
        """
        condition = {"if-none-match": "*"} if seen is None else {"if-match": f'"{seen}"'}
        headers = {"content-type": content_type, "content-length": str(size), **condition}
        request = self._signed("PUT", bucket, key, (), headers, digest, stream)
        limits = Limits(seconds=seconds, idle=self._seconds, max_bytes=_MAX_XML)
        response = await self._send(request, limits)
        if response.status != 200:
            # Any answer but a refusal may come from a server, or from a proxy before it, that has taken the object.
            raise self._refusal(response, bucket, key, sent=response.status < 300 or response.status >= 500)
        return _etag(response)

    def link(self, address: Address, bucket: str, key: str, now: datetime, expires: int) -> str:
        """Return a URL with which anyone can read the object. `address` is where readers reach the server."""
        host, path = address.host(bucket), address.path(bucket, key)
        return presigned_url(address.url.scheme, host, path, self._credentials, now, expires)

    @property
    def _server(self) -> str:
        return self._address.url.entry

    async def _read(
        self,
        method: str,
        bucket: str,
        key: str,
        query: Query,
        headers: Mapping[str, str] | None = None,
        *,
        max_bytes: int,
    ) -> HttpResponse:
        """Send a request that changes nothing, again after a fault. Raises `StorageFailed`, never with `sent`."""
        deadline = time.monotonic() + self._seconds
        for attempt in range(1, _ATTEMPTS + 1):
            left = deadline - time.monotonic()
            last = attempt == _ATTEMPTS or left < 2 * _PAUSE
            request = self._signed(method, bucket, key, query, headers or {}, EMPTY_DIGEST)
            try:
                response = await self._send(request, Limits(seconds=max(0.1, left), max_bytes=max_bytes))
            except _TimedOut as error:
                told = f"{self._server} did not answer within {self._seconds:g} seconds (minio.timeout)."
                raise StorageFailed(told, answered=error.answered) from None
            except StorageFailed as error:
                if last or not error.sent:
                    error.sent = False
                    raise
            else:
                if response.status in (200, 204):
                    return response
                if last or response.status not in _FAULTS:
                    raise self._refusal(response, bucket, key, sent=False)
            await asyncio.sleep(_PAUSE * attempt)
        raise AssertionError  # the last attempt returns or raises

    async def _send(self, request: HttpRequest, limits: Limits) -> HttpResponse:
        try:
            return await self._http.request(request, limits, may_follow=_follow_nothing)
        except RedirectRefused as error:
            raise StorageFailed(
                f"{self._server} redirects, which is not followed. Set minio.endpoint and minio.region to those of the "
                "bucket.",
                answered=True,
            ) from error
        except RequestFailed as error:
            kind = _TimedOut if error.timed_out else StorageFailed
            raise kind(str(error), sent=error.sent, answered=error.answered) from error

    def _signed(
        self,
        method: str,
        bucket: str,
        key: str,
        query: Query,
        headers: Mapping[str, str],
        digest: str,
        stream: Callable[[], AsyncIterable[bytes]] | None = None,
    ) -> HttpRequest:
        query, address = tuple(query), self._address
        path, now = address.path(bucket, key), datetime.now(UTC)
        every = signed_headers(method, address.host(bucket), path, query, headers, digest, self._credentials, now)
        sent = tuple((name, value) for name, value in every.items() if name != "host")
        return HttpRequest(url=address.request_url(bucket, key, query), method=method, headers=sent, stream=stream)

    def _refusal(self, response: HttpResponse, bucket: str, key: str, *, sent: bool) -> StorageFailed:
        """Return the error of an answer, in a sentence that says what to do."""
        status, code = response.status, _error_code(response.body)
        what = f"the object {escape_name(key)}" if key else f"the bucket {escape_name(bucket)}"
        if code in ("InvalidAccessKeyId", "SignatureDoesNotMatch"):
            why = f"{self._server} does not accept the keys ({code}). Check minio.access_key and the secret key."
        elif code == "RequestTimeTooSkewed":
            why = f"{self._server} has another time than this machine. Correct the clock."
        elif code == "NoSuchBucket":
            why = f"{self._server} has no bucket {escape_name(bucket)}. Create it, or name another one."
        elif status == 404:
            why = f"{self._server} does not have {what}. Check the name."
        elif status == 412:
            why = f"{what[:1].upper()}{what[1:]} has changed. Propose the call again."
        elif status == 403:
            why = f"{self._server} denies access to {what} ({code or status}). Check the rights of the keys."
        else:
            why = f"{self._server} answered {status} {code} for {what}.".replace("  ", " ")
        return StorageFailed(why, status=status, code=code, sent=sent)


def _follow_nothing(_: HttpUrl, following: HttpRequest) -> str:
    return f"a redirect to {following.url}"


def _etag(response: HttpResponse) -> str:
    return _clean_etag(response.header("etag") or "")


def _clean_etag(text: str) -> str:
    """Return an ETag without its quotes; empty if there is none that a header could carry."""
    found = text.strip().removeprefix("W/").strip('"')
    return found if _ETAG.fullmatch(found) else ""


def _content_type(response: HttpResponse) -> str:
    return (response.header("content-type") or "")[:200]


# ---------------------------------------------------------------------- XML


class _Refused(Exception):
    """The XML has a document type, or is nested too deeply."""


def _parse(xml: bytes, ends: Callable[[tuple[str, ...], str], None]) -> None:
    """Call `ends` with the path and the text of each element. Raises `ValueError`."""
    parser = ParserCreate()
    path: list[str] = []
    text: list[str] = []

    def refuse(*_: object) -> None:
        raise _Refused

    def start(name: str, _: object) -> None:
        if len(path) >= _MAX_DEPTH:
            raise _Refused
        path.append(name.rpartition(":")[2])
        text.clear()

    def end(_: str) -> None:
        ends(tuple(path), "".join(text))
        path.pop()
        text.clear()

    parser.StartDoctypeDeclHandler = refuse  # entities could expand without limit
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text.append
    try:
        parser.Parse(xml, True)
    except (ExpatError, _Refused, UnicodeError) as error:
        raise ValueError("not an answer of S3") from error


def parse_listing(xml: bytes, server: str) -> ObjectPage:
    """Read the answer of ListObjectsV2. Raises `StorageFailed`."""
    objects: list[StoredObject] = []
    fields: dict[str, str] = {}
    outer: dict[str, str] = {}

    def ends(path: tuple[str, ...], text: str) -> None:
        if path == ("ListBucketResult", "Contents"):
            if len(objects) == PAGE_KEYS:
                raise ValueError("more objects than were asked for")
            objects.append(_listed(fields))
            fields.clear()
        elif path[:2] == ("ListBucketResult", "Contents") and len(path) == 3:
            fields[path[2]] = text
        elif len(path) == 2:
            outer[path[1]] = text
        elif path == ("ListBucketResult",):
            outer["ended"] = "yes"

    try:
        _parse(xml, ends)
        if "ended" not in outer or len(outer.get("NextContinuationToken", "")) > _MAX_TOKEN:
            raise ValueError("not a list")
        if outer.get("EncodingType") == "url":
            objects = [StoredObject(unquote_plus(each.key, errors="strict"), each.etag, each.size) for each in objects]
    except ValueError:
        raise StorageFailed(f"{server} sent a list of objects that cannot be read.") from None
    more = outer.get("IsTruncated") == "true"
    return ObjectPage(tuple(objects), outer.get("NextContinuationToken") or None if more else None)


def _listed(fields: Mapping[str, str]) -> StoredObject:
    size = fields.get("Size", "0")
    if not size.isdecimal() or len(size) > 15:
        raise ValueError("a size that is not a number")
    return StoredObject(fields.get("Key", ""), _clean_etag(fields.get("ETag", "")), int(size))


def _error_code(body: bytes) -> str:
    """Return the code of an error document; empty if it is none. Its message stays out of results: it is the server's,
    and could give a model instructions before anyone has approved the call."""
    found: dict[str, str] = {}

    def ends(path: tuple[str, ...], text: str) -> None:
        if path[:1] == ("Error",) and len(path) == 2:
            found[path[1]] = text

    try:
        _parse(body[:_MAX_XML], ends)
    except ValueError:
        return ""
    code = found.get("Code", "")
    return code if _CODE.fullmatch(code) else ""
