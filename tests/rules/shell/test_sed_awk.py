"""Approved sed and awk scripts only transform text."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.rules.shell.sed_awk import check_awk, check_sed

PIECES = [
    *("s/a/b/", "s/a/b/g", "s,a,b,", "s/[/]/x/", "s/[^/]*/x/", "s/[[:alpha:]/]/x/", "s/a\\/b/c/", "y/a/b/", "p"),
    *("d", "1", "$"),
    *("w out", "w", "e", "e id", "r /etc/passwd", "R x", "W out", "s/a/b/w out", "s/a/b/e", "s/a/b/pe", "/a/"),
    *("\\,a,", "1,3"),
    *("a", "a text", "a\\", "i\\\n", "c x", "{", "}", ";", "\n", " ", "!", ":x", "b x", "ba", "t", "#c", "q", "q5"),
    *("=", "l", "N"),
    *("s/a/[/;w out/", "s/[]/]/x/", "s/\\[/]/", "F", "z", "1~2", "0,/a/", "+3", "M", "I", "s/a/b/\nw out"),
    *("s/x/\\\n/", "v"),
]
LINES = "a/b\none\ntwo\n"


@pytest.mark.spec("A11")
@settings(deadline=None, max_examples=400)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join))
def test_gnu_sed_accepts_every_approved_script_in_sandbox_mode(script: str) -> None:
    if check_sed(script):
        return
    ran = subprocess.run(
        ["sed", "--sandbox", script], input=LINES, capture_output=True, text=True, timeout=30, check=False
    )
    assert "sandbox" not in ran.stderr, script


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "script",
    [
        *("s/a/b/", "s/a/b/gI", "1,5p", "$d", "/a/,/b/p", "/^$/d", "s/[^/]*$//", "s|/|-|g", "y/abc/xyz/", "/x/!d"),
        "1~2d",
        *("$!N;s/\\n/ /", ":a;N;$!ba;s/\\n/,/g", "/a/{p;d}", "1i\\\ntext", "a text", "s/[[:space:]]*$//", "=", "5q"),
        "s/a/\\n/2p",
        *("/start/,/end/{/start/d;p}", "\\,a,d", "s/\\(a\\)b/\\1/", "# comment\np"),
    ],
)
def test_everyday_sed_scripts_are_approved(script: str) -> None:
    assert check_sed(script) == ""


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "script",
    [
        *("w x", "1w x", "/a/w x", "s/a/b/w x", "s/a/b/gw x", "e id", "1e id", "s/a/b/e", "s/a/id/gpe", "r x"),
        *("R x", "W x"),
        *("p;w x", "p\nw x", "{p;w x\n}", "/a/{w x\n}", "s/a/b/;w x", "a\\\ntext\nw x", ":a;w x", "ba;w x"),
        *("y/a/b/;w x", "s[a[b[w x"),
        *("s/[]/]/x/w y", "s/[[]/]/x/w y", "1!e", "$!w x", "\\%a%w x", "0~4w x", "sxaxbxe", "i\\", "s/a/b", "/a"),
        "s/a/b/ w x",
    ],
)
def test_sed_scripts_that_write_run_or_read_other_files_are_not_approved(script: str) -> None:
    assert check_sed(script)


TOKENS = [
    *("{", "}", "(", ")", ";", "print", "print $1", "$1 > 5", "NR>1", "||", "|", "> ", ">> ", '"out"', '"id"'),
    *("/a/", '"', "if (x > 1) "),
    *("getline", "system", '("id")', "BEGIN", "END", "<", "=", " ", "\n", "printf", "while (i < 3) ", "|& ", "x"),
    *("1", ">=", "close"),
]


@pytest.mark.spec("A11")
@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=9).map("".join))
@pytest.mark.parametrize("awk", ["mawk", "gawk", "busybox"])
def test_no_approved_awk_program_writes_or_runs_anything(
    awk: str, tmp_path_factory: pytest.TempPathFactory, program: str
) -> None:
    if check_awk(program) or (found := shutil.which(awk)) is None:
        return
    folder = tmp_path_factory.mktemp("awk")
    words = [found, *(["awk"] if awk == "busybox" else []), program]
    path = str(Path(folder, "bin"))
    try:
        subprocess.run(
            words, input=LINES, capture_output=True, text=True, cwd=folder, env={"PATH": path}, timeout=2, check=False
        )
    except subprocess.TimeoutExpired:  # an endless loop is harmless here
        return
    assert list(folder.iterdir()) == [], program


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "program",
    [
        *("{print $1}", "NR>1", "NR==1 || /a/", "{s+=$2} END {print s}", "$3 > 100 {print $1}", "!seen[$0]++"),
        "length > 80",
        *('BEGIN{FS=","} {print $2}', "{if ($1 > 5) print $2}", "/a/,/b/", '{printf "%s\\n", $1}'),
        *("END {print NR}", "{$1=$1}1"),
    ],
)
def test_everyday_awk_programs_are_approved(program: str) -> None:
    assert check_awk(program) == ""


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    "program",
    [
        *('{print > "x"}', '{print >> "x"}', '{print | "sh"}', 'BEGIN{system("id")}', '"id" | getline x'),
        '{getline < "/etc/passwd"; print}',
        *('BEGIN{ARGV[1]="/etc/passwd"}', "{print ENVIRON[1]}", '@include "x"', '{print |& "x"}'),
        *('1 {if (1) print > "x"}', '{print ||| "x"}'),
        *('$1 > 5 {print > "x"}', 'function f() {print > "x"} {f()}', '{close("x")}', '{printf("x") > "y"}'),
    ],
)
def test_awk_programs_that_write_run_or_read_other_files_are_not_approved(program: str) -> None:
    assert check_awk(program)
