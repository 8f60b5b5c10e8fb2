"""The option tables of wrappers, and of programs with options that run commands, match the installed programs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.rules.shell.harmless import OPTION_TABLES
from holdfast.rules.shell.programs import COMMAND_OPTIONS, WRAPPERS

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
STRANGE = "--no-such-option-anywhere"
REFUSED = re.compile(rf"(unrecogni[sz]ed|unknown|invalid) option\W+{STRANGE[2:]}", re.IGNORECASE)
NOT_TOLD = frozenset(
    {"builtin", "busybox", "caffeinate", "command", "exec", "gosu", "jobs", "logsave", "systemd-run", "toybox"}
)
"""Shell builtins, and programs that do not report which option they refuse."""
MISSING: dict[str, str] = {
    "env": "-a --argv0 - -S --split-string",
    "flock": "-F --no-fork",
    "time": "--quiet -q",
    "runuser": "-",
}
"""Options that not every version has, or that getopt does not treat as options."""
KINDS = ("valued", "flags", "optional")
CASES = [
    pytest.param(program, option, kind, id=f"{program} {option} {kind}")
    for program, wrapper in sorted(WRAPPERS.items())
    if program not in NOT_TOLD
    for kind in KINDS
    for option in sorted(getattr(wrapper, kind))
    if option not in MISSING.get(program, "").split()
]
ENDING = frozenset({"--help", "--version", "--usage", "--show-defaults", "-V", "-h"})
"""Options that make a program print something and exit."""
GNU = ("install", "man", "sort", "split", "tar", "wget")
TABLED = [
    pytest.param(program, option, kind, id=f"{program} {option} {kind}")
    for program in GNU
    for kind, options in (
        ("valued", [*(f"-{letter}" for letter in OPTION_TABLES[program].valued), *OPTION_TABLES[program].long_valued]),
        ("flags", [*(f"-{letter}" for letter in OPTION_TABLES[program].flags), *OPTION_TABLES[program].long]),
    )
    for option in sorted(options)
    if option not in ENDING
]


def answer(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=30,
        env={"PATH": PATH, "LC_ALL": "C", "HOME": str(folder)}, check=False,
    )  # fmt: skip
    return done.stderr + done.stdout


def check_option(program: str, option: str, kind: str, folder: Path) -> None:
    if shutil.which(program, path=PATH) is None:
        pytest.skip("the program is not here")
    alone = answer([program, option, STRANGE], folder)
    if re.search(rf"(unrecogni[sz]ed|unknown|invalid) option\W+{re.escape(option.lstrip('-'))}\W", alone):
        pytest.skip("this version does not have the option")
    assert (REFUSED.search(alone) is not None) is (kind != "valued"), alone


@pytest.mark.spec("A11")
@pytest.mark.parametrize(("program", "option", "kind"), CASES)
def test_an_option_of_a_wrapper_takes_the_next_word_if_and_only_if_the_table_says_so(
    program: str, option: str, kind: str, tmp_path: Path
) -> None:
    check_option(program, option, kind, tmp_path)


@pytest.mark.spec("A11")
@pytest.mark.parametrize(("program", "option", "kind"), TABLED)
def test_an_option_of_a_program_takes_the_next_word_if_and_only_if_the_table_says_so(
    program: str, option: str, kind: str, tmp_path: Path
) -> None:
    check_option(program, option, kind, tmp_path)


@pytest.mark.spec("A11")
@pytest.mark.parametrize("program", sorted(OPTION_TABLES))
def test_no_option_that_takes_a_command_is_listed_as_harmless(program: str) -> None:
    table, held = OPTION_TABLES[program], COMMAND_OPTIONS.get(program, "").split()
    known = {*(f"-{letter}" for letter in table.flags + table.valued + table.attached), *table.long, *table.long_valued}
    assert known.isdisjoint(held)
    letters = table.flags + table.valued + table.attached
    assert len(set(letters)) == len(letters)
