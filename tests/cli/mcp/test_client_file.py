"""Editing a client's configuration file: only our entry changes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.mcp.client_file import Jsonc, NotJsonc, get_entry, set_entry
from holdfast.contract.json import Json

SECTION, NAME = "servers", "holdfast"
ENTRY: dict[str, Json] = {"command": "/bin/holdfast", "args": ["-C", "a b", "mcp"]}

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=6)
keys = st.text(max_size=4)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2), max_leaves=4
)
gaps = st.lists(
    st.one_of(
        st.sampled_from([" ", "\n", "\t", "\r\n", "\r", "    "]),
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8).map(lambda text: f"//{text}\n"),
        st.text(st.characters(codec="utf-8", exclude_characters="*"), max_size=8).map(lambda text: f"/*{text}*/"),
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8).map(lambda text: f"//{text}\r"),
    ),
    max_size=2,
).map("".join)


@st.composite
def written(draw: st.DrawFn, value: Json) -> str:
    """Render a value with comments and blanks anywhere, and with trailing commas."""
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}{draw(gaps)}:{draw(gaps)}{draw(written(item))}" for key, item in value.items()]
    elif isinstance(value, list):
        items = [draw(written(item)) for item in value]
    else:
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    inner = "".join(f"{draw(gaps)}{item}{draw(gaps)}," for item in items)
    if items and draw(st.booleans()):
        inner = inner[:-1]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}{inner}{draw(gaps)}{last}"


@st.composite
def files(draw: st.DrawFn) -> tuple[dict[str, Json], str]:
    value = draw(st.dictionaries(keys, values, max_size=3))
    if draw(st.booleans()):
        others = draw(st.dictionaries(keys, values, max_size=2))
        value[SECTION] = others
    else:
        value.pop(SECTION, None)
    text = f"{draw(gaps)}{draw(written(value))}{draw(gaps)}"
    return value, text


@pytest.mark.spec("K3a")
@given(files())
def test_the_entry_is_added_and_every_value_and_every_comment_stays(file: tuple[dict[str, Json], str]) -> None:
    value, text = file
    result = set_entry(text, SECTION, NAME, ENTRY)
    section = value.get(SECTION, {})
    assert isinstance(section, dict)
    after, before = Jsonc(result), Jsonc(text)
    assert after.root is not None
    assert after.root.value == {**value, SECTION: {**section, NAME: ENTRY}}
    assert after.comments == before.comments
    assert get_entry(result, SECTION, NAME) == ENTRY
    assert set_entry(result, SECTION, NAME, ENTRY) == result, "twice is the same as once"
    remaining = iter(result)
    assert all(sign in remaining for sign in text if not sign.isspace()), "nothing that was there is gone"


@pytest.mark.spec("K3a")
@given(files(), st.dictionaries(keys, values, max_size=2))
def test_an_entry_that_is_there_is_replaced_and_nothing_else(
    file: tuple[dict[str, Json], str], other: dict[str, Json]
) -> None:
    once = set_entry(file[1], SECTION, NAME, other)
    found = Jsonc(once).root
    assert found is not None
    result = set_entry(once, SECTION, NAME, ENTRY)
    new = Jsonc(result)
    assert new.root is not None
    assert isinstance(found.value, dict)
    section = found.value[SECTION]
    assert isinstance(section, dict)
    assert new.root.value == {**found.value, SECTION: {**section, NAME: ENTRY}}
    assert new.comments == Jsonc(once).comments


@pytest.mark.spec("K3a")
def test_the_entry_has_the_layout_of_the_file() -> None:
    tabs = '{\n\t// mine\n\t"servers": {\n\t\t"other": {} // keep\n\t}\n}\n'
    assert set_entry(tabs, SECTION, NAME, {"command": "x"}) == (
        '{\n\t// mine\n\t"servers": {\n\t\t"other": {}, // keep\n'
        '\t\t"holdfast": {\n\t\t\t"command": "x"\n\t\t}\n\t}\n}\n'
    )
    four = '{\r\n    "a": 1,\r\n}\r\n'
    assert set_entry(four, SECTION, NAME, {"command": "x"}) == (
        '{\r\n    "a": 1,\r\n    "servers": {\r\n        "holdfast": {\r\n'
        '            "command": "x"\r\n        }\r\n    },\r\n}\r\n'
    )
    assert set_entry('{"a":1}', SECTION, NAME, {"command": "x"}) == '{"a":1, "servers": {"holdfast": {"command": "x"}}}'
    assert set_entry("", SECTION, NAME, {"command": "x"}) == (
        '{\n  "servers": {\n    "holdfast": {\n      "command": "x"\n    }\n  }\n}\n'
    )
    assert set_entry("// only words\n", SECTION, NAME, {}).startswith('// only words\n{\n  "servers"')
    assert set_entry("\ufeff{}", SECTION, NAME, {}).startswith("\ufeff{")


@pytest.mark.spec("K3a")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1, column 2: expected a name in double quotes"),
        ('{"a": 1\n "b": 2}', "line 2, column 2: expected a comma or }"),
        ("[1]", "it is not an object"),
        ('{"servers": null}', '"servers" is not an object'),
        ('{"servers": {}, "servers": {}}', 'it has "servers" 2 times'),
        ("{'a': 1}", "expected a name in double quotes"),
        ("{} {}", "expected the end of the file"),
        ('{"a": 01}', "expected a comma or }"),
        ('{"a": /* open }', "expected a value"),
        ('{"a": ,}', "expected a value"),
        ("{,}", "expected a name in double quotes"),
        ("[" * 10_000, "nested more than 200 deep"),
        ('{"a": ' + "9" * 5_000 + "}", "the number is too long"),
    ],
)
def test_invalid_jsonc_is_not_edited(text: str, why: str) -> None:
    with pytest.raises(NotJsonc) as caught:
        set_entry(text, SECTION, NAME, ENTRY)
    assert why in str(caught.value)


@given(st.dictionaries(keys, values, max_size=3), st.data())
def test_other_members_of_the_entry_stay_byte_for_byte(more: dict[str, Json], data: st.DataObject) -> None:
    theirs = {key: data.draw(written(value)) for key, value in more.items() if key not in ("command", "args", "url")}
    members = ['"url": "x"', *(f"{json.dumps(key)}: {text}" for key, text in theirs.items())]
    joint = data.draw(st.sampled_from([", ", ",\n    "]))
    text = f'{{"{SECTION}": {{"{NAME}": {{{joint.join(members)}}}}}}}'
    after = set_entry(text, SECTION, NAME, ENTRY, ours=("command", "args", "url"))
    assert all(f"{json.dumps(key)}: {source}" in after for key, source in theirs.items())
    assert get_entry(after, SECTION, NAME) == {**ENTRY, **{key: parsed(source) for key, source in theirs.items()}}
    assert set_entry(after, SECTION, NAME, ENTRY, ours=("command", "args", "url")) == after


def parsed(text: str) -> Json:
    root = Jsonc(text).root
    assert root is not None
    return root.value
