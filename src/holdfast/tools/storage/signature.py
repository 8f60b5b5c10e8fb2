"""AWS Signature Version 4 for S3: signed headers of a request, and presigned URLs. Pure: no clock, no network."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from msgspec import Struct

EMPTY_DIGEST: Final = sha256(b"").hexdigest()
MAX_EXPIRY: Final = 7 * 24 * 3600
"""Seconds that a presigned URL can be valid, by the definition of the signature."""
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_UNRESERVED: Final = "-._~"

Query = Iterable[tuple[str, str]]


class Credentials(Struct, frozen=True):
    access_key: str
    secret_key: str
    region: str

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, …, {self.region!r})"


def encode_path(path: str) -> str:
    """Return a path percent-encoded once, as S3 signs it: each byte but `A-Za-z0-9-._~/`."""
    return quote(path.encode("utf-8"), safe=f"/{_UNRESERVED}")


def encode_query(query: Query) -> str:
    """Return a query in the canonical order and encoding."""
    return "&".join(f"{name}={value}" for name, value in sorted((_encoded(k), _encoded(v)) for k, v in query))


def signed_headers(
    method: str,
    host: str,
    path: str,
    query: Query,
    headers: Mapping[str, str],
    digest: str,
    credentials: Credentials,
    now: datetime,
) -> dict[str, str]:
    """Return the headers with those of the signature, which covers them all. `path` is encoded, `digest` is SHA-256."""
    stamp = _stamp(now)
    every = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    every |= {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    names = ";".join(sorted(every))
    signature = _signature(method, path, encode_query(query), every, digest, credentials, stamp)
    value = f"{_ALGORITHM} Credential={_scope(credentials, stamp)}, SignedHeaders={names}, Signature={signature}"
    return {**every, "authorization": value}


def presigned_url(scheme: str, host: str, path: str, credentials: Credentials, now: datetime, expires: int) -> str:
    """Return a URL with which anyone can GET the object until it expires."""
    stamp = _stamp(now)
    query = (
        ("X-Amz-Algorithm", _ALGORITHM),
        ("X-Amz-Credential", _scope(credentials, stamp)),
        ("X-Amz-Date", stamp),
        ("X-Amz-Expires", str(expires)),
        ("X-Amz-SignedHeaders", "host"),
    )
    signature = _signature("GET", path, encode_query(query), {"host": host}, _UNSIGNED, credentials, stamp)
    return f"{scheme}://{host}{path}?{encode_query(query)}&X-Amz-Signature={signature}"


def _signature(
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    digest: str,
    credentials: Credentials,
    stamp: str,
) -> str:
    lines = [f"{name}:{headers[name]}\n" for name in sorted(headers)]
    request = "\n".join((method, path, query, "".join(lines), ";".join(sorted(headers)), digest))
    day, region = stamp[:8], credentials.region
    scope = f"{day}/{region}/s3/aws4_request"
    to_sign = "\n".join((_ALGORITHM, stamp, scope, sha256(request.encode()).hexdigest()))
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, to_sign.encode(), "sha256").hex()


def _scope(credentials: Credentials, stamp: str) -> str:
    return f"{credentials.access_key}/{stamp[:8]}/{credentials.region}/s3/aws4_request"


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def _encoded(text: str) -> str:
    return quote(text.encode("utf-8"), safe=_UNRESERVED)
