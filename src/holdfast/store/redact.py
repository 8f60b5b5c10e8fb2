"""Takes secrets out of whatever is kept or shown: known values and what looks like a token."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from enum import Enum, auto
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import jsonschema_rs
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.json import IDENTIFIER, Json
from holdfast.contract.result import Result

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
"""Best effort: a token that is not in the list, and whose value nobody added, is not found."""
TOKEN_PREFIXES: Final = (
    *("AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_live_", "rk_live_"),
    *("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "AIza", "npm_", "pypi-AgE", "hf_", "eyJ"),
)
_WORD_BEGINS: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_BEFORE: Final = {"api_key": f"{_WORD_BEGINS}(?=[A-Za-z_-]*[0-9])", "huggingface_token": _WORD_BEGINS}
"""Keeps long hyphenated words from being taken for keys."""
_AFTER: Final = {"private_key": r".*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"}
_PERCENT: Final = re.compile("%[0-9A-F]{2}")


class SecretMatcher:
    """Finds and replaces; made anew whenever a value is added."""

    def __init__(self, names: Mapping[str, str], *, shapes: bool) -> None:
        self._names = dict(names)
        self._shapes = TOKEN_PATTERNS if shapes else {}
        self._pattern: re.Pattern[str] | None = None
        self._search: jsonschema_rs.Validator | None = None
        self._empty = not (names or shapes)

    def finds(self, text: str) -> bool:
        """Whether the text, or JSON that carries it, may hold a secret. Cheap; errs towards yes."""
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
        """The part of the text from `start` to `end`, clean; what lies before it counts as what comes before."""
        end = len(text) if end is None else end
        if not self.finds(text):
            return text[start:end]
        parts: list[str] = []
        for match in self._replacer().finditer(text, start, end):
            parts += text[start : match.start()], f"[secret {match.lastgroup or self._names[match.group()]}]"
            start = match.end()
        return "".join([*parts, text[start:end]])

    def spans(self, text: str, start: int = 0) -> list[tuple[int, int]]:
        """Where the secrets are."""
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
        plain = {_utf8(form) for form in self._names}
        needles = plain | {msgspec.json.encode(form)[1:-1].decode() for form in plain}
        schema = {"pattern": "|".join([*map(_literal, sorted(needles)), *self._shapes.values()])}
        return jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions())


def encoded_forms(value: str) -> set[str]:
    """The value as it is, JSON-escaped, URL-quoted, in hex, and in base64 at each of its three alignments."""
    from base64 import b64encode
    from json import dumps
    from urllib.parse import quote, quote_plus

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
    """The text with halves of surrogate pairs, which the search cannot carry, as question marks."""
    return text.encode("utf-8", "replace").decode()


MIN_SECRET: Final = 6
"""Shorter values would match by chance; they are not redacted."""
_MIN_LINE: Final = 20
"""A line of a secret with many lines is a secret itself from this length."""
_NAME: Final = re.compile(r"[^A-Za-z0-9_.:/-]")


class Redactor:
    """Knows the values that were fetched, and learns new ones at any time.

    Called on a text it replaces known values and token shapes. `result` replaces known values only: a model that
    reads a file with something that looks like a token, and writes it back, must not destroy it.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self.active = False
        """Whether any value is known; asked at every call."""
        self._known = SecretMatcher({}, shapes=False)
        self._all = SecretMatcher({}, shapes=True)

    def add(self, name: str, value: str) -> None:
        """From now on this value, and its escaped and encoded forms, are replaced."""
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
        """Everything that stands for a known value."""
        return self._names.keys()

    @property
    def longest(self) -> int:
        """Characters of the longest of them."""
        return max(map(len, self._names), default=0)

    def __call__(self, text: str) -> str:
        return self._all.replace(text)

    def finds(self, text: str) -> bool:
        """Whether the text, or JSON that carries it, may hold a secret. Cheap; errs towards yes."""
        return self._all.finds(text)

    @property
    def matcher(self) -> SecretMatcher:
        """For known values and shapes, as of now."""
        return self._all

    def stream(self) -> RedactedStream:
        """For a text that arrives in pieces."""
        return RedactedStream(self)

    def value(self, value: Json) -> Json:
        """A JSON value with every text, key and number in it redacted."""
        return _walk(value, self._all.replace)

    def result(self, result: Result) -> Result:
        """A result without the known values, wherever they are in it."""
        return redact_struct(result, self._known.replace, self._content)

    def _content(self, data: bytes) -> bytes:
        """Text is cleaned like any other; other content is left as it is."""
        try:
            return self._known.replace(data.decode()).encode()
        except UnicodeDecodeError:
            return data


