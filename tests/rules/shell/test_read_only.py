"""The option tables of read-only programs match the installed programs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.contract.enums import Verdict
from holdfast.rules.shell import git, read_only
from holdfast.rules.shell.context import CommandContext
from holdfast.rules.shell.read_only import READERS, ReadOnlyProgram

from .command_judges import PRESET, verdict

PATH = f"{sys.prefix}/bin:/usr/bin:/bin"
STRANGE = "--no-such-option-anywhere"
REFUSED = re.compile(
    rf"(unrecogni[sz]ed|unknown|invalid) (option|switch|flag|arguments?)\W+{STRANGE[2:]}", re.IGNORECASE
)
"""The message of a program that took the word for an option."""
SPECIAL = {"awk": read_only._AWK, "date": read_only._DATE, "sed": read_only._SED}  # pyright: ignore[reportPrivateUsage]
NOT_TOLD = frozenset(
    {
        *("awk", "basename", "column", "dirname", "expr", "false", "git rev-list", "git rev-parse", "groups"),
        "hexdump",
        *("hostname", "rev", "strings", "true", "tsort"),
    }
)
"""Programs that do not report which option they refuse, or refuse none."""
TABLES = {**READERS, **SPECIAL, **{f"git {name}": reader for name, reader in git.READ_ONLY_SUBCOMMANDS.items()}}
LETTERS = [
    pytest.param(program, letter, kind, id=f"{program} -{letter} {kind}")
    for program, reader in sorted(TABLES.items())
    if program not in NOT_TOLD
    for kind in ("flags", "valued", "attached")
    for letter in getattr(reader, kind)
    if not (program in ("egrep", "fgrep") and letter in "EFGP")  # these programs refuse them before any other option
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    (root / "notes.txt").write_text("one\n")
    run = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"]
    for step in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*run, *step], cwd=root, check=True, env={"PATH": PATH, "HOME": str(root)})
    return root


def takes_for_option(program: str, letter: str, project: Path) -> bool:
    """Whether the program takes the word after the option for another option."""
    words = [*program.split(), f"-{letter}", STRANGE]
    done = subprocess.run(
        words,
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=30,
        env={"PATH": PATH, "LC_ALL": "C", "HOME": str(project), "GIT_PAGER": "cat"},
        check=False,
    )
    return REFUSED.search(done.stderr + done.stdout) is not None


@pytest.mark.spec("A11")
@pytest.mark.parametrize(("program", "letter", "kind"), LETTERS)
def test_an_option_takes_the_next_word_if_and_only_if_the_table_says_so(
    program: str, letter: str, kind: str, project: Path
) -> None:
    if shutil.which(program.split()[0], path=PATH) is None:
        pytest.skip("the program is not installed")
    assert takes_for_option(program, letter, project) is (kind != "valued")


@pytest.mark.spec("A11")
@pytest.mark.parametrize("program", [name for name in TABLES if name not in NOT_TOLD])
def test_the_programs_report_which_option_they_refuse(program: str, project: Path) -> None:
    if shutil.which(program.split()[0], path=PATH) is None:
        pytest.skip("the program is not installed")
    done = subprocess.run(
        [*program.split(), STRANGE],
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        env={"PATH": PATH, "LC_ALL": "C", "HOME": str(project)},
        check=False,
    )
    assert REFUSED.search(done.stderr + done.stdout), done.stderr + done.stdout


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text",
    [
        "git log -1 -U --output=pwned", "git diff -U --output=pwned", "git show -M --output=pwned",
        "git log -n --output=x",
        "git log -S --output=pwned", "git log -G --output=x -p", "grep -e -f notes.txt", "sort -k -o notes.txt",
        "head -n -q x",
        "git log -C --output=x", "git log -B --output=x", "date -d -s notes.txt", "sed -e -i notes.txt",
        "tree -L -o pwned",
        "awk -F -f notes.txt", "date -I --set=0", "od -w --traditional notes.txt", "diff -U --from-file=/etc/passwd x",
    ],
)  # fmt: skip
def test_a_value_that_looks_like_an_option_makes_the_command_unknown(text: str, project: Path) -> None:
    context = CommandContext.at(str(project), [str(project)], lambda: True)
    assert verdict(text, PRESET, context) is None


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text", ["head -n -5 notes.txt", "tail -c -3 notes.txt", "cut -d - -f 1 notes.txt", "sort -t - -k 1 notes.txt"]
)
def test_numbers_and_dashes_are_values(text: str, project: Path) -> None:
    context = CommandContext.at(str(project), [str(project)], lambda: True)
    assert verdict(text, PRESET, context) is Verdict.APPROVE


@pytest.mark.spec("A11")
def test_no_option_is_in_a_table_twice() -> None:
    for program, reader in TABLES.items():
        letters = reader.flags + reader.valued + reader.attached
        assert len(set(letters)) == len(letters), program
        assert set(reader.files) <= set(reader.valued), program
    assert isinstance(READERS["ls"], ReadOnlyProgram)
