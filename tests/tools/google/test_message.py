"""The MIME walk and the headers of messages: what strangers send never fails, hides an address or ends the process."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.google.message import (
    MAX_DEPTH,
    MAX_PARTS,
    Header,
    Message,
    Part,
    PartBody,
    addresses,
    attachments,
    decoded_base64,
    decoded_words,
    header_addresses,
    html_parts,
    text_parts,
    without_quotes,
)
from tests.quick import quickly
from tests.tools.google.google_server import encoded

pytestmark = pytest.mark.spec("B14e")


def made(mime: str, text: str = "", *parts: Part, filename: str = "") -> Part:
    return Part(mime_type=mime, filename=filename, body=PartBody(data=encoded(text)), parts=parts)


@pytest.mark.parametrize(
    ("header", "address", "name"),
    [
        ("Ann <ann@example.org>", "ann@example.org", "Ann"),
        ("ann@example.org", "ann@example.org", ""),
        ('"Ann, B." <ann@example.org>', "ann@example.org", "Ann, B."),
        ("=?utf-8?b?QW5uIMO8?= <ann@example.org>", "ann@example.org", "Ann ü"),
        ("=?utf-8?q?Ann?= =?utf-8?q?_B?= <ann@example.org>", "ann@example.org", "Ann B"),
    ],
)
def test_an_address_is_shown_with_its_name(header: str, address: str, name: str) -> None:
    (found,) = addresses(header)
    assert (found.address, found.name, found.misleading) == (address, name, False)


@pytest.mark.parametrize(
    "header",
    [
        '"security@bank.example" <evil@x.example>',
        "security@bank.example <evil@x.example>",
        "=?utf-8?q?security=40bank=2Eexample?= <evil@x.example>",
        "=?utf-8?q?=3Csecurity=40bank=2Eexample=3E?= <evil@x.example>",
        '"security@bank.example\u202e" <evil@x.example>',
        "=?utf-8?b?PHNlY3VyaXR5QGJhbmsuZXhhbXBsZT4=?= <evil@x.example>",
        "security\uff20bank.example <evil@x.example>",
        "security\ufe6bbank.example <evil@x.example>",
    ],
)
def test_a_name_that_imitates_an_address_never_takes_its_place(header: str) -> None:
    (found,) = addresses(header)
    assert found.address == "evil@x.example" and found.misleading
    assert str(found).startswith("evil@x.example («") and "a name that looks like another address" in str(found)


@pytest.mark.parametrize(
    "header",
    [
        "security@bank.example evil@x.example",
        "<security@bank.example> <evil@x.example>",
        "<evil@x.example> security@bank.example",
        '<evil@x.example> "security@bank.example"',
        "<security@bank.example",
        '"<security@bank.example>',
        "security@bank.example@x.example",
        "(security@bank.example",
        "Ann",
        "<>",
        "=?utf-8?q?a=40b=2Eexample?=",
        "evil@x.example (a (b) <security@bank.example>, c)",
        "evil@x.example (a (b) c)",
        "evil@x.example (a (b (c)) d), e)",
        "evil@x.example: security@bank.example",
        "evil@x.example: a@x.example, security@bank.example;",
        "<evil@x.example>: security@bank.example;",
        "(evil@x.example): security@bank.example;",
        '"evil@x.example": security@bank.example;',
        "evil\uff20x.example: security@bank.example;",
        "=?utf-8?q?evil=40x=2Eexample?=: security@bank.example;",
        "team: other: security@bank.example;",
        ": security@bank.example",
        "security@ba(x)nk.example",
        'security@ba"x"nk.example',
    ],
)
def test_what_could_be_read_in_two_ways_is_shown_whole_and_unread(header: str) -> None:
    (found,) = addresses(header)
    assert found.address == "" and str(found).startswith("unreadable: ")


def test_lists_groups_and_comments_are_read() -> None:
    header = 'a@x.example, "B, C" <b@x.example>; d@x.example (D), team: e@x.example, F <f@x.example>;'
    found = [(each.address, each.name) for each in addresses(header)]
    assert found == [
        ("a@x.example", ""),
        ("b@x.example", "B, C"),
        ("d@x.example", "D"),
        ("e@x.example", ""),
        ("f@x.example", "F"),
    ]
    assert addresses("undisclosed-recipients:;") == [] and addresses("") == []


def test_a_domain_with_foreign_letters_is_shown_in_punycode() -> None:
    assert [each.address for each in addresses("Apple <id@аpple.com>")] == ["id@xn--pple-43d.com"]


@pytest.mark.parametrize(
    "domain",
    ["p\u0430ypal.com\u200d", "p\u200d\u0430ypal.com", "p\u0430y..pal.com", "a" * 70 + "\u0430.com"],
)
def test_a_domain_that_has_no_punycode_is_unreadable_and_its_letters_are_escaped(domain: str) -> None:
    (found,) = addresses(f"<x@{domain}>")
    assert found.address == "" and str(found).startswith("unreadable: <x@") and str(found).isascii()


@pytest.mark.parametrize("name", ["from", "to", "reply-to"])
def test_a_header_that_is_there_twice_is_unreadable(name: str) -> None:
    twice = tuple(Header(name.title(), value) for value in ("ann@example.org", "evil@x.example"))
    (found,) = header_addresses(Part(headers=twice), name)
    assert str(found) == "unreadable: 2 headers: ann@example.org | evil@x.example"
    assert [each.address for each in header_addresses(Part(headers=twice[:1]), name)] == ["ann@example.org"]
    assert header_addresses(Part(), name) == []


def test_a_name_cannot_end_its_quotes_and_add_a_recipient() -> None:
    (found,) = addresses('"Ann»), boss@example.org («Boss" <evil@x.example>')
    assert str(found) == "evil@x.example («Ann), boss@example.org (Boss», a name that looks like another address)"


def test_control_and_bidi_characters_do_not_reach_a_header_line() -> None:
    (found,) = addresses("=?utf-8?q?A=0D=0ABcc=3A_x=E2=80=AEgro?= <ann@example.org>")
    assert found.name == "A Bcc: x gro"


@given(st.text(max_size=200))
def test_addresses_and_encoded_words_never_fail_and_stay_on_one_line(text: str) -> None:
    for each in addresses(text):
        assert len(str(each).splitlines()) <= 1
    assert isinstance(decoded_words(text), str)


@given(st.lists(st.sampled_from("<>@\"'(),;:=?utf8qbB.-_ \\[]aä\u202e\r\n"), max_size=60).map("".join))
def test_addresses_made_of_syntax_never_fail(text: str) -> None:
    for each in addresses(text):
        assert len(str(each).splitlines()) <= 1


names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=30)


@given(names, st.from_regex(r"[a-z]{1,10}@[a-z]{1,10}\.example", fullmatch=True))
def test_the_real_address_is_found_behind_every_quoted_name(name: str, address: str) -> None:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    assert [each.address for each in addresses(f'"{quoted}" <{address}>')] == [address]


@given(st.binary(max_size=300))
def test_base64_of_any_bytes_is_decoded_with_and_without_padding(data: bytes) -> None:
    assert decoded_base64(encoded(data)) == (data, False)
    assert decoded_base64(encoded(data) + "=" * (-len(encoded(data)) % 4)) == (data, False)


@given(st.text(max_size=100))
def test_damaged_base64_never_fails(text: str) -> None:
    body, damaged = decoded_base64(text)
    assert isinstance(body, bytes)
    assert damaged or re.fullmatch(r"[A-Za-z0-9_+/=\s-]*", text)


leaves: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "mimeType": st.sampled_from(["text/plain", "text/html", "image/png", "x", "multipart/alternative"]),
        "filename": st.sampled_from(["", "a.pdf", "\r\n"]),
        "body": st.fixed_dictionaries({"data": st.sampled_from(["", "aGk", "!!!", "aGk=\n"])}),
        "headers": st.just([{"name": "Content-Disposition", "value": "attachment"}]),
    },
)
json_parts: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.fixed_dictionaries(
        {"parts": st.lists(inner, max_size=4)},
        optional={"mimeType": st.sampled_from(["multipart/mixed", "multipart/alternative", "message/rfc822"])},
    ),
    max_leaves=15,
)


@given(json_parts)
def test_the_walk_never_fails_and_finds_each_leaf_at_most_once(tree: dict[str, Any]) -> None:
    payload = msgspec.convert(tree, Part)
    bodies = msgspec.json.encode(tree).count(b'"data"')
    texts, files = text_parts(payload), attachments(payload)
    assert len(texts) <= bodies and len(html_parts(payload)) <= bodies
    assert len(files) <= len(_leaves(payload))


def _leaves(part: Part) -> list[Part]:
    return [part] if not part.parts else [part, *(leaf for each in part.parts for leaf in _leaves(each))]


def test_a_deep_or_wide_message_is_walked_in_bounded_time() -> None:
    deep = made("text/plain", "bottom")
    for _ in range(MAX_DEPTH + 10):
        deep = made("multipart/mixed", "", deep)
    wide = made("multipart/mixed", "", *(made("text/plain", "x") for _ in range(50_000)))
    nested = made("multipart/alternative", "", *(made("multipart/alternative", "", wide) for _ in range(20)))
    assert text_parts(deep) == []
    with quickly():
        assert len(text_parts(wide)) < MAX_PARTS and len(attachments(wide)) == 0
        assert len(text_parts(nested)) < MAX_PARTS


def test_an_attached_message_and_inline_images_are_part_of_it() -> None:
    inner = made("message/rfc822", "", made("text/plain", "inner"))
    tree = made("multipart/mixed", "", made("text/plain", "outer"), made("image/png", "…", filename="a.png"), inner)
    assert [each.body for each in text_parts(tree)] == [b"outer", b"inner"]
    assert [each.name for each in attachments(tree)] == ["a.png"]


def test_a_text_file_that_is_attached_is_not_the_message() -> None:
    tree = made("multipart/mixed", "", made("text/plain", "see file"), made("text/plain", "secret", filename="a.txt"))
    assert [each.body for each in text_parts(tree)] == [b"see file"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Yes.\n\n> No?\n> Oh.", "Yes."),
        ("Yes.\nOn 5 Jan, Ann wrote:\n> No?", "Yes."),
        ("Ja.\n\nAm 5. Jan. schrieb Ann:\n> Nein?", "Ja."),
        ("See below\n> quoted\nmy answer", "See below\nmy answer"),
        ("Hi\n----- Original Message -----\nFrom: a", "Hi"),
        ("no quotes", "no quotes"),
        ("> all of it", ""),
    ],
)
def test_quoted_text_is_left_out(text: str, kept: str) -> None:
    assert without_quotes(text) == kept


@given(st.text(max_size=300))
def test_trimming_only_removes(text: str) -> None:
    left = iter("".join(text.split()))
    assert all(char in left for char in "".join(without_quotes(text).split()))


def test_a_long_line_is_trimmed_in_bounded_time() -> None:
    with quickly():
        without_quotes("On " + "a" * 500_000 + "\n" + "On b wrote" * 50_000)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_message_are_rejected_by_their_shape(data: bytes) -> None:
    try:
        msgspec.json.decode(data, type=Message)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
