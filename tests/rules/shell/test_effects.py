"""Effects of a command text: written files, assigned variables, and what they imply for unknown words."""

from __future__ import annotations

import pytest

from holdfast.rules.shell.analysis import analyze
from holdfast.rules.shell.effects import ANYTHING, CommandEffects
from holdfast.rules.shell.harmless import ResolvedWord, UnknownWord


def effects(text: str) -> CommandEffects:
    return analyze(text).uncertainty


def words(text: str) -> list[ResolvedWord]:
    """The arguments of the last command of a text, as far as they are known."""
    analysis = analyze(text)
    at, part = [(at, part) for at, part in enumerate(analysis.parts) if part.kind == "command" and not part.derived][-1]
    return analysis.uncertainty.resolved_words(part, at)


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("ls", set[str]()),
        ("echo x > sub/out", {"out"}),
        ("echo x > /dev/null 2>&1", set[str]()),
        ("echo x | tee a b", {"a", "b"}),
        ("cp a b", {"a", "b"}),
        ('echo x > "$f"', {ANYTHING}),
        ("python3 -c 'print(1)'", {ANYTHING}),
    ],
)
def test_the_files_that_a_text_may_write_are_known_by_name(text: str, files: set[str]) -> None:
    assert effects(text).written_files == files


@pytest.mark.spec("A11")
def test_a_file_counts_as_written_only_before_it_is_run_unless_the_order_is_open() -> None:
    before, after = analyze("echo x > run.sh; ./run.sh"), analyze("./run.sh; echo x > run.sh")
    last = len(before.parts) - 1
    assert before.uncertainty.may_have_written("./run.sh", last)
    assert not after.uncertainty.may_have_written("./run.sh", 0)
    assert analyze("./run.sh & echo x > run.sh").uncertainty.may_have_written("./run.sh", 0)


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("text", "changes"),
    [("PATH=/usr/bin:$PATH ls", False), ("PATH=. ls", True), ("export PATH=/tmp", True), ("env PATH=/tmp ls", True)],
)
def test_a_path_with_other_than_system_folders_is_a_change(text: str, changes: bool) -> None:
    assert effects(text).changes_path is changes


@pytest.mark.spec("A11")
def test_exported_variables_are_known_by_name() -> None:
    assert effects("export A=1; declare -x B=2").exported == {"A", "B"}
    assert effects("set -a; A=1").exported == {ANYTHING}


@pytest.mark.spec("A11")
def test_an_inherited_variable_is_no_option_and_an_assigned_one_may_be() -> None:
    assert words('tar "$HOME/x"') == ["x/x"]
    assert words('x=-I; tar "$x"') == ["\0"]
    assert words("x=-I; tar $x") == [UnknownWord.MANY]
    assert words("tar *.txt") == [UnknownWord.OPERAND]
    assert words("touch -- -Ievil.txt; tar *.txt") == [UnknownWord.MANY]
