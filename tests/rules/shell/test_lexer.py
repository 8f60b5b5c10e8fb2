"""The lexer: parts of a script, and syntax it refuses."""

from __future__ import annotations

import pytest

from holdfast.rules.shell.lexer import FUNCTION, lex
from holdfast.rules.shell.word_reader import UnsupportedSyntax


def parts(text: str, *, bash: bool = True) -> list[tuple[str, str, str]]:
    return [(part.kind, part.text, part.inside) for part in lex(text, bash=bash).parts]


@pytest.mark.spec("A11")
def test_nested_commands_are_parts_with_their_construct() -> None:
    assert parts('A=1 ls "$(pwd)" > out') == [
        ("command", 'A=1 ls "$(pwd)" > out', ""),
        ("assignment", "A=1", ""),
        ("command", "pwd", "$(…)"),
        ("redirection", "> out", ""),
    ]
    assert ("command", "rm x", FUNCTION) in parts("f() { rm x; }; f")
    assert ("command", "rm x", "(…)") in parts("(rm x)")


@pytest.mark.spec("A11")
def test_a_pipeline_records_which_command_feeds_which() -> None:
    first, second, third = lex("find . | sort; ls").parts
    assert (first.piped_from, second.piped_from, third.piped_from) == (0, first.number, 0)
    assert second.piped and not third.piped


@pytest.mark.spec("A11")
def test_here_documents_are_inputs_and_unquoted_ones_are_expanded() -> None:
    quoted, expanded = lex("cat <<'E'\n$(rm x)\nE"), lex("cat <<E\n$(rm x)\nE")
    assert quoted.inputs == expanded.inputs == ["$(rm x)"]
    assert [part.text for part in quoted.parts if part.kind == "command"] == ["cat <<'E'"]
    assert "rm x" in [part.text for part in expanded.parts]


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("if true", "a construct is not closed"),
        ("ls &&", "a command is missing"),
        ("done", "there is an unexpected 'done' where a command starts"),
        ("cat <<E\nx", "a here-document has no end"),
        ("ls (a)", "there is an unexpected parenthesis in a command"),
        ("for 1 in a; do :; done", "the loop variable is not a name"),
    ],
)
def test_invalid_syntax_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(UnsupportedSyntax, match=f"^{reason}$"):
        lex(text)


@pytest.mark.spec("A11")
@pytest.mark.parametrize("text", ["ls |& cat", "((1))", "[[ a ]]", "a+=1", "a=(1)", "cat <<<x", "ls &> x", "ls 12> x"])
def test_syntax_that_only_bash_has_is_refused_for_other_shells(text: str) -> None:
    assert lex(text).parts
    with pytest.raises(UnsupportedSyntax):
        lex(text, bash=False)


def test_extreme_nesting_is_refused_without_a_recursion_error() -> None:
    with pytest.raises(UnsupportedSyntax, match="nested too deeply"):
        lex("( " * 5000 + "ls" + " )" * 5000)
