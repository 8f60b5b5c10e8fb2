"""Regular expressions: what ripgrep and Python could read differently is refused, the rest means the same to both."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.tools.search.engines import find_ripgrep
from holdfast.tools.search.pattern import BadPattern, Pattern, literal, regular
from holdfast.tools.search.scan import Scan, lines_for
from tests.soak import rounds

RIPGREP = find_ripgrep(Path("/nowhere")) or ""
PIECES = [
    *("a", "b", "B", "é", " ", ".", "*", "+", "?", "|", "(", ")", "[ab]", "[^a]", "[a-c]", "[[:alpha:]]", "^", "$"),
    *("\\b", "\\w", "\\W", "\\d", "\\s", "\\S", "\\.", "{2}", "{0,1}", "{1,}", "(?:", "(?i)", "\\t"),
    *("\\x41", "[^\\W_]", "-"),
]
TEXTS = ["a", "b", "B", "A", "é", " ", "\t", "\n", "\r\n", "1", "_", "ab", ".", "-", "\x0b", "\x7f"]
patterns = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
contents = st.lists(st.sampled_from(TEXTS), max_size=25).map(lambda parts: "".join(parts).encode())


def _ours(pattern: Pattern, content: bytes) -> int:
    found = Scan(lines_for(pattern.text, regex=pattern.regex, fold=pattern.fold)).data(content, len(content))
    return 0 if found is None else found[0]


def _theirs(pattern: Pattern, content: bytes, place: Path) -> int:
    (place / "file").write_bytes(content)
    how = [] if pattern.regex else ["--fixed-strings"]
    how += ["--ignore-case"] if pattern.fold else []
    asked = [f"--regexp={pattern.text.decode()}", "./"]
    flags = ["--no-config", "--no-unicode", "--no-mmap", "--encoding=none", "--count", "--no-filename"]
    done = subprocess.run([RIPGREP, *flags, *how, *asked], cwd=place, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return int(done.stdout or 0)


@pytest.mark.skipif(not RIPGREP, reason="there is no ripgrep to compare with")
@given(query=patterns, content=contents, fold=st.booleans())
@settings(max_examples=rounds(50, 250), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.spec("B2")
def test_a_pattern_that_is_accepted_means_the_same_to_both_engines(
    tmp_path: Path, query: str, content: bytes, fold: bool
) -> None:
    try:
        pattern = regular(query, fold=fold)
    except BadPattern:
        return
    assert _ours(pattern, content) == _theirs(pattern, content, tmp_path), pattern


@pytest.mark.skipif(not RIPGREP, reason="there is no ripgrep to compare with")
@given(query=st.text(st.sampled_from("aBé .*(\\$\r-"), min_size=1, max_size=4), content=contents, fold=st.booleans())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.spec("B2")
def test_a_literal_is_taken_literally_by_both_engines(tmp_path: Path, query: str, content: bytes, fold: bool) -> None:
    pattern = literal(query, fold=fold)
    assert _ours(pattern, content) == _theirs(pattern, content, tmp_path)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("(?=a)", "look-around"),
        ("(?<!a)b", "look-around"),
        (r"(a)\1", "the escape \\1"),
        (r"\p{L}", "the escape \\p"),
        (r"\Bx", "the escape \\B"),
        (r"\n", "the escape \\n"),
        (r"\x00", "the escape \\x"),
        ("a++", "a repeat of a repeat"),
        ("*a", "nothing to repeat"),
        ("^*", "no length"),
        ("a{,3}", "not a repeat"),
        ("a{3,2}", "backwards"),
        ("a{5000}", "above 1000"),
        ("((a{500}){500})", "too much"),
        ("[é]", "in a class"),
        ("[a&&b]", "in a class"),
        ("[a[b]]", "unescaped '['"),
        ("[z-a]", "backwards"),
        ("[a", "never closed"),
        ("(a", "never closed"),
        ("a)", "closes nothing"),
        ("(" * 60 + ")" * 60, "too deeply"),
        ("a\nb", "one line"),
        ("", "empty"),
        ("(?i)", "empty"),
        ("\ud800", "broken Unicode"),
        ("x" * 5000, "characters long"),
    ],
)
@pytest.mark.spec("B2")
def test_what_the_engines_could_read_differently_is_refused(query: str, words: str) -> None:
    with pytest.raises(BadPattern) as refused:
        regular(query)
    assert words in str(refused.value)


@pytest.mark.spec("B2")
def test_a_pattern_without_special_characters_is_searched_as_text() -> None:
    assert regular(r"a\.b") == Pattern(b"a.b")
    assert regular("(?i)Word") == Pattern(b"Word", fold=True)
    assert regular("a|b").regex


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("(", "has a '(' that is never closed at character 1;"),
        ("ab(c(d)", "has a '(' that is never closed at character 3;"),
        ("ab[c", "has a '[' that is never closed at character 3;"),
        ("ab)", "has a ')' that closes nothing at character 3;"),
        ("a|*", "has a '*' with nothing to repeat at character 3;"),
        ("x[bz-a]", "has a range that is backwards or has no end at character 4;"),
        ("ab\\", "has a backslash with nothing to escape at character 3;"),
        (r"ab\p", r"contains the escape \p at character 3, which is not supported here;"),
        (r"ab\x00", r"contains the escape \x at character 3, which is not supported here;"),
        ("a[b[c]]", "contains an unescaped '[' in a class at character 4, which is not supported here;"),
    ],
)
@pytest.mark.spec("B2")
def test_what_is_wrong_with_a_pattern_is_said_with_its_place(query: str, words: str) -> None:
    with pytest.raises(BadPattern) as refused:
        regular(query)
    assert words in str(refused.value)
    assert ("not supported" in str(refused.value)) is ("not supported" in words)
