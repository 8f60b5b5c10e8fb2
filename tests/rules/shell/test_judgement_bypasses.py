"""Former bypasses of the preset stay fixed, in projects with and without symlinks that lead out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.contract.enums import Verdict
from holdfast.fuzz.fuzzer import create_project, mutants, run_watched
from holdfast.rules.shell.context import CommandContext
from holdfast.rules.shell.judgement import CommandJudge
from holdfast.rules.shell.parts import Dialect
from tests.soak import rounds

from .bypasses import HARMFUL, HARMFUL_TO_DASH, HARMFUL_WITH_LINKS
from .command_judges import in_project

QUIET = CommandJudge(readers=True, quiet=True)
SHELLS: dict[str, Dialect] = {"bash": "bash", "dash": "posix"}
KINDS = pytest.mark.parametrize("tidy", [True, False], ids=["tidy", "with links"])


def planted(base: Path, *, tidy: bool) -> CommandContext:
    """The fuzzer's project, with files that contain names, code and globs, and symlinks with plain names."""
    create_project(base, tidy=tidy)
    work = base / "project"
    (base / "outside" / "x.tar").write_text("")
    for name, text in {
        "list.txt": f"{base}/outside/secret.txt\n../outside/secret.txt\n",
        "args": f"{base}/outside/secret.txt\n",
        "@args": "x\n",
        "code.txt": "a[$(evil)]\n",
        "globs.txt": f"{base}/outside/*\n../outside/*\n",
        "x.bak": "x\n",
        "12": "twelve\n",
        "other/secret": "x\n",
        "secret": "x\n",
    }.items():
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(text)
    if not tidy:
        for name in ("src/secret", "7", "77", "2", "10"):
            (work / name).symlink_to(base / "outside" / "secret.txt")
    return in_project(work)


def approved(commands: Sequence[str], context: CommandContext) -> list[str]:
    return [text for text in commands if QUIET.judge(text, context).verdict is Verdict.APPROVE]


@pytest.mark.spec("A11")
@KINDS
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("misled_by", HARMFUL)
def test_no_known_bypass_is_approved(misled_by: str, shell: str, tidy: bool, tmp_path: Path) -> None:
    context = replace(planted(tmp_path.resolve(), tidy=tidy), dialect=SHELLS[shell])
    texts = [text.replace("OUTSIDE", f"{tmp_path.resolve()}/outside") for text in HARMFUL[misled_by]]
    assert approved(texts, context) == []


@pytest.mark.spec("A11")
@pytest.mark.parametrize("shell", SHELLS)
def test_no_command_that_follows_symlinks_out_of_the_project_is_approved(shell: str, tmp_path: Path) -> None:
    context = replace(planted(tmp_path.resolve(), tidy=False), dialect=SHELLS[shell])
    assert approved(HARMFUL_WITH_LINKS, context) == []


@pytest.mark.spec("A11")
@KINDS
def test_a_descriptor_of_several_digits_is_not_approved_where_it_may_be_a_file_name(tidy: bool, tmp_path: Path) -> None:
    context = replace(planted(tmp_path.resolve(), tidy=tidy), dialect="posix")
    assert approved(HARMFUL_TO_DASH, context) == []


@pytest.mark.spec("A11")
@KINDS
@pytest.mark.parametrize("shell", SHELLS)
def test_no_approved_mutant_of_a_bypass_does_harm(shell: str, tidy: bool, tmp_path: Path) -> None:
    base = tmp_path.resolve()
    context = replace(planted(base, tidy=tidy), dialect=SHELLS[shell])
    bases = [*(text for texts in HARMFUL.values() for text in texts), *HARMFUL_WITH_LINKS, *HARMFUL_TO_DASH]
    made = [mutant.text for mutant in mutants(bases, rounds(400, 5000), seed=11, outside=str(base / "outside"))]
    unasked = approved(made, context)
    ran = run_watched(unasked, base, shell=shell)
    assert [(text, what) for text, what in zip(unasked, ran, strict=True) if what] == []


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "text",
    [
        "ls \\\n  src", 'echo "one \\\ntwo"', "find . -name '*.py' \\\n  | xargs wc -l", "git log HEAD@{1}..HEAD",
        "find . -exec cat {} \\;", "find . -name '*.py' | grep -v test | sort -u | head -5 | xargs grep -n one",
        "grep -rl one src | xargs wc -l", "find . -name '*.py' | xargs grep -l one | xargs wc -l",
        "ls src | head -3 | xargs echo", "ls -A | xargs wc -l", "find . -print0 | xargs -0 -n1 wc -l",
        "find . -name '*.py' | xargs -d '\\n' wc -l", "find . -name '*.py' | xargs -I{} head -1 {}",
        "find . 2>/dev/null | xargs wc -l", "wc -l $(find . -name '*.py')", "grep -n one $(find src -name '*.py')",
        "cat $(ls src/*.py)", 'for f in $(find src -name "*.py"); do echo "== $f"; head -3 "$f"; done',
        "for f in $(ls *.txt); do wc -l $f; done", "for i in $(seq 1 3); do echo $i; done",
        "for i in 1 2 3; do echo line$i $((i * 2)); done", "x=5; echo $x", "x=hello; echo $x ${x}",
        "echo $HOME $PATH $?", "echo $(date) $(nproc)", "n=$(wc -l < notes.txt); echo $((n + 1))", "echo *",
        "echo src/*", "printf '%-10s %5.2f%%\\n' a 1.5", "awk '{ if ($1 > 5) print $2 }' notes.txt",
        "awk 'NR>1 # comment\n{print}' notes.txt", "while read -r line; do echo \"$line\"; done < notes.txt",
        "diff -r src other", "diff notes.txt canary.txt", "xxd -l 16 notes.txt | head -2", "tar tzf x.tgz",
        "tar -tvf x.tar", "unzip -l x.zip", "ps", "free -h", "uptime", "lscpu", "sleep 1", "ls --help",
        "grep --version", "find --help", "git check-ignore -v notes.txt", "git diff --no-index notes.txt canary.txt",
        "git config --get user.name", "make --version", "basename $PWD",
    ],
)  # fmt: skip
def test_harmless_commands_that_resemble_bypasses_are_approved(text: str, tmp_path: Path) -> None:
    context = planted(tmp_path.resolve(), tidy=True)
    outcome = QUIET.judge(text, context)
    assert outcome.verdict is Verdict.APPROVE, outcome.reason
