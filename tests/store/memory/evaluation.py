"""The evaluation set of the memory: items and questions written for it, in `evaluation.toml`.

Each item has a key, and each question names the keys of the items that answer it. `superseded` items are replaced by
another one and must rank behind it; `forgotten` items are deleted before the questions are asked.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, convert

from holdfast.contract.memory import NewItem, Provenance
from holdfast.store.memory.items import MemoryStore

DATA = Path(__file__).with_name("evaluation.toml")


class Question(NamedTuple):
    kind: str
    text: str
    expected: frozenset[str]
    namespace: str | None


class EvaluationSet(Struct, forbid_unknown_fields=True):
    items: dict[str, dict[str, str]]
    """By namespace: the text of each item by its key."""
    supersedes: dict[str, str]
    """Key of an item, and the key of the item it supersedes."""
    forgotten: list[str]
    questions: dict[str, list[tuple[str, str]]]
    """By kind: the question, and the keys of the items that answer it, with spaces between; none if forgotten."""

    @property
    def texts(self) -> dict[str, tuple[str, str]]:
        """The namespace and text of each item."""
        return {key: (namespace, text) for namespace, part in self.items.items() for key, text in part.items()}


def evaluation_set() -> EvaluationSet:
    loaded: Any = tomllib.loads(DATA.read_text(encoding="utf-8"))
    return convert(loaded, EvaluationSet)


def fill(store: MemoryStore, data: EvaluationSet) -> list[Question]:
    """Write all items, supersede and forget some, and return the questions with the ids of the items they expect."""
    ids: dict[str, str] = {}
    for key, (namespace, text) in data.texts.items():
        old = data.supersedes.get(key)
        new = NewItem(namespace=namespace, content=text, supersedes=None if old is None else ids[old])
        ids[key] = store.write(new, Provenance(interface="evaluation")).id
    for key in data.forgotten:
        item = store.get(ids[key])
        assert item is not None
        store.forget(item.id, item.digest, "evaluation")
    return [
        Question(kind, text, frozenset(ids[key] for key in keys.split()), None)
        for kind, asked in data.questions.items()
        for text, keys in asked
    ]
