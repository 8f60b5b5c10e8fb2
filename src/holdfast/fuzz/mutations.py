"""Mutants of allowed commands: every one tries to do harm unseen, or to look as if it did."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from holdfast.fuzz.corpus import HARM, SECRETS, TEMPLATES, WRITTEN

Change = Callable[[random.Random, str], str]

_MAX_LAYERS: Final = 3
_MAX_IDLE: Final = 10_000
"""Draws without a new mutant after which there are no more."""
_INJECTED: Final = "$({})", "`{}`", "; {}", " && {}", " | {}", "\n{}", " <({})", " > {}", " \\\n{}", ";{} #"


class Mutant(NamedTuple):
    text: str
    base: str
    how: str


def mutants(bases: Sequence[str], count: int, *, seed: int = 0, outside: str = "/outside") -> Iterator[Mutant]:
    """Different mutants, the same for the same seed. `outside` is a folder that no command may read."""
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
    """Harm somewhere in the middle, also inside words and quotes."""
    at = source.randrange(len(base) + 1)
    harm = source.choice((*HARM, *WRITTEN, *SECRETS))
    return base[:at] + source.choice(_INJECTED).format(harm) + base[at:]


def _with_operand(source: random.Random, base: str) -> str:
    """Another path at a word boundary."""
    words = base.split(" ")
    words.insert(source.randrange(1, len(words) + 1), source.choice((*SECRETS, *WRITTEN)))
    return " ".join(words)


def _with_option(source: random.Random, base: str) -> str:
    """An option of some program, given to this one."""
    words = base.split(" ")
    option = source.choice(_OPTIONS).format(w=source.choice(WRITTEN), s=source.choice(SECRETS))
    words.insert(source.randrange(1, len(words) + 1), option)
    return " ".join(words)


def _spliced(source: random.Random, base: str) -> str:
    """Two characters swapped, one doubled, dropped or replaced by one that means something."""
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
)
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
