"""Every form that `register` accepts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.contract.errors import InvalidName, ToolError
from holdfast.contract.function_tool import tool
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.registry.registry import Registry

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "x-kept": [1, {"a": None}]}


def answer(args: Args) -> str:
    return "hi"


def brings(name: str) -> Any:
    """Return a source that registers one tool."""

    def resolve(register: Any, done: Any) -> None:
        register(name, {})
        done()

    return resolve


def load(registry: Registry) -> None:
    asyncio.run(asyncio.wait_for(registry.wait_ready(), 60))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Write a module into a temporary package and return its import path."""
    package = f"plugin_{abs(hash(tmp_path))}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def write(name: str, body: str) -> str:
        (tmp_path / package / f"{name}.py").write_text(body)
        monkeypatch.delitem(sys.modules, f"{package}.{name}", raising=False)
        return f"{package}.{name}"

    return write


@pytest.mark.spec("T1", "R1")
def test_a_tool_needs_only_a_name_and_an_execute() -> None:
    registry = Registry()
    registry.register(Tool(name="hello", execute=answer))
    found = registry.get("hello")
    assert found is not None
    assert (found.description, found.input_schema) == ("", {"type": "object", "properties": {}})
    assert not found.definition_only


@pytest.mark.spec("T1")
def test_a_tool_without_execute_is_completed_by_the_program() -> None:
    registry = Registry()
    registry.register({"name": "ask.colleague"})
    found = registry.get("ask.colleague")
    assert found is not None and found.definition_only


@pytest.mark.spec("R1")
def test_a_decorated_function_is_registered_like_any_tool() -> None:
    @tool
    def double(n: int) -> int:
        """Twice n."""
        return 2 * n

    registry = Registry()
    registry.register(double)
    assert registry.get("double") is double


@pytest.mark.spec("R1", "T3")
def test_a_name_and_a_definition_make_a_tool_whose_schema_passes_through_unchanged() -> None:
    registry = Registry()
    registry.register("lookup", {"description": "Finds", "input_schema": SCHEMA, "execute": answer})
    registry.register("lookup2", {"name": "lookup2", "inputSchema": SCHEMA})
    for name in ("lookup", "lookup2"):
        found = registry.get(name)
        assert found is not None and found.input_schema is SCHEMA


@pytest.mark.spec("R1")
def test_a_definition_with_another_name_is_refused() -> None:
    registry = Registry()
    with pytest.raises(ToolError, match="registered as 'a' has the name 'b'"):
        registry.register("a", {"name": "b"})
    with pytest.raises(ToolError, match="has the name 'b'"):
        registry.register("a", Tool(name="b"))
    assert registry.list() == ()


@pytest.mark.spec("R1", "T8")
def test_a_list_accepts_every_other_form_and_one_handle_removes_all() -> None:
    def several() -> Iterator[Any]:
        yield Tool(name="one")
        yield {"name": "two"}
        yield [Tool(name="three")]
        yield {"resolve": brings("four")}

    registry = Registry()
    handle = registry.register(several())
    assert registry.names() == ("one", "three", "two")
    load(registry)
    assert registry.names() == ("four", "one", "three", "two")
    assert handle.remove()
    assert registry.names() == ()


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    "bad", [{"name": "a"}, {"name": "not a name"}, {"description": "no name"}, 7, "no.such.module"]
)
def test_a_list_with_one_bad_item_registers_nothing(bad: object) -> None:
    registry = Registry()
    registry.register(Tool(name="a"))
    with pytest.raises(ToolError):
        registry.register([Tool(name="b"), bad, Tool(name="c")])
    assert registry.names() == ("a",)
    assert registry.ready


@pytest.mark.spec("R1")
def test_an_iterable_that_raises_registers_nothing_and_starts_no_source() -> None:
    def broken() -> Iterator[Any]:
        yield Tool(name="one")
        yield {"resolve": brings("two")}
        raise OSError("disk")

    registry = Registry()
    with pytest.raises(OSError, match="disk"):
        registry.register(broken())
    assert registry.names() == () and registry.ready


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    "body",
    [
        "definitions = [{'name': 'm.a'}, {'name': 'm.b'}]",
        "def definitions():\n    return ({'name': n} for n in ('m.a', 'm.b'))",
    ],
)
def test_a_module_path_exports_definitions_as_a_list_or_a_function(
    module: Callable[[str, str], str], body: str
) -> None:
    registry = Registry()
    registry.register(module("tools", body))
    assert registry.names() == ("m.a", "m.b")


@pytest.mark.spec("R1")
def test_a_module_path_exports_a_source_with_its_own_timeout(module: Callable[[str, str], str]) -> None:
    asked: list[float] = []

    def call_later(seconds: float, callback: Callable[[], None]) -> Any:
        asked.append(seconds)
        return SimpleNamespace(cancel=lambda: None)

    registry = Registry(call_later=call_later)
    body = "timeout = 45\ndef resolve(register, done):\n    register('late', {})\n    done()"
    registry.register(module("late", body))
    assert registry.names() == () and not registry.ready
    load(registry)
    assert registry.names() == ("late",)
    assert asked == [45]


@pytest.mark.spec("R1")
def test_a_module_that_cannot_be_used_is_refused_by_name(module: Callable[[str, str], str]) -> None:
    registry = Registry()
    with pytest.raises(ToolError, match=r"has no tools\. Decorate a function in it with @tool"):
        registry.register(module("empty", "x = 1"))
    with pytest.raises(ToolError, match="'no_such_module_here' cannot be imported: ModuleNotFoundError"):
        registry.register("no_such_module_here")
    with pytest.raises(ToolError, match="cannot be imported: ZeroDivisionError"):
        registry.register(module("raising", "1 / 0"))


