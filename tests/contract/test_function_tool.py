"""`@tool`: schemas from signatures and docstrings, and conversion of arguments to the annotated types."""

from __future__ import annotations

import dataclasses
import enum
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypedDict

import pytest
from pydantic import BaseModel, Field

from holdfast import Attachment, Context, Result, Runtime, Tool, tool
from holdfast.contract.errors import ToolError
from tests.runtime.support import run


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: float = 2.0


class Size(TypedDict):
    width: int


class Order(BaseModel):
    item: str
    count: int = Field(gt=0, description="how many")


def properties(made: Tool) -> dict[str, Any]:
    return made.input_schema["properties"]


@pytest.mark.spec("T2")
def test_types_defaults_and_descriptions_become_the_schema() -> None:
    @tool
    def search(query: str, limit: int = 10, exact: bool = False, *, kind: Literal["a", "b"] = "a") -> str:
        """Search for things.

        All of them.

        Args:
            query: what to look for,
                over two lines
            limit: how many at most
        """
        return query

    assert search.name == "search"
    assert search.description == "Search for things.\n\nAll of them."
    assert search.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for, over two lines"},
            "limit": {"type": "integer", "default": 10, "description": "how many at most"},
            "exact": {"type": "boolean", "default": False},
            "kind": {"enum": ["a", "b"], "default": "a"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "docstring",
    [
        "Do it.\n\n:param first: the first one\n",
        "Do it.\n\nParameters\n----------\nfirst : int\n    the first one\n",
        "Do it.\n\nArgs:\n    first: the first one\n",
    ],
)
@pytest.mark.spec("T2")
def test_the_common_docstring_styles_are_parsed(docstring: str) -> None:
    def function(first: int) -> int:
        return first

    function.__doc__ = docstring
    made = tool(function)
    assert properties(made)["first"]["description"] == "the first one"
    assert made.description == "Do it."


@pytest.mark.spec("T2")
def test_arguments_are_converted_to_the_annotated_types() -> None:
    @tool(effects=(), runs="inline")
    def rich(colour: Colour, point: Point, size: Size, order: Order, maybe: int | None = None) -> str:
        return f"{colour!r} {point!r} {size!r} {order!r} {maybe!r}"

    args = {"colour": "red", "point": {"x": 1}, "size": {"width": 3}, "order": {"item": "nut", "count": 2}}
    result = run(Runtime(tools=[rich]).call("rich", args))
    assert result.output == ("<Colour.RED: 'red'> Point(x=1, y=2.0) {'width': 3} Order(item='nut', count=2) None")
    refused = run(Runtime(tools=[rich]).call("rich", {**args, "order": {"item": "nut", "count": 0}}))
    assert "order.count is 0 but must be more than 0" in (refused.error or "")


@pytest.mark.spec("T2")
def test_annotated_descriptions_work_without_pydantic() -> None:
    @tool
    def count(number: Annotated[int, "how many"], order: Annotated[int, Field(description="which", ge=1)]) -> None: ...

    assert properties(count)["number"] == {"type": "integer", "description": "how many"}
    assert properties(count)["order"] == {"type": "integer", "description": "which", "minimum": 1}


@pytest.mark.spec("T2")
def test_the_context_is_passed_in_and_not_part_of_the_schema() -> None:
    @tool(effects=())
    async def who(greeting: str, ctx: Context) -> str:
        return f"{greeting} from {ctx.tool_name} in {ctx.call_id}"

    assert list(properties(who)) == ["greeting"]
    result = run(Runtime(tools=[who]).call("who", {"greeting": "hi"}))
    assert result.output == f"hi from who in {result.call_id}"


@pytest.mark.spec("T2", "S3", "S6")
def test_strict_makes_all_properties_required_and_optional_ones_nullable() -> None:
    @tool(strict=True, effects=(), runs="inline")
    def find(query: str, limit: int = 10, kind: Literal["a", "b"] = "a") -> str:
        return f"{query} {limit} {kind}"

    assert find.strict_problems() == []
    assert find.input_schema["required"] == ["query", "limit", "kind"]
    assert properties(find)["limit"]["type"] == ["integer", "null"]
    runtime = Runtime(tools=[find])
    assert run(runtime.call("find", {"query": "x"})).output == "x 10 a"
    assert run(runtime.call("find", {"query": "x", "limit": None, "kind": "b"})).output == "x 10 b"


