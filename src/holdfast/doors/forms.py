"""What a form or an address that somebody else puts to a person is after: secrets, and places that hide where they are.

Whether a form asks for a secret is guessed by its words. It is there to warn, and whoever wants to avoid it can.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

from holdfast.contract.inquiry import Form

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


def asks_for_a_secret(form: Form) -> bool:
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
    return any(_speaks_of_one(text) for text in texts if text)


def fault_of_address(url: str) -> str | None:
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


def _speaks_of_one(text: str) -> bool:
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
