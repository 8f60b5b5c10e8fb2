"""Redacts secrets from everything that is stored or shown: known values in many encodings, and token patterns."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from enum import Enum, auto
from functools import cache
from json import dumps
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from urllib.parse import quote, quote_plus

import jsonschema_rs
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.json import IDENTIFIER, Json
from holdfast.contract.result import Attachment, Result
from holdfast.text.attachments import is_text_type

V = TypeVar("V", bound=Struct)

TOKEN_PATTERNS: Final[Mapping[str, str]] = {
    "aws_key": r"(?:AKIA|ASIA)[0-9A-Z]{16}",
    "github_token": r"gh[pousr]_[A-Za-z0-9]{36,}",
    "github_pat": r"github_pat_[A-Za-z0-9_]{40,}",
    "gitlab_token": r"glpat-[A-Za-z0-9_-]{20,}",
    "api_key": r"sk-[A-Za-z0-9_-]{20,}",
    "stripe_key": r"[sr]k_live_[A-Za-z0-9]{16,}",
    "slack_token": r"xox[abprs]-[A-Za-z0-9-]{10,}",
    "google_key": r"AIza[A-Za-z0-9_-]{35}",
    "npm_token": r"npm_[A-Za-z0-9]{36}",
    "pypi_token": r"pypi-AgE[A-Za-z0-9_-]{40,}",
    "huggingface_token": r"hf_[A-Za-z0-9]{30,}",
    "jwt": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "private_key": "-----BEGIN [A-Z ]*PRIVATE KEY-----",
}
"""Best effort: a token of another format is found only if its value was added to the redactor."""
TOKEN_PREFIXES: Final = (
    *("AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_live_", "rk_live_"),
    *("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "AIza", "npm_", "pypi-AgE", "hf_", "eyJ"),
)
_WORD_START: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_BEFORE: Final = {"api_key": f"{_WORD_START}(?=[A-Za-z_-]*[0-9])", "huggingface_token": _WORD_START}
"""Look-arounds that avoid false positives on long hyphenated words."""
_AFTER: Final = {"private_key": r".*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"}
_PERCENT: Final = re.compile("%[0-9A-F]{2}")


class SecretMatcher:
    """An immutable set of compiled patterns; the redactor makes a new one whenever a value is added."""

    def __init__(self, names: Mapping[str, str], *, shapes: bool) -> None:
        self._names = dict(names)
        self._shapes = TOKEN_PATTERNS if shapes else {}
        self._pattern: re.Pattern[str] | None = None
        self._search: jsonschema_rs.Validator | None = None
        self._empty = not (names or shapes)

    def finds(self, text: str) -> bool:
        """Whether the text, or JSON that carries it, may contain a secret. Fast; may give false positives."""
        if self._empty:
            return False
        search = self._search
        if search is None:
            search = self._search = self._searcher()
        try:
            return search.is_valid(text)
        except ValueError:
            return search.is_valid(_utf8(text))

    def replace(self, text: str, start: int = 0, end: int | None = None) -> str:
        """Return text[start:end] redacted. The text before `start` is only context for look-behinds."""
        end = len(text) if end is None else end
        if not self.finds(text):
            return text[start:end]
        parts: list[str] = []
        for match in self._replacer().finditer(text, start, end):
            parts += text[start : match.start()], f"[secret {match.lastgroup or self._names[match.group()]}]"
            start = match.end()
        return "".join([*parts, text[start:end]])

    def spans(self, text: str, start: int = 0) -> list[tuple[int, int]]:
        """Return the (start, end) positions of the secrets."""
        return [match.span() for match in self._replacer().finditer(text, start)] if self.finds(text) else []

    def _replacer(self) -> re.Pattern[str]:
        if self._pattern is None:
            known = [re.escape(form) for form in sorted(self._names, key=len, reverse=True)]
            shapes = [
                f"(?P<{name}>{_BEFORE.get(name, '')}{shape}{_AFTER.get(name, '')})"
                for name, shape in self._shapes.items()
            ]
            self._pattern = re.compile("|".join([*known, *shapes]), re.DOTALL)
        return self._pattern

    def _searcher(self) -> jsonschema_rs.Validator:
        # A JSON Schema `pattern` runs on Rust's linear-time regex engine, much faster than `re` on long texts.
        plain = {_utf8(form) for form in self._names}
        needles = plain | {msgspec.json.encode(form)[1:-1].decode() for form in plain}
        needles = {needle[:_SEARCHED] for needle in needles}
        schema = {"pattern": "|".join([*map(_literal, sorted(needles)), *self._shapes.values()])}
        return jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions())


def encoded_forms(value: str) -> set[str]:
    """Return the value as it is, JSON-escaped, URL-quoted, in hex, and in base64 at each of its three alignments."""
    raw = value.encode("utf-8", "surrogatepass")
    quoted = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    quoted |= {_PERCENT.sub(lambda match: match.group().lower(), form) for form in quoted}
    forms = {value, dumps(value)[1:-1], dumps(value, ensure_ascii=False)[1:-1], raw.hex(), raw.hex().upper(), *quoted}
    for shift in range(3):
        encoded = b64encode(bytes(shift) + raw).decode()
        begin, end = (shift * 8 + 5) // 6, (shift + len(raw)) * 8 // 6
        forms |= {encoded[begin:end], encoded[begin:end].replace("+", "-").replace("/", "_")}
    return forms


def _literal(text: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else f"\\x{{{ord(char):x}}}" for char in text)


def _utf8(text: str) -> str:
    """Return the text with lone surrogates, which the Rust engine rejects, replaced by question marks."""
    return text.encode("utf-8", "replace").decode()


MIN_SECRET: Final = 6
"""Shorter values are not redacted, because they would match by chance."""
_SEARCHED: Final = 24
"""Characters of a value that the fast search looks for. With whole private keys it would be a thousand times slower."""
_MIN_LINE: Final = 20
"""A line of a multi-line secret with at least this length is redacted on its own."""
_NAME: Final = re.compile(r"[^A-Za-z0-9_.:/-]")
_ESCAPED_BYTE: Final = re.compile("[\udc80-\udcff]")
REMOVED_CONTENT: Final = b"[attachment removed: it contained a secret]"


class Redactor:
    """Knows the secret values that were fetched so far.

    Calling it replaces known values and token patterns. `result` replaces known values only: a model that reads a file
    with something that looks like a token, and writes it back, must not destroy it.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self.active = False
        """Whether any value is known; a cheap check for the hot path."""
        self._known = SecretMatcher({}, shapes=False)
        self._all = SecretMatcher({}, shapes=True)

    def add(self, name: str, value: str) -> None:
        """Redact this value, and its escaped and encoded forms, from now on."""
        value = value.strip()
        lines = [line.strip() for line in value.splitlines() if not line.startswith("-----")]
        long_lines = [line for line in lines if len(line) >= _MIN_LINE] if len(lines) > 1 else []
        new = [part for part in (value, *long_lines) if len(part) >= MIN_SECRET and part not in self._names]
        if not new:
            return
        label = _NAME.sub("_", name)[:64]
        self.active = True
        self._names = self._names | {form: label for part in new for form in encoded_forms(part)}
        self._known = SecretMatcher(self._names, shapes=False)
        self._all = SecretMatcher(self._names, shapes=True)

    @property
    def forms(self) -> Set[str]:
        """All known values in all their encodings."""
        return self._names.keys()

    @property
    def longest(self) -> int:
        """The length of the longest form."""
        return max(map(len, self._names), default=0)

    def __call__(self, text: str) -> str:
        return self._all.replace(text)

    def finds(self, text: str) -> bool:
        """Whether the text, or JSON that carries it, may contain a secret. Fast; may give false positives."""
        return self._all.finds(text)

    @property
    def matcher(self) -> SecretMatcher:
        """The current matcher for known values and token patterns."""
        return self._all

    def known(self, text: str, *, cut: bool = False) -> str:
        """Return the text with known values redacted, but no token patterns. The end of a text that is `cut` may be the
        beginning of a value: that is redacted too."""
        if not self.active:
            return text
        end, rest = len(text), ""
        if cut:
            spans = self._known.spans(text)
            for form, name in self._names.items():
                for at in _overlaps(text, form, 0):
                    if at < end and len(text) - at >= MIN_SECRET and not any(a < at < b for a, b in spans):
                        end, rest = at, f"[secret {name}]"
        return self._known.replace(text, 0, end) + rest

    def stream(self) -> RedactedStream:
        """Return a redactor for text that arrives in chunks."""
        return RedactedStream(self)

    def value(self, value: Json) -> Json:
        """Return a JSON value with every string, key and number in it redacted."""
        return _walk(value, self._all.replace)

    def result(self, result: Result) -> Result:
        """Return a result with known values redacted in all its fields."""
        clean = redact_struct(result, self._known.replace, bytes)
        return (
            replace(clean, attachments=tuple(map(self._attachment, clean.attachments))) if clean.attachments else clean
        )

    def _attachment(self, item: Attachment) -> Attachment:
        """Redact text, also if some of its bytes are not UTF-8; drop other content that has a known value."""
        text = item.data.decode("utf-8", "surrogateescape")
        clean = self._known.replace(text)
        if clean == text:
            return item
        as_text = is_text_type(item.mime_type) or not _ESCAPED_BYTE.search(text)
        return replace(item, data=clean.encode("utf-8", "surrogateescape") if as_text else REMOVED_CONTENT)


