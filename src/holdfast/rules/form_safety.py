"""What a form or an address that somebody else puts to a person is after: secrets, and places that hide where they are.

Whether a form asks for a secret is guessed by its words. It is there to warn, and whoever wants to avoid it can.
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

_CLEAN: Final = re.compile(r"[!-~]+")
_ODD: Final = frozenset("\\`\"'<>{}|^")

_CASE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN: Final = re.compile(r"[\W_]+")
_ALONE: Final = re.compile(r"(?<![^ ][^ ])(?<=[^\W\d_]) (?=[^\W\d_](?![^ ]))")
"""The blank between two letters that are no words."""
_CONTROLS: Final = re.compile(r"[\t\n\v\f\r]")
_FILLERS: Final = "\u115f\u1160"
"""Letters by their class that show nothing."""
_LATIN: Final = str.maketrans(
    "АВСЕНІЈКМОРЅТХУԜԀԌҮӀѴԚавсԁеһіїјкӏмнорԛѕтуѵԝхүгпієъ"
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹαβεηικνορτυχωγϲσςμϳ"
    "ᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢɑɡıȷɩłøđħŧꞵօսոհʋƖɭ",
    "ABCEHIJKMOPSTXYWDGYlVQabcdehiijklmhopqstyvwxyrnieb"
    "ABEZHIKMNOPTYXCabenikvoptuxwycosuj"
    "abcdeghijklmnoprstuvwyzagijilodhtbounhvll",
)
"""Letters of other scripts that look like ours."""
_DIGITS: Final = str.maketrans("0134578", "oieastb")
_SIGNS: Final = str.maketrans("@$€!|", "aseil")

_SECRET: Final = re.compile(
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
"""In words that are joined by one blank."""
_NAMED: Final = re.compile(r"\b(auth|pass|psw)\b")
"""As the name of a field alone; in a sentence they are ordinary words."""
_JOINED: Final = re.compile(
    r"password|passwd|passphrase|passcode|passwort|kennwort|apikey|privatekey|secretkey|accesskey|sshkey|creditcard"
    r"|cardnumber|onetimecode|verificationcode|securitycode|recoveryphrase|seedphrase|mnemonic|credential|contrasena"
)
"""Whatever is put between the letters."""
_NATIVE: Final = re.compile(
    "парол|пин-?код|密码|密碼|口令|パスワード|暗証番号|비밀번호|암호|كلمة المرور|كلمة السر|סיסמה"
    "|पासवर्ड|รหัสผ่าน|κωδικ[οό]ς? πρ[οό]σβασης"
)


def asks_for_a_secret(form: FormRequest) -> bool:
    """Whether something can be typed into the form that its words call a password or the like."""
    fields = _object(form.schema.get("properties"))
    if any(is_secret_field(name, part) for name, part in fields.items()):
        return True
    return any(is_typed(part) for part in fields.values()) and looks_secret(form.message, *_texts(form.schema))


def is_secret_field(name: str, part: object) -> bool:
    schema = _object(part)
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        return True
    if not is_typed(part):
        return False
    names = (name, *_texts(schema, "title"))
    return looks_secret(*names, *_texts(schema, "description")) or any(_NAMED.search(_words(text)) for text in names)


def is_typed(part: object) -> bool:
    """Whether it is filled in freely; a yes, a no and a choice of what is offered can give nothing away."""
    schema = _object(part)
    if schema.get("type") == "array" and _offers(_object(schema.get("items"))):
        return False
    return schema.get("type") != "boolean" and not _offers(schema)


def looks_secret(*texts: str) -> bool:
    """Whether names, titles or sentences speak of something that must not be typed in here."""
    return any(_mentions_secret(text) for text in texts if text)


def url_problem(url: str) -> str | None:
    """Why an address cannot be shown as a place to go to; None if it can."""
    if url.partition(":")[0].lower() not in ("http", "https"):
        return "That is no web address."
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        _ = parts.port
    except ValueError:
        return "That is no web address."
    if not host or not _CLEAN.fullmatch(url) or _ODD & set(url):
        return "The address has characters that programs read differently."
    if parts.username is not None or parts.password is not None:
        return "The address has a name or a password before its host, which hides where it leads."
    return None


def _mentions_secret(text: str) -> bool:
    if not text.isascii() and _NATIVE.search(_without(unicodedata.normalize("NFKC", text), "Cf").casefold()):
        return True
    if _SECRET.search(_words(text)):
        return True
    joined = _BETWEEN.sub("", _folded(text).translate(_SIGNS)).casefold()
    return any(_JOINED.search(each) for each in (joined, joined.translate(_DIGITS), joined.replace("vv", "w")))


def _words(text: str) -> str:
    """In small letters, one blank between two; letters that stand alone are put together: `P.I.N.` is one word."""
    words = " ".join(_BETWEEN.split(_CASE.sub(" ", _folded(text))))
    return _ALONE.sub("", words).casefold()


def _folded(text: str) -> str:
    """Without what is not seen, accents, and letters that only look like ours."""
    bare = _without(unicodedata.normalize("NFKD", _CONTROLS.sub(" ", text)), "Cf", "Cc", "Mn", "Me")
    if bare.isascii():
        return bare
    badges = {ord(sign): _from_badge(sign) for sign in set(bare)}
    return bare.translate(badges).translate(_LATIN)


def _without(text: str, *classes: str) -> str:
    unseen = (sign for sign in set(text) if sign in _FILLERS or unicodedata.category(sign) in classes)
    return text.translate(dict.fromkeys(map(ord, unseen)))


def _from_badge(sign: str) -> str:
    """Letters on a ground of their own, which have no plain form in Unicode."""
    for first in (0x1F150, 0x1F170, 0x1F1E6):
        if 0 <= ord(sign) - first < 26:
            return chr(ord("A") + ord(sign) - first)
    return sign


def _offers(schema: Mapping[str, Any]) -> bool:
    enum = schema.get("enum")
    if isinstance(enum, list) and enum:
        return True
    for key in ("oneOf", "anyOf"):
        options = schema.get(key)
        if isinstance(options, list) and options:
            return all(isinstance(item, Mapping) and "const" in item for item in cast(list[object], options))
    return False


def _object(value: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _texts(schema: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    found = (schema.get(key) for key in keys or ("title", "description"))
    return tuple(text for text in found if isinstance(text, str))


Kind = Literal["text", "integer", "number", "boolean", "choice", "choices", "json"]

_TRUE: Final = frozenset(("y", "yes", "true"))
_FALSE: Final = frozenset(("n", "no", "false"))


class InvalidInput(HoldfastError):
    """What was typed is not what the field wants; the text says what is."""


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
    """What is wanted, in a few words."""

    @property
    def is_typed(self) -> bool:
        """Whether it is filled in freely."""
        return self.kind in ("text", "integer", "number", "json")

    def read(self, typed: str) -> Json:
        """The value of what was typed. Raises `Bad`."""
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
    """Raises `HoldfastError` for what is no form."""
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
    hint = words.get(kind, "several, with commas between" if kind == "choices" else "")
    form = _text(schema, "format")
    return ", ".join(part for part in (hint, form if kind == "text" else "") if part)


def _text(schema: Mapping[str, Any], key: str) -> str:
    value = schema.get(key)
    return value if isinstance(value, str) else ""


def ordered_values(fields: Sequence[Field], values: Mapping[str, Json]) -> Args:
    """The answer as it is sent, in the order of the form."""
    return {field.name: values[field.name] for field in fields if field.name in values}
