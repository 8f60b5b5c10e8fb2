"""Measures the memory: how well it finds (our own set, and LoCoMo if its path is given) and how fast (100 000 items).

    python bench/memory.py                       # our own set
    python bench/memory.py --locomo PATH         # locomo10.json, a folder of its files, or locomo10.zip
    python bench/memory.py --scale [N]           # search and write times with N items (100 000)
    python bench/memory.py --embedder small ...  # another embedder

Every search goes through `RuntimeMemory`, as in a call of `memory.search`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from statistics import mean, median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from holdfast.config.config import ApprovalConfig, Config
from holdfast.config.tool_families import MemoryConfig
from holdfast.contract.call import Caller
from holdfast.contract.memory import Memory, NewItem, Provenance
from holdfast.runtime.memory import RuntimeMemory
from holdfast.runtime.runtime import Runtime
from holdfast.store.memory.embedders import choose_embedder
from holdfast.store.memory.items import MemoryStore
from holdfast.tools import memory as memory_tools
from tests.store.memory.evaluation import Question, evaluation_set, fill

EMBEDDED = {
    "query (8 words)": "which database did we choose for the invoices",
    "item (30 words)": "We decided to keep the invoices in PostgreSQL because the team knows it, backups are in place, "
    "and the analytics group reads the replica every night anyway, so nothing new must be learnt.",
}
MODES = ("keywords", "meaning", "hybrid")


class Ranks(NamedTuple):
    """The rank of the first expected item for each question; None if it is not among the results."""

    first: list[int | None]

    def at(self, count: int) -> float:
        return mean(rank is not None and rank <= count for rank in self.first)

    @property
    def mrr(self) -> float:
        return mean(0.0 if rank is None else 1 / rank for rank in self.first)


@contextmanager
def runtime_with(folder: Path, embedder: Any, weight: float = 0.5) -> Iterator[tuple[Runtime, RuntimeMemory]]:
    config = Config(approval=ApprovalConfig(auto_approve=("memory.*",)), memory=MemoryConfig(keyword_weight=weight))
    tools = [memory_tools.MEMORY_SEARCH, memory_tools.MEMORY_WRITE]
    runtime = Runtime(tools=tools, config=config, caller=Caller(interface="bench"))
    memory = RuntimeMemory(
        config.memory, config.tools, own=folder / "own.db", shared=folder / "shared.db", embedder=lambda: embedder
    )
    runtime.services.offer(Memory, memory)
    yield runtime, memory
    memory.close()


async def rank_all(runtime: Runtime, questions: Sequence[Question], mode: str, limit: int) -> tuple[Ranks, list[float]]:
    ranks: list[int | None] = []
    seconds: list[float] = []
    for question in questions:
        args = {
            "query": question.text, "namespace": question.namespace, "limit": limit, "keywordOnly": mode == "keywords"
        }  # fmt: skip
        start = time.perf_counter()
        result = await runtime.call("memory.search", args)
        seconds.append(time.perf_counter() - start)
        assert result.success, result.error
        found: Any = result.structured
        ids = [hit["id"] for hit in found["hits"]]
        ranks.append(next((at for at, item in enumerate(ids, 1) if item in question.expected), None))
    return Ranks(ranks), seconds


def measure(
    fill_store: Callable[[MemoryStore], list[Question]], embedder: Any, modes: Sequence[str] = MODES
) -> dict[str, tuple[list[Question], Ranks]]:
    """Fill a new memory and rank every question in each mode."""
    found: dict[str, tuple[list[Question], Ranks]] = {}
    with TemporaryDirectory() as folder:
        store = MemoryStore(Path(folder, "own.db"))
        questions = [question for question in fill_store(store) if question.expected]
        store.close()
        for mode in modes:
            with runtime_with(Path(folder), embedder, 0.0 if mode == "meaning" else 0.5) as (runtime, memory):
                asyncio.run(_embed_everything(runtime, memory))
                found[mode] = (questions, asyncio.run(rank_all(runtime, questions, mode, 50))[0])
    return found


async def _embed_everything(runtime: Runtime, memory: RuntimeMemory) -> None:
    while True:
        found: Any = (await runtime.call("memory.search", {"query": "x"})).structured
        if not any("not embedded" in note for note in found["notes"]):
            return
        await asyncio.sleep(0.5)


def own_set(embedder: Any) -> None:
    data = evaluation_set()
    found = measure(lambda store: fill(store, data), embedder)
    kinds = list(dict.fromkeys(question.kind for question in found["hybrid"][0]))
    print(f"\nOur own set: {len(data.texts)} items, {len(found['hybrid'][0])} questions\n")
    print("| questions | count | " + " | ".join(f"{mode} @1 / @5 / MRR" for mode in MODES) + " |")
    print("|---|---|" + "---|" * len(MODES))
    for kind in (*kinds, "all"):
        cells: list[str] = []
        count = 0
        for mode in MODES:
            questions, ranks = found[mode]
            chosen = Ranks([r for q, r in zip(questions, ranks.first, strict=True) if kind in (q.kind, "all")])
            count = len(chosen.first)
            cells.append(f"{chosen.at(1):.3f} / {chosen.at(5):.3f} / {chosen.mrr:.3f}")
        print(f"| {kind} | {count} | " + " | ".join(cells) + " |")


def locomo(path: Path, embedder: Any) -> None:
    """Turn-level retrieval: is one of the turns that a question's answer rests on among the first results?"""
    all_ranks: dict[str, list[int | None]] = {mode: [] for mode in MODES}
    turns = 0
    for number, dialogue in enumerate(_dialogues(path)):

        def fill_dialogue(store: MemoryStore, dialogue: Any = dialogue, number: int = number) -> list[Question]:
            return _fill_dialogue(store, dialogue, f"dialogue/{number}")

        for mode, (_, ranks) in measure(fill_dialogue, embedder).items():
            all_ranks[mode] += ranks.first
        turns += sum(len(value) for key, value in dialogue.items() if _is_session(key, value))
    print(f"\nLoCoMo: {turns:,} turns, {len(all_ranks['hybrid']):,} questions with evidence\n")
    print("| ranking | any@1 | any@5 | any@10 | MRR |\n|---|---|---|---|---|")
    for mode in MODES:
        ranks = Ranks(all_ranks[mode])
        print(f"| {mode} | {ranks.at(1):.3f} | {ranks.at(5):.3f} | {ranks.at(10):.3f} | {ranks.mrr:.3f} |")


