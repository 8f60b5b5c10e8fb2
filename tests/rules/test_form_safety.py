"""Third-party forms that ask for secrets, and URLs that hide where they lead."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.elicitation import FormRequest
from holdfast.rules.form_safety import asks_for_a_secret, looks_secret, url_problem
from tests.quick import quickly

SECRETS = [
    "password",
    "userPassword",
    "API_KEY",
    "apiKey",
    "access-token",
    "authToken",
    "PIN",
    "Your PIN",
    "userPIN",
    "P.I.N.",
    "pin_code",
    "client secret",
    "Card number",
    "credit card",
    "cvv",
    "CVC2",
    "otp",
    "pwd",
    "dbPwd",
    "pass",
    "db_pass",
    "passkey",
    "2FA",
    "2FA code",
    "mfa",
    "TOTP",
    "verification code",
    "oneTimeCode",
    "SSH key",
    "Passwort",
    "contrase\u00f1a",
    "mot de passe",
    "\u043f\u0430\u0440\u043e\u043b\u044c",
    "\u5bc6\u7801",
    "p.a.s.s.w.o.r.d",
    "p a s s w o r d",
    "pass word",
    "pa55w0rd",
    "P@$$word",
    "passvvord",
    "Pass\u200bword",
    "pa\u3164ssword",
    "P\u0430ssw\u043erd",
    "\u0420assword",
    "\u03a1assword",
    "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44",
    "p\u0336a\u0336s\u0336s\u0336w\u0336o\u0336r\u0336d",
    "\U0001f17f\U0001f170\U0001f182\U0001f182word",
]
OTHERS = [
    "name",
    "pinned",
    "spinning",
    "city",
    "the key of a song",
    "opinion",
    "passenger",
    "As in your passport.",
    "max_tokens",
    "secretary",
    "country code",
    "postcode",
    "author",
    "compass",
]


def form(message: str = "Please tell us.", **fields: Any) -> FormRequest:
    return FormRequest(message=message, schema={"type": "object", "properties": fields})


def field(name: str, schema: Any) -> FormRequest:
    return FormRequest(message="Please tell us.", schema={"type": "object", "properties": {name: schema}})


@pytest.mark.spec("K1")
@pytest.mark.parametrize("words", SECRETS)
def test_a_secret_field_is_detected_by_name_or_title_for_any_type(words: str) -> None:
    assert asks_for_a_secret(field(words, {"type": "string"}))
    assert asks_for_a_secret(field(words, {"type": "integer"}))
    assert asks_for_a_secret(form(value={"type": ["string", "null"], "title": words}))
    assert not asks_for_a_secret(field(words, {"type": "boolean"}))
    assert not asks_for_a_secret(field(words, {"type": "string", "enum": ["a", "b"]}))


@pytest.mark.spec("K1")
@pytest.mark.parametrize("words", OTHERS)
def test_other_names_are_not_detected_as_secrets(words: str) -> None:
    part: dict[str, Any] = {"type": "string", "title": words, "description": words}
    assert not asks_for_a_secret(FormRequest(message=words, schema={"properties": {words: part}}))


@pytest.mark.spec("K1")
def test_a_form_with_free_input_is_detected_by_its_message() -> None:
    assert asks_for_a_secret(form("Enter your password.", value={"type": "string"}))
    assert asks_for_a_secret(form("Enter your p\u0430ssword.", value={"type": "number"}))
    assert asks_for_a_secret(form("Enter your pass:", value={"type": "string"}))
    assert asks_for_a_secret(FormRequest(message="", schema={"title": "Your PIN", "properties": {"a": {}}}))
    assert not asks_for_a_secret(form("Change the password?", sure={"type": "boolean"}, how={"enum": ["now", "later"]}))
    assert not asks_for_a_secret(form("Change the password?"))
    assert not asks_for_a_secret(form("Did all tests pass?", value={"type": "string"}))


@pytest.mark.spec("K1")
def test_a_secret_is_detected_by_schema_keywords() -> None:
    assert asks_for_a_secret(form(a={"type": "string", "format": "password"}))
    assert asks_for_a_secret(form(a={"type": "string", "writeOnly": True}))
    assert asks_for_a_secret(form(password=3))
    assert not asks_for_a_secret(FormRequest(message="password", schema={"properties": ["password"]}))


@given(st.text(max_size=40))
def test_invisible_characters_do_not_hide_a_secret(text: str) -> None:
    looks_secret(text)
    hidden = "\u200d".join("password")
    assert looks_secret(f"{text} {hidden}")


def test_long_texts_are_checked_in_linear_time() -> None:
    for unit in ("a ", "pass ", "one time ", "\u0430 ", "aB"):
        with quickly():
            looks_secret(unit * (400_000 // len(unit)))


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://user@example.com/",
        "https://exa mple.com/",
        "https://example.com\\@evil.example/",
        "https://example.com/\x1b[2J",
        "https://ex\u0430mple.com/",
        "https://[::1/",
        "https:///x",
        "https://example.com:99999/",
        "--version",
        "",
    ],
)
def test_urls_that_hide_where_they_lead_are_refused(url: str) -> None:
    assert url_problem(url)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("url", ["https://example.com/a?b=c#d", "http://127.0.0.1:8080/x", "http://[::1]:3/"])
def test_plain_urls_are_accepted(url: str) -> None:
    assert url_problem(url) is None
