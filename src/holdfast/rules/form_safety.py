"""Safety checks for third-party forms and links shown to the user, and the typed fields of such a form.

Detects forms that ask for secrets (passwords, tokens, PINs, card numbers) and URLs that hide where they lead. Secrets
are detected by keywords, with homoglyphs, leetspeak and invisible characters folded. This is a warning, not a
protection: a determined author can avoid it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, UnsetType

from holdfast.contract.elicitation import FormRequest
from holdfast.contract.errors import BadJson, HoldfastError
from holdfast.contract.json import Args, Json, parse_json
from holdfast.contract.schema import CompiledSchema, compile_schema_or_bool

_PRINTABLE_ASCII: Final = re.compile(r"[!-~]+")
_AMBIGUOUS_URL: Final = frozenset("\\`\"'<>{}|^")

_CAMEL_CASE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS: Final = re.compile(r"[\W_]+")
_LETTER_GAP: Final = re.compile(r"(?<![^ ][^ ])(?<=[^\W\d_]) (?=[^\W\d_](?![^ ]))")
"""The space between two single letters."""
_CONTROLS: Final = re.compile(r"[\t\n\v\f\r]")
_FILLERS: Final = "\u115f\u1160"
"""Characters in the class of letters that are invisible."""
_HOMOGLYPHS: Final = str.maketrans(
    "АВСЕНІЈКМОРЅТХУԜԀԌҮӀѴԚавсԁеһіїјкӏмнорԛѕтуѵԝхүгпієъ"
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹαβεηικνορτυχωγϲσςμϳ"
    "ᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢɑɡıȷɩłøđħŧꞵօսոհʋƖɭ",
    "ABCEHIJKMOPSTXYWDGYlVQabcdehiijklmhopqstyvwxyrnieb"
    "ABEZHIKMNOPTYXCabenikvoptuxwycosuj"
    "abcdeghijklmnoprstuvwyzagijilodhtbounhvll",
)
"""Homoglyphs: letters of other scripts that look like Latin ones."""
_LEET_DIGITS: Final = str.maketrans("0134578", "oieastb")
_LEET_SIGNS: Final = str.maketrans("@$€!|", "aseil")

_SECRET_WORDS: Final = re.compile(
    r"pass ?(code|key|ord|phrase|wd|word|wort)s?\b|passwor|\bpswd\b|\bpw\b|pwds?\b"
    r"|\b(admin|login|my|our|root|the|user|your) pass\b"
    r"|\bpins?\d?\b|\bpin(code|number|nr)\b|secret(?!ar)|\bcreds\b|credential|mnemonic"
    r"|token\b|\b(access|api|auth|bearer|id|login|refresh|security|session) ?tokens\b"
    r"|\b(access|account|api|auth|decryption|deploy|encryption|gpg|host|licen[cs]e|master|pgp|private|recovery|root"
    r"|security|signing|ssh|wallet) ?keys?\b|\bid rsa\b"
    r"|\bcv[cv]2?\b|\bcsc\b|(credit|debit|bank) ?cards?\b|card ?(number|no|nr)\b|\bssn\b|social ?security"
    r"|\b[ht]?otps?\b|\b(2|two|multi) ?fa(ctor)?\b|\b[mt]fa\b|two ?step|authenticator"
    r"|one ?time ?(code|key|pass|pin)|recovery ?(code|phrase|word)s?|seed ?(phrase|word)s?|backup ?codes?"
    r"|\b(access|activation|auth[a-z]*|confirmation|login|security|sms|sign ?in|unlock|verification) ?codes?\b"
    r"|kennwort|contrasena|mot ?de ?passe|\bsenha\b|wachtwoord|\bhaslo\b|\bparola\b|losenord|adgangskode"
    r"|\bheslo\b|salasana|jelszo|\bsifre(n|niz)?\b|geheimzahl|\blozinka\b"
)
"""Matched against lower-case words separated by single spaces."""
_SECRET_FIELD_NAMES: Final = re.compile(r"\b(auth|pass|psw)\b")
"""Matched against field names only; in a sentence these are ordinary words."""
_SECRET_JOINED: Final = re.compile(
    r"password|passwd|passphrase|passcode|passwort|kennwort|apikey|privatekey|secretkey|accesskey|sshkey|creditcard"
    r"|cardnumber|onetimecode|verificationcode|securitycode|recoveryphrase|seedphrase|mnemonic|credential|contrasena"
)
"""Matched against the letters alone, with everything in between removed."""
_SECRET_OTHER_SCRIPTS: Final = re.compile(
    "парол|пин-?код|密码|密碼|口令|パスワード|暗証番号|비밀번호|암호|كلمة المرور|كلمة السر|סיסמה"
    "|पासवर्ड|รหัสผ่าน|κωδικ[οό]ς? πρ[οό]σβασης"
)


def asks_for_a_secret(form: FormRequest) -> bool:
    """Whether the form has a free-text field that asks for a secret."""
    fields = _as_mapping(form.schema.get("properties"))
    if any(is_secret_field(name, part) for name, part in fields.items()):
        return True
    return any(is_typed(part) for part in fields.values()) and looks_secret(form.message, *_texts(form.schema))


def is_secret_field(name: str, part: object) -> bool:
    schema = _as_mapping(part)
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        return True
    if not is_typed(part):
        return False
    names = (name, *_texts(schema, "title"))
    return looks_secret(*names, *_texts(schema, "description")) or any(
        _SECRET_FIELD_NAMES.search(_words(text)) for text in names
    )


def is_typed(part: object) -> bool:
    """Whether a field takes free input. A boolean or a choice cannot reveal a secret."""
    schema = _as_mapping(part)
    if schema.get("type") == "array" and _is_choice(_as_mapping(schema.get("items"))):
        return False
    return schema.get("type") != "boolean" and not _is_choice(schema)


def looks_secret(*texts: str) -> bool:
    """Whether any of the texts mentions a secret."""
    return any(_mentions_secret(text) for text in texts if text)


def url_problem(url: str) -> str | None:
    """Why a URL must not be offered to the user as a link; None if it is fine."""
    if url.partition(":")[0].lower() not in ("http", "https"):
        return "That is not a web address."
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        _ = parts.port
    except ValueError:
        return "That is not a web address."
    if not host or not _PRINTABLE_ASCII.fullmatch(url) or _AMBIGUOUS_URL & set(url):
        return "The address contains characters that programs interpret differently."
    if parts.username is not None or parts.password is not None:
        return "The address has a user name or password before its host, which hides where it leads."
    return None


def _mentions_secret(text: str) -> bool:
    if not text.isascii() and _SECRET_OTHER_SCRIPTS.search(
        _without_categories(unicodedata.normalize("NFKC", text), "Cf").casefold()
    ):
        return True
    if _SECRET_WORDS.search(_words(text)):
        return True
    joined = _SEPARATORS.sub("", _fold(text).translate(_LEET_SIGNS)).casefold()
    return any(
        _SECRET_JOINED.search(each) for each in (joined, joined.translate(_LEET_DIGITS), joined.replace("vv", "w"))
    )


def _words(text: str) -> str:
    """Lower-case words separated by single spaces; single letters are joined, so `P.I.N.` is one word."""
    words = " ".join(_SEPARATORS.split(_CAMEL_CASE.sub(" ", _fold(text))))
    return _LETTER_GAP.sub("", words).casefold()


def _fold(text: str) -> str:
    """The text without invisible characters and accents, homoglyphs replaced by Latin letters."""
    bare = _without_categories(unicodedata.normalize("NFKD", _CONTROLS.sub(" ", text)), "Cf", "Cc", "Mn", "Me")
    if bare.isascii():
        return bare
    plain = {ord(sign): _plain_letter(sign) for sign in set(bare)}
    return bare.translate(plain).translate(_HOMOGLYPHS)


def _without_categories(text: str, *classes: str) -> str:
    unseen = (sign for sign in set(text) if sign in _FILLERS or unicodedata.category(sign) in classes)
    return text.translate(dict.fromkeys(map(ord, unseen)))


def _plain_letter(sign: str) -> str:
    """Map enclosed and regional-indicator letters, which NFKD does not decompose, to plain ones."""
    for first in (0x1F150, 0x1F170, 0x1F1E6):
        if 0 <= ord(sign) - first < 26:
            return chr(ord("A") + ord(sign) - first)
    return sign


def _is_choice(schema: Mapping[str, Any]) -> bool:
    enum = schema.get("enum")
    if isinstance(enum, list) and enum:
        return True
    for key in ("oneOf", "anyOf"):
        options = schema.get(key)
        if isinstance(options, list) and options:
            return all(isinstance(item, Mapping) and "const" in item for item in cast(list[object], options))
    return False


def _as_mapping(value: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _texts(schema: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    found = (schema.get(key) for key in keys or ("title", "description"))
    return tuple(text for text in found if isinstance(text, str))


Kind = Literal["text", "integer", "number", "boolean", "choice", "choices", "json"]

_TRUE: Final = frozenset(("y", "yes", "true"))
_FALSE: Final = frozenset(("n", "no", "false"))


class InvalidInput(HoldfastError):
    """The input is not valid for the field; the message says what is expected."""


class Choice(Struct, frozen=True):
    value: Json
    title: str


class Field(Struct, frozen=True, kw_only=True):
    name: str
    title: str
    description: str
    kind: Kind
    required: bool
    secret: bool
    choices: tuple[Choice, ...] = ()
    default: Json | UnsetType = UNSET
    checked: CompiledSchema
    hint: str = ""
    """The expected input, in a few words."""

    @property
    def is_typed(self) -> bool:
        """Whether the field takes free input."""
        return self.kind in ("text", "integer", "number", "json")

    def read(self, typed: str) -> Json:
        """Parse and validate the input. Raises `InvalidInput`."""
        value = self._value(typed)
        wrong = self.checked.violations(value)
        if wrong:
            raise InvalidInput(wrong[0].replace("the whole value", "it", 1))
        return value

    def _value(self, typed: str) -> Json:
        word = typed.strip()
        match self.kind:
            case "text":
                return typed
            case "integer" | "number":
                return _number(word, whole=self.kind == "integer")
            case "boolean":
                if word.lower() not in _TRUE | _FALSE:
                    raise InvalidInput("type yes or no")
                return word.lower() in _TRUE
            case "choice":
                return self._chosen(word)
            case "choices":
                return [self._chosen(part.strip()) for part in word.split(",") if part.strip()]
            case "json":
                try:
                    return parse_json(word)
                except BadJson as error:
                    raise InvalidInput(f"that is not JSON: {error}") from None

    def _chosen(self, word: str) -> Json:
        for choice in self.choices:
            if word in (choice.value, choice.title):
                return choice.value
        if word.isascii() and word.isdecimal() and 0 < int(word[:6]) <= len(self.choices):
            return self.choices[int(word[:6]) - 1].value
        raise InvalidInput(f"type a number from 1 to {len(self.choices)}")


def form_fields(schema: Mapping[str, Any]) -> list[Field]:
    """The fields of a form. Raises `HoldfastError` for an invalid schema."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    required = schema.get("required")
    wanted = cast(list[object], required) if isinstance(required, list) else []
    found: list[Field] = []
    for name, part in cast(Mapping[str, Any], properties).items():
        inner = cast(dict[str, Any], part) if isinstance(part, dict) else {}
        found.append(_field(name, inner, required=name in wanted))
    return found


