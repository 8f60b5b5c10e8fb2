"""Options that run nothing."""

from __future__ import annotations

import pytest

from holdfast.rules.shell.harmless import (
    HARMLESS_PROGRAMS,
    HARMLESS_VARIABLES,
    OPTION_TABLES,
    UNKNOWN_PIECE,
    ResolvedWord,
    UnknownWord,
    unsafe_option_reason,
)


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "words",
    [
        ["-czf", "x.tar", "src"],
        ["czf", "x.tar", UnknownWord.OPERAND],
        ["--exclude", "--checkpoint-action=exec=rm", "-cf", "x"],
        ["-cf", "x", "--", "--to-command=rm"],
    ],
)
def test_known_options_with_their_values_are_safe(words: list[ResolvedWord]) -> None:
    assert unsafe_option_reason(OPTION_TABLES["tar"], words) == ""


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--to-command=rm", "x"], "the option '--to-command=rm' may run a program"),
        (["--to-com=rm"], "the option '--to-com=rm' may run a program"),
        (["-cIrm", "x"], "the option '-cIrm' may run a program"),
        (["cI", "rm"], "the options 'cI' may run a program"),
        ([UnknownWord.ONE], "a word that may be an option is only known at run time"),
        (["-c", f"{UNKNOWN_PIECE}x"], "a word that may be an option is only known at run time"),
        (["-f", UnknownWord.MANY], "the value of an option is only known at run time"),
    ],
)
def test_unknown_abbreviated_and_dangerous_options_are_unsafe(words: list[ResolvedWord], reason: str) -> None:
    assert unsafe_option_reason(OPTION_TABLES["tar"], words) == reason


@pytest.mark.spec("A11")
def test_a_literal_command_in_an_option_is_judged_elsewhere() -> None:
    table = OPTION_TABLES["sort"]
    assert unsafe_option_reason(table, ["--compress-program=gzip"], ["--compress-program"]) == ""
    assert unsafe_option_reason(table, [f"--compress-program={UNKNOWN_PIECE}"], ["--compress-program"]) != ""


def test_programs_with_an_option_table_are_not_harmless_as_a_whole() -> None:
    assert HARMLESS_PROGRAMS.isdisjoint(OPTION_TABLES)


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("name", "harmless"), [("LANG", True), ("LC_ALL", True), ("PAGER", False), ("LD_PRELOAD", False)]
)
def test_only_variables_that_no_program_runs_are_harmless(name: str, harmless: bool) -> None:
    assert (HARMLESS_VARIABLES.fullmatch(name) is not None) is harmless