def _dialogues(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            texts = [archive.read(name) for name in sorted(archive.namelist()) if name.endswith(".json")]
    else:
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        texts = [file.read_bytes() for file in files]
    for text in texts:
        loaded = json.loads(text)
        for each in loaded if isinstance(loaded, list) else [loaded]:
            yield {**each.get("conversation", each), "qa": each["qa"]}


def _is_session(key: str, value: Any) -> bool:
    return key.startswith("session_") and isinstance(value, list)


def _fill_dialogue(store: MemoryStore, dialogue: dict[str, Any], namespace: str) -> list[Question]:
    ids: dict[str, str] = {}
    for key, session in dialogue.items():
        if _is_session(key, session):
            for turn in session:
                content = f"{turn['speaker']}: {turn['text']}"
                ids[turn["dia_id"]] = store.write(NewItem(namespace=namespace, content=content), Provenance()).id
    questions: list[Question] = []
    for each in dialogue["qa"]:
        named = {
            word for part in each.get("evidence") or () for word in part.replace(";", " ").replace(",", " ").split()
        }
        expected = frozenset(ids[turn] for turn in named if turn in ids)
        if expected:
            questions.append(Question(kind="locomo", text=each["question"], expected=expected, namespace=None))
    return questions


class HashedWords:
    """Fast vectors for the measurement of speed: the sum of a random vector for each word."""

    name = "hashed-words"
    dimension = 384
    unrelated = 0.0

    def __init__(self) -> None:
        self._words: dict[str, Any] = {}

    def embed(self, texts: Sequence[str]) -> Any:
        rows = np.stack([sum((self._word(word) for word in text.lower().split()), np.zeros(384)) for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def _word(self, word: str) -> Any:
        if word not in self._words:
            self._words[word] = np.random.default_rng(abs(hash(word))).standard_normal(384)
        return self._words[word]


def scale(count: int, embedder: Any) -> None:
    """Search and write with `count` items of 8 to 40 words, drawn from 30 000 words by Zipf's law."""
    rng = random.Random(7)
    words = [f"{rng.choice('bcdfgklmnprstvw')}{rng.choice('aeiou')}{number:x}" for number in range(30_000)]
    total = list(accumulate(1 / (rank + 10) for rank in range(len(words))))

    def text(low: int, high: int) -> str:
        return " ".join(rng.choices(words, cum_weights=total, k=rng.randint(low, high)))

    with TemporaryDirectory() as folder:
        store = MemoryStore(Path(folder, "own.db"))
        writes: list[float] = []
        for number in range(count):
            new = NewItem(namespace=f"topic/{number % 50}", content=text(8, 40))
            start = time.perf_counter()
            store.write(new, Provenance(interface="bench"))
            writes.append(time.perf_counter() - start)
        store.close()
        _say("write", writes)
        _say(f"write, the last {min(count, 5000):,}", writes[-5000:])
        hashed = HashedWords()
        with runtime_with(Path(folder), hashed) as (runtime, memory):
            start = time.perf_counter()
            asyncio.run(_embed_everything(runtime, memory))
            print(f"vectors of all items stored (without a real embedder): {time.perf_counter() - start:.1f} s")
        with runtime_with(Path(folder), hashed) as (runtime, memory):
            start = time.perf_counter()
            asyncio.run(_embed_everything(runtime, memory))
            print(f"first search of a process, which loads the vectors: {time.perf_counter() - start:.2f} s")
            for name, namespace in (("search in everything", None), ("search in one of 50 namespaces", "topic/7")):
                questions = [Question("", text(4, 12), frozenset(), namespace) for _ in range(300)]
                for mode in ("hybrid", "keywords"):
                    _say(f"{name}, {mode}", asyncio.run(rank_all(runtime, questions, mode, 10))[1])
            calls: list[float] = []

            async def write_calls() -> None:
                for number in range(300):
                    args = {"namespace": "topic/new", "content": f"{number} {text(8, 40)}"}
                    start = time.perf_counter()
                    assert (await runtime.call("memory.write", args)).success
                    calls.append(time.perf_counter() - start)

            asyncio.run(write_calls())
            _say("memory.write, the whole call", calls)
        if embedder is not None:
            embedder.embed(["warm"])
            for name, made in EMBEDDED.items():
                times: list[float] = []
                for _ in range(100):
                    start = time.perf_counter()
                    embedder.embed([made])
                    times.append(time.perf_counter() - start)
                _say(f"embedding of a {name} with {embedder.name}", times)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        print(f"files: {size / 1e6:.0f} MB")


def _say(what: str, seconds: Sequence[float]) -> None:
    found = [1000 * each for each in seconds]
    print(f"{what}: median {median(found):.2f} ms, p95 {quantiles(found, n=20)[-1]:.2f} ms, max {max(found):.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the memory.")
    parser.add_argument("--embedder", default="auto", choices=("auto", "minilm", "small", "none"))
    parser.add_argument("--locomo", type=Path, help="path of LoCoMo; nothing of it is part of this repository")
    parser.add_argument("--scale", type=int, nargs="?", const=100_000, help="measure the speed with this many items")
    given = parser.parse_args()
    embedder = choose_embedder(given.embedder)
    print(f"embedder: {'none' if embedder is None else embedder.name}")
    if given.scale:
        scale(given.scale, embedder)
    elif given.locomo:
        locomo(given.locomo, embedder)
    else:
        own_set(embedder)


if __name__ == "__main__":
    main()