@pytest.mark.spec("T2")
def test_a_whole_float_is_converted_for_an_integer_parameter() -> None:
    @tool(effects=(), runs="inline")
    def kind(number: int) -> str:
        return type(number).__name__

    assert run(Runtime(tools=[kind]).call("kind", '{"number": 3.0}')).output == "int"


@pytest.mark.spec("T2", "T4")
def test_a_returned_result_is_used_unchanged() -> None:
    @tool(effects=())
    async def draw() -> Result:
        """Draw something."""
        return Result(True, "drawn", structured={"wide": 3}, attachments=(picture,))

    picture = Attachment(kind="image", mime_type="image/png", data=b"png")
    result = run(Runtime(tools=[draw]).call("draw"))
    assert draw.output_schema is None
    assert (result.output, result.structured, result.attachments) == ("drawn", {"wide": 3}, (picture,))


@pytest.mark.spec("T2", "T9")
def test_a_typed_return_value_has_an_output_schema_and_structured_content() -> None:
    @tool(effects=(), runs="inline")
    def where() -> Point:
        return Point(1, 2.5)

    @tool(effects=(), runs="inline")
    def order() -> Order:
        return Order(item="nut", count=3)

    assert where.output_schema is not None
    assert where.output_schema["required"] == ["x"]
    runtime = Runtime(tools=[where, order])
    assert run(runtime.call("where")).structured == {"x": 1, "y": 2.5}
    assert run(runtime.call("order")).structured == {"item": "nut", "count": 3}


@pytest.mark.spec("T2")
def test_a_function_that_cannot_be_a_tool_is_refused_with_the_reason() -> None:
    def starred(*names: str) -> None: ...

    def odd(thing: Runtime) -> None: ...

    def good() -> None: ...

    with pytest.raises(ToolError, match="takes \\*names"):
        tool(starred)
    with pytest.raises(ToolError, match="parameter 'thing' of 'odd'"):
        tool(odd)
    with pytest.raises(ToolError, match="The effects of tool 'good' cannot be 'magic'"):
        tool(effects=("magic",))(good)  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("T2")
