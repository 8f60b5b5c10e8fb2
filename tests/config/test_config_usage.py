from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holdfast
from holdfast.config.config import ModelProvider, PendingConfig, ToolsConfig
from holdfast.config.options import Section
from tests.config.option_usage import NOTHING, Fields, fields_of, unread
from tests.syntax import parsed

PRODUCT = Path(holdfast.__file__).parent
CONFIG = PRODUCT / "config"
INVENTED = ("dummy", "name", "path", "text", "id", "kind", "value", "result", "args", "command")
"""Fields that no struct has: a unique name, and names that are read from many other objects."""


@pytest.fixture(scope="module")
def found() -> list[str]:
    """The unread fields of a configuration in which every struct also has the invented fields."""
    known = fields_of(Section.__subclasses__())
    more = {struct: dict.fromkeys(INVENTED, NOTHING) | own for struct, own in known.items()}
    # The config package merges, tightens and describes options generically, which is not a use of them.
    outside = [path for path in PRODUCT.rglob("*.py") if path.parent != CONFIG]
    return unread(more, [parsed(path) for path in outside])


def invented() -> set[str]:
    known = fields_of(Section.__subclasses__())
    return {f"{struct}.{name}" for struct in known for name in INVENTED if name not in known[struct]}


@pytest.mark.spec("E1a")
def test_every_option_is_read_outside_the_config_package(found: list[str]) -> None:
    assert sorted(set(found) - invented()) == []


@pytest.mark.spec("E1a")
def test_an_unread_option_is_detected_even_if_its_name_is_common(found: list[str]) -> None:
    assert sorted(invented() - set(found)) == []


FIELDS: Fields = fields_of([ToolsConfig, ModelProvider, PendingConfig])
READS = [
    "def f(tools: ToolsConfig): return tools.max_depth",
    "def f(tools: ToolsConfig | None): return tools and tools.max_depth",
    "class A:\n  tools: ToolsConfig\ndef f(a): return a.tools.max_depth",
    "class A:\n  def __init__(self, given: ToolsConfig): self._own = given\n  def f(self): return self._own.max_depth",
    "class A:\n  @property\n  def own(self) -> ToolsConfig: ...\ndef f(a): return a.own.max_depth",
    "def made() -> ToolsConfig: ...\nx = made()\nprint(x.max_depth)",
    "def f(a: dict[str, ToolsConfig]): return [each.max_depth for name, each in a.items()]",
    "def f(a: Sequence[ToolsConfig]):\n  for each in a: print(each.max_depth)",
    "def f(a: ToolsConfig): return getattr(a, 'max_depth')",
    "NAMES = ('max_depth',)\ndef f(a: ToolsConfig): return [getattr(a, name) for name in NAMES]",
]
OTHERS = [
    "def f(tools: Other): return tools.max_depth",
    "def f(tools: ToolsConfig): return to_builtins(tools)",
    "def f(tools: ToolsConfig): return replace(tools, max_depth=1)",
    "def f(tools: ToolsConfig): return [getattr(tools, name) for name in tools.__struct_fields__]",
    "def f(tools: ToolsConfig, other: Other): return other.max_depth, 'max_depth'",
    "def f(own: PendingConfig): return own.max_depth",
]


@pytest.mark.parametrize("source", READS)
def test_an_attribute_of_the_struct_counts_as_read(source: str) -> None:
    assert "ToolsConfig.max_depth" not in unread(FIELDS, [ast.parse(source)])


@pytest.mark.parametrize("source", OTHERS)
def test_an_attribute_of_another_object_or_a_generic_read_does_not_count(source: str) -> None:
    assert "ToolsConfig.max_depth" in unread(FIELDS, [ast.parse(source)])
