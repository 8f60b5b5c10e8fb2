"""The tables of programs."""

from __future__ import annotations

import pytest

from holdfast.rules.shell import programs
from holdfast.rules.shell.programs import dialect_of, family, is_plain_name, is_script, program_name


def test_a_name_has_no_folder_and_a_family_has_no_version() -> None:
    assert program_name("/usr/bin/python3.11") == "python3.11"
    assert family("/usr/bin/python3.11") == "python"
    assert family("7") == "7"


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("word", "plain"), [("ls", True), ("[", True), ("./ls", False), ("-x", False), ("l\u0131s", False)]
)
def test_only_a_name_without_folder_and_special_characters_is_plain(word: str, plain: bool) -> None:
    assert is_plain_name(word) is plain


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("shell", "dialect"),
    [("/bin/bash", "bash"), ("dash", "posix"), ("sh", "posix"), ("zsh", "other"), ("fish", "other")],
)
def test_every_shell_has_a_dialect(shell: str, dialect: str) -> None:
    assert dialect_of(shell) == dialect


def test_a_script_is_a_file_run_by_path_or_by_a_shell() -> None:
    assert is_script("./build", "") and is_script("build", "sh")
    assert not is_script("/usr/bin/ls", "") and not is_script("ls", "")


@pytest.mark.spec("A11")
def test_no_program_that_runs_its_arguments_is_listed_as_treating_them_as_data() -> None:
    running = {*programs.WRAPPERS, *programs.SHELLS, *programs.OPAQUE_WRAPPERS, *programs.RUN_PROGRAMS}
    assert programs.DATA_PROGRAMS.isdisjoint(running)