def test_a_tool_with_plain_types_imports_neither_pydantic_nor_griffe() -> None:
    program = (
        "import sys, asyncio\n"
        "from holdfast import Runtime, tool\n"
        "@tool(effects=())\n"
        "async def add(a: int, b: float = 1.0) -> float:\n"
        "    'Add.'\n"
        "    return a + b\n"
        "print(asyncio.run(Runtime(tools=[add]).call('add', {'a': 1})).output)\n"
        "heavy = {'pydantic', 'griffe', 'anyio', 'rich', 'click', 'sqlite3'} & set(sys.modules)\n"
        "print(sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[:2] == ["2.0", "[]"]


class Account:
    def __init__(self, owner: str) -> None:
        self.owner = owner

    @tool(effects=())
    def balance(self, currency: str = "EUR") -> str:
        """What is left.

        Args:
            currency: which one
        """
        return f"{self.owner} {currency}"

    @tool(effects=())
    async def later(self) -> str:
        return self.owner

    @tool(effects=())
    @classmethod
    def kind(cls, plural: bool) -> str:
        return cls.__name__ + "s" * plural

    @classmethod
    @tool(effects=())
    def other_kind(cls) -> str:
        return cls.__name__

    @staticmethod
    @tool(effects=())
    def add(a: int, b: int) -> int:
        return a + b

    @tool(effects=())
    def copied(self) -> Account:
        return Account(self.owner)

    @tool(effects=(), runs="process")
    def away(self) -> str:
        return self.owner


@pytest.mark.spec("T12")
def test_a_decorated_function_is_still_callable() -> None:
    @tool(effects=())
    def double(n: int) -> int:
        return 2 * n

    @tool
    async def triple(n: int) -> int:
        return 3 * n

    assert (double(4), double(n=5), double.__name__) == (8, 10, "double")
    assert run(triple(4)) == 12
    assert double.with_(name="twice")(3) == 6


@pytest.mark.spec("T12")
def test_a_method_becomes_a_tool_bound_to_its_instance() -> None:
    ann, bob = Account("ann"), Account("bob")
    assert properties(ann.balance) == {"currency": {"type": "string", "description": "which one", "default": "EUR"}}
    assert ann.balance.description == "What is left."
    assert (ann.balance("USD"), Account.balance(ann), bob.kind(True)) == ("ann USD", "ann EUR", "Accounts")
    runtime = Runtime(tools=[ann.balance, bob.later, Account.kind, Account.other_kind, ann.add])
    calls: list[tuple[str, dict[str, Any]]] = [
        ("balance", {}), ("later", {}), ("kind", {"plural": False}), ("other_kind", {}), ("add", {"a": 1, "b": 2}),
    ]  # fmt: skip
    assert [run(runtime.call(name, args)).output for name, args in calls] == [
        "ann EUR", "bob", "Account", "Account", "3"
    ]  # fmt: skip


@pytest.mark.spec("T12")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Runtime(tools=[Account.balance]), r"Register it on an instance: Account\(...\).balance"),
        (lambda: Account("ann").copied, "'copied' returns Account, which cannot be stored as a result. Return text"),
        (lambda: Account("ann").away, "runs in its own process, so it cannot be a method"),
        (lambda: tool(Account), "not the class 'Account'"),
        (lambda: tool(Account("ann").balance), "not 'balance', which already is a tool"),
    ],
)
def test_a_method_that_cannot_be_a_tool_is_refused_with_the_reason(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        make()


def _nothing() -> None: ...
def _connection() -> sqlite3.Connection: ...  # pyright: ignore[reportReturnType]
def _several() -> dict[str, sqlite3.Connection | None]: ...  # pyright: ignore[reportReturnType]
def _lines() -> Iterator[str]:
    yield "a"


@pytest.mark.spec("T12")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_connection, "'_connection' returns Connection, which cannot be stored as a result. Return text, JSON"),
        (_several, "returns Connection, which cannot be stored"),
        (_lines, "is a generator, which cannot be stored as a result. Return a list"),
    ],
)
def test_a_return_type_that_cannot_be_stored_is_refused_before_the_tool_runs(function: Any, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        tool(function)


class Shape(Protocol):
    sides: int


@pytest.mark.spec("T12")
@pytest.mark.parametrize(
    "hint",
    [
        Any, object, None, dict[str, Any], list[Point], Point | None, Size, Order, Shape, Colour, Path, Decimal, bytes,
        Mapping[str, int], Iterable[str], tuple[int, ...], Awaitable[str], Annotated[str, "x"], Literal["a"], Result,
    ],
)  # fmt: skip
def test_abstract_and_storable_return_types_are_accepted(hint: Any) -> None:
    def function() -> Any: ...

    function.__annotations__["return"] = hint
    assert tool(function).name == "function"


EFFECTS = "Choose from: external, fs.read, fs.write, network, person, process, secrets."


@pytest.mark.spec("T12")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effects": "network"}, f"The effects of tool '_nothing' must be a list: use effects=('network',). {EFFECTS}"),
        ({"effects": ["netwrk"]}, f"cannot be 'netwrk'. Did you mean 'network'? {EFFECTS}"),
        ({"effects": 5}, f"must be a list of names, not 5. {EFFECTS}"),
        ({"efects": ()}, "@tool has no option 'efects'. Did you mean 'effects'? Choose from: aliases, "),
        ({"risk": "hgih"}, "The risk of tool '_nothing' cannot be 'hgih'. Did you mean 'high'? Choose from: low, "),
        ({"runs": "proces"}, "cannot be 'proces'. Did you mean 'process'? Choose from: inline, thread, process."),
        ({"keeps": "hed"}, "cannot be 'hed'. Did you mean 'head'?"),
        ({"groups": "fs"}, "The groups of tool '_nothing' must be a list: use groups=('fs',)."),
        ({"required_secret_scopes": "github"}, "use required_secret_scopes=('github',)."),
        ({"timeout": "5"}, "must be a number of seconds above 0, not '5'"),
        ({"summary": "text"}, "The `summary` of tool '_nothing' must be a function, not str."),
    ],
)
def test_misspelled_options_and_values_name_the_choices(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError) as refused:
        tool(**options)(_nothing)
    assert words in str(refused.value)
