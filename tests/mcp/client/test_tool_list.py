"""One tool that is no tool: it is left out with a warning that names it, and its server stays."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import Config, Runtime
from holdfast.config.config import ApprovalConfig, McpServer, ToolsConfig
from holdfast.mcp.client.bridge import Bridge
from holdfast.runtime.workspace import Workspace
from tests.mcp.client.stdio_fixtures import SERVER
from tests.runtime.support import run

OBJECT = {"type": "object"}


def nested(depth: int, key: str = "not") -> Any:
    """Written by hand: `json` would not go that deep."""
    return Raw(f'{{"{key}":' * depth + "{}" + "}" * depth)


class Raw(str):
    """Text that is JSON already."""

    __slots__ = ()


BAD: dict[str, Any] = {
    "schema: a text": {"inputSchema": "object"},
    "schema: a list": {"inputSchema": []},
    "schema: null": {"inputSchema": None},
    "schema: a boolean": {"inputSchema": True},
    "schema: a number": {"inputSchema": 1},
    "schema: missing": {"inputSchema": ...},
    "schema: not of an object": {"inputSchema": {"type": "string"}},
    "schema: an unknown type": {"inputSchema": {"type": "objekt"}},
    "schema: type is a number": {"inputSchema": {"type": 5}},
    "schema: properties is a list": {"inputSchema": {"type": "object", "properties": []}},
    "schema: properties is a text": {"inputSchema": {"type": "object", "properties": "x"}},
    "schema: a property is a text": {"inputSchema": {"type": "object", "properties": {"x": "string"}}},
    "schema: required is a text": {"inputSchema": {"type": "object", "required": "x"}},
    "schema: a negative bound": {"inputSchema": {"type": "object", "properties": {"x": {"minLength": -1}}}},
    "schema: a broken pattern": {"inputSchema": {"type": "object", "properties": {"x": {"pattern": "("}}}},
    "schema: a remote reference": {"inputSchema": {"type": "object", "$ref": "https://example.org/x.json"}},
    "schema: a file": {"inputSchema": {"type": "object", "properties": {"x": {"$ref": "file:///etc/passwd"}}}},
    "schema: a reference to nothing": {"inputSchema": {"type": "object", "$ref": "#/$defs/none"}},
    "schema: an unknown metaschema": {"inputSchema": {"type": "object", "$schema": "https://example.org/meta"}},
    "schema: $schema is a number": {"inputSchema": {"type": "object", "$schema": 5}},
    "schema: $defs is a list": {"inputSchema": {"type": "object", "$defs": []}},
    "schema: $id is no address": {"inputSchema": {"type": "object", "$id": "::::"}},
    "schema: too large": {"inputSchema": {"type": "object", "description": "x" * 300_000}},
    "schema: explodes": {
        "inputSchema": {
            "type": "object",
            "$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 10} for n in range(20)} | {"a20": {}},
            "$ref": "#/$defs/a0",
        }
    },
    "schema: 300 levels": {"inputSchema": nested(300)},
    "schema: 900 levels": {"inputSchema": nested(900)},
    "schema: 5000 levels": {"inputSchema": nested(5000, "items")},
    "schema: 100000 levels": {"inputSchema": nested(100_000)},
    "schema: a header annotation": {
        "inputSchema": {"type": "object", "properties": {"x": {"type": "object", "x-mcp-header": "a b"}}}
    },
    "output: a text": {"outputSchema": "object"},
    "output: a list": {"outputSchema": []},
    "output: an unknown type": {"outputSchema": {"type": "objekt"}},
    "output: a remote reference": {"outputSchema": {"type": "object", "$ref": "https://example.org/x.json"}},
    "output: 900 levels": {"outputSchema": nested(900)},
    "description: a number": {"description": 5},
    "description: a list": {"description": ["x"]},
    "title: an object": {"title": {}},
    "annotations: a list": {"annotations": []},
    "annotations: a text for a boolean": {"annotations": {"destructiveHint": "perhaps"}},
    "annotations: 900 levels": {"annotations": {"x": nested(900)}},
    "icons: a text": {"icons": "x"},
    "meta: a text": {"_meta": "x"},
    "execution: a text": {"execution": "x"},
    "name: a number": {"name": 5},
    "name: missing": {"name": ...},
    "name: null": {"name": None},
    "name: an object": {"name": {}},
    "name: empty": {"name": ""},
    "name: blanks": {"name": "a b"},
    "name: control characters": {"name": "do\x1b[31mit"},
    "name: very long": {"name": "x" * 5000},
    "name: of another tool": {"name": "first"},
    "name: of another but for case": {"name": "FIRST"},
    "schema: Infinity": {"inputSchema": {"type": "object", "properties": {"x": {"default": float("inf")}}}},
    "schema: NaN": {"inputSchema": {"type": "object", "properties": {"x": {"default": float("nan")}}}},
    "schema: a number beyond all": {"inputSchema": {"type": "object", "default": Raw("1e999")}},
    "schema: a number of many digits": {"inputSchema": {"type": "object", "default": Raw("9" * 5000)}},
    "description: half a character": {"description": Raw(r'"a \ud800 b"')},
    "description: no UTF-8": {"description": Raw('"a \udcff b"')},
    "description: a line break": {"description": Raw('"a \x01 b"'), "inputSchema": 5},
    "name: half a character": {"name": Raw(r'"do\udfff"')},
    "key: half a character": {"inputSchema": {"type": "object", "properties": {"x": Raw(r'{"\ud800": {}}')}}},
    "Infinity": Raw("-Infinity"),
    "a text": "tool",
    "null": None,
    "a number": 5,
    "a list": [],
    "an empty object": {},
}  # fmt: skip
HARMLESS = {"schema: a header annotation", "schema: $id is no address", "schema: not of an object", "title: an object"}
"""Some version of the protocol, or of JSON Schema, allows it, so that it may be left out or not."""

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import hostile_server as it
page = open({page!r}, "rb").read()
it.tools = None
def main():
    import json
    for line in sys.stdin.buffer:
        request = json.loads(line)
        method = request.get("method")
        if method == "initialize":
            it.greet(request)
        elif method == "tools/list":
            it.write(b'{{"jsonrpc":"2.0","id":%d,"result":{{"tools":' % request["id"] + page + b"}}}}\\n")
        elif method == "tools/call":
            it.text(request)
        elif "id" in request:
            it.say(id=request["id"], error={{"code": -32601, "message": "no such method"}})
main()
"""


