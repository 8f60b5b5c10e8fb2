"""Run the same searches with BM25 libraries, in their environment: `python finding_peers.py GIVEN.json`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from measure import Effort, race


def main() -> None:
    given: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    effort = Effort(3 if given["quick"] else 20, 0.05)
    taken: dict[str, float] = {}
    for name, peer in {"rank_bm25": RankBm25, "bm25s": Bm25s}.items():
        made = peer(given["texts"])
        subjects = {
            key: _again(lambda query=query, made=made: made.search(query)) for key, query in given["queries"].items()
        }
        best = asyncio.run(race(subjects, effort))
        best |= asyncio.run(race({"build": _again(lambda peer=peer: peer(given["texts"]))}, Effort(3, 0.1)))
        taken |= {f"{name}.{key}": seconds for key, seconds in best.items()}
    print(json.dumps(taken))


class RankBm25:
    def __init__(self, texts: list[str]) -> None:
        from rank_bm25 import BM25Okapi

        self._index = BM25Okapi([text.lower().split() for text in texts])
        self._places = range(len(texts))

    def search(self, query: str) -> list[int]:
        return self._index.get_top_n(query.lower().split(), self._places, n=8)


class Bm25s:
    def __init__(self, texts: list[str]) -> None:
        import bm25s

        self._library = bm25s
        self._index = bm25s.BM25()
        self._index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def search(self, query: str) -> Any:
        return self._index.retrieve(self._library.tokenize(query, show_progress=False), k=8, show_progress=False)


def _again(work: Any) -> Any:
    async def run(n: int) -> None:
        for _ in range(n):
            work()

    return run


if __name__ == "__main__":
    main()
