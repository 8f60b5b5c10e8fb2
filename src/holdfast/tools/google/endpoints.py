"""The families of Google tools, the scope that each needs, and the addresses that their requests go to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, get_args

from msgspec import Struct

from holdfast.net.addresses import is_loopback
from holdfast.net.urls import BadUrl, HttpUrl, parse_url

Family = Literal["gmail", "gcal", "gdocs", "gdrive", "gtasks"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)
_SCOPE: Final = "https://www.googleapis.com/auth/"
SCOPES: Final[dict[Family, str]] = {
    "gmail": f"{_SCOPE}gmail.readonly",
    "gcal": f"{_SCOPE}calendar.readonly",
    "gdocs": f"{_SCOPE}documents.readonly",
    "gdrive": f"{_SCOPE}drive.readonly",
    "gtasks": f"{_SCOPE}tasks.readonly",
}
"""Read-only, each of them: no other scope is ever asked for or accepted."""
_HOSTS: Final[dict[Family, str]] = {
    "gmail": "https://gmail.googleapis.com",
    "gcal": "https://www.googleapis.com",
    "gdocs": "https://docs.googleapis.com",
    "gdrive": "https://www.googleapis.com",
    "gtasks": "https://tasks.googleapis.com",
}
API_NAMES: Final[dict[Family, str]] = {
    "gmail": "Gmail API",
    "gcal": "Google Calendar API",
    "gdocs": "Google Docs API",
    "gdrive": "Google Drive API",
    "gtasks": "Google Tasks API",
}


class Endpoints(Struct, frozen=True, kw_only=True):
    """Where requests go. `apis` are bases; the path of a request is appended."""

    login: HttpUrl
    token: HttpUrl
    revoke: HttpUrl
    apis: dict[Family, HttpUrl]

    def reached_by(self, family: Family) -> tuple[str, ...]:
        """The hosts that a call of a family contacts: the API, and the service that renews its token."""
        return tuple(dict.fromkeys((self.apis[family].entry, self.token.entry)))


def endpoints(base: str | None) -> Endpoints:
    """Google's own addresses, or the same paths below `base`. Raises `BadUrl`."""
    if base is not None:
        try:
            parsed = parse_url(base)
        except BadUrl as error:
            raise BadUrl(f"google.endpoint cannot be used: {error}") from None
        if parsed.scheme == "http" and not is_loopback(parsed.host):
            raise BadUrl("google.endpoint must be https: your token and your mail would be sent unencrypted.")
        if "?" in parsed.target:
            raise BadUrl("google.endpoint must not have a query. Give an address such as https://google.example.org.")
        base = f"{parsed.origin}{parsed.target}".rstrip("/")
    return Endpoints(
        login=parse_url(f"{base or 'https://accounts.google.com'}/o/oauth2/v2/auth"),
        token=parse_url(f"{base or 'https://oauth2.googleapis.com'}/token"),
        revoke=parse_url(f"{base or 'https://oauth2.googleapis.com'}/revoke"),
        apis={family: parse_url(base or host) for family, host in _HOSTS.items()},
    )


def scopes_of(families: Iterable[Family]) -> tuple[str, ...]:
    return tuple(SCOPES[family] for family in FAMILIES if family in set(families))


def families_of(scopes: Iterable[str]) -> tuple[Family, ...]:
    """The families that the scopes cover, in their usual order."""
    held = set(scopes)
    return tuple(family for family in FAMILIES if SCOPES[family] in held)
