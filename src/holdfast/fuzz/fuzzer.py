"""Fuzzes command rules: mutates commands, runs every mutant that the rules approve, and reports the ones that do harm.

Harm is measured by real runs in a sandbox, not by our own analysis: canary files must not change, secrets must not be
printed, and planted programs must not run.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from subprocess import SubprocessError
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.contract.errors import HoldfastError, SandboxRefused
from holdfast.fs.temporary import make_temporary_folder, remove_temporary_folder
from holdfast.fuzz.corpus import HARM, SECRETS, TEMPLATES, WRITTEN
from holdfast.helper_process import PROGRAM_FOLDERS, isolated_python, run, system_program
from holdfast.rules.shell.context import CommandContext
from holdfast.rules.shell.programs import dialect_of
from holdfast.sandbox.launch import run_launch
from holdfast.sandbox.sandbox import Sandbox

Change = Callable[[random.Random, str], str]

_MAX_LAYERS: Final = 3
_MAX_IDLE: Final = 10_000
"""Attempts without a new mutant after which the generator stops."""
_INJECTED: Final = "$({})", "`{}`", "; {}", " && {}", " | {}", "\n{}", " <({})", " > {}", " \\\n{}", ";{} #"


class Mutant(NamedTuple):
    text: str
    base: str
    how: str


def mutants(bases: Sequence[str], count: int, *, seed: int = 0, outside: str = "/outside") -> Iterator[Mutant]:
    """Distinct mutants, reproducible by seed. `outside` is a folder that no command may read."""
    source = random.Random(seed)  # noqa: S311
    seen, idle = set[str](bases), 0
    while len(seen) < count + len(set(bases)) and idle < _MAX_IDLE:
        made = _mutant(source, bases, outside)
        if made.text in seen:
            idle += 1
            continue
        idle = 0
        seen.add(made.text)
        yield made


def _mutant(source: random.Random, bases: Sequence[str], outside: str) -> Mutant:
    base = source.choice(bases)
    text, how = base, list[str]()
    for _ in range(source.choice((1, 1, 1, 2, 2, _MAX_LAYERS))):
        name, change = source.choice(_CHANGES)
        text = change(source, text)
        how.append(name)
    return Mutant(text.replace("OUTSIDE", outside), base, " + ".join(how))


def _from(templates: Sequence[str]) -> Change:
    return lambda source, base: _filled(source, source.choice(templates), base)


def _filled(source: random.Random, template: str, base: str) -> str:
    program, _, arguments = base.partition(" ")
    return template.format(
        b=base, h=source.choice(HARM), p=program, a=arguments, w=source.choice(WRITTEN), s=source.choice(SECRETS)
    )


def _injected(source: random.Random, base: str) -> str:
    """Insert a harmful command at any position, even inside words and quotes."""
    at = source.randrange(len(base) + 1)
    harm = source.choice((*HARM, *WRITTEN, *SECRETS))
    return base[:at] + source.choice(_INJECTED).format(harm) + base[at:]


def _with_operand(source: random.Random, base: str) -> str:
    """Insert another path between two words."""
    words = base.split(" ")
    words.insert(source.randrange(1, len(words) + 1), source.choice((*SECRETS, *WRITTEN)))
    return " ".join(words)


def _with_option(source: random.Random, base: str) -> str:
    """Insert an option of any program."""
    words = base.split(" ")
    option = source.choice(_OPTIONS).format(w=source.choice(WRITTEN), s=source.choice(SECRETS))
    words.insert(source.randrange(1, len(words) + 1), option)
    return " ".join(words)


def _spliced(source: random.Random, base: str) -> str:
    """Insert, replace or delete one character."""
    at = source.randrange(len(base) + 1)
    odd = source.choice("$`'\"\\;&|<>(){}[]*?~!#\n\r\t \x0b\u2028\u00a0=-")
    return source.choice((base[:at] + odd + base[at:], base[:at] + odd + base[at + 1 :], base[:at] + base[at + 1 :]))


_OPTIONS: Final = (
    "-o {w}", "-o{w}", "--output={w}", "--output {w}", "-exec ./evil ;", "-delete", "-fprint {w}", "-i", "--in-place",
    "-f {s}", "--files0-from={s}", "--pre=./evil", "-L", "-R", "--ext-diff", "--textconv", "-O./evil", "-c", "-C ..",
    "--compress-program=./evil", "--no-index", "-T.", "-e", "--", "-", "--file={s}", "-s 0", "--follow", "-z",
    "-w{w}", "--reference={s}", "--from-file={s}", "-D{w}", "-X {s}", "-S {s}", "--exclude-from={s}",
    "--ignore-file={s}", "-P ./evil", "--contents={s}", "--work-tree=..", "--exec-path=tools", "-m {s}", "-t {w}",
    "-d {w}", "--target-directory={w}", "-nf {s}",
)  # fmt: skip
_NEAR: Final[tuple[tuple[str, Change], ...]] = (
    ("injected", _injected),
    ("operand", _with_operand),
    ("option", _with_option),
    ("splice", _spliced),
)
_CHANGES: Final[tuple[tuple[str, Change], ...]] = (
    *((kind, _from(templates)) for kind, templates in TEMPLATES.items()),
    *_NEAR * 2,
)


Approves = Callable[[str, CommandContext], str | None]
"""Returns the rule that approves a command, or None."""
ProgressCallback = Callable[[str], None]
"""Called with progress messages."""
_BATCH: Final = 250
_BATCH_SECONDS: Final = 600.0
_GIT_SECONDS: Final = 60.0
_OUTSIDE: Final = "SECRETgxqzOUTSIDE"
_HOME: Final = "SECRETgxqzHOME"
_SECRETS: Final = {"a file outside the project": _OUTSIDE, "a file of the user": _HOME}
_PLANTED: Final = ("cat", "echo", "find", "git", "grep", "head", "ls", "pwd", "sed", "sort", "true", "wc", "evil")


def _no_progress(message: str) -> None:
    pass


class Escape(Struct, frozen=True, kw_only=True):
    """A mutant that the rules approved and that did harm."""

    command: str
    base: str
    mutation: str
    rule: str
    what: str


class FuzzReport(Struct, frozen=True, kw_only=True):
    mutants: int
    unasked: int
    """Mutants that the rules approved; all of them were run."""
    escapes: tuple[Escape, ...]


def fuzz(
    bases: Sequence[str],
    approves: Approves,
    *,
    count: int = 10_000,
    seed: int = 0,
    on_progress: ProgressCallback = _no_progress,
    shell: str = "bash",
    tidy: bool = False,
) -> FuzzReport:
    """Mutate commands and run those that the rules approve. Raises `SandboxRefused` if no sandbox works."""
    base = make_temporary_folder("fuzz")
    try:
        create_project(base, tidy=tidy)
        context = CommandContext.at(str(base / "project"), [str(base / "project")], lambda: True)
        context = replace(context, dialect=dialect_of(shell))
        made = 0
        unasked: list[tuple[Mutant, str]] = []
        for mutant in mutants(bases, count, seed=seed, outside=str(base / "outside")):
            if made % _BATCH == 0:
                on_progress(f"judging mutants: {made:,} of {count:,}…")
            made += 1
            rule = approves(mutant.text, context)
            if rule is not None:
                unasked.append((mutant, rule))
        ran = run_watched([mutant.text for mutant, _ in unasked], base, on_progress, shell)
        escapes = [
            Escape(command=mutant.text, base=mutant.base, mutation=mutant.how, rule=rule, what="; ".join(what))
            for (mutant, rule), what in zip(unasked, ran, strict=True)
            if what
        ]
    finally:
        remove_temporary_folder(base)
    return FuzzReport(mutants=made, unasked=len(unasked), escapes=tuple(escapes))


def run_watched(
    commands: Sequence[str], base: Path, on_progress: ProgressCallback = _no_progress, shell: str = "bash"
) -> list[list[str]]:
    """The harm that each command did in the fuzzer's project; an empty list for none."""
    found: list[list[str]] = []
    sandbox = Sandbox(SandboxConfig(mode="required", writable=(str(base),)), root=None, cwd=base)
    for start in range(0, len(commands), _BATCH):
        on_progress(f"running approved mutants: {start:,} of {len(commands):,}…")
        found += _run_batch(sandbox, commands[start : start + _BATCH], base, shell)
    return found


