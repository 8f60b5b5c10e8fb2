"""Lists under edit: the steps a document takes, with names checked, from what holds without it to what it ends with."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from holdfast.chat.frontmatter.vocabulary import NotHere, UnknownName, Vocabulary
from holdfast.config.merge import NameList
from holdfast.registry.selection import Edit


class Step(Struct, frozen=True):
    """`set`, `append`, `prepend` or `remove`, and the names it is given."""

    operation: str
    names: tuple[str, ...]
    path: tuple[str, ...]
    """The option, as the document names it."""
    line: int | None = None


Report = Callable[[Exception, Step], None]


def rules(
    steps: Iterable[Step], vocabulary: Vocabulary, base: tuple[str, ...] | str = (), excluded: Iterable[str] = ()
) -> NameList:
    """An approval list, with tools by their own names, so that every spelling removes and brings back every other."""
    start = () if isinstance(base, str) else base
    current = NameList(tuple(map(vocabulary.canonical, start)), tuple(map(vocabulary.canonical, excluded)))
    for step in steps:
        current = getattr(current, step.operation)(_known(step, vocabulary.rule))
    return current


def tools(steps: Iterable[Step], vocabulary: Vocabulary) -> tuple[Edit, ...]:
    """The edits to the document's tools that mean something here."""
    return tuple((step.operation, tuple(_known(step, vocabulary.tool))) for step in steps)


def check_rules(step: Step, vocabulary: Vocabulary, report: Report) -> None:
    _known(step, vocabulary.rule, report)


def check_tools(step: Step, vocabulary: Vocabulary, report: Report) -> None:
    _known(step, vocabulary.tool, report)


def _known(step: Step, look_up: Callable[[str], str], report: Report | None = None) -> list[str]:
    found: list[str] = []
    for name in step.names:
        try:
            found.append(look_up(name))
        except (UnknownName, NotHere) as error:
            if report is not None:
                report(error, step)
    return found
