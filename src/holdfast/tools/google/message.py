"""A message of Gmail: its headers with the real addresses, the text of its MIME parts, its attachments."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from email.header import decode_header
from typing import Final, Literal
from unicodedata import normalize

from msgspec import Struct, field

from holdfast.net.hosts import normalize_host
from holdfast.tools.extraction.content import decode
from holdfast.tools.google.results import clean_text, one_line, quoted_name

MAX_PARTS: Final = 500
MAX_DEPTH: Final = 40
MAX_ADDRESSES: Final = 50
_MAX_HEADER: Final = 20_000
_SHOWN_TWICE: Final = 3
_CLOSING: Final = {'"': '"', "(": ")", "<": ">"}
_ADDR_SPEC: Final = re.compile(r"[^\s<>\"(),:;\\@]{1,200}@[^\s<>\"(),:;\\@]{1,255}")
_QUOTE_INTRO: Final = re.compile(
    r"(?:On\b.{5,300}\bwrote:|Am\b.{5,300}\bschrieb\b.{0,200}:|Le\b.{5,300}\ba écrit\s?:|El\b.{5,300}\bescribió:)\s*"
)
_ORIGINAL: Final = re.compile(r"-{2,}\s*(?:Original Message|Ursprüngliche Nachricht|Forwarded message)\s*-{2,}", re.I)


class Header(Struct, frozen=True):
    name: str = ""
    value: str = ""


class PartBody(Struct, frozen=True, rename="camel"):
    attachment_id: str = ""
    size: int = 0
    data: str = ""


class Part(Struct, frozen=True, rename="camel"):
    """`MessagePart` of the API."""

    mime_type: str = ""
    filename: str = ""
    headers: tuple[Header, ...] = ()
    body: PartBody = PartBody()
    parts: tuple[Part, ...] = ()

    def header(self, name: str) -> str:
        """The first header of that name, empty if there is none."""
        return next((item.value for item in self.headers if item.name.lower() == name), "")


class Message(Struct, frozen=True, rename="camel"):
    id: str = ""
    thread_id: str = ""
    label_ids: tuple[str, ...] = ()
    snippet: str = ""
    internal_date: str = ""
    size_estimate: int = 0
    payload: Part = field(default_factory=Part)


class Address(Struct, frozen=True):
    """One address of a header. `address` is empty if the header has none that can be read; `name` is then all it
    says."""

    address: str
    name: str
    misleading: bool
    """Whether the name looks like another address."""

    def __str__(self) -> str:
        if not self.address:
            return f"unreadable: {self.name}"
        if not self.name:
            return self.address
        return f"{self.address} («{self.name}»{', a name that looks like another address' if self.misleading else ''})"


class FilePart(Struct, frozen=True, kw_only=True):
    """An attachment. It has its data, or an id to fetch it by."""

    name: str
    mime: str
    size: int
    attachment_id: str
    data: str


class TextPart(Struct, frozen=True):
    """A part with text, still encoded."""

    mime: Literal["text/plain", "text/html"]
    content_type: str
    body: bytes
    damaged: bool


def decoded_words(text: str) -> str:
    """Decode the encoded words of a header (RFC 2047). Never fails."""
    text = text[:_MAX_HEADER]
    if "=?" not in text:
        return text
    try:
        pieces = decode_header(text)
    except Exception:  # the parser of the standard library raises many kinds for hostile input
        return text
    found: list[str] = []
    for piece, charset in pieces:
        if isinstance(piece, str):
            found.append(piece)
        else:
            found.append(decode(piece, f"text/plain; charset={charset or 'utf-8'}").text if piece else "")
    return "".join(found)


def addresses(header: str) -> list[Address]:
    """Return the addresses of a header. The address is read before encoded words are decoded, as RFC 2047 requires: a
    decoded name can contain anything, but it can never become the address. What two programs could read differently is
    returned whole, as unreadable."""
    raw = one_line(header, _MAX_HEADER)
    return [_address(each) for each in _mailboxes(raw)[:MAX_ADDRESSES]]


def header_addresses(part: Part, name: str) -> list[Address]:
    """Return the addresses of the header of that name. One that is there twice is unreadable: which of them counts
    depends on the program."""
    given = [item.value for item in part.headers if item.name.lower() == name]
    if len(given) < 2:
        return addresses(given[0]) if given else []
    shown = " | ".join(one_line(decoded_words(each), 200) for each in given[:_SHOWN_TWICE])
    return [Address("", f"{len(given)} headers: {shown}", misleading=False)]


class _Mailbox:
    """One entry of a header while it is read."""

    def __init__(self) -> None:
        self.raw = ""
        self.open = ""
        """What the next character is in: a quoted string, a comment, an address; or empty."""
        self.depth = 0
        """Of comments within the comment."""
        self.parts = dict.fromkeys(("", *_CLOSING), "")
        """The text by what it was in."""
        self.ambiguous = False
        self.whole = False
        """Whether the rest of the header belongs to it, because where it ends is ambiguous."""

    def take(self, char: str, *, escaped: bool = False) -> None:
        self.raw += char
        if not escaped and self.open == "(" and char in "()" and (char == "(" or self.depth):
            self.depth += 1 if char == "(" else -1
            self.whole = self.ambiguous = True  # not every program counts
        elif not escaped and char == _CLOSING.get(self.open):
            self.open = ""
            return
        opens = not self.open and char in _CLOSING
        # Nothing but a comment may follow an address.
        if not self.open and self.parts["<"] and not char.isspace() and char != "(":
            self.ambiguous = True
        if opens:
            self.open = char
            self.parts[""] += " "  # what is on both sides of a comment is not one word
        else:
            self.parts[self.open] += char

    @property
    def is_group_name(self) -> bool:
        """Whether a colon may follow: it would hide an address."""
        name = normalize("NFKC", decoded_words(self.raw))
        return bool(self.raw.strip()) and not any(char in name for char in "@<>")


def _mailboxes(raw: str) -> list[_Mailbox]:
    """Split a header at its top-level commas. Not `email.utils.getaddresses`: for `a@b <c@d>` some versions of it
    return the name as the address."""
    found, current, chars, in_group = list[_Mailbox](), _Mailbox(), iter(raw), False
    for char in chars:
        if not current.open and not current.whole and char in ",;":
            found.append(current)
            current = _Mailbox()
            in_group = in_group and char != ";"
        elif not current.open and not current.whole and char == ":" and not in_group and current.is_group_name:
            current, in_group = _Mailbox(), True
        elif char == "\\" and current.open in ('"', "("):
            current.raw += char
            current.take(next(chars, ""), escaped=True)
        else:
            if not current.open and char == ":":
                current.whole = current.ambiguous = True
            current.take(char)
    return [each for each in (*found, current) if each.raw.strip()]


def _address(box: _Mailbox) -> Address:
    bare, quoted, angle = (box.parts[each].strip() for each in ("", '"', "<"))
    address, name = (angle, f"{bare} {quoted}".strip()) if "<" in box.raw else (bare, box.parts["("])
    lonely = quoted and not angle
    if box.open or box.ambiguous or lonely or not _ADDR_SPEC.fullmatch(address):
        return Address("", one_line(decoded_words(box.raw), 500), misleading=False)
    local, _, domain = address.rpartition("@")
    if not domain.isascii():  # in punycode, so that no letter can pass for another
        host = normalize_host(domain)
        if host is None:
            escaped = box.raw.encode("ascii", "backslashreplace").decode("ascii")
            return Address("", one_line(escaped, 500), misleading=False)
        address = f"{local}@{host}"
    shown = quoted_name(decoded_words(name))
    looks = "@" in normalize("NFKC", shown) and address.lower() != shown.strip(" <>\"'").lower()
    return Address(address, "" if shown.lower() == address.lower() else shown, misleading=looks)


def text_parts(payload: Part) -> list[TextPart]:
    """Return the parts that are the message itself: of alternatives the plain text, or the HTML if that is blank."""
    return list(_texts(payload, 0, [MAX_PARTS], prefer="text/plain"))


def html_parts(payload: Part) -> list[TextPart]:
    """Like `text_parts`, but the HTML of alternatives."""
    return list(_texts(payload, 0, [MAX_PARTS], prefer="text/html"))


def _texts(part: Part, depth: int, left: list[int], *, prefer: str) -> Iterator[TextPart]:
    left[0] -= 1
    if depth > MAX_DEPTH or left[0] < 0 or _is_file(part):
        return
    mime = _mime(part)
    if part.parts and mime == "multipart/alternative":
        choices = [list(_texts(each, depth + 1, left, prefer=prefer)) for each in part.parts]
        filled = [texts for texts in choices if any(each.body.strip() for each in texts)]
        yield from next((texts for texts in filled if texts[0].mime == prefer), filled[0] if filled else [])
    elif part.parts:
        for each in part.parts:
            yield from _texts(each, depth + 1, left, prefer=prefer)
    elif part.body.data and mime in ("text/plain", "text/html"):
        body, damaged = decoded_base64(part.body.data)
        kind: Literal["text/plain", "text/html"] = "text/html" if mime == "text/html" else "text/plain"
        yield TextPart(kind, part.header("content-type") or mime, body, damaged)


def attachments(payload: Part) -> list[FilePart]:
    return list(_files(payload, 0, [MAX_PARTS]))


def _files(part: Part, depth: int, left: list[int]) -> Iterator[FilePart]:
    left[0] -= 1
    if depth > MAX_DEPTH or left[0] < 0:
        return
    if _is_file(part):
        yield FilePart(
            name=one_line(decoded_words(part.filename), 200) or "unnamed",
            mime=_mime(part) or "application/octet-stream",
            size=max(0, part.body.size),
            attachment_id=part.body.attachment_id,
            data=part.body.data,
        )
        return
    for each in part.parts:
        yield from _files(each, depth + 1, left)


def _is_file(part: Part) -> bool:
    if part.filename or part.body.attachment_id:
        return True
    return part.header("content-disposition").strip().lower().startswith("attachment")


def _mime(part: Part) -> str:
    mime = part.mime_type.strip().lower()
    return mime if re.fullmatch(r"[\w.+-]{1,80}/[\w.+-]{1,80}", mime, re.ASCII) else ""


def decoded_base64(data: str) -> tuple[bytes, bool]:
    """Decode base64url with or without padding; returns whether it was damaged. Never fails."""
    kept = re.sub(r"[^A-Za-z0-9_-]", "", data.replace("+", "-").replace("/", "_"))
    damaged = len(kept) != len(data.rstrip("=").strip())
    if len(kept) % 4 == 1:
        kept, damaged = kept[:-1], True
    try:
        return urlsafe_b64decode(kept + "=" * (-len(kept) % 4)), damaged
    except (Base64Error, ValueError):
        return b"", True


def without_quotes(text: str) -> str:
    """Return a reply without the text that it quotes: lines with `>`, and everything after an introduction."""
    kept: list[str] = []
    for line in clean_text(text).split("\n"):
        if _ORIGINAL.fullmatch(line.strip()):
            break
        if not line.lstrip().startswith(">"):
            kept.append(line)
    while kept and not kept[-1].strip():
        kept.pop()
    if kept and _QUOTE_INTRO.fullmatch(kept[-1].strip()):
        kept.pop()
    return "\n".join(kept).rstrip()
