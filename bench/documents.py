"""Measure parsing and editing a `.chat` document: `python documents.py [--quick]` prints one JSON object.

The baseline is the least that any parser must do: split the document into lines and track the fences.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import random
import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from measure import Effort, Run, race

from holdfast.chat import grammar
from holdfast.chat.document import Document
from holdfast.contract.message import Text, Thinking, ToolUse

SIZE = 10_000_000
STREAM = 1_500_000
PIECE = 100
WORDS = ("the", "parser", "reads", "a", "file", "then", "every", "call", "of", "it", "is", "checked", "–", "naïve")
PEERS: dict[str, Callable[[Any, str], object]] = {
    "pyromark": lambda module, text: list(module.events(text)),
    "mistune": lambda module, text: module.create_markdown(renderer="ast")(text),
    "markdown_it": lambda module, text: module.MarkdownIt().parse(text),
}


def conversation(size: int) -> str:
    """Many turns with prose, code, parallel calls, results of all lengths, errors and thinking."""
    chance = random.Random(4)
    made = [grammar.message("System", "Be brief.", "\n")]
    length = 0
    while length < size:
        turn = list(_turn(chance, len(made)))
        length += sum(map(len, turn))
        made += turn
    return "\n".join(made)


def _turn(chance: random.Random, number: int) -> Iterator[str]:
    yield grammar.message("You", _prose(chance, 40), "\n")
    uses = [
        ToolUse(f"toolu_{number}_{index}", "file.read", json.dumps({"path": f"src/m{number}.py", "limit": 200}))
        for index in range(chance.randrange(1, 4))
    ]
    thought = Thinking(_prose(chance, 80), "anthropic", "c2ln" * 60)
    yield grammar.reply([thought, _said(chance), *uses], None, "\n")
    results = (
        grammar.tool_result(use.id, "\n".join(_code(chance, chance.randrange(2, 200))), error=False, newline="\n")
        for use in uses
    )
    yield grammar.message("You", "\n\n".join(results), "\n")
    yield grammar.reply([Text(f"{_prose(chance, 150)}\n\n{_prose(chance, 100)}")], None, "\n")


def _said(chance: random.Random) -> Text:
    code = "\n".join(_code(chance, chance.randrange(3, 25)))
    return Text(f"{_prose(chance, 120)}\n\n```python\n{code}\n```\n\n{_prose(chance, 60)}\n\n")


def _prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randrange(words // 2, words)))


def _code(chance: random.Random, lines: int) -> Iterator[str]:
    for line in range(lines):
        indent, words = " " * 4 * chance.randrange(4), chance.choices(WORDS, k=chance.randrange(5))
        yield f"{indent}value_{line} = compute(value_{line + 1}, {' '.join(words)})"


def fence_loop(text: str) -> int:
    fence = found = 0
    for line in text.split("\n"):
        if line.startswith("```"):
            length = len(line) - len(line.lstrip("`"))
            if not fence:
                fence = length
            elif length >= fence and not line.strip("` "):
                fence = 0
                found += 1
    return found


def whole(document: Document) -> Document:
    """With all its nodes read and its faults known."""
    _ = document.messages, document.diagnostics
    return document


def again(work: Callable[[], object]) -> Run:
    async def run(n: int) -> None:
        for _ in range(n):
            work()

    return run


def documents(text: str, effort: Effort) -> dict[str, float]:
    document = whole(Document.parse(text))
    assert document.text == text
    assert not document.diagnostics
    at = text.index("value_1 = ", len(text) // 2)
    opened = whole(document.edit(0, 0, "`````\n"))
    subjects = {
        "lines": again(lambda: fence_loop(text)),
        "parse": again(lambda: whole(Document.parse(text))),
        "edit": again(lambda: whole(document.edit(at, at + 5, "other"))),
        "open": again(lambda: whole(document.edit(0, 0, "`````\n"))),
        "close": again(lambda: whole(opened.edit(0, 6, ""))),
    }
    return asyncio.run(race(subjects, effort))


def stream(rounds: int) -> dict[str, float]:
    """The first and the last tenth of a reply that comes in small pieces; the best of some rounds."""
    chance = random.Random(5)
    parts = [
        _said(chance) if number % 8 else ToolUse(str(number), "file.read", "{}") for number in range(1, STREAM // 1000)
    ]
    reply = grammar.reply(parts, None, "\n").removeprefix("@Assistant:\n")
    pieces = [reply[at : at + PIECE] for at in range(0, len(reply), PIECE)]
    tenth = len(pieces) // 10
    best = {"start": float("inf"), "end": float("inf")}
    for _ in range(rounds):
        document = Document.parse("@You:\nTell me all.\n\n@Assistant:\n")
        for name, part in (("start", pieces[:tenth]), ("", pieces[tenth:-tenth]), ("end", pieces[-tenth:])):
            began = perf_counter()
            for piece in part:
                document = document.append(piece)
            if name:
                best[name] = min(best[name], (perf_counter() - began) / tenth / PIECE)
        assert len(document.messages) == 2
    return best


def peers(text: str) -> dict[str, float]:
    """Parsers of Markdown that happen to be there, once each."""
    taken: dict[str, float] = {}
    for name, parse in PEERS.items():
        try:
            module = importlib.import_module(name)
        except ImportError:
            print(f"{name}: not installed", file=sys.stderr)
            continue
        began = perf_counter()
        parse(module, text)
        taken[f"peer.{name}"] = perf_counter() - began
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds, no peers")
    quick: bool = parser.parse_args().quick
    text = conversation(SIZE)[:SIZE].rpartition("\n@You:")[0] + "\n"
    taken = {**documents(text, Effort(4 if quick else 15, 0.1)), **stream(2 if quick else 6)}
    if not quick:
        taken |= peers(text)
    print(json.dumps({"times": taken}))


if __name__ == "__main__":
    main()
