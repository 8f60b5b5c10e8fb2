"""What secrets look like in a text: the forms a known value takes, and the shapes of well-known tokens.

The search runs in the JSON Schema library's regex engine, which looks for any number of values in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import jsonschema_rs
import msgspec

SHAPES: Final[Mapping[str, str]] = {
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
SHAPE_STARTS: Final = (
    *("AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_live_", "rk_live_"),
    *("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "AIza", "npm_", "pypi-AgE", "hf_", "eyJ"),
)
_WORD_BEGINS: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_BEFORE: Final = {"api_key": f"{_WORD_BEGINS}(?=[A-Za-z_-]*[0-9])", "huggingface_token": _WORD_BEGINS}
"""Keeps long hyphenated words from being taken for keys."""
_AFTER: Final = {"private_key": r".*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"}
_PERCENT: Final = re.compile("%[0-9A-F]{2}")


class Matcher:
    """Finds and replaces; made anew whenever a value is added."""

    def __init__(self, names: Mapping[str, str], *, shapes: bool) -> None:
        self._names = dict(names)
        self._shapes = SHAPES if shapes else {}
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


def forms_of(value: str) -> set[str]:
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
