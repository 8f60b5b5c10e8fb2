"""The second parser: commands and redirections in the tree of tree-sitter, within limits."""

from __future__ import annotations

import pytest

from holdfast.rules.shell.syntax_tree import (
    MAX_BYTES,
    MAX_HEREDOCS,
    AmbiguousText,
    TooComplex,
    parse_outline,
)


@pytest.mark.spec("A11")
def test_commands_and_redirections_are_listed_at_any_depth() -> None:
    found = parse_outline("git log | head -3 > out; echo \"$(rm 'a b')\"")
    assert sorted(found.commands, key=str) == [("echo", None), ("git", "log"), ("head", "-3"), ("rm", "a b")]
    assert found.redirections == ((">", "out"),)
    assert not found.broken


@pytest.mark.spec("A11")
def test_arguments_after_a_redirection_belong_to_the_command() -> None:
    assert parse_outline("git >/dev/null push").commands == (("git", "push"),)


@pytest.mark.spec("A11")
def test_a_syntax_error_is_reported() -> None:
    assert parse_outline("if true; then").broken


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text", ["#" * (MAX_BYTES + 1), "cat <<E " * (MAX_HEREDOCS + 1), "a " * 9000, "$(" * 150 + ")" * 150]
)
def test_a_text_over_a_limit_is_too_complex(text: str) -> None:
    with pytest.raises(TooComplex):
        parse_outline(text)


@pytest.mark.spec("A11")
@pytest.mark.parametrize("text", ["ls \udc00", "ls \x1b[0m", "ls \u2028", "cat <<\u00e9\nx\n\u00e9"])
def test_text_with_more_than_one_interpretation_is_refused(text: str) -> None:
    with pytest.raises(AmbiguousText, match=r"^it contains "):
        parse_outline(text)