def _run_batch(sandbox: Sandbox, commands: Sequence[str], base: Path, shell: str) -> list[list[str]]:
    env = {"PATH": f"{os.environ.get('PATH', os.defpath)}:{base}/project/tools", "LANG": "C.UTF-8"}
    job = {"commands": list(commands), "shell": shell, "env": env, "secrets": _SECRETS}
    driver = Path(__file__).with_name("driver.py")
    launch = sandbox.launch(Command(argv=isolated_python(str(driver), str(base)), cwd=base))
    if not launch.contained:
        raise SandboxRefused("Mutants only run in a sandbox, and none works here. Run `holdfast doctor` to see why.")
    code, out, err = run_launch(launch, _BATCH_SECONDS, json.dumps(job).encode())
    if code != 0:
        last = err.decode(errors="replace").strip().splitlines()[-1:]
        raise HoldfastError(f"The mutants could not be run in the sandbox (exit {code}): {' '.join(last)}")
    return json.loads(out)


def create_project(base: Path, *, tidy: bool = False) -> None:
    """Create a small project with canary files, secrets outside it, symlinks out of it, unusual names, and planted
    programs.
    With `tidy` it has no symlinks and no unusual names."""
    work = base / "project"
    for folder in (work / "src", work / "tools", base / "outside" / "tools", base / "home", base / "marks"):
        folder.mkdir(parents=True)
    _write_all(
        {
            work / "notes.txt": "one\ntwo\nthree, four\n",
            work / "canary.txt": "alive\n",
            work / "src" / "a.py": "one = 1\nprint(one)\n",
            work / "src" / "b.txt": "one\nfive\n",
            base / "marks" / "ran": "",
            base / "outside" / "secret.txt": f"{_OUTSIDE}\n",
            base / "home" / "secret.txt": f"{_HOME}\n",
        }
    )
    mark = f"#!/bin/sh\necho ran >> {base}/marks/ran\n"
    planted = [folder / name for folder in (work / "tools", base / "outside" / "tools") for name in _PLANTED]
    for path in (work / "evil", *planted):
        path.write_text(mark)
        path.chmod(0o755)
    if not tidy:
        (work / "link-out").symlink_to("../outside")
        (work / "link-secret").symlink_to("../outside/secret.txt")
        (work / "src" / "up").symlink_to("../..")
        hidden = work / "odd " / str(base / "outside" / "secret.txt").lstrip("/")
        hidden.parent.mkdir(parents=True)
        _write_all({hidden: "found\n", work / "-o": "", work / "a canary.txt": "", work / "--output=pwned": ""})
    _make_repository(work)


def _write_all(files: dict[Path, str]) -> None:
    for path, text in files.items():
        path.write_text(text)


def _make_repository(work: Path) -> None:
    """Create a git repository with one commit and one change; nothing if git is not installed."""
    settings = ("user.name=fuzz", "user.email=fuzz@example.org", "core.hooksPath=/dev/null", "gc.auto=0")
    options = [word for setting in settings for word in ("-c", setting)]
    env = {"PATH": os.pathsep.join(PROGRAM_FOLDERS), "HOME": str(work), "GIT_CONFIG_NOSYSTEM": "1"}
    files = ("notes.txt", "canary.txt", "src/a.py")
    steps: Iterable[tuple[str, ...]] = (("init", "-q"), ("add", *files), ("commit", "-qm", "first"))
    program = system_program("git")
    if program is None:
        return
    try:
        for step in steps:
            run((program, *options, *step), cwd=work, env=env, timeout=_GIT_SECONDS)
    except (OSError, SubprocessError):
        return
    (work / "src" / "a.py").write_text("one = 1\nprint(one)\nprint(2)\n")
