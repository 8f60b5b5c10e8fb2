"""Measure the shell rules: bypasses, commands that need approval, and the cost of a decision.

    python bench/shell_rules.py                                        # our own corpora
    python bench/shell_rules.py --corpus FILE [--sample N]             # and a public one, a command in each line
    python bench/shell_rules.py --corpus FILE --baseline CHECKOUT      # against another checkout with its own .venv

Each command of a public corpus runs in bubblewrap under strace. It is read-only if it changes nothing, uses no network,
reads nothing outside the project, does not prompt and uses only variables that it sets. Prints the table and writes
nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

RULES = (("rm", "deny"), ("git push", "deny"), ("curl", "ask"))
CALLS = "trace=%file,%network,ftruncate,fchmod,fchown,kill,tkill"
CHANGING = re.compile(
    r"^\d+ +(unlink|rename|mkdir|rmdir|link|symlink|chmod|fchmod|chown|fchown|lchown|truncate|ftruncate|utime|mknod"
    r"|setxattr|mount|umount|kill|tkill)\w*\("
    r"|^\d+ +(?:open\w*|creat)\([^\"]*\"(?!/dev/(?:null|tty|std|fd))[^\n]*O_(?:WRONLY|RDWR|CREAT)"
    r"|^\d+ +connect\([^\n]*AF_INET",
    re.MULTILINE,
)
PATH = re.compile(r'^\d+ +(\w+)\((?:AT_FDCWD(?:<([^>]*)>)?, |\d+<([^>]*)>, )?"((?:[^"\\]|\\.)+)"', re.MULTILINE)
PROGRAMS = re.compile(r"/(usr/)?(local/)?s?bin(/|$)")
SYSTEM = re.compile(
    r"/(usr/)?lib(64)?(/|$)|/usr/(local/lib|share/(locale|zoneinfo|misc|file|i18n|terminfo|git-core))(/|$)|/selinux"
    r"|/etc/(ld\.so|passwd|group|nsswitch|localtime|locale|magic|terminfo|gitconfig|inputrc|selinux|host\.conf)"
    r"|/(proc/(self|filesystems|mounts|sys)|dev/(null|tty)|sys/(fs/selinux|devices/system/cpu))|/home/nobody/\."
)
"""What programs read to start, and to find names of users and words of a language."""
BROKEN = re.compile(
    r"unbound variable|command not found|syntax error|unexpected EOF|Read-only file system|invalid option"
    r"|unrecognized option|missing argument|unknown predicate|paths must precede|invalid (mode|argument)"
)
MORE = re.compile(
    r"\b(rm|cp|mv|mkdir|rmdir|touch|chmod|chown|ln|tee|dd|sudo|su|kill|ssh|scp|rsync|curl|wget|tar|zip|gzip|bash|sh|eval|exec"
    r"|source|python\d?|perl|ruby|php|node|vim?|nano|less|more|top|watch|read|sleep|yes|export|alias|set|shift|split|csplit|history|shopt|chgrp|jobs)\b"
    r"|-delete|-execdir|-ok|-i\b.*sed|sed.*-i\b|>\s*[^&/\s]|-fprint"
)
"""Programs that do more when there is something for them to do; the run here may not have shown it."""


def project(folder: Path) -> None:
    names = (
        "notes.txt",
        "file",
        "file.txt",
        "file1",
        "file2",
        "a.txt",
        "README.md",
        "src/a.py",
        "dir/x.log",
        "x.html",
        "data.csv",
    )
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one two\nthree,four\nfoo bar\n1\n")


def only_reads(text: str) -> bool:
    """Whether a command, when it is run, only reads in the project."""
    programs = re.findall(r"(?:-exec|xargs(?:\s+-\S+(?:\s+[0-9{}]+)?)*)\s+([^\s;|]+)", text)
    if MORE.search(text) or any(shutil.which(name.strip("'\"\\")) is None for name in programs):
        return False
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    try:
        project(folder / "p")
        trace = folder / "trace"
        box = [
            "bwrap",
            "--unshare-all",
            "--die-with-parent",
            "--new-session",
            "--cap-drop",
            "ALL",
            "--ro-bind",
            "/",
            "/",
        ]
        box += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", str(folder), str(folder), "--clearenv"]
        box += ["--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/home/nobody", "--chdir", str(folder / "p")]
        box += ["timeout", "-s", "KILL", "4", "strace", "-f", "-y", "-qq", "-s", "300", "-e", CALLS, "-o", str(trace)]
        done = subprocess.run(
            [*box, "bash", "-u", "-c", text], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
        log = trace.read_text(errors="replace") if trace.exists() else ""
        outside = any(map(reaches_out, PATH.finditer(log), repeat(folder)))
        failed = done.returncode in (124, 126, 127, 137) or BROKEN.search(done.stderr.decode(errors="replace"))
        return bool(log) and not outside and not failed and CHANGING.search(log) is None
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=False)


def reaches_out(found: re.Match[str], folder: Path) -> bool:
    """Whether a system call is about a path outside the project; not to look for programs, or at the folders above."""
    path = str(Path(found[2] or found[3] or folder / "p", found[4]))
    opened = found[1].startswith("open")
    passed = not opened and (str(folder).startswith(path) or PROGRAMS.match(path) is not None)
    return not passed and not path.startswith(str(folder)) and SYSTEM.match(path) is None


def judged(lines: list[str], reading: list[str]) -> dict[str, Any]:
    """What the checkout that runs this says about the commands; also run with the baseline's Python."""
    from holdfast.config.config import CommandRule
    from holdfast.rules.shell import analysis
    from holdfast.rules.shell.context import CommandContext
    from holdfast.rules.shell.judgement import CommandJudge, compile_rules

    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as name:
        project(Path(name))
        context = CommandContext.at(name, [name], lambda: True)
        asked = {}
        for words, verdict in RULES:
            judge = CommandJudge(compile_rules((CommandRule(rule=words, verdict=verdict),)))  # pyright: ignore[reportArgumentType]
            asked[words] = sum(str(judge.judge_restrictions(text).verdict) == "ask" for text in lines)
        judge = CommandJudge(compile_rules((CommandRule(rule="rm", verdict="deny"),)), readers=True)
        unasked = sum(str(judge.judge(text, context).verdict) == "approve" for text in reading)
        costs: list[float] = []
        for _ in range(5):
            analysis.analyze.cache_clear()
            began = time.process_time()
            for text in lines[:1500]:
                judge.judge(text, context)
                judge.judge_restrictions(text)
            costs.append((time.process_time() - began) / len(lines[:1500]))
    return {"asked": asked, "unasked": unasked, "cost": min(costs)}