def encoded(value: Any) -> str:
    if isinstance(value, Raw):
        return value
    if isinstance(value, dict):
        fields = {key: item for key, item in cast(dict[str, Any], value).items() if item is not ...}
        return f"{{{','.join(f'{json.dumps(key)}:{encoded(item)}' for key, item in fields.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(encoded, cast(list[Any], value)))}]"
    return json.dumps(value)


def made(name: str, given: Any) -> Any:
    fields: Any = {"name": name, "inputSchema": OBJECT}
    return cast(Any, given) if not isinstance(given, dict) or not given else fields | given


def serving(folder: Path, tools: list[Any]) -> Path:
    folder.mkdir()
    (folder / "page").write_bytes(encoded(tools).encode("utf-8", "surrogateescape"))
    (folder / SERVER.name).write_text(SERVER.read_text())
    (folder / "server.py").write_text(PROGRAM.format(folder=str(folder), page=str(folder / "page")))
    return folder


async def served(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Names that are registered, what calls of them say, and the warnings."""
    server = McpServer(command=sys.executable, args=(str(folder / "server.py"),), cwd=str(folder))
    runtime = Runtime(
        config=Config(tools=ToolsConfig(profile="full"), approval=ApprovalConfig(auto_approve=("mcp:*",))),
        workspace=Workspace(root=folder, state=folder.with_name("project-state")),
    )
    bridge = Bridge(runtime, {"odd": server}, pins=None, state=None)
    bridge.attach()
    async with runtime:
        await runtime.pipeline.wait_for_sources()
        names = [name for name in runtime.registry.names() if name.startswith("mcp:odd:")]
        results = await asyncio.gather(*(runtime.call(f"mcp:odd:{name}") for name in ("first", "last")))
        assert bridge.status()[0].state == "ready", bridge.status()
        return names, [result.output for result in results], list(runtime.warnings())


@pytest.mark.spec("K1", "R5")
@pytest.mark.parametrize("what", BAD)
def test_one_bad_tool_is_left_out_by_name_and_the_others_work(tmp_path: Path, what: str) -> None:
    bad = made("bad", BAD[what])
    tools = [made("first", {"description": "One."}), bad, made("last", {"description": "Two."})]
    names, said, warnings = run(served(serving(tmp_path / "project", tools)), 60)
    assert said == ["done", "done"]
    if what in HARMLESS:
        return
    assert names == ["mcp:odd:first", "mcp:odd:last"]
    assert len(warnings) == 1, warnings
    shown: Any = cast(dict[str, Any], bad).get("name") if isinstance(bad, dict) else None
    is_name = isinstance(shown, str) and not isinstance(shown, Raw) and shown.isprintable()
    named = cast(str, shown)[:20] if is_name else ""
    assert "left out" in warnings[0] and named in warnings[0], warnings
    assert warnings[0].isprintable() and len(warnings[0]) < 700


@pytest.mark.spec("K1", "R5")
def test_all_kinds_of_bad_tools_at_once_leave_the_good_ones(tmp_path: Path) -> None:
    tools = [made("first", {"title": "x"}), *(made(f"bad{n}", one) for n, one in enumerate(BAD.values()))]
    tools.append(made("last", {"title": "x"}))
    names, said, warnings = run(served(serving(tmp_path / "project", tools)), 60)
    assert {"mcp:odd:first", "mcp:odd:last"} <= set(names) and said == ["done", "done"]
    assert len(names) <= 2 + len(HARMLESS)
    assert len(warnings) == 20 and "More tools" in warnings[-1]


PAGES = """
import json, sys
sys.path.insert(0, {folder!r})
import hostile_server as it
def tool(name, size=0):
    return {{"name": name, "description": "x" * size, "inputSchema": {{"type": "object"}}}}
for line in sys.stdin.buffer:
    request = json.loads(line)
    method, params = request.get("method"), request.get("params") or {{}}
    if method == "initialize":
        it.greet(request)
    elif method == "tools/list" and "cursor" in params:
        it.say(id=request["id"], result={{"tools": [tool("big", 30_000_000)]}})
    elif method == "tools/list":
        it.say(id=request["id"], result={{"tools": [tool("first"), tool("last")], "nextCursor": "2"}})
    elif method == "tools/call":
        it.text(request)
"""


@pytest.mark.spec("K1", "R5")
def test_a_page_that_is_too_long_costs_its_own_tools_and_no_others(tmp_path: Path) -> None:
    folder = serving(tmp_path / "project", [])
    (folder / "server.py").write_text(PAGES.format(folder=str(folder)))
    names, said, warnings = run(served(folder), 60)
    assert (names, said) == (["mcp:odd:first", "mcp:odd:last"], ["done", "done"])
    assert len(warnings) == 1 and "is too long: its first 2 tools are used" in warnings[0], warnings


@pytest.mark.spec("K1", "R5")
def test_a_list_of_one_page_that_is_too_long_names_the_limit(tmp_path: Path) -> None:
    folder = serving(tmp_path / "project", [made("first", {"description": "x" * 30_000_000})])
    server = McpServer(command=sys.executable, args=(str(folder / "server.py"),), cwd=str(folder))

    async def go() -> None:
        async with Runtime(workspace=Workspace(root=folder, state=folder.with_name("project-state"))) as runtime:
            bridge = Bridge(runtime, {"odd": server}, pins=None, state=None)
            bridge.attach()
            await runtime.pipeline.wait_for_sources()
            assert "the answer is a line of more than 16 MiB" in bridge.status()[0].reason

    run(go(), 60)
