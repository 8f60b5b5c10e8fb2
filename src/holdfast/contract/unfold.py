"""How large a schema is once its references are written out: thirty lines can mean a thousand million parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

Node = Mapping[str, Any]

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_MAX_UNKNOWN: Final = 32


def unfolded_parts(schema: Node, limit: int, worth: Callable[[Node], int] = lambda _: 1) -> int:
    """The number of objects in the schema with every inner reference written out once per use, loops cut.

    `worth` is what an object counts for. Counting stops a little above `limit`. A reference that is not found here
    (into another document) counts as one part; more than a few of those count as too many, because nothing is known
    about them.
    """
    return _Unfolding(schema, limit, worth).parts(schema)


class _Unfolding:
    def __init__(self, schema: Node, limit: int, worth: Callable[[Node], int]) -> None:
        self.limit = limit
        self.worth = worth
        self.unknown = 0
        self.known: dict[int, int] = {}
        self.open: set[int] = set()
        self.targets: dict[str, Any] = {"": schema}
        for node in _nodes(schema):
            for key, prefix in (("$id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
                if isinstance(name := node.get(key), str):
                    self.targets.setdefault(prefix + name, node)

    def parts(self, node: object) -> int:
        if isinstance(node, list):
            return sum(self.parts(item) for item in cast(list[object], node))
        if not isinstance(node, Mapping):
            return 0
        part = cast(Node, node)
        key = id(part)
        if key in self.open:
            return 0
        if key not in self.known:
            self.open.add(key)
            self.known[key] = self.count(part)
            self.open.discard(key)
        return self.known[key]

    def count(self, part: Node) -> int:
        total = self.worth(part)
        for key, item in part.items():
            if total > self.limit:
                break
            total += self.referred(item) if key in _REFERENCES and isinstance(item, str) else self.parts(item)
        return total

    def referred(self, reference: str) -> int:
        base, _, fragment = reference.partition("#")
        target = self.targets.get(reference) or self.targets.get(base)
        if reference not in self.targets and fragment.startswith("/"):
            for step in unquote(fragment[1:]).split("/"):
                target = _step(target, step.replace("~1", "/").replace("~0", "~"))
        if isinstance(target, Mapping):
            return self.parts(cast(Node, target))
        self.unknown += 1
        return self.limit + 1 if self.unknown > _MAX_UNKNOWN else 1


def _step(node: Any, step: str) -> Any:
    if isinstance(node, list):
        items = cast(list[Any], node)
        return items[int(step)] if step.isdecimal() and int(step) < len(items) else None
    return cast(Node, node).get(step) if isinstance(node, Mapping) else None


def _nodes(value: object) -> Iterator[Node]:
    if isinstance(value, Mapping):
        node = cast(Node, value)
        yield node
        for item in node.values():
            yield from _nodes(item)
    elif isinstance(value, list):
        for item in cast(list[object], value):
            yield from _nodes(item)