def elsewhere(checkout: str, lines: list[str], reading: list[str]) -> dict[str, Any]:
    told = json.dumps([lines, reading])
    words = [f"{checkout}/.venv/bin/python", str(Path(__file__).resolve()), "--worker"]
    return json.loads(subprocess.run(words, input=told, capture_output=True, text=True, check=True).stdout)


def hidden() -> tuple[int, int]:
    from holdfast.config.config import CommandRule
    from holdfast.rules.shell.judgement import CommandJudge, compile_rules
    from tests.rules.shell.hidden_commands import hidden_commands

    judge = CommandJudge(compile_rules((CommandRule(rule="evil", verdict="deny"),)))
    texts = hidden_commands()
    return sum(judge.judge_restrictions(text).verdict is None for text in texts), len(texts)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--corpus", type=Path)
    options.add_argument("--sample", type=int, default=1000)
    options.add_argument("--baseline")
    options.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.worker:
        print(json.dumps(judged(*json.load(sys.stdin))))
        return
    unseen, of = hidden()
    print(f"denied program hidden in {of} ways: {unseen} unseen")
    everyday = (ROOT / "tests/rules/shell/corpora/everyday.txt").read_text().splitlines()
    reading = [line[2:] for line in everyday if line.startswith("R ")]
    show("our everyday commands", [line[2:] for line in everyday if line[:2] in ("R ", "W ")], reading, given.baseline)
    if given.corpus is not None:
        lines = [line for line in given.corpus.read_text().splitlines() if line.strip()]
        sample = random.Random(1).sample(lines, min(given.sample, len(lines)))
        with ThreadPoolExecutor(2) as pool:
            reading = [text for text, reads in zip(sample, pool.map(only_reads, sample), strict=True) if reads]
        show("the public corpus", lines, reading, given.baseline)


def show(name: str, lines: list[str], reading: list[str], baseline: str | None) -> None:
    now = judged(lines, reading)
    print(f"\n{name}: {len(lines)} commands, {len(reading)} seen to only read")
    before = elsewhere(baseline, lines, reading) if baseline else None
    was = f", before {before['unasked']}" if before else ""
    print(f"  only read, and run unasked: {now['unasked']} ({now['unasked'] / max(1, len(reading)):.1%}){was}")
    for words, count in now["asked"].items():
        was = f", before {before['asked'][words]}" if before else ""
        print(f"  asked about under one rule about '{words}': {count}{was}")
    ratio = f", {now['cost'] / before['cost']:.2f} times as much as before" if before else ""
    print(f"  a judgement: {now['cost'] * 1e6:.0f} us{ratio}")


if __name__ == "__main__":
    main()