def redact_struct(value: V, text: Callable[[str], str], data: Callable[[bytes], bytes]) -> V:
    """A struct with its texts and bytes cleaned, whatever fields it has and whatever structs those hold.

    The types of the fields decide: JSON of no fixed form is cleaned with its keys and numbers; closed lists of words
    and what is declared an `Identifier` stay, because they must still be readable afterwards.
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
    """How each field is cleaned; those that are left as they are do not occur."""
    found: dict[str, _Treatment] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        parts, marks = _taken_apart(hint)
        if any(part is Any or get_origin(part) is dict for part in parts):
            found[name] = _Treatment.JSON
        elif IDENTIFIER not in marks and not any(get_origin(part) is Literal for part in parts):
            found[name] = _Treatment.BY_VALUE
    return found


def _taken_apart(hint: Any) -> tuple[list[Any], list[Any]]:
    """The members of a union, and whatever any of them is annotated with."""
    if get_origin(hint) is Annotated:
        parts, marks = _taken_apart(hint.__origin__)
        return parts, [*marks, *hint.__metadata__]
    if get_origin(hint) not in (Union, UnionType):
        return [hint], []
    members = [_taken_apart(part) for part in get_args(hint)]
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
"""No more than this is held back for something that only looks like a token or a key."""
_MAX_WORD: Final = 4096
_CONTEXT: Final = 2
"""Characters already shown that decide whether a token begins."""
_STARTED: Final = re.compile("|".join(TOKEN_PREFIXES))
_WORD_CHARS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_KEY_BEGINS: Final = "-----BEGIN "
_KEY_TITLE: Final = re.compile(r"-----BEGIN [A-Z ]{0,40}-{0,4}\Z")
_KEY_END: Final = re.compile("-----END [A-Z ]*PRIVATE KEY-----")


class RedactedStream:
    """`feed` gives back what is safe to show; `flush` the rest, at the end."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._shown = ""
        self._waiting = ""

    def feed(self, chunk: str) -> str:
        return self._show(chunk, last=False)

    def flush(self) -> str:
        return self._show("", last=True)

    def _show(self, chunk: str, *, last: bool) -> str:
        text = self._shown + self._waiting + chunk
        start = len(self._shown)
        end = len(text) if last else self._safe_end(text, start)
        self._shown, self._waiting = text[max(0, end - _CONTEXT) : end], text[end:]
        return self._redactor.matcher.replace(text, start, end)

    def _safe_end(self, text: str, start: int) -> int:
        """Where the first part begins that could still become a secret, or another one than it is now."""
        spans = self._redactor.matcher.spans(text, start)
        unfinished = {at for form in (*self._redactor.forms, _KEY_BEGINS) for at in _overlaps(text, form, start)}
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
    """The last word is held whole, because a token counts only where a word begins."""
    tail = text[max(start, len(text) - _MAX_WORD) :]
    word = tail[len(tail.rstrip(_WORD_CHARS)) :]
    if len(word) == _MAX_WORD:
        return len(text)
    is_open = _STARTED.search(word) or any(True for begins in TOKEN_PREFIXES for _ in _overlaps(word, begins, 0))
    return len(text) - len(word) if is_open else len(text)


def _overlaps(text: str, form: str, start: int) -> Iterator[int]:
    """Where an end of the text is a beginning, but not all, of the form."""
    at = max(start, len(text) - len(form) + 1)
    while (at := text.find(form[0], at)) >= 0:
        if form.startswith(text[at:]):
            yield at
        at += 1