def redact_struct(value: V, text: Callable[[str], str], data: Callable[[bytes], bytes]) -> V:
    """Return the struct with `text` and `data` applied to all its strings and bytes, nested structs included.

    The field types decide: free-form JSON is redacted including keys and numbers; enums, literals and fields declared
    `Identifier` are left alone, because the struct must still decode afterwards.
    """
    treatments = _treatments(type(value))

    def one(item: Any) -> Any:
        if isinstance(item, str):
            return item if isinstance(item, Enum) else text(item)
        if isinstance(item, bytes):
            return data(item)
        if isinstance(item, Struct):
            return redact_struct(item, text, data)
        if isinstance(item, tuple | list | frozenset):
            return type(cast(Any, item))(map(one, cast(Iterable[Any], item)))
        return item

    changed: dict[str, Any] = {}
    for name, treatment in treatments.items():
        item = getattr(value, name)
        changed[name] = one(item) if treatment is _Treatment.BY_VALUE else _walk(item, text)
    return replace(value, **changed)


class _Treatment(Enum):
    BY_VALUE = auto()
    JSON = auto()


@cache
def _treatments(kind: type[Struct]) -> Mapping[str, _Treatment]:
    """Return how each field is redacted; fields that are left alone are missing."""
    found: dict[str, _Treatment] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        parts, marks = _split_hint(hint)
        if any(part is Any or get_origin(part) is dict for part in parts):
            found[name] = _Treatment.JSON
        elif IDENTIFIER not in marks and not any(get_origin(part) is Literal for part in parts):
            found[name] = _Treatment.BY_VALUE
    return found