def _field(name: str, schema: dict[str, Any], *, required: bool) -> Field:
    title, description = _text(schema, "title"), _text(schema, "description")
    kind, choices = _kind(schema)
    checked = compile_schema_or_bool(schema, f"The field '{name}'")
    sound = "default" in schema and checked.accepts(schema["default"])
    return Field(
        name=name,
        title=title or name,
        description=description,
        kind=kind,
        required=required,
        secret=is_secret_field(name, schema),
        choices=choices,
        default=cast(Json, schema["default"]) if sound else UNSET,
        checked=checked,
        hint=_hint(kind, schema),
    )


def _kind(schema: Mapping[str, Any]) -> tuple[Kind, tuple[Choice, ...]]:
    choices = _choices(schema)
    if choices:
        return "choice", choices
    kind = schema.get("type")
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        items = _choices(cast(Mapping[str, Any], schema["items"]))
        return ("choices", items) if items else ("json", ())
    plain: dict[object, Kind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
    return (plain.get(kind, "json") if isinstance(kind, str) else "json"), ()


def _choices(schema: Mapping[str, Any]) -> tuple[Choice, ...]:
    enum = schema.get("enum")
    if isinstance(enum, list) and enum:
        values = cast(list[Json], enum)
        named = schema.get("enumNames")
        names = cast(Sequence[object], named) if isinstance(named, list) else ()
        titles = [str(names[at]) if at < len(names) else str(value) for at, value in enumerate(values)]
        return tuple(Choice(value, title) for value, title in zip(values, titles, strict=True))
    for key in ("oneOf", "anyOf"):
        options = schema.get(key)
        if isinstance(options, list) and options and all(_is_const(item) for item in cast(list[object], options)):
            found = cast(list[dict[str, Json]], options)
            return tuple(Choice(item["const"], str(item.get("title") or item["const"])) for item in found)
    return ()


def _is_const(item: object) -> bool:
    return isinstance(item, dict) and "const" in item


def _number(word: str, *, whole: bool) -> Json:
    try:
        number = int(word[:400]) if whole else float(word)
    except ValueError:
        raise InvalidInput("type a whole number" if whole else "type a number") from None
    if not math.isfinite(number):
        raise InvalidInput("type a number")
    return number


def _hint(kind: Kind, schema: Mapping[str, Any]) -> str:
    words = {"integer": "a whole number", "number": "a number", "boolean": "yes or no", "json": "JSON"}
    hint = words.get(kind, "several, separated by commas" if kind == "choices" else "")
    form = _text(schema, "format")
    return ", ".join(part for part in (hint, form if kind == "text" else "") if part)


def _text(schema: Mapping[str, Any], key: str) -> str:
    value = schema.get(key)
    return value if isinstance(value, str) else ""


def ordered_values(fields: Sequence[Field], values: Mapping[str, Json]) -> Args:
    """The values in the order of the form's fields."""
    return {field.name: values[field.name] for field in fields if field.name in values}
