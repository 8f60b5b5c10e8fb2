"""Words of a script: quotes, escapes and expansions."""

from __future__ import annotations

import pytest

from holdfast.rules.shell.lexer import lex
from holdfast.rules.shell.parts import GlobWord, ParsedWord, ProcessSubstitution, QuotedWord, SplitWords, VariableWord
from holdfast.rules.shell.word_reader import UnsupportedSyntax, ansi_value, has_braces


def word(text: str) -> tuple[str | None, ParsedWord]:
    """The value of the second word of a command, and what is known about it."""
    part = next(part for part in lex(f"echo {text}").parts if part.words[:1] == ("echo",))
    return part.words[1], part.parsed_words[1]


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("text", "value"),
    [("a", "a"), ("'a b'", "a b"), ('"a\\"b"', 'a"b'), ("a\\ b", "a b"), ("a'b'\"c\"", "abc"), ("$'\\x41\\n'", "A\n")],
)
def test_quotes_and_escapes_are_removed_from_literal_words(text: str, value: str) -> None:
    assert word(text) == (value, value)


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("$x", VariableWord("x", is_quoted=False)),
        ('"${x}"', VariableWord("x", is_quoted=True)),
        ('"a$x"', QuotedWord()),
        ("$(pwd)", VariableWord("PWD", is_quoted=False)),
        ("<(ls)", ProcessSubstitution()),
        ("a$x", SplitWords(variables=("x",))),
        ("$(ls)", SplitWords(commands=(1,), is_output=True)),
        ("$x*", None),
        ("~", SplitWords()),
    ],
)
def test_an_expansion_has_no_value_but_a_known_shape(text: str, known: ParsedWord) -> None:
    assert word(text) == (None, known)


@pytest.mark.spec("A11")
def test_a_glob_keeps_quoted_characters_escaped() -> None:
    assert word("a'*'*") == (None, GlobWord(r"a\**"))


@pytest.mark.spec("A11")
@pytest.mark.parametrize("text", ["'a", '"a', "`a", "${", "${x", "$[1]", "a\\\nb", "\x01"])
def test_unclosed_and_obsolete_syntax_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedSyntax):
        lex(f"echo {text}")


def test_escapes_that_versions_of_bash_interpret_differently_have_no_value() -> None:
    assert ansi_value("a\\tb") == "a\tb"
    assert ansi_value("\\cA") is None and ansi_value("\\x00") is None and ansi_value("\\u00e4") is None


@pytest.mark.parametrize(("text", "expands"), [("{a,b}", True), ("{1..3}", True), ("{a}b,c}", True), ("{a}", False)])
def test_brace_expansions_are_detected(text: str, expands: bool) -> None:
    assert has_braces(text) is expands


@pytest.mark.spec("A11")
def test_variables_in_arithmetic_are_recorded_because_they_are_evaluated() -> None:
    script = lex("x=1; (( y = x + $z ))")
    assert {"x", "z"} <= script.arithmetic_variables
    assert "y" in script.arithmetic_targets and script.numeric == {"x": True}
