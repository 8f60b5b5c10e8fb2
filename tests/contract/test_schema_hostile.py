"""Hostile schemas and hostile arguments: remote references, exponential expansion, ReDoS, size, cost."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import suppress
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.errors import InvalidArguments, InvalidSchema
from holdfast.contract.schema import CompiledSchema, compile_schema
from holdfast.contract.tool import Tool, define
from tests.quick import quickly
from tests.soak import rounds


def compiled(**properties: Any) -> CompiledSchema:
    return compile_schema({"type": "object", "properties": properties}, "The schema")


def refusal(schema: Any) -> str:
    with quickly(), pytest.raises(InvalidSchema) as caught:
        compile_schema(schema, "The schema")
    message = str(caught.value)
    assert message.startswith("The schema ")
    assert message.endswith(".")
    assert len(message) < 500
    assert "\n" not in message
    return message


def violations(schema: CompiledSchema, args: Any) -> tuple[str, ...]:
    with quickly(), pytest.raises(InvalidArguments) as caught:
        schema.validate(args)
    assert len(str(caught.value)) < 3000
    return caught.value.violations


# ---- schemas


class Asked(BaseHTTPRequestHandler):
    paths: list[str] = []

    def do_GET(self) -> None:
        Asked.paths.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args: Any, **kwargs: Any) -> None:
        pass


@pytest.fixture
def address() -> Generator[str]:
    Asked.paths.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(60)
    server.server_close()


@pytest.mark.spec("S5")
def test_a_remote_reference_is_refused_and_not_fetched(address: str) -> None:
    for schema in (
        {"$ref": f"{address}/a.json"},
        {"properties": {"a": {"$ref": f"{address}/b.json#/x"}}},
        {"properties": {"a": {"$dynamicRef": f"{address}/c.json"}}},
        {"allOf": [{"if": {"$ref": f"{address}/d.json"}}]},
        {"$schema": f"{address}/e.json"},
        {"$id": f"{address}/f.json", "properties": {"a": {"$ref": "g.json"}}},
        {"$defs": {"unused": {"$ref": f"{address}/h.json"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": {"$ref": f"{address}/i.json"}},
    ):
        assert address in refusal({"type": "object", **schema})
    compile_schema({"$id": f"{address}/j.json", "type": "object"}, "The schema").validate({"a": 1})
    assert Asked.paths == []


@pytest.mark.spec("S5")
def test_a_reference_to_a_file_is_refused_even_if_the_file_is_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"type": "string"}')
    for reference in (f"file://{path}", f"file:{path}", str(path)):
        assert "is not fetched" in refusal({"type": "object", "properties": {"a": {"$ref": reference}}})


def test_a_reference_to_a_provided_schema_is_followed() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "https://example.org/word"}}}
    with_word = compile_schema(schema, "The schema", resources={"https://example.org/word": {"type": "string"}})
    assert with_word.accepts({"a": "x"})
    assert not with_word.accepts({"a": 1})


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"type": "object", "allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$dynamicAnchor": "x", "$dynamicRef": "#x"},
        {"properties": {"a": {"$ref": "#"}}},
        {"$defs": {"n": {"properties": {"a": {"allOf": [{"$ref": "#/$defs/n"}] * 2}}}}, "$ref": "#/$defs/n"},
    ],
)
def test_reference_cycles_terminate(schema: dict[str, Any]) -> None:
    deep: dict[str, Any] = {"a": {}}
    for _ in range(150):
        deep = {"a": deep}
    with quickly():
        assert compile_schema(schema, "The schema").validate(deep) is deep


@pytest.mark.spec("S5")
@pytest.mark.parametrize("how", ["pointer", "anchor", "id"])
def test_references_that_expand_exponentially_are_refused(how: str) -> None:
    names = {"pointer": "#/$defs/d{}", "anchor": "#d{}", "id": "urn:d{}"}
    keys = {"pointer": "$comment", "anchor": "$anchor", "id": "$id"}
    definitions: dict[str, Any] = {
        f"d{level}": {
            keys[how]: f"d{level}" if how != "id" else f"urn:d{level}",
            "allOf": [{"$ref": names[how].format(level + 1)}] * 2,
        }
        for level in range(40)
    }
    definitions["d40"] = {keys[how]: "d40" if how != "id" else "urn:d40", "type": "object"}
    schema = {"$ref": names[how].format(0), "$defs": definitions}
    assert "more than 100,000 subschemas" in refusal(schema)


@pytest.mark.spec("S5")
def test_a_schema_that_is_too_large_too_deep_or_cyclic_is_refused() -> None:
    assert "at most 1,048,576" in refusal({"type": "object", "description": "x" * 10_000_000})
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"properties": {"a": deep}}
    assert "nested more than 200 levels deep" in refusal(deep)
    loop: dict[str, Any] = {"type": "object"}
    loop["properties"] = {"a": loop}
    assert "nested more than 200 levels deep" in refusal(loop)


@pytest.mark.spec("S5")
def test_ten_thousand_alternatives_are_checked_and_explained_quickly() -> None:
    forms = [{"type": "object", "properties": {"k": {"const": n}}, "required": ["k"]} for n in range(10_000)]
    with quickly():
        schema = compiled(a={"type": "array", "items": {"oneOf": forms}})
        assert schema.accepts({"a": [{"k": 9_999}]})
    found = violations(schema, {"a": [{"k": -1}] * 100})
    assert found[0].startswith("a[0] is an object but must be one whose k must be 0 or one whose k must be 1 or ")


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("pattern", "refused"),
    [
        ("(", True),
        ("[z-a]", True),
        ("((a{1,100}){1,100}){1,100}", True),
        ("^(a+)+$", False),
        ("^(a|a)*(?=b)b$", False),
        (r"^(a|aa)+\1$", False),
        (r"^((a+)+)+\2b$", False),
    ],
)
def test_a_catastrophic_pattern_is_refused_or_bounded(pattern: str, refused: bool) -> None:
    if refused:
        assert "properties.a.pattern" in refusal({"type": "object", "properties": {"a": {"pattern": pattern}}})
        return
    schema = compiled(a={"type": "string", "pattern": pattern})
    for length in (34, 5_000, 100_000):
        with quickly(1):
            found = violations(schema, {"a": "a" * length + "!"})
        assert found[0].startswith("a is ")
        assert "match" in found[0]


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"type": 5},
        {"properties": []},
        {"required": "a"},
        {"minimum": "1"},
        {"$ref": 5},
        {"$ref": "#/nowhere"},
        {"$schema": "nonsense"},
        {"items": "string"},
        {"default": float("nan")},
        {"default": object()},
        {"enum": [{1: 2}]},
        {"title": "\ud800"},
    ],
)
def test_an_invalid_schema_is_refused(schema: dict[str, Any]) -> None:
    refusal({"type": "object", **schema})


@pytest.mark.parametrize("schema", [None, True, False, [], "object", 5, b"{}"])
def test_a_tool_schema_must_be_an_object(schema: Any) -> None:
    assert "must be a JSON object" in refusal(schema)


@pytest.mark.spec("S5")
def test_a_tool_with_an_invalid_schema_is_never_created() -> None:
    with pytest.raises(InvalidSchema, match="The input schema of 'x' cannot be used"):
        Tool(name="x", input_schema={"type": "object", "properties": {"a": {"pattern": "("}}})
    with pytest.raises(InvalidSchema, match="The output schema of 'x' cannot be used"):
        define(name="x", output_schema={"$ref": "file:///etc/passwd"})


KEYWORDS = st.sampled_from(
    ["type", "properties", "items", "anyOf", "$ref", "enum", "required", "pattern", "minimum", "$id", "$defs", "x"]
)
WORDS = st.sampled_from(["object", "#", "#/x", "(", "string", "\ud800"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.spec("S5")
@settings(max_examples=rounds(60, 300), deadline=None)
@given(st.dictionaries(KEYWORDS, VALUES, max_size=5), VALUES)
def test_any_schema_and_any_arguments_give_a_value_or_a_holdfast_error(schema: dict[str, Any], args: Any) -> None:
    before = deepcopy(args)
    with suppress(InvalidSchema, InvalidArguments):
        compile_schema(schema, "The schema").validate(args)
    assert repr(args) == repr(before)


# ---- arguments


@pytest.mark.spec("S5")
def test_a_million_violations_are_reported_in_bounded_time() -> None:
    numbers = compiled(a={"type": "array", "items": {"type": "integer"}})
    assert violations(numbers, {"a": ["x"] * 1_000_000}) == ("a[0] is 'x' but must be integer", "there may be more")
    closed = compile_schema({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, "The schema")
    assert violations(closed, {f"k{number}": 1 for number in range(300_000)})[1] == "there may be more"


@pytest.mark.spec("S1", "S5")
def test_a_huge_argument_is_named_but_not_quoted_in_full() -> None:
    schema = compiled(a={"type": "integer"}, b={"enum": ["x"]})
    with quickly():
        found = violations(schema, {"a": "9" * 100_000_000, "b": "y" * 1_000})
    assert [len(sentence) < 200 for sentence in found] == [True, True]
    assert "(100,000,000 characters) but must be integer" in found[0]


# ---- schemas of strangers

EVIL = r"^(a*)*\1x$"
MANY: dict[str, Any] = {"items": {"allOf": [{"type": "integer"}] * 10_000}}


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("part", "value"),
    [
        (MANY, list(range(200_000))),
        ({"items": {"anyOf": [{"pattern": EVIL}, {}]}}, ["a" * 40 + "!"] * 20_000),
        ({"items": {"anyOf": [{"$ref": "#/$defs/evil"}, {}]}}, ["a" * 40 + "!"] * 20_000),
        ({"patternProperties": {f"{EVIL}{n}": True for n in range(9)}}, {"a" * 40 + str(n): 1 for n in range(200)}),
        ({"allOf": [{"pattern": f"(a|b)*c{n}"} for n in range(1_000)]}, "ab" * 1_000_000),
    ],
)
def test_arguments_that_are_too_expensive_for_an_untrusted_schema_are_refused_unchecked(part: Any, value: Any) -> None:
    schema = {"type": "object", "properties": {"a": part}, "$defs": {"evil": {"pattern": EVIL}}}
    foreign = compile_schema(schema, "The schema", untrusted=True)
    with quickly(1):
        assert not foreign.is_affordable({"a": value})


@pytest.mark.spec("S5")
def test_only_untrusted_schemas_refuse_expensive_arguments() -> None:
    schema = {"type": "object", "properties": {"a": {"items": {"allOf": [{"type": "integer"}] * 2_000}}}}
    numbers: Any = {"a": list(range(10_000))}
    found = violations(compile_schema(schema, "The schema", untrusted=True), numbers)
    assert found == ("they are too large to be checked against a schema of this size",)
    assert compile_schema(schema, "The schema").validate(numbers) is numbers


@pytest.mark.spec("S5")
def test_large_but_ordinary_values_are_affordable() -> None:
    issue = {"type": "object", "properties": {f"field{n}": {"type": "string"} for n in range(30)}}
    listed = {"type": "object", "properties": {"issues": {"type": "array", "items": issue}}}
    issues = compile_schema(listed, "The schema")
    assert issues.is_affordable({"issues": [{f"field{n}": "some words" for n in range(30)}] * 5_000})
    relative = {"type": "object", "properties": {"path": {"pattern": "^(?!/)"}, "text": {}}}
    checked = compile_schema(relative, "The schema")
    assert checked.is_affordable({"path": "a/b", "text": "x" * 4_000_000, "more": list(range(500))})
