from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest

from holdfast.config.config import Config, effective_options
from holdfast.config.json_schema import json_schema, with_tables
from holdfast.config.options import Section, TrustRule, all_options, is_section, options
from tests.config.conftest import LoadHere, Write
from tests.config.layer_strategies import to_toml

DOCS = Path(__file__).parents[2] / "docs" / "config.md"
SNIPPETS = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)
validator = jsonschema_rs.validator_for(json_schema())

FULL: dict[str, Any] = {
    "tools": {
        "profile": "full",
        "allow": {"append": ["web.*"], "$remove": "x"},
        "agents": {"bot": {"profile": "minimal", "deny": {"prepend": "y"}}},
        "config": {"shell.exec": {"shell": "zsh", "n": [1, 2]}},
        "skills": {"s": "/skills/s"},
    },
    "approval": {"auto_approve": ["$default"], "presets": {"$mine": {"approve": ["a"]}}, "max_risk": "low"},
    "confirmation": {"actions": {"file.*": "confirm"}},
    "sandbox": {"network": ["a.example"], "mode": "required"},
    "output": {"max_output_bytes": 10},
    "mcp": {
        "servers": {
            "files": {"command": "serve", "args": ["-v", "-v"], "network": "off", "writable": []},
            "far": {
                "url": "https://far.example/mcp",
                "headers": {"X": "1"},
                "oauth": {"scopes": ["read"]},
                "include": {"append": ["a"], "remove": "*"},
            },
        }
    },
    "secrets": {"token": {"env": "TOKEN"}},
    "protected": ["infra"],
}
WRONG: list[dict[str, Any]] = [
    {"tolls": {}},
    {"tools": {"profile": "most"}},
    {"tools": {"default_timeout": 0}},
    {"tools": {"allow": "x"}},
    {"tools": {"allow": {"add": ["x"]}}},
    {"tools": {"allow": {}}},
    {"tools": {"agents": {"bot": {"narrow": []}}}},
    {"approval": {"auto_approve": "$default"}},
    {"approval": {"presets": {"mine": {}}}},
    {"mcp": {"servers": {"a b": {"command": "c"}}}},
    {"mcp": {"servers": {"a\n": {"command": "c"}}}},
    {"mcp": {"servers": {"a": {"command": "c", "url": "https://a.example"}}}},
    {"mcp": {"servers": {"a": {"url": "ftp://a.example"}}}},
    {"mcp": {"servers": {"a": {"command": "c", "args": {"append": ["x"]}}}}},
    {"mcp": {"servers": {"a": {"url": "https://a.example", "oauth": {"scopes": {"append": ["x"]}}}}}},
    {"mcp": {"servers": {"a": {"command": "c", "include": {}}}}},
    {"secrets": {"x": {}}},
    {"secrets": {"x": {"env": "A", "keyring": "b/c"}}},
    {"protected": [""]},
    *({"tools": {"narrow": []}}, {"approval": {"narrow": []}}, {"approval": {"removed": []}}),
    *({"approval": {"excluded": []}}, {"approval": {"importable": []}}),
]


@pytest.mark.spec("E1a")
def test_the_schema_accepts_what_load_accepts(load_here: LoadHere, write_user: Write) -> None:
    assert [str(error) for error in validator.iter_errors(FULL)] == []
    write_user(to_toml(FULL))
    assert load_here().config.tools.profile == "full"
    function = {"approval": {"auto_approve": "pkg.mod:func"}}
    assert validator.is_valid(function) and load_here(flags=function)


@pytest.mark.spec("E1a")
@pytest.mark.parametrize("table", WRONG, ids=[json.dumps(table) for table in WRONG])
def test_the_schema_refuses_what_load_refuses(load_here: LoadHere, table: dict[str, Any]) -> None:
    from holdfast.contract.errors import ConfigError

    assert not validator.is_valid(table)
    with pytest.raises(ConfigError):
        load_here(flags=table)


@pytest.mark.spec("E1a")
def test_the_schema_describes_every_option_and_hides_computed_ones() -> None:
    schema = json_schema()
    jsonschema_rs.meta.validate(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for definition in (schema, *schema["$defs"].values()):
        for name, option in definition.get("properties", {}).items():
            assert definition["title"] == "List operations" or option["description"], name
    computed = {name for shape in Section.__subclasses__() for name in all_options(shape).keys() - options(shape)}
    assert computed == {"narrow", "source", "excluded", "removed", "importable"}
    assert schema["$defs"]["OutputConfig"]["properties"]["max_bytes"]["default"] == 51200


@pytest.mark.spec("E1a")
def test_the_tables_of_the_reference_are_up_to_date() -> None:
    text = DOCS.read_text()
    assert with_tables(text) == text, "run `python -m holdfast.config.json_schema docs/config.md`"
    assert [path for path in effective_options(Config()) if f"`{path}`" not in text] == []


@pytest.mark.spec("E1a")
@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_every_snippet_of_the_reference_loads(load_here: LoadHere, write_user: Write, snippet: str) -> None:
    write_user(snippet)
    assert load_here().layers[0].applied
    assert validator.is_valid(tomllib.loads(snippet))


@pytest.mark.spec("E1a")
def test_every_field_of_the_configuration_is_documented_and_every_option_has_a_trust_rule() -> None:
    for shape in Section.__subclasses__():
        assert [name for name, option in all_options(shape).items() if not option.doc] == [], shape
    for section in options(Config).values():
        for option in options(section.kind).values() if is_section(section.kind) else [section]:
            assert any(isinstance(note, TrustRule) for note in get_args(option.field.type)), option.name


@pytest.mark.spec("E1a")
def test_importing_the_configuration_imports_nothing_heavy() -> None:
    script = (
        "import sys, holdfast.config.layers, holdfast.fs.protected_paths, holdfast.fs.paths\n"
        "print([name for name in ('pydantic', 'anyio', 'asyncio', 'tomllib', 'shlex', 'difflib', 'click', 'rich')"
        " if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "[]\n"
