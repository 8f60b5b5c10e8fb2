"""Measure parsing replies of the text protocol: `python replies.py [--quick]` prints one JSON object.

The baseline is the least that any parser must do: find every tag with `str.find`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Callable

from documents import again
from measure import Effort, race

from holdfast.models.text_protocol.parser import parse
from holdfast.models.text_protocol.stream import TextPreview
from holdfast.models.text_protocol.syntax import TAGS

SIZE = 1_000_000
PIECE = 4
WORDS = ("the", "parser", "reads", "a", "file", "then", "every", "call", "of", "it", "is", "checked", "–", "naïve")


def prose(chance: random.Random, size: int) -> str:
    return _fill(size, lambda: " ".join(chance.choices(WORDS, k=chance.randrange(40, 120))) + ".\n\n")


def fenced(chance: random.Random, size: int) -> str:
    def part() -> str:
        return f"{prose(chance, 300)}```python\n{code(chance, 600)}```\n\nIt uses ```[read_file: x]``` there.\n\n"

    return _fill(size, part)


def code(chance: random.Random, size: int) -> str:
    """Indexing, lists and comparisons: two lines of three look a little like tags and frames."""
    forms = (
        "    rows[{0}] = [table[{0}][{1}] for row in rows[{1}:]]\n",
        "    if total_{0} === total_{1}:\n",
        "    value_{0} = compute(value_{1}, other)\n",
    )
    return _fill(size, lambda: chance.choice(forms).format(chance.randrange(99), chance.randrange(99)))


def brackets(chance: random.Random, size: int) -> str:
    forms = ("[read_file: src/m_{0}.py]", "[list_dir: src/app/[id_{0}]]", "[search_code: name_{0}]", "[git_status]")
    return _asking(chance, size, forms)


def blocks(chance: random.Random, size: int) -> str:
    forms = (
        "[search_code]\nname_{0}\n[/search_code]",
        "[write_file]\npath: a_{0}.py\n---content---\nx = {0}\n[/write_file]",
        "[edit_file]\npath: a_{0}.py\n---search---\nx = {0}\n---replace---\ny\n[/edit_file]",
        '[call: file.find]\n{{"pattern": "*_{0}.py"}}\n[/call]',
    )
    return _asking(chance, size, forms)


def _asking(chance: random.Random, size: int, forms: tuple[str, ...]) -> str:
    """10 000 calls, with prose between them."""
    made = [forms[number % len(forms)].format(number) for number in range(10_000)]
    room = (size - sum(map(len, made))) // len(made)
    words = prose(chance, size)
    return "".join(f"{words[number * room : (number + 1) * room - 1]}\n{call}" for number, call in enumerate(made))


def body(chance: random.Random, size: int) -> str:
    return f"[write_file]\npath: big.py\n---content---\n{code(chance, size)}\n[/write_file]"


def _fill(size: int, part: Callable[[], str]) -> str:
    parts: list[str] = []
    length = 0
    while length < size:
        parts.append(part())
        length += len(parts[-1])
    return "".join(parts)


def find_all(text: str) -> int:
    found = 0
    for tag in TAGS:
        at = text.find(tag)
        while at >= 0:
            found += 1
            at = text.find(tag, at + 1)
    return found


def stream(text: str) -> int:
    preview = TextPreview()
    shown = [preview.feed(text[at : at + PIECE]) for at in range(0, len(text), PIECE)]
    return len(shown) + len(parse(text).pieces)


KINDS: dict[str, tuple[Callable[[random.Random, int], str], int]] = {
    "prose": (prose, 0),
    "fences": (fenced, 0),
    "code": (code, 0),
    "brackets": (brackets, 10_000),
    "blocks": (blocks, 10_000),
    "body": (body, 1),
}
"""Each kind of reply, and how many calls are in it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    quick: bool = parser.parse_args().quick
    taken: dict[str, float] = {}
    for kind, (make, count) in KINDS.items():
        text = make(random.Random(7), SIZE)
        parsed = parse(text)
        assert len(parsed.calls) == count, kind
        assert not parsed.problems, kind
        subjects = {"find": again(lambda text=text: find_all(text)), "parse": again(lambda text=text: parse(text))}
        best = asyncio.run(race(subjects, Effort(5 if quick else 30, 0.05)))
        best |= asyncio.run(race({"stream": again(lambda text=text: stream(text))}, Effort(1 if quick else 3, 0.5)))
        taken |= {f"{kind}.{name}": seconds * SIZE / len(text) for name, seconds in best.items()}
    print(json.dumps({"times": taken}))


if __name__ == "__main__":
    main()
