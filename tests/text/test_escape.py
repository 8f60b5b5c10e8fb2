"""Escaped text cannot be reordered, hidden, overwritten or misread."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from wcwidth import wcwidth

from holdfast.text.escape import char_width, escape, escape_block, escape_block_once, escape_once, escape_url
from tests.soak import rounds

from .strategies import ANY_TEXT, PLAIN_TEXT

HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
SHOWS_NOTHING = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810)}
VARIATION_SELECTORS = {*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}


def is_hidden(char: str, kept: str = "") -> bool:
    if char in kept:
        return False
    code = ord(char)
    return (
        (unicodedata.category(char) in HIDDEN_CATEGORIES and char != " ")
        or code in SHOWS_NOTHING
        or code in VARIATION_SELECTORS
    )


def unescape(shown: str, newline: str = "↵") -> str:
    """Invert `escape`, implemented from its documentation."""

    def original(found: re.Match[str]) -> str:
        if found["newline"]:
            return "\n"
        if found["spaces"]:
            return " " * int(found["spaces"])
        named = {"t": "\t", "r": "\r"}
        char = named.get(found["named"] or "") or chr(int(found["hex"] or found["code"], 16))
        return char * int(found["count"] or 1)

    char = r"(?P<named>[tr])|x(?P<hex>..)|u\{(?P<code>[0-9a-f]+)\}"
    escape = rf"‹\\(?:{char})(?:×(?P<count>\d+))?›|‹␠×(?P<spaces>\d+)›|(?P<newline>{newline})"
    return re.sub(escape, original, shown)


@pytest.mark.spec("O1")
@given(ANY_TEXT)
def test_escaped_text_has_no_hidden_characters(text: str) -> None:
    assert not [char for char in escape(text) if is_hidden(char)]


@pytest.mark.spec("O1")
@given(ANY_TEXT)
def test_an_escaped_block_keeps_only_newlines_and_tabs(text: str) -> None:
    shown = escape_block(text)
    assert not [char for char in shown if is_hidden(char, kept="\n\t")]
    assert shown.count("\n") == text.count("\n") and shown.count("\t") == text.count("\t")


@pytest.mark.spec("O1")
@given(ANY_TEXT)
def test_different_texts_have_different_escaped_forms(text: str) -> None:
    assert unescape(escape(text)) == text
    assert unescape(escape_block(text), newline="(?!)") == text


@pytest.mark.spec("O1")
def test_every_code_point_has_a_visible_and_unique_form() -> None:
    assigned = [*range(0x40000), *range(0xE0000, 0xE1000)]
    everything = "".join(map(chr, [*assigned, *range(0x40000, 0x110000, rounds(31, 1))]))
    shown = escape(everything)
    assert not [char for char in set(shown) if is_hidden(char)]
    assert unescape(shown) == everything


@pytest.mark.spec("O1")
@given(PLAIN_TEXT)
def test_printable_ascii_is_unchanged_except_for_long_runs_of_spaces(text: str) -> None:
    assert escape(text) == re.sub(" {9,}", lambda found: f"‹␠×{len(found[0])}›", text)
    assert escape_block(text) == text


@pytest.mark.spec("O1")
def test_a_long_run_of_spaces_is_escaped_with_its_length() -> None:
    assert escape("ls" + " " * 400 + "; rm x") == "ls‹␠×400›; rm x"
    assert escape("a" + " " * 8 + "b") == "a" + " " * 8 + "b"
    assert escape("ls‹␠×400›") == "ls‹\\u{2039}›␠×400›"
    assert escape("東" + " " * 9) == "東‹␠×9›"
    assert escape_block("a" + " " * 400) == "a" + " " * 400


@pytest.mark.spec("O1")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm\u202e gpj.exe", "rm‹\\u{202e}› gpj.exe"),
        ("\u2066x\u2069", "‹\\u{2066}›x‹\\u{2069}›"),
        ("a\u200bb", "a‹\\u{200b}›b"),
        ("\U000e0041\U000e0042", "‹\\u{e0041}›‹\\u{e0042}›"),
        ("a\U000e0100", "a‹\\u{e0100}›"),
        ("\U0001d173", "‹\\u{1d173}›"),
        ("ls" + "\xa0" * 5000 + "; rm -rf ~", "ls‹\\xa0×5000›; rm -rf ~"),
        ("\u3000", "‹\\u{3000}›"),
        ("safe\rrm", "safe‹\\r›rm"),
        ("a\bb", "a‹\\x08›b"),
        ("\x1b[2J", "‹\\x1b›[2J"),
        ("\x1b]52;c;aGk=\x07", "‹\\x1b›]52;c;aGk=‹\\x07›"),
        ("\x9b31m", "‹\\x9b›31m"),
        ("co\xadop", "co‹\\xad›op"),
        ("\ud83d", "‹\\u{d83d}›"),
        ("\ue000", "‹\\u{e000}›"),
        ("a\u2028b", "a‹\\u{2028}›b"),
        ("a\tb", "a‹\\t›b"),
    ],
)
def test_each_spoofing_trick_is_escaped(text: str, shown: str) -> None:
    assert escape(text) == shown


@pytest.mark.spec("O1")
def test_newlines_have_a_mark_and_a_literal_mark_is_escaped() -> None:
    assert escape("a\nb\n\nc") == "a↵b↵↵c"
    assert escape("a↵b") == "a‹\\u{21b5}›b"
    assert escape("a\nb", newline="⏎") == "a⏎b"
    assert escape_block("a\nb ↵") == "a\nb ↵"


@pytest.mark.spec("O1")
def test_a_literal_escape_differs_from_a_real_one() -> None:
    assert escape(r"printf '\x1b[31m \u{202e}'") == r"printf '\x1b[31m \u{202e}'"
    assert escape("‹\\x1b›") == "‹\\u{2039}›\\x1b›"


@pytest.mark.spec("O1")
def test_letters_of_all_scripts_are_unchanged() -> None:
    text = "naïve Ελλάδα Москва 東京 한국어 עברית العربية ไทย हिन्दी தமிழ் 🙂 e\u0301 \u1112\u1161\u11ab"
    assert escape(text) == text


@pytest.mark.spec("O1")
def test_combining_marks_after_the_fourth_are_escaped() -> None:
    assert escape("a" + "\u0301" * 6) == "a" + "\u0301" * 4 + "‹\\u{301}›" * 2
    assert escape("a" + "\u0301" * 4 + "\u0302") == "a" + "\u0301" * 4 + "‹\\u{302}›"


@pytest.mark.spec("O1")
@pytest.mark.parametrize("before", ["", " ", "\n", "\t", "\x1b", "‹", "\u3164"])
def test_a_combining_mark_without_a_base_in_its_text_is_escaped(before: str) -> None:
    assert escape(f"{before}\u0301b").endswith("‹\\u{301}›b")
    assert escape_block(f"{before}\u0301b").endswith("‹\\u{301}›b")


@pytest.mark.spec("O1")
def test_a_mark_of_another_script_is_escaped_because_terminals_drop_it() -> None:
    assert escape("a\u0941b") == "a‹\\u{941}›b"
    assert escape("a\u1161\u0301b") == "a‹\\u{1161}›‹\\u{301}›b"
    assert escape("क\u0941 か\u3099") == "क\u0941 か\u3099"
    assert escape("東\u0302") == "東‹\\u{302}›"


@pytest.mark.spec("O1")
def test_every_visible_character_takes_a_column_or_combines_and_no_more_than_its_counted_width() -> None:
    for char in filter(str.isprintable, map(chr, range(0x80, 0x110000))):
        if escape(f"a{char}") == f"a{char}":
            assert wcwidth(char) > 0 or unicodedata.combining(char), hex(ord(char))
            assert wcwidth(char) <= char_width(char), hex(ord(char))


@pytest.mark.spec("O1")
@given(ANY_TEXT)
def test_partly_escaped_text_is_not_escaped_twice(text: str) -> None:
    once = escape(text)
    assert escape_once(once) == once
    assert not [char for char in escape_once(text) if is_hidden(char)]
    assert not [char for char in escape_block_once(text) if is_hidden(char, kept="\n\t")]


@pytest.mark.spec("O1")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://docs.python.org/3/?q=a@b#x", "https://docs.python.org/3/?q=a@b#x"),
        ("http://localhost:8000/", "http://localhost:8000/"),
        ("https://github.com@evil/", "[host: evil] https://github.com@evil/"),
        ("https://github.com:443@evil.io/x", "[host: evil.io] https://github.com:443@evil.io/x"),
        ("https://gіthub.com/a", "[host: xn--gthub-n2e.com] https://gіthub.com/a"),
        ("https://xn--gthub-n2e.com/", "[host: xn--gthub-n2e.com] https://xn--gthub-n2e.com/"),
        ("https://paypaI.com/", "[host: paypai.com] https://paypaI.com/"),
        ("http://2130706433/", "[host: 2130706433] http://2130706433/"),
        ("http://127.0.0.1/", "[host: 127.0.0.1] http://127.0.0.1/"),
        ("http://[::1]:80/", "[host: [::1]] http://[::1]:80/"),
        ("https://evil.com\\@github.com/", "[no clear host] https://evil.com\\@github.com/"),
        ("https://evil.com%2f@github.com/", "[no clear host] https://evil.com%2f@github.com/"),
        ("https://git\xadhub.com/", "[no clear host] https://git‹\\xad›hub.com/"),
        ("https://a℀b.com/", "[no clear host] https://a℀b.com/"),
        ("https:evil.com", "[no clear host] https:evil.com"),
        ("[host: github.com] https://evil/", "[no clear host] [host: github.com] https://evil/"),
        ("https://example.com/\u202e", "[host: example.com] https://example.com/‹\\u{202e}›"),
        ("http://[::1", "[no clear host] http://[::1"),
    ],
)
def test_an_ambiguous_url_is_prefixed_with_its_host(url: str, shown: str) -> None:
    assert escape_url(url) == shown


@pytest.mark.spec("O1")
def test_a_long_host_keeps_its_end() -> None:
    shown = escape_url("https://github.com." + "a." * 100 + "evil.io/")
    assert shown.startswith("[host: …") and ".evil.io] https://github.com." in shown


@pytest.mark.spec("O1")
@given(ANY_TEXT | ANY_TEXT.map(lambda text: f"https://{text}/"))
def test_any_text_can_be_escaped_as_a_url(url: str) -> None:
    shown = escape_url(url)
    assert not [char for char in shown if is_hidden(char)]
    assert shown.endswith(escape(url))