def _split_hint(hint: Any) -> tuple[list[Any], list[Any]]:
    """Return the members of a union and all their annotations."""
    if get_origin(hint) is Annotated:
        parts, marks = _split_hint(hint.__origin__)
        return parts, [*marks, *hint.__metadata__]
    if get_origin(hint) not in (Union, UnionType):
        return [hint], []
    members = [_split_hint(part) for part in get_args(hint)]
    return [part for parts, _ in members for part in parts], [mark for _, marks in members for mark in marks]


def _walk(value: Json, text: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {text(key): _walk(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [_walk(item, text) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown = str(value)
        clean = text(shown)
        return value if clean == shown else clean
    return value


MAX_BUFFERED: Final = 16_384
"""The most characters that a stream holds back for something that may become a token or a private key."""
_MAX_WORD: Final = 4096
_CONTEXT: Final = 2
"""Characters before the current position that look-behinds need."""
_STARTED: Final = re.compile("|".join(TOKEN_PREFIXES))
_WORD_CHARS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_KEY_START: Final = "-----BEGIN "
_KEY_TITLE: Final = re.compile(r"-----BEGIN [A-Z ]{0,40}-{0,4}\Z")
_KEY_END: Final = re.compile("-----END [A-Z ]*PRIVATE KEY-----")


class RedactedStream:
    """Redacts text that arrives in chunks, also where a secret spans several of them.

    `feed` returns the text that is safe to show; a tail that may be the start of a secret is buffered until `flush`.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._context = ""
        self._buffer = ""

    def feed(self, chunk: str) -> str:
        return self._advance(chunk, last=False)

    def flush(self) -> str:
        return self._advance("", last=True)

    def _advance(self, chunk: str, *, last: bool) -> str:
        text = self._context + self._buffer + chunk
        start = len(self._context)
        end = len(text) if last else self._safe_end(text, start)
        self._context, self._buffer = text[max(0, end - _CONTEXT) : end], text[end:]
        return self._redactor.matcher.replace(text, start, end)

    def _safe_end(self, text: str, start: int) -> int:
        """Return where the first part starts that more text could still turn into a secret, or a longer one."""
        spans = self._redactor.matcher.spans(text, start)
        unfinished = {at for form in (*self._redactor.forms, _KEY_START) for at in _overlaps(text, form, start)}
        begin, end = spans[-1] if spans else (start, start)
        unfinished.add(_open_word(text, start))
        if end < len(text) or not spans:
            unfinished.add(_open_word(text, end))
            title = _KEY_TITLE.search(text, max(end, len(text) - 64))
            unfinished.add(title.start() if title else len(text))
        elif text[begin:end] not in self._redactor.forms and not _KEY_END.search(text, begin):
            unfinished.add(begin if end - begin <= MAX_BUFFERED else end)
        reachable = (at for at in sorted(unfinished) if not any(begin < at < end for begin, end in spans))
        return next(reachable, len(text))


def _open_word(text: str, start: int) -> int:
    """Return where the last word starts, if it may be a token: tokens match only at word starts, so buffer it whole."""
    tail = text[max(start, len(text) - _MAX_WORD) :]
    word = tail[len(tail.rstrip(_WORD_CHARS)) :]
    if len(word) == _MAX_WORD:
        return len(text)
    is_open = _STARTED.search(word) or any(True for prefix in TOKEN_PREFIXES for _ in _overlaps(word, prefix, 0))
    return len(text) - len(word) if is_open else len(text)


def _overlaps(text: str, form: str, start: int) -> Iterator[int]:
    """Yield the positions where the rest of the text is a proper prefix of the form."""
    at = max(start, len(text) - len(form) + 1)
    while (at := text.find(form[0], at)) >= 0:
        if form.startswith(text[at:]):
            yield at
        at += 1