@pytest.mark.spec("R1", "T8")
def test_decorated_functions_in_a_module_are_registered_without_a_list(module: Callable[[str, str], str]) -> None:
    body = "from holdfast import tool\n@tool\ndef one(): ...\n@tool\ndef two(): ...\n"
    registry = Registry()
    registry.register(module("decorated", body))
    assert registry.names() == ("one", "two")


@pytest.mark.spec("R1")
def test_a_source_is_a_function_a_mapping_or_an_object_sync_or_async() -> None:
    def plain(register: Any, done: Any) -> None:
        register("from.plain", {})
        done()

    async def coroutine(register: Any, done: Any) -> None:
        await asyncio.sleep(0)
        register("from.coroutine", {})
        done()

    class Object:
        timeout = 5

        async def resolve(self, register: Any, done: Any) -> None:
            register(Tool(name="from.object"))
            done()

    class Callable_:
        async def __call__(self, register: Any, done: Any) -> None:
            register([{"name": "from.callable"}])
            done()

    registry = Registry()
    for source in (plain, coroutine, Object(), Callable_()):
        registry.register(source)
    registry.register({"resolve": brings("from.mapping")})
    assert registry.pending == 5
    load(registry)
    assert registry.names() == ("from.callable", "from.coroutine", "from.mapping", "from.object", "from.plain")
    assert registry.warnings == []


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    ("what", "words"),
    [
        (load, "parameter 'registry' of 'load' has no JSON Schema"),
        (object, "'builtins.object' is a class"),
        (print, "takes \\*args"),
        (lambda: None, "A lambda has no name"),
        (partial(answer, {}), "is a callable object. Register a function"),
        (42, "int cannot be registered"),
        (None, "NoneType cannot be registered"),
        (b"x", "bytes cannot be registered"),
        (Path("x"), "cannot be registered"),
        ({"resolve": 1}, "must be a function, not int"),
        ({"resolve": print, "name": "x"}, "no field 'name'"),
        ({"resolve": print, "timeout": 0}, "above 0, not 0"),
        ({"resolve": print, "timeout": True}, "above 0, not True"),
        ({"resolve": print, "timeout": float("nan")}, "above 0, not nan"),
        ({"resolve": print, "timeout": "5"}, "above 0, not '5'"),
        ({"name": "x", "exceute": None}, "no field 'exceute'"),
    ],
)
def test_anything_else_is_refused_with_a_hint(what: object, words: str) -> None:
    registry = Registry()
    with pytest.raises(ToolError, match=words):
        registry.register(what)
    assert registry.list() == () and registry.ready


@pytest.mark.spec("R11")
def test_registering_a_function_makes_it_a_tool_and_does_not_run_it() -> None:
    ran: list[Any] = []

    def transfer(to: str, amount: float) -> str:
        """Send money."""
        ran.append((to, amount))
        return "sent"

    async def wipe(first: Any, second: Any) -> None:
        ran.append((first, second))

    def defaults(env: str = "prod", force: bool = False) -> None:
        ran.append(env)

    async def registered() -> Registry:
        registry = Registry()
        for function in (transfer, wipe, defaults):
            registry.register(function)
        await asyncio.wait_for(registry.wait_ready(), 60)
        return registry

    registry = asyncio.run(registered())
    assert ran == [] and registry.warnings == []
    assert registry.names() == ("defaults", "transfer", "wipe")
    made = registry.get("transfer")
    assert made is not None
    assert (made.description, made.input_schema["required"], made.effects) == ("Send money.", ["to", "amount"], None)


@pytest.mark.spec("R11", "R1")
def test_a_helper_called_resolve_does_not_make_a_module_a_source(module: Callable[[str, str], str]) -> None:
    body = "ran = []\ndef resolve(host, port):\n    ran.append(host)\ndefinitions = [{'name': 'm.a'}]"
    registry = Registry()
    registry.register(module("helper", body))
    assert registry.names() == ("m.a",) and registry.ready
    with pytest.raises(ToolError, match=r"or export `definitions` or `resolve\(register, done\)`"):
        registry.register(module("alone", "def resolve(host, port): 1 / 0"))


@pytest.mark.spec("R11", "R1")
def test_an_object_with_a_different_resolve_is_not_a_source() -> None:
    ran: list[str] = []

    class Names:
        def resolve(self, host: str, port: int) -> None:
            ran.append(host)

    registry = Registry()
    with pytest.raises(ToolError, match=r"Names' does not take \(register, done\), so .* Register its methods"):
        registry.register(Names())
    registry.register(Names().resolve)
    assert registry.names() == ("resolve",) and ran == []


@pytest.mark.spec("R1")
def test_a_function_is_not_a_definition() -> None:
    registry = Registry()
    with pytest.raises(ToolError, match="Use @tool to make a tool from a function"):
        registry.register("mine", len)
    with pytest.raises(ToolError, match="must be a string, not int"):
        registry.register(3, {})


@pytest.mark.spec("R1", "P2")
def test_a_tool_name_cannot_have_the_group_prefix() -> None:
    registry = Registry()
    with pytest.raises(InvalidName, match="prefix of groups"):
        registry.register({"name": "group:fs"})
