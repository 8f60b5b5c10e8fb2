"""The exception hierarchy is the one that the module's docstring draws."""

from __future__ import annotations

import inspect
import re

from holdfast.contract import errors
from holdfast.contract.errors import HoldfastError, InvalidArguments


def drawn() -> dict[str, str]:
    """Return the parent of each class in the drawing."""
    parents: dict[str, str] = {}
    above = ["HoldfastError"]
    for line in (errors.__doc__ or "").splitlines():
        if (found := re.match(r"((?:│   |    )*)[├└]── (\w+)", line)) is not None:
            depth = len(found[1]) // 4
            above[depth + 1 :] = [found[2]]
            parents[found[2]] = above[depth]
    return parents


def test_every_class_is_drawn_below_its_base_class() -> None:
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, HoldfastError)]
    bases = {kind.__name__: kind.__bases__[0].__name__ for kind in classes if kind is not HoldfastError}
    assert bases and bases.items() <= drawn().items()


def test_invalid_arguments_join_their_violations() -> None:
    error = InvalidArguments(["a is missing", "b is 5 but must be string"])
    assert error.violations == ("a is missing", "b is 5 but must be string")
    assert str(error) == "a is missing; b is 5 but must be string"
